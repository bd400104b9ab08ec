//! Quotas of a region: what every node reports and hears, the worker's rounds, and the reconciler beside it.
//!
//! Follows `crates/node/src/world_driver/quotas.rs` and `crates/control/src/leader.rs`: what those await one after
//! the other is a stage here.

use super::working::{StoreStep, WorkerCall};
use super::{NodeEvent, Simulation};
use crate::scenario::{KeyPlan, LimitUse};
use std::sync::Arc;
use tidegate_control::{Flaw, Reconciler};
use tidegate_core::{Class, Nanos, Spec};
use tidegate_node::quota::{DemandReport, HeldSlices, QuotaWorker, Quotas};
use tidegate_origin::{QuotaNews, QuotaReply, QuotaReports};
use tidegate_world::{Acknowledgement, Demand, Membership, OwnerId, SliceGrants, Slices, Survey, Term};

const REPORT_EVERY: Nanos = Nanos::from_millis(250);
const SLICE_EVERY: Nanos = Nanos::from_millis(500);
const IDLE_ROUNDS: u32 = 4;
const PASS_EVERY: Nanos = Nanos::from_secs(1);
pub(crate) const LEADER_LEASE_TTL: Nanos = Nanos::from_secs(3);

/// What is asked of the world store for quotas' sake.
#[derive(Debug, Clone)]
pub(crate) enum QuotaStep {
    Report(OwnerId, Vec<Demand>),
    Acknowledge(OwnerId, Acknowledgement),
    Slices(OwnerId),
    Lead { holder: u64 },
    Survey,
    Grant(Term, SliceGrants),
}

/// The store's answer: nothing when there was none, or an error.
#[derive(Debug)]
pub(crate) enum QuotaDone {
    Reported(bool),
    Acknowledged(bool),
    Slices(Option<Slices>),
    Led(Option<Term>),
    Surveyed(Option<Box<Survey>>),
    Granted,
}

impl QuotaStep {
    pub(crate) fn failed(&self) -> QuotaDone {
        match self {
            QuotaStep::Report(..) => QuotaDone::Reported(false),
            QuotaStep::Acknowledge(..) => QuotaDone::Acknowledged(false),
            QuotaStep::Slices(_) => QuotaDone::Slices(None),
            QuotaStep::Lead { .. } => QuotaDone::Led(None),
            QuotaStep::Survey => QuotaDone::Surveyed(None),
            QuotaStep::Grant(..) => QuotaDone::Granted,
        }
    }
}

/// What a node's process keeps for quotas, beside what its engine does.
#[derive(Debug)]
pub(crate) struct QuotaWork {
    worker: QuotaWorker,
    /// The round that is under way.
    round: Option<Round>,
    idle: u32,
    holder: u64,
    reconciler: Reconciler,
    /// The term of the pass that is under way.
    pass: Option<Term>,
    is_passing: bool,
}

impl QuotaWork {
    pub(crate) fn new(holder: u64, flaw: Flaw) -> Self {
        QuotaWork {
            worker: QuotaWorker::default(),
            round: None,
            idle: 0,
            holder,
            reconciler: Reconciler::with_flaw(flaw),
            pass: None,
            is_passing: false,
        }
    }
}

/// The slices of the latest news by their keys, which hundreds of nodes hear of.
#[derive(Debug, Default)]
pub(super) struct LatestHeld(Option<(Arc<QuotaNews>, Arc<HeldSlices>)>);

impl LatestHeld {
    fn of(&mut self, news: &Arc<QuotaNews>) -> Arc<HeldSlices> {
        match &self.0 {
            Some((known, held)) if Arc::ptr_eq(known, news) => held.clone(),
            _ => {
                let held = Arc::new(HeldSlices::of(news));
                self.0 = Some((news.clone(), held.clone()));
                held
            }
        }
    }
}

#[derive(Debug)]
struct Round {
    me: OwnerId,
    membership: Membership,
    report: DemandReport,
    began: Nanos,
    /// What to tell the nodes.
    news: Option<QuotaNews>,
}

