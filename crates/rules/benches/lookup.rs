//! Five million overrides: what they cost on the disk and in memory, and what a look-up, a start, a change and a new
//! file take.
//!
//! `cargo bench -p tidegate-rules --bench lookup -- [--overrides N] [2]`; `cargo xtask bars rules` reads what it
//! prints. The floor of a look-up is what nobody can do without: the same hash, and one read at a random place of
//! memory as large as the table, in large pages as the table is.

use memmap2::{Advice, MmapMut};
use std::fs;
use std::hint::black_box;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tidegate_core::identity::Shape;
use tidegate_core::{Burst, FleetSecret, KeyPrefix, Limit, Nanos, Rate};
use tidegate_rules::{
    Attributes, Delta, DocumentName, LookupSeed, Matches, Override, OverrideEffect, OverrideName, Rule,
    RuleChange, RuleFiles, RuleOptions, RuleSet, SnapshotWriter,
};

const SECRET: FleetSecret = FleetSecret::BUILT_IN;
const NOW: Nanos = Nanos::from_secs(1_800_000_000);
const DOCUMENT: &str = "namespace: api\nrules: [{ name: per-user, key: [user], rate: 100/s }]\n";
const LOOKUPS: usize = 1_000_000;
/// Looked up and timed together: reading the clock costs as much as a third of a look-up.
const BATCH: usize = 16;
/// The file's table has two lines of 64 bytes for five overrides.
const TABLE_BYTES_PER_OVERRIDE: f64 = 25.6;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let overrides = match args.iter().position(|arg| arg == "--overrides") {
        Some(at) => args[at + 1].parse().expect("--overrides N"),
        None => 5_000_000,
    };
    let directory = std::env::temp_dir().join(format!("tidegate-lookup-{}", std::process::id()));
    let bench = Bench { case: format!("{overrides} overrides"), overrides, directory };
    bench.run();
    let _ = fs::remove_dir_all(&bench.directory);
}

struct Bench {
    case: String,
    overrides: u64,
    directory: PathBuf,
}

/// Since something began, in milliseconds.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let begun = Instant::now();
    let outcome = work();
    (outcome, begun.elapsed().as_secs_f64() * 1000.0)
}

/// 20 bytes.
fn caller(number: u64) -> String {
    format!("caller-{number:013}")
}

fn name(caller: &str) -> OverrideName {
    OverrideName {
        tenant: "default".into(),
        namespace: "api".into(),
        rule: "per-user".into(),
        parts: [Box::from(caller)].into(),
    }
}

/// Numbers of their own for most, one of a thousand rates for some, an end of its own for one in ten.
fn applied(number: u64) -> Override {
    let limited = Override {
        change: OverrideEffect::Limit(Limit::new(number).expect("small")),
        hot: false,
        until: Nanos::MAX,
    };
    let rate = Rate::new(1 + number % 1000, Nanos::from_secs(1)).expect("in range");
    match number % 10 {
        0 => Override { until: NOW.plus(Nanos::from_secs(1 + number)), ..limited },
        1..=4 => Override {
            change: OverrideEffect::Rate { rate, burst: Burst::new(1 + number % 1000).expect("small") },
            ..limited
        },
        _ => limited,
    }
}

/// SplitMix64.
fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

impl Bench {
    fn print(&self, figure: &str, value: f64, high: Option<f64>) {
        let high = high.map_or(String::new(), |high| format!("; high={high}"));
        println!("bar=2; case={}; figure={figure}; value={value:.4}{high}; by=median", self.case);
    }

    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    fn run(&self) {
        fs::create_dir_all(&self.directory).expect("a directory");
        let (path, millis) = timed(|| self.write());
        self.print("building the file, s", millis / 1000.0, None);
        let bytes = fs::metadata(&path).expect("written").len();
        self.print("file, bytes per override", bytes as f64 / self.overrides as f64, Some(120.0));
        // The first read of a file that is on the disk only is the disk's.
        let before = resident_bytes();
        let ((mut files, set), millis) = timed(|| self.open());
        self.print("start from the file, s", millis / 1000.0, Some(2.0));
        self.measure_lookups(&set, "");
        let resident = resident_bytes().saturating_sub(before) as f64 / self.overrides as f64;
        self.print("resident bytes per override after a million look-ups", resident, Some(200.0));
        let set = self.measure_changes(&mut files, set);
        self.measure_lookups(&set, ", 100000 changed");
        self.measure_compaction(&mut files, &set);
        self.measure_patterns(set);
    }

    fn write(&self) -> PathBuf {
        let path = self.directory.join("1.rules");
        let mut writer = SnapshotWriter::new(&path, 1, LookupSeed::random()).expect("a writer");
        let document = DocumentName { tenant: "default".into(), namespace: "api".into() };
        writer.document(&document, DOCUMENT).expect("a document");
        let mut named = name("");
        for number in 0..self.overrides {
            named.parts[0] = caller(number).into();
            writer.set(&named, &applied(number)).expect("an override");
        }
        writer.finish().expect("a file");
        path
    }

