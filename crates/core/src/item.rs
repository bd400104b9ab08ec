//! One limit of a request, as the table decides it.

use crate::ask::{Accuracy, Class};
use crate::decision::{ChargeMode, Decision};
use crate::identity::KeyId;
use crate::limit::{Cost, Spec};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Charge {
    IfAdmitted,
    /// Post-paid: charged whatever the verdict, may overdraw.
    Always,
    /// Looked at for the answer only: the request is denied already.
    Never,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    Enforced,
    /// Counted as if enforced when the request passes; never denies it.
    Shadow,
    /// Denies only together with every other quota of the request. One that is used up while another isn't is
    /// not charged.
    Quota,
}

impl Role {
    /// Whether a request is denied by limits of these roles, each of which admits it or doesn't.
    #[inline]
    pub fn deny(mut limits: impl Iterator<Item = (Role, bool)> + Clone) -> bool {
        let all = limits.clone();
        limits.any(|(role, admits)| {
            !admits
                && match role {
                    Role::Enforced => true,
                    Role::Shadow => false,
                    Role::Quota => all.clone().all(|(role, admits)| role != Role::Quota || !admits),
                }
        })
    }
}

/// Whether a key may get an entry when the table is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Room {
    Capped,
    /// One of the few keys that stand in for those that got no entry. Their number is bounded too.
    Reserved,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Item {
    pub key: KeyId,
    pub spec: Spec,
    pub cost: Cost,
    pub charge: Charge,
    pub role: Role,
    pub room: Room,
    /// When its admission asks the region first. `Async` decides on the local view, whatever that is.
    pub accuracy: Accuracy,
    pub class: Class,
    /// How many regions share the limit's credit: 1 unless it is of class `abuse` and counts over the world.
    pub regions: u32,
}

impl Item {
    /// Decided on the local view, enforced, charged if admitted.
    #[inline]
    pub const fn new(key: KeyId, spec: Spec, cost: Cost) -> Self {
        Item {
            key,
            spec,
            cost,
            charge: Charge::IfAdmitted,
            role: Role::Enforced,
            room: Room::Capped,
            accuracy: Accuracy::Async,
            class: Class::Paid,
            regions: 1,
        }
    }

    #[inline]
    pub(crate) const fn charge_mode(&self) -> ChargeMode {
        match self.charge {
            Charge::IfAdmitted => ChargeMode::IfAdmitted,
            Charge::Always => ChargeMode::Always,
            Charge::Never => ChargeMode::Never,
        }
    }

    /// Whether a decision means that the cost was counted.
    #[inline]
    pub(crate) fn charges(&self, decision: &Decision) -> bool {
        self.cost > Cost::PEEK && self.charge_mode().charges(decision.is_admitted())
    }
}

#[cfg(test)]
mod tests {
    use super::Role::{Enforced, Quota, Shadow};
    use super::*;

    #[test]
    fn a_limit_denies_alone_and_quotas_only_together() {
        for (limits, denied) in [
            (&[][..], false),
            (&[(Enforced, true)], false),
            (&[(Enforced, true), (Enforced, false)], true),
            (&[(Quota, false)], true),
            (&[(Quota, false), (Quota, true)], false),
            (&[(Quota, false), (Quota, false)], true),
            (&[(Quota, false), (Enforced, true)], true),
            (&[(Quota, true), (Enforced, false)], true),
            (&[(Quota, true), (Enforced, true)], false),
            (&[(Quota, false), (Shadow, true)], true),
            (&[(Shadow, false), (Quota, true)], false),
        ] {
            assert_eq!(Role::deny(limits.iter().copied()), denied, "{limits:?}");
        }
    }
}
