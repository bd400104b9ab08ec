//! What a run is made of: nodes, keys, requests, faults, and how bad the network is.
//!
//! Plain data, complete before the run begins: the same scenario and seed give the same run.

use crate::fault::Fault;
use crate::network::NetworkOptions;
use crate::random::Random;
use crate::{BOOTED_BEFORE, START};
use smallvec::SmallVec;
use tidegate_control::Flaw;
use tidegate_core::identity::Shape;
use tidegate_core::{
    Accuracy, Burst, Class, Cost, FleetSecret, KeyId, KeyPrefix, Limit, Nanos, Period, Rate, Sequence, Spec,
    is_leasable,
};
use tidegate_node::world::is_counted;
use tidegate_node::{GivenLimit, GivenPolicy};
use tidegate_world::Policy;

pub(crate) const SECRET: FleetSecret = FleetSecret::BUILT_IN;
pub(crate) const TENANT: &str = "default";
const NAMESPACE: &str = "simulated";

/// One key that all nodes share, with the rule that limits it.
#[derive(Clone, Debug)]
pub struct KeyPlan {
    pub identifier: String,
    pub policy: GivenPolicy,
    pub class: Class,
    pub accuracy: Accuracy,
    /// It is hot in the region from the beginning.
    pub is_hot: bool,
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
        }
    }

    /// The same of a key that is hot.
    #[must_use]
    pub fn hot(self) -> Self {
        KeyPlan { is_hot: true, ..self }
    }

    /// Whether its nodes hold leases, and spend nothing else.
    pub(crate) fn is_leased(&self) -> bool {
        self.is_hot && self.accuracy != Accuracy::Async && is_leasable(&self.spec())
    }

    pub fn id(&self) -> KeyId {
        let shape = match self.policy {
            GivenPolicy::Sliding { period, .. } => Shape::Sliding(period),
            GivenPolicy::Fixed { period, .. } => Shape::Fixed(period),
            GivenPolicy::Gcra { .. } => Shape::Gcra,
        };
        KeyPrefix::new(&SECRET, TENANT, NAMESPACE, "", shape).key(&self.identifier)
    }

    /// Whether regions share it by quotas, where there are other regions.
    pub(crate) fn is_quota(&self) -> bool {
        !is_counted(&self.spec())
    }

    pub(crate) fn spec(&self) -> Spec {
        match self.policy {
            GivenPolicy::Sliding { limit, period } => Spec::Sliding { limit, period },
            GivenPolicy::Fixed { limit, period } => Spec::Fixed { limit, period },
            GivenPolicy::Gcra { rate, burst } => Spec::Gcra { rate, burst },
        }
    }

    /// The cell that an instant is in; a bucket has none.
    pub(crate) fn sequence_at(&self, instant: Nanos) -> Option<Sequence> {
        match self.policy {
            GivenPolicy::Sliding { period, .. } | GivenPolicy::Fixed { period, .. } => {
                Some(period.cell_at(instant).sequence)
            }
            GivenPolicy::Gcra { .. } => None,
        }
    }

    /// What is admitted at once.
    pub fn size(&self) -> u64 {
        match self.policy {
            GivenPolicy::Sliding { limit, .. } | GivenPolicy::Fixed { limit, .. } => limit.get(),
            GivenPolicy::Gcra { burst, .. } => burst.get(),
        }
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

pub fn sliding(limit: u64, period_s: u64) -> GivenPolicy {
    GivenPolicy::Sliding { limit: limit_of(limit), period: period_of(period_s) }
}

pub fn fixed(limit: u64, period_s: u64) -> GivenPolicy {
    GivenPolicy::Fixed { limit: limit_of(limit), period: period_of(period_s) }
}

pub fn gcra(per_second: u64, burst: u64) -> GivenPolicy {
    GivenPolicy::Gcra {
        rate: Rate::new(per_second, Nanos::from_secs(1)).expect("a rate within its range"),
        burst: Burst::new(burst).expect("a burst within its range"),
    }
}

fn limit_of(limit: u64) -> Limit {
    Limit::new(limit).expect("a limit within its range")
}

fn period_of(period_s: u64) -> Period {
    Period::new(Nanos::from_secs(period_s)).expect("a period within its range")
}

/// One limit of a request: which key, and what it costs.
#[derive(Clone, Copy, Debug)]
pub struct LimitUse {
    pub key: usize,
    pub cost: u64,
}

/// A request that comes again and again.
#[derive(Clone, Debug)]
pub struct Template {
    pub limits: SmallVec<[LimitUse; 5]>,
    /// It has passed already: charged whatever the limits say.
    pub is_report: bool,
}

impl Template {
    /// A request of one limit and a cost of 1.
    pub fn of_key(key: usize) -> Self {
        Template { limits: smallvec::smallvec![LimitUse { key, cost: 1 }], is_report: false }
    }
}

/// A request comes to a node.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    pub at: Nanos,
    pub node: usize,
    /// Index of its template.
    pub template: usize,
}

/// Another limit for some keys, which each node hears of at its own time.
#[derive(Clone, Debug)]
pub struct Change {
    pub keys: std::ops::Range<usize>,
    pub policy: GivenPolicy,
    /// For each node.
    pub heard_at: Vec<Nanos>,
}

/// Whether every step is compared with the truth. A fleet of hundreds of nodes is only counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Audit {
    EveryStep,
    CountsOnly,
}

/// A mistake that nodes make on purpose: a test that doesn't find it is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeFlaw {
    /// Nobody asks because of its credit.
    LosesCreditCheck,
}

/// How a region takes part in the world.
#[derive(Clone, Debug)]
pub struct Place {
    pub region: String,
    pub policy: Policy,
}

#[derive(Clone, Debug)]
pub struct Scenario {
    pub seed: u64,
    pub nodes: usize,
    pub keys: Vec<KeyPlan>,
    pub templates: Vec<Template>,
    /// In the order of time.
    pub arrivals: Vec<Arrival>,
    pub faults: Vec<(Nanos, Fault)>,
    pub network: NetworkOptions,
    /// How far each node's clock is from the truth; those not given are right.
    pub clock_offsets_ns: Vec<i64>,
    /// By how many millionths each node's clock is fast; those not given are right.
    pub clock_drifts_ppm: Vec<i64>,
    /// How far the origin's clock is.
    pub origin_offset_ns: i64,
    /// A mistake that its reconciler makes on purpose.
    pub flaw: Flaw,
    pub node_flaw: Option<NodeFlaw>,
    /// In the order of time.
    pub changes: Vec<Change>,
    pub audit: Audit,
    /// Its place among other regions, when it isn't alone.
    pub world: Option<Place>,
    pub boots_at: Nanos,
    pub ends_at: Nanos,
    /// The cap of each node's table.
    pub keys_max: usize,
    /// Into how many servers the store's keys seem to be spread.
    pub shards: u32,
    /// A request that was answered goes on within this.
    pub wakes_within: Nanos,
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
            keys,
            templates,
            arrivals: Vec::new(),
            faults: Vec::new(),
            network: NetworkOptions::LOOPBACK,
            clock_offsets_ns: Vec::new(),
            clock_drifts_ppm: Vec::new(),
            origin_offset_ns: 0,
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
