//! Two regions, a reconciler and the world store: a limit's slices are lowered before others are raised.
//!
//! The real reconciler, store and workers; of each region's nodes, one, which hears its origin always. What a region
//! reads may reach its node late, what it acknowledges the store late or twice, what the reconciler grants as well;
//! a region may be silent for as long as time passes. At every instant the parts in force sum to the limit at most
//! (INV-6). Clocks are right here: `quota_model` has them wrong.

use crate::search::Protocol;
use crate::{breaks, holds};
use std::sync::Arc;
use tidegate_control::{Flaw, Reconciler};
use tidegate_core::origin_cell::NodeId;
use tidegate_core::{Burst, Class, KeyId, Nanos, Rate, Spec};
use tidegate_node::quota::{QuotaWorker, Quotas};
use tidegate_origin::{QuotaNews, QuotaReply, QuotaReport, QuotaReports};
use tidegate_world::{
    Acknowledgement, Demand, JoinRequest, OwnerId, PublishPolicy, PublishThreshold, RECONCILER, SLICE_LEASE,
    SliceGrants, Term, WorldStore,
};

const LIMIT: u64 = 100;
const START: Nanos = Nanos::from_secs(10_000);
/// What passes between a worker's look at its clock and its read.
const READ_TAKES: Nanos = Nanos::from_millis(1);

/// How often each thing may happen.
#[derive(Clone, Debug)]
struct Scope {
    rounds: [u8; 2],
    passes: u8,
    repeats: u8,
    ticks: u8,
    /// Messages arrive at once or never, so that there is room for more of them.
    is_prompt: bool,
}

#[derive(Clone, Debug)]
struct Region {
    me: OwnerId,
    worker: QuotaWorker,
    /// What it read, on its way to its node.
    told: Option<(Arc<QuotaNews>, Nanos)>,
    /// What its node goes by, and when it heard of that.
    heard: Option<(Arc<QuotaNews>, Nanos)>,
    demand: u64,
}

#[derive(Clone, Debug)]
enum Message {
    Acknowledge { region: usize, said: Acknowledgement },
    Grant(SliceGrants),
}

#[derive(Clone)]
struct Slices {
    scope: Scope,
    reconciler: Reconciler,
    now: Nanos,
    world: WorldStore,
    term: Term,
    regions: [Region; 2],
    messages: Vec<Message>,
}

/// All but what never changes.
impl std::fmt::Debug for Slices {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (&self.scope, self.now, &self.world, &self.regions, &self.messages).fmt(f)
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// The worker says what its node goes by, and reads what it may go by from now on.
    Round {
        region: usize,
    },
    Hear {
        region: usize,
    },
    Pass,
    Arrive {
        message: usize,
    },
    ArriveAndRepeat {
        message: usize,
    },
    /// Half a lease.
    TimePasses,
}

fn key() -> KeyId {
    KeyId::from_hash(7)
}

fn whole() -> Spec {
    let rate = Rate::new(LIMIT, Nanos::from_secs(1)).unwrap();
    Spec::Gcra { rate, burst: Burst::new(LIMIT).unwrap() }
}

impl Region {
    /// The node's own logic, from what it heard.
    fn quotas(&self, now: Nanos) -> Quotas {
        let quotas = Quotas::new(NodeId(1));
        if let Some((news, at)) = &self.heard {
            quotas.receive(&QuotaReply { now: *at, news: Some(Arc::clone(news)), is_behind: false }, *at);
        }
        quotas.receive(&QuotaReply { now, news: None, is_behind: false }, now);
        quotas
    }

    fn in_force(&self, now: Nanos) -> u64 {
        match self.quotas(now).apply_slice(key(), &whole(), Class::Paid, now) {
            Spec::Gcra { burst, .. } => burst.get(),
            _ => 0,
        }
    }
}

impl Slices {
    /// Both take part, and the first asks for nearly all.
    fn new(scope: Scope, flaw: Flaw) -> Self {
        let mut world = WorldStore::default();
        let term = world.lead(RECONCILER, 1, Nanos::from_secs(3600), START).unwrap();
        let region =
            |me, demand| Region { me, worker: QuotaWorker::default(), told: None, heard: None, demand };
        // Who they are, they hear when they join: below.
        let regions = [region(OwnerId(0), LIMIT), region(OwnerId(0), 1)];
        let reconciler = Reconciler::with_flaw(flaw);
        let always = Scope { rounds: [99; 2], passes: 99, repeats: 0, ticks: 99, is_prompt: true };
        let mut slices =
            Slices { scope: always, reconciler, now: START, world, term, regions, messages: Vec::new() };
        // Until each has heard that both take part: nobody is asked before.
        for _ in 0..4 {
            slices.take(&Step::Round { region: 0 });
            slices.take(&Step::Round { region: 1 });
            let survey = slices.world.survey(slices.now);
            let next =
                Reconciler::default().reconcile(&survey).granted.and_then(|granted| granted.membership);
            if next.is_some() {
                let granted =
                    SliceGrants { revision: survey.revision, membership: next, ..SliceGrants::default() };
                slices.world.grant(term, &granted).unwrap();
            }
        }
        assert!(slices.world.membership().members.iter().all(|member| member.is_active), "both take part");
        assert_eq!(slices.regions.each_ref().map(|region| region.in_force(slices.now)), [50, 50]);
        slices.scope = scope;
        slices
    }

    /// The same after the first was given what it asks for.
    fn raised(scope: Scope, flaw: Flaw) -> Self {
        let mut slices = Slices::new(scope.clone(), flaw);
        slices.scope = Scope { rounds: [99; 2], passes: 99, repeats: 0, ticks: 0, is_prompt: true };
        for _ in 0..4 {
            slices.take(&Step::Pass);
            slices.take(&Step::Round { region: 0 });
            slices.take(&Step::Round { region: 1 });
        }
        let in_force = slices.regions.each_ref().map(|region| region.in_force(slices.now));
        assert!(in_force[0] >= 80 && in_force[0] + in_force[1] <= LIMIT, "{in_force:?}");
        slices.scope = scope;
        slices
    }

