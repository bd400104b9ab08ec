//! The Redis protocol as a client sees it: a server in this process, raw bytes over real sockets, and a clock
//! that only the test moves.

mod commands;
mod connections;
mod node;
mod pipelines;
mod wrong_input;