impl Simulation {
    pub(super) fn begin_quota_work(&mut self, node: usize) {
        if !self.has_quotas() {
            return;
        }
        let out_of_step = |simulation: &mut Simulation, every: Nanos| {
            simulation.now.plus(Nanos::new(simulation.random.below(every.get())))
        };
        let pass_at = out_of_step(self, PASS_EVERY);
        let slice_at = out_of_step(self, SLICE_EVERY);
        self.push_of(node, self.now, NodeEvent::Report);
        self.push_of(node, slice_at, NodeEvent::Slice);
        self.push_of(node, pass_at, NodeEvent::Pass);
    }

    fn has_quotas(&self) -> bool {
        self.scenario.world.is_some() && self.scenario.keys.iter().any(KeyPlan::is_quota)
    }

    pub(super) fn report_quotas(&mut self, node: usize) {
        let state = &self.nodes[node];
        let (Some(quotas), sent) = (state.engine.quotas(), state.moment(self.now).now) else { return };
        let report = quotas.report(state.sharing().table.live_nodes(), sent);
        self.call_origin(node, WorkerCall::Report { report, sent });
        self.push_of(node, self.now.plus(REPORT_EVERY), NodeEvent::Report);
    }

    pub(super) fn reported(&mut self, node: usize, heard: Option<&QuotaReply>, sent: Nanos) {
        if let (Some(quotas), Some(heard)) = (self.nodes[node].engine.quotas(), heard) {
            quotas.receive_with(heard, sent, |news| self.held.of(news));
            self.has_sliced = true;
        }
    }

    /// Begins a round, if this node works for the region and none is under way.
    pub(super) fn slice(&mut self, node: usize) {
        self.push_of(node, self.now.plus(SLICE_EVERY), NodeEvent::Slice);
        let Some(world) = &mut self.nodes[node].world else { return };
        let Some((me, membership)) = world.worker.membership().filter(|_| world.quotas.round.is_none())
        else {
            return;
        };
        world.quotas.round =
            Some(Round { me, membership, report: DemandReport::default(), began: self.now, news: None });
        self.call_origin(node, WorkerCall::Gather);
    }

    pub(super) fn gathered(&mut self, node: usize, gathered: Option<&QuotaReports>) {
        let state = &mut self.nodes[node];
        let slices = state.engine.quotas().map_or(0, Quotas::slice_count);
        let Some(world) = &mut state.world else { return };
        let quotas = &mut world.quotas;
        let (Some(mut round), Some(gathered)) = (quotas.round.take(), gathered) else { return };
        let is_idle = gathered.reports.iter().all(|report| report.offered.is_empty());
        let is_known = world.worker.quotas_known() == round.membership.version;
        quotas.idle = if is_idle && slices == 0 && is_known { quotas.idle + 1 } else { 0 };
        round.report = quotas.worker.gathered(gathered);
        world.worker.quotas_divide_by(round.report.applied);
        if !quotas.idle.is_multiple_of(IDLE_ROUNDS) {
            return;
        }
        let (me, demands) = (round.me, round.report.demands.clone());
        quotas.round = Some(round);
        let step = match demands.is_empty() {
            true => QuotaStep::Slices(me),
            false => QuotaStep::Report(me, demands),
        };
        self.call_store(node, StoreStep::Quota(step));
    }

    /// The world store answered, or didn't.
    pub(super) fn quota_done(&mut self, node: usize, done: QuotaDone) {
        let state = &mut self.nodes[node];
        let Some(world) = &mut state.world else { return };
        let quotas = &mut world.quotas;
        match done {
            QuotaDone::Reported(is_good) => {
                if !is_good {
                    quotas.worker.report_failed();
                }
                let Some(round) = &quotas.round else { return };
                let me = round.me;
                self.call_store(node, StoreStep::Quota(QuotaStep::Slices(me)));
            }
            QuotaDone::Slices(slices) => {
                let (Some(mut round), Some(slices)) = (quotas.round.take(), slices) else { return };
                let (before, took) = (round.report.before, self.now.minus(round.began));
                let in_force = state.engine.quotas().map(Quotas::in_force).unwrap_or_default();
                let worker = &mut quotas.worker;
                round.news = worker.read(round.me, &round.membership, &slices, &in_force, before, took);
                if round.news.is_none() {
                    return;
                }
                let said = round.report.acknowledged.take().and_then(|said| worker.acknowledgement(said));
                round.report.acknowledged.clone_from(&said);
                let me = round.me;
                quotas.round = Some(round);
                match said {
                    Some(said) => self.call_store(node, StoreStep::Quota(QuotaStep::Acknowledge(me, said))),
                    None => self.publish_quotas(node),
                }
            }
            QuotaDone::Acknowledged(is_good) => {
                let said = quotas.round.as_ref().and_then(|round| round.report.acknowledged.as_ref());
                if let Some(said) = said.filter(|_| is_good) {
                    quotas.worker.acknowledged(said);
                }
                self.publish_quotas(node);
            }
            QuotaDone::Led(term) => {
                (quotas.pass, quotas.is_passing) = (term, term.is_some());
                if term.is_some() {
                    self.call_store(node, StoreStep::Quota(QuotaStep::Survey));
                }
            }
            QuotaDone::Surveyed(survey) => self.surveyed(node, survey.as_deref()),
            QuotaDone::Granted => quotas.is_passing = false,
        }
    }

