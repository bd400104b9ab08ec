//! What is to happen, in the order of time; of two events at one instant, the one that was queued first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use tidegate_core::Nanos;

/// Events lie still while the heap orders their instants: they are several times as large.
#[derive(Debug)]
pub(crate) struct Queue<E> {
    heap: BinaryHeap<Reverse<Entry>>,
    events: Vec<Option<E>>,
    free: Vec<u32>,
    queued: u64,
}

/// Compared in the order of its fields.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Entry {
    at: Nanos,
    order: u64,
    place: u32,
}

impl<E> Default for Queue<E> {
    fn default() -> Self {
        Queue { heap: BinaryHeap::new(), events: Vec::new(), free: Vec::new(), queued: 0 }
    }
}

impl<E> Queue<E> {
    pub(crate) fn push(&mut self, at: Nanos, event: E) {
        self.queued += 1;
        let place = self.put(event);
        self.heap.push(Reverse(Entry { at, order: self.queued, place }));
    }

    fn put(&mut self, event: E) -> u32 {
        if let Some(place) = self.free.pop() {
            self.events[index_of(place)] = Some(event);
            return place;
        }
        self.events.push(Some(event));
        u32::try_from(self.events.len() - 1).expect("fewer than four billion events wait")
    }

    pub(crate) fn next_at(&self) -> Option<Nanos> {
        self.heap.peek().map(|Reverse(entry)| entry.at)
    }

    pub(crate) fn pop(&mut self) -> Option<(Nanos, E)> {
        let Reverse(Entry { at, place, .. }) = self.heap.pop()?;
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
