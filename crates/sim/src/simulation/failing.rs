//! What faults do to the run.

use super::{Event, Simulation};
use crate::fault::Fault;
use crate::fired::FaultKind;
use crate::network::{Latency, NetworkOptions, Odds, Way};
use crate::scenario::Arrival;
use crate::scenario::Scenario;
use crate::trace::TraceEvent;
use tidegate_core::Nanos;

/// A network that is well takes no longer, one way.
const CALM_WITHIN: Nanos = Nanos::from_millis(1);

/// A node counts as alive for so long after its last heartbeat, and a recovery waits for it.
const COUNTS_AS_ALIVE: Nanos = Nanos::from_millis(1_500);

impl Simulation {
    /// Counts what is wrong from the beginning on.
    pub(super) fn record_problems(&mut self) {
        let Scenario { clock_offsets_ns, clock_drifts_ppm, changes, .. } = &self.scenario;
        let wrong = |numbers: &[i64]| numbers.iter().filter(|number| **number != 0).count();
        let counts = [
            (wrong(clock_offsets_ns), FaultKind::ClockOff),
            (wrong(clock_drifts_ppm), FaultKind::ClockDrifted),
            (changes.len(), FaultKind::RuleChanged),
        ];
        for (count, kind) in counts {
            (0..count).for_each(|_| self.fired.count(kind));
        }
    }

    pub(super) fn go_wrong(&mut self, fault: Fault) {
        if self.is_calm {
            return;
        }
        self.trace.record(self.now, usize::MAX, TraceEvent::Fault(fault));
        self.trace_event(99, || format!("{fault:?}"));
        if let Some(kind) = fault.kind() {
            self.fired.count(kind);
        }
        self.observe_fault(fault);
        match fault {
            Fault::SlotMoves { key, length } => {
                let until = self.now.plus(length);
                self.origin.moves.push((self.scenario.keys[key].id(), until));
            }
            Fault::DurationChanges { from, to } => {
                self.successors.insert(from, to);
            }
            Fault::AllPause { length } => {
                let until = self.now.plus(length);
                for node in &mut self.nodes {
                    node.paused_until = until.max(node.paused_until);
                    node.clock_is_kept_for(length);
                }
            }
            Fault::Crash { node } => self.crash(node),
            Fault::Start { node } if !self.nodes[node].is_up => self.start(node),
            Fault::Start { .. } => {}
            Fault::Leave { node } => self.leave(node),
            Fault::Reset { node, key } => self.reset(node, key, None),
            Fault::ResetIsOrdered { key } => self.command_reset(key),
            Fault::ForeignNodeStarts => {
                self.has_foreign_node = true;
                self.foreign_beat();
            }
            Fault::ForeignNodeStops => self.has_foreign_node = false,
            Fault::Pause { node, length } => {
                let until = self.now.plus(length);
                self.nodes[node].paused_until = until.max(self.nodes[node].paused_until);
                self.nodes[node].has_slept |= length > Nanos::from_secs(20);
            }
            Fault::Cut { node, way } => self.network.set_partitioned(node, way, true),
            Fault::Mend { node, way } => self.network.set_partitioned(node, way, false),
            Fault::StepClock { node, delta_ns } if self.nodes[node].is_up => {
                self.nodes[node].step_clock(delta_ns, self.now);
            }
            Fault::WallClockIsSet { node, delta_ns } if self.nodes[node].is_up => {
                self.nodes[node].set_wall_clock(delta_ns);
            }
            Fault::StepClock { .. } | Fault::WallClockIsSet { .. } => {}
            Fault::StoreForgets => {
                self.origin.lose_data();
                self.record_loss();
            }
            Fault::ShardForgets { shard } => {
                self.origin.lose_shard_data(shard);
                self.record_loss();
            }
            Fault::KeyIsLost { key } => {
                self.record_deletion(key);
                self.origin.lose_key(self.scenario.keys[key].id());
                self.record_loss();
            }
            Fault::EpochIsLost { key } => {
                self.record_deletion(key);
                self.origin.lose_epoch(self.scenario.keys[key].id());
            }
            Fault::ComponentIsLost { key, node } => {
                self.record_deletion(key);
                self.origin.lose_component(self.scenario.keys[key].id(), self.nodes[node].id);
                self.record_loss();
            }
            Fault::CoordinationIsLost => self.origin.coordination().lose_coordination(),
            Fault::StoreIsCopied => self.origin.copy(),
            Fault::StoreFailsOver => {
                if self.origin.fail_over() {
                    self.record_loss();
                }
            }
            Fault::ShardIsCopied { shard } => self.origin.copy_shard(shard),
            Fault::ShardGoesDown { shard } => self.origin.shard_goes_down(shard),
            Fault::ShardFailsOver { shard } => {
                if self.origin.shard_fails_over(shard) {
                    self.record_loss();
                }
            }
            Fault::KeyIsHot { key } => self.heat(key, true),
            Fault::KeyIsCold { key } => self.heat(key, false),
            Fault::StorePauses { length } => {
                self.origin.paused_until = self.origin.paused_until.max(self.now.plus(length));
            }
            Fault::StoreGoesDown => self.origin.is_down = true,
            Fault::StoreComesBack => self.origin.is_down = false,
            Fault::RepliesLost { of_10_000 } => {
                self.network.options.lost_back = Odds(of_10_000);
                if of_10_000 == 0 {
                    self.answers_pass();
                }
            }
        }
    }

