//! Nodes that join and leave, resets, and nodes of another fleet.

use super::carrying::Body;
use super::{Event, NodeEvent, Simulation};
use crate::coverage::NodeState;
use crate::scenario::Template;
use tidegate_core::{KeyId, Nanos};
use tidegate_node::GivenPolicy;
use tidegate_origin::{Heartbeat, Reset};

/// As in `crates/node/src/rules_driver/resets.rs`: an order that couldn't be carried out is tried again.
const ORDER_AGAIN_AFTER: Nanos = Nanos::from_millis(500);
/// As in `crates/node/src/engine/resets.rs`.
const RESET_MARGIN: Nanos = Nanos::from_secs(60);
/// As in `crates/node/src/region_driver.rs`.
const LEAVE_WITHIN: Nanos = Nanos::from_secs(2);
const LOOK_WHETHER_SETTLED_EVERY: Nanos = Nanos::from_millis(5);
const FOREIGN_BEAT_EVERY: Nanos = Nanos::from_millis(400);

/// A call that starts a key afresh.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResetCall {
    key: usize,
    known: u16,
    expires: Nanos,
    order: Option<u64>,
}

impl ResetCall {
    pub(super) fn key(&self) -> usize {
        self.key
    }
}

impl Simulation {
    pub(super) fn shard_of_key(&self, key: usize) -> tidegate_origin::ShardId {
        super::shard_of(self.scenario.keys[key].id(), self.scenario.shards)
    }

    /// A node carries a reset to the store.
    pub(super) fn reset(&mut self, node: usize, key: usize, order: Option<u64>) {
        let state = &self.nodes[node];
        if !state.is_up {
            return;
        }
        let plan = &self.scenario.keys[key];
        let known = state.view(plan.id()).epoch;
        let expires = state.moment(self.now).now.plus(plan.spec().longest_memory()).plus(RESET_MARGIN);
        self.send(node, Body::Reset(ResetCall { key, known, expires, order }));
    }

    /// Every node is told to reset a key: one of them does, and the store ignores the others.
    pub(super) fn order_reset(&mut self, key: usize) {
        self.orders.push(key);
        for node in 0..self.nodes.len() {
            self.nodes[node].orders_done = self.nodes[node].orders_done.min(self.orders.len() - 1);
            self.push_of(node, self.now, NodeEvent::CarryOut);
        }
    }

    /// A node carries out the orders that it hasn't yet, one after the other.
    pub(super) fn carry_out(&mut self, node: usize) {
        let next = self.nodes[node].orders_done;
        let Some(key) = self.orders.get(next).copied() else { return };
        self.reset(node, key, Some(order_number(next)));
        self.push_of(node, self.now.plus(ORDER_AGAIN_AFTER), NodeEvent::CarryOut);
    }

    /// The store carries out a reset.
    pub(super) fn reset_at_store(&mut self, call: ResetCall) -> NodeEvent {
        let ResetCall { key, known, expires, order } = call;
        let (id, now) = (self.scenario.keys[key].id(), self.origin_now());
        let before = self.origin.epoch(id);
        let epoch = self.origin.reset(id, known, expires, order, now);
        if epoch > before {
            self.auditor.was_reset(key, epoch, order);
        }
        NodeEvent::WasReset { key: id, epoch, order }
    }

    /// A node's reset was carried out: it starts afresh, and lets the others know.
    pub(super) fn was_reset(&mut self, node: usize, key: KeyId, epoch: u16, order: Option<u64>) {
        if let Some(order) = order {
            let state = &mut self.nodes[node];
            if order == order_number(state.orders_done) {
                state.orders_done += 1;
                self.push_of(node, self.now, NodeEvent::CarryOut);
            }
        }
        if epoch == 0 {
            // It was carried out before, and what was counted then is over.
            return;
        }
        let resets = vec![Reset { key, epoch }];
        self.start_afresh(node, &resets);
        self.send(node, Body::TellResets(resets));
    }

    pub(super) fn tell_resets_at_store(&mut self, resets: &[Reset]) -> NodeEvent {
        let now = self.origin_now();
        for reset in resets {
            self.auditor.reset_is_told(reset.key, reset.epoch);
        }
        NodeEvent::ToldOfResets(self.origin.desk().tell_resets(resets, now))
    }

    pub(super) fn start_afresh(&mut self, node: usize, resets: &[Reset]) {
        for Reset { key, epoch } in resets {
            self.nodes[node].sharing().table.update(*key, |state| {
                if *epoch > state.epoch() {
                    *state = state.at_epoch(*epoch);
                }
            });
        }
    }

    /// A node takes no more requests, publishes what is left, and is gone.
    pub(super) fn leave(&mut self, node: usize) {
        if self.nodes[node].is_up && !self.nodes[node].is_leaving {
            self.nodes[node].is_leaving = true;
            let gives_up_at = self.now.plus(LEAVE_WITHIN);
            self.push_of(node, self.now, NodeEvent::Leaves { gives_up_at });
        }
    }

    pub(super) fn leaves(&mut self, node: usize, gives_up_at: Nanos) {
        self.flush(node);
        let is_settled = self.nodes[node].has_nothing_to_flush() && self.nodes[node].calls.is_empty();
        if !is_settled && self.now < gives_up_at {
            let at = self.now.plus(LOOK_WHETHER_SETTLED_EVERY);
            return self.push_of(node, at, NodeEvent::Leaves { gives_up_at });
        }
        let beat = Heartbeat { leaves: true, ..self.heartbeat(node) };
        self.send_beat(node, beat);
        self.nodes[node].has_left = true;
        self.crash(node);
    }

