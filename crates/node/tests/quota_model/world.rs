//! Regions, their nodes and workers, reconcilers and the world store: who does what when.

use crate::network::{Agenda, Instant, Link, MILLI, Random, SECOND, Trouble};
use std::collections::BTreeMap;
use tidegate_control::{Flaw, Reconciler};
use tidegate_core::origin_cell::NodeId;
use tidegate_core::{Burst, Decision, KeyId, Nanos, Rate, Spec, Verdict};
use tidegate_node::quota::{DemandSample, QuotaWorker, Quotas};
use tidegate_origin::OriginStore as Origin;
use tidegate_world::{
    Acknowledgement, Demand, JoinReply, JoinRequest, OwnerId, PublishPolicy, PublishThreshold, RECONCILER,
    SLICE_LEASE, Slices, Term, WorldStore as World,
};

pub(crate) const KEY_COUNT: usize = 2;
const FAULTS_UNTIL: Instant = 100 * SECOND;
const END: Instant = 170 * SECOND;

#[derive(Clone, Copy)]
pub(crate) struct Setup {
    pub(crate) seed: u64,
    pub(crate) flaw: Flaw,
}

/// A clock that is off by an hour at most, and too fast or slow by 200 millionths at most.
#[derive(Clone, Copy)]
pub(crate) struct Clock {
    offset: u64,
    drift_millionths: u64,
}

impl Clock {
    fn new(random: &mut Random) -> Self {
        Clock { offset: 10_000 * SECOND + random.below(3_600 * SECOND), drift_millionths: random.below(400) }
    }

    pub(crate) fn at(self, instant: Instant) -> Nanos {
        let drift = instant / 1_000_000 * self.drift_millionths;
        Nanos::new(self.offset + instant - instant / 1_000_000 * 200 + drift)
    }
}

pub(crate) struct Node {
    pub(crate) quotas: Quotas,
    pub(crate) clock: Clock,
    /// When the origin last took a report of it.
    pub(crate) reported_at: Instant,
    pub(crate) is_paused: bool,
    /// Its region had given it up when it came back, and it hasn't heard anything since.
    pub(crate) was_given_up: bool,
}

pub(crate) struct Region {
    pub(crate) nodes: Vec<Node>,
    origin: Origin,
    origin_clock: Clock,
    /// The second one is what a paused process goes on with.
    workers: [QuotaWorker; 2],
    me: Option<OwnerId>,
    pub(crate) joins_at: Instant,
    pub(crate) leaves_at: Option<Instant>,
    /// Of each key, in units a second.
    pub(crate) demand: [u64; KEY_COUNT],
}

pub(crate) struct Model {
    pub(crate) agenda: Agenda,
    pub(crate) random: Random,
    pub(crate) regions: Vec<Region>,
    pub(crate) world: World,
    world_clock: Clock,
    reconcilers: [Reconciler; 2],
    trouble: BTreeMap<Link, Trouble>,
    pub(crate) problem: Option<String>,
    is_told: bool,
    checked_at: Instant,
    pub(crate) specs: [Spec; KEY_COUNT],
}

impl Model {
    pub(crate) fn new(setup: Setup) -> Self {
        let mut random = Random(setup.seed.wrapping_mul(0x5851_f42d_4c95_7f2d));
        let world_clock = Clock::new(&mut random);
        let regions = 2 + random.below(3);
        let mut model = Model {
            agenda: Agenda::default(),
            regions: Vec::new(),
            world: World::default(),
            world_clock,
            reconcilers: [Reconciler::with_flaw(setup.flaw); 2],
            trouble: BTreeMap::new(),
            problem: None,
            is_told: false,
            checked_at: 0,
            specs: [gcra(100, 100), gcra(1 + random.below(20), 1 + random.below(8))],
            random,
        };
        for index in 0..regions {
            let region = model.region(index);
            model.regions.push(region);
        }
        model
    }

