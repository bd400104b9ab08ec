//! A log in a directory of its own, which goes with it.

use std::path::PathBuf;
use std::sync::Arc;
use tidegate_core::{KeyId, Nanos, TierCounts};
pub(crate) use tidegate_decisions::RecordHeader;
use tidegate_decisions::{
    Algorithm, DenialKind, Event, EventKind, KeyForm, KeyHash, Log, LogOptions, Query, QueryResult,
    RECORDS_MAX, Record, RecordOutcome, RecordPath, Recorder, RequestTag, RuleFilter, RuleId, RuleName,
    ShardTag, Trace, read,
};

pub(crate) const KEY_ASKED: &dyn Fn(&RuleName) -> RuleFilter = &|_| RuleFilter::Keys(vec![key(7)]);

pub(crate) struct Fixture {
    pub(crate) directory: PathBuf,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) log: Option<Log>,
    pub(crate) now: Nanos,
    cap_bytes: u64,
}

/// Keys are hashes, so they are spread; one for each number.
pub(crate) const fn key_id(number: u64) -> KeyId {
    let mixed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    KeyId::from_hash((mixed as u128) << 64 | (mixed.rotate_left(17) as u128))
}

pub(crate) const fn key(number: u64) -> KeyHash {
    KeyHash::of(key_id(number))
}

pub(crate) const fn overflow(rule: u64) -> KeyId {
    key_id(1 << 40 | rule)
}

pub(crate) fn name(rule: u64) -> RuleName {
    RuleName {
        tenant: "default".into(),
        namespace: "api".into(),
        rule: format!("rule-{rule}"),
        algorithm: Algorithm::Gcra,
        key: KeyForm::Attributes(vec!["user".into()]),
    }
}

pub(crate) fn header(number: u64, rule: u64, at: Nanos) -> RecordHeader {
    RecordHeader {
        at,
        key: key(number),
        rule: RuleId::of_overflow(overflow(rule)),
        rule_version: 1,
        outcome: RecordOutcome::Denied,
        path: RecordPath::Local,
    }
}

pub(crate) fn record(header: &RecordHeader) -> Record {
    Record {
        at: header.at,
        key: header.key,
        rule: header.rule,
        rule_version: header.rule_version,
        outcome: header.outcome,
        path: header.path,
        shard: ShardTag::NONE,
        request: RequestTag(0),
        trace: Trace::NONE,
        cost: 1,
        limit: 100,
        counts: TierCounts { own: 60, others: 30, world: 0, previous: 10 },
        retry_after: Some(Nanos::from_millis(412)),
        more: 0,
        last: header.at,
    }
}

pub(crate) fn event(kind: EventKind, is_unwell: bool, at_s: u64) -> Event {
    let subject = String::from("shard");
    Event { at: Nanos::from_secs(at_s), kind, is_unwell, value: 3, subject, text: "100 → 10".into() }
}

impl Fixture {
    pub(crate) fn new(test: &str) -> Self {
        Self::with_cap(test, 64 << 20)
    }

    pub(crate) fn with_cap(test: &str, cap_bytes: u64) -> Self {
        let directory = std::env::temp_dir().join(format!("tidegate-log-{test}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&directory);
        let recorder = Arc::new(Recorder::new(2));
        let mut fixture = Fixture { directory, recorder, log: None, now: Nanos::from_secs(1), cap_bytes };
        fixture.open();
        fixture
    }

    pub(crate) fn options(&self) -> LogOptions {
        LogOptions {
            directory: self.directory.clone(),
            cap_bytes: self.cap_bytes,
            region: "here".into(),
            node: "one".into(),
        }
    }

    pub(crate) fn open(&mut self) {
        self.log = None;
        self.log = Some(Log::open(self.options()).unwrap());
    }

    pub(crate) fn deny(&self, number: u64, rule: u64, at: Nanos) {
        let header = header(number, rule, at);
        let of = || Record { request: RequestTag(number), ..record(&header) };
        self.recorder.record(&header, of, || name(rule), || None);
    }

    /// As an engine does: a record is made only where a count isn't enough.
    pub(crate) fn put_down(recorder: &Recorder, header: &RecordHeader) {
        let kind = DenialKind::of(header.rule_version, header.outcome, header.path);
        if !recorder.fold(header.key, kind, header.at) {
            recorder.record(header, || record(header), || name(1), || None);
        }
    }

    pub(crate) fn try_write(&mut self) -> std::io::Result<()> {
        self.log.as_mut().unwrap().write(&self.recorder, self.now)
    }

    pub(crate) fn write(&mut self) {
        self.try_write().unwrap();
    }

    /// Completes the last segment.
    pub(crate) fn close(&mut self) {
        self.log.take().unwrap().close(&self.recorder, self.now).unwrap();
    }

    pub(crate) fn read(&self, wanted: &dyn Fn(&RuleName) -> RuleFilter) -> QueryResult {
        self.query(wanted, |_| ())
    }

    pub(crate) fn query(
        &self,
        wanted: &dyn Fn(&RuleName) -> RuleFilter,
        change: impl FnOnce(&mut Query<'_>),
    ) -> QueryResult {
        let (since, until) = (Nanos::ZERO, Nanos::MAX);
        let mut query = Query {
            callers: None,
            wanted,
            request: None,
            since,
            until,
            admissions: false,
            records_max: RECORDS_MAX,
        };
        change(&mut query);
        read(&self.directory, &query).unwrap()
    }

    pub(crate) fn segments(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(&self.directory).unwrap().map(|entry| entry.unwrap().path());
        let mut paths: Vec<PathBuf> =
            entries.filter(|path| path.extension().is_some_and(|ending| ending == "decisions")).collect();
        paths.sort();
        paths
    }

    pub(crate) fn size(&self) -> u64 {
        self.segments().iter().map(|path| std::fs::metadata(path).unwrap().len()).sum()
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
