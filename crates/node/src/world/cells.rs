//! What the world store has of each cell, as the worker has read it: the region's own row, and every other
//! region's.
//!
//! Only the sum of the others goes to the origin, and a sum can be formed only by whoever knows the parts. A part
//! that can't be right counts as the most that is plausible: ignoring it would hand out the whole limit again.
//! Bounded: what expires first makes room.

use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};
use tidegate_core::{CellId, Nanos};
use tidegate_origin::WorldCell;
use tidegate_world::{Component, OwnerId};

/// Another region's count is capped at so many times the largest limit that its cell has had.
const PLAUSIBLE_TIMES: u64 = 16;
/// How many cells are passed over, at most, to find some that the region has published.
const PASSED_MAX: usize = 20_000;
/// While the others use up a limit, the own count is looked at so many times at most.
const REEVALUATIONS_MAX: u64 = 40;

#[derive(Debug)]
pub(super) struct Cells {
    cells: BTreeMap<CellId, CellRecord>,
    by_expiry: BTreeSet<(Nanos, CellId)>,
    cells_max: usize,
}

/// What the worker knows of one cell.
#[derive(Debug, Default)]
struct CellRecord {
    /// The most that the store ever had of the region's own count, as far as this worker knows.
    own: u64,
    /// What the store has of it, by the last look: less than `own` when the store lost data.
    stored: u64,
    /// When that was last seen to grow.
    stored_at: Nanos,
    others: SmallVec<[(OwnerId, u64); 4]>,
    /// The largest that any region has said.
    limit: u64,
    expires: Nanos,
    /// What the others had when the region's own count was last looked at for their sake.
    reevaluated_at_total: u64,
}

/// What became of a component.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ComponentChange {
    /// It says nothing new.
    Known,
    Raised,
    /// The first that was heard of its cell.
    New,
}

impl Cells {
    pub(super) fn new(cells_max: usize) -> Self {
        Cells { cells: BTreeMap::new(), by_expiry: BTreeSet::new(), cells_max: cells_max.max(1) }
    }

    pub(super) fn len(&self) -> usize {
        self.cells.len()
    }

    /// Whether a component is another region's and more than is plausible: it counts as the most that is.
    pub(super) fn is_implausible(&self, me: OwnerId, component: &Component) -> bool {
        let known_limit = self.cells.get(&component.cell).map_or(0, |known| known.limit);
        component.owner != me && component.count > plausible(known_limit.max(component.limit))
    }

    /// Takes what was imported.
    pub(super) fn take(&mut self, me: OwnerId, component: &Component, now: Nanos) -> ComponentChange {
        let Component { owner, cell, count, limit, expires } = *component;
        let is_new = !self.cells.contains_key(&cell);
        let known = self.entry(cell, expires);
        known.limit = known.limit.max(limit);
        if owner == me && count > known.stored {
            (known.stored, known.stored_at) = (count, now);
        }
        let before = known.raise((owner != me).then_some(owner), count);
        match before {
            _ if is_new => ComponentChange::New,
            before if count > before => ComponentChange::Raised,
            _ => ComponentChange::Known,
        }
    }

    /// Whether the others have used so much more of a cell's limit that the region's own count is to be looked at;
    /// if so, that limit, and when the cell expires.
    pub(super) fn is_worth_weighing(&mut self, cell: &CellId) -> Option<(u64, Nanos)> {
        let known = self.cells.get_mut(cell)?;
        let others = known.others();
        if others.saturating_sub(known.reevaluated_at_total) < (known.limit / REEVALUATIONS_MAX).max(1) {
            return None;
        }
        known.reevaluated_at_total = others;
        Some((known.limit, known.expires))
    }

    /// Those that the others have counted in: as if the region's own count had never been looked at for their sake.
    pub(super) fn reevaluate(&mut self) -> impl Iterator<Item = CellId> {
        let counted = self.cells.iter_mut().filter(|(_, known)| known.others() > 0);
        counted.map(|(cell, known)| {
            known.reevaluated_at_total = 0;
            *cell
        })
    }

    /// How much of a cell's limit all regions have used, when this one has counted `total`.
    pub(super) fn used(&self, cell: &CellId, total: u64) -> u64 {
        self.cells.get(cell).map_or(total, |known| known.others().saturating_add(total))
    }

    /// The most that the store ever had of the region's own count: what is published is never less.
    pub(super) fn own(&self, cell: &CellId) -> u64 {
        self.cells.get(cell).map_or(0, |known| known.own)
    }

    /// What the store has of the region's own count.
    pub(super) fn stored(&self, cell: &CellId) -> u64 {
        self.cells.get(cell).map_or(0, |known| known.stored)
    }

