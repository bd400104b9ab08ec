//! Nodes that join and leave, resets, and nodes of another fleet.

use super::carrying::Body;
use super::{Event, NodeEvent, Simulation};
use crate::coverage::NodeState;
use crate::node::CLOCKS_DIFFER;
use crate::node::SimulatedNode;
use crate::scenario::{NodeFlaw, Template};
use tidegate_control::stream::RESET_BROADCAST_TTL;
use tidegate_core::Nanos;
use tidegate_core::gcra_sync::interval_times;
use tidegate_node::GivenPolicy;
use tidegate_origin::{DoneReset, Expiry, Heartbeat, Reset, ResetLog, ResetNews};

/// As in `crates/node/src/rules_driver/resets.rs`: an order that couldn't be carried out is tried again.
const RESET_RETRY_AFTER: Nanos = Nanos::from_millis(500);
/// As in `crates/node/src/engine/resets.rs`.
const RESET_MARGIN: Nanos = Nanos::from_secs(60);
/// As in `crates/node/src/region_driver.rs`.
const LEAVE_TIMEOUT: Nanos = Nanos::from_secs(2);
const LOOK_WHETHER_SETTLED_EVERY: Nanos = Nanos::from_millis(5);
/// As in `crates/core/src/gcra_sync.rs`.
const FORGIVEN_BEYOND: Nanos = Nanos::from_secs(1);
const FOREIGN_BEAT_EVERY: Nanos = Nanos::from_millis(400);

