//! Which shard keeps which slot, as of one moment. Read without a lock; a change makes a new one.
//!
//! Our own, since the client libraries' cluster maps lose healthy shards when one dies. It never knows how a
//! shard stands: a dead shard keeps its slots until the cluster says otherwise.

use super::address::Address;
use super::shard::Shard;
use crate::ShardId;
use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

pub(super) const SLOTS: u16 = 16384;

/// Which server owns which slots, as the servers tell it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Layout {
    pub(super) ranges: Vec<(RangeInclusive<u16>, Address)>,
}

#[derive(Debug)]
pub(super) struct SlotMap {
    /// By ascending id. Some may own no slot: servers that were called on another's word.
    shards: Vec<Arc<Shard>>,
    owners: Owners,
}

#[derive(Debug, PartialEq, Eq)]
enum Owners {
    /// There are no slots: the shard with this place has everything.
    One(Option<usize>),
    /// For each slot its owner's place among the shards.
    Slots(Vec<Option<u16>>),
}

impl SlotMap {
    /// Nothing is known yet of a topology without slots.
    pub(super) fn without_slots() -> Self {
        SlotMap { shards: Vec::new(), owners: Owners::One(None) }
    }

    /// Nothing is known yet of a cluster.
    pub(super) fn with_slots() -> Self {
        SlotMap { shards: Vec::new(), owners: Owners::Slots(vec![None; usize::from(SLOTS)]) }
    }

    /// One shard that has everything.
    pub(super) fn one(shard: Arc<Shard>) -> Self {
        SlotMap { shards: vec![shard], owners: Owners::One(Some(0)) }
    }

    /// A cluster's layout. Servers that own slots are in `shards`, maybe with others.
    pub(super) fn of_layout(layout: &Layout, mut shards: Vec<Arc<Shard>>) -> Self {
        shards.sort_by_key(|shard| shard.id);
        let mut owners = vec![None; usize::from(SLOTS)];
        {
            let places: HashMap<&Address, u16> = shards.iter().map(|shard| &shard.address).zip(0..).collect();
            for (range, address) in &layout.ranges {
                let range = usize::from(*range.start())..=usize::from(*range.end());
                if let Some(owned) = owners.get_mut(range) {
                    owned.fill(places.get(address).copied());
                }
            }
        }
        SlotMap { shards, owners: Owners::Slots(owners) }
    }

    /// The same with one more shard, and one slot that it owns now.
    pub(super) fn with_moved(&self, slot: Option<u16>, shard: &Arc<Shard>) -> Self {
        let mut shards = self.shards.clone();
        if !shards.iter().any(|known| known.id == shard.id) {
            // Ids only grow, so the places of the others stay.
            shards.push(shard.clone());
        }
        let place = shards.iter().position(|known| known.id == shard.id);
        let owners = match &self.owners {
            Owners::One(place) => Owners::One(*place),
            Owners::Slots(owners) => {
                let mut owners = owners.clone();
                if let Some(owner) = slot.and_then(|slot| owners.get_mut(usize::from(slot))) {
                    *owner = place.and_then(|place| u16::try_from(place).ok());
                }
                Owners::Slots(owners)
            }
        };
        SlotMap { shards, owners }
    }

    pub(super) fn has_slots(&self) -> bool {
        matches!(self.owners, Owners::Slots(_))
    }

    pub(super) fn owner(&self, slot: u16) -> Option<&Arc<Shard>> {
        let place = match &self.owners {
            Owners::One(place) => (*place)?,
            Owners::Slots(owners) => usize::from((*owners.get(usize::from(slot))?)?),
        };
        self.shards.get(place)
    }

    /// The lowest slot that a shard owns; 0 where there are no slots.
    pub(super) fn lowest_slot(&self, shard: ShardId) -> Option<u16> {
        let place = self.shards.iter().position(|known| known.id == shard)?;
        match &self.owners {
            Owners::One(owner) => (*owner == Some(place)).then_some(0),
            Owners::Slots(owners) => {
                let place = u16::try_from(place).ok()?;
                owners
                    .iter()
                    .position(|owner| *owner == Some(place))
                    .and_then(|slot| u16::try_from(slot).ok())
            }
        }
    }

