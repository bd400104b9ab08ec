//! What is between nodes and the origin: calls on their way there and back, and calls that never end.

use super::coming::ResetCall;
use super::deadlines::DeadlineOf;
use super::driving::HEARTBEAT_TTL;
use super::working::WorkerCall;
use super::{Event, ExchangeNote, NodeEvent, Simulation, shard_of};
use crate::line::CONNECT_TIMEOUT;
use crate::network::Way;
use crate::node::{Call, Ticket};
use crate::origin::taken;
use crate::scenario::NodeFlaw;
use crate::trace::TraceEvent;
use smallvec::SmallVec;
use std::num::NonZeroU32;
use tidegate_core::exchange::CountSync;
use tidegate_core::{KeyId, Nanos};
use tidegate_node::clock::ClockReading;
use tidegate_node::region::{Effects, OutgoingExchange};
use tidegate_origin::record::{Incarnation, Pulse, PulseReply, RecordReading, ShardRecord};
use tidegate_origin::{
    Acceptance, DoneReset, Exchange, ExchangeReply, Heartbeat, HeartbeatReply, KeyError, OriginError,
    ResetNews, ShardId,
};

/// A call that has no answer by then has failed.
pub(super) const CALL_TIMEOUT: Nanos = Nanos::from_millis(50);

/// What [`NodeFlaw::NeverNoticesLoss`] reads of every shard.
const UNDISTURBED: ShardRecord = ShardRecord { incarnation: Incarnation(1), is_recovering: false };
/// How long ago the expiries of [`NodeFlaw::SendsPastExpiries`] have passed.
const EXPIRED_SINCE: Nanos = Nanos::from_secs(1);
/// What [`NodeFlaw::DrawsHalf`] divides by.
const HALF: NonZeroU32 = NonZeroU32::new(2).unwrap();

pub(super) fn timed_out() -> OriginError {
    OriginError::Timeout { waited_ms: CALL_TIMEOUT.as_millis_ceil() }
}

/// What is on its way to the origin.
#[derive(Debug)]
pub(crate) struct Message {
    node: usize,
    incarnation: u32,
    /// Of a call that comes twice, the second time: how often the store had lost data when it was sent. Connections deliver
    /// a call once, and a store that lost data isn't brought the same call by two of them.
    repeated_after: Option<u64>,
    body: Body,
}

#[derive(Debug, Clone)]
pub(super) enum Body {
    Exchange(Ticket, ShardId, Exchange),
    /// With what the node's clocks showed when it left.
    Beat(Heartbeat, ClockReading),
    Pulse(ShardId, Pulse),
    Restore(ShardId, DoneReset),
    Coordination(Ticket, WorkerCall),
    Reset(ResetCall),
    ShareResets(ResetNews),
}

impl Simulation {
    pub(super) fn execute(&mut self, node: usize, effects: Effects) {
        for (wake, outcomes) in effects.finished {
            wake(outcomes);
        }
        for ticket in self.nodes[node].take_woken() {
            let after = Nanos::new(self.random.below(self.scenario.wakes_within.get() + 1));
            self.push_of(node, self.now.plus(after), NodeEvent::Resume(ticket));
        }
        for outgoing in effects.send {
            self.call(node, outgoing);
        }
        for shard in effects.pulse {
            self.send_pulse(node, shard);
        }
        for (shard, done) in effects.restore {
            if self.has_flaw(NodeFlaw::RepeatsOrders) {
                self.nodes[node].sharing().region.restored(shard, &done, true);
            } else {
                self.send(node, Body::Restore(shard, done));
            }
        }
        if !effects.asked_keys.is_empty() {
            // The tasks of a thread that wait for their turn have it first: they may ask too.
            let after = Nanos::new(self.random.below(self.scenario.wakes_within.get() + 1));
            self.push_of(node, self.now.plus(after), NodeEvent::SendAsked(effects.asked_keys));
        }
    }

    pub(super) fn send_asked(&mut self, node: usize, keys: &[KeyId]) {
        let (state, shards) = (&self.nodes[node], self.scenario.shards);
        let (sharing, moment) = (state.sharing(), state.moment(self.now));
        let effects = sharing.region.send_asks(&sharing.table, keys, moment, &|key| shard_of(key, shards));
        self.execute(node, effects);
    }

