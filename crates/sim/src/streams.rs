//! How rules travel: control planes, the brokers of the regions and their nodes, over connections that break.
//!
//! The two halves are the real ones, `Feed` and `Follower` of `tidegate_control::stream`; the log in the store, the
//! disks and what lies between processes are simulated. Every step is compared with the log (`checks.rs`). What comes
//! of a run is when each node heard of each change. Nothing that is decided by rules has an effect on how they travel,
//! so this runs before the nodes' own simulation.

mod carrying;
pub mod chaos;
mod checks;
mod disk;
mod failing;
mod link;
mod process;

use crate::file::{instant, instants, length, seed, timed};
use crate::fired::{FaultKind, Fired};
use crate::queue::Queue;
use crate::random::Random;
use crate::trace::Fnv;
use crate::{BOOTED_BEFORE, START};
use bytes::Bytes;
use carrying::Event;
use disk::delta_of;
use link::{Link, LinkId};
use process::Process;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use tidegate_control::stream::PastReset;
use tidegate_core::Nanos;
use tidegate_rules::Delta;

/// Everybody has the newest rules so long after everything is mended.
pub const HEALS_WITHIN: Nanos = Nanos::from_secs(15);

/// Identifies a process; numbered over all regions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProcessId {
    Plane(usize),
    Broker(usize),
    Node(usize),
}

/// What goes wrong on the way of rules.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum StreamFault {
    /// The process is gone at once; what is on its disk stays.
    Crash {
        who: ProcessId,
    },
    /// It is back. `forgets`: its disk is empty.
    Start {
        who: ProcessId,
        forgets: bool,
    },
    /// It stands still, and then goes on with what came meanwhile.
    Pause {
        who: ProcessId,
        #[serde(rename = "length_ms", with = "length")]
        length: Nanos,
    },
    /// Nothing gets to it or from it, and nobody is told.
    Cut {
        who: ProcessId,
    },
    Mend {
        who: ProcessId,
    },
    /// Its connection to its server is reset.
    Break {
        who: ProcessId,
    },
    /// A control plane doesn't reach the log.
    LogAway {
        plane: usize,
    },
    LogBack {
        plane: usize,
    },
}

impl StreamFault {
    /// `None` for what only ends another, and for nodes, whose faults are their own simulation's.
    fn kind(self) -> Option<FaultKind> {
        Some(match self {
            StreamFault::Crash { who: ProcessId::Plane(_) } => FaultKind::PlaneDown,
            StreamFault::Crash { who: ProcessId::Broker(_) } => FaultKind::BrokerDown,
            StreamFault::Start { who: ProcessId::Broker(_), forgets: true } => FaultKind::BrokerForgot,
            StreamFault::Pause { who: ProcessId::Plane(_) | ProcessId::Broker(_), .. } => {
                FaultKind::BrokerPaused
            }
            StreamFault::Cut { .. } => FaultKind::StreamCut,
            StreamFault::Break { .. } => FaultKind::StreamBroke,
            StreamFault::LogAway { .. } => FaultKind::LogAway,
            StreamFault::Crash { .. }
            | StreamFault::Start { .. }
            | StreamFault::Pause { .. }
            | StreamFault::Mend { .. }
            | StreamFault::LogBack { .. } => return None,
        })
    }
}

/// A mistake made on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StreamFlaw {
    /// A control plane says that its rules are the newest though it doesn't reach the log.
    ConfirmsUnheard,
}

/// A region's brokers and nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamRegion {
    pub brokers: usize,
    pub nodes: usize,
    /// From a broker to the control planes, one way.
    #[serde(rename = "away_ms", with = "length")]
    pub away: Nanos,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StreamScenario {
    #[serde(with = "seed")]
    pub seed: u64,
    pub planes: usize,
    pub regions: Vec<StreamRegion>,
    /// When changes are pushed, in the order of time. The first makes version 2.
    #[serde(rename = "changes_ms", with = "instants")]
    pub changes: Vec<Nanos>,
    #[serde(with = "timed")]
    pub faults: Vec<(Nanos, StreamFault)>,
    pub flaw: Option<StreamFlaw>,
    #[serde(rename = "begins_at_ms", with = "instant")]
    pub begins_at: Nanos,
    #[serde(rename = "ends_at_ms", with = "instant")]
    pub ends_at: Nanos,
}

impl Default for StreamScenario {
    /// A control plane, and nobody who follows it.
    fn default() -> Self {
        StreamScenario {
            seed: 0,
            planes: 1,
            regions: Vec::new(),
            changes: Vec::new(),
            faults: Vec::new(),
            flaw: None,
            begins_at: START.minus(BOOTED_BEFORE).minus(BOOTED_BEFORE),
            ends_at: START,
        }
    }
}

