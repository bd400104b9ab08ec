//! Who shares limits: new regions take part when all others make room for them, silent ones are given up.

use super::Flaw;
use tidegate_core::Nanos;
use tidegate_world::{Member, Membership, Survey};

/// A region that wasn't heard of for so long is a member no more. It has gone by itself to what that means for its
/// rules: `docs/world.md`.
pub(super) const GONE_AFTER: Nanos = Nanos::from_secs(600);

/// The membership after this one, if it is time for another.
pub(super) fn next(survey: &Survey, may_activate: bool, flaw: Flaw) -> Option<Membership> {
    let Membership { version, members } = &survey.membership;
    let next = |members| Some(Membership { version: version + 1, members });
    let is_gone = |member: &Member| member.seen.plus(GONE_AFTER) < survey.now;
    if members.iter().any(is_gone) {
        return next(members.iter().filter(|member| !is_gone(member)).cloned().collect());
    }
    if members.iter().all(|member| member.is_active) {
        return None;
    }
    // Who takes part already must have made room: on all nodes, of every key.
    let all_applied = members.iter().all(|member| !member.is_active || member.applied >= *version);
    if (all_applied && may_activate) || flaw == Flaw::ActivatesAtOnce {
        let active = |member: &Member| Member { is_active: true, ..member.clone() };
        return next(members.iter().map(active).collect());
    }
    None
}