    fn call(&mut self, node: usize, mut outgoing: OutgoingExchange) {
        let call = self.new_ticket();
        if self.scenario.node_flaw == Some(NodeFlaw::DrawsHalf) {
            let wants = outgoing.exchange.syncs.iter_mut().map(|sync| &mut sync.request);
            wants.filter_map(|wants| wants.lease.as_mut()).for_each(|wish| wish.parts = HALF);
        }
        if self.has_flaw(NodeFlaw::MergesFloorByMax) {
            for sync in &mut outgoing.exchange.syncs {
                if let CountSync::Window(window) = &mut sync.counts {
                    window.current.acked = window.current.component;
                }
            }
        }
        if self.has_flaw(NodeFlaw::SendsPastExpiries) {
            let passed = outgoing.exchange.now.minus(EXPIRED_SINCE);
            for sync in &mut outgoing.exchange.syncs {
                if let CountSync::Window(window) = &mut sync.counts {
                    window.current.expires = window.current.expires.min(passed);
                }
            }
        }
        let state = &self.nodes[node];
        if !state.has_line(outgoing.shard) || state.is_refused || !state.knows_time() {
            self.nodes[node].calls.insert(call, Call { outgoing, deadline: None });
            let error = OriginError::Unreachable { cause: "not connected".to_owned() };
            return self.push_of(node, self.now, NodeEvent::Ends(call, Err(error)));
        }
        self.notice_reconnect(node, outgoing.shard);
        let exchange = outgoing.exchange.clone();
        // As it leaves: what arrives much later may be what its node, and a store that failed over, forgot meanwhile.
        let checked = self.auditor.may_be_sent(&exchange);
        self.check(checked);
        let syncs = exchange.syncs.len();
        let asks = exchange.syncs.iter().map(|sync| sync.request.asks.len()).sum();
        if !self.auditor.is_off() {
            self.exchanges.push(ExchangeNote { at: self.now, node, syncs, asks });
        }
        let shard = outgoing.shard;
        self.load.called(self.now, shard, syncs);
        self.trace.record(self.now, node, TraceEvent::Sent { call, syncs, asks });
        let deadline = self.set_deadline(node, self.now.plus(CALL_TIMEOUT), DeadlineOf::Call(call));
        self.nodes[node].calls.insert(call, Call { outgoing, deadline });
        self.send(node, Body::Exchange(call, shard, exchange));
    }

    pub(super) fn send_beat(&mut self, node: usize, heartbeat: Heartbeat) {
        if self.nodes[node].has_line(ShardId(0)) {
            let sent = self.nodes[node].reading(self.now);
            self.send(node, Body::Beat(heartbeat, sent));
        }
    }

    /// As in `crates/node/src/region_driver/pulses.rs`.
    pub(super) fn send_pulse(&mut self, node: usize, shard: ShardId) {
        if !matches!(self.nodes[node].acceptance, Acceptance::Taken(_))
            || self.nodes[node].is_refused
            || !self.nodes[node].has_line(shard)
        {
            return;
        }
        let now = self.nodes[node].moment(self.now).now;
        let pulse = self.nodes[node].sharing().region.pulse(shard, HEARTBEAT_TTL, now);
        self.send(node, Body::Pulse(shard, pulse));
    }

    fn notice_reconnect(&mut self, node: usize, shard: ShardId) {
        let generation = self.origin.generation(shard);
        let known = self.nodes[node].generations.insert(shard, generation);
        if known.is_some_and(|known| known != generation)
            && self.nodes[node].sharing().region.reconnected(shard)
        {
            self.send_pulse(node, shard);
        }
    }

    pub(super) fn pulsed(&mut self, node: usize, shard: ShardId, pulse: Pulse, pulsed: PulseReply) {
        let shards = self.scenario.shards;
        let clock = (self.nodes[node].moment(self.now), self.nodes[node].clock_is_right(self.now));
        let sharing = self.nodes[node].sharing();
        let route = |key| shard_of(key, shards);
        let (effects, event) =
            sharing.region.pulsed(&sharing.table, (shard, pulse), &Ok(pulsed), clock, &route);
        self.trace_event(node, || format!("{shard:?} {pulsed:?} {event:?}"));
        self.execute(node, effects);
        self.run_flush(node);
    }

    pub(super) fn send_to_origin(&mut self, node: usize, call: Ticket, what: WorkerCall) {
        self.send(node, Body::Coordination(call, what));
    }

    pub(super) fn send(&mut self, node: usize, body: Body) {
        let incarnation = self.nodes[node].incarnation;
        let [first, second] = self.network.carry(node, Way::Out, self.now);
        if let Some(after) = second {
            let repeated_after = Some(self.losses);
            let message = Box::new(Message { node, incarnation, repeated_after, body: body.clone() });
            self.queue.push(self.now.plus(after), Event::AtOrigin(message));
        }
        if let Some(after) = first {
            let message = Box::new(Message { node, incarnation, repeated_after: None, body });
            self.queue.push(self.now.plus(after), Event::AtOrigin(message));
        }
    }

