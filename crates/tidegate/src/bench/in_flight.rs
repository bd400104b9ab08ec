//! Requests on their way: when each began, found again by its number, in whatever order answers come.

use std::collections::VecDeque;

/// Stands for one that was answered while one before it wasn't.
const ANSWERED: u64 = u64::MAX;

#[derive(Debug, Default)]
pub(crate) struct InFlight {
    /// The number of the first in the queue.
    first: u64,
    starts: VecDeque<u64>,
    open: usize,
}

impl InFlight {
    /// Of the next request, which began at `start`.
    #[inline]
    pub(crate) fn push(&mut self, start: u64) {
        self.starts.push_back(start);
        self.open += 1;
    }

    pub(crate) fn open(&self) -> usize {
        self.open
    }

    /// The number of the one that has waited longest, which answers in order are for.
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// When the request began whose answer this is; `None` when there is none of that number.
    #[inline]
    pub(crate) fn finish(&mut self, number: u64) -> Option<u64> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let start = std::mem::replace(self.starts.get_mut(index)?, ANSWERED);
        if start == ANSWERED {
            return None;
        }
        self.open -= 1;
        while self.starts.front() == Some(&ANSWERED) {
            self.starts.pop_front();
            self.first += 1;
        }
        Some(start)
    }

    /// All that are open, as a connection's end leaves them.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = u64> {
        std::mem::take(self).starts.into_iter().filter(|start| *start != ANSWERED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_in_any_order_find_their_request_once() {
        let mut in_flight = InFlight::default();
        [10, 20, 30].into_iter().for_each(|start| in_flight.push(start));
        assert_eq!(in_flight.finish(1), Some(20));
        assert_eq!(in_flight.finish(1), None);
        assert_eq!((in_flight.open(), in_flight.first()), (2, 0));
        assert_eq!(in_flight.finish(0), Some(10));
        assert_eq!((in_flight.open(), in_flight.first()), (1, 2));
        assert_eq!((in_flight.finish(9), in_flight.finish(0)), (None, None));
        assert_eq!(in_flight.take_all().collect::<Vec<_>>(), [30]);
        assert_eq!((in_flight.open(), in_flight.first()), (0, 0));
    }
}
