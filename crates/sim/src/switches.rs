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
    /// Clocks are off by more than the store believes, and what is admitted then is judged.
    pub skewed_clocks: bool,
    /// A node with another secret sends heartbeats to the region's store.
    pub foreign_node: bool,
    /// Nodes stand still for longer than a reservation lasts while requests of several limits wait.
    pub pauses_of_reservations: bool,
    /// Keys with long windows are hot.
    pub hot_long_windows: bool,
    /// Keys whose limits are small for the number of nodes are hot.
    pub hot_small_limits: bool,
    /// How long a denied caller is told to wait is judged also where more than the limit was admitted: the node may not
    /// know what the others admitted.
    pub overshot_waits: bool,
    /// Nodes start while the store is away, and limits of class `free` are judged then.
    pub free_in_outage: bool,
    /// The world store loses counts, or is replaced by a backup.
    pub world_data_loss: bool,
    /// A region is started again with another name and the same store.
    pub region_rename: bool,
    /// Reports in one region cost many limits.
    pub overdrawn_reports: bool,
    /// Limits that regions share by quotas are changed while slices are out.
    pub changed_quotas: bool,
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
        skewed_clocks: true,
        foreign_node: true,
        pauses_of_reservations: true,
        hot_long_windows: true,
        hot_small_limits: true,
        overshot_waits: true,
        free_in_outage: true,
        world_data_loss: true,
        region_rename: true,
        overdrawn_reports: true,
        changed_quotas: true,
        restored_slices: true,
        pattern: None,
    };

    pub const NONE: Switches = Switches {
        data_loss: false,
        resets: false,
        lowered_limits: false,
        skewed_clocks: false,
        foreign_node: false,
        pauses_of_reservations: false,
        hot_long_windows: false,
        hot_small_limits: false,
        overshot_waits: false,
        free_in_outage: false,
        world_data_loss: false,
        region_rename: false,
        overdrawn_reports: false,
        changed_quotas: false,
        restored_slices: false,
        pattern: None,
    };

    /// What the tests run with.
    pub const ORDINARY: Switches = Switches::NONE;
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
        name: "data-loss-idle-keys",
        about: "The store loses data while the nodes that counted a key are idle: nobody publishes the counts again.",
        switches: Switches { data_loss: true, ..OFF },
        found_as: &["conservation", "overshoot"],
    },
    KnownFailure {
        name: "ask-after-reset",
        about: "A cold node asks about a key that was reset at epoch 0, and its first requests are unverified although the store answers.",
        switches: Switches { resets: true, ..OFF },
        found_as: &["liveness", "overshoot"],
    },
    KnownFailure {
        name: "reset-replayed-after-data-loss",
        about: "The store loses a reset that the control plane ordered: a node that joins carries the order out again.",
        switches: Switches { pattern: Some(Pattern::ReplayedReset), ..OFF },
        found_as: &["overshoot", "conservation"],
    },
    KnownFailure {
        name: "lowered-limit-prepaid",
        about: "The limit of a leased key is lowered: what was drawn ahead is spent and renewed by the old limit.",
        switches: Switches { lowered_limits: true, pattern: Some(Pattern::LoweredLease), ..OFF },
        found_as: &["overshoot"],
    },
    KnownFailure {
        name: "skewed-clocks",
        about: "Nodes whose clocks differ by more than a window count in different cells.",
        switches: Switches { skewed_clocks: true, pattern: Some(Pattern::SkewedClocks), ..OFF },
        found_as: &["conservation", "overshoot"],
    },
    KnownFailure {
        name: "foreign-secret",
        about: "A node with another secret sends the first heartbeat to a store that lost its data, and locks the fleet out.",
        switches: Switches { foreign_node: true, data_loss: true, ..OFF },
        found_as: &["liveness"],
    },
    KnownFailure {
        name: "reservation-expired-under-pause",
        about: "A node stands still after it held some of two keys: the hold expires, and the request is admitted all the same.",
        switches: Switches { pauses_of_reservations: true, pattern: Some(Pattern::HeldPause), ..OFF },
        found_as: &["overshoot"],
    },
    KnownFailure {
        name: "lease-strands-long-window",
        about: "A burst makes a node draw a large part of a long window ahead; the rest stays on that node.",
        switches: Switches { hot_long_windows: true, pattern: Some(Pattern::LeaseBurst), ..OFF },
        found_as: &["stranded"],
    },
    KnownFailure {
        name: "lease-starves-small-limit",
        about: "Leases of a hot key whose limit is small leave nothing for the other nodes for longer than the docs say.",
        switches: Switches { hot_small_limits: true, ..OFF },
        found_as: &["a denial that is wrong", "a cold node"],
    },
    KnownFailure {
        name: "wait-too-short-after-overshoot",
        about: "A node doesn't know what the others admitted beyond the limit, and tells a denied caller to wait too short.",
        switches: Switches { overshot_waits: true, ..OFF },
        found_as: &["a denial that is wrong"],
    },
    KnownFailure {
        name: "floor-growth-lost",
        about: "What only the survivors remember of a node is merged by maximum: concurrent growth of the survivors overwrites it.",
        switches: Switches { pattern: Some(Pattern::FloorGrowth), ..OFF },
        found_as: &["overshoot"],
    },
    KnownFailure {
        name: "reset-missed-after-pause",
        about: "A node that stands still for longer than a reset is announced never learns of it, and denies until the window ends.",
        switches: Switches { resets: true, pattern: Some(Pattern::MissedReset), ..OFF },
        found_as: &["a denial that is wrong"],
    },
    KnownFailure {
        name: "free-nodes-started-in-outage",
        about: "Nodes that start while the store is away assume that they are alone: each admits the whole share of `free` limits.",
        switches: Switches { free_in_outage: true, pattern: Some(Pattern::FreeOutage), ..OFF },
        found_as: &["unverified"],
    },
    KnownFailure {
        name: "world-rows-lost",
        about: "The world database loses rows: nothing is published again.",
        switches: Switches { world_data_loss: true, ..OFF },
        found_as: &["conservation", "overshoot"],
    },
    KnownFailure {
        name: "region-renamed",
        about: "A region that is renamed on the same store counts itself twice.",
        switches: Switches { region_rename: true, ..OFF },
        found_as: &["a denial", "INV-3", "conservation"],
    },
    KnownFailure {
        name: "post-paid-across-regions",
        about: "Post-paid counts above 16 limits are ignored in the other regions.",
        switches: Switches { overdrawn_reports: true, ..OFF },
        found_as: &["conservation", "overshoot"],
    },
    KnownFailure {
        name: "quota-changed-under-slices",
        about: "A limit changes while slices are out: scaled and rounded up, they sum to more than the new limit.",
        switches: Switches { changed_quotas: true, ..OFF },
        found_as: &["INV-6"],
    },
    KnownFailure {
        name: "slices-restored",
        about: "A restored world database brings back slices that were lowered since.",
        switches: Switches { restored_slices: true, ..OFF },
        found_as: &["INV-6"],
    },
];
