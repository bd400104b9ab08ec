//! Resident memory per key, and the longest that growth held up a decision, while a table fills up.
//!
//! `cargo bench -p tidegate-node --bench memory -- local|shared [--keys N]`. One process per case, so that
//! the figures are its own; `cargo xtask bars memory` reads them.

use smallvec::SmallVec;
use std::hint::black_box;
use tidegate_core::counts::CellReply;
use tidegate_core::exchange::{CountReply, GrantRequest, KeyReply, KeySync};
use tidegate_core::state::State;
use tidegate_core::time::Sequence;
use tidegate_core::{Cost, Item, KeyId, Limit, LocalState, Moment, Nanos, Period, SharedState, Spec, Table};
use tidegate_node::clock::Clock;

const PERIOD: Nanos = Nanos::from_secs(60);
const KEYS_PER_FLUSH: u64 = 16_384;
const CELL: Sequence = Sequence(30_000_000);

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let keys = match args.iter().position(|arg| arg == "--keys") {
        Some(at) => args[at + 1].parse().expect("--keys N"),
        None => 10_000_000,
    };
    if args.iter().any(|arg| arg == "shared") {
        fill::<SharedState>("shared", keys, use_both_tiers);
    } else {
        fill::<LocalState>("local", keys, |_, _| {});
    }
}

/// Every count of both cells has something in it, as in a region among regions.
fn use_both_tiers(key: KeyId, state: &mut SharedState) {
    let counts = state.publishing().expect("something was admitted");
    let sent =
        KeySync { key, epoch: 0, counts, request: GrantRequest::default(), ended_holds: SmallVec::new() };
    let cell = CellReply { component: 1, total: 7, world: 9, published: 0 };
    let counts = CountReply::Window { current: cell, previous: Some(cell), owners: 3 };
    let reply = KeyReply {
        epoch: 0,
        counts,
        granted: SmallVec::new(),
        drawn: 0,
        retry_after: None,
        component_before: None,
    };
    state.merge(&sent, &reply, Nanos::ZERO, Some(Nanos::from_secs(1))).expect("plausible");
}

fn fill<S: State>(name: &str, keys: u64, share: impl Fn(KeyId, &mut S)) {
    let empty = resident_bytes();
    let table = Table::<S>::new(usize::try_from(keys).unwrap() * 2);
    let clock = Clock::system();
    let period = Period::new(PERIOD).unwrap();
    let spec = Spec::Sliding { limit: Limit::new(1000).unwrap(), period };
    let mut worst = Nanos::ZERO;
    let mut published = Vec::new();
    for cell in 0..2 {
        let moment = Moment::at(period.cell(Sequence(CELL.0 + cell)).start);
        for number in 0..keys {
            let before = clock.now().now;
            black_box(table.decide(&Item::new(key(number), spec, Cost::ONE), moment).expect("room"));
            worst = worst.max(clock.now().now.minus(before));
            if number % KEYS_PER_FLUSH == 0 {
                // As a node does every 50 ms.
                table.take_soon(&mut published);
                published.clear();
            }
        }
    }
    table.for_each(share);
    assert_eq!(table.len() as u64, keys);
    let bytes = (resident_bytes() - empty) as f64 / keys as f64;
    println!("memory {name} keys={keys} bytes_per_key={bytes:.1} worst_decision_us={}", worst.get() / 1000);
}

/// A well-mixed key: what the identity hash would give.
fn key(number: u64) -> KeyId {
    let mut mixed =
        u128::from(number).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    mixed ^= mixed >> 67;
    mixed = mixed.wrapping_mul(0xda94_2042_e4dd_58b5_d1b5_4a32_d192_ed03);
    KeyId::from_hash(mixed ^ (mixed >> 64))
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages: u64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("pages");
    pages * 4096
}
