//! What a run is made of: nodes, keys, requests, faults, and how bad the network is.
//!
//! Plain data, complete before the run begins: the same scenario and seed give the same run.

use crate::fault::Fault;
use crate::file::{
    AccuracyText, ClassText, FlawText, arrivals, instant, instants, is_default, length, limit_policy,
    limit_uses, offset, offsets, seed, timed, world_policy,
};
use crate::network::NetworkOptions;
use crate::random::Random;
use crate::ruled::{CalendarWindow, RULE, RULED};
use crate::world::scenario::HEADROOM;
use crate::{BOOTED_BEFORE, START};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use tidegate_control::Flaw;
use tidegate_core::gcra_sync::interval_times;
use tidegate_core::identity::Shape;
use tidegate_core::{
    Accuracy, Burst, Class, Cost, FleetSecret, KeyId, KeyPrefix, Limit, Nanos, Period, Rate, Sequence, Spec,
};
use tidegate_node::world::is_counted;
use tidegate_node::{GivenLimit, GivenPolicy};
use tidegate_world::PublishPolicy;

pub(crate) const SECRET: FleetSecret = FleetSecret::BUILT_IN;
pub(crate) const TENANT: &str = "default";
const NAMESPACE: &str = "simulated";

/// One key that all nodes share, with the rule that limits it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyPlan {
    pub identifier: String,
    #[serde(with = "limit_policy")]
    pub policy: GivenPolicy,
    #[serde(with = "ClassText", default, skip_serializing_if = "is_default")]
    pub class: Class,
    #[serde(with = "AccuracyText", default, skip_serializing_if = "is_default")]
    pub accuracy: Accuracy,
    /// It is hot in the region from the beginning.
    #[serde(default, skip_serializing_if = "is_default")]
    pub is_hot: bool,
    /// Its windows are those of a calendar, whatever the policy's period is.
    #[serde(default, skip_serializing_if = "is_default")]
    pub calendar: Option<CalendarWindow>,
    /// It is charged whatever its limit says.
    #[serde(default, skip_serializing_if = "is_default")]
    pub charges_always: bool,
}

impl KeyPlan {
    /// `bounded` and `paid`, as rules are by default.
    pub fn new(identifier: &str, policy: GivenPolicy) -> Self {
        KeyPlan {
            identifier: identifier.to_owned(),
            policy,
            class: Class::default(),
            accuracy: Accuracy::default(),
            is_hot: false,
            calendar: None,
            charges_always: false,
        }
    }

    /// Whether only a rule can limit it so. Requests name it alone.
    pub(crate) fn is_ruled(&self) -> bool {
        self.calendar.is_some() || self.charges_always
    }

    /// The same of a key that is hot.
    #[must_use]
    pub fn hot(self) -> Self {
        KeyPlan { is_hot: true, ..self }
    }

    pub fn id(&self) -> KeyId {
        let shape = match (self.policy, &self.calendar) {
            (GivenPolicy::Sliding { .. } | GivenPolicy::Fixed { .. }, Some(window)) => window.shape(),
            (GivenPolicy::Sliding { period, .. }, None) => Shape::Sliding(period),
            (GivenPolicy::Fixed { period, .. }, None) => Shape::Fixed(period),
            (GivenPolicy::Gcra { .. }, _) => Shape::Gcra,
        };
        let (namespace, rule) = if self.is_ruled() { (RULED, RULE) } else { (NAMESPACE, "") };
        KeyPrefix::new(&SECRET, TENANT, namespace, rule, shape).key(&self.identifier)
    }

    /// Whether regions share it by quotas, where there are other regions.
    pub(crate) fn is_quota(&self) -> bool {
        !is_counted(&self.spec_at(START))
    }

    pub(crate) fn spec_at(&self, instant: Nanos) -> Spec {
        match (self.policy, &self.calendar) {
            (GivenPolicy::Sliding { limit, .. } | GivenPolicy::Fixed { limit, .. }, Some(window)) => {
                Spec::Calendar { limit, unit: window.unit.of_calendar(), cell: window.cell_at(instant) }
            }
            (GivenPolicy::Sliding { limit, period }, None) => Spec::Sliding { limit, period },
            (GivenPolicy::Fixed { limit, period }, None) => Spec::Fixed { limit, period },
            (GivenPolicy::Gcra { rate, burst }, _) => Spec::Gcra { rate, burst },
        }
    }

    /// The cell that an instant is in; a bucket has none.
    pub(crate) fn sequence_at(&self, instant: Nanos) -> Option<Sequence> {
        match (self.policy, &self.calendar) {
            (GivenPolicy::Gcra { .. }, _) => None,
            (_, Some(window)) => Some(window.cell_at(instant).sequence),
            (GivenPolicy::Sliding { period, .. } | GivenPolicy::Fixed { period, .. }, None) => {
                Some(period.cell_at(instant).sequence)
            }
        }
    }

