//! What a node sets itself a time for: hundreds of thousands of these wait at once, and nearly all are called off.

use super::carrying::timed_out;
use super::{Event, NodeEvent, Simulation};
use crate::node::Ticket;
use crate::queue::DeadlineId;
use tidegate_core::Nanos;

#[derive(Debug)]
pub(crate) struct Deadline {
    node: u32,
    incarnation: u32,
    what: DeadlineOf,
}

#[derive(Debug)]
pub(super) enum DeadlineOf {
    /// A request has waited long enough.
    Wait(Ticket),
    /// A call has.
    Call(Ticket),
    Flush,
}

impl DeadlineOf {
    /// Those of one lane take equally long.
    fn lane(&self) -> usize {
        match self {
            DeadlineOf::Wait(_) => 0,
            DeadlineOf::Call(_) => 1,
            DeadlineOf::Flush => 2,
        }
    }
}

impl From<Deadline> for Event {
    fn from(Deadline { node, incarnation, what }: Deadline) -> Self {
        let what = match what {
            DeadlineOf::Wait(ticket) => NodeEvent::Resume(ticket),
            DeadlineOf::Call(call) => NodeEvent::Ends(call, Err(timed_out())),
            DeadlineOf::Flush => NodeEvent::Flush,
        };
        Event::OfNode { node: usize::try_from(node).unwrap_or(usize::MAX), incarnation, what }
    }
}

impl Simulation {
    pub(super) fn set_deadline(&mut self, node: usize, at: Nanos, what: DeadlineOf) -> Option<DeadlineId> {
        let incarnation = self.nodes[node].incarnation;
        let lane = what.lane();
        let node = u32::try_from(node).expect("a fleet has thousands of nodes at most");
        self.queue.push_deadline(lane, at, Deadline { node, incarnation, what })
    }
}
