//! What regions and the reconciler say to each other about quotas.
//!
//! A slice is a region's part of a limit, as a lease in the store's time. It is lowered before another is raised,
//! and raised only after the lowering was acknowledged or ran out (INV-6).

use crate::{KeyName, Membership, OwnerId, STORED_MAX, WorldError};
use std::sync::Arc;
use tidegate_core::{KeyId, Nanos, SliceSize, Spec};

/// What a region's callers asked for of one key, admitted or not.
#[derive(Clone, PartialEq, Debug)]
pub struct Demand {
    pub key: KeyId,
    /// The whole limit, as the region's rules have it.
    pub spec: Spec,
    /// Reconciled every second instead of every five.
    pub is_abuse: bool,
    /// Thousandths of cost a second, averaged. A region that holds a slice of the key reports it even at 0.
    pub milli_per_second: u64,
    pub name: Option<Arc<KeyName>>,
}

impl Demand {
    /// Whether a store can keep it.
    pub(crate) fn check(&self) -> Result<(), WorldError> {
        let refused = |message| Err(WorldError::Refused { message });
        match self.spec {
            Spec::Calendar { .. } => {
                refused(format!("key {:?} is of a calendar window, which has no quotas", self.key))
            }
            _ if self.milli_per_second > STORED_MAX => {
                refused(format!("the demand for key {:?} is out of range", self.key))
            }
            _ => Ok(()),
        }
    }
}

/// A slice as it is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SliceRow {
    pub key: KeyId,
    pub owner: OwnerId,
    /// Rises with every change of the size (it is the revision that wrote it); a renewal keeps it.
    pub generation: u64,
    pub size: SliceSize,
    /// The amount of the whole that it was cut from: a limit that has another number by now is cut in proportion.
    pub whole: u64,
    /// When the lease ends, in the store's time.
    pub expires: Nanos,
}

/// What an owner holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Slices {
    pub slices: Vec<SliceRow>,
    /// The store's own present.
    pub now: Nanos,
    /// When what the owner acknowledged last was read, in the store's time; 0 for an owner that the store doesn't know.
    /// Less than the owner acknowledged means that an older copy of the store took its place.
    pub confirmed: Nanos,
    /// How many grants were written so far. Fewer than the owner has read before mean the same.
    pub revision: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AcknowledgedSlice {
    pub key: KeyId,
    pub generation: u64,
}

/// What all nodes of a region go by, or went by once: a store that stood still may execute it much later.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Acknowledgement {
    /// When it was read, in the store's time: [`Slices::now`]. The leases count from before then.
    pub read: Nanos,
    /// None when there are no slices, or none that weren't acknowledged before.
    pub slices: Vec<AcknowledgedSlice>,
    /// [`Slices::confirmed`], as it was read last. A store that has less is an older copy of the one that this is meant
    /// for, and ignores it: taking it would hide that from the owner.
    pub known: Nanos,
}

/// A region's slice of a key, with what it has acknowledged of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SliceHolding {
    pub row: SliceRow,
    /// The last generation that all nodes of the owner go by.
    pub acknowledged: u64,
    /// What it may still go by instead, of the same whole, and until when: the size before, if that isn't
    /// acknowledged away.
    pub before: Option<(SliceSize, Nanos)>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Survey {
    /// How many grants were written before. A survey is one snapshot: all of it is of this revision.
    pub revision: u64,
    pub membership: Membership,
    pub demands: Vec<(OwnerId, Demand)>,
    pub slices: Vec<SliceHolding>,
    /// The store's own present.
    pub now: Nanos,
}

/// What the reconciler decided.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct SliceGrants {
    /// The survey's. Refused as [`WorldError::Outdated`] when anything was granted since: a call that was given
    /// up may still arrive, and must change nothing then.
    pub revision: u64,
    /// Written over what the owner held of the key.
    pub slices: Vec<SliceHolding>,
    /// Nobody holds anything but the even part of these any more: their slices and demands are deleted.
    pub dropped: Vec<KeyId>,
    /// Replaces the membership, if it is still at the version before.
    pub membership: Option<Membership>,
}
