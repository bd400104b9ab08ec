//! What a scenario file says. Every number has its range, which is checked where it is read.

use super::figures::Figure;
use serde::{Deserialize, Deserializer, de::Error as _};
use tidegate_core::{Accuracy, Class, Nanos};
use tidegate_node::GivenPolicy;
use toml::Spanned;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// One line.
    pub title: String,
    /// Where the numbers come from, and what is to be seen.
    pub about: String,
    /// Rates, limits and keys are this many times smaller than those that are told.
    #[serde(default = "one", deserialize_with = "within::<1, 1_000_000, _>")]
    pub scale: u64,
    #[serde(deserialize_with = "within::<1, 3_600, _>")]
    pub seconds: u64,
    #[serde(default = "one")]
    pub seed: u64,
    pub fleet: Fleet,
    pub beside: Beside,
    /// Whether every step is compared with the truth: for fleets that are small enough.
    #[serde(default = "yes")]
    pub audit: bool,
    #[serde(default)]
    pub keys: Vec<Spanned<Keys>>,
    #[serde(default)]
    pub load: Vec<Spanned<LoadPlan>>,
    #[serde(default)]
    pub fault: Vec<Spanned<PlannedFault>>,
    #[serde(default)]
    pub change: Vec<Spanned<PlannedChange>>,
    #[serde(default)]
    pub join: Vec<Spanned<Join>>,
    #[serde(default)]
    pub expect: Vec<Spanned<Expect>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fleet {
    #[serde(deserialize_with = "within::<1, 50, _>")]
    pub regions: u64,
    /// In all regions together.
    #[serde(deserialize_with = "within::<1, 5_000, _>")]
    pub nodes: u64,
    /// Servers of each region's store.
    #[serde(default = "one", deserialize_with = "within::<1, 1_000, _>")]
    pub shards: u64,
    /// How far regions are from the world store, there and back; in turn.
    #[serde(default = "near_and_far")]
    pub away_ms: Vec<u64>,
    #[serde(default)]
    pub policy: PolicyName,
    /// In each region, between its nodes and the control plane. 0: nodes follow the control plane.
    #[serde(default = "two", deserialize_with = "within::<0, 10, _>")]
    pub brokers: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PolicyName {
    #[default]
    Headroom,
    Floor,
}

/// A simpler limiter that is run on the same requests, for comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Beside {
    /// Count sharing with a 50 % floor: a process counts on top of `max(local, Redis)`, and a region publishes a count
    /// every 5 s from half of its limit on. Windows only.
    Layered,
    /// One Redis call per request, for a region's slice of each limit; slices are divided anew every 5 s. Rates only.
    Quotas,
}

