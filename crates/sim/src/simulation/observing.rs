//! Records which situations a run meets, where somebody counts them: see `coverage.rs`.

use super::{Event, Simulation};
use crate::coverage::{Coverage, EventKind, NodeState, StoreState};
use crate::fault::Fault;
use crate::scenario::{LimitUse, size_of};
use std::collections::{BTreeMap, BTreeSet};
use tidegate_core::ask::{exceeds_credit, sharers};
use tidegate_core::exchange::{CountSync, HOLD_TTL, HoldId};
use tidegate_core::{CellId, KeyId, Nanos, Rate, SharedState};
use tidegate_node::GivenPolicy;
use tidegate_origin::{Exchange, ExchangeReply};

/// A cell that ends sooner is about to expire.
const EXPIRES_WITHIN: Nanos = Nanos::from_secs(10);
/// Clocks that follow the same time differ by no more.
const CLOCKS_DIFFER: Nanos = Nanos::from_millis(50);
/// Events of a bucket, which has no windows, belong together for so long.
const BUCKET_WINDOW: Nanos = Nanos::from_secs(10);

/// What a run has met, and what has to be remembered to tell.
#[derive(Debug, Default)]
pub(super) struct Observer {
    coverage: Coverage,
    /// Keys that a node's process has had an entry for.
    known: BTreeSet<(usize, u32, KeyId)>,
    /// What is held back at the store for a node's requests, and until when.
    holds: BTreeMap<(usize, KeyId), (HoldId, Nanos)>,
    /// When the store last granted a lease of key 0 to node 0.
    drawn_at: Option<Nanos>,
    /// The window that each key was last seen in, and the events there so far.
    windows: BTreeMap<usize, (u64, BTreeSet<EventKind>)>,
}

/// What a node knows of a key, and what the store holds of it, where that matters.
pub(crate) type Situation = (NodeState, Option<StoreState>);

impl Simulation {
    /// Counts from now on which situations the run meets.
    pub(crate) fn observe_from_now(&mut self) {
        self.observer = Some(Box::default());
        for (change, heard) in self.scenario.changes.iter().enumerate() {
            for (node, at) in heard.heard_at.iter().enumerate().filter(|(_, at)| **at < Nanos::MAX) {
                // Just before: the node is in the state that it had by the limit before.
                let at = at.minus(Nanos::new(1)).max(self.now);
                self.queue.push(at, Event::RuleIsHeard { node, change });
            }
        }
    }

    /// What was met so far.
    pub(crate) fn take_coverage(&mut self) -> Coverage {
        self.observer.take().map_or_else(Coverage::default, |observer| observer.coverage)
    }

    /// Runs until node 0 and the store are in a situation of key 0, at or after `from`, and returns when. `None` where
    /// that isn't so before `until`.
    pub(crate) fn run_until_met(&mut self, situation: Situation, from: Nanos, until: Nanos) -> Option<Nanos> {
        while self.next_at() <= until {
            self.step();
            if self.now >= from && self.is_met(situation) {
                return Some(self.now);
            }
        }
        None
    }

    /// Runs until the store grants a lease of key 0 to node 0 at or after `from`, and returns when.
    pub(crate) fn run_until_drawn(&mut self, from: Nanos, until: Nanos) -> Option<Nanos> {
        while self.next_at() <= until {
            self.step();
            let drawn_at = self.observer.as_ref().and_then(|observer| observer.drawn_at);
            if let Some(drawn_at) = drawn_at.filter(|drawn_at| *drawn_at >= from) {
                return Some(drawn_at);
            }
        }
        None
    }

    /// Whether node 0 and the store are in a situation of key 0 now.
    pub(crate) fn is_met(&self, (of_node, of_store): Situation) -> bool {
        self.nodes[0].is_up
            && self.node_state(0, 0) == of_node
            && of_store.is_none_or(|of_store| self.store_state(0, 0) == of_store)
    }

    /// An event comes to every key of every living node.
    pub(crate) fn observe_everywhere(&mut self, event: EventKind) {
        if self.observer.is_some() {
            (0..self.scenario.keys.len()).for_each(|key| self.observe_key(key, event));
        }
    }

    fn observe_key(&mut self, key: usize, event: EventKind) {
        (0..self.nodes.len())
            .filter(|node| self.nodes[*node].is_up)
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(|node| {
                self.observe(node, key, event);
            });
        self.observe_pair(key, event);
    }