    pub(super) fn at_origin(&mut self, message: Box<Message>) {
        if self.origin.paused_until > self.now {
            self.queue.push(self.origin.paused_until, Event::AtOrigin(message));
            return;
        }
        let Message { node, incarnation, repeated_after, body } = *message;
        if repeated_after.is_some_and(|losses| losses < self.losses) {
            return;
        }
        let reply = match body {
            Body::Exchange(call, shard, _) if !self.origin.answers(shard) => {
                let error = OriginError::Unreachable { cause: "connection refused".to_owned() };
                NodeEvent::Ends(call, Err(error))
            }
            Body::Beat(..) | Body::ShareResets(_) if !self.origin.coordination_answers() => return,
            Body::Pulse(shard, _) | Body::Restore(shard, _) if !self.origin.answers(shard) => return,
            Body::Pulse(shard, pulse) => {
                let now = self.origin_now();
                let mut pulsed = self.origin.pulse(shard, &pulse, now);
                if self.has_flaw(NodeFlaw::NeverNoticesLoss) {
                    pulsed.record = UNDISTURBED;
                }
                NodeEvent::Pulsed(shard, pulse, pulsed)
            }
            Body::Restore(shard, done) => {
                let nodes_now = self.nodes[node].moment(self.now).now;
                let now = self.origin_now();
                self.origin.restore_reset(&done, nodes_now, now);
                NodeEvent::Restored(shard, done)
            }
            Body::Reset(call) if !self.origin.answers(self.shard_of_key(call.key())) => return,
            Body::Reset(call) => self.reset_at_store(call),
            Body::ShareResets(news) => self.share_resets_at_store(&news),
            Body::Coordination(call, what) => NodeEvent::Told(call, self.at_coordination(what)),
            Body::Exchange(call, shard, exchange) => self.exchanged(node, call, shard, &exchange),
            Body::Beat(heartbeat, sent) => match self.origin_beat(&heartbeat) {
                Ok(alive) => NodeEvent::Alive(alive, sent),
                Err(OriginError::OtherSecret { .. } | OriginError::Refused { .. }) => NodeEvent::Refused,
                Err(error) => return self.check(Err(format!("a heartbeat was refused: {error}"))),
            },
        };
        if let [Some(after), _] = self.network.carry(node, Way::Back, self.now) {
            self.queue.push(self.now.plus(after), Event::OfNode { node, incarnation, what: reply });
        }
    }

    fn origin_beat(&mut self, heartbeat: &Heartbeat) -> Result<HeartbeatReply, OriginError> {
        let now = self.origin_now();
        self.origin.coordination().beat(heartbeat, now)
    }

    fn exchanged(&mut self, node: usize, call: Ticket, shard: ShardId, exchange: &Exchange) -> NodeEvent {
        let now = self.origin_now();
        if exchange.syncs.iter().any(|sync| self.origin.is_moving(sync.key, self.now)) {
            return NodeEvent::Ends(call, Err(OriginError::Moving { server: "the server".to_owned() }));
        }
        if !self.auditor.is_off() {
            let of_node = (self.nodes[node].id, exchange);
            self.auditor.oracle_mut().is_about_to_sync(of_node, &self.nodes, &self.origin, now);
        }
        let exchanged = self.origin.exchange(shard, exchange, now);
        let mut exchanged = exchanged.unwrap_or_else(|violation| self.fail(&violation));
        if self.has_flaw(NodeFlaw::NeverNoticesLoss) {
            exchanged.record = RecordReading::Found(UNDISTURBED);
            exchanged.replies.iter_mut().flatten().for_each(|reply| reply.component_before = Some(u64::MAX));
        }
        self.trace_event(node, || format!("{exchange:?}\n        {exchanged:?}"));
        self.observe_holds(node, exchange, &exchanged);
        let checked = self.auditor.executed(exchange, &exchanged, &self.nodes, self.now);
        self.check(checked);
        self.record_grants(exchange, &exchanged);
        let replies = || exchange.syncs.iter().zip(exchanged.replies.iter().flatten());
        let drawn = replies().map(|(_, reply)| reply.drawn).sum();
        let granted = replies().filter(|(sync, reply)| taken(sync, reply) > 0).count();
        self.trace.record(self.now, usize::MAX, TraceEvent::Executed { call, granted, drawn });
        if self.has_flaw(NodeFlaw::AsksInOldEpoch) {
            for (sync, reply) in exchange.syncs.iter().zip(&mut exchanged.replies) {
                if reply.as_ref().is_ok_and(|reply| reply.epoch > sync.epoch) {
                    *reply = Err(KeyError::Failed(timed_out()));
                }
            }
        }
        NodeEvent::Ends(call, Ok(exchanged))
    }

