//! One decision in process, beside governor and beside the floor, on the same keys in the same run.
//!
//! `cargo bench -p tidegate-node --bench decide [-- --keys N --rounds N --only NAME]`. Prints one line per
//! case and round; `cargo xtask bars decide` reads them. Clocks are included, keys are made in registers.

use governor::clock::QuantaClock;
use governor::state::keyed::DefaultKeyedStateStore;
use governor::{Quota, RateLimiter};
use hashbrown::HashTable;
use parking_lot::Mutex;
use siphasher::sip128::{Hasher128, SipHasher13};
use std::hash::Hasher;
use std::hint::black_box;
use std::num::NonZeroU32;
use tidegate_core::batch::Decisions;
use tidegate_core::identity::Shape;
use tidegate_core::state::State;
use tidegate_core::{
    Burst, Cost, FleetSecret, Item, KeyId, KeyPrefix, Limit, LocalState, Nanos, Period, Rate, Spec, Table,
};
use tidegate_node::clock::Clock;

const BATCH: usize = 16;

/// The `index`-th key as 16 bytes of text, made without memory traffic.
#[inline(always)]
fn key_text(index: u64) -> [u8; 16] {
    let mut text = *b"user-00000000000";
    let mut rest = index;
    for place in (5..16).rev() {
        text[place] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    text
}

/// A cheap walk over the keys in random order.
struct Walk {
    state: u64,
    keys: u64,
}

impl Walk {
    fn new(thread: u64, keys: u64) -> Self {
        Walk { state: 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(thread + 1), keys }
    }

    #[inline(always)]
    fn next(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        ((u128::from(self.state) * u128::from(self.keys)) >> 64) as u64
    }
}

fn main() {
    let options = Options::from_args();
    for keys in options.keys.clone() {
        let subjects = subjects(keys, &options);
        for threads in [1, 2] {
            for round in 0..options.rounds {
                for subject in &subjects {
                    let operations = if keys > 1_000_000 { 2_000_000 } else { 4_000_000 };
                    let nanos = run(subject.as_ref(), threads, operations, keys);
                    println!("{} keys={keys} threads={threads} round={round} ns={nanos:.1}", subject.name());
                }
            }
        }
    }
}

struct Options {
    keys: Vec<u64>,
    rounds: u32,
    only: Option<String>,
}

impl Options {
    fn from_args() -> Self {
        let mut options = Options { keys: vec![100_000, 10_000_000], rounds: 5, only: None };
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--keys" => options.keys = vec![args.next().and_then(|n| n.parse().ok()).expect("--keys N")],
                "--rounds" => options.rounds = args.next().and_then(|n| n.parse().ok()).expect("--rounds N"),
                "--only" => options.only = args.next(),
                _ => {}
            }
        }
        options
    }
}

/// Something that decides; `pass` makes `operations` decisions on one thread.
trait Subject: Sync {
    fn name(&self) -> &'static str;
    fn pass(&self, walk: &mut Walk, operations: u64);
    /// Makes the entry of one key.
    fn touch(&self, index: u64);
}

fn subjects(keys: u64, options: &Options) -> Vec<Box<dyn Subject>> {
    let all: Vec<fn(u64) -> Box<dyn Subject>> = vec![
        |keys| Box::new(Governor::new(keys)),
        |keys| Box::new(Floor::new(keys)),
        |keys| Box::new(Tidegate::new("tidegate-gcra", keys, 1, 1, gcra())),
        |keys| Box::new(Tidegate::new("tidegate-gcra-16", keys, 1, BATCH, gcra())),
        |keys| Box::new(Tidegate::new("tidegate-sliding", keys, 1, 1, sliding())),
        |keys| Box::new(Tidegate::new("tidegate-sliding-16", keys, 1, BATCH, sliding())),
        |keys| Box::new(Tidegate::new("tidegate-five", keys, 5, 1, sliding())),
    ];
    let mut subjects = Vec::new();
    for make in all {
        let subject = make(keys.min(1));
        if options.only.as_ref().is_none_or(|only| subject.name().contains(only.as_str())) {
            let subject = make(keys);
            (0..keys).for_each(|index| subject.touch(index));
            subjects.push(subject);
        }
    }
    subjects
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures the time that passes")]
fn run(subject: &dyn Subject, threads: u64, operations: u64, keys: u64) -> f64 {
    let mut warm_up = Walk::new(77, keys);
    subject.pass(&mut warm_up, operations / 20);
    let start = std::time::Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || subject.pass(&mut Walk::new(thread, keys), operations));
        }
    });
    start.elapsed().as_nanos() as f64 / operations as f64
}

struct Governor(RateLimiter<String, DefaultKeyedStateStore<String>, QuantaClock>);

impl Governor {
    fn new(_keys: u64) -> Self {
        Governor(RateLimiter::keyed(Quota::per_second(NonZeroU32::new(1_000_000).unwrap())))
    }
}

impl Subject for Governor {
    fn name(&self) -> &'static str {
        "governor"
    }

    fn pass(&self, walk: &mut Walk, operations: u64) {
        // Its map wants a `&String`: one buffer is kept, so that no allocation is measured.
        let mut key = String::with_capacity(16);
        for _ in 0..operations {
            key.clear();
            let text = key_text(walk.next());
            key.push_str(std::str::from_utf8(&text).expect("digits"));
            let _ = black_box(self.0.check_key(&key));
        }
    }

    fn touch(&self, index: u64) {
        let key = String::from_utf8(key_text(index).to_vec()).expect("digits");
        let _ = self.0.check_key(&key);
    }
}

/// Hash, shard lock, table probe, clock: what any such limiter must do.
struct Floor {
    shards: Vec<Mutex<HashTable<(u128, u64)>>>,
    clock: Clock,
}

