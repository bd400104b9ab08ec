//! Who shares limits: new regions take part when all others make room for them, silent ones are given up.

use tidegate_core::Nanos;
use tidegate_world::{Member, Membership, SLICE_LEASE, Survey};

/// A region that wasn't heard of for so long is a member no more. It has gone by itself to what that means for its
/// rules: `docs/world-internals.md`.
pub(super) const MEMBER_TTL: Nanos = Nanos::from_secs(600);
/// One whose name another has taken up since, and says so: its process or its store was replaced, and its successor
/// holds nothing while it is waited for.
const REPLACED_AFTER: Nanos = Nanos::from_secs(45);

/// What there is room for beside all slices, of every key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// The even parts of those that wait.
    pub(super) for_waiting: bool,
    /// Even parts of fewer members: those that are gone left out.
    pub(super) for_larger_parts: bool,
}

impl Room {
    #[must_use]
    pub(super) fn and(self, other: Room) -> Room {
        Room {
            for_waiting: self.for_waiting && other.for_waiting,
            for_larger_parts: self.for_larger_parts && other.for_larger_parts,
        }
    }
}

/// It left, or wasn't heard of for so long that it is given up.
pub(super) fn is_gone(member: &Member, members: &[Member], now: Nanos) -> bool {
    let is_silent_for = |member: &Member, length| member.seen.plus(length) < now;
    // Heard of since: this one wasn't, for longer.
    let succeeds = |other: &Member| other.region == member.region && !is_silent_for(other, SLICE_LEASE);
    is_silent_for(member, MEMBER_TTL)
        || (is_silent_for(member, REPLACED_AFTER) && members.iter().any(succeeds))
}

/// The membership after this one, if it is time for another.
pub(super) fn next(survey: &Survey, room: Room) -> Option<Membership> {
    let Membership { version, members } = &survey.membership;
    let next = |members| Some(Membership { version: version + 1, members });
    let is_gone = |member: &Member| is_gone(member, members, survey.now);
    if members.iter().any(is_gone) {
        let stay = || members.iter().filter(|member| !is_gone(member)).cloned().collect();
        return room.for_larger_parts.then(stay).and_then(next);
    }
    if members.iter().all(|member| member.is_active) {
        return None;
    }
    // Who takes part already must have made room: on all nodes, of every key.
    let all_applied = members.iter().all(|member| !member.is_active || member.applied >= *version);
    if all_applied && room.for_waiting {
        let active = |member: &Member| Member { is_active: true, ..member.clone() };
        return next(members.iter().map(active).collect());
    }
    None
}
