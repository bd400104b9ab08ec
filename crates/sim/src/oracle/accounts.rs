//! What was admitted in one cell, and the accounts that pay for what was beyond the limit.

use std::collections::BTreeSet;
use tidegate_core::origin_cell::NodeId;
use tidegate_core::{Accuracy, Nanos, Sequence};

/// What was admitted in one cell, and what may have been beyond the limit.
#[derive(Clone, Debug, Default)]
pub(super) struct Accounts {
    pub(super) admitted: u64,
    pub(super) reported: u64,
    pub(super) unverified: u64,
    pub(super) credit: Credit,
    pub(super) lost: u64,
    /// Units that only totals remember: their nodes are dead, and the store lost them. Living nodes claim them, and claims
    /// merge by maximum.
    pub(super) claimed: u64,
    /// Units that nodes hadn't published when the store lost its data, or admitted before all had published again, or sent
    /// in a call that nobody answered: a claim hides as many.
    pub(super) before_claims: u64,
    /// Units of a key that was deleted.
    pub(super) deleted: u64,
    /// Those of them that nobody brings back: the nodes that knew of them dropped their entries before they synced the key.
    /// That makes room for no more than their deletion did.
    pub(super) dropped: u64,
    /// Units admitted by nodes whose tables had no room for the key: nobody ever tells the store of them. They are
    /// unverified.
    pub(super) untold: u64,
    /// Units that were admitted so near to a window's turn that the clock of their node was still before it, or already
    /// past it: they count in one window, and what others admit at the same time in the other.
    pub(super) at_turn: u64,
    /// Units of a bucket that were granted for an earlier request and spent later: the bucket has refilled meanwhile.
    pub(super) granted_before: u64,
    /// What was in use when the limit was lowered, and what nodes had been granted by the limit before: each spends that up
    /// to the new limit by its own view, which doesn't have what the others have spent since.
    pub(super) used_before: u64,
    /// When a bucket that saw everything is full again, in ticks of a nanosecond over the rate's denominator.
    pub(super) level: u128,
    pub(super) level_at: Nanos,
    /// More was admitted than the bucket holds: nodes and the store cut that to an empty bucket.
    pub(super) owes_more: bool,
    pub(super) nodes: BTreeSet<NodeId>,
    /// Units that were held for their request, or admitted on credit beside a limit that was asked about.
    pub(super) held: u64,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Credit {
    /// The most that was unpublished at once when the store granted something.
    pub(super) unpublished: u64,
    /// What was admitted on credit when the limit was reached.
    pub(super) beyond: u64,
    /// All that was admitted without being granted.
    pub(super) admitted: u64,
}

impl Accounts {
    /// Units that nobody counts any more. Example: a dead node counted 6, node B knows of 7 in all, and the store lost its
    /// data. It grants 2 to node C before B claims the 7: it counts 7 of 9 then.
    pub(super) fn uncounted(&self) -> u64 {
        self.lost + self.claimed.min(self.before_claims)
    }

    /// What may have been admitted beyond a limit. `exact` has no credit. `fast` and `async` have one without a bound:
    /// whatever they admit by themselves may turn out to be beyond the limit when others spend what they were granted.
    /// Of `bounded` that is a twentieth of the limit at most, beside what was beyond it at once.
    pub(super) fn sum(&self, accuracy: Accuracy, limit: u64) -> u64 {
        let Credit { unpublished, beyond, admitted } = self.credit;
        let credit = match accuracy {
            Accuracy::Exact => 0,
            Accuracy::Bounded => unpublished + beyond + admitted.min(limit.div_ceil(20)),
            Accuracy::Fast | Accuracy::Async => unpublished + admitted,
        };
        self.reported
            + self.unverified
            + credit
            + self.uncounted()
            + self.deleted
            + self.at_turn
            + self.granted_before.min(limit)
    }
}

/// Returns the window before this one, of the same generation.
pub(super) fn before((generation, sequence): (u64, Sequence)) -> (u64, Sequence) {
    (generation, Sequence(sequence.0.wrapping_sub(1)))
}
