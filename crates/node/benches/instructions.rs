//! A fixed number of warm decisions of one kind, to be counted by callgrind: `cargo xtask test` runs it twice
//! with different numbers and divides the difference, so a regression shows on a noisy machine too.
//!
//! `instructions CASE OPERATIONS`, CASE one of gcra, sliding, fixed, five, denied, hash.

use std::hint::black_box;
use tidegate_core::identity::Shape;
use tidegate_core::{
    Burst, Cost, Decisions, FleetSecret, Item, KeyPrefix, Limit, LocalState, Moment, Nanos, Period, Rate,
    Spec, Table,
};

const KEYS: u64 = 64;
const NOW: Moment = Moment::at(Nanos::from_secs(1_800_000_000));

fn main() {
    let mut args = std::env::args().skip(1).filter(|arg| arg != "--bench");
    let (Some(case), Some(operations)) = (args.next(), args.next().and_then(|text| text.parse().ok())) else {
        println!("usage: instructions CASE OPERATIONS");
        return;
    };
    let period = Period::new(Nanos::from_secs(60)).unwrap();
    let roomy = Limit::new(1 << 40).unwrap();
    let gcra = Spec::Gcra {
        rate: Rate::new(1000, Nanos::from_secs(1)).unwrap(),
        burst: Burst::new(1 << 40).unwrap(),
    };
    let sliding = Spec::Sliding { limit: roomy, period };
    match case.as_str() {
        "gcra" => single(gcra, Shape::Gcra, operations),
        "sliding" => single(sliding, Shape::Sliding(period), operations),
        "fixed" => single(Spec::Fixed { limit: roomy, period }, Shape::Fixed(period), operations),
        "denied" => {
            let spec = Spec::Sliding { limit: Limit::new(1).unwrap(), period };
            single(spec, Shape::Sliding(period), operations);
        }
        "five" => five(sliding, Shape::Sliding(period), operations),
        "hash" => hash(operations),
        other => println!("unknown case {other}"),
    }
}

fn prefix(rule: &str, shape: Shape<'_>) -> KeyPrefix {
    KeyPrefix::new(&FleetSecret::BUILT_IN, "default", "bench", rule, shape)
}

/// 16 bytes that differ in the last.
fn text(number: u64) -> String {
    format!("user-00000000{:03}", number % KEYS)
}

fn single(spec: Spec, shape: Shape<'_>, operations: u64) {
    let table = Table::<LocalState>::new(10_000);
    let prefix = prefix("user", shape);
    let texts: Vec<String> = (0..KEYS).map(text).collect();
    for number in 0..operations {
        let key = prefix.key(black_box(&texts[usize::try_from(number % KEYS).unwrap()]));
        let decision = table.decide(&Item::new(key, spec, Cost::ONE), NOW);
        black_box(decision.is_ok_and(|decision| decision.is_admitted()));
    }
}

fn five(spec: Spec, shape: Shape<'_>, operations: u64) {
    let table = Table::<LocalState>::new(10_000);
    let prefixes = ["user", "key", "endpoint", "org", "global"].map(|rule| prefix(rule, shape));
    let texts: Vec<String> = (0..KEYS).map(text).collect();
    let mut decisions = Decisions::new();
    for number in 0..operations {
        let text = black_box(&texts[usize::try_from(number % KEYS).unwrap()]);
        let items: [Item; 5] =
            std::array::from_fn(|limit| Item::new(prefixes[limit].key(text), spec, Cost::ONE));
        black_box(table.decide_all(&items, NOW, &mut decisions).is_ok());
    }
}

fn hash(operations: u64) {
    let prefix = prefix("user", Shape::Gcra);
    let texts: Vec<String> = (0..KEYS).map(text).collect();
    for number in 0..operations {
        black_box(prefix.key(black_box(&texts[usize::try_from(number % KEYS).unwrap()])));
    }
}
