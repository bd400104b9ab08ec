//! The Redis transport against real servers, and a network that fails between.
//!
//! What the scripts compute is tested elsewhere: here it is whether calls arrive, in time, at the right server,
//! whatever happens to the servers.

mod cluster;
mod connects;
mod faults;
mod sentinel;
mod speed;
mod support;
