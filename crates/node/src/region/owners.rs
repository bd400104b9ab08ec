//! Which cells are crowded: many more incarnations of nodes count in them than there are nodes.
//!
//! Every reply says how many owners its cell has, so finding them costs nothing. The driver folds them one after the other;
//! a cell that is dropped here because there are too many, or because its shard isn't healthy, is found again by its next
//! reply.

use super::pending::Pending;
use super::{Region, ShardHealth};
use std::collections::BTreeSet;
use tidegate_core::exchange::{CountReply, CountSync, KeyReply, KeySync};
use tidegate_origin::{CrowdedCell, ShardId};

/// A cell may have two owners for each live node, and so many more. A hash of that size is small.
const OWNERS_TO_SPARE: u32 = 64;
/// So many crowded cells are remembered at a time.
const CROWDED_MAX: usize = 1_024;

#[derive(Debug, Default)]
pub(super) struct CrowdedCells(BTreeSet<CrowdedCell>);

impl Pending {
    /// Remembers a cell that has more owners than so many live nodes explain.
    pub(super) fn record_owners(&mut self, sync: &KeySync, reply: &KeyReply, live_nodes: u32) {
        let (CountReply::Window { owners, .. } | CountReply::Gcra { owners, .. }) = reply.counts;
        let most = live_nodes.saturating_mul(2).saturating_add(OWNERS_TO_SPARE);
        if owners > most && self.crowded.0.len() < CROWDED_MAX {
            let sequence = match &sync.counts {
                CountSync::Window(window) => Some(window.sequence),
                CountSync::Gcra { .. } => None,
            };
            self.crowded.0.insert(CrowdedCell { key: sync.key, epoch: reply.epoch, sequence });
        }
    }
}

impl Region {
    /// Takes one of the crowded cells.
    pub fn take_crowded(&self) -> Option<CrowdedCell> {
        self.pending.lock().crowded.0.pop_first()
    }

    /// Whether a shard knows which nodes live: one that lost its data doesn't until they have all sent a pulse.
    pub fn is_healthy(&self, shard: ShardId) -> bool {
        self.pending.lock().shard(shard).health == ShardHealth::Healthy
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use smallvec::SmallVec;
    use tidegate_core::exchange::{CellSync, GrantRequest, WindowSync};
    use tidegate_core::{KeyId, Nanos, Sequence, counts::CellReply};

    #[test]
    fn a_cell_is_crowded_when_its_owners_are_many_more_than_the_live_nodes() {
        let current = CellSync { component: 0, acked: 0, claim: 0, expires: Nanos::MAX };
        let sequence = Sequence(7);
        let window = WindowSync { limit: 1, regions: 1, sequence, current, previous: None, fading: None };
        let key = KeyId::from_hash(1);
        let counts = CountSync::Window(window);
        let sync =
            KeySync { key, epoch: 0, counts, request: GrantRequest::default(), ended_holds: SmallVec::new() };
        let nothing = CellReply { component: 0, total: 0, world: 0, published: 0 };
        let reply = |owners| KeyReply {
            epoch: 3,
            counts: CountReply::Window { current: nothing, previous: None, owners },
            granted: SmallVec::new(),
            drawn: 0,
            retry_after: None,
            component_before: None,
        };
        let mut pending = Pending::new(1);
        pending.record_owners(&sync, &reply(70), 3);
        assert!(pending.crowded.0.is_empty());
        pending.record_owners(&sync, &reply(71), 3);
        let crowded = CrowdedCell { key, epoch: 3, sequence: Some(sequence) };
        assert_eq!(pending.crowded.0.pop_first(), Some(crowded));
        pending.record_owners(&sync, &reply(600), 300);
        assert!(pending.crowded.0.is_empty());
    }
}
