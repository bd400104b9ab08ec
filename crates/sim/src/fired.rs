//! How often each kind of fault really happened: a fault that never fires tests nothing.

use crate::fault::Fault;
use crate::world::scenario::WorldFault;

/// A kind of fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultKind {
    Delayed,
    Lost,
    Doubled,
    Overtaken,
    CutOff,
    Crashed,
    StartedAnew,
    Paused,
    StoreForgot,
    StoreFailedOver,
    ShardFailedOver,
    StorePaused,
    StoreDown,
    RepliesLost,
    ClockOff,
    ClockDrifted,
    ClockStepped,
    RuleChanged,
    BecameHot,
    BecameCold,
    Left,
    ShardForgot,
    KeyLost,
    EpochLost,
    ComponentLost,
    CoordinationLost,
    KeyReset,
    ResetOrdered,
    ForeignNode,
    SlotMoved,
    DurationChanged,
    AllPaused,
    WorldDown,
    WorldPaused,
    WorldCut,
    WorldAnswersLost,
    WorkerDied,
    WorkerPaused,
    JoinedLate,
    PlaneDown,
    BrokerDown,
    BrokerForgot,
    BrokerPaused,
    StreamCut,
    StreamBroke,
    LogAway,
    WorldRowsLost,
    WorldRestored,
    RegionLeft,
    RegionRenamed,
}

/// With the name that people read.
pub const KINDS: [(FaultKind, &str); 50] = [
    (FaultKind::Delayed, "a message was late"),
    (FaultKind::Lost, "a message was lost"),
    (FaultKind::Doubled, "a message came twice"),
    (FaultKind::Overtaken, "a message overtook another"),
    (FaultKind::CutOff, "a message fell to a one-way partition"),
    (FaultKind::Crashed, "a node crashed"),
    (FaultKind::StartedAnew, "a node restarted with amnesia"),
    (FaultKind::Paused, "a node stood still"),
    (FaultKind::StoreForgot, "a region's store forgot everything"),
    (FaultKind::StoreFailedOver, "a stale replica took a store's place"),
    (FaultKind::ShardFailedOver, "a stale replica took one shard's place"),
    (FaultKind::StorePaused, "a region's store stood still"),
    (FaultKind::StoreDown, "a region's store was down"),
    (FaultKind::RepliesLost, "a store's replies got lost"),
    (FaultKind::ClockOff, "a node's clock was off"),
    (FaultKind::ClockDrifted, "a node's clock drifted"),
    (FaultKind::ClockStepped, "a node's clock was set"),
    (FaultKind::RuleChanged, "a rule changed"),
    (FaultKind::BecameHot, "a key became hot"),
    (FaultKind::BecameCold, "a key wasn't hot any more"),
    (FaultKind::Left, "a node left for good"),
    (FaultKind::ShardForgot, "one shard forgot everything"),
    (FaultKind::KeyLost, "a store lost a key"),
    (FaultKind::EpochLost, "a store lost an epoch"),
    (FaultKind::ComponentLost, "a store lost a node's component"),
    (FaultKind::CoordinationLost, "a store lost its list of nodes"),
    (FaultKind::KeyReset, "a key was reset"),
    (FaultKind::ResetOrdered, "the control plane ordered a reset"),
    (FaultKind::ForeignNode, "a node with another secret appeared"),
    (FaultKind::SlotMoved, "a key moved to another server"),
    (FaultKind::DurationChanged, "a rule's duration changed"),
    (FaultKind::AllPaused, "all nodes stood still for hours"),
    (FaultKind::WorldDown, "the world store was down"),
    (FaultKind::WorldPaused, "the world store stood still"),
    (FaultKind::WorldCut, "a region was cut off from the world store"),
    (FaultKind::WorldAnswersLost, "the world store's answers got lost"),
    (FaultKind::WorkerDied, "a worker died in mid-publish"),
    (FaultKind::WorkerPaused, "a worker stood still"),
    (FaultKind::JoinedLate, "a region joined late"),
    (FaultKind::PlaneDown, "a control plane was down"),
    (FaultKind::BrokerDown, "a broker was down"),
    (FaultKind::BrokerForgot, "a broker restarted with amnesia"),
    (FaultKind::BrokerPaused, "a control plane or broker stood still"),
    (FaultKind::StreamCut, "a rules stream was cut off"),
    (FaultKind::StreamBroke, "a rules stream broke"),
    (FaultKind::LogAway, "a control plane didn't reach its log"),
    (FaultKind::WorldRowsLost, "the world store lost rows"),
    (FaultKind::WorldRestored, "a backup took the world store's place"),
    (FaultKind::RegionLeft, "a region left for good"),
    (FaultKind::RegionRenamed, "a region was renamed"),
];

