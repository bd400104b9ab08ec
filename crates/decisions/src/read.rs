//! Searching the log: the newest first, one block in memory at a time, and never more answers than were asked for.
//!
//! A complete segment says by its index which blocks to look into; one without is walked through. Nothing that is
//! found in a file is believed before its checksum was compared; a block that is damaged costs what is in it.

use crate::block::{BlockPosition, HEAD_BYTES, Head, PAYLOAD_MAX};
use crate::caller::{Caller, PartTag};
use crate::entry::{BlockEntry, Entries};
use crate::event::Event;
use crate::index::{Index, Term};
use crate::log::segments;
use crate::name::{KeyForm, RuleName};
use crate::record::{KeyHash, Record, RequestTag, RuleCount, RuleId, ShardTag};
use crate::segment::{FILE_MARK, SEGMENT_BYTES_MAX, walk};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use tidegate_core::Nanos;

/// The most records and events of an answer.
pub const RECORDS_MAX: usize = 1000;
const EVENTS_MAX: usize = 10_000;
const NAMES_MAX: usize = 200_000;
/// Callers that a part of a name may fit.
const CALLERS_MAX: usize = 10_000;
/// A block holds what was put down within a second; one that began just before a segment may be in it.
const MARGIN: Nanos = Nanos::from_secs(5);

/// What of a rule is asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RuleFilter {
    Nothing,
    /// Every caller.
    All,
    Keys(Vec<KeyHash>),
}

/// Callers that are asked for by a part of what they are called.
pub struct WantedCallers<'q> {
    /// Of which rules.
    pub of_rule: &'q dyn Fn(&RuleName) -> bool,
    /// Values that stand anywhere in the key.
    pub values: Vec<WantedValue>,
    /// Attributes with the tags that their values may have. All that the rule's key names must fit.
    pub attributes: Vec<(String, Vec<PartTag>)>,
    /// The first half of a key's hash, as it is printed.
    pub key: Option<u64>,
}

#[derive(Clone, Debug)]
pub struct WantedValue {
    pub tag: PartTag,
    /// What stood before it, and must be the name of the rule or its namespace.
    pub of_rule: Option<String>,
}

impl fmt::Debug for WantedCallers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WantedCallers")
            .field("values", &self.values)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

impl WantedCallers<'_> {
    fn fits(&self, caller: &Caller, rule: &RuleName) -> bool {
        let is_value = |value: &WantedValue| {
            caller.parts.contains(&value.tag)
                && value.of_rule.as_deref().is_none_or(|name| rule.is_called(name))
        };
        if self.values.iter().any(is_value) {
            return true;
        }
        let KeyForm::Attributes(names) = &rule.key else { return false };
        let mut named = self
            .attributes
            .iter()
            .filter_map(|(attribute, tags)| {
                let place = names.iter().position(|name| name.split('/').next() == Some(attribute))?;
                Some(caller.parts.get(place).is_some_and(|part| tags.contains(part)))
            })
            .peekable();
        named.peek().is_some() && named.all(|fits| fits)
    }

    fn terms(&self) -> Vec<Term> {
        let of_values = self.values.iter().map(|value| value.tag);
        let of_attributes = self.attributes.iter().flat_map(|(_, tags)| tags.iter().copied());
        of_values.chain(of_attributes).map(|PartTag(tag)| Term::of(tag)).collect()
    }
}

pub struct Query<'q> {
    /// What of each rule that the log names is asked for.
    pub wanted: &'q dyn Fn(&RuleName) -> RuleFilter,
    /// Further callers.
    pub callers: Option<&'q WantedCallers<'q>>,
    pub request: Option<RequestTag>,
    pub since: Nanos,
    pub until: Nanos,
    /// Also the sample of admissions.
    pub admissions: bool,
    pub records_max: usize,
}

impl fmt::Debug for Query<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Query { request, since, until, .. } = self;
        f.debug_struct("Query").field("request", request).field("since", since).field("until", until).finish()
    }
}

/// Reading the decision log failed.
#[derive(Debug, thiserror::Error)]
#[error("the decision log {path} can't be read: {source}; is that the directory that log.decisions names?")]
pub struct LogReadError {
    pub path: PathBuf,
    pub source: io::Error,
}

