//! What is to happen, in the order of time; of two events at one instant, the one that was queued first.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use tidegate_core::Nanos;

#[derive(Debug)]
pub(crate) struct Queue<E> {
    heap: BinaryHeap<Reverse<Entry<E>>>,
    queued: u64,
}

#[derive(Debug)]
struct Entry<E> {
    at: Nanos,
    order: u64,
    event: E,
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

impl<E> Default for Queue<E> {
    fn default() -> Self {
        Queue { heap: BinaryHeap::new(), queued: 0 }
    }
}

impl<E> Queue<E> {
    pub(crate) fn push(&mut self, at: Nanos, event: E) {
        self.queued += 1;
        self.heap.push(Reverse(Entry { at, order: self.queued, event }));
    }

    pub(crate) fn next_at(&self) -> Option<Nanos> {
        self.heap.peek().map(|Reverse(entry)| entry.at)
    }

    pub(crate) fn pop(&mut self) -> Option<(Nanos, E)> {
        self.heap.pop().map(|Reverse(entry)| (entry.at, entry.event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_and_then_by_turn() {
        let mut queue = Queue::default();
        for (at, event) in [(3, 'c'), (1, 'a'), (3, 'd'), (2, 'b')] {
            queue.push(Nanos::new(at), event);
        }
        let order: Vec<char> = std::iter::from_fn(|| queue.pop()).map(|(_, event)| event).collect();
        assert_eq!(order, ['a', 'b', 'c', 'd']);
    }
}
