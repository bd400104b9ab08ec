//! What is to happen, in the order of time; of two events at one instant, the one that was queued first.
//!
//! Most of what is queued is a deadline that somebody is sure to be ahead of. Those of one length end in the order
//! in which they began, so they wait in a lane of their own, small and side by side, and can be called off: a heap
//! that held them would be thousands of times as large as what really happens next.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use tidegate_core::Nanos;

/// Events lie still while the heap orders their instants: they are several times as large. `D` is what becomes an
/// event when it isn't called off.
#[derive(Debug)]
pub(crate) struct Queue<E, D = E> {
    heap: BinaryHeap<Reverse<QueueEntry>>,
    events: Vec<Option<E>>,
    free: Vec<u32>,
    queued: u64,
    lanes: [DeadlineLane<D>; DEADLINE_LANES],
}

/// Deadlines of so many lengths have lanes.
const DEADLINE_LANES: usize = 3;

/// An event's instant and slot. Ordered by its fields.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct QueueEntry {
    at: Nanos,
    order: u64,
    place: u32,
}

/// Deadlines of one length. The first is never one that was called off.
#[derive(Debug)]
struct DeadlineLane<D> {
    /// How many have left it.
    removed: u64,
    deadlines: VecDeque<Deadline<D>>,
}

#[derive(Debug)]
struct Deadline<D> {
    at: Nanos,
    order: u64,
    /// Nothing when it was called off.
    what: Option<D>,
}

/// What a deadline is called off by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeadlineId {
    lane: usize,
    number: u64,
}

impl<E, D> Default for Queue<E, D> {
    fn default() -> Self {
        let lane = |_| DeadlineLane { removed: 0, deadlines: VecDeque::new() };
        Queue {
            heap: BinaryHeap::new(),
            events: Vec::new(),
            free: Vec::new(),
            queued: 0,
            lanes: std::array::from_fn(lane),
        }
    }
}

impl<D> DeadlineLane<D> {
    fn drop_called_off(&mut self) {
        while self.deadlines.front().is_some_and(|first| first.what.is_none()) {
            self.deadlines.pop_front();
            self.removed += 1;
        }
    }
}

impl<E, D: Into<E>> Queue<E, D> {
    pub(crate) fn push(&mut self, at: Nanos, event: E) {
        self.queued += 1;
        let place = self.put(event);
        self.heap.push(Reverse(QueueEntry { at, order: self.queued, place }));
    }

    /// Queues what may be called off, in the lane of its length. `None` when it is sooner than one that is there: then
    /// it can't be.
    pub(crate) fn push_deadline(&mut self, lane: usize, at: Nanos, what: D) -> Option<DeadlineId> {
        let deadlines = &mut self.lanes[lane].deadlines;
        if deadlines.back().is_some_and(|last| last.at > at) {
            self.push(at, what.into());
            return None;
        }
        self.queued += 1;
        deadlines.push_back(Deadline { at, order: self.queued, what: Some(what) });
        let number = self.lanes[lane].removed + (self.lanes[lane].deadlines.len() as u64 - 1);
        Some(DeadlineId { lane, number })
    }

    /// Nothing comes of a deadline any more. One that is over already is left alone.
    pub(crate) fn call_off(&mut self, id: DeadlineId) {
        let lane = &mut self.lanes[id.lane];
        let index = id.number.checked_sub(lane.removed).and_then(|index| usize::try_from(index).ok());
        if let Some(deadline) = index.and_then(|index| lane.deadlines.get_mut(index)) {
            deadline.what = None;
            lane.drop_called_off();
        }
    }

    fn put(&mut self, event: E) -> u32 {
        if let Some(place) = self.free.pop() {
            self.events[index_of(place)] = Some(event);
            return place;
        }
        self.events.push(Some(event));
        u32::try_from(self.events.len() - 1).expect("fewer than four billion events wait")
    }

    /// The lane whose first is the first of all, and the instant; no lane when it is the heap's.
    fn next(&self) -> Option<(Nanos, Option<usize>)> {
        let mut first = self.heap.peek().map(|Reverse(entry)| (entry.at, entry.order, None));
        for (index, lane) in self.lanes.iter().enumerate() {
            let Some(Deadline { at, order, .. }) = lane.deadlines.front() else { continue };
            if first.is_none_or(|(earliest, before, _)| (*at, *order) < (earliest, before)) {
                first = Some((*at, *order, Some(index)));
            }
        }
        first.map(|(at, _, lane)| (at, lane))
    }

    pub(crate) fn next_at(&self) -> Option<Nanos> {
        self.next().map(|(at, _)| at)
    }

    pub(crate) fn pop(&mut self) -> Option<(Nanos, E)> {
        let Some(index) = self.next()?.1 else { return self.pop_heap() };
        let lane = &mut self.lanes[index];
        let Deadline { at, what, .. } = lane.deadlines.pop_front()?;
        lane.removed += 1;
        lane.drop_called_off();
        Some((at, what?.into()))
    }

    fn pop_heap(&mut self) -> Option<(Nanos, E)> {
        let Reverse(QueueEntry { at, place, .. }) = self.heap.pop()?;
        let event = self.events[index_of(place)].take()?;
        self.free.push(place);
        Some((at, event))
    }
}

fn index_of(place: u32) -> usize {
    usize::try_from(place).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(mut queue: Queue<char>) -> String {
        std::iter::from_fn(|| queue.pop()).map(|(_, event)| event).collect()
    }

    #[test]
    fn events_come_by_time_and_then_by_turn() {
        let mut queue = Queue::default();
        for (at, event) in [(3, 'c'), (1, 'a'), (3, 'd'), (2, 'b')] {
            queue.push(Nanos::new(at), event);
        }
        assert_eq!(order(queue), "abcd");
    }

    #[test]
    fn deadlines_come_in_their_turn_among_events() {
        let mut queue = Queue::default();
        queue.push(Nanos::new(3), 'c');
        queue.push_deadline(0, Nanos::new(3), 'd');
        queue.push_deadline(1, Nanos::new(1), 'a');
        queue.push(Nanos::new(3), 'e');
        queue.push_deadline(1, Nanos::new(4), 'f');
        assert!(queue.push_deadline(1, Nanos::new(2), 'b').is_none(), "sooner than one that is there");
        assert_eq!(order(queue), "abcdef");
    }

    #[test]
    fn what_is_called_off_never_comes() {
        let mut queue = Queue::<char>::default();
        let ids = [(1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')]
            .map(|(at, event)| queue.push_deadline(2, Nanos::new(at), event).unwrap());
        queue.call_off(ids[1]);
        queue.call_off(ids[0]);
        assert_eq!(queue.next_at(), Some(Nanos::new(3)));
        assert_eq!(queue.pop(), Some((Nanos::new(3), 'c')));
        queue.call_off(ids[2]);
        queue.call_off(ids[0]);
        assert_eq!(order(queue), "d");
    }
}