/// What was found, the newest first.
#[derive(Debug, Default)]
pub struct QueryResult {
    pub records: Vec<QueryRecord>,
    /// Denials that are known by rule only.
    pub counts: Vec<RuleCount>,
    /// In the order of their times.
    pub events: Vec<Event>,
    pub rules: HashMap<RuleId, RuleName>,
    pub shards: HashMap<ShardTag, String>,
    /// Of the records.
    pub callers: HashMap<KeyHash, Caller>,
    pub writers: Vec<Writer>,
    /// There may be older ones.
    pub is_cut: bool,
    /// Blocks that can't be read.
    pub damaged: usize,
    /// Blocks that were looked into: what a query cost.
    pub blocks_read: usize,
}

/// A node that wrote segments.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Writer {
    pub region: String,
    pub node: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueryRecord {
    pub record: Record,
    /// Which of [`QueryResult::writers`] decided it.
    pub writer: usize,
}

/// A file of the log.
struct OpenSegment {
    file: File,
    index: Index,
    /// Who wrote it, among all writers.
    writer: usize,
}

impl OpenSegment {
    fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        let mut mark = [0; FILE_MARK.len()];
        file.read_exact_at(&mut mark, 0)?;
        if mark != FILE_MARK || length > 2 * SEGMENT_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not a segment of this version"));
        }
        let index = match Index::read(&file, length) {
            Some(index) => index,
            None => {
                let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
                file.read_exact_at(&mut bytes, 0)?;
                let (blocks, pairs) = walk(&bytes);
                Index::made(blocks, pairs)
            }
        };
        Ok(OpenSegment { file, index, writer: 0 })
    }

    /// The numbers of blocks that may have one of the terms; all of them where that isn't known any more.
    fn blocks_with(&self, terms: &[Term]) -> BTreeSet<u32> {
        let found: io::Result<Vec<Vec<u32>>> =
            terms.iter().map(|term| self.index.blocks_with(&self.file, *term)).collect();
        let all = |_| (0..).take(self.index.blocks.len()).collect();
        found.map_or_else(all, |found| found.into_iter().flatten().collect())
    }

    fn place(&self, number: u32) -> Option<&BlockPosition> {
        self.index.blocks.get(usize::try_from(number).ok()?)
    }

    /// What a block has after its head, in `buffer`.
    fn payload<'b>(&self, place: &BlockPosition, buffer: &'b mut Vec<u8>) -> Option<&'b [u8]> {
        let mut head = [0; HEAD_BYTES];
        self.file.read_exact_at(&mut head, u64::from(place.offset)).ok()?;
        let head = Head::read(&head)?;
        buffer.resize(head.length.min(PAYLOAD_MAX), 0);
        self.file.read_exact_at(buffer, u64::from(place.offset) + HEAD_BYTES as u64).ok()?;
        head.checked(buffer)
    }

    fn spans(&self, since: Nanos, until: Nanos) -> bool {
        self.index
            .blocks
            .iter()
            .any(|place| place.first <= until.plus(MARGIN) && place.last.plus(MARGIN) >= since)
    }
}

/// Answers a query from the files of a directory.
pub fn read(directory: &Path, query: &Query<'_>) -> Result<QueryResult, LogReadError> {
    let failed = |source| LogReadError { path: directory.to_owned(), source };
    let mut search =
        Search { query, found: QueryResult::default(), buffer: Vec::new(), matched: HashSet::new() };
    // Files that can't be opened, or went meanwhile, cost their own records only.
    let mut files: Vec<OpenSegment> = Vec::new();
    for (path, _) in segments(directory).map_err(failed)?.iter().rev() {
        match OpenSegment::open(path) {
            Ok(opened) if opened.spans(query.since, query.until) => files.push(opened),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(_) => search.found.damaged += 1,
        }
    }
    files.iter_mut().for_each(|file| search.names(file));
    if let Some(callers) = query.callers {
        files.iter().for_each(|file| search.matched(file, callers));
    }
    let (terms, wanted) = search.terms();
    files.iter().for_each(|file| search.records(file, &terms, &wanted));
    files.iter().for_each(|file| search.callers(file));
    let oldest = search.found.records.last().map_or(query.since, |found| found.record.at);
    files.iter().filter(|file| file.spans(oldest, query.until)).for_each(|file| search.events(file));
    let mut found = search.found;
    found.events.sort_by_key(|event| event.at);
    found.events.dedup();
    Ok(found)
}