    /// The store may have lost anything: what it has is read again. Who the others were may have changed, too.
    pub(super) fn reset_stored(&mut self) {
        for known in self.cells.values_mut() {
            (known.stored, known.reevaluated_at_total) = (0, 0);
            known.others.clear();
        }
    }

    /// The cells of which the store has less than it had.
    pub(super) fn lost(&self) -> impl Iterator<Item = CellId> {
        self.cells.iter().filter(|(_, known)| known.stored < known.own).map(|(cell, _)| *cell)
    }

    /// The next cells after `from` that the store should have a row of this region of, `most` at most; and where to go
    /// on, if there are more.
    pub(super) fn published_after(&self, from: Option<CellId>, most: usize) -> (Vec<CellId>, Option<CellId>) {
        let start = from.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        let mut published = Vec::new();
        let mut last = None;
        for (cell, known) in self.cells.range((start, std::ops::Bound::Unbounded)).take(PASSED_MAX) {
            if published.len() == most {
                return (published, last);
            }
            if known.own > 0 {
                published.push(*cell);
            }
            last = Some(*cell);
        }
        let is_end =
            last.is_none_or(|last| self.cells.last_key_value().is_some_and(|(cell, _)| *cell == last));
        (published, last.filter(|_| !is_end))
    }

    /// The store has so much of the region's own count. Returns whether that is less than it had, and isn't a matter of
    /// when it was read: rows that came within `lag` may be there all the same.
    pub(super) fn is_lost(&mut self, cell: &CellId, stored: u64, lag: Nanos, now: Nanos) -> bool {
        let Some(known) = self.cells.get_mut(cell) else { return false };
        if stored >= known.own || now.minus(known.stored_at) <= lag {
            return false;
        }
        known.stored = known.stored.min(stored);
        true
    }

    /// The largest limit that any region has said of a cell, and when the cell expires.
    pub(super) fn limit(&self, cell: &CellId) -> Option<(u64, Nanos)> {
        self.cells.get(cell).map(|known| (known.limit, known.expires))
    }

    pub(super) fn knows(&self, cell: &CellId) -> bool {
        self.cells.contains_key(cell)
    }

    /// What the origin is to be told of a cell.
    pub(super) fn world_cell(&self, cell: &CellId) -> Option<WorldCell> {
        let known = self.cells.get(cell)?;
        Some(WorldCell { cell: *cell, own: known.own, others: known.others(), expires: known.expires })
    }

    /// The cells after `from`, `most` at most.
    pub(super) fn after(&self, from: Option<CellId>, most: usize) -> Vec<CellId> {
        let start = from.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        self.cells.range((start, std::ops::Bound::Unbounded)).take(most).map(|(cell, _)| *cell).collect()
    }

    /// Forgets what nobody needs any more.
    pub(super) fn expire(&mut self, now: Nanos) {
        while let Some((expires, cell)) = self.by_expiry.first().copied() {
            if expires > now {
                return;
            }
            self.by_expiry.pop_first();
            self.cells.remove(&cell);
        }
    }

    /// Makes room; says how many cells were forgotten.
    pub(super) fn shrink(&mut self) -> u64 {
        let mut dropped = 0;
        while self.cells.len() > self.cells_max {
            let Some((_, cell)) = self.by_expiry.pop_first() else { break };
            self.cells.remove(&cell);
            dropped += 1;
        }
        dropped
    }

    fn entry(&mut self, cell: CellId, expires: Nanos) -> &mut CellRecord {
        let Cells { cells, by_expiry, .. } = self;
        let known = cells.entry(cell).or_default();
        if expires > known.expires {
            by_expiry.remove(&(known.expires, cell));
            by_expiry.insert((expires, cell));
            known.expires = expires;
        }
        known
    }
}

/// The most that a region's count of a cell with this limit counts as elsewhere.
fn plausible(limit: u64) -> u64 {
    limit.max(1).saturating_mul(PLAUSIBLE_TIMES)
}

impl CellRecord {
    /// The sum of the others, each as far as it is plausible. Only ever grows: so do the counts and the limit.
    fn others(&self) -> u64 {
        let most = plausible(self.limit);
        self.others.iter().fold(0, |sum, (_, count)| sum.saturating_add((*count).min(most)))
    }

