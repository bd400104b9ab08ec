//! The writer: takes what was put down once a second, and appends it to the newest segment.
//!
//! Never on the path of a decision, and never in its way: a disk that is full or gone costs records, which are counted,
//! and one warning. The oldest segments go when all of them together would exceed the cap.

use crate::block::PAYLOAD_TARGET;
use crate::entry::{BlockEntry, encode};
use crate::event::ActiveEvents;
use crate::index::Term;
use crate::name::RuleName;
use crate::record::{KeyHash, Record, RuleId, ShardTag};
use crate::record_ref::LogRecordRef;
use crate::recorder::Recorder;
use crate::segment::{EXTENSION, SEGMENT_BYTES_MAX, Segment, terms_of};
use crate::thread_buffer::ThreadBuffer;
use std::collections::{HashMap, HashSet};
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use tidegate_core::Nanos;

/// A week of ten denials a second takes about half of it.
pub const CAP_BYTES_DEFAULT: u64 = 1 << 30;
pub const CAP_BYTES_MIN: u64 = 16 << 20;
const SEGMENTS_OF_CAP: u64 = 32;
const SEGMENT_BYTES_MIN: u64 = 1 << 20;
const LOCK_FILE: &str = "lock";
/// Rules whose names are remembered for the segments to come.
const RULES_MAX: usize = 100_000;
/// Callers that are remembered to be in the present segment; beyond them, some are written twice.
const CALLERS_MAX: usize = 100_000;

#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error(
        "the decision log {path}: {source}; make it a directory that can be written, or set log.decisions to none"
    )]
    Directory { path: PathBuf, source: io::Error },
    #[error("another process writes to the decision log {path}: give each node a directory of its own")]
    InUse { path: PathBuf },
}

#[derive(Clone, Debug)]
pub struct LogOptions {
    pub directory: PathBuf,
    /// Of all segments together.
    pub cap_bytes: u64,
    pub region: String,
    pub node: String,
}

#[derive(Debug)]
pub struct Log {
    options: LogOptions,
    segment_bytes: u64,
    segment: Option<Segment>,
    /// Names in the present segment.
    rules_written: HashSet<RuleId>,
    shards_written: HashSet<ShardTag>,
    callers_written: HashSet<KeyHash>,
    /// Those of all rules that were seen.
    rules: HashMap<RuleId, RuleName>,
    active_events: ActiveEvents,
    spare: ThreadBuffer,
    block: Block,
    /// Of the present call; and whether the last one had one, so that it is told once.
    failure: Option<io::Error>,
    is_failing: bool,
    /// `None`: nothing is kept here, only told.
    lock: Option<File>,
}

/// What is to be the next block.
#[derive(Debug, Default)]
struct Block {
    payload: Vec<u8>,
    terms: Vec<Term>,
    /// What the times in it are relative to.
    base: Nanos,
    first: Nanos,
    last: Nanos,
    records: u64,
}

impl Block {
    fn push(&mut self, entry: &BlockEntry, at: Nanos, until: Nanos) {
        if self.payload.is_empty() {
            (self.base, self.first, self.last) = (at, at, until);
            self.payload.extend_from_slice(&at.get().to_le_bytes());
        }
        encode(entry, self.base, &mut self.payload);
        (self.first, self.last) = (self.first.min(at), self.last.max(until));
        self.terms.extend(terms_of(entry));
        self.records += u64::from(matches!(entry, BlockEntry::Record(_)));
    }

    fn clear(&mut self) {
        self.payload.clear();
        self.terms.clear();
        self.records = 0;
    }
}

