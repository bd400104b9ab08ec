//! What a node does: requests, the timers behind them, and the calls that both make.
//!
//! Follows `crates/node/src/region_driver.rs` step by step; what that one awaits is an event here.

use super::deadlines::DeadlineOf;
use super::{NodeEvent, Simulation, shard_of};
use crate::checks::Views;
use crate::node::SimulatedNode;
use crate::node::{RULES, Ticket, WaitingRequest};
use crate::ruled::{ATTRIBUTE, RULED, rules_of};
use crate::scenario::{Arrival, KeyPlan, LimitChange, LimitUse, NodeFlaw, TENANT, Template, size_of};
use crate::simulation::{Event, RequestResult};
use crate::trace::{AnswerPath, TraceEvent};
use smallvec::SmallVec;
use tidegate_core::{Accuracy, Decision, Moment, Nanos, Verdict};
use tidegate_node::clock::ClockReading;
use tidegate_node::region::AskOutcome;
use tidegate_node::{
    Answer, DecideOutcome, DecisionPath, GivenLimit, LimitOutcome, PendingDecision, Purpose, Request, Subject,
};
use tidegate_origin::{Acceptance, Heartbeat, ShardId};
use tidegate_rules::Attributes;

/// As in `crates/node/src/region_driver.rs`.
pub(super) const FLUSH_EVERY: Nanos = Nanos::from_millis(50);
pub(super) const BEAT_EVERY: Nanos = Nanos::from_millis(400);
pub(super) const HEARTBEAT_TTL: Nanos = Nanos::from_millis(1500);
/// A request waits no longer than this.
const WAIT: Nanos = Nanos::from_millis(5);
/// Every shard of a node's table is swept once in this time.
pub(super) const SWEEP_EVERY: Nanos = Nanos::from_secs(10);

impl Simulation {
    pub(super) fn arrives(&mut self, arrival: Arrival) {
        let Arrival { node, template, .. } = arrival;
        // Templates begin with one plain request for each key.
        let template = self.successors.get(&template).copied().unwrap_or(template);
        let state = &self.nodes[node];
        if !state.is_up || state.is_leaving || !state.listens(self.now) {
            return;
        }
        if state.paused_until > self.now {
            self.queue.push(state.paused_until, Event::Arrives(arrival));
            return;
        }
        let moment = state.moment(self.now);
        let before = self.auditor.views(state, template);
        self.observe_request(node, template);
        let decided = self.decide(node, template, moment);
        self.decided(node, template, decided, &before, self.now.plus(WAIT));
        self.observe_entries(node);
        self.publish_urgent(node);
        self.run_flush(node);
    }

    fn decide(&self, node: usize, template: usize, moment: Moment) -> DecideOutcome<'static> {
        let Template { limits, is_report } = &self.scenario.templates[template];
        let purpose = if *is_report { Purpose::Report } else { Purpose::Check };
        if let [limit] = limits[..]
            && self.scenario.keys[limit.key].is_ruled()
        {
            return self.decide_by_rule(node, limit, purpose, moment);
        }
        let given: SmallVec<[GivenLimit<'_>; 5]> =
            limits.iter().map(|limit| self.decided_by(node, *limit)).collect();
        let request = Request { tenant: TENANT, purpose, subject: Subject::Limits(&given) };
        let decided = self.nodes[node].engine.decide(&RULES, &request, moment);
        decided.expect("a scenario's requests are valid")
    }