    /// Whether a unit that is held back is missed for long.
    pub(crate) fn period_is_long(&self) -> bool {
        match self.policy {
            GivenPolicy::Sliding { period, .. } | GivenPolicy::Fixed { period, .. } => {
                period.length() >= Nanos::from_secs(60)
            }
            GivenPolicy::Gcra { rate, burst } => interval_times(rate, burst.get()) >= LONG_REFILL,
        }
    }

    /// What is admitted at once.
    pub fn size(&self) -> u64 {
        size_of(&self.policy)
    }

    pub(crate) fn given(&self, cost: u64) -> GivenLimit<'_> {
        GivenLimit {
            namespace: NAMESPACE,
            identifier: &self.identifier,
            policy: self.policy,
            cost: Cost::new(cost).expect("scenarios use small costs"),
            class: self.class,
            accuracy: self.accuracy,
            scope: None,
        }
    }
}

/// A bucket that takes as long to fill is missed for long.
const LONG_REFILL: Nanos = Nanos::from_secs(10);

/// What a limit admits at once.
pub(crate) fn size_of(policy: &GivenPolicy) -> u64 {
    match policy {
        GivenPolicy::Sliding { limit, .. } | GivenPolicy::Fixed { limit, .. } => limit.get(),
        GivenPolicy::Gcra { burst, .. } => burst.get(),
    }
}

/// The same kind of limit, of another size.
pub(crate) fn policy_of_size(policy: &GivenPolicy, size: u64) -> GivenPolicy {
    match *policy {
        GivenPolicy::Sliding { period, .. } => GivenPolicy::Sliding { limit: limit_of(size), period },
        GivenPolicy::Fixed { period, .. } => GivenPolicy::Fixed { limit: limit_of(size), period },
        GivenPolicy::Gcra { rate, .. } => GivenPolicy::Gcra { rate, burst: burst_of(size) },
    }
}

pub fn sliding(limit: u64, period_s: u64) -> GivenPolicy {
    GivenPolicy::Sliding { limit: limit_of(limit), period: period_of(period_s) }
}

pub fn fixed(limit: u64, period_s: u64) -> GivenPolicy {
    GivenPolicy::Fixed { limit: limit_of(limit), period: period_of(period_s) }
}

pub fn gcra(per_second: u64, burst: u64) -> GivenPolicy {
    GivenPolicy::Gcra {
        rate: Rate::new(per_second, Nanos::from_secs(1)).expect("a rate within its range"),
        burst: burst_of(burst),
    }
}

pub(crate) fn burst_of(burst: u64) -> Burst {
    Burst::new(burst).expect("a burst within its range")
}

pub(crate) fn limit_of(limit: u64) -> Limit {
    Limit::new(limit).expect("a limit within its range")
}

fn period_of(period_s: u64) -> Period {
    Period::new(Nanos::from_secs(period_s)).expect("a period within its range")
}

/// One limit of a request: which key, and what it costs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitUse {
    pub key: usize,
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub cost: u64,
}

fn one() -> u64 {
    1
}

fn is_one(cost: &u64) -> bool {
    *cost == 1
}

/// A request that comes again and again.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Template {
    #[serde(with = "limit_uses")]
    pub limits: SmallVec<[LimitUse; 5]>,
    /// It has passed already: charged whatever the limits say.
    #[serde(default, skip_serializing_if = "is_default")]
    pub is_report: bool,
}

impl Template {
    /// A request of one limit and a cost of 1.
    pub fn of_key(key: usize) -> Self {
        Template { limits: smallvec::smallvec![LimitUse { key, cost: 1 }], is_report: false }
    }
}

/// A request comes to a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    pub at: Nanos,
    pub node: usize,
    /// Index of its template.
    pub template: usize,
}

/// Another limit for some keys, which each node receives at its own time.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitChange {
    pub keys: std::ops::Range<usize>,
    #[serde(with = "limit_policy")]
    pub policy: GivenPolicy,
    /// For each node.
    #[serde(rename = "heard_at_ms", with = "instants", default, skip_serializing_if = "is_default")]
    pub heard_at: Vec<Nanos>,
}

/// Whether every step is compared with the truth. A fleet of hundreds of nodes is only counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Audit {
    EveryStep,
    CountsOnly,
}

/// A mistake that nodes make on purpose: a test that doesn't find it is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeFlaw {
    /// Nobody asks because of its credit.
    LosesCreditCheck,
    /// A node that starts while the store is away takes itself for the only one.
    AssumesToBeAlone,
    /// A key that is leased keeps to the limit that it had when the lease was drawn.
    KeepsLeasedLimit,
    /// A lease is half of what is left, however long the window is.
    DrawsHalf,
    /// The store keeps the whole debt of a bucket whose burst was lowered.
    StoreKeepsDebts,
    /// Callers who are denied are told to wait half as long as they must.
    HalvesWaits,
    /// The store never shows that it lost data.
    NeverNoticesLoss,
    /// A publish says that the store has counted all of it before, so that the floor only takes the larger claim.
    MergesFloorByMax,
    /// What is answered in a newer epoch than it was asked in is as good as no answer.
    AsksInOldEpoch,
    /// A node that stood still for longer than 20 s skips what it would read of resets.
    MissesResets,
    /// Nodes don't remember that the store accepted or refused them.
    ForgetsAcceptance,
    /// A hold is relied on however late its request goes on.
    TrustsExpiredHolds,
    /// Nobody tells a store that lost data which resets were carried out.
    RepeatsOrders,
    /// Nodes go by their own wall clocks, and not by the time of the region's store.
    FollowsWallClock,
    /// Nodes send expiries that have passed: the store drops a cell as soon as it was counted in.
    SendsPastExpiries,
}

