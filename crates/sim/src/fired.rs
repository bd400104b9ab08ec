//! How often each kind of fault really happened: a fault that never fires tests nothing.

use crate::fault::Fault;
use crate::world::scenario::WorldFault;

/// Everything that can go wrong here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
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
pub const KINDS: [(Kind, &str); 50] = [
    (Kind::Delayed, "a message was late"),
    (Kind::Lost, "a message was lost"),
    (Kind::Doubled, "a message came twice"),
    (Kind::Overtaken, "a message overtook another"),
    (Kind::CutOff, "a message fell to a one-way partition"),
    (Kind::Crashed, "a node crashed"),
    (Kind::StartedAnew, "a node restarted with amnesia"),
    (Kind::Paused, "a node stood still"),
    (Kind::StoreForgot, "a region's store forgot everything"),
    (Kind::StoreFailedOver, "a stale replica took a store's place"),
    (Kind::ShardFailedOver, "a stale replica took one shard's place"),
    (Kind::StorePaused, "a region's store stood still"),
    (Kind::StoreDown, "a region's store was down"),
    (Kind::RepliesLost, "a store's replies got lost"),
    (Kind::ClockOff, "a node's clock was off"),
    (Kind::ClockDrifted, "a node's clock drifted"),
    (Kind::ClockStepped, "a node's clock was set"),
    (Kind::RuleChanged, "a rule changed"),
    (Kind::BecameHot, "a key became hot"),
    (Kind::BecameCold, "a key wasn't hot any more"),
    (Kind::Left, "a node left for good"),
    (Kind::ShardForgot, "one shard forgot everything"),
    (Kind::KeyLost, "a store lost a key"),
    (Kind::EpochLost, "a store lost an epoch"),
    (Kind::ComponentLost, "a store lost a node's component"),
    (Kind::CoordinationLost, "a store lost its list of nodes"),
    (Kind::KeyReset, "a key was reset"),
    (Kind::ResetOrdered, "the control plane ordered a reset"),
    (Kind::ForeignNode, "a node with another secret appeared"),
    (Kind::SlotMoved, "a key moved to another server"),
    (Kind::DurationChanged, "a rule's duration changed"),
    (Kind::AllPaused, "all nodes stood still for hours"),
    (Kind::WorldDown, "the world store was down"),
    (Kind::WorldPaused, "the world store stood still"),
    (Kind::WorldCut, "a region was cut off from the world store"),
    (Kind::WorldAnswersLost, "the world store's answers got lost"),
    (Kind::WorkerDied, "a worker died in mid-publish"),
    (Kind::WorkerPaused, "a worker stood still"),
    (Kind::JoinedLate, "a region joined late"),
    (Kind::PlaneDown, "a control plane was down"),
    (Kind::BrokerDown, "a broker was down"),
    (Kind::BrokerForgot, "a broker restarted with amnesia"),
    (Kind::BrokerPaused, "a control plane or broker stood still"),
    (Kind::StreamCut, "a rules stream was cut off"),
    (Kind::StreamBroke, "a rules stream broke"),
    (Kind::LogAway, "a control plane didn't reach its log"),
    (Kind::WorldRowsLost, "the world store lost rows"),
    (Kind::WorldRestored, "a backup took the world store's place"),
    (Kind::RegionLeft, "a region left for good"),
    (Kind::RegionRenamed, "a region was renamed"),
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
    pub fn count(&mut self, kind: Kind) {
        self.0[kind as usize] += 1;
    }

    pub fn add_all(&mut self, other: &Fired) {
        self.0.iter_mut().zip(other.0).for_each(|(count, more)| *count += more);
    }

    /// With names, in the order of [`KINDS`].
    pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
        KINDS.iter().map(|(kind, name)| (*name, self.0[*kind as usize]))
    }

    pub fn of(&self, kind: Kind) -> u64 {
        self.0[kind as usize]
    }
}

impl Fault {
    /// `None` for what only ends another.
    pub(crate) fn kind(self) -> Option<Kind> {
        Some(match self {
            Fault::Crash { .. } => Kind::Crashed,
            Fault::Start { .. } => Kind::StartedAnew,
            Fault::Pause { .. } => Kind::Paused,
            Fault::StepClock { .. } | Fault::WallClockIsSet { .. } => Kind::ClockStepped,
            Fault::StoreForgets => Kind::StoreForgot,
            Fault::StoreFailsOver => Kind::StoreFailedOver,
            Fault::ShardFailsOver { .. } => Kind::ShardFailedOver,
            Fault::StorePauses { .. } => Kind::StorePaused,
            Fault::StoreGoesDown => Kind::StoreDown,
            Fault::RepliesLost { of_10_000: 1.. } => Kind::RepliesLost,
            Fault::KeyIsHot { .. } => Kind::BecameHot,
            Fault::KeyIsCold { .. } => Kind::BecameCold,
            Fault::Leave { .. } => Kind::Left,
            Fault::ShardForgets { .. } => Kind::ShardForgot,
            Fault::KeyIsLost { .. } => Kind::KeyLost,
            Fault::EpochIsLost { .. } => Kind::EpochLost,
            Fault::ComponentIsLost { .. } => Kind::ComponentLost,
            Fault::CoordinationIsLost => Kind::CoordinationLost,
            Fault::Reset { .. } => Kind::KeyReset,
            Fault::ResetIsOrdered { .. } => Kind::ResetOrdered,
            Fault::ForeignNodeStarts => Kind::ForeignNode,
            Fault::SlotMoves { .. } => Kind::SlotMoved,
            Fault::DurationChanges { .. } => Kind::DurationChanged,
            Fault::AllPause { .. } => Kind::AllPaused,
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
    pub(crate) fn kind(self) -> Option<Kind> {
        Some(match self {
            WorldFault::StoreGoesDown => Kind::WorldDown,
            WorldFault::StorePauses { .. } => Kind::WorldPaused,
            WorldFault::Cut { .. } => Kind::WorldCut,
            WorldFault::AnswersLost { of_10_000: 1.. } => Kind::WorldAnswersLost,
            WorldFault::WorkerDiesInMidPublish { .. } => Kind::WorkerDied,
            WorldFault::WorkerPauses { .. } => Kind::WorkerPaused,
            WorldFault::RowsAreLost
            | WorldFault::RowsOfKeyAreLost { .. }
            | WorldFault::RowsOfRegionAreLost { .. } => Kind::WorldRowsLost,
            WorldFault::StoreIsRestored => Kind::WorldRestored,
            WorldFault::RegionLeaves { .. } => Kind::RegionLeft,
            WorldFault::RegionIsRenamed { .. } => Kind::RegionRenamed,
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