    /// What it waited for, and what waits for it, is nobody's any more.
    pub(super) fn crash(&mut self, node: usize) {
        let state = &mut self.nodes[node];
        state.is_up = false;
        state.waiting.clear();
        state.calls.clear();
        let now = self.origin_now();
        self.auditor.node_died(&self.nodes, &self.origin, now);
    }

    /// Somebody deletes a key, or the store evicts it: nobody notices before a node that knows the key syncs it.
    fn record_deletion(&mut self, key: usize) {
        if self.auditor.is_off() {
            return;
        }
        let now = self.origin_now();
        self.auditor.oracle_mut().record_deletion(key, &self.nodes, &self.origin, now);
    }

    /// The store lost something.
    fn record_loss(&mut self) {
        self.losses += 1;
        let now = self.origin_now();
        let waits_until = self.now.plus(COUNTS_AS_ALIVE);
        let standing_still = self.nodes.iter().filter(|node| node.paused_until > waits_until);
        let standing_still = standing_still.map(|node| node.id).collect();
        self.auditor.store_lost_data(&self.nodes, &self.origin, &standing_still, now);
    }

    fn start(&mut self, node: usize) {
        let incarnation = self.nodes[node].incarnation + 1;
        self.nodes[node] = self.boot(node, incarnation);
        self.begin(node, Nanos::ZERO);
    }

    fn heat(&mut self, key: usize, is_hot: bool) {
        self.was_hot.insert(key);
        self.scenario.keys[key].is_hot = is_hot;
        self.hot = self.scenario.hot_keys();
        for node in &self.nodes {
            node.sharing().region.set_hot(self.hot.iter().copied());
        }
    }

    /// Every node is up, and every message arrives, from now on.
    pub(crate) fn calm(&mut self, now: Nanos) {
        // A region in which nothing happened is behind the others: its nodes must not come up in the past.
        self.now = self.now.max(now);
        let NetworkOptions { latency, .. } = self.network.options;
        let (least, most) = (latency.least.min(CALM_WITHIN), latency.most.min(CALM_WITHIN));
        let latency = Latency { least, most, spikes: Odds::NEVER, ..latency };
        self.network.options = NetworkOptions { latency, ..NetworkOptions::LOOPBACK };
        self.origin.calm(self.now);
        self.is_calm = true;
        self.has_foreign_node = false;
        for heard_at in self.scenario.changes.iter_mut().flat_map(|change| &mut change.heard_at) {
            *heard_at = (*heard_at).min(self.now);
        }
        for node in 0..self.nodes.len() {
            [Way::Out, Way::Back].into_iter().for_each(|way| self.network.set_partitioned(node, way, false));
            self.nodes[node].paused_until = self.now;
            if !self.nodes[node].is_up && !self.nodes[node].has_left {
                self.start(node);
            }
        }
    }

    /// A request comes at an instant to come.
    pub(crate) fn inject_request(&mut self, arrival: Arrival) {
        self.queue.push(arrival.at.max(self.now), Event::Arrives(arrival));
    }

    /// Makes something go wrong at once, or later.
    pub fn inject(&mut self, at: Nanos, fault: Fault) {
        self.queue.push(at.max(self.now), Event::Fault(fault));
    }
}
