//! INV-1, 2, 3 and 5 for the counts, and no overcharge for GCRA: many nodes, one store, messages that are lost
//! or repeated, a store that forgets; compared at every step with an omniscient count.

mod random;

use random::Random;
use tidegate_core::counts::Counts;
use tidegate_core::gcra_sync::{BusyPeriod, GcraSync, OriginGcra, interval_times};
use tidegate_core::origin_cell::{NodeId, OriginCell, PublishedCell};
use tidegate_core::{Nanos, Rate};

const NODES: usize = 4;
const SEEDS: u64 = 3_000;
const STEPS: u32 = 200;

/// What a node sends of its counts. It sends the same again when a reply got lost, so nothing is known to be unsent.
fn published(counts: &Counts) -> PublishedCell {
    let component = counts.component();
    PublishedCell { component, acked: component, claim: counts.regional() }
}

#[test]
fn no_view_ever_exceeds_the_true_count_and_no_component_shrinks() {
    for seed in 0..SEEDS {
        let mut random = Random::new(seed);
        let forgetful = random.one_in(3);
        let mut store = OriginCell::default();
        let mut nodes = [Counts::default(); NODES];
        // What each node ever admitted or was granted: granted counts as spent.
        let mut truth = [0_u64; NODES];
        let mut world_truth = 0;
        // Grants whose replies were lost, and which the store then forgot: spent, though nobody knows by whom.
        let mut lapsed = 0;
        for step in 0..STEPS {
            let node = usize::try_from(random.below(NODES as u64)).unwrap();
            let own_before = nodes[node].own;
            match random.below(10) {
                0..=3 => {
                    nodes[node].admit(random.below(5));
                    truth[node] = truth[node].max(nodes[node].own);
                }
                4..=7 => {
                    let owner = NodeId(node as u64);
                    let before = store.component(owner);
                    let mut reply = store.publish(owner, published(&nodes[node]));
                    if random.one_in(3) {
                        reply = store.grant(owner, random.below(4));
                    }
                    assert!(reply.component >= before, "INV-1 in the store, seed {seed}");
                    truth[node] = truth[node].max(reply.component);
                    // A third of the replies is lost, some come twice.
                    for _ in 0..random.below(3) {
                        nodes[node].merge(reply).unwrap();
                    }
                }
                8 => {
                    // The region's own row of the world tier is never more than the region admitted.
                    world_truth += random.below(3);
                    let row = truth.iter().sum::<u64>() + lapsed;
                    let before = store.total();
                    store.import(random.below(row + 1), world_truth);
                    assert!(store.total() >= before, "INV-5, seed {seed}");
                }
                _ if forgetful && random.one_in(4) => {
                    for (node, counts) in nodes.iter().enumerate() {
                        lapsed += truth[node] - counts.component();
                        truth[node] = counts.component();
                    }
                    store = OriginCell::default();
                }
                _ => {}
            }
            assert!(nodes[node].own >= own_before, "INV-1, seed {seed} step {step}");
            let true_count = truth.iter().sum::<u64>() + lapsed + world_truth;
            for counts in &nodes {
                assert!(counts.effective() <= true_count, "INV-3, seed {seed} step {step}: {counts:?}");
            }
        }
        if !forgetful {
            // Once messages get through, every node knows the truth.
            store.import(0, world_truth);
            for node in (0..NODES).chain(0..NODES) {
                let counts = &mut nodes[node];
                let reply = store.publish(NodeId(node as u64), published(counts));
                counts.merge(reply).unwrap();
            }
            let true_count = truth.iter().sum::<u64>() + world_truth;
            assert!(nodes.iter().all(|counts| counts.effective() == true_count), "seed {seed}: {nodes:?}");
        }
    }
}

/// What one bucket that saw every admission at its time would have: the largest over k of
/// `tₖ + i × (cₖ + … + cₙ)`.
fn true_tat(log: &[(Nanos, u64)], rate: Rate) -> Nanos {
    let mut cost = 0;
    let mut latest = Nanos::ZERO;
    for (at, more) in log.iter().rev() {
        cost += more;
        latest = latest.max(at.plus(interval_times(rate, cost)));
    }
    latest
}

