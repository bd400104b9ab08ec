//! What a flood of denials costs the engine that logs them: a node's own engine and journal, with the thread that
//! writes beside those that decide.
//!
//! `cargo bench -p tidegate-node --bench journal -- [--turns N] [--callgrind with|without DECISIONS]`; `cargo xtask bars
//! why` reads what it prints. Two engines that differ in the journal alone take turns, on as many threads as there are
//! cores. Costs are CPU time, which a busy machine changes little: of the threads that decide, and of the one that
//! writes. Files are made in the system's temporary directory, or in `TIDEGATE_BENCH_DIR`, and removed.

use std::collections::HashMap;
use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidegate_core::{Cost, FleetSecret, Nanos};
use tidegate_decisions::{CAP_BYTES_DEFAULT, LogOptions, Query, RECORDS_MAX, Wanted, read};
use tidegate_node::clock::Clock;
use tidegate_node::journal::Journal;
use tidegate_node::journal::writer::JournalWriter;
use tidegate_node::{Engine, EngineOptions, Purpose, Request, Subject};
use tidegate_rules::{Attributes, RuleSet, Source};

/// Whoever comes twice in a day is denied by the first; nobody by the second.
const RULES: &str = "namespace: attacked
rules:
  - { name: per-user, key: [user], limit: 1 per 1d }
---
namespace: roomy
rules:
  - { name: per-user, key: [user], limit: 1000000000 per 1d }
";
const KEYS: u64 = 10_000;
/// Of one thread in one turn: a second or two, so that the writer writes in each.
const DECISIONS: u64 = 4_000_000;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let after = |name: &str| args.iter().position(|arg| arg == name).map(|place| &args[place + 1..]);
    if let Some([subject, decisions, ..]) = after("--callgrind") {
        return counted(subject == "with", decisions.parse().expect("a number"));
    }
    let turns = after("--turns").map_or(7, |rest| rest[0].parse().expect("--turns N"));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let alone = Subjects::new("alone", cores);
    let rate = alone.rate_per_s();
    drop(alone);
    // A million denials a second on all cores, and then as many as can be.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small whole number")]
    let among = (rate / 1e6).round().max(1.0) as u64;
    for (case, one_in, keys) in [
        ("a million denials a second, 10k keys", among, KEYS),
        ("a million denials a second, 100k keys", among, 10 * KEYS),
        ("nothing but denials, 10k keys", 1, KEYS),
    ] {
        flood(case, Offered { one_in, keys }, cores, turns);
    }
}

#[derive(Clone, Copy)]
struct Offered {
    /// Of so many decisions, one is denied.
    one_in: u64,
    keys: u64,
}

/// For callgrind: decisions of one kind, on this thread alone, with the journal or without.
fn counted(is_kept: bool, decisions: u64) {
    let subjects = Subjects::new("counted", 1);
    let engine = if is_kept { &subjects.with } else { &subjects.without };
    let offered = Offered { one_in: 1, keys: 64 };
    black_box(decide(engine, &subjects.clock, offered, decisions, 0));
}

fn print(case: &str, figure: &str, value: f64, high: Option<f64>) {
    let high = high.map_or(String::new(), |high| format!("; high={high}"));
    println!("bar=2; case={case}; figure={figure}; value={value:.4}{high}; by=median");
}

/// The same engine twice: with a journal, and without.
struct Subjects {
    with: Engine,
    without: Engine,
    clock: Arc<Clock>,
    journal: Arc<Journal>,
    writer: Option<JournalWriter>,
    directory: PathBuf,
    cores: usize,
}

fn engine() -> Engine {
    let source = Source { name: "rules.yaml".into(), text: RULES.as_bytes().to_vec() };
    let rules = RuleSet::parse(&[source], &FleetSecret::BUILT_IN).expect("valid rules");
    Engine::new(EngineOptions { secret: FleetSecret::BUILT_IN, keys_max: 1_000_000 }, rules)
}

impl Subjects {
    fn new(what: &str, cores: usize) -> Self {
        let base = std::env::var_os("TIDEGATE_BENCH_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
        let directory =
            base.join(format!("tidegate-journal-{}-{}", std::process::id(), what.replace(' ', "-")));
        let clock = Arc::new(Clock::system());
        let journal = Journal::new(cores, directory.clone());
        let with = engine();
        with.keep_journal(journal.clone());
        let (region, node) = ("r".into(), "n".into());
        let options = LogOptions { directory: directory.clone(), cap_bytes: CAP_BYTES_DEFAULT, region, node };
        let watched = clock.clone();
        let watch = Box::new(move || (watched.now().now, Vec::new()));
        let writer = JournalWriter::start(journal.clone(), options, watch, Vec::new()).expect("a thread");
        Subjects { with, without: engine(), clock, journal, writer: Some(writer), directory, cores }
    }

    /// All cores decide all out: nanoseconds of their CPU time for each decision, and how many were denied.
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    fn turn(&self, engine: &Engine, offered: Offered) -> (f64, u64) {
        let clock = &self.clock;
        let (nanos, denied) = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..self.cores as u64)
                .map(|thread| scope.spawn(move || decide(engine, clock, offered, DECISIONS, thread)))
                .collect();
            let decided = threads.into_iter().map(|thread| thread.join().expect("decided"));
            decided.fold((0, 0), |(nanos, denied), (more, further)| (nanos + more, denied + further))
        });
        (nanos as f64 / (DECISIONS * self.cores as u64) as f64, denied)
    }

    /// Decisions a second on all cores, of requests that pass.
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    fn rate_per_s(&self) -> f64 {
        let offered = Offered { one_in: u64::MAX, keys: KEYS };
        let nanos = median((0..3).map(|_| self.turn(&self.without, offered).0).collect());
        self.cores as f64 * 1e9 / nanos
    }

    fn stop(&mut self) {
        self.writer.take().into_iter().for_each(JournalWriter::stop);
    }
}