    pub(super) fn shards(&self) -> &[Arc<Shard>] {
        &self.shards
    }

    /// Those that own something, by ascending id.
    pub(super) fn owning_shards(&self) -> Vec<ShardId> {
        let mut owns = vec![false; self.shards.len()];
        let mut note = |place: usize| {
            if let Some(owns) = owns.get_mut(place) {
                *owns = true;
            }
        };
        match &self.owners {
            Owners::One(place) => place.iter().copied().for_each(&mut note),
            Owners::Slots(owners) => owners.iter().flatten().for_each(|place| note(usize::from(*place))),
        }
        self.shards.iter().zip(owns).filter_map(|(shard, owns)| owns.then_some(shard.id)).collect()
    }

    pub(super) fn by_id(&self, id: ShardId) -> Option<&Arc<Shard>> {
        self.shards.binary_search_by_key(&id, |shard| shard.id).ok().and_then(|place| self.shards.get(place))
    }

    pub(super) fn by_address(&self, address: &Address) -> Option<&Arc<Shard>> {
        self.shards.iter().find(|shard| shard.address == *address)
    }

    /// Whether both say the same of every slot.
    pub(super) fn agrees_with(&self, other: &SlotMap) -> bool {
        self.owners == other.owners
            && self.shards.len() == other.shards.len()
            && self.shards.iter().zip(&other.shards).all(|(mine, theirs)| mine.id == theirs.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shard(id: u32, port: u16) -> Arc<Shard> {
        Arc::new(Shard::new(ShardId(id), Address::tcp("h", port)))
    }

    fn layout(ranges: &[(u16, u16, u16)]) -> Layout {
        let ranges = ranges.iter().map(|(first, last, port)| (*first..=*last, Address::tcp("h", *port)));
        Layout { ranges: ranges.collect() }
    }

    fn owner(map: &SlotMap, slot: u16) -> Option<u32> {
        map.owner(slot).map(|shard| shard.id.0)
    }

    #[test]
    fn every_slot_has_the_owner_that_the_layout_names() {
        let layout = layout(&[(0, 99, 7001), (100, 100, 7000), (101, 16382, 7001)]);
        let map = SlotMap::of_layout(&layout, vec![shard(9, 7001), shard(4, 7000)]);
        assert_eq!([0, 99, 100, 101, 16382].map(|slot| owner(&map, slot)), [9, 9, 4, 9, 9].map(Some));
        assert_eq!(owner(&map, 16383), None);
        assert_eq!(owner(&map, u16::MAX), None);
        assert_eq!(map.by_id(ShardId(9)).unwrap().address, Address::tcp("h", 7001));
        assert!(map.by_id(ShardId(5)).is_none());
    }

    #[test]
    fn a_moved_slot_changes_its_owner_alone() {
        let known = shard(1, 7000);
        let map = SlotMap::of_layout(&layout(&[(0, 16383, 7000)]), vec![known.clone()]);
        let moved = map.with_moved(Some(5), &shard(2, 7001));
        assert_eq!([4, 5, 6].map(|slot| owner(&moved, slot)), [1, 2, 1].map(Some));
        let asked = map.with_moved(None, &shard(2, 7001));
        assert_eq!(owner(&asked, 5), Some(1));
        assert!(asked.by_id(ShardId(2)).is_some() && !asked.agrees_with(&map));
        let back = moved.with_moved(Some(5), &known);
        assert_eq!(owner(&back, 5), Some(1));
    }

    #[test]
    fn without_slots_one_shard_has_everything() {
        assert_eq!(owner(&SlotMap::without_slots(), 7), None);
        let map = SlotMap::one(shard(3, 6379));
        assert_eq!([0, 7, 16383].map(|slot| owner(&map, slot)), [3, 3, 3].map(Some));
        assert!(!map.has_slots() && SlotMap::with_slots().has_slots());
    }
}
