//! What decisions are handed to: lanes that are never waited for, and a short queue of events.
//!
//! A thread has a buffer of its own, which only the writer takes from it, for as long as a swap takes. Who finds it
//! taken goes to the next one; who finds all taken, which nobody has seen yet, counts a drop.

use crate::caller::Caller;
use crate::event::Event;
use crate::name::RuleName;
use crate::record::{KeyHash, Record, RecordOutcome, RuleCount, RuleId, ShardTag};
use crate::thread_buffer::{DenialKind, RecordHeader, ThreadBuffer};
use parking_lot::Mutex;
use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use tidegate_core::Nanos;

/// Events that wait to be written; the oldest goes when there are more.
const EVENTS_MAX: usize = 4096;
/// Addresses that are remembered.
const SHARDS_MAX: usize = 4096;

thread_local! {
    static BUFFER_INDEX: Cell<usize> = const { Cell::new(usize::MAX) };
}
static NEXT_BUFFER: AtomicUsize = AtomicUsize::new(0);

/// A buffer behind its lock, in lines of the cache that no other is in: each thread writes to its own with every denial.
#[derive(Debug, Default)]
#[repr(align(128))]
struct LockedBuffer(Mutex<ThreadBuffer>);

#[derive(Debug)]
pub struct Recorder {
    buffers: Box<[LockedBuffer]>,
    events: Mutex<VecDeque<Event>>,
    shards: Mutex<HashMap<ShardTag, String>>,
    counters: Counters,
}

/// What was noted, and what became of it.
#[derive(Debug, Default)]
pub struct Counters {
    /// Denials that found every buffer taken: they are in the log as a number.
    pub(crate) denials_dropped: AtomicU64,
    pub(crate) denials_dropped_told: AtomicU64,
    pub(crate) admissions_dropped: AtomicU64,
    pub(crate) events_dropped: AtomicU64,
    pub(crate) written: AtomicU64,
    /// Records that couldn't be written to the disk.
    pub(crate) lost: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) segments_removed: AtomicU64,
    /// Lines of JSON that were written elsewhere, and those that couldn't be.
    lines: AtomicU64,
    lines_lost: AtomicU64,
}

impl Counters {
    pub fn lines_written(&self, count: u64) {
        self.lines.fetch_add(count, Ordering::Relaxed);
    }

    pub fn lines_lost(&self, count: u64) {
        self.lines_lost.fetch_add(count, Ordering::Relaxed);
    }

    pub fn counts_by_name(&self) -> [(&'static str, u64); 9] {
        [
            ("decisions_logged", &self.written),
            ("decisions_log_bytes", &self.bytes),
            ("decisions_log_lost", &self.lost),
            ("decisions_log_denials_only_counted", &self.denials_dropped),
            ("decisions_log_admissions_dropped", &self.admissions_dropped),
            ("decisions_log_events_dropped", &self.events_dropped),
            ("decisions_log_segments_removed", &self.segments_removed),
            ("decisions_json_lines", &self.lines),
            ("decisions_json_lines_lost", &self.lines_lost),
        ]
        .map(|(name, counter)| (name, counter.load(Ordering::Relaxed)))
    }
}

impl Recorder {
    /// For so many threads that decide.
    pub fn new(threads: usize) -> Self {
        // One more, for who finds its own taken.
        let buffers = (0..=threads.clamp(1, 1024)).map(|_| LockedBuffer::default()).collect();
        Recorder {
            buffers,
            events: Mutex::new(VecDeque::new()),
            shards: Mutex::new(HashMap::new()),
            counters: Counters::default(),
        }
    }

    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Counts a denial whose key is in a flood: that is all that is to be done about it. False where it isn't, or
    /// where that can't be said without waiting: it is to be noted then.
    #[inline]
    pub fn fold(&self, key: KeyHash, kind: DenialKind, at: Nanos) -> bool {
        self.buffers[self.own_buffer()].0.try_lock().is_some_and(|mut buffer| buffer.fold(key, kind, at))
    }