    fn round(&mut self, index: usize) {
        let before = self.now;
        let region = &mut self.regions[index];
        let report = region.quotas(before).report(1, before);
        let report = QuotaReport { offered: Vec::new(), ..report };
        let gathered = QuotaReports { now: before, lost_data_at: Nanos::ZERO, reports: vec![report] };
        let say = region.worker.gathered(&gathered);
        self.now = before.plus(READ_TAKES);
        let joining = JoinRequest {
            region: format!("region-{index}"),
            origin: [1, 2][index],
            fingerprint: 1,
            policy: PublishPolicy { publish: PublishThreshold::Headroom, interval: Nanos::from_secs(5) },
            applied: say.applied,
            known: 0,
            leaves: false,
        };
        let joined = self.world.join(&joining, self.now).unwrap();
        region.me = joined.me;
        let milli_per_second = region.demand * 1000;
        let demand = Demand { key: key(), spec: whole(), is_abuse: false, milli_per_second, name: None };
        self.world.report(region.me, &[demand], self.now).unwrap();
        let slices = self.world.slices(region.me, self.now);
        let in_force = region.quotas(before).in_force();
        let news = region.worker.read(region.me, &joined.membership, &slices, &in_force, before, READ_TAKES);
        region.told = news.map(|news| (Arc::new(news), self.now));
        if let Some(said) = say.acknowledged.and_then(|said| region.worker.acknowledgement(said)) {
            self.messages.push(Message::Acknowledge { region: index, said });
        }
    }

    fn arrive(&mut self, message: &Message) {
        match message {
            Message::Acknowledge { region, said } => {
                let Region { me, worker, .. } = &mut self.regions[*region];
                self.world.acknowledge(*me, said, self.now);
                worker.acknowledged(said);
            }
            // Whether it is taken is the store's to say.
            Message::Grant(granted) => drop(self.world.grant(self.term, granted)),
        }
    }

    /// Where messages arrive at once, they do.
    fn settle(&mut self) {
        if !self.scope.is_prompt {
            return;
        }
        for message in std::mem::take(&mut self.messages) {
            self.arrive(&message);
        }
        self.regions.iter_mut().for_each(Region::hear);
    }
}

impl Region {
    fn hear(&mut self) {
        if let Some((news, at)) = self.told.take()
            && self.heard.as_ref().is_none_or(|(heard, _)| heard.stamp < news.stamp)
        {
            self.heard = Some((news, at));
        }
    }
}

impl Protocol for Slices {
    type Step = Step;

    fn steps(&self) -> Vec<Step> {
        let Scope { rounds, passes, repeats, ticks, .. } = self.scope;
        let mut steps = Vec::new();
        for (region, Region { told, .. }) in self.regions.iter().enumerate() {
            if rounds[region] > 0 {
                steps.push(Step::Round { region });
            }
            if told.is_some() {
                steps.push(Step::Hear { region });
            }
        }
        if passes > 0 {
            steps.push(Step::Pass);
        }
        for message in 0..self.messages.len() {
            steps.push(Step::Arrive { message });
            if repeats > 0 {
                steps.push(Step::ArriveAndRepeat { message });
            }
        }
        if ticks > 0 {
            steps.push(Step::TimePasses);
        }
        steps
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Round { region } => {
                self.scope.rounds[region] -= 1;
                self.round(region);
            }
            Step::Hear { region } => self.regions[region].hear(),
            Step::Pass => {
                self.scope.passes -= 1;
                let reconciled = self.reconciler.reconcile(&self.world.survey(self.now));
                self.messages.extend(reconciled.granted.map(Message::Grant));
            }
            Step::Arrive { message } => {
                let message = self.messages.remove(message);
                self.arrive(&message);
            }
            Step::ArriveAndRepeat { message } => {
                self.scope.repeats -= 1;
                let message = self.messages[message].clone();
                self.arrive(&message);
            }
            Step::TimePasses => {
                self.scope.ticks -= 1;
                self.now = self.now.plus(Nanos::new(SLICE_LEASE.get() / 2));
            }
        }
        self.settle();
    }

    fn check(&self) -> Result<(), String> {
        let parts = self.regions.each_ref().map(|region| region.in_force(self.now));
        if parts[0] + parts[1] > LIMIT {
            return Err(format!("INV-6: {parts:?} of {LIMIT} are in force together"));
        }
        Ok(())
    }
}

/// Every message for itself.
const FINE: Scope = Scope { rounds: [2, 1], passes: 2, repeats: 0, ticks: 1, is_prompt: false };
/// As long as it takes until nobody counts on a slice any more, and longer.
const LONG: Scope = Scope { rounds: [3, 1], passes: 3, repeats: 0, ticks: 7, is_prompt: true };

#[test]
fn slices_sum_to_the_limit_whatever_is_late_or_repeated() {
    holds("slices", Slices::new(FINE, Flaw::None), 90_000);
}

#[test]
fn slices_sum_to_the_limit_however_long_a_region_is_silent() {
    holds("silent slices", Slices::raised(LONG, Flaw::None), 90_000);
}

#[test]
fn a_raise_before_its_lowering_is_found() {
    breaks("raises first", Slices::new(FINE, Flaw::RaisesFirst));
}

#[test]
fn a_reconciler_that_ignores_silence_is_found() {
    breaks("ignores silence", Slices::raised(LONG, Flaw::IgnoresSilence));
}
