//! What the load is about: callers of rules of every kind, and keys whose every count is followed.
//!
//! Most are asked for more than their limit, so that every bound is reached. A *ledger* key never is: each cycle has
//! its own, everything that is sent about it is admitted, and in the end all stores and nodes have to know how much.

use crate::load::secret::secret;
use crate::plan::Limit;
use serde_json::json;
use std::time::Duration;
use tidegate_core::identity::Shape;
use tidegate_core::{KeyPrefix, Nanos, Period};

pub(crate) const NAMESPACE: &str = "soak";
const CELL: Duration = Duration::from_secs(10);
pub(crate) const WORLD_CELL: Duration = Duration::from_secs(60);
/// Longer than a run: its counts are in one cell, or two.
const LEDGER_CELL: Duration = Duration::from_secs(30 * 86400);
/// Shorter than the large skew of a clock.
const SKEW_CELL: Duration = Duration::from_secs(20);
pub(crate) const LEDGER_LIMIT: u64 = 4000;
pub(crate) const IDLE_LIMIT: u64 = 40;
/// Ledger keys of a cycle.
pub(crate) const LEDGERS: usize = 3;
/// What the rule of `Window` says, and what a push changes it to and back.
pub(crate) const WINDOW_LIMITS: [u64; 2] = [60, 48];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Family {
    Window,
    Exact,
    Abuse,
    Free,
    Rate,
    World,
    WorldAbuse,
    WorldRate,
    Ledger,
    /// Keys that are idle while something is wrong: `idle.rs`.
    Idle,
    /// Keys that two nodes are asked about while their clocks differ: `idle.rs`.
    Skew,
}

/// Every family but the ledger and those of `idle.rs`, with its number of callers and how many requests a second each gets, everywhere.
pub(crate) const FAMILIES: [(Family, usize, usize); 8] = [
    (Family::Window, 2, 30),
    (Family::Exact, 2, 30),
    (Family::Abuse, 1, 30),
    (Family::Free, 1, 30),
    (Family::Rate, 2, 30),
    (Family::World, 1, 30),
    (Family::WorldAbuse, 1, 30),
    (Family::WorldRate, 1, 30),
];
pub(crate) const LEDGER_PER_SECOND: usize = 30;

/// How much a family's limit allows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Allows {
    Window { limit: u64, period: Duration },
    Rate { per_second: u32, burst: u32 },
}

impl Family {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Family::Window => "window",
            Family::Exact => "exact",
            Family::Abuse => "abuse",
            Family::Free => "free",
            Family::Rate => "bucket",
            Family::World => "world",
            Family::WorldAbuse => "worldabuse",
            Family::WorldRate => "worldbucket",
            Family::Ledger => "ledger",
            Family::Idle => "idle",
            Family::Skew => "skew",
        }
    }

    pub(crate) fn allows(self) -> Allows {
        match self {
            Family::Window => Allows::Window { limit: WINDOW_LIMITS[0], period: CELL },
            Family::Exact | Family::Abuse | Family::Free => Allows::Window { limit: 60, period: CELL },
            Family::World | Family::WorldAbuse => Allows::Window { limit: 900, period: WORLD_CELL },
            Family::Ledger => Allows::Window { limit: LEDGER_LIMIT, period: LEDGER_CELL },
            Family::Idle => Allows::Window { limit: IDLE_LIMIT, period: LEDGER_CELL },
            Family::Skew => Allows::Window { limit: IDLE_LIMIT, period: SKEW_CELL },
            Family::Rate => Allows::Rate { per_second: 5, burst: 20 },
            Family::WorldRate => Allows::Rate { per_second: 15, burst: 30 },
        }
    }

    /// Counted over all regions.
    pub(crate) fn is_world(self) -> bool {
        matches!(self, Family::World | Family::WorldAbuse | Family::WorldRate | Family::Ledger)
    }

    fn shape(self) -> Shape<'static> {
        match self.allows() {
            Allows::Window { period, .. } => {
                let nanos = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX);
                Shape::Sliding(Period::nearest(Nanos::new(nanos)))
            }
            Allows::Rate { .. } => Shape::Gcra,
        }
    }

    fn rule(self, window_limit: u64) -> String {
        let amount = match self.allows() {
            Allows::Window { limit, period } => {
                let limit = if self == Family::Window { window_limit } else { limit };
                format!("limit: {limit} per {}s", period.as_secs())
            }
            Allows::Rate { per_second, burst } => format!("rate: {per_second}/s, burst: {burst}"),
        };
        let scope = if self.is_world() { "world" } else { "region" };
        let more = match self {
            Family::Exact | Family::Idle | Family::Skew => ", accuracy: exact",
            Family::Abuse | Family::WorldAbuse => ", class: abuse",
            Family::Free => ", class: free",
            _ => "",
        };
        let name = self.name();
        format!("  - {{ name: {name}, key: [{name}], {amount}, scope: {scope}{more} }}\n")
    }
}