impl Drop for Subjects {
    fn drop(&mut self) {
        self.stop();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// What a front end calls for each request. CPU time of this thread in nanoseconds, and how many were denied.
fn decide(engine: &Engine, clock: &Clock, offered: Offered, decisions: u64, thread: u64) -> (u64, u64) {
    let begun = thread_cpu_ns("/proc/thread-self/schedstat");
    let mut denied = 0;
    for number in 0..decisions {
        let is_attack = number % offered.one_in == 0;
        let text = hex(mixed(number ^ thread << 40) % offered.keys);
        let attributes = [("user", std::str::from_utf8(&text).unwrap_or(""))];
        let namespace = if is_attack { "attacked" } else { "roomy" };
        let subject = Subject::Rules { namespace, attributes: Attributes(&attributes), cost: Cost::ONE };
        let request = Request { tenant: "default", purpose: Purpose::Check, subject };
        let rules = engine.rules();
        let decided = engine.decide(&rules, &request, clock.now()).expect("a request that is right");
        denied += u64::from(!black_box(decided.answer().expect("nobody is asked")).allowed);
    }
    (thread_cpu_ns("/proc/thread-self/schedstat") - begun, denied)
}

fn thread_cpu_ns(path: impl AsRef<Path>) -> u64 {
    let schedstat = fs::read_to_string(path).expect("Linux");
    schedstat.split(' ').next().and_then(|first| first.parse().ok()).expect("a number")
}

/// CPU time of the thread that writes, by its name.
fn writer_cpu_ns() -> u64 {
    let threads = fs::read_dir("/proc/self/task").expect("Linux").flatten().map(|entry| entry.path());
    let is_writer =
        |path: &PathBuf| fs::read_to_string(path.join("comm")).is_ok_and(|name| name.trim() == "decisions");
    threads.filter(is_writer).map(|path| thread_cpu_ns(path.join("schedstat"))).sum()
}

/// SplitMix64.
fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

fn hex(number: u64) -> [u8; 16] {
    let mut text = [0; 16];
    for (place, digit) in text.iter_mut().zip((0..16).map(|shift| number >> (4 * shift) & 15)) {
        *place = b"0123456789abcdef"[usize::try_from(digit).unwrap_or(0)];
    }
    text
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn flood(case: &str, offered: Offered, cores: usize, turns: u32) {
    let mut subjects = Subjects::new(case, cores);
    // Every key has its entry before anything is counted; these denials are logged too.
    let warm = subjects.turn(&subjects.with, offered);
    subjects.turn(&subjects.without, offered);
    let (mut with, mut without, mut denied, mut wrote) = (Vec::new(), Vec::new(), warm.1, Vec::new());
    for _ in 0..turns {
        without.push(subjects.turn(&subjects.without, offered).0);
        let before = writer_cpu_ns();
        let (nanos, more) = subjects.turn(&subjects.with, offered);
        // What was put down last is written now, and belongs to this turn.
        subjects.journal.write_now();
        wrote.push((writer_cpu_ns() - before) as f64 / (DECISIONS * cores as u64) as f64);
        with.push(nanos);
        denied += more;
    }
    let (with, without, wrote) = (median(with), median(without), median(wrote));
    print(case, "one denial in so many decisions", offered.one_in as f64, None);
    print(case, "CPU ns per decision without the log", without, None);
    print(case, "with it, of those who decide", with, None);
    print(case, "and of the one who writes", wrote, None);
    let lost = |with: f64| (1.0 - without / with) * 100.0;
    let is_bar = (offered.one_in > 1).then_some(5.0);
    print(case, "throughput lost where the writer has a core, %", lost(with), None);
    print(case, "throughput lost where it takes from theirs, %", lost(with + wrote), is_bar);
    subjects.stop();
    let counters: HashMap<&str, u64> = subjects.journal.recorder().counters().named().into_iter().collect();
    let only_counted = counters["decisions_log_denials_only_counted"];
    print(case, "denials that found every lane taken", only_counted as f64, None);
    let (by_key, by_rule) = logged(&subjects.directory);
    print(case, "of them in a count by rule, %", by_rule as f64 / denied as f64 * 100.0, None);
    let missing = denied.abs_diff(by_key + by_rule);
    print(case, "denials that are neither in the log nor in a count", missing as f64, Some(0.0));
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Every denial in the log, by its key and by its rule alone: all of them, page by page.
fn logged(directory: &Path) -> (u64, u64) {
    let mut until = Nanos::MAX;
    let (mut records, mut counts) = (HashMap::new(), HashMap::new());
    loop {
        let wanted: &dyn Fn(&_) -> Wanted = &|_| Wanted::All;
        let (request, since, admissions) = (None, Nanos::ZERO, false);
        let query = Query { wanted, request, since, until, admissions, records_max: RECORDS_MAX };
        let found = read(directory, &query).expect("the log");
        let of_page = found.records.iter().map(|found| found.record);
        records.extend(of_page.map(|record| ((record.key, record.at), 1 + u64::from(record.more))));
        counts.extend(found.counts.iter().map(|count| ((count.rule, count.first, count.last), count.count)));
        match found.records.last() {
            Some(last) if found.is_cut && last.record.at < until => until = last.record.at,
            _ => return (records.values().sum(), counts.values().sum()),
        }
    }
}