/// When each node received each change, and which checks failed.
#[derive(Clone, Debug)]
pub struct RuleDeliveryTimes {
    /// For each change, for each node of all regions; `Nanos::MAX` for one that didn't.
    pub heard_at: Vec<Vec<Nanos>>,
    /// When each change was in the log.
    pub pushed_at: Vec<Nanos>,
    pub fired: Fired,
    pub trace_hash: u64,
}

/// What the control planes wrote, each version once.
#[derive(Debug, Default)]
struct Log {
    /// From version 2 on.
    deltas: Vec<(u64, Bytes)>,
    pushed_at: Vec<Nanos>,
}

impl Log {
    fn head(&self) -> u64 {
        self.deltas.last().map_or(FIRST_VERSION, |(version, _)| *version)
    }

    /// The newest version at an instant.
    fn head_at(&self, at: Nanos) -> u64 {
        FIRST_VERSION + self.pushed_at.partition_point(|pushed_at| *pushed_at <= at) as u64
    }

    fn after(&self, version: u64) -> &[(u64, Bytes)] {
        let first = usize::try_from(version.saturating_sub(FIRST_VERSION)).unwrap_or(usize::MAX);
        self.deltas.get(first..).unwrap_or_default()
    }

    /// With when they were ordered.
    fn resets(&self) -> impl Iterator<Item = (PastReset, Nanos)> {
        self.deltas.iter().zip(&self.pushed_at).filter_map(|((_, delta), pushed_at)| {
            let delta = Delta::decode(delta).ok()?;
            Some((PastReset::of(&delta, Nanos::ZERO)?, *pushed_at))
        })
    }

    fn push(&mut self, now: Nanos) {
        let version = self.head() + 1;
        self.deltas.push((version, delta_of(version)));
        self.pushed_at.push(now);
    }
}

/// The rules that are there before anything is changed.
const FIRST_VERSION: u64 = 1;

#[derive(Debug)]
pub struct Streams {
    scenario: StreamScenario,
    now: Nanos,
    queue: Queue<Event>,
    log: Log,
    processes: Vec<Process>,
    links: BTreeMap<LinkId, Link>,
    links_made: u64,
    heard_at: Vec<Vec<Nanos>>,
    random: Random,
    fired: Fired,
    hash: Fnv,
}

impl Streams {
    pub fn new(scenario: StreamScenario) -> Self {
        let nodes = scenario.regions.iter().map(|region| region.nodes).sum();
        let mut streams = Streams {
            now: scenario.begins_at,
            queue: Queue::default(),
            log: Log::default(),
            processes: Process::all_of(&scenario),
            links: BTreeMap::new(),
            links_made: 0,
            heard_at: vec![vec![Nanos::MAX; nodes]; scenario.changes.len()],
            random: Random::new(scenario.seed ^ 0x7275_6c65),
            fired: Fired::default(),
            hash: Fnv::default(),
            scenario,
        };
        for process in 0..streams.processes.len() {
            streams.start(process);
        }
        for (change, at) in streams.scenario.changes.clone().into_iter().enumerate() {
            streams.queue.push(at, Event::Push { change });
        }
        for (at, fault) in streams.scenario.faults.clone() {
            streams.queue.push(at, Event::Fault(fault));
        }
        streams
    }

    /// Runs to the scenario's end.
    #[must_use]
    pub fn run(mut self) -> RuleDeliveryTimes {
        self.run_until(self.scenario.ends_at);
        self.travelled()
    }

    /// Runs to the scenario's end, mends everything, and sees whether all is well a while later.
    #[must_use]
    pub fn run_and_heal(mut self) -> RuleDeliveryTimes {
        self.run_until(self.scenario.ends_at);
        // What was heard of later is no part of the scenario.
        let heard_at = self.heard_at.clone();
        self.mend_everything();
        self.run_until(self.scenario.ends_at.plus(HEALS_WITHIN));
        self.check_healed();
        RuleDeliveryTimes { heard_at, ..self.travelled() }
    }

    fn travelled(self) -> RuleDeliveryTimes {
        RuleDeliveryTimes {
            heard_at: self.heard_at,
            pushed_at: self.log.pushed_at,
            fired: self.fired,
            trace_hash: self.hash.finish(),
        }
    }

    fn run_until(&mut self, until: Nanos) {
        while self.queue.next_at().is_some_and(|at| at <= until)
            && let Some((at, event)) = self.queue.pop()
        {
            self.now = at;
            self.happen(event);
        }
        self.now = until;
    }

    fn mend_everything(&mut self) {
        for process in 0..self.processes.len() {
            let who = self.processes[process].who;
            self.fault(StreamFault::Mend { who });
            if let ProcessId::Plane(plane) = who {
                self.fault(StreamFault::LogBack { plane });
            }
            self.fault(StreamFault::Start { who, forgets: false });
        }
    }

    fn record(&mut self, what: impl Hash) {
        (self.now.get(), what).hash(&mut self.hash);
    }
}
