//! A control plane, a broker or a node, as far as rules go: what it serves, whom it follows, and what is wrong with it.

use super::disk::{Disk, Keeping};
use super::link::LinkId;
use super::{ProcessId, StreamScenario};
use std::sync::Arc;
use tidegate_control::stream::{Feed, Follower, FollowerRole, Identity};
use tidegate_core::Nanos;

const SOFTWARE: &str = "simulated";

#[derive(Debug)]
pub(super) struct Process {
    pub(super) who: ProcessId,
    pub(super) disk: Disk,
    /// `None` while it is down.
    pub(super) run: Option<ProcessRun>,
    pub(super) lives: u64,
    pub(super) paused_until: Nanos,
    pub(super) is_cut: bool,
    /// Of a control plane.
    pub(super) reaches_log: bool,
    /// Places of those whom it follows.
    pub(super) servers: Vec<usize>,
    /// To its servers, one way.
    pub(super) away: Nanos,
    region: usize,
}

/// One run of a process, from its start to its end.
#[derive(Debug)]
pub(super) struct ProcessRun {
    pub(super) number: u64,
    /// Its own clock begins here.
    pub(super) began_at: Nanos,
    pub(super) feed: Option<Arc<Feed>>,
    pub(super) follower: Option<Follower>,
    pub(super) link: Option<LinkId>,
    /// When it looks at the time next.
    pub(super) ticks_at: Nanos,
    /// A control plane serves from when it has heard of its log.
    pub(super) has_begun: bool,
    pub(super) is_compacting: bool,
}

impl Process {
    /// Control planes, then brokers, then nodes. A control plane has the first version, all others nothing.
    pub(super) fn all_of(scenario: &StreamScenario) -> Vec<Process> {
        let plane = |plane| Process::new(ProcessId::Plane(plane), usize::MAX, Vec::new(), Nanos::ZERO);
        let planes: Vec<usize> = (0..scenario.planes).collect();
        let mut all: Vec<Process> = (0..scenario.planes).map(plane).collect();
        let mut brokers_of = Vec::new();
        for (index, region) in scenario.regions.iter().enumerate() {
            let first = all.len();
            all.extend((0..region.brokers).map(|broker| {
                let who = ProcessId::Broker(first - scenario.planes + broker);
                Process::new(who, index, planes.clone(), region.away)
            }));
            brokers_of.push((first..all.len()).collect::<Vec<_>>());
        }
        let first = all.len();
        for (index, region) in scenario.regions.iter().enumerate() {
            // Without brokers, nodes follow the control planes.
            let brokers = &brokers_of[index];
            let (servers, away) =
                if brokers.is_empty() { (&planes, region.away) } else { (brokers, super::link::NEAR) };
            for _ in 0..region.nodes {
                let who = ProcessId::Node(all.len() - first);
                all.push(Process::new(who, index, servers.clone(), away));
            }
        }
        all
    }

    fn new(who: ProcessId, region: usize, servers: Vec<usize>, away: Nanos) -> Self {
        Process {
            who,
            disk: Disk::default(),
            run: None,
            lives: 0,
            paused_until: Nanos::ZERO,
            is_cut: false,
            reaches_log: true,
            servers,
            away,
            region,
        }
    }

    pub(super) fn name(&self) -> String {
        match self.who {
            ProcessId::Plane(plane) => format!("plane-{plane}"),
            ProcessId::Broker(broker) => format!("broker-{broker}"),
            ProcessId::Node(node) => format!("node-{node}"),
        }
    }

    /// Begins with what is on its disk, as a real one does. `seed`: its chance.
    pub(super) fn start(&mut self, seed: u64, now: Nanos) {
        self.lives += 1;
        let serves = !matches!(self.who, ProcessId::Node(_));
        let feed = serves.then(|| Feed::new(&self.name(), SOFTWARE));
        let role = if serves { FollowerRole::Broker } else { FollowerRole::Node };
        let identity = Identity {
            node: self.name().into(),
            region: format!("region-{}", self.region).into(),
            software: SOFTWARE.into(),
            role,
        };
        let follows = !self.servers.is_empty();
        let mut follower = follows.then(|| Follower::new(identity, self.servers.len(), seed, Nanos::ZERO));
        if let (ProcessId::Broker(_), Some(feed), Some(file)) = (self.who, &feed, &self.disk.file) {
            feed.offer(Arc::clone(file));
            let taken = feed.take(&self.disk.changes, Nanos::ZERO);
            assert!(taken.refused.is_none(), "rules: {} can't serve its disk: {taken:?}", self.name());
        }
        if let Some(follower) = &mut follower {
            follower.begins_with(&Keeping { disk: &mut self.disk, feed: None, now: Nanos::ZERO });
        }
        self.run = Some(ProcessRun {
            number: self.lives,
            began_at: now,
            feed,
            follower,
            link: None,
            ticks_at: Nanos::MAX,
            has_begun: false,
            is_compacting: false,
        });
    }

    /// How long it lives.
    pub(super) fn clock(&self, now: Nanos) -> Nanos {
        self.run.as_ref().map_or(Nanos::ZERO, |life| now.minus(life.began_at))
    }

    pub(super) fn is_life(&self, number: u64) -> bool {
        self.run.as_ref().is_some_and(|life| life.number == number)
    }

    pub(super) fn link(&self) -> Option<LinkId> {
        self.run.as_ref()?.link
    }

    pub(super) fn feed(&self) -> Option<&Arc<Feed>> {
        self.run.as_ref()?.feed.as_ref()
    }
}