    fn region(&mut self, index: u64) -> Region {
        let random = &mut self.random;
        let nodes = (0..1 + random.below(3)).map(|number| Node {
            quotas: Quotas::new(NodeId(index * 10 + number)),
            clock: Clock::new(random),
            reported_at: 0,
            is_paused: false,
            was_given_up: false,
        });
        let nodes = nodes.collect();
        let joins_at = if index < 2 { index * SECOND } else { random.below(60 * SECOND) };
        let leaves = index > 0 && random.chance(20);
        Region {
            nodes,
            origin: Origin::default(),
            origin_clock: Clock::new(random),
            workers: Default::default(),
            me: None,
            joins_at,
            leaves_at: leaves.then(|| joins_at + 20 * SECOND + random.below(60 * SECOND)),
            demand: [0; KEY_COUNT],
        }
    }

    /// Runs to the end; says what broke.
    pub(crate) fn run(mut self) -> Result<(), String> {
        for region in 0..self.regions.len() {
            let joins_at = self.regions[region].joins_at;
            for node in 0..self.regions[region].nodes.len() {
                self.agenda.at(joins_at, move |model| model.node_turn(region, node));
            }
            self.agenda.at(joins_at, move |model| model.worker_turn(region, 0));
            self.agenda.at(joins_at + 30 * SECOND, move |model| model.worker_turn(region, 1));
            self.agenda.at(joins_at, move |model| model.demand_turn(region));
        }
        for process in 0..2 {
            self.agenda.at(process as u64 * 300 * MILLI, move |model| model.reconciler_turn(process));
        }
        self.agenda.at(0, Model::fault_turn);
        while let Some(act) = self.agenda.pop() {
            if self.agenda.now > END {
                return self.check_converged();
            }
            act(&mut self);
            // Whenever somebody heard something, and often enough to see every lease end.
            if std::mem::take(&mut self.is_told) || self.agenda.now >= self.checked_at + 20 * MILLI {
                self.checked_at = self.agenda.now;
                self.check_sum();
            }
            if let Some(problem) = self.problem.take() {
                return Err(format!("at {:.3} s: {problem}{}", self.agenda.now as f64 / 1e9, self.explain()));
            }
        }
        Ok(())
    }

    pub(crate) fn is_there(&self, region: usize) -> bool {
        let Region { joins_at, leaves_at, .. } = self.regions[region];
        joins_at <= self.agenda.now && leaves_at.is_none_or(|leaves| self.agenda.now < leaves)
    }

    pub(crate) fn trouble_on(&self, link: Link) -> Trouble {
        self.trouble.get(&link).copied().unwrap_or_default()
    }

    /// Every few seconds something gets better or worse, and demand moves.
    fn fault_turn(&mut self) {
        let now = self.agenda.now;
        if now > FAULTS_UNTIL {
            self.trouble.clear();
            for region in &mut self.regions {
                region.nodes.iter_mut().for_each(|node| node.is_paused = false);
            }
            return;
        }
        let region = usize::try_from(self.random.below(self.regions.len() as u64)).unwrap();
        let nodes = self.regions[region].nodes.len() as u64;
        let node = usize::try_from(self.random.below(nodes)).unwrap();
        let link = match self.random.below(5) {
            0 => Link::Origin { region, node },
            1 | 2 => Link::World { region },
            3 => Link::Reconciler { process: region % 2 },
            _ => {
                let is_paused = self.random.chance(30);
                self.regions[region].nodes[node].is_paused = is_paused;
                Link::World { region }
            }
        };
        let trouble = if self.random.chance(40) {
            Trouble::default()
        } else {
            Trouble {
                cut: self.random.chance(50),
                loss_percent: self.random.below(60),
                delay_max: self.random.below(5) * self.random.below(900) * MILLI,
                repeat_percent: self.random.below(30),
            }
        };
        self.trouble.insert(link, trouble);
        for key in 0..KEY_COUNT {
            let scale = if key == 0 { 150 } else { 30 };
            self.regions[region].demand[key] =
                if self.random.chance(30) { 0 } else { self.random.below(scale) };
        }
        let next = now + self.random.below(9 * SECOND);
        self.agenda.at(next, Model::fault_turn);
    }

