//! Real servers and a faulty network for tests and benches: Redis alone, as a cluster and behind sentinels,
//! MariaDB, PostgreSQL, Envoy, a TCP proxy that misbehaves on request, and the clients that others wrote.
//!
//! A mock answers what its author believed; these are the programs that operators run. Each has ports and a
//! directory of its own, and nothing outlives the test process. Never part of what ships: other crates name
//! this one under `[dev-dependencies]` only.
//!
//! Servers run in real time: don't use them in a test with a paused clock.

mod binary;
mod browser;
mod certificates;
mod client;
mod cluster;
mod database;
mod directory;
mod envoy;
mod npm;
mod port;
mod process;
mod proxy;
mod redis;
mod reply;
mod schemathesis;
mod sentinel;
mod server;
mod unkey;
mod wait;
mod wheel;

pub use binary::{RedisBinary, redis_6_2};
pub use browser::browser_for_node;
pub use certificates::{Authority, Issued};
pub use client::RespClient;
pub use cluster::RedisCluster;
pub use database::{MariaDb, Postgres};
pub use directory::Directory;
pub use envoy::envoy;
pub use port::free_port;
pub use process::{Process, guarded};
pub use proxy::{FaultProxy, ProxyCounts, ProxyFault};
pub use redis::{Redis, RedisServerOptions};
pub use reply::RespValue;
pub use schemathesis::schemathesis;
pub use sentinel::Sentinel;
pub use unkey::{unkey_for_node, unkey_for_python};
pub use wait::until;
pub use wheel::wheel;