#[test]
fn gcra_that_is_told_at_once_is_exact() {
    let rate = Rate::new(10, Nanos::from_secs(1)).unwrap();
    for seed in 0..SEEDS {
        let mut random = Random::new(seed);
        let mut origin = OriginGcra::default();
        let mut log = Vec::new();
        let mut now = Nanos::from_secs(1000);
        for _ in 0..STEPS {
            now = now.plus(Nanos::from_millis(random.below(300)));
            let (acked, cost) = (origin.stored, 1 + random.below(3));
            log.push((now, cost));
            let busy = BusyPeriod::default();
            origin.merge(&GcraSync { cumulative: acked + cost, acked, sent: acked, oldest: now, busy, rate });
            assert_eq!(origin.busy.tat, true_tat(&log, rate), "seed {seed}");
        }
    }
}

#[test]
fn gcra_never_overcharges_whatever_is_lost_or_repeated() {
    let rate = Rate::new(10, Nanos::from_secs(1)).unwrap();
    for seed in 0..SEEDS {
        let mut random = Random::new(seed);
        let (mut busy, mut before) = (BusyPeriod::default(), BusyPeriod::default());
        let mut stored = [0_u64; NODES];
        let mut cumulative = [0_u64; NODES];
        let mut acked = [0_u64; NODES];
        let mut oldest = [Nanos::ZERO; NODES];
        let mut log = Vec::new();
        let mut now = Nanos::from_secs(1000);
        for step in 0..STEPS {
            now = now.plus(Nanos::from_millis(random.below(300)));
            let node = usize::try_from(random.below(NODES as u64)).unwrap();
            if random.one_in(2) {
                if cumulative[node] == acked[node] {
                    oldest[node] = now;
                }
                let cost = 1 + random.below(3);
                cumulative[node] += cost;
                log.push((now, cost));
                continue;
            }
            let sync = GcraSync {
                cumulative: cumulative[node],
                acked: acked[node],
                sent: acked[node],
                oldest: oldest[node],
                busy: BusyPeriod::default(),
                rate,
            };
            for _ in 0..=random.below(2) {
                let mut origin = OriginGcra { busy, before, stored: stored[node] };
                origin.merge(&sync);
                (busy, before, stored[node]) = (origin.busy, origin.before, origin.stored);
            }
            if !random.one_in(3) {
                acked[node] = stored[node];
            }
            let exact = true_tat(&log, rate);
            assert!(busy.tat <= exact, "overcharged, seed {seed} step {step}: {:?} > {exact:?}", busy.tat);
        }
    }
}

/// As often as the origin takes its bucket for full, all nodes admit half of their credit, then one of them asks for the
/// rest of the burst, and only then do the others' publishes come.
#[test]
fn a_bucket_that_is_emptied_again_and_again_by_many_nodes_stays_within_its_burst_and_what_was_unseen() {
    let rate = Rate::new(1000, Nanos::from_secs(1)).unwrap();
    let (burst, nodes) = (1000_u64, 5_usize);
    let credit = burst / (8 * nodes as u64);
    let (mut busy, mut before) = (BusyPeriod::default(), BusyPeriod::default());
    let mut stored = vec![0_u64; nodes];
    let mut log = Vec::new();
    let mut now = Nanos::from_secs(1000);
    for cycle in 0..100 {
        let asked_at = now.plus(interval_times(rate, credit));
        log.extend((0..nodes).map(|_| (now, credit)));
        let mut asks = OriginGcra { busy, before, stored: stored[0] };
        let granted = (0..=burst).rev().find(|units| asks.fits(rate, burst, *units, asked_at)).unwrap();
        asks.take(rate, granted, asked_at);
        (busy, before, stored[0]) = (asks.busy, asks.before, asks.stored);
        log.push((asked_at, granted));
        for stored in &mut stored {
            let mut origin = OriginGcra { busy, before, stored: *stored };
            let (cumulative, acked) = (*stored + credit, *stored);
            origin.merge(&GcraSync {
                cumulative,
                acked,
                sent: acked,
                oldest: now,
                busy: BusyPeriod::default(),
                rate,
            });
            (busy, before, *stored) = (origin.busy, origin.before, origin.stored);
        }
        let owed = true_tat(&log, rate).minus(asked_at);
        let stated = interval_times(rate, burst + burst / 4);
        assert!(owed <= stated, "INV-7, cycle {cycle}: {owed:?} are owed, and {stated:?} may be");
        now = busy.tat.plus(Nanos::new(1));
    }
}
