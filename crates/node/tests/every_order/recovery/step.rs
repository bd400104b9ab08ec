//! What can happen next in the region, and what is left out.

use super::known_failures::Combination;
use super::{LAST, Node, Region, Scope};
use crate::search::Protocol;
use tidegate_core::state::{PublishUrgency, State as _};

#[derive(Clone, Debug)]
pub(super) enum Step {
    Request {
        node: usize,
    },
    /// The node publishes in the background what it has admitted.
    Publish {
        node: usize,
    },
    /// The store executes a message and replies.
    Execute {
        message: usize,
    },
    Deliver {
        answer: usize,
    },
    TimeOut {
        node: usize,
    },
    Crash {
        node: usize,
    },
    LoseData,
    Reset {
        node: usize,
    },
    /// A heartbeat announces the reset to the node.
    LearnReset {
        node: usize,
    },
    Pause,
    Join,
}

impl Region {
    /// A request at this node would ask by an older epoch than the store's.
    fn asks_by_old_epoch(&self, node: &Node) -> bool {
        let mut state = node.state;
        let (decision, reason) = state.decide(&self.item(), self.live_nodes(), self.now);
        node.state.epoch() < self.ledger.epoch && decision.is_admitted() && reason.is_some()
    }

    fn may_request(&self, node: &Node) -> bool {
        let is_left_out = self.leaves_out(Combination::AskByOldEpoch) && self.asks_by_old_epoch(node);
        let has_joined = self.nodes[LAST].is_up();
        node.call.is_none() && !is_left_out && (!has_joined || node.id == self.nodes[LAST].id)
    }

    fn may_lose_data(&self) -> bool {
        // A reply that arrives after the loss isn't published again either.
        let is_idle = self.leaves_out(Combination::IdleDataLoss) && !self.answers.is_empty();
        let is_after_crash = self.leaves_out(Combination::DataLossWithDeadOwner)
            && self.ledger.owners().any(|id| self.nodes.iter().all(|node| node.id != id));
        let is_after_reset = self.leaves_out(Combination::DataLossAfterReset) && self.ledger.generation > 0;
        !(is_idle || is_after_crash || is_after_reset)
    }

    fn may_reset(&self, node: &Node) -> bool {
        let has_asks = self.messages.iter().any(|message| !message.sync.request.asks.is_empty());
        let is_late = self.leaves_out(Combination::LateReply) && node.call.is_some();
        let is_ask_late = self.leaves_out(Combination::AskByOldEpoch) && has_asks;
        !(is_late || is_ask_late)
    }

    fn may_pause(&self) -> bool {
        let has_missed = self.nodes.iter().any(|node| self.is_behind(node));
        // A call lasts for some milliseconds, a pause for 21 s.
        let is_calling = self.nodes.iter().any(|node| node.call.is_some());
        let is_left_out = self.leaves_out(Combination::MissedReset) && has_missed;
        !(is_calling || is_left_out)
    }

    fn may_learn(&self, node: &Node) -> bool {
        self.is_behind(node) && !(self.leaves_out(Combination::LateReply) && node.call.is_some())
    }
}

impl Protocol for Region {
    type Step = Step;

    fn steps(&self) -> Vec<Step> {
        let Scope { requests, timeouts, crashes, data_losses, resets, pauses, joins, .. } = self.scope;
        let mut steps = Vec::new();
        for (index, node) in self.nodes.iter().enumerate().filter(|(_, node)| node.is_up()) {
            let is_idle = node.call.is_none();
            let may = [
                (requests > 0 && self.may_request(node), Step::Request { node: index }),
                (is_idle && node.state.publish() != PublishUrgency::Nothing, Step::Publish { node: index }),
                (timeouts > 0 && !is_idle, Step::TimeOut { node: index }),
                (crashes > 0 && node.has_entry(), Step::Crash { node: index }),
                (resets > 0 && self.may_reset(node), Step::Reset { node: index }),
                (self.may_learn(node), Step::LearnReset { node: index }),
            ];
            steps.extend(may.into_iter().filter(|(may, _)| *may).map(|(_, step)| step));
        }
        steps.extend((0..self.messages.len()).map(|message| Step::Execute { message }));
        steps.extend((0..self.answers.len()).map(|answer| Step::Deliver { answer }));
        let may = [
            (data_losses > 0 && self.may_lose_data(), Step::LoseData),
            (pauses > 0 && self.may_pause(), Step::Pause),
            (joins > 0, Step::Join),
        ];
        steps.extend(may.into_iter().filter(|(may, _)| *may).map(|(_, step)| step));
        steps
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Request { node } => {
                self.scope.requests -= 1;
                self.request(node);
            }
            Step::Publish { node } => self.publish(node),
            Step::Execute { message } => {
                let message = self.messages.remove(message);
                self.execute(&message);
            }
            Step::Deliver { answer } => {
                let answer = self.answers.remove(answer);
                self.deliver(&answer);
            }
            Step::TimeOut { node } => {
                self.scope.timeouts -= 1;
                self.time_out(node);
            }
            Step::Crash { node } => {
                self.scope.crashes -= 1;
                self.crash(node);
            }
            Step::LoseData => {
                self.scope.data_losses -= 1;
                self.lose_data();
            }
            Step::Reset { node } => {
                self.scope.resets -= 1;
                self.reset(node);
            }
            Step::LearnReset { node } => self.apply_reset(node),
            Step::Pause => {
                self.scope.pauses -= 1;
                self.pause();
            }
            Step::Join => {
                self.scope.joins -= 1;
                self.join();
            }
        }
    }

    fn check(&self) -> Result<(), String> {
        self.judge()
    }
}
