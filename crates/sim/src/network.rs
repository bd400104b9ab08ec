//! What becomes of a message between a node and the origin: when it arrives, how often, or never.
//!
//! Messages don't wait for each other, so whatever takes longer is overtaken.

use crate::file::{is_default, length};
use crate::fired::{FaultKind, Fired};
use crate::random::Random;
use serde::{Deserialize, Serialize};
use tidegate_core::Nanos;

/// How likely something is: so many times in 10,000.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Odds(pub u64);

impl Odds {
    pub const NEVER: Odds = Odds(0);
    pub const ALWAYS: Odds = Odds(10_000);

    fn happens(self, random: &mut Random) -> bool {
        self.0 > 0 && random.below(10_000) < self.0
    }
}

/// How long a message takes one way: evenly between two bounds, and now and then up to a third.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    #[serde(rename = "least_ms", with = "length")]
    pub least: Nanos,
    #[serde(rename = "most_ms", with = "length")]
    pub most: Nanos,
    #[serde(default, skip_serializing_if = "is_default")]
    pub spikes: Odds,
    #[serde(rename = "spike_ms", with = "length", default, skip_serializing_if = "is_default")]
    pub spike: Nanos,
}

impl Latency {
    /// A store on the same machine: 0.1 to 0.5 ms for the round trip.
    pub const LOOPBACK: Latency = Latency {
        least: Nanos::new(50_000),
        most: Nanos::new(250_000),
        spikes: Odds::NEVER,
        spike: Nanos::ZERO,
    };

    fn draw(&self, random: &mut Random) -> Nanos {
        let length = random.nanos_between(self.least, self.most);
        if self.spikes.happens(random) {
            return random.nanos_between(length, self.spike.max(length));
        }
        length
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NetworkOptions {
    #[serde(skip_serializing_if = "is_default")]
    pub latency: Latency,
    /// Towards the origin: what was sent never gets there.
    #[serde(skip_serializing_if = "is_default")]
    pub lost_out: Odds,
    /// Back: what was written is there, and the node never hears of it.
    #[serde(skip_serializing_if = "is_default")]
    pub lost_back: Odds,
    /// Towards the origin: it is executed twice.
    #[serde(skip_serializing_if = "is_default")]
    pub doubled: Odds,
}

impl NetworkOptions {
    pub const LOOPBACK: NetworkOptions = NetworkOptions {
        latency: Latency::LOOPBACK,
        lost_out: Odds::NEVER,
        lost_back: Odds::NEVER,
        doubled: Odds::NEVER,
    };
}

impl Default for Latency {
    fn default() -> Self {
        Latency::LOOPBACK
    }
}

impl Default for NetworkOptions {
    fn default() -> Self {
        NetworkOptions::LOOPBACK
    }
}

/// Which way a message goes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    Out,
    Back,
}

#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) options: NetworkOptions,
    /// For each node, whether its messages are cut off, out and back.
    cut: Vec<[bool; 2]>,
    random: Random,
    /// When the last of each node's messages arrives.
    latest: Vec<Nanos>,
    pub(crate) fired: Fired,
}

/// How long a message takes, and how long its double does, if it has one.
pub(crate) type Arrivals = [Option<Nanos>; 2];

impl Network {
    pub(crate) fn new(options: NetworkOptions, nodes: usize, random: Random) -> Self {
        Network {
            options,
            cut: vec![[false; 2]; nodes],
            random,
            latest: vec![Nanos::ZERO; nodes],
            fired: Fired::default(),
        }
    }

    pub(crate) fn add_node(&mut self) {
        self.cut.push([false; 2]);
        self.latest.push(Nanos::ZERO);
    }

    pub(crate) fn set_partitioned(&mut self, node: usize, way: Way, is_cut: bool) {
        self.cut[node][usize::from(way == Way::Back)] = is_cut;
    }

    /// Whether messages are lost either way.
    pub(crate) fn is_partitioned(&self, node: usize) -> bool {
        self.cut[node].contains(&true)
    }

    pub(crate) fn carry(&mut self, node: usize, way: Way, now: Nanos) -> Arrivals {
        let (lost, doubled) = match way {
            Way::Out => (self.options.lost_out, self.options.doubled),
            Way::Back => (self.options.lost_back, Odds::NEVER),
        };
        let first = self.options.latency.draw(&mut self.random);
        let is_cut = self.cut[node][usize::from(way == Way::Back)];
        let is_lost = lost.happens(&mut self.random) || is_cut;
        let is_doubled = doubled.happens(&mut self.random);
        let second = is_doubled.then(|| self.options.latency.draw(&mut self.random));
        let noted = [
            (is_lost && !is_cut, FaultKind::Lost),
            (is_cut, FaultKind::CutOff),
            (is_doubled && !is_lost, FaultKind::Doubled),
            (first > self.options.latency.most, FaultKind::Delayed),
            (now.plus(first) < self.latest[node], FaultKind::Overtaken),
        ];
        self.latest[node] = self.latest[node].max(now.plus(first));
        noted.iter().filter(|(happened, _)| *happened).for_each(|(_, kind)| self.fired.count(*kind));
        if is_lost { [None, None] } else { [Some(first), second] }
    }
}