    fn observe_node(&mut self, node: usize, event: EventKind) {
        if self.nodes[node].is_up {
            for key in 0..self.scenario.keys.len() {
                self.observe(node, key, event);
                self.observe_pair(key, event);
            }
        }
    }

    fn observe_others(&mut self, node: usize, event: EventKind) {
        for other in (0..self.nodes.len()).filter(|other| *other != node) {
            self.observe_node(other, event);
        }
    }

    fn observe(&mut self, node: usize, key: usize, event: EventKind) {
        let (of_node, of_store) = (self.node_state(node, key), self.store_state(node, key));
        if let Some(observer) = &mut self.observer {
            observer.coverage.add((of_node, of_store, event));
        }
    }

    fn observe_pair(&mut self, key: usize, event: EventKind) {
        let now = self.origin_now();
        let bucket = now.get() / BUCKET_WINDOW.get();
        let window = self.scenario.keys[key].sequence_at(now).map_or(bucket, |sequence| sequence.0);
        let Some(observer) = &mut self.observer else { return };
        let (seen_in, events) = observer.windows.entry(key).or_default();
        if *seen_in != window {
            (*seen_in, *events) = (window, BTreeSet::new());
        }
        for before in events.iter() {
            observer.coverage.add_pair(*before, event);
        }
        events.insert(event);
    }

    /// A request comes to a node.
    pub(super) fn observe_request(&mut self, node: usize, template: usize) {
        if self.observer.is_none() {
            return;
        }
        let is_report = self.scenario.templates[template].is_report;
        let (nodes_now, stores_now) = (self.nodes[node].moment(self.now).now, self.origin_now());
        let apart = nodes_now.minus(stores_now).max(stores_now.minus(nodes_now));
        for limit in self.scenario.templates[template].limits.clone() {
            let event = if is_report { EventKind::Report } else { self.request_kind(node, limit) };
            self.observe(node, limit.key, event);
            self.observe_pair(limit.key, event);
            if apart > CLOCKS_DIFFER {
                self.observe(node, limit.key, EventKind::SkewedClock);
            }
        }
    }

    fn request_kind(&self, node: usize, limit: LimitUse) -> EventKind {
        let policy = self.given(node, limit).policy;
        let size = size_of(&policy);
        match limit.cost {
            0 => EventKind::Peek,
            cost if cost > size => EventKind::BeyondLimit,
            cost if self.is_beyond_credit(node, limit.key, &policy, cost) => EventKind::BeyondCredit,
            _ => EventKind::SmallRequest,
        }
    }

    fn is_beyond_credit(&self, node: usize, key: usize, policy: &GivenPolicy, cost: u64) -> bool {
        let size = size_of(policy);
        let (plan, state) = (&self.scenario.keys[key], &self.nodes[node]);
        let table = &state.sharing().table;
        let Some(of_key) = table.state(plan.id()) else { return cost > size / 4 };
        let now = state.moment(self.now).now;
        let used = match (*policy, of_key.publishing(), of_key.cells()) {
            (GivenPolicy::Gcra { rate, .. }, Some(CountSync::Gcra { sync, .. }), _) => {
                units_used(sync.busy.tat, rate, now)
            }
            (_, _, cells) => cells.map_or(0, |(_, current, _)| current.effective()),
        };
        let headroom = size.saturating_sub(used);
        let view = of_key.view(headroom, table.live_nodes(), now);
        debug_assert!(sharers(&view, plan.class) > 0, "somebody shares the limit");
        exceeds_credit(&view, plan.class, view.spent.saturating_add(cost))
    }

    /// The store executed an exchange: holds begin and end with it.
    pub(super) fn observe_holds(&mut self, node: usize, exchange: &Exchange, exchanged: &ExchangeReply) {
        let until = self.now.plus(HOLD_TTL);
        let key = self.scenario.keys.first().map(crate::KeyPlan::id).filter(|key| self.hot.contains(key));
        let Some(observer) = &mut self.observer else { return };
        for (sync, reply) in exchange.syncs.iter().zip(exchanged.replies.iter().flatten()) {
            let id = (node, sync.key);
            if node == 0 && key == Some(sync.key) && reply.drawn > 0 {
                observer.drawn_at = Some(self.now);
            }
            if observer.holds.get(&id).is_some_and(|(held, _)| sync.ended_holds.contains(held)) {
                observer.holds.remove(&id);
            }
            if let Some(reservation) = sync.request.hold.filter(|_| reply.granted.contains(&true)) {
                observer.holds.insert(id, (reservation, until));
            }
        }
    }

