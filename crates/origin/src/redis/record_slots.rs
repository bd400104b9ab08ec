//! Where the record of each shard is kept: in the lowest slot that the shard owned when it was first needed.
//!
//! A slot may move to another shard, and takes what is in it along. The shard then gets a record in another slot, which
//! says the same.

use super::map::SlotMap;
use crate::ShardId;
use parking_lot::Mutex;
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(super) struct RecordSlots(Mutex<BTreeMap<ShardId, u16>>);

impl RecordSlots {
    /// Returns the slot of a shard's record, and whether the slot of its last record is no longer the shard's. `None`
    /// for a shard that owns no slot.
    pub(super) fn of(&self, shard: ShardId, map: &SlotMap) -> Option<(u16, bool)> {
        let is_owned = |slot: u16| map.owner(slot).is_some_and(|owner| owner.id == shard);
        let known = self.0.lock().get(&shard).copied();
        match known.filter(|slot| is_owned(*slot)) {
            Some(slot) => Some((slot, false)),
            None => Some((map.lowest_slot(shard)?, known.is_some())),
        }
    }

    /// The record of a shard is in this slot from now on.
    pub(super) fn set_slot(&self, shard: ShardId, slot: u16) {
        self.0.lock().insert(shard, slot);
    }
}
