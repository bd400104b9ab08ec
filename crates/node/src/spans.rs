//! Spans of the slow paths: a request that had to ask its region, a publish to the world's store, a change of the rules.
//!
//! Kept only where somebody sends them on, in a short queue: what finds it full is dropped and counted. Never made for
//! a decision that asks nobody.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tidegate_core::Nanos;
use tidegate_decisions::Trace;

/// That wait to be sent.
const SPANS_MAX: usize = 4096;

/// What a span did for whom, by OpenTelemetry's numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SpanKind {
    /// Somebody called, and waits.
    Server = 2,
    /// Somebody else was called.
    Client = 3,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Span {
    /// Its trace, and itself.
    pub trace: Trace,
    /// The span that caused it; 0: none.
    pub parent: u64,
    /// What came with the parent, handed on as it is.
    pub state: String,
    pub name: &'static str,
    pub kind: SpanKind,
    pub started: Nanos,
    pub ended: Nanos,
    pub is_error: bool,
    pub attributes: Vec<(&'static str, String)>,
}

impl Span {
    /// The first of a trace of its own.
    pub fn root(name: &'static str, kind: SpanKind, started: Nanos) -> Self {
        let trace = Trace { high: random(), low: random(), span: random() };
        Span::of(trace, 0, name, kind, started)
    }

    /// One that somebody else's span caused.
    pub fn child(of: Trace, name: &'static str, kind: SpanKind, started: Nanos) -> Self {
        Span::of(Trace { span: random(), ..of }, of.span, name, kind, started)
    }

    fn of(trace: Trace, parent: u64, name: &'static str, kind: SpanKind, started: Nanos) -> Self {
        let (state, attributes) = (String::new(), Vec::new());
        Span { trace, parent, state, name, kind, started, ended: started, is_error: false, attributes }
    }
}

/// Ids only have to differ, and mustn't be 0.
fn random() -> u64 {
    RandomState::new().hash_one("span") | 1
}

static IS_RECORDING: AtomicBool = AtomicBool::new(false);
static WAITING: Mutex<VecDeque<Span>> = Mutex::new(VecDeque::new());
static DROPPED: AtomicU64 = AtomicU64::new(0);

/// From here on spans are kept: by who will take them.
pub fn start_recording() {
    IS_RECORDING.store(true, Ordering::Relaxed);
}

/// Whether somebody wants them.
#[inline]
pub fn is_recording() -> bool {
    IS_RECORDING.load(Ordering::Relaxed)
}

pub fn record(span: Span) {
    let mut waiting = WAITING.lock();
    if waiting.len() < SPANS_MAX {
        waiting.push_back(span);
    } else {
        DROPPED.fetch_add(1, Ordering::Relaxed);
    }
}

/// The oldest, at most so many.
pub fn take(most: usize) -> Vec<Span> {
    let mut waiting = WAITING.lock();
    let count = waiting.len().min(most);
    waiting.drain(..count).collect()
}

/// Since the process began.
pub fn dropped() -> u64 {
    DROPPED.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_of_its_parents_trace_and_ids_differ() {
        let root = Span::root("a", SpanKind::Server, Nanos::ZERO);
        let child = Span::child(root.trace, "b", SpanKind::Client, Nanos::ZERO);
        assert_eq!((child.trace.high, child.trace.low), (root.trace.high, root.trace.low));
        assert_eq!(child.parent, root.trace.span);
        assert!(child.trace.span != root.trace.span && child.trace.span != 0);
    }

    #[test]
    fn what_finds_no_room_is_counted() {
        let span = Span::root("a", SpanKind::Server, Nanos::ZERO);
        (0..SPANS_MAX + 3).for_each(|_| record(span.clone()));
        assert_eq!(dropped(), 3);
        assert_eq!((take(10).len(), take(usize::MAX).len()), (10, SPANS_MAX - 10));
    }
}