    /// Merges an owner's count by max (INV-1); says what it was before.
    fn raise(&mut self, other: Option<OwnerId>, count: u64) -> u64 {
        let Some(other) = other else {
            let before = self.own;
            self.own = before.max(count);
            return before;
        };
        match self.others.iter_mut().find(|(owner, _)| *owner == other) {
            Some((_, known)) => {
                let before = *known;
                *known = before.max(count);
                before
            }
            None => {
                self.others.push((other, count));
                0
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::{KeyId, Sequence};

    const ME: OwnerId = OwnerId(1);
    const NOW: Nanos = Nanos::from_secs(50);

    fn cell(key: u128) -> CellId {
        CellId { key: KeyId::from_hash(key), epoch: 0, sequence: Sequence(7) }
    }

    fn component(owner: u32, key: u128, count: u64) -> Component {
        let expires = Nanos::from_secs(100 + u64::try_from(key).unwrap());
        Component { owner: OwnerId(owner), cell: cell(key), count, limit: 10, expires }
    }

    #[test]
    fn others_are_summed_and_the_own_row_stays_apart() {
        let mut cells = Cells::new(10);
        assert_eq!(cells.take(ME, &component(2, 1, 5), NOW), ComponentChange::New);
        assert_eq!(cells.take(ME, &component(3, 1, 4), NOW), ComponentChange::Raised);
        assert_eq!(
            cells.take(ME, &component(3, 1, 4), NOW),
            ComponentChange::Known,
            "an overlap reads rows again"
        );
        assert_eq!(
            cells.take(ME, &component(3, 1, 2), NOW),
            ComponentChange::Known,
            "an older one came later"
        );
        assert_eq!(cells.take(ME, &component(1, 1, 7), NOW), ComponentChange::Raised);
        let told = cells.world_cell(&cell(1)).unwrap();
        assert_eq!((told.own, told.others, told.expires), (7, 9, Nanos::from_secs(101)));
        assert_eq!(cells.own(&cell(1)), 7);
    }

    #[test]
    fn what_is_more_than_16_times_the_largest_limit_counts_as_16_limits() {
        let mut cells = Cells::new(10);
        let others = |cells: &Cells| cells.world_cell(&cell(1)).map(|told| told.others);
        assert!(cells.is_implausible(ME, &component(2, 1, 161)));
        assert!(!cells.is_implausible(ME, &component(2, 1, 160)));
        assert!(
            !cells.is_implausible(ME, &component(1, 1, 161)),
            "the region's own row is what it published"
        );
        assert_eq!(cells.take(ME, &component(2, 1, 161), NOW), ComponentChange::New);
        assert_eq!(others(&cells), Some(160));
        let larger = Component { limit: 100, ..component(3, 1, 1_600) };
        assert_eq!(cells.take(ME, &larger, NOW), ComponentChange::Raised);
        assert_eq!(others(&cells), Some(1_761), "the cell has had a limit of 100");
        assert_eq!(cells.take(ME, &component(1, 1, 5_000), NOW), ComponentChange::Raised);
        assert_eq!((cells.own(&cell(1)), others(&cells)), (5_000, Some(1_761)));
    }

    #[test]
    fn what_the_store_lost_is_found_and_what_it_had_is_remembered() {
        let mut cells = Cells::new(10);
        for (owner, key, count) in [(1, 1, 5), (2, 1, 4), (1, 2, 6), (2, 3, 7)] {
            cells.take(ME, &component(owner, key, count), NOW);
        }
        assert_eq!(cells.published_after(None, 10), (vec![cell(1), cell(2)], None));
        assert_eq!(cells.published_after(None, 1), (vec![cell(1)], Some(cell(1))));
        let (lag, later) = (Nanos::from_secs(2), NOW.plus(Nanos::from_secs(3)));
        assert!(!cells.is_lost(&cell(1), 0, lag, NOW), "it may be in the log");
        assert!(!cells.is_lost(&cell(1), 5, lag, later), "it is there");
        assert!(cells.is_lost(&cell(1), 0, lag, later));
        assert_eq!((cells.stored(&cell(1)), cells.own(&cell(1))), (0, 5));
        assert_eq!(cells.lost().collect::<Vec<_>>(), [cell(1)]);
        assert_eq!(cells.take(ME, &component(1, 1, 5), later), ComponentChange::Known);
        assert_eq!(cells.lost().count(), 0, "it was published again");
        cells.reset_stored();
        assert_eq!(cells.lost().collect::<Vec<_>>(), [cell(1), cell(2)]);
        let told = cells.world_cell(&cell(1)).unwrap();
        assert_eq!((told.own, told.others), (5, 0));
    }

    #[test]
    fn memory_is_bounded_and_what_expires_first_makes_room() {
        let mut cells = Cells::new(3);
        for key in [5, 1, 4, 2, 3] {
            cells.take(ME, &component(2, key, 1), NOW);
        }
        assert_eq!(cells.shrink(), 2);
        assert_eq!(cells.after(None, 10), [cell(3), cell(4), cell(5)]);
        assert_eq!(cells.after(Some(cell(3)), 1), [cell(4)]);
        cells.expire(Nanos::from_secs(104));
        assert_eq!((cells.len(), cells.by_expiry.len()), (1, 1));
    }
}
