//! What the protocol is known to get wrong: the one list of what a run leaves out unless `--known-failures` is given.
//!
//! When the protocol is fixed, its entry is deleted here, and every run includes the combination from then on.

/// A combination of events that leads to a known failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Combination {
    IdleDataLoss,
    DataLossWithDeadOwner,
    ColdAskAfterReset,
    ResetDuringPause,
    DataLossAfterReset,
    SkewedClock,
    DatabaseRestored,
}

#[derive(Clone, Copy, Debug)]
struct KnownFailure {
    combination: Combination,
    /// What happens today.
    reason: &'static str,
}

const KNOWN_FAILURES: [KnownFailure; 7] = [
    KnownFailure {
        combination: Combination::IdleDataLoss,
        reason: "Redis loses data while a key is idle or spent: no node publishes it again, and a cold node gets the \
                 whole limit. Left out: each node is asked once about the key after the loss, and spent keys aren't \
                 judged.",
    },
    KnownFailure {
        combination: Combination::DataLossWithDeadOwner,
        reason: "Redis loses data after a node died: survivors' claims are merged by max, so what they admit at the \
                 same time is counted once. Left out: in the minute of a node's death its Redis loses nothing.",
    },
    KnownFailure {
        combination: Combination::ColdAskAfterReset,
        reason: "A node that is cold for a key that was reset asks by epoch 0, and its first asks are decided \
                 unverified. Left out: the cold node isn't asked about a key that was reset.",
    },
    KnownFailure {
        combination: Combination::ResetDuringPause,
        reason: "A node that was paused for more than 20 s never learns of a reset, and denies for the rest of the \
                 window. Left out: no key is reset while a node is paused.",
    },
    KnownFailure {
        combination: Combination::DataLossAfterReset,
        reason: "Redis loses the epoch with its data: a cold node counts by epoch 0, and those counts vanish when a \
                 node publishes the newer epoch. Left out: a key that was reset isn't judged after a data loss.",
    },
    KnownFailure {
        combination: Combination::SkewedClock,
        reason: "Cells follow the node's clock: nodes 30 s apart count in different cells. Left out: clocks are off \
                 by 40 ms, not by 30 s.",
    },
    KnownFailure {
        combination: Combination::DatabaseRestored,
        reason: "The world database goes back to an older backup: regions don't publish the lost rows again. Left \
                 out: the database isn't restored.",
    },
];

/// Which combinations a run leaves out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeftOut {
    /// `--known-failures` was given: nothing is left out.
    pub(crate) includes_known_failures: bool,
}

impl LeftOut {
    pub(crate) fn leaves_out(self, combination: Combination) -> bool {
        !self.includes_known_failures && KNOWN_FAILURES.iter().any(|known| known.combination == combination)
    }

    /// What the report says of it.
    pub(crate) fn report(self) -> String {
        let head = if self.includes_known_failures { "included" } else { "left out" };
        let lines: Vec<String> = KNOWN_FAILURES
            .iter()
            .map(|known| format!("| {:?} | {} |", known.combination, known.reason))
            .collect();
        format!("| known failure, {head} | what happens |\n|---|---|\n{}\n", lines.join("\n"))
    }
}
