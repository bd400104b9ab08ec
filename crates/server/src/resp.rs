//! The Redis protocol: `CL.THROTTLE` for whoever has a Redis client already.
//!
//! A warm decision runs in the connection's task: what one read brought is decided at one moment and answered
//! by one write, and allocates nothing. It must never answer out of order, buffer without a bound, or keep
//! memory for a client that is idle.

mod buffers;
mod client;
mod connection;
mod inline;
mod login;
mod number;
mod parse;
mod reply;
mod session;
mod throttle;

pub(crate) use connection::serve;