/// How a region takes part in the world.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegionShare {
    pub region: String,
    #[serde(with = "world_policy", default = "headroom", skip_serializing_if = "is_headroom")]
    pub policy: PublishPolicy,
}

fn headroom() -> PublishPolicy {
    HEADROOM
}

fn is_headroom(policy: &PublishPolicy) -> bool {
    *policy == HEADROOM
}

/// A field that is new has its default in [`Scenario::calm`]: files that don't name it mean that.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Scenario {
    #[serde(with = "seed")]
    pub seed: u64,
    pub nodes: usize,
    /// Nodes that aren't there at the beginning: [`Fault::Start`] lets them join.
    pub absent: Vec<usize>,
    pub keys: Vec<KeyPlan>,
    pub templates: Vec<Template>,
    /// In the order of time.
    #[serde(with = "arrivals")]
    pub arrivals: Vec<Arrival>,
    #[serde(with = "timed")]
    pub faults: Vec<(Nanos, Fault)>,
    pub network: NetworkOptions,
    /// How far each node's clock is from the truth; those not given are right.
    #[serde(rename = "clock_offsets_ms", with = "offsets")]
    pub clock_offsets_ns: Vec<i64>,
    /// By how many millionths each node's clock is fast; those not given are right.
    pub clock_drifts_ppm: Vec<i64>,
    /// How far the origin's clock is.
    #[serde(rename = "origin_offset_ms", with = "offset")]
    pub origin_offset_ns: i64,
    /// What `free` limits admit on nodes that never reached their store is judged.
    pub judges_free: bool,
    /// How long a denied caller is told to wait is judged also where more than the limit was admitted.
    pub judges_overshot: bool,
    /// A mistake that its reconciler makes on purpose.
    #[serde(with = "FlawText")]
    pub flaw: Flaw,
    pub node_flaw: Option<NodeFlaw>,
    /// In the order of time.
    pub changes: Vec<LimitChange>,
    pub audit: Audit,
    /// Its place among other regions, when it isn't alone.
    pub world: Option<RegionShare>,
    #[serde(rename = "boots_at_ms", with = "instant")]
    pub boots_at: Nanos,
    #[serde(rename = "ends_at_ms", with = "instant")]
    pub ends_at: Nanos,
    /// The cap of each node's table.
    pub keys_max: usize,
    /// Into how many servers the store's keys seem to be spread.
    pub shards: u32,
    /// A request that was answered goes on within this.
    #[serde(rename = "wakes_within_ms", with = "length")]
    pub wakes_within: Nanos,
}

impl Default for Scenario {
    fn default() -> Self {
        Scenario::calm(0, 1, Vec::new())
    }
}

impl Scenario {
    /// The keys that are hot in the region.
    pub(crate) fn hot_keys(&self) -> Vec<KeyId> {
        self.keys.iter().filter(|key| key.is_hot).map(KeyPlan::id).collect()
    }

    /// Healthy nodes with right clocks beside a healthy store, and nothing to do.
    pub fn calm(seed: u64, nodes: usize, keys: Vec<KeyPlan>) -> Self {
        let templates = (0..keys.len()).map(Template::of_key).collect();
        Scenario {
            seed,
            nodes,
            absent: Vec::new(),
            keys,
            templates,
            arrivals: Vec::new(),
            faults: Vec::new(),
            network: NetworkOptions::LOOPBACK,
            clock_offsets_ns: Vec::new(),
            clock_drifts_ppm: Vec::new(),
            origin_offset_ns: 0,
            judges_free: false,
            judges_overshot: false,
            flaw: Flaw::None,
            node_flaw: None,
            changes: Vec::new(),
            audit: Audit::EveryStep,
            world: None,
            boots_at: START.minus(BOOTED_BEFORE),
            ends_at: START,
            keys_max: 4096,
            shards: 1,
            wakes_within: Nanos::ZERO,
        }
    }

    /// Sends these requests, and ends half a second after the last of them.
    #[must_use]
    pub fn with_arrivals(mut self, arrivals: Vec<Arrival>) -> Self {
        self.arrivals = arrivals;
        let last = self.arrivals.last().map_or(self.boots_at, |arrival| arrival.at);
        self.ends_at = self.ends_at.max(last.plus(Nanos::from_millis(500)));
        self
    }

    /// What the requests themselves are drawn with, apart from the run's own luck.
    pub fn random_of(seed: u64) -> Random {
        Random::new(seed.wrapping_mul(0x2545_f491_4f6c_dd1d))
    }
}