impl Log {
    /// Takes the directory, and completes what a process that was killed left there.
    pub fn open(options: LogOptions) -> Result<Self, LogError> {
        let failed = |source| LogError::Directory { path: options.directory.clone(), source };
        fs::create_dir_all(&options.directory).map_err(failed)?;
        let lock = File::create(options.directory.join(LOCK_FILE)).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(LogError::InUse { path: options.directory }),
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        for (path, _) in segments(&options.directory).map_err(failed)? {
            // One that can't be completed is walked through by who reads it.
            let _ = Segment::seal_left_behind(&path);
        }
        let cap_bytes = options.cap_bytes.max(CAP_BYTES_MIN);
        let segment_bytes = (cap_bytes / SEGMENTS_OF_CAP).clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX);
        Ok(Log { segment_bytes, lock: Some(lock), ..Log::only_telling(LogOptions { cap_bytes, ..options }) })
    }

    /// Keeps no files: for those who only want to be told.
    pub fn only_telling(options: LogOptions) -> Self {
        Log {
            options,
            segment_bytes: SEGMENT_BYTES_MIN,
            segment: None,
            rules_written: HashSet::new(),
            shards_written: HashSet::new(),
            callers_written: HashSet::new(),
            rules: HashMap::new(),
            active_events: ActiveEvents::default(),
            spare: ThreadBuffer::default(),
            block: Block::default(),
            failure: None,
            is_failing: false,
            lock: None,
        }
    }

    /// Writes what was put down since it was last called. An error is what the last good write was followed by, and
    /// comes once.
    pub fn write(&mut self, recorder: &Recorder, now: Nanos) -> Result<(), io::Error> {
        self.write_telling(recorder, now, None)
    }

    /// The same, and tells all of it to somebody else too, also where it can't be written.
    pub fn write_telling(
        &mut self,
        recorder: &Recorder,
        now: Nanos,
        mut tell: Option<&mut dyn FnMut(LogRecordRef<'_>)>,
    ) -> Result<(), io::Error> {
        self.write_events(recorder, now, &mut tell);
        let mut spare = std::mem::take(&mut self.spare);
        recorder.take(&mut spare, now, |buffer| {
            self.write_buffer(recorder, buffer, now);
            if let Some(tell) = &mut tell {
                self.ship_buffer(recorder, buffer, tell);
            }
        });
        self.spare = spare;
        self.append(recorder);
        let failure = self.failure.take();
        let was_failing = std::mem::replace(&mut self.is_failing, failure.is_some());
        failure.filter(|_| !was_failing).map_or(Ok(()), Err)
    }

    /// The last words, and the index of the last segment.
    pub fn close(mut self, recorder: &Recorder, now: Nanos) -> Result<(), io::Error> {
        let written = self.write(recorder, now);
        let sealed = self.segment.take().map_or(Ok(0), Segment::seal);
        written.and(sealed.map(drop))
    }

    fn write_events(
        &mut self,
        recorder: &Recorder,
        now: Nanos,
        ship: &mut Option<&mut dyn FnMut(LogRecordRef<'_>)>,
    ) {
        let events = recorder.take_events();
        if events.is_empty() {
            return;
        }
        self.begin_segment(recorder, now);
        for event in events {
            self.active_events.apply(&event);
            if let Some(tell) = ship {
                tell(LogRecordRef::Event(&event));
            }
            let at = event.at;
            self.push(recorder, &BlockEntry::Event(event), at, at);
        }
        // Blocks are of one kind, so that those of events are small.
        self.append(recorder);
    }

    fn write_buffer(&mut self, recorder: &Recorder, buffer: &ThreadBuffer, now: Nanos) {
        for (rule, seen) in buffer.rules() {
            if let Some(name) = &seen.name
                && self.rules.len() < RULES_MAX
            {
                self.rules.entry(*rule).or_insert_with(|| name.clone());
            }
        }
        self.begin_segment(recorder, now);
        self.write_names(recorder, buffer, now);
        self.write_callers(recorder, buffer, now);
        // So that blocks hardly overlap, and who wants the newest reads few.
        let mut records: Vec<&Record> = buffer.records().collect();
        records.sort_by_key(|record| record.at);
        for record in records {
            self.push(recorder, &BlockEntry::Record(*record), record.at, record.last.max(record.at));
        }
        for count in buffer.rules().filter_map(|(_, seen)| seen.count) {
            self.push(recorder, &BlockEntry::Count(count), count.first, count.last);
        }
    }

    fn ship_buffer(
        &self,
        recorder: &Recorder,
        buffer: &ThreadBuffer,
        ship: &mut dyn FnMut(LogRecordRef<'_>),
    ) {
        for record in buffer.records() {
            let shard = recorder.shard_address(record.shard);
            let rule = self.rules.get(&record.rule);
            ship(LogRecordRef::Decision { record, rule, shard: shard.as_deref() });
        }
        for count in buffer.rules().filter_map(|(_, seen)| seen.count) {
            ship(LogRecordRef::Count { count: &count, rule: self.rules.get(&count.rule) });
        }
    }

    /// Names that the present segment lacks, in a block of their own.
    fn write_names(&mut self, recorder: &Recorder, buffer: &ThreadBuffer, now: Nanos) {
        let is_new_rule = |rule: &RuleId| !self.rules_written.contains(rule);
        let rules: Vec<RuleId> = buffer.rules().map(|(rule, _)| *rule).filter(is_new_rule).collect();
        let is_new_shard =
            |shard: &ShardTag| *shard != ShardTag::NONE && !self.shards_written.contains(shard);
        let shards: HashSet<ShardTag> =
            buffer.records().map(|record| record.shard).filter(is_new_shard).collect();
        if rules.is_empty() && shards.is_empty() {
            return;
        }
        self.append(recorder);
        for rule in rules {
            if let Some(name) = self.rules.get(&rule).cloned() {
                self.push(recorder, &BlockEntry::Rule(rule, name), now, now);
                self.rules_written.insert(rule);
            }
        }
        for shard in shards {
            if let Some(address) = recorder.shard_address(shard) {
                self.push(recorder, &BlockEntry::Shard(shard, address), now, now);
                self.shards_written.insert(shard);
            }
        }
        self.append(recorder);
    }

    /// Callers that the present segment lacks, in blocks of their own.
    fn write_callers(&mut self, recorder: &Recorder, buffer: &ThreadBuffer, now: Nanos) {
        self.append(recorder);
        for (key, caller) in buffer.callers() {
            if self.callers_written.len() >= CALLERS_MAX {
                self.callers_written.clear();
            }
            if self.callers_written.insert(*key) {
                self.push(recorder, &BlockEntry::Caller(*key, caller.clone()), now, now);
            }
        }
        self.append(recorder);
    }

    fn push(&mut self, recorder: &Recorder, entry: &BlockEntry, at: Nanos, until: Nanos) {
        if self.lock.is_none() {
            return;
        }
        self.block.push(entry, at, until);
        if self.block.payload.len() >= PAYLOAD_TARGET {
            self.append(recorder);
        }
    }

    /// Writes the block. What can't be written is counted, and the rest goes to another file: half a block may be in
    /// this one.
    fn append(&mut self, recorder: &Recorder) {
        let block = &mut self.block;
        if block.payload.is_empty() {
            return;
        }
        let counters = recorder.counters();
        let appended = self.segment.as_mut().map(|segment| {
            let before = segment.length;
            let times = (block.first, block.last);
            segment.append(&block.payload, times, &mut block.terms).map(|()| segment.length - before)
        });
        match appended {
            Some(Ok(bytes)) => {
                counters.written.fetch_add(block.records, Ordering::Relaxed);
                counters.bytes.fetch_add(bytes, Ordering::Relaxed);
            }
            failed => {
                counters.lost.fetch_add(block.records, Ordering::Relaxed);
                self.fail(failed.map_or(Ok(()), |failed| failed.map(drop)));
                self.segment = None;
            }
        }
        self.block.clear();
    }

    /// The first of several is told.
    fn fail(&mut self, outcome: io::Result<()>) {
        if let Err(error) = outcome {
            self.failure.get_or_insert(error);
        }
    }

    /// A segment to write to, with the names of who writes it and what is unwell. One that is large enough is
    /// completed first.
    fn begin_segment(&mut self, recorder: &Recorder, now: Nanos) {
        if self.lock.is_none() {
            return;
        }
        let waiting = self.block.payload.len() as u64;
        if self.segment.as_ref().is_some_and(|segment| segment.length + waiting >= self.segment_bytes) {
            self.append(recorder);
            let sealed = self.segment.take().map_or(Ok(0), Segment::seal);
            self.fail(sealed.map(drop));
        }
        if self.segment.is_some() {
            return;
        }
        let removed = self.remove_oldest(recorder);
        self.fail(removed);
        match Segment::create(&self.options.directory, now) {
            Ok(segment) => self.segment = Some(segment),
            Err(error) => return self.fail(Err(error)),
        }
        self.rules_written.clear();
        self.shards_written.clear();
        self.callers_written.clear();
        let LogOptions { region, node, .. } = self.options.clone();
        self.push(recorder, &BlockEntry::Writer { region, node }, now, now);
        self.append(recorder);
        for event in self.active_events.events().to_vec() {
            self.push(recorder, &BlockEntry::Event(event), now, now);
        }
        self.append(recorder);
    }

    /// Keeps room for a whole segment below the cap.
    fn remove_oldest(&self, recorder: &Recorder) -> io::Result<()> {
        let segments = segments(&self.options.directory)?;
        let mut total: u64 = segments.iter().map(|(_, bytes)| bytes).sum();
        for (path, bytes) in &segments {
            // A segment with its index is half as large again at most.
            if total + self.segment_bytes * 3 / 2 <= self.options.cap_bytes {
                break;
            }
            fs::remove_file(path)?;
            recorder.counters().segments_removed.fetch_add(1, Ordering::Relaxed);
            total -= bytes;
        }
        Ok(())
    }
}

/// The segments of a directory with their sizes, the oldest first.
pub(crate) fn segments(directory: &Path) -> io::Result<Vec<(PathBuf, u64)>> {
    let mut segments = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == EXTENSION) {
            // One that was removed meanwhile is none.
            let Ok(metadata) = fs::metadata(&path) else { continue };
            segments.push((path, metadata.len()));
        }
    }
    segments.sort();
    Ok(segments)
}