impl Floor {
    fn new(keys: u64) -> Self {
        let per_shard = usize::try_from(keys / 1024).unwrap() + 1;
        let shards = (0..1024).map(|_| Mutex::new(HashTable::with_capacity(per_shard))).collect();
        Floor { shards, clock: Clock::system() }
    }

    #[inline(always)]
    fn one(&self, text: &[u8; 16]) {
        let mut hasher = SipHasher13::new_with_key(b"0123456789abcdef");
        hasher.write(text);
        let hash = hasher.finish128();
        let key = u128::from(hash.h1) | u128::from(hash.h2) << 64;
        let now = self.clock.now().now.get();
        let mut shard = self.shards[usize::try_from(hash.h2 >> 54).unwrap()].lock();
        let same = |entry: &(u128, u64)| entry.0 == key;
        let rehash = |entry: &(u128, u64)| ((entry.0 << 64) >> 64) as u64;
        *shard.entry(hash.h1, same, rehash).or_insert((key, 0)).into_mut() = (key, now);
    }
}

impl Subject for Floor {
    fn name(&self) -> &'static str {
        "floor"
    }

    fn pass(&self, walk: &mut Walk, operations: u64) {
        for _ in 0..operations {
            self.one(&key_text(walk.next()));
        }
    }

    fn touch(&self, index: u64) {
        self.one(&key_text(index));
    }
}

fn gcra() -> Spec {
    let rate = Rate::new(1_000_000, Nanos::from_secs(1)).unwrap();
    Spec::Gcra { rate, burst: Burst::new(1_000_000).unwrap() }
}

fn sliding() -> Spec {
    Spec::Sliding { limit: Limit::new(1 << 40).unwrap(), period: Period::new(Nanos::from_secs(60)).unwrap() }
}

struct Tidegate<S> {
    name: &'static str,
    table: Table<S>,
    clock: Clock,
    prefixes: Vec<KeyPrefix>,
    spec: Spec,
    /// Decisions per reading of the clock.
    per_clock: usize,
}

impl Tidegate<LocalState> {
    fn new(name: &'static str, keys: u64, limits: usize, per_clock: usize, spec: Spec) -> Self {
        let shape = match spec {
            Spec::Sliding { period, .. } => Shape::Sliding(period),
            _ => Shape::Gcra,
        };
        let rules = ["user", "key", "endpoint", "org", "global"];
        let prefixes = rules[..limits]
            .iter()
            .map(|rule| KeyPrefix::new(&FleetSecret::BUILT_IN, "default", "bench", rule, shape))
            .collect();
        let table = Table::new(usize::try_from(keys).unwrap() * limits * 2);
        Tidegate { name, table, clock: Clock::system(), prefixes, spec, per_clock }
    }
}

impl<S: State> Tidegate<S> {
    #[inline(always)]
    fn items<const N: usize>(&self, text: &[u8; 16]) -> [Item; N] {
        let text = std::str::from_utf8(text).expect("digits");
        std::array::from_fn(|limit| Item::new(self.prefixes[limit].key(text), self.spec, Cost::ONE))
    }
}

impl<S: State> Subject for Tidegate<S> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn pass(&self, walk: &mut Walk, operations: u64) {
        match (self.prefixes.as_slice(), self.per_clock) {
            ([prefix], 1) => self.pass_single(*prefix, walk, operations),
            ([prefix], _) => self.pass_pipelined(*prefix, walk, operations),
            _ => self.pass_five(walk, operations),
        }
    }

    fn touch(&self, index: u64) {
        self.touch_one(index);
    }
}

impl<S: State> Tidegate<S> {
    /// A clock read for each decision.
    fn pass_single(&self, prefix: KeyPrefix, walk: &mut Walk, operations: u64) {
        for _ in 0..operations {
            let text = key_text(walk.next());
            let key = prefix.key(std::str::from_utf8(&text).expect("digits"));
            let decision = self.table.decide(&Item::new(key, self.spec, Cost::ONE), self.clock.now());
            black_box(decision.is_ok_and(|decision| decision.is_admitted()));
        }
    }

    /// One clock read for sixteen decisions, as a front end does with pipelined requests.
    fn pass_pipelined(&self, prefix: KeyPrefix, walk: &mut Walk, operations: u64) {
        for _ in 0..operations / BATCH as u64 {
            let keys: [KeyId; BATCH] = std::array::from_fn(|_| {
                let text = key_text(walk.next());
                let key = prefix.key(std::str::from_utf8(&text).expect("digits"));
                self.table.prefetch(key);
                key
            });
            let moment = self.clock.now();
            for key in keys {
                let decision = self.table.decide(&Item::new(key, self.spec, Cost::ONE), moment);
                black_box(decision.is_ok_and(|decision| decision.is_admitted()));
            }
        }
    }

    /// Five limits for each of a fifth of the callers: as many entries as in the other cases.
    fn pass_five(&self, walk: &mut Walk, operations: u64) {
        let mut decisions = Decisions::new();
        for _ in 0..operations {
            let items: [Item; 5] = self.items(&key_text(walk.next() / 5));
            let outcome = self.table.decide_all(&items, self.clock.now(), &mut decisions);
            black_box(outcome.is_ok());
        }
    }

    fn touch_one(&self, index: u64) {
        let text = key_text(index);
        if self.prefixes.len() == 1 {
            let [item] = self.items(&text);
            let _ = self.table.decide(&item, self.clock.now());
        } else {
            let items: [Item; 5] = self.items(&key_text(index / 5));
            let _ = self.table.decide_all(&items, self.clock.now(), &mut Decisions::new());
        }
    }
}