impl Beside {
    /// Returns what the comparison is, in a few words.
    pub fn name(self) -> &'static str {
        match self {
            Beside::Layered => "count sharing with a 50 % floor",
            Beside::Quotas => "one Redis call per request",
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Keys {
    pub name: String,
    #[serde(deserialize_with = "within::<1, 2_000_000, _>")]
    pub count: u64,
    /// `limit` and `period_s`, or `rate` and `burst`.
    #[serde(default, deserialize_with = "maybe_within::<1, 1_000_000_000, _>")]
    pub limit: Option<u64>,
    #[serde(default, deserialize_with = "maybe_within::<1, 86_400, _>")]
    pub period_s: Option<u64>,
    #[serde(default, deserialize_with = "maybe_within::<1, 100_000_000, _>")]
    pub rate: Option<u64>,
    #[serde(default, deserialize_with = "maybe_within::<1, 100_000_000, _>")]
    pub burst: Option<u64>,
    #[serde(default)]
    pub class: ClassName,
    #[serde(default)]
    pub accuracy: AccuracyName,
    /// When it begins to come very often: it is known some time later.
    #[serde(default, deserialize_with = "maybe_seconds")]
    pub hot_at_s: Option<f64>,
}

/// `None` when it is neither a window nor a rate, or both.
fn policy_of(
    limit: Option<u64>,
    period_s: Option<u64>,
    rate: Option<u64>,
    burst: Option<u64>,
) -> Option<GivenPolicy> {
    match (limit, period_s, rate, burst) {
        (Some(limit), Some(period_s), None, None) => Some(crate::scenario::sliding(limit, period_s)),
        (None, None, Some(rate), burst) => Some(crate::scenario::gcra(rate, burst.unwrap_or(rate))),
        _ => None,
    }
}

impl Keys {
    pub fn policy(&self) -> Option<GivenPolicy> {
        policy_of(self.limit, self.period_s, self.rate, self.burst)
    }
}

impl PlannedChange {
    pub fn policy(&self) -> Option<GivenPolicy> {
        policy_of(self.limit, self.period_s, self.rate, self.burst)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClassName {
    #[default]
    Paid,
    Free,
    Abuse,
}

impl ClassName {
    pub fn class(self) -> Class {
        match self {
            ClassName::Paid => Class::Paid,
            ClassName::Free => Class::Free,
            ClassName::Abuse => Class::Abuse,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AccuracyName {
    Fast,
    #[default]
    Bounded,
    Exact,
    Async,
}

impl AccuracyName {
    pub fn accuracy(self) -> Accuracy {
        match self {
            AccuracyName::Fast => Accuracy::Fast,
            AccuracyName::Bounded => Accuracy::Bounded,
            AccuracyName::Exact => Accuracy::Exact,
            AccuracyName::Async => Accuracy::Async,
        }
    }
}

/// Requests that each name one key of every group of `keys`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadPlan {
    pub keys: Vec<String>,
    /// Over all regions.
    #[serde(deserialize_with = "within::<1, 10_000_000, _>")]
    pub per_second: u64,
    #[serde(default, deserialize_with = "maybe_seconds")]
    pub from_s: Option<f64>,
    #[serde(default, deserialize_with = "maybe_seconds")]
    pub until_s: Option<f64>,
    /// All that are there, unless some are named.
    #[serde(default)]
    pub regions: Option<Vec<u64>>,
    /// How uneven keys are: 0 all alike, 1 as words in a text.
    #[serde(default, deserialize_with = "exponent")]
    pub zipf: f64,
    /// The share of keys whose requests come to all regions; the others' come to one.
    #[serde(default = "everybody", deserialize_with = "share")]
    pub travelling: f64,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedFault {
    pub kind: FaultName,
    /// Of no meaning for the world store.
    #[serde(default)]
    pub region: u64,
    #[serde(default)]
    pub shard: u64,
    #[serde(deserialize_with = "seconds")]
    pub at_s: f64,
    #[serde(default, deserialize_with = "maybe_seconds")]
    pub lasts_s: Option<f64>,
    /// How far a replica is behind.
    #[serde(default, deserialize_with = "within::<0, 10_000, _>")]
    pub behind_ms: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultName {
    /// One server of a region's store is gone, and then its replica takes its place.
    ShardFailsOver,
    /// All of a region's store is gone, and comes back with what it had.
    StoreDown,
    StoreForgets,
    /// The world store is gone.
    WorldDown,
    /// All brokers of a region are gone: its nodes hear of no change.
    BrokersDown,
    /// The control plane is gone: nothing can be changed.
    ControlDown,
}

/// Another limit for a group of keys.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedChange {
    pub keys: String,
    #[serde(default, deserialize_with = "maybe_within::<1, 1_000_000_000, _>")]
    pub limit: Option<u64>,
    #[serde(default, deserialize_with = "maybe_within::<1, 86_400, _>")]
    pub period_s: Option<u64>,
    #[serde(default, deserialize_with = "maybe_within::<1, 100_000_000, _>")]
    pub rate: Option<u64>,
    #[serde(default, deserialize_with = "maybe_within::<1, 100_000_000, _>")]
    pub burst: Option<u64>,
    #[serde(deserialize_with = "seconds")]
    pub at_s: f64,
    /// The last node hears of it so much later, whatever happens to brokers; else as they and the network allow.
    #[serde(default, deserialize_with = "maybe_within::<0, 60_000, _>")]
    pub within_ms: Option<u64>,
}

/// A region that isn't there from the beginning.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Join {
    pub region: u64,
    #[serde(deserialize_with = "seconds")]
    pub at_s: f64,
}

/// What a figure should be, over some stretch of time.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    pub figure: Figure,
    #[serde(default, deserialize_with = "maybe_seconds")]
    pub from_s: Option<f64>,
    #[serde(default, deserialize_with = "maybe_seconds")]
    pub until_s: Option<f64>,
    #[serde(default)]
    pub least: Option<f64>,
    #[serde(default)]
    pub most: Option<f64>,
}

impl Plan {
    pub(crate) fn region_count(&self) -> usize {
        usize::try_from(self.fleet.regions).unwrap_or(1)
    }

    /// Room for every key on every node; where there are far more than a node is asked about in the whole run, for
    /// four times as many as that. A table is made for its cap: a sweep and a flush look into each of its parts.
    pub(crate) fn room_of(&self, region: usize, keys: usize) -> usize {
        let all = 4 * keys.max(1024);
        if self.audit {
            return all;
        }
        let asked = |load: &LoadPlan| load.per_second.saturating_mul(load.keys.len() as u64);
        let a_second: u64 = self.load.iter().map(|load| asked(load.get_ref())).sum();
        let nodes = (self.region_count() * self.nodes_of(region)).max(1) as u64;
        let of_node = a_second.saturating_mul(self.seconds) / nodes;
        all.min(4 * usize::try_from(of_node).unwrap_or(usize::MAX / 4).max(1024))
    }

    /// Nodes of each region: as even as can be.
    pub(crate) fn nodes_of(&self, region: usize) -> usize {
        let (nodes, regions) = (self.fleet.nodes, self.fleet.regions);
        let more = u64::from(u64::try_from(region).is_ok_and(|region| region < nodes % regions));
        usize::try_from(nodes / regions + more).unwrap_or(1)
    }

    /// When each region is there, if not from the beginning on.
    pub(crate) fn joins_at(&self, region: usize) -> Option<Nanos> {
        let is_it = |join: &&Spanned<Join>| u64::try_from(region) == Ok(join.get_ref().region);
        self.join.iter().find(is_it).map(|join| instant(join.get_ref().at_s))
    }
}

/// So long after the traffic began.
pub(crate) fn instant(seconds: f64) -> Nanos {
    crate::START.plus(length(seconds))
}

pub(crate) fn length(seconds: f64) -> Nanos {
    let length = std::time::Duration::try_from_secs_f64(seconds).unwrap_or_default();
    Nanos::new(u64::try_from(length.as_nanos()).unwrap_or(0))
}

fn one() -> u64 {
    1
}

fn yes() -> bool {
    true
}

fn everybody() -> f64 {
    1.0
}

fn two() -> u64 {
    2
}

fn near_and_far() -> Vec<u64> {
    vec![60, 150]
}

fn within<'de, const LEAST: u64, const MOST: u64, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let given = i64::deserialize(from)?;
    match u64::try_from(given) {
        Ok(number) if (LEAST..=MOST).contains(&number) => Ok(number),
        _ => Err(D::Error::custom(format!("{given} is out of range; give it from {LEAST} to {MOST}"))),
    }
}

fn maybe_within<'de, const LEAST: u64, const MOST: u64, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<u64>, D::Error> {
    within::<LEAST, MOST, D>(from).map(Some)
}

fn number_up_to<'de, D: Deserializer<'de>>(from: D, most: f64) -> Result<f64, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Number {
        Whole(i64),
        Broken(f64),
    }
    let given = match Number::deserialize(from)? {
        Number::Whole(whole) => whole as f64,
        Number::Broken(broken) => broken,
    };
    if (0.0..=most).contains(&given) {
        return Ok(given);
    }
    Err(D::Error::custom(format!("{given} is out of range; give it from 0 to {most}")))
}

fn seconds<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    number_up_to(from, 3_600.0)
}

fn maybe_seconds<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    seconds(from).map(Some)
}

fn exponent<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    number_up_to(from, 3.0)
}

fn share<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    number_up_to(from, 1.0)
}