/// A count for each of [`KINDS`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fired([u64; KINDS.len()]);

impl Default for Fired {
    fn default() -> Self {
        Fired([0; KINDS.len()])
    }
}

impl Fired {
    pub fn count(&mut self, kind: FaultKind) {
        self.0[kind as usize] += 1;
    }

    pub fn add_all(&mut self, other: &Fired) {
        self.0.iter_mut().zip(other.0).for_each(|(count, more)| *count += more);
    }

    /// With names, in the order of [`KINDS`].
    pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
        KINDS.iter().map(|(kind, name)| (*name, self.0[*kind as usize]))
    }

    pub fn of(&self, kind: FaultKind) -> u64 {
        self.0[kind as usize]
    }
}

impl Fault {
    /// `None` for what only ends another.
    pub(crate) fn kind(self) -> Option<FaultKind> {
        Some(match self {
            Fault::Crash { .. } => FaultKind::Crashed,
            Fault::Start { .. } => FaultKind::StartedAnew,
            Fault::Pause { .. } => FaultKind::Paused,
            Fault::StepClock { .. } | Fault::WallClockIsSet { .. } => FaultKind::ClockStepped,
            Fault::StoreForgets => FaultKind::StoreForgot,
            Fault::StoreFailsOver => FaultKind::StoreFailedOver,
            Fault::ShardFailsOver { .. } => FaultKind::ShardFailedOver,
            Fault::StorePauses { .. } => FaultKind::StorePaused,
            Fault::StoreGoesDown => FaultKind::StoreDown,
            Fault::RepliesLost { of_10_000: 1.. } => FaultKind::RepliesLost,
            Fault::KeyIsHot { .. } => FaultKind::BecameHot,
            Fault::KeyIsCold { .. } => FaultKind::BecameCold,
            Fault::Leave { .. } => FaultKind::Left,
            Fault::ShardForgets { .. } => FaultKind::ShardForgot,
            Fault::KeyIsLost { .. } => FaultKind::KeyLost,
            Fault::EpochIsLost { .. } => FaultKind::EpochLost,
            Fault::ComponentIsLost { .. } => FaultKind::ComponentLost,
            Fault::CoordinationIsLost => FaultKind::CoordinationLost,
            Fault::Reset { .. } => FaultKind::KeyReset,
            Fault::ResetIsOrdered { .. } => FaultKind::ResetOrdered,
            Fault::ForeignNodeStarts => FaultKind::ForeignNode,
            Fault::SlotMoves { .. } => FaultKind::SlotMoved,
            Fault::DurationChanges { .. } => FaultKind::DurationChanged,
            Fault::AllPause { .. } => FaultKind::AllPaused,
            // A partition counts by what fell to it.
            Fault::Cut { .. }
            | Fault::Mend { .. }
            | Fault::StoreIsCopied
            | Fault::ShardIsCopied { .. }
            | Fault::ShardGoesDown { .. }
            | Fault::StoreComesBack
            | Fault::ForeignNodeStops
            | Fault::RepliesLost { of_10_000: 0 } => return None,
        })
    }
}

impl WorldFault {
    pub(crate) fn kind(self) -> Option<FaultKind> {
        Some(match self {
            WorldFault::StoreGoesDown => FaultKind::WorldDown,
            WorldFault::StorePauses { .. } => FaultKind::WorldPaused,
            WorldFault::Cut { .. } => FaultKind::WorldCut,
            WorldFault::AnswersLost { of_10_000: 1.. } => FaultKind::WorldAnswersLost,
            WorldFault::WorkerDiesInMidPublish { .. } => FaultKind::WorkerDied,
            WorldFault::WorkerPauses { .. } => FaultKind::WorkerPaused,
            WorldFault::RowsAreLost
            | WorldFault::RowsOfKeyAreLost { .. }
            | WorldFault::RowsOfRegionAreLost { .. } => FaultKind::WorldRowsLost,
            WorldFault::StoreIsRestored => FaultKind::WorldRestored,
            WorldFault::RegionLeaves { .. } => FaultKind::RegionLeft,
            WorldFault::RegionIsRenamed { .. } => FaultKind::RegionRenamed,
            // What is inside of a region counts there.
            WorldFault::StoreComesBack
            | WorldFault::StoreIsCopied
            | WorldFault::Mend { .. }
            | WorldFault::AnswersLost { of_10_000: 0 }
            | WorldFault::Inside { .. }
            | WorldFault::Calm => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_in_their_own_places() {
        for (place, (kind, name)) in KINDS.iter().enumerate() {
            assert_eq!(*kind as usize, place, "{name}");
        }
    }
}
