//! Who takes part, and what all must do alike.

use crate::{JoinReply, JoinRequest, Member, Membership, NAMESAKE_TTL, OwnerId, PublishPolicy, WorldError};
use std::collections::BTreeMap;
use tidegate_core::Nanos;

#[derive(Clone, Debug, Default)]
pub(super) struct Fleet {
    recorded: Option<RecordedSettings>,
    version: u64,
    /// All that ever were.
    owners: BTreeMap<OwnerId, Owner>,
}

/// By the first region that came.
#[derive(Clone, Copy, Debug)]
struct RecordedSettings {
    fingerprint: u64,
    policy: PublishPolicy,
}

#[derive(Clone, Debug)]
struct Owner {
    region: String,
    origin: u64,
    state: MemberState,
    applied: u64,
    seen: Nanos,
    confirmed: Nanos,
}

/// The state of a region's membership.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum MemberState {
    Gone,
    Waiting,
    Active,
}

impl Fleet {
    pub(super) fn join(&mut self, joining: &JoinRequest, now: Nanos) -> Result<JoinReply, WorldError> {
        joining.check()?;
        let ours = RecordedSettings { fingerprint: joining.fingerprint, policy: joining.policy };
        let recorded = *self.recorded.get_or_insert(ours);
        if recorded.fingerprint != ours.fingerprint {
            return Err(WorldError::OtherSecret { theirs: recorded.fingerprint, ours: ours.fingerprint });
        }
        if joining.known > self.version {
            self.version = joining.known + 1;
        }
        let me = self.owner_of(joining);
        self.record(me, joining, now);
        let lately = |owner: &Owner| owner.state != MemberState::Gone && owner.seen.plus(NAMESAKE_TTL) > now;
        let is_namesake = |owner: &&Owner| {
            owner.region == joining.region && owner.origin != joining.origin && lately(owner)
        };
        let namesakes = self.owners.values().filter(is_namesake).count();
        Ok(JoinReply {
            me,
            policy: recorded.policy,
            membership: self.membership(),
            namesakes: u32::try_from(namesakes).unwrap_or(u32::MAX),
            now,
        })
    }

    pub(super) fn membership(&self) -> Membership {
        let members = self.owners.iter().filter(|(_, owner)| owner.state != MemberState::Gone);
        let members = members.map(|(id, owner)| Member {
            owner: *id,
            region: owner.region.clone(),
            is_active: owner.state == MemberState::Active,
            applied: owner.applied,
            seen: owner.seen,
            confirmed: owner.confirmed,
        });
        Membership { version: self.version, members: members.collect() }
    }

    /// All nodes of the region went by the slices that were read then.
    pub(super) fn confirm(&mut self, owner: OwnerId, read: Nanos) {
        if let Some(owner) = self.owners.get_mut(&owner) {
            owner.confirmed = owner.confirmed.max(read);
        }
    }

    /// When what an owner acknowledged last was read; 0 for one that isn't known.
    pub(super) fn confirmed(&self, owner: OwnerId) -> Nanos {
        self.owners.get(&owner).map_or(Nanos::ZERO, |owner| owner.confirmed)
    }

    /// By the reconciler's word.
    pub(super) fn replace(&mut self, membership: &Membership) -> Result<(), WorldError> {
        if membership.version != self.version + 1 {
            return Err(WorldError::Outdated { theirs: self.version });
        }
        if let Some(stranger) =
            membership.members.iter().find(|member| !self.owners.contains_key(&member.owner))
        {
            return Err(WorldError::Refused { message: format!("there is no {:?}", stranger.owner) });
        }
        self.owners.values_mut().for_each(|owner| owner.state = MemberState::Gone);
        for member in &membership.members {
            if let Some(owner) = self.owners.get_mut(&member.owner) {
                owner.state = if member.is_active { MemberState::Active } else { MemberState::Waiting };
            }
        }
        self.version = membership.version;
        Ok(())
    }

    fn owner_of(&mut self, joining: &JoinRequest) -> OwnerId {
        if let Some((id, owner)) = self.owners.iter_mut().find(|(_, owner)| owner.origin == joining.origin) {
            owner.region.clone_from(&joining.region);
            return *id;
        }
        let id = OwnerId::of_origin(joining.origin, |id| self.owners.contains_key(&id));
        let owner = Owner {
            region: joining.region.clone(),
            origin: joining.origin,
            state: MemberState::Gone,
            applied: 0,
            seen: Nanos::ZERO,
            confirmed: Nanos::ZERO,
        };
        self.owners.insert(id, owner);
        id
    }

    fn record(&mut self, me: OwnerId, joining: &JoinRequest, now: Nanos) {
        let mut others = self.owners.iter().filter(|(id, _)| **id != me).map(|(_, owner)| owner.state);
        let is_alone = others.clone().all(|standing| standing == MemberState::Gone);
        let nobody_holds_anything = others.all(|standing| standing != MemberState::Active);
        let Some(owner) = self.owners.get_mut(&me) else { return };
        (owner.applied, owner.seen) = (joining.applied, if joining.leaves { Nanos::ZERO } else { now });
        let standing = match owner.state {
            _ if joining.leaves && is_alone => MemberState::Gone,
            MemberState::Gone if joining.leaves => MemberState::Gone,
            // The others divide by one less when the reconciler has seen that it fits.
            _ if joining.leaves => MemberState::Waiting,
            MemberState::Gone if nobody_holds_anything => MemberState::Active,
            MemberState::Gone => MemberState::Waiting,
            same => same,
        };
        if standing != owner.state {
            owner.state = standing;
            self.version += 1;
        }
    }
}
