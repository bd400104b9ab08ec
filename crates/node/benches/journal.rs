//! What a flood of denials costs the engine that logs them: a node's own engine and journal, with the thread that
//! writes beside those that decide.
//!
//! `cargo bench -p tidegate-node --bench journal -- [--turns N]`; `cargo xtask bars why` reads what it prints. Two
//! engines that differ in the journal alone take turns (without, with, with, without), for three quarters of a second
//! each, in which the log is written once, as a node does it. All cores decide as fast as they can all the time: an
//! attack comes whenever the clock says that it is time for one, a million times a second over all threads, and all
//! other requests pass. Of each turn comes one ratio, of
//! decisions in the same time; their median is the figure, with the lowest and the highest. CPU time, which a busy
//! machine changes less, says what of it is the log's. Files are made in the system's temporary directory, or in
//! `TIDEGATE_BENCH_DIR`, and removed.
//!
//! `--callgrind CASE DENIALS` is for counting instructions: of denials that are `folded` into counts or `unlogged`, or
//! of those that are `written` one by one and their like, `unwritten`. On one thread, by a clock that stands still.

use std::collections::HashMap;
use std::fs;
use std::hint::black_box;
use std::ops::Add;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tidegate_core::{Cost, FleetSecret, Moment, Nanos};
use tidegate_decisions::{CAP_BYTES_DEFAULT, LogOptions, Query, RECORDS_MAX, RuleFilter, read};
use tidegate_node::clock::Clock;
use tidegate_node::journal::Journal;
use tidegate_node::journal::writer::JournalWriter;
use tidegate_node::{Engine, EngineOptions, Purpose, Request, Subject, top};
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
/// By all threads together, at whatever rate requests are decided.
const DENIALS_PER_S: u64 = 1_000_000;
/// As often as a node writes.
const ROUND: Duration = Duration::from_millis(750);
/// Before each round: caches are its own then, and the lanes of those who decide as full as they always are.
const WARM_UP: Duration = Duration::from_millis(250);

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let after = |name: &str| args.iter().position(|arg| arg == name).map(|place| &args[place + 1..]);
    if let Some([case, denials, ..]) = after("--callgrind") {
        return counted(case, denials.parse().expect("a number"));
    }
    let turns = after("--turns").map_or(10, |rest| rest[0].parse().expect("--turns N"));
    let crew = Crew::new(std::thread::available_parallelism().map_or(1, usize::from));
    let of_each_thread = DENIALS_PER_S / crew.orders.len() as u64;
    for (case, attacks_per_s, keys) in [
        ("a million denials a second, 10k keys", Some(of_each_thread), KEYS),
        ("a million denials a second, 100k keys", Some(of_each_thread), 10 * KEYS),
        ("nothing but denials, 10k keys", None, KEYS),
    ] {
        let subjects = Arc::new(Subjects::new(case, crew.orders.len()));
        flood(case, &crew, &subjects, Offered { attacks_per_s, keys }, turns);
    }
}

#[derive(Clone, Copy)]
struct Offered {
    /// By each thread; `None`: every request is one.
    attacks_per_s: Option<u64>,
    keys: u64,
}

/// For callgrind: denials of one kind, on this thread alone.
fn counted(case: &str, denials: u64) {
    const NOW: Nanos = Nanos::from_secs(1_800_000_000);
    top::stop_sampling();
    let engine = engine();
    let (is_kept, is_written) = match case {
        "folded" => (true, false),
        "unlogged" => (false, false),
        "written" => (true, true),
        "unwritten" => (false, true),
        other => panic!("{other}: folded, unlogged, written or unwritten"),
    };
    let keys = if is_written { denials } else { 64 };
    // Whoever comes later is denied.
    let come = |keys: u64| {
        (0..keys).for_each(|key| {
            black_box(ask(&engine, "attacked", key, Moment::at(NOW)));
        });
    };
    come(keys);
    if is_kept {
        // Nobody writes: what is counted is what those do who decide.
        engine.set_journal(Journal::new(1, None));
    }
    (0..denials.div_ceil(keys)).for_each(|_| come(keys));
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
    writer: Mutex<Option<JournalWriter>>,
    directory: PathBuf,
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
        with.set_journal(journal.clone());
        let (region, node) = ("r".into(), "n".into());
        let options = LogOptions { directory: directory.clone(), cap_bytes: CAP_BYTES_DEFAULT, region, node };
        let watched = clock.clone();
        let watch = Box::new(move || (watched.now().now, Vec::new()));
        let writer = JournalWriter::start(journal.clone(), options, watch, Vec::new()).expect("a thread");
        Subjects { with, without: engine(), clock, journal, writer: Mutex::new(Some(writer)), directory }
    }
}

