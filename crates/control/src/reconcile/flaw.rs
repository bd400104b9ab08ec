//! Mistakes to make on purpose: a test that doesn't find them is none.
//!
//! What the reconciler is shown is distorted, or what it says. Nothing in it knows of this, so that nothing in it can
//! be wrong by it, and a node makes none.

use super::{ReconcileResult, pass};
use tidegate_world::{Member, Membership, SliceGrants, SliceHolding, Survey};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Flaw {
    #[default]
    None,
    /// Takes what was lowered for gone before anybody acknowledged it.
    RaisesFirst,
    /// Takes regions that say nothing for there.
    IgnoresSilence,
    /// Rounds slices of a limit whose number changed up, not down.
    RoundsUp,
    /// Lets a new region take part before the others know of it.
    ActivatesAtOnce,
}

impl Flaw {
    pub(super) fn pass(self, survey: &Survey) -> ReconcileResult {
        let mut shown = survey.clone();
        match self {
            Flaw::None | Flaw::ActivatesAtOnce | Flaw::RoundsUp => {}
            Flaw::RaisesFirst => {
                shown.slices.iter_mut().for_each(|held| held.acknowledged = held.row.generation);
            }
            Flaw::IgnoresSilence => {
                shown.membership.members.iter_mut().for_each(|member| member.confirmed = survey.now);
            }
        }
        let mut pass_result = pass(&shown);
        if self == Flaw::ActivatesAtOnce && survey.membership.members.iter().any(|member| !member.is_active) {
            let none = || SliceGrants { revision: survey.revision, ..SliceGrants::default() };
            let granted = pass_result.granted.get_or_insert_with(none);
            granted.membership.get_or_insert_with(|| all_active(&survey.membership));
        }
        if self == Flaw::RoundsUp
            && let Some(granted) = &mut pass_result.granted
        {
            granted.slices.iter_mut().for_each(|held| round_up(held, survey));
        }
        pass_result
    }
}

/// A unit more, where the slice before was of a limit with another number and leaves a remainder.
fn round_up(held: &mut SliceHolding, survey: &Survey) {
    let row = &mut held.row;
    let is_before = |before: &&SliceHolding| (before.row.key, before.row.owner) == (row.key, row.owner);
    if let Some(before) = survey.slices.iter().find(is_before)
        && before.row.whole != row.whole
        && before.row.size.of_other_whole(before.row.whole, row.whole).amount > row.size.amount
    {
        row.size.amount += 1;
    }
}

fn all_active(before: &Membership) -> Membership {
    let active = |member: &Member| Member { is_active: true, ..member.clone() };
    Membership { version: before.version + 1, members: before.members.iter().map(active).collect() }
}