    fn received_on_line(&mut self, node: usize, shard: ShardId, result: &Result<ExchangeReply, OriginError>) {
        let lines = &mut self.nodes[node].lines;
        match result {
            Ok(_) => {
                if let Some(line) = lines.get_mut(&shard) {
                    line.answered();
                }
            }
            Err(OriginError::Timeout { .. }) => {
                let line = lines.entry(shard).or_default();
                if line.timed_out(self.now, CALL_TIMEOUT) {
                    let wait = line.waits(&mut self.random);
                    self.push_of(node, self.now.plus(wait), NodeEvent::Dial(shard));
                }
            }
            Err(_) => {}
        }
    }

    /// Connects to a server: one way there and back for the connection, one for its first answers.
    pub(super) fn dial(&mut self, node: usize, shard: ShardId) {
        let line = self.nodes[node].lines.entry(shard).or_default();
        line.dials();
        let Some(attempt) = line.dialing() else { return };
        let [out, _] = self.network.carry(node, Way::Out, self.now);
        let [back, _] = self.network.carry(node, Way::Back, self.now);
        let took = match (out, back) {
            (Some(out), Some(back)) if self.origin.paused_until <= self.now => {
                out.plus(out).plus(back).plus(back)
            }
            _ => CONNECT_TIMEOUT,
        };
        let is_up = took < CONNECT_TIMEOUT && self.origin.answers(shard);
        let at = self.now.plus(took.min(CONNECT_TIMEOUT));
        self.push_of(node, at, NodeEvent::Dialed { shard, attempt, is_up });
    }

    pub(super) fn dialed(&mut self, node: usize, shard: ShardId, attempt: u32, is_up: bool) {
        let line = self.nodes[node].lines.entry(shard).or_default();
        if line.dialing() != Some(attempt) {
            return;
        }
        if is_up {
            return line.connected();
        }
        let wait = line.waits(&mut self.random);
        self.push_of(node, self.now.plus(wait), NodeEvent::Dial(shard));
    }

    /// Answers pass again. A connection that lost some ends: what follows would make no sense on it.
    pub(super) fn answers_pass(&mut self) {
        for node in 0..self.nodes.len() {
            let lines = self.nodes[node].lines.iter();
            let dialing: Vec<(ShardId, u32)> =
                lines.filter_map(|(shard, line)| Some((*shard, line.dialing()?))).collect();
            for (shard, attempt) in dialing {
                self.dialed(node, shard, attempt, false);
            }
        }
    }

    /// A call came to its end, answered or not. What comes after that is for nobody.
    pub(super) fn ends(&mut self, node: usize, call: Ticket, result: Result<ExchangeReply, OriginError>) {
        let state = &mut self.nodes[node];
        let Some(Call { outgoing, deadline }) = state.calls.remove(&call) else {
            return state.lines.values_mut().for_each(|line| line.replied(self.now));
        };
        deadline.into_iter().for_each(|deadline| self.queue.call_off(deadline));
        self.received_on_line(node, outgoing.shard, &result);
        let state = &mut self.nodes[node];
        let happened =
            if result.is_ok() { TraceEvent::Replied { call } } else { TraceEvent::Failed { call } };
        self.trace.record(self.now, node, happened);
        let keys: SmallVec<[KeyId; 4]> = outgoing.exchange.syncs.iter().map(|sync| sync.key).collect();
        let (shards, moment) = (self.scenario.shards, state.moment(self.now));
        let route = |key| shard_of(key, shards);
        if let Ok(exchanged) = &result {
            self.observe_leases(node, &keys, exchanged);
            self.nodes[node].has_heard = true;
        } else if !self.auditor.is_off() {
            self.auditor.oracle_mut().is_unanswered(&self.nodes[node], &outgoing.exchange);
        }
        let state = &self.nodes[node];
        let sharing = state.sharing();
        let is_audited = !self.auditor.is_off();
        let before = keys.iter().filter(|_| is_audited).map(|key| state.view(*key)).collect();
        let effects = sharing.region.replied(&sharing.table, outgoing, result, moment, &route);
        let checked = self.auditor.check_views(&self.nodes[node], &keys, &before);
        self.check(checked);
        self.record_views(node, &keys);
        self.observe_entries(node);
        self.execute(node, effects);
        self.run_flush(node);
    }
}
