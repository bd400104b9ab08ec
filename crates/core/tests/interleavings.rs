//! The table's locking under shuttle, which chooses the interleavings: run by `cargo xtask test` as
//! `cargo test -p tidegate-core --features shuttle --test interleavings`.
#![cfg(feature = "shuttle")]

use shuttle::sync::Arc;
use shuttle::thread;
use tidegate_core::{
    Cost, Decisions, Item, KeyId, Limit, LocalState, Moment, Nanos, Outcome, Period, Spec, Table,
};

const NOW: Moment = Moment::at(Nanos::from_secs(1_800_000_000));
const SCHEDULES: usize = 5_000;

fn item(key: u128, limit: u64) -> Item {
    let period = Period::new(Nanos::from_secs(60)).unwrap();
    let spec = Spec::Sliding { limit: Limit::new(limit).unwrap(), period };
    Item::new(KeyId::from_hash(key << 120), spec, Cost::ONE)
}

fn table() -> Arc<Table<LocalState>> {
    Arc::new(Table::with_shard_bits(100, 2))
}

/// Random schedules, and schedules with few preemptions, which find other bugs.
fn explore(test: fn()) {
    shuttle::check_random(test, SCHEDULES);
    shuttle::check_pct(test, SCHEDULES, 3);
}

#[test]
fn one_key_admits_exactly_its_limit() {
    explore(|| {
        let table = table();
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let table = Arc::clone(&table);
                thread::spawn(move || {
                    (0..2).filter(|_| table.decide(&item(1, 4), NOW).unwrap().is_admitted()).count()
                })
            })
            .collect();
        let admitted: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert_eq!(admitted, 4);
    });
}

#[test]
fn batches_in_opposite_order_never_deadlock_and_never_half_commit() {
    explore(|| {
        let table = table();
        let keys = [1, 80, 150, 250];
        let spawn = |items: Vec<Item>| {
            let table = Arc::clone(&table);
            thread::spawn(move || table.decide_all(&items, NOW, &mut Decisions::new()).unwrap())
        };
        let forward = spawn(keys.iter().map(|key| item(*key, 1)).collect());
        let backward = spawn(keys.iter().rev().map(|key| item(*key, 1)).collect());
        let outcomes = [forward.join().unwrap(), backward.join().unwrap()];
        assert_eq!(outcomes.iter().filter(|outcome| **outcome == Outcome::Admitted).count(), 1);
        for key in keys {
            let peek = Item { cost: Cost::PEEK, ..item(key, 1) };
            assert_eq!(table.decide(&peek, NOW).unwrap().remaining, 0);
        }
    });
}

#[test]
fn no_reader_sees_a_denied_batchs_counts() {
    explore(|| {
        let table = table();
        let writer = {
            let table = Arc::clone(&table);
            thread::spawn(move || {
                let outcome = table.decide_all(&[item(1, 5), item(150, 0)], NOW, &mut Decisions::new());
                assert_eq!(outcome, Ok(Outcome::Denied));
            })
        };
        let peek = Item { cost: Cost::PEEK, ..item(1, 5) };
        assert_eq!(table.decide(&peek, NOW).unwrap().remaining, 5);
        writer.join().unwrap();
    });
}

#[test]
fn a_walk_and_a_sweep_let_decisions_in() {
    explore(|| {
        let table = table();
        (0..4).for_each(|key| assert!(table.decide(&item(key * 60 + 1, 5), NOW).is_ok()));
        let decider = {
            let table = Arc::clone(&table);
            thread::spawn(move || assert!(table.decide(&item(1, 5), NOW).unwrap().is_admitted()))
        };
        let mut visited = 0;
        table.for_each(|_, _| visited += 1);
        assert_eq!(visited, 4);
        (0..table.shard_count()).for_each(|shard| assert_eq!(table.sweep_shard(shard, NOW), 0));
        decider.join().unwrap();
        assert_eq!(table.len(), 4);
    });
}
