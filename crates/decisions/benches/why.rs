//! The decision log: what a search over many segments takes, and what a record takes on the disk. What a flood costs
//! those who decide is measured with the engine, in `crates/node/benches/journal.rs`.
//!
//! `cargo bench -p tidegate-decisions --bench why -- [--gigabytes N] [1|3]`; `cargo xtask bars why` reads what it
//! prints. Files are made in the system's temporary directory, or in `TIDEGATE_BENCH_DIR`, and removed.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;
use tidegate_core::{KeyId, Nanos, TierCounts};
use tidegate_decisions::{
    Algorithm, CAP_BYTES_DEFAULT, KeyForm, KeyHash, Log, LogOptions, Query, QueryResult, RECORDS_MAX, Record,
    RecordHeader, RecordOutcome, RecordPath, Recorder, RequestTag, RuleFilter, RuleId, RuleName, ShardTag,
    Trace, read,
};

const START: Nanos = Nanos::from_secs(1_800_000_000);
const WEEK_S: u64 = 7 * 86_400;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let at = args.iter().position(|arg| arg == "--gigabytes");
    let gigabytes = at.map_or(2, |at| args[at + 1].parse().expect("--gigabytes N"));
    let is_value = |place: usize| at.is_some_and(|at| place == at + 1);
    let named = args.iter().enumerate().filter(|(place, _)| !is_value(*place)).map(|(_, arg)| arg.as_str());
    let bars: Vec<&str> = named.filter(|arg| ["1", "3"].contains(arg)).collect();
    let is_asked = |bar: &str| bars.is_empty() || bars.contains(&bar);
    if is_asked("1") {
        search(gigabytes);
    }
    if is_asked("3") {
        week();
    }
}

fn print(bar: u8, case: &str, figure: &str, value: f64, high: Option<f64>) {
    let high = high.map_or(String::new(), |high| format!("; high={high}"));
    println!("bar={bar}; case={case}; figure={figure}; value={value:.4}{high}; by=median");
}

/// SplitMix64.
fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

fn key_id(number: u64) -> KeyId {
    KeyId::from_hash(u128::from(mixed(number)) << 64 | u128::from(mixed(!number)))
}

fn header(number: u64, at: Nanos) -> RecordHeader {
    RecordHeader {
        at,
        key: KeyHash::of(key_id(number)),
        rule: RuleId::of_overflow(key_id((1 << 50) | (number % 20))),
        rule_version: 1234,
        outcome: RecordOutcome::Denied,
        path: RecordPath::Local,
    }
}

fn record(header: &RecordHeader, request: u64) -> Record {
    Record {
        at: header.at,
        key: header.key,
        rule: header.rule,
        rule_version: header.rule_version,
        outcome: header.outcome,
        path: header.path,
        shard: ShardTag::of("10.0.0.1:6379"),
        request: RequestTag(mixed(request)),
        trace: Trace::NONE,
        cost: 1,
        limit: 1000,
        counts: TierCounts { own: 200, others: 700, world: 50, previous: 50 },
        retry_after: Some(Nanos::from_millis(12_345)),
        more: 0,
        last: header.at,
    }
}

fn name(number: u64) -> RuleName {
    RuleName {
        tenant: "default".into(),
        namespace: "api".into(),
        rule: format!("rule-{}", number % 20),
        algorithm: Algorithm::Gcra,
        key: KeyForm::Attributes(vec!["user".into()]),
    }
}

struct Bench {
    recorder: Arc<Recorder>,
    log: Log,
    directory: PathBuf,
}