    fn decide_by_rule(
        &self,
        node: usize,
        limit: LimitUse,
        purpose: Purpose,
        moment: Moment,
    ) -> DecideOutcome<'static> {
        let (plan, given) = (&self.scenario.keys[limit.key], self.decided_by(node, limit));
        let plan = KeyPlan { accuracy: given.accuracy, ..plan.clone() };
        let attributes = [(ATTRIBUTE, given.identifier)];
        let subject =
            Subject::Rules { namespace: RULED, attributes: Attributes(&attributes), cost: given.cost };
        let request = Request { tenant: TENANT, purpose, subject };
        let decided = self.nodes[node].engine.decide(rules_of(&plan, &given.policy), &request, moment);
        decided.expect("a scenario's requests are valid")
    }

    /// A limit as a node knows it: it may have heard of a change.
    pub(super) fn given(&self, node: usize, limit: LimitUse) -> GivenLimit<'_> {
        let mut given = self.scenario.keys[limit.key].given(limit.cost);
        let has_heard = |change: &&LimitChange| {
            change.keys.contains(&limit.key) && change.heard_at.get(node).is_some_and(|at| *at <= self.now)
        };
        if let Some(change) = self.scenario.changes.iter().rev().find(has_heard) {
            given.policy = change.policy;
        }
        given
    }

    /// The limit that a node decides by: it may make a mistake.
    fn decided_by(&self, node: usize, limit: LimitUse) -> GivenLimit<'_> {
        let mut given = self.given(node, limit);
        if self.scenario.node_flaw == Some(NodeFlaw::KeepsLeasedLimit) {
            let state = self.nodes[node].sharing().table.state(self.scenario.keys[limit.key].id());
            if state.is_some_and(|state| state.is_leased()) {
                given.policy = self.scenario.keys[limit.key].policy;
            }
        }
        let loses_check = self.scenario.node_flaw == Some(NodeFlaw::LosesCreditCheck);
        if loses_check && given.accuracy == Accuracy::Bounded {
            given.accuracy = Accuracy::Fast;
        }
        given
    }

    fn ask(
        &mut self,
        node: usize,
        template: usize,
        asking: Box<PendingDecision<'static>>,
        gives_up_at: Nanos,
    ) {
        let ticket = self.new_ticket();
        let limits = asking.asks().len();
        self.trace.record(self.now, node, TraceEvent::Asked { ticket, limits });
        let state = &self.nodes[node];
        let shards = self.scenario.shards;
        let sharing = state.sharing();
        let (id, effects) = sharing.region.ask(
            &sharing.table,
            asking.asks(),
            state.moment(self.now),
            &|key| shard_of(key, shards),
            state.wake_for(ticket),
        );
        let deadline = self.set_deadline(node, gives_up_at, DeadlineOf::Wait(ticket));
        let waiting = WaitingRequest { asking, id, template, gives_up_at, deadline, outcomes: None };
        self.nodes[node].waiting.insert(ticket, waiting);
        self.execute(node, effects);
    }

    /// A request goes on with what it was told so far; it may have to ask again while it has time.
    pub(super) fn resume(&mut self, node: usize, ticket: Ticket) {
        let state = &mut self.nodes[node];
        let Some(waiting) = state.waiting.remove(&ticket) else { return };
        let WaitingRequest { asking, id, template, gives_up_at, deadline, outcomes } = waiting;
        deadline.into_iter().for_each(|deadline| self.queue.call_off(deadline));
        let before = self.auditor.views(state, template);
        let moment = state.moment(self.now);
        let region = &state.sharing().region;
        let mut outcomes = outcomes.or_else(|| region.give_up(id)).unwrap_or_default();
        if self.scenario.node_flaw == Some(NodeFlaw::TrustsExpiredHolds) {
            outcomes.iter_mut().for_each(|outcome| {
                if let AskOutcome::Held { until } = outcome {
                    *until = Nanos::MAX;
                }
            });
        }
        let decided = if self.now >= gives_up_at {
            DecideOutcome::Answer(state.engine.resume(*asking, &outcomes, moment))
        } else {
            state.engine.resume_or_ask(*asking, &outcomes, moment)
        };
        region.give_up(id);
        region.complete(id);
        self.trace_event(node, || format!("goes on with {outcomes:?}"));
        self.decided(node, template, decided, &before, gives_up_at);
        self.observe_entries(node);
        self.publish_urgent(node);
        self.run_flush(node);
    }

    fn decided(
        &mut self,
        node: usize,
        template: usize,
        decided: DecideOutcome<'static>,
        before: &Views,
        gives_up_at: Nanos,
    ) {
        match decided {
            DecideOutcome::Answer(answer) => self.answered(node, template, &answer, before),
            DecideOutcome::Ask(asking) => {
                let checked = self.auditor.nothing_changed(&self.nodes[node], template, before);
                self.check(checked);
                self.ask(node, template, asking, gives_up_at);
            }
        }
    }

    fn answered(&mut self, node: usize, template: usize, answer: &Answer<'_>, before: &Views) {
        let path = match answer.path {
            DecisionPath::Local | DecisionPath::Quota => AnswerPath::Local,
            DecisionPath::Asked(_) => AnswerPath::Asked,
            DecisionPath::Unverified => AnswerPath::Unverified,
        };
        self.trace.record(self.now, node, TraceEvent::Answered { allowed: answer.allowed, path, template });
        let (allowed, mut retry_after) = (answer.allowed, retry_after(answer));
        if self.scenario.node_flaw == Some(NodeFlaw::HalvesWaits) {
            retry_after = retry_after.map(|wait| Nanos::new(wait.get() / 2));
        }
        let answered = RequestResult { at: self.now, node, template, allowed, path, retry_after };
        if let Some(answers) = &mut self.answers {
            answers.push(answered);
        }
        self.follow_limits(template);
        let state = &self.nodes[node];
        self.trace_event(node, || {
            let limits = &self.scenario.templates[template].limits;
            format!("{:?} {limits:?} {before:?}\n        {answer:?}", answer.path)
        });
        let is_charged = answer.allowed || self.charges_what_is_denied(template);
        let checked = if is_charged {
            let is_report = self.is_after_the_fact(answered);
            let now = (&self.origin, [self.now, self.origin_now()]);
            self.auditor.record_lost_resets(&self.nodes, &self.origin, now.1[1]);
            self.auditor.admitted(state, (node, template, is_report), path, before, now)
        } else {
            self.auditor.denied(state, template, before)
        };
        self.check(checked);
        if answer.allowed && !self.auditor.is_off() {
            let checked = self.check_free_share(node, template, path);
            self.check(checked);
        }
        let over: SmallVec<[bool; 5]> = answer.limits.iter().map(|limit| limit.is_over()).collect();
        self.record_answer(answered, &over);
    }

    /// Whether a request is charged also when it is denied.
    fn charges_what_is_denied(&self, template: usize) -> bool {
        let Template { limits, is_report } = &self.scenario.templates[template];
        *is_report || limits.iter().any(|limit| self.scenario.keys[limit.key].charges_always)
    }

    /// Whether what was answered is charged whatever the limits say, and beyond them.
    pub(super) fn is_after_the_fact(&self, answered: RequestResult) -> bool {
        let is_report = self.scenario.templates[answered.template].is_report;
        is_report || !answered.allowed && self.charges_what_is_denied(answered.template)
    }

    /// The oracle goes by the largest limit that any living node goes by.
    fn follow_limits(&mut self, template: usize) {
        if self.scenario.changes.is_empty() || self.auditor.is_off() {
            return;
        }
        let limits = self.scenario.templates[template].limits.clone();
        limits.iter().for_each(|limit| self.follow_limit(limit.key));
    }

    pub(super) fn follow_limit(&mut self, key: usize) {
        let known = |node: usize| size_of(&self.given(node, LimitUse { key, cost: 0 }).policy);
        let up = (0..self.nodes.len()).filter(|node| self.nodes[*node].is_up);
        let Some(limit) = up.map(known).max() else { return };
        let waiting = self.nodes.iter().flat_map(|node| node.waiting.values());
        let waiting = waiting.flat_map(|waiting| &self.scenario.templates[waiting.template].limits);
        let waiting: u64 = waiting.filter(|limit| limit.key == key).map(|limit| limit.cost).sum();
        let now = self.origin_now();
        let oracle = self.auditor.oracle_mut();
        let unspent = oracle.granted_and_unspent(key, &self.nodes, &self.origin, now);
        oracle.set_limit(key, limit, waiting + unspent, now);
    }

    /// How often a node had no room for a key in its table.
    pub fn refused_keys(&self) -> u64 {
        let named = self.nodes.iter().flat_map(|node| node.engine.stats().counts_by_name());
        named.filter(|(name, _)| name.starts_with("keys_refused")).map(|(_, count)| count).sum()
    }

    fn publish_urgent(&mut self, node: usize) {
        let state = &self.nodes[node];
        let sharing = state.sharing();
        if sharing.table.is_urgent() {
            let (shards, moment) = (self.scenario.shards, state.moment(self.now));
            let effects = sharing.region.publish_urgent(&sharing.table, moment, &|key| shard_of(key, shards));
            self.execute(node, effects);
        }
    }

    pub(super) fn flush(&mut self, node: usize) {
        let state = &self.nodes[node];
        let (shards, moment) = (self.scenario.shards, state.moment(self.now));
        let sharing = state.sharing();
        let effects = sharing.region.flush(&sharing.table, moment, &|key| shard_of(key, shards));
        let is_idle = effects.send.is_empty() && state.has_nothing_to_flush();
        self.nodes[node].flushes_at = self.now.plus(FLUSH_EVERY);
        self.nodes[node].is_flushing = !is_idle;
        self.execute(node, effects);
        if !is_idle {
            self.set_deadline(node, self.now.plus(FLUSH_EVERY), DeadlineOf::Flush);
        }
    }

    /// Something happened at a node: its flush, which was left out while it had nothing to do, keeps its pace.
    pub(super) fn run_flush(&mut self, node: usize) {
        let state = &mut self.nodes[node];
        if state.is_flushing {
            return;
        }
        state.is_flushing = true;
        let late = self.now.minus(state.flushes_at).get().div_ceil(FLUSH_EVERY.get());
        let at = state.flushes_at.plus(Nanos::new(late * FLUSH_EVERY.get()));
        self.push_of(node, at, NodeEvent::Flush);
    }

    pub(super) fn heartbeat(&self, node: usize) -> Heartbeat {
        let state = &self.nodes[node];
        let fingerprint = state.engine.secret().fingerprint();
        let applied = state.engine.world().map_or(0, tidegate_node::world::WorldNode::version);
        let acceptance = self.remembered(state.acceptance);
        Heartbeat {
            node: state.id,
            fingerprint,
            alive_for: HEARTBEAT_TTL,
            leaves: false,
            applied,
            acceptance,
        }
    }

    /// How a store answered before, unless that is forgotten on purpose.
    pub(super) fn remembered(&self, acceptance: Acceptance) -> Acceptance {
        if self.has_flaw(NodeFlaw::ForgetsAcceptance) { Acceptance::New } else { acceptance }
    }

    pub(super) fn has_flaw(&self, flaw: NodeFlaw) -> bool {
        self.scenario.node_flaw == Some(flaw)
    }

    /// The store's time came with the answer to a heartbeat.
    pub(super) fn receive_time(&mut self, node: usize, sent: ClockReading, store: Nanos) {
        let ignores = self.has_flaw(NodeFlaw::FollowsWallClock);
        let now = self.now;
        let store = if ignores { self.nodes[node].reading(now).wall } else { store };
        self.steer(node, |state| state.receive_time(sent, store, now));
    }

    /// Steers a node's clock. A step is noted: what the node has counted is carried over it.
    fn steer(&mut self, node: usize, how: impl FnOnce(&mut SimulatedNode)) {
        let step_before = self.nodes[node].moment(self.now).step;
        let before = self.auditor.oracle().views(&self.nodes[node]);
        how(&mut self.nodes[node]);
        if self.nodes[node].moment(self.now).step != step_before {
            self.auditor.oracle_mut().note_clock_step(&before);
        }
    }

    pub(super) fn beat(&mut self, node: usize) {
        // Real nodes do so a little more often.
        let now = self.now;
        self.steer(node, |state| state.sample_clock(now));
        let beat = self.heartbeat(node);
        self.send_beat(node, beat);
        (0..self.scenario.shards.max(1)).for_each(|shard| self.send_pulse(node, ShardId(shard)));
        if self.auditor.has_resets() {
            self.share_resets(node, Vec::new());
        }
        self.push_of(node, self.now.plus(BEAT_EVERY), NodeEvent::Beat);
    }

    pub(super) fn sweep(&mut self, node: usize, shard: usize) {
        let state = &self.nodes[node];
        state.engine.sweep(shard, state.moment(self.now));
        let shards = state.engine.shard_count().max(1);
        let every = Nanos::new(SWEEP_EVERY.get() / u64::try_from(shards).unwrap_or(1));
        self.push_of(node, self.now.plus(every), NodeEvent::Sweep { shard: (shard + 1) % shards });
    }
}

/// How long a caller who was denied is told to wait: for the limit that takes longest.
fn retry_after(answer: &Answer<'_>) -> Option<Nanos> {
    let denied = answer.limits.iter().filter(|limit| limit.is_over());
    let waits = denied.map(|limit| match limit.outcome {
        LimitOutcome::Decided(Decision { verdict: Verdict::Deny { retry_after }, .. }) => retry_after,
        _ => None,
    });
    waits.collect::<Option<SmallVec<[Nanos; 5]>>>()?.into_iter().max()
}
