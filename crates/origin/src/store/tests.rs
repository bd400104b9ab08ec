//! What the conformance suite can't see: memory, replicas, and that a run is repeatable.

use super::OriginStore;
use crate::{Exchange, Expiry, Grant};
use tidegate_core::exchange::{CellSync, CountSync, GrantRequest, KeySync, WindowSync};
use tidegate_core::gcra_sync::{BusyPeriod, GcraSync};
use tidegate_core::origin_cell::NodeId;
use tidegate_core::{KeyId, Nanos, Rate, Sequence};

fn window(key: u128, sequence: u64, now: Nanos) -> KeySync {
    let current = CellSync { component: 0, acked: 0, claim: 0, expires: now.plus(Nanos::from_secs(20)) };
    let sequence = Sequence(sequence);
    let window =
        WindowSync { limit: 100, regions: 1, sequence, current, previous: Some(current), fading: None };
    sync(key, CountSync::Window(window))
}

fn gcra(key: u128) -> KeySync {
    let rate = Rate::new(10, Nanos::from_secs(1)).unwrap();
    let gcra =
        GcraSync { cumulative: 0, acked: 0, sent: 0, oldest: Nanos::ZERO, busy: BusyPeriod::default(), rate };
    sync(key, CountSync::Gcra { sync: gcra, burst: 100 })
}

fn sync(key: u128, counts: CountSync) -> KeySync {
    let request = GrantRequest { asks: [1].as_slice().into(), ..GrantRequest::default() };
    KeySync { key: KeyId::from_hash(key), epoch: 1, counts, request, ended_holds: Default::default() }
}

fn exchange(now: Nanos, syncs: Vec<KeySync>) -> Exchange {
    Exchange { node: NodeId(1), now, syncs, grant: Grant::Each, reads_record: false }
}

#[test]
fn what_expires_is_forgotten_so_memory_is_bounded() {
    let mut store = OriginStore::default();
    for second in 0..10_000 {
        let now = Nanos::from_secs(1_000_000 + second);
        let key = u128::from(second) * 2;
        store.exchange(&exchange(now, vec![window(key, second, now), gcra(key + 1)]), now);
        assert!(store.len() <= 20 + 80, "{} after {second} s", store.len());
        assert!(store.epochs.len() <= 100);
    }
    let later = Nanos::from_secs(1_010_100);
    store.reset(KeyId::from_hash(1), 0, Expiry { at: later, now: later }, later);
    assert!(store.is_empty());
    assert_eq!(store.epochs.len(), 1, "the reset's own, which is over by the next call");
}

#[test]
fn a_clone_is_a_replica_that_stopped_following() {
    let now = Nanos::from_secs(1_000_000);
    let mut store = OriginStore::default();
    let grant = exchange(now, vec![window(1, 7, now)]);
    store.exchange(&grant, now);
    let replica = store.clone();
    store.exchange(&grant, now);
    let total = |store: &OriginStore| store.total(KeyId::from_hash(1), 1, Sequence(7));
    assert_eq!((total(&store), total(&replica)), (Some(2), Some(1)));
    store.clear();
    assert_eq!((total(&store), store.len()), (None, 0));
}

#[test]
fn the_same_calls_give_the_same_answers() {
    let run = || {
        let mut store = OriginStore::default();
        let answers: Vec<_> = (0..200_u64)
            .map(|step| {
                let now = Nanos::from_secs(1_000_000).plus(Nanos::from_millis(step * 37));
                let key = u128::from(step % 7);
                store.exchange(&exchange(now, vec![window(key, step / 50, now), gcra(key + 100)]), now)
            })
            .collect();
        (answers, format!("{store:?}"))
    };
    assert_eq!(run(), run());
}
