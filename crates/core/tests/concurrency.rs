//! The table under real threads: exact counts on one key, batches that share keys in opposite order.
//! `interleavings.rs` explores the same with shuttle, systematically.
#![cfg(not(feature = "shuttle"))]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use tidegate_core::{
    Cost, Decisions, Item, KeyId, Limit, LocalState, Moment, Nanos, Outcome, Period, Spec, Table,
};

const NOW: Moment = Moment::at(Nanos::from_secs(1_800_000_000));

/// Numbers below 2,048, spread over the shards.
fn item(key: u128, limit: u64) -> Item {
    let period = Period::new(Nanos::from_secs(60)).unwrap();
    let spec = Spec::Sliding { limit: Limit::new(limit).unwrap(), period };
    Item::new(KeyId::from_hash(key << 117), spec, Cost::ONE)
}

#[test]
fn sixty_four_threads_admit_exactly_500_of_640_a_thousand_times_over() {
    const ROUNDS: usize = 1000;
    let table = Table::<LocalState>::with_shard_bits(100_000, 1);
    let admitted: Vec<AtomicU64> = (0..ROUNDS).map(|_| AtomicU64::new(0)).collect();
    let barrier = Barrier::new(64);
    std::thread::scope(|scope| {
        for _ in 0..64 {
            scope.spawn(|| {
                for (round, admitted) in admitted.iter().enumerate() {
                    barrier.wait();
                    let item = item(round as u128 + 1, 500);
                    let passed = (0..10).filter(|_| table.decide(&item, NOW).unwrap().is_admitted()).count();
                    admitted.fetch_add(passed as u64, Ordering::Relaxed);
                }
            });
        }
    });
    assert!(admitted.iter().all(|count| count.load(Ordering::Relaxed) == 500));
}

#[test]
fn batches_that_share_keys_in_opposite_order_neither_deadlock_nor_lose_a_count() {
    let table = Arc::new(Table::<LocalState>::with_shard_bits(100_000, 3));
    let forward: Vec<Item> = (0..16).map(|key| item(key * 77 + 1, 1 << 40)).collect();
    let backward: Vec<Item> = forward.iter().rev().copied().collect();
    std::thread::scope(|scope| {
        for items in [&forward, &backward, &forward, &backward] {
            let table = Arc::clone(&table);
            scope.spawn(move || {
                for _ in 0..20_000 {
                    let outcome = table.decide_all(items, NOW, &mut Decisions::new()).unwrap();
                    assert_eq!(outcome, Outcome::Admitted);
                }
            });
        }
    });
    for item in &forward {
        let peek = Item { cost: Cost::PEEK, ..*item };
        assert_eq!(table.decide(&peek, NOW).unwrap().remaining, (1 << 40) - 80_000);
    }
}

#[test]
fn a_reader_never_sees_a_denied_batch() {
    let table = Table::<LocalState>::with_shard_bits(1000, 3);
    let open = item(5, 100);
    let shut = item(900, 0);
    let done = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..50_000 {
                    let outcome = table.decide_all(&[open, shut], NOW, &mut Decisions::new()).unwrap();
                    assert_eq!(outcome, Outcome::Denied);
                }
                done.fetch_add(1, Ordering::Relaxed);
            });
        }
        scope.spawn(|| {
            while done.load(Ordering::Relaxed) < 2 {
                let peek = Item { cost: Cost::PEEK, ..open };
                assert_eq!(table.decide(&peek, NOW).unwrap().remaining, 100);
            }
        });
    });
}
