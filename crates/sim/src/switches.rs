//! What the protocol is known to do wrong, and the part of the generator that is left out for it.
//!
//! The ordinary swarm runs with [`Switches::ORDINARY`]: everything is generated but for what is known to fail. Each known
//! failure has a scenario in `crates/sim/scenarios`, and a test that the swarm finds it when its switch is on.

use crate::chaos::Pattern;

/// Which kinds of events are generated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Switches {
    /// A region's store loses data, or a lagging replica takes its place.
    pub data_loss: bool,
    /// Keys are reset.
    pub resets: bool,
    /// Limits are lowered, also to nothing.
    pub lowered_limits: bool,
    /// A node with another secret sends heartbeats to the region's store.
    pub foreign_node: bool,
    /// Nodes stand still for longer than a reservation lasts while requests of several limits wait.
    pub pauses_of_reservations: bool,
    /// Keys with long windows are hot.
    pub hot_long_windows: bool,
    /// Keys whose limits are small for the number of nodes are hot.
    pub hot_small_limits: bool,
    /// How long a denied caller is told to wait is judged also where more than the limit was admitted: the node may not
    /// know what the others admitted, and learns it when the caller comes back.
    pub overshot_waits: bool,
    /// Nodes start while the store is away, and limits of class `free` are judged then.
    pub free_in_outage: bool,
    /// Some keys are counted by the calendar, or charged whatever their limits say.
    pub ruled_keys: bool,
    /// A backup replaces the world store while slices are out.
    pub restored_slices: bool,
    /// Every second episode aims at this.
    pub pattern: Option<Pattern>,
}

impl Switches {
    pub const ALL: Switches = Switches {
        data_loss: true,
        resets: true,
        lowered_limits: true,
        foreign_node: true,
        pauses_of_reservations: true,
        hot_long_windows: true,
        hot_small_limits: true,
        overshot_waits: true,
        free_in_outage: true,
        ruled_keys: true,
        restored_slices: true,
        pattern: None,
    };

    pub const NONE: Switches = Switches {
        data_loss: false,
        resets: false,
        lowered_limits: false,
        foreign_node: false,
        pauses_of_reservations: false,
        hot_long_windows: false,
        hot_small_limits: false,
        overshot_waits: false,
        free_in_outage: false,
        ruled_keys: false,
        restored_slices: false,
        pattern: None,
    };

    /// What the tests run with.
    pub const ORDINARY: Switches = Switches::ALL;
}

/// Something that the protocol does wrong.
#[derive(Clone, Copy, Debug)]
pub struct KnownFailure {
    /// Also of its scenario.
    pub name: &'static str,
    /// What goes wrong, in a sentence.
    pub about: &'static str,
    /// What the generator needs to come upon it.
    pub switches: Switches,
    /// How the message begins that the oracle finds it with.
    pub found_as: &'static [&'static str],
}

const OFF: Switches = Switches::NONE;

/// Everything that is known to fail.
pub const KNOWN_FAILURES: &[KnownFailure] = &[
    KnownFailure {
        name: "claim-after-growth",
        about: "What a store that lost its data grants at once hides as much of what a dead node had counted: claims merge by maximum.",
        switches: Switches { data_loss: true, pattern: Some(Pattern::ClaimAfterGrowth), ..OFF },
        found_as: &["conservation", "overshoot"],
    },
    KnownFailure {
        name: "slices-restored",
        about: "A restored world database brings back slices that were lowered since.",
        switches: Switches { restored_slices: true, ..OFF },
        found_as: &["INV-6"],
    },
];