    /// Records a decision. `record`, `name` and `caller` are called only where their result is stored: in a flood, rarely.
    /// The closures run while the thread's buffer is locked, so the closures mustn't record anything themselves.
    pub fn record(
        &self,
        header: &RecordHeader,
        record: impl FnOnce() -> Record,
        name: impl FnOnce() -> RuleName,
        caller: impl FnOnce() -> Option<Caller>,
    ) {
        let own = self.own_buffer();
        if let Some(mut buffer) = self.buffers[own].0.try_lock() {
            return buffer.record(header, record, name, caller);
        }
        self.record_elsewhere(own, header, record, name, caller);
    }

    #[inline]
    fn own_buffer(&self) -> usize {
        let own = BUFFER_INDEX.get();
        if own < self.buffers.len() { own } else { self.buffer_of(own) }
    }

    /// Assigns a buffer to a thread that records for the first time, or to one more than was announced.
    #[cold]
    fn buffer_of(&self, own: usize) -> usize {
        let own = if own == usize::MAX { NEXT_BUFFER.fetch_add(1, Ordering::Relaxed) } else { own };
        BUFFER_INDEX.set(own);
        own % self.buffers.len()
    }

    /// Records into another buffer, because the writer or another thread has the thread's own.
    #[cold]
    fn record_elsewhere(
        &self,
        own: usize,
        header: &RecordHeader,
        record: impl FnOnce() -> Record,
        name: impl FnOnce() -> RuleName,
        caller: impl FnOnce() -> Option<Caller>,
    ) {
        let (before, from_own) = self.buffers.split_at(own);
        match from_own.iter().chain(before).find_map(|buffer| buffer.0.try_lock()) {
            Some(mut buffer) => buffer.record(header, record, name, caller),
            None => self.drop_one(header.outcome),
        }
    }

    #[cold]
    fn drop_one(&self, outcome: RecordOutcome) {
        let counter = match outcome {
            RecordOutcome::Admitted => &self.counters.admissions_dropped,
            RecordOutcome::Denied | RecordOutcome::WouldDeny => &self.counters.denials_dropped,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub fn event(&self, event: Event) {
        let mut events = self.events.lock();
        if events.len() == EVENTS_MAX {
            events.pop_front();
            self.counters.events_dropped.fetch_add(1, Ordering::Relaxed);
        }
        events.push_back(event);
    }

    /// Makes an address known, by which records may name it.
    pub fn shard(&self, address: &str) -> ShardTag {
        let tag = ShardTag::of(address);
        let mut shards = self.shards.lock();
        if shards.len() < SHARDS_MAX && !shards.contains_key(&tag) {
            shards.insert(tag, address.to_owned());
        }
        tag
    }

    pub(crate) fn shard_address(&self, tag: ShardTag) -> Option<String> {
        self.shards.lock().get(&tag).cloned()
    }

    pub(crate) fn take_events(&self) -> Vec<Event> {
        self.events.lock().drain(..).collect()
    }

    /// Takes what was put down, buffer by buffer, and leaves the empty `spare` in its place.
    pub(crate) fn take(&self, spare: &mut ThreadBuffer, now: Nanos, mut each: impl FnMut(&ThreadBuffer)) {
        for (index, buffer) in self.buffers.iter().enumerate() {
            std::mem::swap(&mut *buffer.0.lock(), spare);
            self.counters.admissions_dropped.fetch_add(spare.admissions_dropped, Ordering::Relaxed);
            if index == 0 {
                self.record_dropped(spare, now);
            }
            if !spare.is_empty() {
                spare.flush_counts();
                each(spare);
            }
            spare.clear();
        }
    }

    /// Writes the number of dropped denials into the buffer.
    fn record_dropped(&self, buffer: &mut ThreadBuffer, now: Nanos) {
        let dropped = self.counters.denials_dropped.load(Ordering::Relaxed);
        let told = self.counters.denials_dropped_told.swap(dropped, Ordering::Relaxed);
        if dropped > told {
            let count = RuleCount { rule: RuleId::UNKNOWN, first: now, last: now, count: dropped - told };
            buffer.count_many(count, || unreachable!("nobody's rule has no name"));
        }
    }
}
