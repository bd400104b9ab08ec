//! The binary as its users meet it: a real process, real sockets, real files.
//!
//! Few and whole; what a piece does by itself is tested beside it. Every process is ended by its own handle,
//! and every wait has a deadline.

mod abuse;
mod ask;
mod auth;
mod bad_settings;
mod bench;
mod deploy;
mod documents;
mod envoy;
mod examples;
mod first_hour;
mod first_minute;
mod lines;
mod openapi;
mod resp;
mod restart;
mod rules;
mod secrets;
mod service_example;
mod settings;
mod shutdown;
mod simulate;
mod start;
mod support;
mod tls;
mod top;
mod unauthenticated;
mod unix;
mod unkey;
mod why;