impl Drop for Subjects {
    fn drop(&mut self) {
        let writer = self.writer.get_mut().ok().and_then(Option::take);
        writer.into_iter().for_each(JournalWriter::stop);
        let _ = fs::remove_dir_all(&self.directory);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Subjected {
    With,
    Without,
}

/// What a thread is to do from now on; what it does from then until then counts.
#[derive(Clone)]
struct BenchCommand {
    subjects: Arc<Subjects>,
    subjected: Subjected,
    offered: Offered,
    from: Nanos,
    until: Nanos,
}

/// What came of a round: of one thread, or of all.
#[derive(Clone, Copy, Default)]
struct Round {
    decisions: u64,
    denied: u64,
    /// Before it counted.
    denied_before: u64,
    cpu_ns: u64,
    writer_cpu_ns: u64,
}

impl Add for Round {
    type Output = Round;

    fn add(self, more: Round) -> Round {
        Round {
            decisions: self.decisions + more.decisions,
            denied: self.denied + more.denied,
            denied_before: self.denied_before + more.denied_before,
            cpu_ns: self.cpu_ns + more.cpu_ns,
            writer_cpu_ns: self.writer_cpu_ns + more.writer_cpu_ns,
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
impl Round {
    fn cpu_per_decision(&self) -> f64 {
        self.cpu_ns as f64 / self.decisions as f64
    }

    fn per_s(count: u64, rounds: u32) -> f64 {
        count as f64 / (ROUND * rounds).as_secs_f64()
    }
}

/// The threads that decide: the same for all rounds, as a node's are.
struct Crew {
    orders: Vec<Sender<BenchCommand>>,
    done: Receiver<Round>,
}

impl Crew {
    fn new(threads: usize) -> Self {
        let (report, done) = channel();
        let hire = |thread: usize| {
            let ((order, orders), report) = (channel::<BenchCommand>(), report.clone());
            std::thread::spawn(move || {
                let mut number = (thread as u64) << 40;
                // Until nobody wants anything any more.
                orders.iter().map(|order| decide(&order, &mut number)).all(|round| report.send(round).is_ok())
            });
            order
        };
        Crew { orders: (0..threads).map(hire).collect(), done }
    }

    /// One round on all cores; the log is written in the middle of it.
    fn round(&self, subjects: &Arc<Subjects>, subjected: Subjected, offered: Offered) -> Round {
        let from = subjects.clock.now().now.plus(nanos(WARM_UP));
        let order = BenchCommand {
            subjects: subjects.clone(),
            subjected,
            offered,
            from,
            until: from.plus(nanos(ROUND)),
        };
        self.orders.iter().for_each(|thread| thread.send(order.clone()).expect("it waits for orders"));
        drop(order);
        let before = writer_cpu_ns();
        let early = self.done.recv_timeout(WARM_UP + ROUND / 2);
        subjects.journal.write_now();
        let writer_cpu_ns = writer_cpu_ns() - before;
        let rest = self.orders.len() - usize::from(early.is_ok());
        let round = self.done.iter().take(rest).fold(early.unwrap_or_default(), Round::add);
        Round { writer_cpu_ns, ..round }
    }
}

/// What a front end calls for each request, over and over.
fn decide(order: &BenchCommand, number: &mut u64) -> Round {
    let mut round = decide_until(order, order.from, number);
    let denied_before = round.denied;
    let begun = thread_cpu_ns("/proc/thread-self/schedstat");
    round = decide_until(order, order.until, number);
    let cpu_ns = thread_cpu_ns("/proc/thread-self/schedstat") - begun;
    Round { cpu_ns, denied_before, ..round }
}

fn decide_until(order: &BenchCommand, until: Nanos, number: &mut u64) -> Round {
    let BenchCommand { subjects, subjected, offered, .. } = order;
    let engine = if *subjected == Subjected::With { &subjects.with } else { &subjects.without };
    let (mut round, mut attacks) = (Round::default(), 0);
    let begun = subjects.clock.now().now;
    loop {
        let moment = subjects.clock.now();
        if moment.now >= until {
            return round;
        }
        *number += 1;
        let key = mixed(*number) % offered.keys;
        let is_due = |per_s: u64| attacks < moment.now.minus(begun).get() * per_s / Nanos::PER_SECOND;
        let is_attack = offered.attacks_per_s.is_none_or(is_due);
        attacks += u64::from(is_attack);
        let namespace = if is_attack { "attacked" } else { "roomy" };
        round.decisions += 1;
        round.denied += u64::from(!ask(engine, namespace, key, moment));
    }
}

fn nanos(duration: Duration) -> Nanos {
    Nanos::new(u64::try_from(duration.as_nanos()).expect("short"))
}

/// Whether it passes.
fn ask(engine: &Engine, namespace: &str, key: u64, moment: Moment) -> bool {
    let text = hex(key);
    let attributes = [("user", std::str::from_utf8(&text).unwrap_or(""))];
    let subject = Subject::Rules { namespace, attributes: Attributes(&attributes), cost: Cost::ONE };
    let request = Request { tenant: "default", purpose: Purpose::Check, subject };
    let rules = engine.rules();
    let decided = engine.decide(&rules, &request, moment).expect("a request that is right");
    black_box(decided.answer().expect("nobody is asked")).allowed
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
fn flood(case: &str, crew: &Crew, subjects: &Arc<Subjects>, offered: Offered, turns: u32) {
    let round = |subjected| crew.round(subjects, subjected, offered);
    // Every key has its entry before anything is counted; these denials are logged too.
    let warm = round(Subjected::With);
    let mut denied = warm.denied + warm.denied_before;
    round(Subjected::Without);
    for _ in 0..turns {
        let order = [Subjected::Without, Subjected::With, Subjected::With, Subjected::Without];
        let [first, second, third, fourth] = order.map(|subjected| {
            if subjected == Subjected::Without {
                // What was put down last is no part of what it is compared with.
                subjects.journal.write_now();
            }
            round(subjected)
        });
        let (with, without) = (second + third, first + fourth);
        denied += with.denied + with.denied_before;
        print(case, "denials offered a second", Round::per_s(with.denied, 2), None);
        print(case, "decisions a second without the log", Round::per_s(without.decisions, 2), None);
        print(case, "decisions a second with it", Round::per_s(with.decisions, 2), None);
        let high = offered.attacks_per_s.is_some().then_some(5.0);
        let lost = 1.0 - with.decisions as f64 / without.decisions as f64;
        print(case, "throughput lost, %", lost * 100.0, high);
        let decides = with.cpu_per_decision() / without.cpu_per_decision() - 1.0;
        print(case, "CPU time of those who decide: more for each decision, %", decides * 100.0, None);
        let writes = with.writer_cpu_ns as f64 / with.cpu_ns as f64;
        print(case, "CPU time of the one who writes, of theirs, %", writes * 100.0, None);
    }
    subjects.journal.write_now();
    let named = subjects.journal.recorder().counters().counts_by_name();
    let only_counted = named.into_iter().find(|(name, _)| *name == "decisions_log_denials_only_counted");
    let only_counted = only_counted.map_or(u64::MAX, |(_, count)| count);
    print(case, "denials that found every lane taken", only_counted as f64, None);
    let (by_key, by_rule) = logged(&subjects.directory);
    print(case, "denials in a count by rule, %", by_rule as f64 / denied as f64 * 100.0, None);
    let missing = denied.abs_diff(by_key + by_rule);
    print(case, "denials that are neither in the log nor in a count", missing as f64, Some(0.0));
}

/// Every denial in the log, by its key and by its rule alone: all of them, page by page.
fn logged(directory: &Path) -> (u64, u64) {
    let mut until = Nanos::MAX;
    let (mut records, mut counts) = (HashMap::new(), HashMap::new());
    loop {
        let wanted: &dyn Fn(&_) -> RuleFilter = &|_| RuleFilter::All;
        let (request, since, admissions) = (None, Nanos::ZERO, false);
        let query =
            Query { callers: None, wanted, request, since, until, admissions, records_max: RECORDS_MAX };
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
