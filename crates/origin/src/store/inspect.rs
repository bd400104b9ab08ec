//! Lets the simulator read which situation a key is in. Changes nothing.

use super::OriginStore;
use tidegate_core::{CellId, KeyId, Nanos};

/// The state of one cell, or of a bucket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CellCondition {
    /// Somebody claimed a higher count than the owners' components sum up to.
    pub is_below_floor: bool,
    /// What is held back for requests that ask several shards.
    pub held: u64,
    pub expires: Nanos,
}

impl OriginStore {
    /// The condition of a window's cell at `now`; `None` when there is none.
    pub fn cell_condition(&self, cell: &CellId, now: Nanos) -> Option<CellCondition> {
        let window = self.windows.get(cell)?;
        let expires = self.windows.expires(cell).filter(|expires| *expires > now)?;
        let (is_below_floor, held) = (window.cell.sum() < window.cell.total(), window.holds.amount(now));
        Some(CellCondition { is_below_floor, held, expires })
    }

    /// The condition of a bucket at `now`, which has no floor; `None` when there is none.
    pub fn bucket_condition(&self, key: KeyId, epoch: u16, now: Nanos) -> Option<CellCondition> {
        let id = (key, epoch);
        let state = self.gcras.get(&id)?;
        let expires = self.gcras.expires(&id).filter(|expires| *expires > now)?;
        Some(CellCondition { is_below_floor: false, held: state.holds.amount(now), expires })
    }
}
