//! Components of cells, found by what they are, by when they changed, and by when they expire.

use crate::{After, COUNT_RETENTION, CellId, Component, Cursor, DELETED_MAX, ImportPage, OwnerId, Row};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use tidegate_core::Nanos;

type Id = (CellId, OwnerId);

#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    stored: BTreeMap<Id, StoredCount>,
    by_change: BTreeSet<(Nanos, Id)>,
    by_expiry: BTreeSet<(Nanos, Id)>,
    /// How often a row was written.
    writes: u64,
}

/// One row of the table of counts.
#[derive(Clone, Copy, Debug)]
struct StoredCount {
    count: u64,
    limit: u64,
    expires: Nanos,
    changed: Nanos,
}

impl Counts {
    /// Merges by max (INV-1). What didn't grow changes nothing.
    pub(super) fn publish(&mut self, owner: OwnerId, row: &Row, now: Nanos) {
        let id = (row.cell, owner);
        let before = self.stored.get(&id).copied();
        if before.is_some_and(|before| row.count <= before.count) {
            return;
        }
        let mut expires = row.expires;
        if let Some(before) = before {
            self.by_change.remove(&(before.changed, id));
            self.by_expiry.remove(&(before.expires, id));
            expires = expires.max(before.expires);
        }
        self.writes += 1;
        self.stored.insert(id, StoredCount { count: row.count, limit: row.limit, expires, changed: now });
        self.by_change.insert((now, id));
        self.by_expiry.insert((expires, id));
    }

    pub(super) fn import(&self, since: Cursor, rows_max: usize, now: Nanos) -> ImportPage {
        let is_restart = since.writes > self.writes;
        let since = if is_restart { Cursor::default() } else { since };
        let writes = self.writes;
        let from = match since.after {
            After::Row(cell, owner) => Bound::Excluded((since.changed, (cell, owner))),
            // This store has no log.
            After::Nothing | After::Entries(_) => Bound::Included((since.changed, FIRST)),
        };
        let mut changed = self.by_change.range((from, Bound::Unbounded));
        let page: Vec<&(Nanos, Id)> = changed.by_ref().take(rows_max).collect();
        let components = page.iter().filter_map(|(_, id)| self.component(id)).collect();
        let has_more = changed.next().is_some();
        let next = match page.last() {
            Some((changed, id)) if has_more => {
                Cursor { changed: *changed, after: After::Row(id.0, id.1), writes }
            }
            _ => Cursor { changed: now, after: After::Nothing, writes },
        };
        ImportPage { components, next, has_more, is_restart }
    }

    pub(super) fn delete_expired(&mut self, now: Nanos) -> u64 {
        let mut deleted = 0;
        while let Some((expires, id)) = self.by_expiry.first().copied() {
            if expires.plus(COUNT_RETENTION) > now || deleted == DELETED_MAX as u64 {
                break;
            }
            self.by_expiry.pop_first();
            if let Some(kept) = self.stored.remove(&id) {
                self.by_change.remove(&(kept.changed, id));
            }
            deleted += 1;
        }
        deleted
    }

    pub(super) fn lose(&mut self, is_lost: impl Fn(&CellId, OwnerId) -> bool) {
        self.stored.retain(|(cell, owner), _| !is_lost(cell, *owner));
        let kept = &self.stored;
        self.by_change.retain(|(_, id)| kept.contains_key(id));
        self.by_expiry.retain(|(_, id)| kept.contains_key(id));
    }

    pub(super) fn of(&self, cell: &CellId, owner: OwnerId) -> Option<u64> {
        self.stored.get(&(*cell, owner)).map(|kept| kept.count)
    }

    pub(super) fn components(&self) -> impl Iterator<Item = Component> + '_ {
        self.stored.keys().filter_map(|id| self.component(id))
    }

    fn component(&self, id: &Id) -> Option<Component> {
        let StoredCount { count, limit, expires, .. } = *self.stored.get(id)?;
        let (cell, owner) = *id;
        Some(Component { owner, cell, count, limit, expires })
    }
}

/// Before every other.
const FIRST: Id = (
    CellId { key: tidegate_core::KeyId::from_hash(0), epoch: 0, sequence: tidegate_core::Sequence(0) },
    OwnerId(0),
);