impl Bench {
    fn new(what: &str, cap_bytes: u64) -> Self {
        let base = std::env::var_os("TIDEGATE_BENCH_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
        let directory = base.join(format!("tidegate-why-{what}-{}", std::process::id()));
        let options =
            LogOptions { directory: directory.clone(), cap_bytes, region: "r".into(), node: "n".into() };
        let recorder = Arc::new(Recorder::new(4));
        recorder.shard("10.0.0.1:6379");
        Bench { recorder, log: Log::open(options).expect("a directory"), directory }
    }

    fn deny(&self, number: u64, request: u64, at: Nanos) {
        let header = header(number, at);
        self.recorder.record(&header, || record(&header, request), || name(number), || None);
    }

    fn write(&mut self, now: Nanos) {
        self.log.write(&self.recorder, now).expect("a disk");
    }

    fn bytes(&self) -> u64 {
        let entries = fs::read_dir(&self.directory).expect("the directory").flatten();
        entries.map(|entry| entry.metadata().map_or(0, |metadata| metadata.len())).sum()
    }
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let begun = Instant::now();
    let outcome = work();
    (outcome, begun.elapsed().as_secs_f64())
}

fn query(
    directory: &std::path::Path,
    wanted: &dyn Fn(&RuleName) -> RuleFilter,
    request: Option<u64>,
) -> QueryResult {
    let query = Query {
        callers: None,
        wanted,
        request: request.map(|request| RequestTag(mixed(request))),
        since: Nanos::ZERO,
        until: Nanos::MAX,
        admissions: false,
        records_max: 20.min(RECORDS_MAX),
    };
    read(directory, &query).expect("the log")
}

/// Drops the log's files from the page cache, and nobody else's; false where that can't be done.
fn forget_pages(directory: &std::path::Path) -> bool {
    let mut files = fs::read_dir(directory).expect("the directory").flatten();
    let forget = |entry: fs::DirEntry| {
        let input = format!("if={}", entry.path().display());
        let dd = std::process::Command::new("dd")
            .args([&input, "iflag=nocache", "count=0", "status=none"])
            .status();
        dd.is_ok_and(|status| status.success())
    };
    files.all(forget)
}

/// Target 1: by key, by request and by rule, over so many gigabytes.
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn search(gigabytes: u64) {
    let mut bench = Bench::new("search", (gigabytes + 1) << 30);
    let (mut number, mut second) = (0, 0);
    let ((), generated) = timed(|| {
        while bench.recorder.counters().counts_by_name()[1].1 < gigabytes << 30 {
            for _ in 0..9000 {
                // A million keys, of which each comes now and then.
                bench.deny(mixed(number) % 1_000_000, number, START.plus(Nanos::from_secs(second)));
                number += 1;
            }
            second += 1;
            bench.write(START.plus(Nanos::from_secs(second)));
        }
    });
    let case = format!("{gigabytes} GB, {} million records", number / 1_000_000);
    print(1, &case, "generating them, s", generated, None);
    let key = |number: u64| KeyHash::of(key_id(number));
    let rare = number / 2;
    bench.deny(u64::MAX, number, START);
    bench.write(START.plus(Nanos::from_secs(second)));
    let directory = bench.directory.clone();
    let once: &dyn Fn(&RuleName) -> RuleFilter = &|_| RuleFilter::Keys(vec![key(u64::MAX)]);
    let never: &dyn Fn(&RuleName) -> RuleFilter = &|_| RuleFilter::Keys(vec![key(u64::MAX - 1)]);
    let known: &dyn Fn(&RuleName) -> RuleFilter = &|_| RuleFilter::Keys(vec![key(123_456)]);
    let one_rule: &dyn Fn(&RuleName) -> RuleFilter =
        &|of| if of.rule == "rule-3" { RuleFilter::All } else { RuleFilter::Nothing };
    type Case<'c> = (&'c str, &'c dyn Fn(&RuleName) -> RuleFilter, Option<u64>, usize);
    let cases: [Case<'_>; 5] = [
        ("a key that came once", once, None, 1),
        ("a key that never came", never, None, 0),
        ("the last 20 of a key among many", known, None, 20),
        ("a request's id", &|_| RuleFilter::All, Some(rare), 1),
        ("the last 20 of a rule", one_rule, None, 20),
    ];
    for (what, wanted, request, expected) in cases {
        let mut took: Vec<f64> = (0..3)
            .map(|_| {
                let (found, seconds) = timed(|| query(&directory, wanted, request));
                assert!(found.records.len() >= expected, "{what}: {} records", found.records.len());
                seconds
            })
            .collect();
        took.sort_by(f64::total_cmp);
        print(1, &case, &format!("{what}, s"), took[1], Some(2.0));
        if forget_pages(&directory) {
            let (_, seconds) = timed(|| query(&directory, wanted, request));
            print(1, &case, &format!("{what}, from the disk, s"), seconds, Some(2.0));
        }
    }
    let size = bench.bytes() as f64;
    print(1, &case, "bytes on the disk per record", size / number as f64, None);
    drop(bench);
    let _ = fs::remove_dir_all(directory);
}

/// Target 3: a node's share of a fleet's denials, for a week.
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn week() {
    const SECONDS: u64 = 86_400;
    let mut bench = Bench::new("week", CAP_BYTES_DEFAULT);
    let directory = bench.directory.clone();
    for second in 0..SECONDS {
        for tenth in 0..10 {
            let at = START.plus(Nanos::from_millis(second * 1000 + tenth * 100));
            let number = second * 10 + tenth;
            bench.deny(mixed(number) % 100_000, number, at);
        }
        bench.write(START.plus(Nanos::from_secs(second + 1)));
    }
    let Bench { recorder, log, directory: _ } = bench;
    log.close(&recorder, START.plus(Nanos::from_secs(SECONDS + 1))).expect("a disk");
    let bytes: u64 = fs::read_dir(&directory)
        .expect("the directory")
        .flatten()
        .map(|entry| entry.metadata().map_or(0, |metadata| metadata.len()))
        .sum();
    let per_record = bytes as f64 / (SECONDS * 10) as f64;
    print(3, "10 denials a second", "bytes on the disk per record, with its index", per_record, Some(96.0));
    let share = per_record * (WEEK_S * 10) as f64 / CAP_BYTES_DEFAULT as f64;
    print(3, "10 denials a second", "a week of them ÷ the default cap", share, Some(1.0));
    let _ = fs::remove_dir_all(directory);
}