    fn open(&self) -> (RuleFiles, RuleSet) {
        let (files, findings) = RuleFiles::open(&self.directory).expect("the directory");
        assert!(findings.is_empty(), "{findings:?}");
        let snapshot = files.snapshot().expect("the file");
        let set = RuleSet::from_snapshot(snapshot, RuleOptions::new(&SECRET)).expect("its rules");
        (files, set)
    }

    /// Callers at random, one after the other in memory: that they are fetched isn't part of a look-up.
    fn callers(&self, salt: u64) -> Vec<[u8; 20]> {
        let numbers = (0..LOOKUPS as u64).map(|number| mixed(number ^ salt) % self.overrides);
        numbers.map(|number| caller(number).into_bytes().try_into().expect("20 bytes")).collect()
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "sizes of memory"
    )]
    fn measure_lookups(&self, set: &RuleSet, with: &str) {
        let rule = &set.namespaces()[0].rules[0];
        let array = large_array((self.overrides as f64 * TABLE_BYTES_PER_OVERRIDE) as usize);
        let prefix = KeyPrefix::new(&SECRET, "default", "api", "per-user", Shape::Gcra);
        let mut matches = Matches::new();
        let (mut floors, mut lookups, mut misses, mut wholes) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let strangers: Vec<[u8; 20]> = (0..LOOKUPS as u64).map(|number| stranger(mixed(number))).collect();
        for round in 0..5 {
            let callers = self.callers(round << 40);
            floors.push(p50(&callers, |caller| read_at_random(&prefix, &array, caller)));
            lookups.push(p50(&callers, |caller| look_up(set, rule, caller)));
            misses.push(p50(&strangers, |caller| look_up(set, rule, caller)));
            wholes.push(p50(&callers, |caller| {
                let attributes = [("user", caller)];
                set.matches("default", "api", Attributes(&attributes), NOW, &mut matches);
                matches.len() as u64
            }));
        }
        let [floor, lookup, miss, whole] = [floors, lookups, misses, wholes].map(median);
        self.print(&format!("floor: hash and one cache miss, ns at p50{with}"), floor, None);
        self.print(&format!("look-up, ns at p50{with}"), lookup, Some(150.0));
        self.print(&format!("look-up ÷ floor{with}"), lookup / floor, Some(2.5));
        self.print(&format!("look-up of a caller without an override, ns at p50{with}"), miss, None);
        self.print(&format!("matching with the look-up in it, ns at p50{with}"), whole, None);
    }

    /// A hundred thousand changes, each a delta of its own, as they come from a stream.
    fn measure_changes(&self, files: &mut RuleFiles, mut set: RuleSet) -> RuleSet {
        let mut micros = Vec::new();
        let mut encoded = Vec::new();
        for number in 0..100_000 {
            let changed = name(&caller(mixed(number) % self.overrides));
            let value = Some(applied(number + 5));
            let version = set.version() + 1;
            let delta = Delta { version, changes: vec![RuleChange::Override { name: changed, value }] };
            let (next, millis) = timed(|| set.apply(&delta, RuleOptions::new(&SECRET)).expect("applies"));
            micros.push(millis * 1000.0);
            set = next;
            encoded.push((version, delta.encode().expect("a delta")));
        }
        let batch: Vec<(u64, &[u8])> = encoded.iter().map(|(version, bytes)| (*version, &**bytes)).collect();
        files.append(&batch).expect("room");
        files.sync().expect("a disk");
        micros.sort_by(f64::total_cmp);
        self.print("applying a change of one caller, µs at p50", micros[micros.len() / 2], None);
        self.print("applying a change of one caller, µs at p99", micros[micros.len() * 99 / 100], None);
        set
    }

    /// What decisions notice of a new file that is written beside them.
    fn measure_compaction(&self, files: &mut RuleFiles, set: &RuleSet) {
        let rule = &set.namespaces()[0].rules[0];
        let callers = self.callers(9 << 40);
        let done = AtomicBool::new(false);
        let quiet = p99(&callers, set, rule, || false);
        let compaction = files.compaction().expect("a log").expect("changes");
        let (compacted, millis, busy) = std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let outcome = timed(|| compaction.run().expect("a new file"));
                done.store(true, Ordering::Relaxed);
                outcome
            });
            let busy = p99(&callers, set, rule, || !done.load(Ordering::Relaxed));
            let (compacted, millis) = writer.join().expect("written");
            (compacted, millis, busy)
        });
        self.print("compaction with 100000 changes, s", millis / 1000.0, None);
        let (snapshot, millis) =
            timed(|| files.adopt(compacted).expect("in its place").expect("the same file"));
        self.print("putting the new file in its place, ms", millis, None);
        let (rebased, millis) = timed(|| set.rebase(&snapshot).expect("the same rules"));
        self.print("going over to the new file, ms", millis, None);
        assert_eq!(rebased.changed_callers(), 0);
        for caller in callers.iter().take(100_000) {
            let caller = std::str::from_utf8(caller).expect("digits");
            assert_eq!(look_up(&rebased, rule, caller), look_up(set, rule, caller), "{caller}");
        }
        self.print("look-up, ns at p99, with nothing beside it", quiet, None);
        self.print("look-up, ns at p99, while a new file is written", busy, None);
    }

    /// Of a hundred thousand patterns, one at a time.
    fn measure_patterns(&self, mut set: RuleSet) {
        const PATTERNS: u64 = 100_000;
        let change = |number: u64| {
            let pattern =
                if number.is_multiple_of(2) { format!("org-{number}-*") } else { format!("*-team-{number}") };
            RuleChange::Override { name: name(&pattern), value: Some(applied(number + 5)) }
        };
        let options = RuleOptions::new(&SECRET);
        let all = Delta { version: set.version() + 1, changes: (0..PATTERNS).map(change).collect() };
        let (next, millis) = timed(|| set.apply(&all, options).expect("applies"));
        self.print("applying 100000 patterns one by one, s", millis / 1000.0, None);
        set = next;
        let mut micros = Vec::new();
        for number in 0..10_000 {
            let changes = vec![change(mixed(number) % (2 * PATTERNS))];
            let delta = Delta { version: set.version() + 1, changes };
            let (next, millis) = timed(|| set.apply(&delta, options).expect("applies"));
            micros.push(millis * 1000.0);
            set = next;
        }
        micros.sort_by(f64::total_cmp);
        let total: f64 = micros.iter().sum();
        self.print("changing a pattern among 100000, µs, mean", total / 10_000.0, None);
        self.print("changing a pattern among 100000, ms, longest", micros[9_999] / 1000.0, None);
        let rule = &set.namespaces()[0].rules[0];
        let strangers: Vec<[u8; 20]> = (0..LOOKUPS as u64).map(|number| stranger(mixed(number))).collect();
        let nanos = p50(&strangers, |caller| look_up(&set, rule, caller));
        self.print("look-up of a caller without an override, 100000 patterns, ns at p50", nanos, None);
    }
}

