//! What the listeners of this process count about themselves. Nothing is dropped silently: each drop has a
//! counter here.
//!
//! One set per process, as there is one `/v1/state`; none of them is touched by a request that succeeds.

use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub connections_refused: Counter,
    pub connections_too_slow: Counter,
    pub accept_failures: Counter,
    pub requests_refused: Counter,
    pub idempotency_forgotten: Counter,
    pub resp_commands_refused: Counter,
    pub tls_handshakes_failed: Counter,
    pub otlp_requests: Counter,
    pub otlp_failures: Counter,
    pub otlp_dropped: Counter,
}

/// A count that nobody waits for.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    const fn new() -> Self {
        Counter(AtomicU64::new(0))
    }

    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn add_one(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

pub(crate) static COUNTERS: Counters = Counters {
    connections_refused: Counter::new(),
    connections_too_slow: Counter::new(),
    accept_failures: Counter::new(),
    requests_refused: Counter::new(),
    idempotency_forgotten: Counter::new(),
    resp_commands_refused: Counter::new(),
    tls_handshakes_failed: Counter::new(),
    otlp_requests: Counter::new(),
    otlp_failures: Counter::new(),
    otlp_dropped: Counter::new(),
};

impl Counters {
    /// All counters at one time, by name.
    pub(crate) fn named(&self) -> [(&'static str, u64); 10] {
        [
            ("connections_refused", &self.connections_refused),
            ("connections_too_slow", &self.connections_too_slow),
            ("accept_failures", &self.accept_failures),
            ("http_requests_refused", &self.requests_refused),
            ("idempotency_keys_forgotten", &self.idempotency_forgotten),
            ("resp_commands_refused", &self.resp_commands_refused),
            ("tls_handshakes_failed", &self.tls_handshakes_failed),
            ("otlp_requests", &self.otlp_requests),
            ("otlp_failures", &self.otlp_failures),
            ("otlp_records_dropped", &self.otlp_dropped),
        ]
        .map(|(name, counter)| (name, counter.0.load(Ordering::Relaxed)))
    }
}