/// A call that starts a key afresh.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResetCall {
    key: usize,
    known: u16,
    expiry: Expiry,
    reset_id: Option<u64>,
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
    pub(super) fn reset(&mut self, node: usize, key: usize, reset_id: Option<u64>) {
        let state = &self.nodes[node];
        if !state.is_up || !state.sharing().region.is_reliable(self.shard_of_key(key)) {
            return;
        }
        let plan = &self.scenario.keys[key];
        let known = state.view(plan.id()).epoch;
        let now = state.moment(self.now).now;
        let at = now.plus(plan.spec_at(now).longest_memory()).plus(RESET_MARGIN);
        self.send(node, Body::Reset(ResetCall { key, known, expiry: Expiry { at, now }, reset_id }));
    }

    /// Every node is told to reset a key: one of them does, and the store ignores the others.
    pub(super) fn command_reset(&mut self, key: usize) {
        self.reset_ids.push((self.now, key));
        for node in 0..self.nodes.len() {
            self.nodes[node].orders_done = self.nodes[node].orders_done.min(self.reset_ids.len() - 1);
            self.push_of(node, self.now, NodeEvent::CarryOut);
        }
    }

    /// A node that starts carries out the orders that the control plane still tells of.
    pub(super) fn receive_resets(&mut self, node: usize) {
        if self.reset_ids.is_empty() {
            return;
        }
        let is_old = |(ordered_at, _): &(Nanos, usize)| ordered_at.plus(RESET_BROADCAST_TTL) <= self.now;
        self.nodes[node].orders_done = self.reset_ids.partition_point(is_old);
        self.push_of(node, self.now, NodeEvent::CarryOut);
    }

    /// A node carries out the orders that it hasn't yet, one after the other.
    pub(super) fn carry_out(&mut self, node: usize) {
        let next = self.nodes[node].orders_done;
        let Some((_, key)) = self.reset_ids.get(next).copied() else { return };
        self.reset(node, key, Some(order_number(next)));
        self.push_of(node, self.now.plus(RESET_RETRY_AFTER), NodeEvent::CarryOut);
    }

    /// The store carries out a reset.
    pub(super) fn reset_at_store(&mut self, call: ResetCall) -> NodeEvent {
        let ResetCall { key, known, expiry, reset_id } = call;
        let (id, now) = (self.scenario.keys[key].id(), self.origin_now());
        let (before, is_whole) = (self.origin.epoch(id), self.origin.is_whole(id));
        let epoch = self.origin.reset(id, known, expiry, reset_id, now);
        if epoch > before {
            self.auditor.was_reset(key, (epoch, reset_id), is_whole, now);
        }
        NodeEvent::WasReset {
            done: DoneReset { reset: Reset { key: id, epoch }, reset_id, expires: expiry.at },
        }
    }

    /// A node's reset was carried out: it starts afresh, and lets the others know.
    pub(super) fn was_reset(&mut self, node: usize, done: DoneReset) {
        let Reset { epoch, .. } = done.reset;
        if let Some(reset_id) = done.reset_id {
            let state = &mut self.nodes[node];
            if reset_id == order_number(state.orders_done) {
                state.orders_done += 1;
                self.push_of(node, self.now, NodeEvent::CarryOut);
            }
        }
        if epoch == 0 {
            // It was carried out before, and what was counted then is over.
            return;
        }
        let now = self.nodes[node].moment(self.now).now;
        self.nodes[node].sharing().region.remember_reset(done, now);
        self.share_resets(node, vec![done.reset]);
    }

    /// A node starts keys afresh, announces their resets, and reads which others there were.
    pub(super) fn share_resets(&mut self, node: usize, resets: Vec<Reset>) {
        let state = &self.nodes[node];
        let (sharing, now) = (state.sharing(), state.moment(self.now).now);
        sharing.region.start_afresh(&sharing.table, &resets, now);
        let news = sharing.region.reset_news(resets);
        self.send(node, Body::ShareResets(news));
    }

    pub(super) fn share_resets_at_store(&mut self, news: &ResetNews) -> NodeEvent {
        for reset in &news.resets {
            self.auditor.reset_is_sent(reset.key, reset.epoch);
        }
        NodeEvent::ResetsRead(self.origin.coordination().share_resets(news))
    }

    pub(super) fn resets_read(&mut self, node: usize, mut log: ResetLog) {
        let has_slept = std::mem::take(&mut self.nodes[node].has_slept);
        if has_slept && self.has_flaw(NodeFlaw::MissesResets) {
            (log.has_gap, log.resets) = (false, Vec::new());
        }
        let state = &self.nodes[node];
        let (sharing, now) = (state.sharing(), state.moment(self.now).now);
        sharing.region.take_resets(&sharing.table, &log, now);
    }

    /// A node takes no more requests, publishes what is left, and is gone.
    pub(super) fn leave(&mut self, node: usize) {
        if self.nodes[node].is_up && !self.nodes[node].is_leaving {
            self.nodes[node].is_leaving = true;
            let gives_up_at = self.now.plus(LEAVE_TIMEOUT);
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
        if self.origin.coordination_answers() && self.origin.paused_until <= self.now {
            let (now, fingerprint) = (self.origin_now(), !crate::scenario::SECRET.fingerprint());
            let node = tidegate_core::origin_cell::NodeId(u64::MAX);
            let acceptance = self.remembered(self.foreign_acceptance);
            let beat = Heartbeat { fingerprint, node, acceptance, ..self.heartbeat(0) };
            self.foreign_acceptance = match self.origin.coordination().beat(&beat, now) {
                Ok(_) => {
                    let is_ours =
                        |node: &SimulatedNode| node.is_up && node.acceptance.weight() > acceptance.weight();
                    self.is_anothers |= !self.nodes.iter().any(is_ours);
                    acceptance.and_taken()
                }
                Err(_) => acceptance.and_refused(),
            };
        }
        self.queue.push(self.now.plus(FOREIGN_BEAT_EVERY), Event::ForeignBeat);
    }

    /// Whether another fleet has taken over the store of a region where nobody lived.
    pub(crate) fn is_anothers(&self) -> bool {
        self.is_anothers
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

    /// What a node takes the key's shard for, to be shown.
    pub(crate) fn health_of(&self, node: usize, key: usize) -> String {
        let (region, shard) = (&self.nodes[node].sharing().region, self.shard_of_key(key));
        let condition = region.shard_conditions().into_iter().find(|condition| condition.shard == shard);
        let breaker = region.breakers().into_iter().find(|(of, ..)| *of == shard);
        format!(
            "{:?}, breaker {:?}",
            condition.map(|condition| condition.health),
            breaker.map(|(_, state, _)| state)
        )
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
        let granted =
            self.auditor.oracle().granted_and_unspent(key, &self.nodes, &self.origin, self.origin_now());
        granted.max(self.held_ahead(key))
    }

    /// What nodes were granted of a key and haven't spent.
    fn held_ahead(&self, key: usize) -> u64 {
        let up = (0..self.nodes.len()).filter(|node| self.nodes[*node].is_up);
        up.map(|node| self.prepaid(node, key)).sum()
    }

    /// What a node was granted of a key and has not spent.
    pub fn prepaid(&self, node: usize, key: usize) -> u64 {
        let (node, plan) = (&self.nodes[node], &self.scenario.keys[key]);
        let state = node.sharing().table.state(plan.id());
        state.map_or(0, |state| {
            let now = node.moment(self.now).now;
            state.prepaid(&plan.spec_at(now), now)
        })
    }

    /// How long a bucket may take to have room for a unit: as long as it takes to fill twice, which is more than nodes
    /// overshoot by, and the grace of a forgiven debt. `None` where faults may have spent more, and for windows.
    pub(crate) fn longest_wait(&self, key: usize) -> Option<Nanos> {
        let newest = self.scenario.changes.iter().rev().find(|change| change.keys.contains(&key));
        let policy = newest.map_or(self.scenario.keys[key].policy, |change| change.policy);
        let reports = |template: &Template| {
            let mut limits = template.limits.iter();
            template.is_report || limits.any(|limit| self.scenario.keys[limit.key].charges_always)
        };
        let is_calm = !self.has_faults && !self.scenario.templates.iter().any(reports);
        match policy {
            GivenPolicy::Gcra { rate, burst } if is_calm && burst.get() > 0 => {
                let full = interval_times(rate, burst.get());
                Some(full.plus(full).plus(FORGIVEN_BEYOND))
            }
            _ => None,
        }
    }

    /// Whether waits are judged where more than a limit was admitted.
    pub(crate) fn judges_overshot(&self) -> bool {
        self.scenario.judges_overshot
    }

    /// Whether more than its limit is in use of a key.
    pub(crate) fn is_overshot(&self, key: usize) -> bool {
        self.auditor.oracle().is_overshot(key, self.origin_now())
    }

    /// Whether what is left of a key is known; not at a window's turn, which is at another instant for each clock.
    pub(crate) fn is_judged(&self, key: usize) -> bool {
        let (oracle, now) = (self.auditor.oracle(), self.origin_now());
        let [before, after] = [now.minus(CLOCKS_DIFFER), now.plus(CLOCKS_DIFFER)]
            .map(|at| self.scenario.keys[key].sequence_at(at));
        before == after && oracle.judges(key) && !oracle.is_reset_lost(key, &self.nodes, &self.origin)
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
        // The store goes by a node's clock that is up to 50 ms off: what refills meanwhile, and a unit.
        let clocks_are_off = self.scenario.clock_offsets_ns.iter().any(|offset| *offset != 0);
        let skew = if clocks_are_off { 5 * plan.drawn_ahead() + 1 } else { 0 };
        u64::from(matches!(plan.policy, GivenPolicy::Sliding { .. })) + nodes * plan.drawn_ahead() + skew
    }

    /// When the last node that stands still goes on.
    pub(crate) fn last_pause_ends(&self) -> Nanos {
        let nodes = self.nodes.iter().map(|node| node.paused_until);
        nodes.max().unwrap_or_default().max(self.origin.paused_until)
    }

    /// What nodes were leased of long windows and don't spend is bounded: a quarter of the limit. Where replies are late,
    /// nodes hold what was granted to requests that gave up too.
    pub(crate) fn is_not_stranded(&self) -> Result<(), String> {
        if !self.auditor.is_calm() {
            return Ok(());
        }
        for (key, plan) in self.scenario.keys.iter().enumerate() {
            let (held, limit) = (self.held_ahead(key), self.auditor.oracle().largest_limit(key));
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
