//! What happened to the node itself: the health timeline, in the same log as the decisions.
//!
//! An event says how something is from then on. What is unwell is said again at the beginning of each segment, so
//! that one segment is enough to know how things stood at any time within it.

use tidegate_core::Nanos;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum EventKind {
    /// The process began.
    Started,
    /// A shard: unwell while its breaker is open, and while it doesn't answer heartbeats or refuses them.
    Breaker,
    /// The region's store hasn't answered; the value is for how long, in milliseconds.
    SyncLag,
    /// The other regions haven't been heard; the value is for how long, in milliseconds.
    ImportLag,
    /// Rules came into force; the value is their version. With a subject: what that changed about one rule.
    Rules,
    /// The value is how many nodes the region has.
    LiveNodes,
    /// The value is how many limits this region enforces a part of.
    Slices,
    /// The wall clock was set; the value is by how many milliseconds.
    ClockStep,
}

impl EventKind {
    pub(crate) const ALL: [EventKind; 8] = [
        EventKind::Started,
        EventKind::Breaker,
        EventKind::SyncLag,
        EventKind::ImportLag,
        EventKind::Rules,
        EventKind::LiveNodes,
        EventKind::Slices,
        EventKind::ClockStep,
    ];

    pub fn name(self) -> &'static str {
        match self {
            EventKind::Started => "started",
            EventKind::Breaker => "breaker",
            EventKind::SyncLag => "sync_lag",
            EventKind::ImportLag => "import_lag",
            EventKind::Rules => "rules",
            EventKind::LiveNodes => "live_nodes",
            EventKind::Slices => "slices",
            EventKind::ClockStep => "clock_step",
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    pub at: Nanos,
    pub kind: EventKind,
    pub is_unwell: bool,
    pub value: i64,
    /// What it is about: a shard's address, a rule; empty for the node as a whole.
    pub subject: String,
    /// More of it, for people.
    pub text: String,
}

/// The latest event of each subject that isn't healthy.
#[derive(Debug, Default)]
pub(crate) struct ActiveEvents(Vec<Event>);

/// Subjects that are remembered as unwell; a fleet with more of them has other worries.
const UNWELL_MAX: usize = 256;

impl ActiveEvents {
    pub(crate) fn apply(&mut self, event: &Event) {
        self.0.retain(|known| (known.kind, &known.subject) != (event.kind, &event.subject));
        if event.is_unwell && self.0.len() < UNWELL_MAX {
            self.0.push(event.clone());
        }
    }

    pub(crate) fn events(&self) -> &[Event] {
        &self.0
    }

    /// How things stood at an instant, by events in the order of their times.
    pub(crate) fn at(events: &[Event], instant: Nanos) -> ActiveEvents {
        let mut standing = ActiveEvents::default();
        events.iter().filter(|event| event.at <= instant).for_each(|event| standing.apply(event));
        standing
    }
}
