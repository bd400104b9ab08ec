//! Deals the connections of one address out to the threads that serve it.
//!
//! All of them accept, and whoever is awake does: a thread that is awake is often the one that has most to do
//! already, and would keep a burst of connections to itself. So the one with the fewest serves.
//!
//! Where a request takes hardly longer than waking up for it, the first few connections stay together instead: a
//! thread that finds several of them ready at each turn needs a quarter less time for each.

use crate::budget::ConnectionBudget;
use crate::socket::{HandedConnection, Socket};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::mpsc;

/// Connections on their way to another thread; beyond these, who accepts serves.
const HANDOVER_QUEUE_MAX: usize = 256;
/// As many connections of short requests are a thread's before the next thread gets any.
const TOGETHER_MAX: usize = 64;

/// Which thread serves a new connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BalancePolicy {
    /// The one with the fewest.
    Evenly,
    /// The first that has room, as long as one has.
    Together,
}

/// The number of connections of one thread, and the channel to it.
#[derive(Debug)]
struct ThreadLoad {
    connections: AtomicUsize,
    hand: mpsc::Sender<(HandedConnection, ThreadSlot)>,
}

/// A connection's slot at a thread, until it is dropped.
#[derive(Debug)]
pub(crate) struct ThreadSlot {
    seats: Arc<[ThreadLoad]>,
    index: usize,
}

impl Drop for ThreadSlot {
    fn drop(&mut self) {
        self.seats[self.index].connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// One thread's share of serving an address.
#[derive(Debug)]
pub struct BalancedListener {
    seats: Arc<[ThreadLoad]>,
    deal: BalancePolicy,
    /// Of the address: all of its threads have the same.
    pub(crate) budget: Arc<ConnectionBudget>,
    index: usize,
    handed: mpsc::Receiver<(HandedConnection, ThreadSlot)>,
}

impl BalancedListener {
    /// Of an address that one thread serves, with so many connections at one time.
    pub(crate) fn alone(connections_max: usize) -> BalancedListener {
        let (hand, handed) = mpsc::channel(1);
        let seats = [ThreadLoad { connections: AtomicUsize::new(0), hand }].into();
        let budget = ConnectionBudget::new(connections_max);
        BalancedListener { seats, deal: BalancePolicy::Evenly, budget, index: 0, handed }
    }

    /// One for each of the threads that serve an address, with so many connections at one time.
    pub fn of_threads(threads: usize, deal: BalancePolicy, connections_max: usize) -> Vec<BalancedListener> {
        let channels = (0..threads).map(|_| mpsc::channel(HANDOVER_QUEUE_MAX));
        let (hands, handed): (Vec<_>, Vec<_>) = channels.unzip();
        let seats = hands.into_iter().map(|hand| ThreadLoad { connections: AtomicUsize::new(0), hand });
        let seats: Arc<[ThreadLoad]> = seats.collect();
        let budget = ConnectionBudget::new(connections_max);
        let turn = |(index, handed)| BalancedListener {
            seats: seats.clone(),
            deal,
            budget: Arc::clone(&budget),
            index,
            handed,
        };
        handed.into_iter().enumerate().map(turn).collect()
    }

    /// A connection that another thread accepted for this one.
    pub(crate) async fn handed(&mut self) -> io::Result<(Socket, ThreadSlot)> {
        match self.handed.recv().await {
            Some((handed, seated)) => Ok((handed.arrive()?, seated)),
            // Never: the seats, which this holds too, keep the channel open.
            None => std::future::pending().await,
        }
    }

    /// Keeps a connection that this thread accepted, or hands it to one with fewer.
    pub(crate) fn deal(&self, socket: Socket) -> io::Result<Option<(Socket, ThreadSlot)>> {
        let index = self.next();
        if index == self.index {
            return Ok(Some((socket, self.seat(index))));
        }
        let sent = self.seats[index].hand.try_send((socket.leave()?, self.seat(index)));
        match sent.map_err(mpsc::error::TrySendError::into_inner) {
            Ok(()) => Ok(None),
            Err((handed, _)) => Ok(Some((handed.arrive()?, self.seat(self.index)))),
        }
    }

    /// Who serves the next one.
    fn next(&self) -> usize {
        let connections = |index: usize| self.seats[index].connections.load(Ordering::Relaxed);
        if self.deal == BalancePolicy::Together
            && let Some(first) = (0..self.seats.len()).find(|index| connections(*index) < TOGETHER_MAX)
        {
            return first;
        }
        // This thread, unless another has fewer connections.
        let order = |index: &usize| (connections(*index), *index != self.index);
        (0..self.seats.len()).min_by_key(order).unwrap_or(self.index)
    }

    fn seat(&self, index: usize) -> ThreadSlot {
        self.seats[index].connections.fetch_add(1, Ordering::Relaxed);
        ThreadSlot { seats: self.seats.clone(), index }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many connections each of three threads has, after so many were dealt.
    fn dealt(deal: BalancePolicy, connections: usize) -> Vec<usize> {
        let turns = BalancedListener::of_threads(3, deal, 1000);
        let seated: Vec<ThreadSlot> = (0..connections).map(|_| turns[1].seat(turns[1].next())).collect();
        assert_eq!(seated.len(), connections);
        turns[0].seats.iter().map(|seat| seat.connections.load(Ordering::Relaxed)).collect()
    }

    #[test]
    fn connections_are_dealt_evenly_or_kept_together_until_a_thread_has_enough() {
        assert_eq!(dealt(BalancePolicy::Evenly, 50), [17, 17, 16]);
        assert_eq!(dealt(BalancePolicy::Together, 50), [50, 0, 0]);
        assert_eq!(dealt(BalancePolicy::Together, 70), [64, 6, 0]);
        assert_eq!(dealt(BalancePolicy::Together, 300), [100, 100, 100]);
    }

    #[test]
    fn a_connection_that_ends_makes_room() {
        let turns = BalancedListener::of_threads(2, BalancePolicy::Together, 1000);
        let mut seated: Vec<ThreadSlot> = (0..65).map(|_| turns[0].seat(turns[0].next())).collect();
        assert_eq!(turns[0].next(), 1);
        seated.remove(0);
        assert_eq!(turns[0].next(), 0);
    }
}
