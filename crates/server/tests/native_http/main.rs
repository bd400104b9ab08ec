//! The native HTTP interface as a client sees it: a server in this process, raw bytes over real sockets, and
//! a clock that only the test moves.

mod arbitrary_bytes;
mod client;
mod connections;
mod cross_site;
mod decisions;
mod forward_auth;
mod idempotency;
mod node;
mod pages;
mod plain;
mod rules;
mod unkey;
mod unkey_overrides;
mod wrong_http;
mod wrong_requests;
