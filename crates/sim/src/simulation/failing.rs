//! What faults do to the run.

use super::{Event, Simulation};
use crate::fault::Fault;
use crate::network::{Latency, NetworkOptions, Odds, Way};
use crate::scenario::Arrival;
use crate::trace::Happened;
use tidegate_core::Nanos;

/// A network that is well takes no longer, one way.
const CALM_WITHIN: Nanos = Nanos::from_millis(1);

impl Simulation {
    pub(super) fn go_wrong(&mut self, fault: Fault) {
        self.trace.note(self.now, usize::MAX, Happened::Fault(fault));
        self.tell(99, || format!("{fault:?}"));
        if let Some(kind) = fault.kind() {
            self.fired.count(kind);
        }
        match fault {
            Fault::Crash { node } => self.crash(node),
            Fault::Start { node } => self.start(node),
            Fault::Pause { node, length } => {
                let until = self.now.plus(length);
                self.nodes[node].paused_until = until.max(self.nodes[node].paused_until);
            }
            Fault::Cut { node, way } => self.network.set_cut(node, way, true),
            Fault::Mend { node, way } => self.network.set_cut(node, way, false),
            Fault::StepClock { node, delta_ns } if self.nodes[node].is_up => {
                self.nodes[node].step_clock(delta_ns, self.now);
            }
            Fault::StepClock { .. } => {}
            Fault::StoreForgets => {
                self.origin.forget();
                self.auditor.store_forgot(&self.nodes);
            }
            Fault::StoreIsCopied => self.origin.copy(),
            Fault::StoreFailsOver => {
                if self.origin.fail_over() {
                    self.auditor.store_forgot(&self.nodes);
                }
            }
            Fault::ShardIsCopied { shard } => self.origin.copy_shard(shard),
            Fault::ShardGoesDown { shard } => self.origin.shard_goes_down(shard),
            Fault::ShardFailsOver { shard } => {
                if self.origin.shard_fails_over(shard) {
                    self.auditor.store_forgot(&self.nodes);
                }
            }
            Fault::KeyIsHot { key } => self.heat(key),
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
    fn crash(&mut self, node: usize) {
        let state = &mut self.nodes[node];
        state.is_up = false;
        state.waiting.clear();
        state.calls.clear();
    }

    fn start(&mut self, node: usize) {
        let incarnation = self.nodes[node].incarnation + 1;
        self.nodes[node] = self.boot(node, incarnation);
        self.begin(node, Nanos::ZERO);
    }

    fn heat(&mut self, key: usize) {
        self.scenario.keys[key].is_hot = true;
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
        let latency = Latency { spikes: Odds::NEVER, most: latency.most.min(CALM_WITHIN), ..latency };
        self.network.options = NetworkOptions { latency, ..NetworkOptions::LOOPBACK };
        self.origin.calm(self.now);
        for node in 0..self.nodes.len() {
            [Way::Out, Way::Back].into_iter().for_each(|way| self.network.set_cut(node, way, false));
            self.nodes[node].paused_until = self.now;
            if !self.nodes[node].is_up {
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
