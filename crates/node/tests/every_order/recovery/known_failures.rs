//! What nodes' states and the store get wrong by themselves, in one list, and the tests that keep the list exact. A node's
//! region mends it with what isn't searched here: pulses, recoveries and the log of resets
//! (`crates/node/src/region/shards.rs`, `resets.rs`), which the simulator judges.
//!
//! A search leaves out the combinations of the list. It must find nothing then. With one combination let in, it must
//! find a violation, of the judgment and after the number of steps that the entry says: a failure that is fixed fails
//! its test until the entry is deleted.

use super::{Region, Scope};
use crate::holds;
use crate::search::{Broken, every_order};
use tidegate_core::{Accuracy, Class};

/// Orders of events that lead to a known failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Combination {
    /// The store loses data, and a node that knows the key has nothing new to publish.
    IdleDataLoss,
    /// The store loses data that a dead node had published.
    DataLossWithDeadOwner,
    /// An ask by the epoch before a reset reaches the store.
    AskByOldEpoch,
    /// The store loses data after a reset.
    DataLossAfterReset,
    /// A reset is no longer announced when a node could receive it.
    MissedReset,
    /// A node receives a reset while a call by the epoch before is under way.
    LateReply,
}

struct KnownFailure {
    combination: Combination,
    /// The judgment that is violated first: `conservation`, `overshoot` or `denial`.
    judgment: &'static str,
    /// The length of the shortest way to it.
    steps: usize,
    /// What is searched: no more than it takes.
    scope: Scope,
}

const NOTHING: Scope = Scope {
    limit: 2,
    accuracy: Accuracy::Exact,
    class: Class::Abuse,
    requests: 0,
    timeouts: 0,
    crashes: 0,
    data_losses: 0,
    resets: 0,
    pauses: 0,
    joins: 0,
};

const KNOWN_FAILURES: [KnownFailure; 3] = [
    // A request is granted; the store loses its data. The node has nothing unpublished, so it publishes nothing: it
    // knows of 1, and the store of 0. A cold node is granted the whole limit.
    KnownFailure {
        combination: Combination::IdleDataLoss,
        judgment: "conservation",
        steps: 4,
        scope: Scope { requests: 1, data_losses: 1, ..NOTHING },
    },
    // A key with 1 of 2 spent is reset by another node, and the store loses its data, the epoch and the announcement
    // too. The first node publishes by epoch 0: a cold node is granted 1, though nothing is spent since the reset.
    KnownFailure {
        combination: Combination::DataLossAfterReset,
        judgment: "conservation",
        steps: 5,
        scope: Scope { requests: 1, data_losses: 1, resets: 1, ..NOTHING },
    },
    // A key is spent on one node and reset by the other. Heartbeats announce the reset for 20 s, and the first node is
    // paused for longer: it denies by its own counts, with nothing spent since the reset.
    KnownFailure {
        combination: Combination::MissedReset,
        judgment: "denial",
        steps: 6,
        scope: Scope { limit: 1, requests: 2, resets: 1, pauses: 1, ..NOTHING },
    },
];

/// The combinations of the list, without one of them.
fn left_out_but(let_in: Option<Combination>) -> Vec<Combination> {
    let known = KNOWN_FAILURES.iter().map(|known| known.combination);
    known.filter(|combination| Some(*combination) != let_in).collect()
}

#[test]
fn every_known_failure_is_found() {
    for known in KNOWN_FAILURES {
        let KnownFailure { combination, judgment, steps, scope } = known;
        let name = format!("{combination:?}, {judgment}");
        let Err(Broken { why, way }) = every_order(Region::new(scope, left_out_but(Some(combination))))
        else {
            panic!("{name}: nothing is violated any more: delete it from the known failures");
        };
        let way_text = way.join("\n");
        println!("{name}: {why}, after {} steps:\n{way_text}", way.len());
        assert!(why.starts_with(judgment), "{name}: {why}\n{way_text}");
        assert_eq!(way.len(), steps, "{name}: {why}\n{way_text}");
    }
}

const DATA_LOSS: Scope = Scope { requests: 4, timeouts: 1, crashes: 1, data_losses: 1, joins: 1, ..NOTHING };
const RESET: Scope =
    Scope { requests: 4, timeouts: 1, crashes: 1, resets: 1, pauses: 1, joins: 1, ..NOTHING };
const ON_CREDIT: Scope = Scope {
    limit: 12,
    accuracy: Accuracy::Bounded,
    class: Class::Paid,
    requests: 4,
    crashes: 1,
    data_losses: 1,
    resets: 1,
    joins: 1,
    ..NOTHING
};

#[test]
fn a_busy_key_survives_a_data_loss() {
    holds("data loss", Region::new(DATA_LOSS, left_out_but(None)), 30_000);
}

#[test]
fn a_reset_that_all_nodes_receive_starts_the_key_afresh() {
    holds("reset", Region::new(RESET, left_out_but(None)), 90_000);
}

#[test]
fn counts_admitted_on_credit_survive_a_data_loss_and_a_reset() {
    holds("on credit", Region::new(ON_CREDIT, left_out_but(None)), 50_000);
}