    /// Callers come, and are denied: all that they ask for counts.
    fn demand_turn(&mut self, region: usize) {
        let now = self.agenda.now;
        let specs = self.specs;
        let Region { nodes, demand, .. } = &mut self.regions[region];
        for (index, key) in (0..KEY_COUNT).map(|index| (index, key(index))) {
            let node = &nodes[index % nodes.len()];
            let mut decision = Decision {
                verdict: Verdict::Deny { retry_after: None },
                limit: 0,
                remaining: 0,
                reset: Nanos::ZERO,
            };
            let asked = DemandSample { key, whole: &specs[index], cost: demand[index] / 5, is_abuse: false };
            node.quotas.decided(&asked, &mut decision, node.clock.at(now));
        }
        self.agenda.at(now + 200 * MILLI, move |model| model.demand_turn(region));
    }

    fn node_turn(&mut self, region: usize, node: usize) {
        let now = self.agenda.now;
        self.agenda.at(now + 250 * MILLI, move |model| model.node_turn(region, node));
        if !self.is_there(region) || self.regions[region].nodes[node].is_paused {
            return;
        }
        let at = &self.regions[region].nodes[node];
        let sent = at.clock.at(now);
        let report = at.quotas.report(u32::try_from(self.regions[region].nodes.len()).unwrap(), sent);
        let act = move |model: &mut Model| {
            let now = model.agenda.now;
            let Region { nodes, origin, origin_clock, .. } = &mut model.regions[region];
            let lapsed = now - nodes[node].reported_at > SLICE_LEASE.get();
            nodes[node].was_given_up |= lapsed;
            nodes[node].reported_at = now;
            origin.report_quotas(&report, origin_clock.at(now))
        };
        self.call(Link::Origin { region, node }, act, move |model, heard| {
            if let Some(heard) = heard {
                model.regions[region].nodes[node].quotas.receive(&heard, sent);
                model.regions[region].nodes[node].was_given_up = false;
                model.is_told |= heard.news.is_some();
            }
        });
    }

    /// A worker's round: gathers, speaks with the world, tells. Each step goes on from the one before.
    fn worker_turn(&mut self, region: usize, worker: usize) {
        let now = self.agenda.now;
        let pause = if worker == 1 { 1_500 + self.random.below(4_000) } else { 500 };
        self.agenda.at(now + pause * MILLI, move |model| model.worker_turn(region, worker));
        if self.regions[region].joins_at > now {
            return;
        }
        let is_there = self.is_there(region);
        let origin = Link::Origin { region, node: 0 };
        let gather = move |model: &mut Model| {
            let now = model.agenda.now;
            let Region { origin, origin_clock, .. } = &mut model.regions[region];
            origin.gather_quotas(SLICE_LEASE, origin_clock.at(now))
        };
        self.call(origin, gather, move |model, gathered| {
            let Some(gathered) = gathered else { return };
            let say = model.regions[region].workers[worker].gathered(&gathered);
            let (before, applied) = (say.before, say.applied);
            model.join(region, applied, !is_there, move |model, joined| {
                let Some(joined) = joined.filter(|_| is_there) else { return };
                model.regions[region].me = Some(joined.me);
                model.report(region, worker, joined.me, say.demands);
                model.read(region, worker, joined, (before, now), say.acknowledged);
            });
        });
    }

    fn join(
        &mut self,
        region: usize,
        applied: u64,
        leaves: bool,
        done: impl FnOnce(&mut Model, Option<JoinReply>) + 'static,
    ) {
        let policy = PublishPolicy { publish: PublishThreshold::Headroom, interval: Nanos::from_secs(5) };
        let name = format!("region-{region}");
        let origin = u64::try_from(region).expect("some regions");
        let joining = JoinRequest { region: name, origin, fingerprint: 1, policy, applied, known: 0, leaves };
        let act = move |model: &mut Model| {
            // Who has left comes no more, not even late.
            let joining =
                JoinRequest { leaves: joining.leaves || !model.is_there(region), ..joining.clone() };
            let now = model.world_now();
            model.world.join(&joining, now).expect("a good name and one secret")
        };
        self.call(Link::World { region }, act, done);
    }