/// 20 bytes that no override names.
fn stranger(number: u64) -> [u8; 20] {
    let text = format!("nobody-{:013}", number % 10_000_000_000_000);
    text.into_bytes().try_into().expect("20 bytes")
}

fn look_up(set: &RuleSet, rule: &Rule, caller: &str) -> u64 {
    let attributes = [("user", caller)];
    match set.override_of(rule, Attributes(&attributes), NOW) {
        Some(Override { change: OverrideEffect::Limit(limit), .. }) => limit.get(),
        Some(Override { change: OverrideEffect::Rate { burst, .. }, .. }) => burst.get(),
        Some(_) => 1,
        None => 0,
    }
}

fn large_array(bytes: usize) -> MmapMut {
    let mut array = MmapMut::map_anon(bytes).expect("memory");
    array.advise(Advice::HugePage).expect("large pages");
    array.fill(1);
    array
}

/// The floor.
fn read_at_random(prefix: &KeyPrefix, array: &[u8], caller: &str) -> u64 {
    let hash = prefix.hash_of_parts([caller]);
    let high = hash >> 64;
    let place = usize::try_from((high * array.len() as u128) >> 64).unwrap_or(0);
    u64::from(array[place])
}

/// Nanoseconds of a call, by batches.
fn p50(callers: &[[u8; 20]], mut call: impl FnMut(&str) -> u64) -> f64 {
    percentile(batches(callers, &mut call, || false), 50)
}

fn p99(callers: &[[u8; 20]], set: &RuleSet, rule: &Rule, go_on: impl Fn() -> bool) -> f64 {
    percentile(batches(callers, &mut |caller| look_up(set, rule, caller), go_on), 99)
}

/// Once over all callers, and again for as long as `go_on` says.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn batches(callers: &[[u8; 20]], call: &mut impl FnMut(&str) -> u64, go_on: impl Fn() -> bool) -> Vec<f64> {
    let mut took = Vec::with_capacity(callers.len() / BATCH);
    loop {
        for batch in callers.chunks_exact(BATCH) {
            let begun = Instant::now();
            let mut sum = 0_u64;
            for caller in batch {
                let caller = std::str::from_utf8(caller).unwrap_or("");
                sum = sum.wrapping_add(black_box(call(black_box(caller))));
            }
            black_box(sum);
            let elapsed: Duration = begun.elapsed();
            took.push(elapsed.as_nanos() as f64 / BATCH as f64);
        }
        if !go_on() {
            return took;
        }
    }
}

fn percentile(mut values: Vec<f64>, percent: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() * percent / 100]
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Of this process, files that are mapped included.
fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages: u64 =
        status.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number of pages");
    pages * 4096
}

const _: () = assert!(LOOKUPS.is_multiple_of(BATCH));
