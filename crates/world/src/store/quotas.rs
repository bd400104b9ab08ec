//! What regions ask for, and which slices they hold.

use crate::{
    AcknowledgedSlice, DELETED_MAX, DEMAND_TTL, Demand, OwnerId, SLICE_RETENTION, SliceGrants, SliceHolding,
    SliceRow, WorldError,
};
use std::collections::BTreeMap;
use tidegate_core::{KeyId, Nanos};

type Id = (KeyId, OwnerId);

#[derive(Clone, Debug, Default)]
pub(super) struct Quotas {
    /// When it was reported, and what.
    demands: BTreeMap<Id, (Nanos, Demand)>,
    slices: BTreeMap<Id, SliceHolding>,
}

impl Quotas {
    pub(super) fn report(
        &mut self,
        owner: OwnerId,
        demands: &[Demand],
        now: Nanos,
    ) -> Result<(), WorldError> {
        demands.iter().try_for_each(Demand::check)?;
        for demand in demands {
            // Nobody decides by the name.
            let demand = Demand { name: None, ..demand.clone() };
            self.demands.insert((demand.key, owner), (now, demand));
        }
        Ok(())
    }

    pub(super) fn demands(&self, since: Nanos) -> Vec<(OwnerId, Demand)> {
        let fresh = self.demands.iter().filter(|(_, (reported, _))| *reported >= since);
        fresh.map(|((_, owner), (_, demand))| (*owner, demand.clone())).collect()
    }

    pub(super) fn slices(&self, owner: OwnerId) -> Vec<SliceRow> {
        self.slices.values().filter(|held| held.row.owner == owner).map(|held| held.row).collect()
    }

    pub(super) fn held(&self) -> Vec<SliceHolding> {
        self.slices.values().copied().collect()
    }

    pub(super) fn acknowledge(&mut self, owner: OwnerId, slices: &[AcknowledgedSlice]) {
        for AcknowledgedSlice { key, generation } in slices {
            let Some(held) = self.slices.get_mut(&(*key, owner)) else { continue };
            // Nobody can go by what was never written.
            if *generation <= held.row.generation {
                held.acknowledged = held.acknowledged.max(*generation);
            }
        }
    }

    pub(super) fn grant(&mut self, granted: &SliceGrants) {
        self.slices.retain(|(key, _), _| !granted.dropped.contains(key));
        self.demands.retain(|(key, _), _| !granted.dropped.contains(key));
        for held in &granted.slices {
            let id = (held.row.key, held.row.owner);
            let mut written = *held;
            if let Some(there) = self.slices.get(&id) {
                if there.row.generation > held.row.generation {
                    continue;
                }
                written.acknowledged = written.acknowledged.max(there.acknowledged);
                if there.row.generation == held.row.generation {
                    written.row.expires = written.row.expires.max(there.row.expires);
                }
            }
            self.slices.insert(id, written);
        }
    }

    /// Removes the demands and the slices of an owner that left.
    pub(super) fn remove_owner(&mut self, owner: OwnerId) {
        self.demands.retain(|(_, of), _| *of != owner);
        self.slices.retain(|(_, of), _| *of != owner);
    }

    pub(super) fn delete_expired(&mut self, now: Nanos) -> u64 {
        let too_old = |(reported, _): &(Nanos, Demand)| reported.plus(DEMAND_TTL) < now;
        let ran_out = |held: &SliceHolding| held.row.expires.plus(SLICE_RETENTION) < now;
        delete(&mut self.demands, too_old) + delete(&mut self.slices, ran_out)
    }
}

fn delete<V>(rows: &mut BTreeMap<Id, V>, is_over: impl Fn(&V) -> bool) -> u64 {
    let over: Vec<Id> =
        rows.iter().filter(|(_, row)| is_over(row)).map(|(id, _)| *id).take(DELETED_MAX).collect();
    over.iter().for_each(|id| drop(rows.remove(id)));
    over.len() as u64
}