    /// A node receives what was drawn ahead for keys that are hot.
    pub(super) fn observe_leases(&mut self, node: usize, keys: &[KeyId], exchanged: &ExchangeReply) {
        if self.observer.is_none() {
            return;
        }
        let drawn = keys.iter().zip(exchanged.replies.iter().flatten()).filter(|(_, reply)| reply.drawn > 0);
        for id in drawn.map(|(key, _)| *key).filter(|key| self.hot.contains(key)).collect::<Vec<_>>() {
            if let Some(key) = self.scenario.keys.iter().position(|plan| plan.id() == id) {
                self.observe(node, key, EventKind::LeaseGranted);
                self.observe_pair(key, EventKind::LeaseGranted);
            }
        }
    }

    /// A node that has an entry for a key now and none later has evicted it.
    pub(super) fn observe_entries(&mut self, node: usize) {
        let Some(mut observer) = self.observer.take() else { return };
        let state = &self.nodes[node];
        for id in self.scenario.keys.iter().map(crate::KeyPlan::id) {
            if state.sharing().table.state(id).is_some() {
                observer.known.insert((node, state.incarnation, id));
            }
        }
        self.observer = Some(observer);
    }

    pub(super) fn observe_rule(&mut self, node: usize, change: usize) {
        let (keys, policy) =
            (self.scenario.changes[change].keys.clone(), self.scenario.changes[change].policy);
        if self.nodes.get(node).is_none_or(|node| !node.is_up) {
            return;
        }
        for key in keys {
            let (before, after) = (self.scenario.keys[key].size(), size_of(&policy));
            let event = match after {
                0 => EventKind::LimitZero,
                after if after < before => EventKind::LimitLowered,
                _ => EventKind::LimitRaised,
            };
            self.observe(node, key, event);
            self.observe_pair(key, event);
            if self.scenario.world.is_some() && self.scenario.keys[key].is_quota() {
                self.observe(node, key, EventKind::QuotaChange);
                self.observe_pair(key, EventKind::QuotaChange);
            }
        }
    }

    /// Something goes wrong: each node and key that it concerns, as they are just before.
    pub(super) fn observe_fault(&mut self, fault: Fault) {
        if self.observer.is_none() {
            return;
        }
        match fault {
            Fault::Crash { node } => self.observe_node(node, EventKind::Crash),
            Fault::Leave { node } => self.observe_node(node, EventKind::Leave),
            Fault::Pause { node, .. } => self.observe_node(node, EventKind::Pause),
            Fault::StepClock { node, .. } | Fault::WallClockIsSet { node, .. } => {
                self.observe_node(node, EventKind::ClockStep);
            }
            Fault::Start { node } if self.nodes[node].is_up => {}
            Fault::Start { node } if self.is_new(node) => self.observe_others(node, EventKind::Join),
            Fault::Start { node } => self.observe_others(node, EventKind::Restart),
            Fault::Reset { key, .. } | Fault::ResetIsOrdered { key } => {
                self.observe_key(key, EventKind::Reset);
            }
            Fault::KeyIsCold { key } if self.scenario.keys[key].is_hot => {
                self.observe_key(key, EventKind::LeaseEnded);
            }
            Fault::AllPause { .. } => self.observe_everywhere(EventKind::Pause),
            Fault::StoreForgets => self.observe_everywhere(EventKind::StoreLost),
            Fault::KeyIsLost { key } => self.observe_key(key, EventKind::KeyLost),
            Fault::ComponentIsLost { key, .. } => self.observe_key(key, EventKind::FieldsLost),
            Fault::EpochIsLost { key } => self.observe_key(key, EventKind::EpochLost),
            Fault::CoordinationIsLost => self.observe_everywhere(EventKind::CoordinationLost),
            Fault::StoreFailsOver | Fault::ShardFailsOver { .. } => {
                self.observe_everywhere(EventKind::FailOver);
            }
            Fault::SlotMoves { key, .. } => self.observe_key(key, EventKind::SlotMove),
            Fault::DurationChanges { from, .. } => self.observe_key(from, EventKind::DurationChanged),
            Fault::ShardForgets { shard } => {
                let lost = shard % usize::try_from(self.scenario.shards).unwrap_or(1);
                for key in 0..self.scenario.keys.len() {
                    if usize::try_from(self.shard_of_key(key).0) == Ok(lost) {
                        self.observe_key(key, EventKind::ShardLost);
                    }
                }
            }
            _ => {}
        }
    }