/// The rules file, with one of `Window`'s limits.
pub(crate) fn rules(window_limit: u64) -> String {
    let families = FAMILIES.iter().map(|(family, ..)| *family).chain([Family::Idle, Family::Skew]);
    let rules: String = families.map(|family| family.rule(window_limit)).collect();
    format!("namespace: {NAMESPACE}\nrules:\n{rules}")
}

/// One key that requests are sent about.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    pub(crate) family: Family,
    pub(crate) name: String,
    /// The caller, as requests name it.
    pub(crate) caller: String,
    /// What its counts are known by in every store.
    pub(crate) key: u128,
    pub(crate) request: Vec<u8>,
}

impl Subject {
    fn of_rule(family: Family, number: usize) -> Self {
        Subject::of_caller(family, format!("caller-{number}"))
    }

    /// A key that `idle.rs` asks about.
    pub(crate) fn idle(caller: &str) -> Self {
        Subject::of_caller(Family::Idle, caller.to_owned())
    }

    /// A key that `idle.rs` asks about while clocks differ.
    pub(crate) fn skew(number: usize) -> Self {
        Subject::of_caller(Family::Skew, format!("caller-{number}"))
    }

    fn of_caller(family: Family, caller: String) -> Self {
        let prefix = KeyPrefix::new(&secret(), "default", NAMESPACE, family.name(), family.shape());
        let body = json!({ "namespace": NAMESPACE, "attributes": { family.name(): caller } }).to_string();
        let length = body.len();
        let request =
            format!("POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n{body}");
        let key = prefix.key(&caller).get();
        let name = format!("{} {caller}", family.name());
        Subject { family, name, caller, key, request: request.into_bytes() }
    }

    fn ledger(cycle: usize, number: usize) -> Self {
        let limit = ledger_limit(cycle, number);
        let (name, key) = (limit.identifier.clone(), limit.key().get());
        let caller = name.clone();
        Subject { family: Family::Ledger, name, caller, key, request: limit.request() }
    }
}

/// As requests give it.
pub(crate) fn ledger_limit(cycle: usize, number: usize) -> Limit {
    Limit::new(format!("ledger-{cycle}-{number}"), LEDGER_LIMIT, LEDGER_CELL)
}

/// A key that all regions share and that is idle while the database is restored. Some requests are more than the
/// credit, so that they are published at once.
pub(crate) fn idle_world_limit(number: usize) -> Limit {
    Limit::new(format!("idle-world-{number}"), LEDGER_LIMIT, LEDGER_CELL).cost(LEDGER_LIMIT / 40)
}

/// All subjects of a run: those of rules, and then every cycle's ledger keys.
pub(crate) fn all(cycles: usize) -> Vec<Subject> {
    let of_rules = FAMILIES
        .iter()
        .flat_map(|(family, callers, _)| (0..*callers).map(|number| Subject::of_rule(*family, number)));
    let ledgers =
        (0..cycles).flat_map(|cycle| (0..LEDGERS).map(move |number| Subject::ledger(cycle, number)));
    of_rules.chain(ledgers).collect()
}

/// How many subjects are of rules.
pub(crate) fn callers() -> usize {
    FAMILIES.iter().map(|(_, callers, _)| callers).sum()
}

/// Where a cycle's ledger keys are among the subjects.
pub(crate) fn ledgers_of(cycle: usize) -> std::ops::Range<usize> {
    let first = callers() + cycle * LEDGERS;
    first..first + LEDGERS
}
