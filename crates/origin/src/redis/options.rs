//! How long the Redis transport waits and how much it lets wait.
//!
//! Every wait and every queue has its bound here or next to where it is used;
//! nothing may wait without one.

use std::time::Duration;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RedisOptions {
    /// The longest that an exchange, a heartbeat or a reset takes, whatever happens.
    pub call_timeout_ms: u64,
    /// The longest that one attempt to connect takes: name, TCP, TLS, login and loading the scripts.
    pub connect_timeout_ms: u64,
    /// Calls to one shard that wait for their answers; one more fails at once.
    pub calls_in_flight_max: usize,
    /// How often the map of a cluster, or the master of sentinels, is asked for when nothing seems to change.
    pub refresh_every_ms: u64,
}

impl Default for RedisOptions {
    fn default() -> Self {
        RedisOptions {
            call_timeout_ms: 50,
            connect_timeout_ms: 500,
            calls_in_flight_max: 4096,
            refresh_every_ms: 5000,
        }
    }
}

impl RedisOptions {
    pub(super) fn call_timeout(&self) -> Duration {
        Duration::from_millis(self.call_timeout_ms)
    }

    pub(super) fn connect_timeout(&self) -> Duration {
        Duration::from_millis(self.connect_timeout_ms)
    }
}