    /// Whether a node was never there before.
    fn is_new(&self, node: usize) -> bool {
        self.nodes[node].incarnation == 0 && self.scenario.absent.contains(&node)
    }

    pub(super) fn node_state(&self, node: usize, key: usize) -> NodeState {
        let (plan, state) = (&self.scenario.keys[key], &self.nodes[node]);
        let id = plan.id();
        let observer = self.observer.as_ref();
        let hold = observer.and_then(|observer| observer.holds.get(&(node, id)));
        if hold.is_some_and(|(_, until)| *until > self.now) {
            return NodeState::Holding;
        }
        let Some(of_key) = state.sharing().table.state(id) else {
            let was_known =
                observer.is_some_and(|observer| observer.known.contains(&(node, state.incarnation, id)));
            return if was_known { NodeState::Evicted } else { NodeState::Absent };
        };
        if of_key.epoch() < self.newest_epoch(id) {
            return NodeState::BehindEpoch;
        }
        let now = state.moment(self.now).now;
        self.state_in_window(node, key, &of_key, now)
    }

    fn state_in_window(&self, node: usize, key: usize, state: &SharedState, now: Nanos) -> NodeState {
        let plan = &self.scenario.keys[key];
        let policy = self.given(node, LimitUse { key, cost: 0 }).policy;
        let view = state.view(0, 1, now);
        let is_previous = match (state.cells(), plan.sequence_at(now)) {
            (Some((sequence, ..)), Some(current)) => sequence < current,
            _ => false,
        };
        let is_spent = match (policy, state.cells(), state.publishing()) {
            (GivenPolicy::Gcra { rate, burst }, _, Some(CountSync::Gcra { sync, .. })) => {
                let unit = tidegate_core::gcra_sync::interval_times(rate, 1);
                let full = tidegate_core::gcra_sync::interval_times(rate, burst.get());
                sync.busy.tat.minus(now).plus(unit) > full
            }
            (_, Some((_, current, _)), _) => current.effective() >= size_of(&policy),
            _ => false,
        };
        match () {
            () if view.is_leased => NodeState::Leased,
            () if state.prepaid(&plan.spec_at(now), now) > 0 => NodeState::Prepaid,
            () if is_previous => NodeState::PreviousOnly,
            () if state.unsynced() > 0 => NodeState::Unsynced,
            () if is_spent => NodeState::Spent,
            () if !view.is_fresh => NodeState::Stale,
            () => NodeState::WithRoom,
        }
    }

    /// The newest epoch of a key that anybody knows of.
    pub(super) fn newest_epoch(&self, key: KeyId) -> u16 {
        let up = self.nodes.iter().filter(|node| node.is_up);
        let of_nodes = up.filter_map(|node| node.sharing().table.state(key)).map(|state| state.epoch()).max();
        self.origin.epoch(key).max(of_nodes.unwrap_or(0))
    }

    fn store_state(&self, node: usize, key: usize) -> StoreState {
        let (plan, now) = (&self.scenario.keys[key], self.origin_now());
        let id = plan.id();
        let epoch = self.origin.epoch(id);
        let state = self.nodes[node].sharing().table.state(id);
        if state.is_some_and(|state| state.epoch() != epoch) {
            return StoreState::OtherEpoch;
        }
        let sequence = state.and_then(|state| state.cells()).map(|(sequence, ..)| sequence);
        let condition = match sequence.or_else(|| plan.sequence_at(now)) {
            Some(sequence) => self.origin.cell_condition(&CellId { key: id, epoch, sequence }, now),
            None => self.origin.bucket_condition(id, epoch, now),
        };
        match condition {
            None => StoreState::Absent,
            Some(condition) if condition.held > 0 => StoreState::Reserved,
            Some(condition) if condition.expires.minus(now) <= EXPIRES_WITHIN => StoreState::Expiring,
            Some(condition) if condition.is_below_floor => StoreState::BelowFloor,
            Some(_) => StoreState::AtFloor,
        }
    }
}

/// What a bucket owes at `now`, in whole units.
fn units_used(tat: Nanos, rate: Rate, now: Nanos) -> u64 {
    let ticks = u128::from(tat.minus(now).get()) * u128::from(rate.interval_denominator());
    u64::try_from(ticks.div_ceil(u128::from(rate.interval_numerator_ns()))).unwrap_or(u64::MAX)
}
