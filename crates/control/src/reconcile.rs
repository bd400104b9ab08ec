//! Which part of every limit each region holds: from what the world store knows to what is to be written there.
//!
//! Pure: a survey in, a grant out, no memory between, so that any leader may do the next step. Must never write a
//! slice that could be in force together with more than the rest of its limit (INV-6): `holding.rs` says what may
//! be in force when, and nothing is renewed or raised but into what is left beside that. `docs/world-internals.md`
//! has the clocks.

mod flaw;
mod holding;
mod key;
mod membership;
mod oversubscription;
#[cfg(test)]
mod tests;

#[doc(hidden)]
pub use flaw::Flaw;
use key::Key;
use std::collections::BTreeMap;
use tidegate_core::KeyId;
use tidegate_origin::QUOTA_KEYS_MAX;
use tidegate_world::{SliceGrants, Survey};

/// What a pass did, for operators.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Figures {
    /// Slices that there are after it.
    pub slices: u64,
    pub lowered: u64,
    pub raised: u64,
    pub renewed: u64,
    /// Keys that went back to the even split.
    pub dropped: u64,
    /// Slices that their regions haven't acknowledged.
    pub unacknowledged: u64,
    /// Keys that stay with the even split because others ask for more, and there is room for so many only.
    pub rejected: u64,
}

#[derive(Clone, PartialEq, Debug)]
pub struct ReconcileResult {
    /// `None` when there is nothing to write.
    pub granted: Option<SliceGrants>,
    pub figures: Figures,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Reconciler {
    flaw: Flaw,
}

impl Reconciler {
    #[doc(hidden)]
    pub fn with_flaw(flaw: Flaw) -> Self {
        Reconciler { flaw }
    }

    /// One pass.
    pub fn reconcile(&self, survey: &Survey) -> ReconcileResult {
        match self.flaw {
            Flaw::None => pass(survey),
            flaw => flaw.pass(survey),
        }
    }
}

fn pass(survey: &Survey) -> ReconcileResult {
    let mut figures = Figures::default();
    let mut granted = SliceGrants { revision: survey.revision, ..SliceGrants::default() };
    let mut keys: BTreeMap<KeyId, Key<'_>> = BTreeMap::new();
    for (owner, demand) in &survey.demands {
        keys.entry(demand.key).or_default().demands.push((*owner, demand));
    }
    for held in &survey.slices {
        keys.entry(held.row.key).or_default().slices.push(held);
    }
    let turned_away = oversubscription::rejected(&keys, QUOTA_KEYS_MAX);
    let mut room = membership::Room { for_waiting: true, for_larger_parts: true };
    for (id, key) in &keys {
        let is_turned_away = turned_away.contains(id);
        room = room.and(key.reconcile(*id, survey, is_turned_away, &mut granted, &mut figures));
    }
    granted.membership = membership::next(survey, room);
    let writes = granted.membership.is_some() || !granted.slices.is_empty() || !granted.dropped.is_empty();
    ReconcileResult { granted: writes.then_some(granted), figures }
}