struct Search<'q> {
    query: &'q Query<'q>,
    found: QueryResult,
    buffer: Vec<u8>,
    /// Callers that fit [`Query::callers`].
    matched: HashSet<(RuleId, KeyHash)>,
}

/// What of each rule is asked for, where that is anything.
type WantedRules = HashMap<RuleId, RuleFilter>;

impl Search<'_> {
    /// Hands on every entry of the blocks with this term.
    fn each(&mut self, file: &OpenSegment, term: Term, take: impl FnMut(&mut QueryResult, BlockEntry)) {
        self.each_of(file, &[term], take);
    }

    fn each_of(
        &mut self,
        file: &OpenSegment,
        terms: &[Term],
        take: impl FnMut(&mut QueryResult, BlockEntry),
    ) {
        self.each_in(file, file.blocks_with(terms), take);
    }

    fn each_in(
        &mut self,
        file: &OpenSegment,
        numbers: impl IntoIterator<Item = u32>,
        mut take: impl FnMut(&mut QueryResult, BlockEntry),
    ) {
        for number in numbers {
            let Some(place) = file.place(number) else { continue };
            self.found.blocks_read += 1;
            match file.payload(place, &mut self.buffer) {
                Some(payload) => Entries::new(payload).for_each(|entry| take(&mut self.found, entry)),
                None => self.found.damaged += 1,
            }
        }
    }

    fn names(&mut self, file: &mut OpenSegment) {
        let mut writer = Writer::default();
        self.each(file, Term::NAMES, |found, entry| match entry {
            BlockEntry::Rule(id, name) if found.rules.len() < NAMES_MAX => {
                found.rules.insert(id, name);
            }
            BlockEntry::Shard(tag, address) if found.shards.len() < NAMES_MAX => {
                found.shards.insert(tag, address);
            }
            BlockEntry::Writer { region, node } => writer = Writer { region, node },
            _ => {}
        });
        let writers = &mut self.found.writers;
        file.writer = writers.iter().position(|known| *known == writer).unwrap_or_else(|| {
            writers.push(writer);
            writers.len() - 1
        });
    }

    /// Finds the callers of a file that are asked for by a part of their names.
    fn matched(&mut self, file: &OpenSegment, wanted: &WantedCallers<'_>) {
        let terms = wanted.terms();
        let mut matched = std::mem::take(&mut self.matched);
        self.each_of(file, &terms, |found, entry| {
            if let BlockEntry::Caller(key, caller) = entry
                && matched.len() < CALLERS_MAX
                && let Some(rule) = found.rules.get(&caller.rule)
                && (wanted.of_rule)(rule)
                && wanted.fits(&caller, rule)
            {
                matched.insert((caller.rule, key));
            }
        });
        self.matched = matched;
    }

    /// Finds who the records of a file are about.
    fn callers(&mut self, file: &OpenSegment) {
        let unknown: HashSet<KeyHash> = self
            .found
            .records
            .iter()
            .filter(|found| found.writer == file.writer)
            .map(|found| found.record.key)
            .filter(|key| !self.found.callers.contains_key(key))
            .collect();
        if unknown.is_empty() {
            return;
        }
        let terms: Vec<Term> = unknown.iter().map(|key| Term::of(key.high)).collect();
        let of_callers = file.blocks_with(&[Term::CALLERS]);
        let numbers: Vec<u32> = file.blocks_with(&terms).intersection(&of_callers).copied().collect();
        self.each_in(file, numbers, |found, entry| {
            if let BlockEntry::Caller(key, caller) = entry
                && unknown.contains(&key)
            {
                found.callers.insert(key, caller);
            }
        });
    }

    /// What to look up, and what to take of what is found.
    fn terms(&self) -> (Vec<Term>, WantedRules) {
        let asked = self.found.rules.iter().map(|(id, name)| (*id, (self.query.wanted)(name)));
        let wanted: WantedRules = asked.filter(|(_, wanted)| *wanted != RuleFilter::Nothing).collect();
        if let Some(RequestTag(tag)) = self.query.request {
            return (vec![Term::of(tag)], wanted);
        }
        let terms_of = |(rule, wanted): (&RuleId, &RuleFilter)| match wanted {
            RuleFilter::Keys(keys) => keys.iter().map(|key| Term::of(key.high)).collect(),
            RuleFilter::All | RuleFilter::Nothing => vec![Term::of(rule.0)],
        };
        let mut terms: BTreeSet<Term> = wanted.iter().flat_map(terms_of).collect();
        terms.extend(self.matched.iter().map(|(_, key)| Term::of(key.high)));
        terms.extend(self.query.callers.and_then(|callers| callers.key).map(Term::of));
        (terms.into_iter().collect(), wanted)
    }

    fn records(&mut self, file: &OpenSegment, terms: &[Term], wanted: &WantedRules) {
        let Query { request, since, until, admissions, records_max, .. } = *self.query;
        let records_max = records_max.clamp(1, RECORDS_MAX);
        let by_hash = self.query.callers.and_then(|callers| callers.key);
        let is_of_rule = |name: &RuleName| self.query.callers.is_some_and(|callers| (callers.of_rule)(name));
        let of_rule: HashSet<RuleId> = match by_hash {
            None => HashSet::new(),
            Some(_) => {
                let rules = self.found.rules.iter();
                rules.filter(|(_, name)| is_of_rule(name)).map(|(id, _)| *id).collect()
            }
        };
        let matched = std::mem::take(&mut self.matched);
        let is_wanted = |record: &Record| {
            let is_of_caller = match wanted.get(&record.rule) {
                Some(RuleFilter::All) => true,
                Some(RuleFilter::Keys(keys)) if keys.contains(&record.key) => true,
                _ => {
                    matched.contains(&(record.rule, record.key))
                        || (by_hash == Some(record.key.high) && of_rule.contains(&record.rule))
                }
            };
            let is_in_time = record.at <= until && record.last.max(record.at) >= since;
            let is_asked =
                admissions || request.is_some() || record.outcome != crate::RecordOutcome::Admitted;
            is_of_caller && is_in_time && is_asked && request.is_none_or(|tag| tag == record.request)
        };
        let is_asked = |place: &BlockPosition| place.first <= until && place.last >= since;
        let writer = file.writer;
        let is_counted = |count: &RuleCount| {
            let is_asked = request.is_none() && wanted.get(&count.rule) == Some(&RuleFilter::All);
            is_asked && count.first <= until && count.last >= since
        };
        for number in file.blocks_with(terms).into_iter().rev() {
            let Some(place) = file.place(number).filter(|place| is_asked(place)) else { continue };
            if self.has_newer(place, records_max) {
                self.found.is_cut = true;
                continue;
            }
            self.found.blocks_read += 1;
            let Some(payload) = file.payload(place, &mut self.buffer) else {
                self.found.damaged += 1;
                continue;
            };
            let found = &mut self.found;
            for entry in Entries::new(payload) {
                match entry {
                    BlockEntry::Record(record) if is_wanted(&record) => {
                        found.records.push(QueryRecord { record, writer });
                    }
                    BlockEntry::Count(count) if is_counted(&count) && found.counts.len() < RECORDS_MAX => {
                        found.counts.push(count);
                    }
                    _ => {}
                }
            }
            found.records.sort_by_key(|found| std::cmp::Reverse(found.record.at));
            found.is_cut |= found.records.len() > records_max;
            found.records.truncate(records_max);
        }
        self.matched = matched;
    }

    /// Whether there are as many records as were asked for, all of them newer than what a block has.
    fn has_newer(&self, place: &BlockPosition, records_max: usize) -> bool {
        let oldest = self.found.records.last().map_or(Nanos::ZERO, |found| found.record.at);
        self.found.records.len() == records_max && place.last < oldest
    }

    fn events(&mut self, file: &OpenSegment) {
        self.each(file, Term::EVENTS, |found, entry| {
            if let BlockEntry::Event(event) = entry
                && found.events.len() < EVENTS_MAX
            {
                found.events.push(event);
            }
        });
    }
}
