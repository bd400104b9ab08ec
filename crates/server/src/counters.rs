//! What the listeners of this process count about themselves. Nothing is dropped silently: each drop has a
//! counter here.
//!
//! One set per process, as there is one `/v1/state`; none of them is touched by a request that succeeds.

use std::sync::atomic::{AtomicU64, Ordering};
use tidegate_node::{spans, unknown_namespaces};

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub connections_refused: Counter,
    pub connections_too_slow: Counter,
    pub connections_unauthenticated: Counter,
    pub connections_evicted: Counter,
    pub accept_failures: Counter,
    pub requests_refused: Counter,
    pub requests_unjudged: Counter,
    pub tokens_refused: Counter,
    pub idempotency_forgotten: Counter,
    pub resp_commands_refused: Counter,
    /// Counted by the engine; stays 0 here.
    unknown_namespace_requests: Counter,
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
    connections_unauthenticated: Counter::new(),
    connections_evicted: Counter::new(),
    accept_failures: Counter::new(),
    requests_refused: Counter::new(),
    requests_unjudged: Counter::new(),
    tokens_refused: Counter::new(),
    idempotency_forgotten: Counter::new(),
    resp_commands_refused: Counter::new(),
    unknown_namespace_requests: Counter::new(),
    tls_handshakes_failed: Counter::new(),
    otlp_requests: Counter::new(),
    otlp_failures: Counter::new(),
    otlp_dropped: Counter::new(),
};

impl Counters {
    /// All counters at one time, by name.
    pub(crate) fn counts_by_name(&self) -> [(&'static str, u64); 15] {
        let counted = [
            ("connections_refused", &self.connections_refused),
            ("connections_too_slow", &self.connections_too_slow),
            ("connections_unauthenticated", &self.connections_unauthenticated),
            ("connections_evicted", &self.connections_evicted),
            ("accept_failures", &self.accept_failures),
            ("http_requests_refused", &self.requests_refused),
            ("requests_unjudged", &self.requests_unjudged),
            ("tokens_refused", &self.tokens_refused),
            ("idempotency_keys_forgotten", &self.idempotency_forgotten),
            ("resp_commands_refused", &self.resp_commands_refused),
            ("unknown_namespace_requests", &self.unknown_namespace_requests),
            ("tls_handshakes_failed", &self.tls_handshakes_failed),
            ("otlp_requests", &self.otlp_requests),
            ("otlp_failures", &self.otlp_failures),
            ("otlp_records_dropped", &self.otlp_dropped),
        ]
        .map(|(name, counter)| (name, counter.0.load(Ordering::Relaxed)));
        // Spans that found their queue full never came here.
        counted.map(|(name, count)| match name {
            "otlp_records_dropped" => (name, count.saturating_add(spans::dropped())),
            "unknown_namespace_requests" => (name, unknown_namespaces::requests()),
            _ => (name, count),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::Nanos;
    use tidegate_node::spans::{Span, SpanKind};

    #[test]
    fn spans_that_found_their_queue_full_are_counted_as_dropped() {
        let dropped = || {
            COUNTERS.counts_by_name().into_iter().find(|(name, _)| *name == "otlp_records_dropped").unwrap().1
        };
        let before = dropped();
        let span = Span::root("a", SpanKind::Server, Nanos::ZERO);
        (0..10_000).for_each(|_| spans::record(span.clone()));
        let kept = spans::take(usize::MAX).len() as u64;
        assert!(
            dropped() >= before + 10_000 - kept && kept < 10_000,
            "{kept} were kept, {} dropped",
            dropped()
        );
    }
}