    fn report(&mut self, region: usize, worker: usize, me: OwnerId, demands: Vec<Demand>) {
        let link = Link::World { region };
        let report = move |model: &mut Model| {
            let now = model.world_now();
            model.world.report(me, &demands, now).is_ok()
        };
        self.call(link, report, move |model, reported| {
            if reported.is_none() {
                model.regions[region].workers[worker].report_failed();
            }
        });
    }

    fn acknowledge(&mut self, region: usize, worker: usize, me: OwnerId, said: Acknowledgement) {
        let link = Link::World { region };
        let repeated = said.clone();
        let acknowledge = move |model: &mut Model| {
            let now = model.world_now();
            model.world.acknowledge(me, &said, now);
        };
        self.call(link, acknowledge, move |model, done| {
            if done.is_some() {
                model.regions[region].workers[worker].acknowledged(&repeated);
            }
        });
    }

    /// Reads the slices, and acknowledges what was gone by before.
    fn read(
        &mut self,
        region: usize,
        worker: usize,
        joined: JoinReply,
        (before, began): (Nanos, u64),
        said: Option<Acknowledgement>,
    ) {
        let me = joined.me;
        let act = move |model: &mut Model| model.world.slices(me, model.world_now());
        self.call(Link::World { region }, act, move |model, slices: Option<Slices>| {
            let Some(slices) = slices else { return };
            let took = Nanos::new(model.agenda.now - began);
            let Region { workers, nodes, .. } = &mut model.regions[region];
            let in_force = nodes[0].quotas.in_force();
            let news = workers[worker].read(me, &joined.membership, &slices, &in_force, before, took);
            let Some(news) = news else { return };
            if let Some(said) = said.and_then(|said| workers[worker].acknowledgement(said)) {
                model.acknowledge(region, worker, me, said);
            }
            let tell = move |model: &mut Model| model.regions[region].origin.publish_quotas(&news);
            model.call(Link::Origin { region, node: 0 }, tell, |_, _| {});
        });
    }

    fn reconciler_turn(&mut self, process: usize) {
        let now = self.agenda.now;
        // Now and then it is paused in the middle of its work.
        let pause =
            if now < FAULTS_UNTIL && self.random.chance(5) { 2_000 + self.random.below(9_000) } else { 0 };
        self.agenda.at(now + (1_000 + pause) * MILLI, move |model| model.reconciler_turn(process));
        let link = Link::Reconciler { process };
        let lead = move |model: &mut Model| {
            let now = model.world_now();
            model.world.lead(RECONCILER, process as u64 + 1, Nanos::from_secs(3), now)
        };
        self.call(link, lead, move |model, term: Option<Option<Term>>| {
            let Some(Some(term)) = term else { return };
            let survey = move |model: &mut Model| model.world.survey(model.world_now());
            model.call(link, survey, move |model, survey| {
                let Some(survey) = survey else { return };
                let Some(granted) = model.reconcilers[process].reconcile(&survey).granted else { return };
                let later = model.agenda.now + pause * MILLI;
                model.agenda.at(later, move |model| {
                    let grant = move |model: &mut Model| drop(model.world.grant(term, &granted));
                    model.call(link, grant, |_, _| {});
                });
            });
        });
    }

    pub(crate) fn world_now(&self) -> Nanos {
        self.world_clock.at(self.agenda.now)
    }
}

pub(crate) fn key(index: usize) -> KeyId {
    KeyId::from_hash((index as u128 + 1) << 120 | index as u128)
}

fn gcra(rate: u64, burst: u64) -> Spec {
    let rate = Rate::new(rate, Nanos::from_secs(1)).expect("a rate");
    Spec::Gcra { rate, burst: Burst::new(burst).expect("a burst") }
}