    /// Ends the round.
    fn publish_quotas(&mut self, node: usize) {
        let Some(world) = &mut self.nodes[node].world else { return };
        if let Some(news) = world.quotas.round.take().and_then(|round| round.news) {
            self.call_origin(node, WorkerCall::PublishQuotas(news));
        }
    }

    /// Would lead the reconciler, where it works for the region.
    pub(super) fn pass(&mut self, node: usize) {
        self.push_of(node, self.now.plus(PASS_EVERY), NodeEvent::Pass);
        let Some(world) = &mut self.nodes[node].world else { return };
        if world.worker.membership().is_none() || world.quotas.is_passing {
            return;
        }
        world.quotas.is_passing = true;
        let holder = world.quotas.holder;
        self.call_store(node, StoreStep::Quota(QuotaStep::Lead { holder }));
    }

    fn surveyed(&mut self, node: usize, survey: Option<&Survey>) {
        let Some(world) = &mut self.nodes[node].world else { return };
        let quotas = &mut world.quotas;
        quotas.is_passing = false;
        let (Some(survey), Some(term)) = (survey, quotas.pass) else { return };
        if !quotas.worker.may_grant(survey) {
            return;
        }
        let Some(granted) = quotas.reconciler.reconcile(survey).granted else { return };
        quotas.is_passing = true;
        self.trace_event(node, || format!("reconciled: {granted:?}"));
        self.call_store(node, StoreStep::Quota(QuotaStep::Grant(term, granted)));
    }

    /// The largest part of a limit that any node of the region goes by now: how much of it, and how much of its
    /// rate, in cost a nanosecond. A node that never heard of other regions isn't looked at.
    pub(crate) fn in_force(&self, key: usize, now: Nanos) -> (u64, f64) {
        let id = self.scenario.keys[key].id();
        let mut most = (0, 0.0);
        for (index, node) in self.nodes.iter().enumerate().filter(|(_, node)| node.is_up) {
            let Some(quotas) = node.engine.quotas() else { continue };
            let cut = quotas.apply_slice(id, &self.spec_at(index, key), Class::Abuse, node.moment(now).now);
            most = (cut.shown_limit().max(most.0), rate_of(&cut).max(most.1));
        }
        most
    }

    /// A limit as a node knows it.
    fn spec_at(&self, node: usize, key: usize) -> Spec {
        let policy = self.given(node, LimitUse { key, cost: 0 }).policy;
        KeyPlan { policy, ..self.scenario.keys[key].clone() }.spec_at(self.now)
    }

    /// The largest limit and the largest rate that any node of the region knows of a key.
    pub(crate) fn largest_limit(&self, key: usize) -> (u64, f64) {
        let up = (0..self.nodes.len()).filter(|node| self.nodes[*node].is_up);
        let specs = up.map(|node| self.spec_at(node, key));
        specs.fold((0, 0.0), |most, spec| (spec.shown_limit().max(most.0), rate_of(&spec).max(most.1)))
    }

    /// Whether something was heard since this was last asked.
    pub(crate) fn take_sliced(&mut self) -> bool {
        std::mem::take(&mut self.has_sliced)
    }
}

/// What a limit admits over time; nothing when it admits nothing at once.
pub(crate) fn rate_of(spec: &Spec) -> f64 {
    match spec {
        Spec::Gcra { rate, burst } if burst.get() > 0 => {
            rate.interval_denominator() as f64 / rate.interval_numerator_ns() as f64
        }
        _ => 0.0,
    }
}
