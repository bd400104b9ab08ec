//! What a run sends: which request, to which node, and when.
//!
//! All of it is decided before the run starts, so that a slow answer never holds back what comes after it.

use crate::load::secret::secret;
use crate::samples::Kind;
use std::time::Duration;
use tidegate_core::identity::Shape;
use tidegate_core::{KeyId, KeyPrefix, Nanos, Period};

const NAMESPACE: &str = "bars";

/// A limit as requests give it.
#[derive(Clone, Debug)]
pub(crate) struct Limit {
    pub(crate) identifier: String,
    amount: Amount,
    class: &'static str,
    accuracy: &'static str,
    cost: u64,
}

/// How much a limit allows.
#[derive(Clone, Copy, Debug)]
enum Amount {
    Window { number: u64, period: Duration },
    Rate { per_second: u32, burst: u32 },
}

impl Limit {
    /// Of a sliding window.
    pub(crate) fn new(identifier: impl Into<String>, number: u64, period: Duration) -> Self {
        Limit::of(identifier.into(), Amount::Window { number, period })
    }

    pub(crate) fn rate(identifier: impl Into<String>, per_second: u32, burst: u32) -> Self {
        Limit::of(identifier.into(), Amount::Rate { per_second, burst })
    }

    fn of(identifier: String, amount: Amount) -> Self {
        Limit { identifier, amount, class: "paid", accuracy: "bounded", cost: 1 }
    }

    pub(crate) fn class(self, class: &'static str) -> Self {
        Limit { class, ..self }
    }

    pub(crate) fn exact(self) -> Self {
        Limit { accuracy: "exact", ..self }
    }

    /// What a request about it costs; 0 looks without touching.
    pub(crate) fn cost(self, cost: u64) -> Self {
        Limit { cost, ..self }
    }

    /// What its counts are known by in every store of a measured fleet.
    pub(crate) fn key(&self) -> KeyId {
        let shape = match self.amount {
            Amount::Window { period, .. } => {
                let nanos = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX);
                Shape::Sliding(Period::nearest(Nanos::new(nanos)))
            }
            Amount::Rate { .. } => Shape::Gcra,
        };
        KeyPrefix::new(&secret(), "default", NAMESPACE, "", shape).key(&self.identifier)
    }

    /// The whole HTTP request.
    pub(crate) fn request(&self) -> Vec<u8> {
        let Limit { identifier, class, accuracy, cost, .. } = self;
        let amount = match self.amount {
            Amount::Window { number, period } => {
                format!("\"limit\":{number},\"duration_ms\":{}", period.as_millis())
            }
            Amount::Rate { per_second, burst } => {
                format!("\"rate_per_s\":{per_second},\"burst\":{burst}")
            }
        };
        let body = format!(
            "{{\"namespace\":\"{NAMESPACE}\",\"identifier\":\"{identifier}\",{amount},\
             \"class\":\"{class}\",\"accuracy\":\"{accuracy}\",\"cost\":{cost}}}"
        );
        let length = body.len();
        format!("POST /v1/limit HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n{body}")
            .into_bytes()
    }
}

/// One request to be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shot {
    pub(crate) at: Duration,
    pub(crate) node: usize,
    pub(crate) kind: Kind,
    /// Among the plan's requests.
    pub(crate) request: usize,
}

#[derive(Clone, Default, Debug)]
pub(crate) struct Plan {
    pub(crate) requests: Vec<Vec<u8>>,
    /// By time.
    pub(crate) shots: Vec<Shot>,
}

/// Requests at an even pace.
#[derive(Clone, Debug)]
pub(crate) struct Stream<'a> {
    pub(crate) kind: Kind,
    pub(crate) from: Duration,
    pub(crate) count: usize,
    pub(crate) per_second: f64,
    pub(crate) nodes: Nodes<'a>,
    /// Sent to each of the nodes in turn, then the next one.
    pub(crate) limits: &'a [Limit],
}

/// Where the requests of a stream go.
#[derive(Clone, Debug)]
pub(crate) enum Nodes<'a> {
    InTurn(&'a [usize]),
    /// The same ones for the same seed.
    AtRandom(&'a [usize], u64),
}

impl Plan {
    pub(crate) fn add(&mut self, stream: &Stream<'_>) {
        let first = self.requests.len();
        self.requests.extend(stream.limits.iter().map(Limit::request));
        let mut random = Random(match stream.nodes {
            Nodes::InTurn(_) => 1,
            Nodes::AtRandom(_, seed) => seed,
        });
        for (number, due) in (0..stream.count).zip(0_u32..) {
            let (node, turn) = match stream.nodes {
                Nodes::InTurn(nodes) => (nodes[number % nodes.len()], number / nodes.len()),
                Nodes::AtRandom(nodes, _) => (nodes[random.below(nodes.len())], number),
            };
            let at = stream.from + Duration::from_secs_f64(f64::from(due) / stream.per_second);
            let request = first + turn % stream.limits.len();
            self.shots.push(Shot { at, node, kind: stream.kind, request });
        }
        self.shots.sort_by_key(|shot| shot.at);
    }

    /// Requests that come together leave in one write: times are rounded down to a multiple of `tick`.
    pub(crate) fn ticked(mut self, tick: Duration) -> Self {
        for shot in &mut self.shots {
            let into_tick = shot.at.as_nanos() % tick.as_nanos();
            shot.at -= Duration::from_nanos(u64::try_from(into_tick).unwrap_or(0));
        }
        self
    }
}

/// SplitMix64: small, and the same everywhere.
#[derive(Clone, Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % u64::try_from(bound).unwrap_or(1)).unwrap_or(0)
    }
}
