//! What happened, as one hash of everything and the last events in words: two runs of a seed have the same
//! hash, and a failed one says what led to it.

use crate::fault::Fault;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::hash::{Hash, Hasher};
use tidegate_core::Nanos;

/// So many events are kept to be shown.
const SHOWN_EVENTS: usize = 60;

#[derive(Clone, Copy, Debug, Hash)]
pub(crate) enum TraceEvent {
    Answered { allowed: bool, path: AnswerPath, template: usize },
    Asked { ticket: u64, limits: usize },
    Sent { call: u64, syncs: usize, asks: usize },
    Executed { call: u64, granted: usize, drawn: u64 },
    Replied { call: u64 },
    Failed { call: u64 },
    Alive { nodes: u32 },
    Fault(Fault),
}

/// How a request was decided, without the reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum AnswerPath {
    Local,
    Asked,
    Unverified,
}

#[derive(Clone, Copy, Debug)]
struct Event {
    at: Nanos,
    /// `usize::MAX` when it is the origin's or nobody's.
    node: usize,
    what: TraceEvent,
}

#[derive(Debug)]
pub(crate) struct Trace {
    hash: Fnv,
    last: VecDeque<Event>,
    begins: Nanos,
    is_told: bool,
}

impl Trace {
    pub(crate) fn new(begins: Nanos) -> Self {
        let last = VecDeque::with_capacity(SHOWN_EVENTS);
        Trace { hash: Fnv::default(), last, begins, is_told: false }
    }

    pub(crate) fn record(&mut self, at: Nanos, node: usize, what: TraceEvent) {
        (at.get(), node, what).hash(&mut self.hash);
        if self.last.len() == SHOWN_EVENTS {
            self.last.pop_front();
        }
        self.last.push_back(Event { at, node, what });
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash.finish()
    }

    /// The last events, one a line.
    pub(crate) fn text(&mut self) -> String {
        self.is_told = true;
        let mut text = String::new();
        for event in &self.last {
            let ms = event.at.minus(self.begins).get() / 1000;
            let who = if event.node == usize::MAX { "  -".to_owned() } else { format!("n{:2}", event.node) };
            // Writing to a string can't fail.
            let _ = writeln!(text, "{:>9}.{:03} ms {who} {:?}", ms / 1000, ms % 1000, event.what);
        }
        text
    }
}

impl Drop for Trace {
    /// An assertion of the code under test failed: it can't tell the events itself.
    fn drop(&mut self) {
        if std::thread::panicking() && !self.is_told {
            eprintln!("the last events:\n{}", self.text());
        }
    }
}

/// FNV-1a: the same on every machine and in every run, as the standard hasher isn't.
#[derive(Debug)]
pub(crate) struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