    /// A node of another fleet says that it lives.
    pub(super) fn foreign_beat(&mut self) {
        if !self.has_foreign_node {
            return;
        }
        if self.origin.desk_answers() && self.origin.paused_until <= self.now {
            let (now, fingerprint) = (self.origin_now(), !crate::scenario::SECRET.fingerprint());
            let node = tidegate_core::origin_cell::NodeId(u64::MAX);
            let beat = Heartbeat { fingerprint, node, ..self.heartbeat(0) };
            // It is refused where somebody else's secret is known.
            let _ = self.origin.desk().beat(&beat, now);
        }
        self.queue.push(self.now.plus(FOREIGN_BEAT_EVERY), Event::ForeignBeat);
    }

    /// A node that was never there joins now. Returns its number.
    pub(crate) fn add_node(&mut self) -> usize {
        let node = self.nodes.len();
        self.scenario.clock_offsets_ns.resize(node, 0);
        self.scenario.clock_offsets_ns.push(self.scenario.origin_offset_ns);
        self.network.add_node();
        for change in &mut self.scenario.changes {
            change.heard_at.resize(node, Nanos::MAX);
            change.heard_at.push(self.now);
        }
        let state = self.boot(node, 0);
        self.nodes.push(state);
        self.begin(node, Nanos::ZERO);
        node
    }

    /// Another request that may come. Returns its number.
    pub(crate) fn add_template(&mut self, template: Template) -> usize {
        self.auditor.add_template(&template);
        self.scenario.templates.push(template);
        self.scenario.templates.len() - 1
    }

    /// The nodes that serve.
    pub(crate) fn serving_nodes(&self) -> Vec<usize> {
        (0..self.nodes.len()).filter(|node| self.nodes[*node].is_up).collect()
    }

    /// The key of a request of one limit.
    pub(crate) fn key_of(&self, template: usize) -> usize {
        self.scenario.templates[template].limits[0].key
    }

    /// Once all is calm: the store counts everything that isn't lost.
    pub(crate) fn is_conserved(&self) -> Result<(), String> {
        self.auditor.is_conserved(&self.nodes, &self.origin, self.origin_now())
    }

    /// What a perfect limiter has left of a key.
    pub(crate) fn left(&mut self, key: usize) -> u64 {
        self.follow_limit(key);
        self.auditor.oracle().left(key, self.origin_now())
    }

    /// What is left of a key and was granted to nodes, which may spend it yet, or never received the reply.
    pub(crate) fn withheld(&self, key: usize) -> u64 {
        let granted = self.auditor.oracle().granted_and_unspent(key, &self.origin, self.origin_now());
        granted.max(self.held_ahead(key))
    }

    /// What nodes were granted of a key and haven't spent.
    fn held_ahead(&self, key: usize) -> u64 {
        let up = (0..self.nodes.len()).filter(|node| self.nodes[*node].is_up);
        up.map(|node| self.prepaid(node, key)).sum()
    }

    /// Whether waits are judged where more than a limit was admitted.
    pub(crate) fn judges_overshot(&self) -> bool {
        self.scenario.judges_overshot
    }

    /// Whether more than its limit is in use of a key.
    pub(crate) fn is_overshot(&self, key: usize) -> bool {
        self.auditor.oracle().is_overshot(key, self.origin_now())
    }

    /// Whether what is left of a key is known.
    pub(crate) fn is_judged(&self, key: usize) -> bool {
        self.auditor.oracle().judges(key)
    }

    /// Whether a node denies the next request of a key without asking anybody.
    pub(crate) fn denies_alone(&self, node: usize, key: usize) -> bool {
        matches!(self.node_state(node, key), NodeState::Spent | NodeState::BehindEpoch)
    }

    /// How a node's epoch of a key differs from the newest, for a message.
    pub(crate) fn epochs(&self, node: usize, key: usize) -> String {
        let id = self.scenario.keys[key].id();
        let (known, newest) = (self.nodes[node].view(id).epoch, self.newest_epoch(id));
        if known == newest {
            String::new()
        } else {
            format!("; it missed a reset: epoch {known} of {newest}")
        }
    }

    /// A sliding window is weighed in whole units, by clocks of another resolution; and each node may have drawn some of
    /// the refill ahead.
    pub(crate) fn rounding(&self, key: usize) -> u64 {
        let plan = &self.scenario.keys[key];
        let nodes = u64::try_from(self.nodes.len()).unwrap_or(u64::MAX);
        u64::from(matches!(plan.policy, GivenPolicy::Sliding { .. })) + nodes * plan.drawn_ahead()
    }

    /// When the last node that stands still goes on.
    pub(crate) fn last_pause_ends(&self) -> Nanos {
        let nodes = self.nodes.iter().map(|node| node.paused_until);
        nodes.max().unwrap_or_default().max(self.origin.paused_until)
    }

    /// What nodes were leased of long windows and don't spend is bounded: a quarter of the limit.
    pub(crate) fn is_not_stranded(&self) -> Result<(), String> {
        for (key, plan) in self.scenario.keys.iter().enumerate() {
            let (held, limit) = (self.held_ahead(key), plan.size());
            let is_leased = plan.is_hot || self.was_hot.contains(&key);
            if is_leased && plan.period_is_long() && held > limit.div_ceil(4) {
                return Err(format!("stranded: nodes hold {held} of key {key}, whose limit is {limit}"));
            }
        }
        Ok(())
    }
}

/// Orders are numbered from 1 on.
fn order_number(index: usize) -> u64 {
    u64::try_from(index).unwrap_or(u64::MAX).saturating_add(1)
}
