//! Deals the connections of one address out to the threads that serve it.
//!
//! All of them accept, and whoever is awake does: a thread that is awake is often the one that has most to do
//! already, and would keep a burst of connections to itself. So the one with the fewest serves.

use crate::socket::{Handed, Socket};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::mpsc;

/// Connections on their way to another thread; beyond these, who accepts serves.
const HANDED_MAX: usize = 256;

#[derive(Debug)]
struct Seat {
    connections: AtomicUsize,
    hand: mpsc::Sender<(Handed, Seated)>,
}

/// A connection's place at a thread, until it is dropped.
#[derive(Debug)]
pub(crate) struct Seated {
    seats: Arc<[Seat]>,
    index: usize,
}

impl Drop for Seated {
    fn drop(&mut self) {
        self.seats[self.index].connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// One thread's part in serving an address.
#[derive(Debug)]
pub struct Turn {
    seats: Arc<[Seat]>,
    index: usize,
    handed: mpsc::Receiver<(Handed, Seated)>,
}

impl Turn {
    /// Of an address that one thread serves.
    pub(crate) fn alone() -> Turn {
        let (hand, handed) = mpsc::channel(1);
        Turn { seats: [Seat { connections: AtomicUsize::new(0), hand }].into(), index: 0, handed }
    }

    /// One for each of the threads that serve an address.
    pub fn of_threads(threads: usize) -> Vec<Turn> {
        let channels = (0..threads).map(|_| mpsc::channel(HANDED_MAX));
        let (hands, handed): (Vec<_>, Vec<_>) = channels.unzip();
        let seats = hands.into_iter().map(|hand| Seat { connections: AtomicUsize::new(0), hand });
        let seats: Arc<[Seat]> = seats.collect();
        let turn = |(index, handed)| Turn { seats: seats.clone(), index, handed };
        handed.into_iter().enumerate().map(turn).collect()
    }

    /// A connection that another thread accepted for this one.
    pub(crate) async fn handed(&mut self) -> io::Result<(Socket, Seated)> {
        match self.handed.recv().await {
            Some((handed, seated)) => Ok((handed.arrive()?, seated)),
            // Never: the seats, which this holds too, keep the channel open.
            None => std::future::pending().await,
        }
    }

    /// Keeps a connection that this thread accepted, or hands it to one with fewer.
    pub(crate) fn deal(&self, socket: Socket) -> io::Result<Option<(Socket, Seated)>> {
        let index = self.idlest();
        if index == self.index {
            return Ok(Some((socket, self.seat(index))));
        }
        let sent = self.seats[index].hand.try_send((socket.leave()?, self.seat(index)));
        match sent.map_err(mpsc::error::TrySendError::into_inner) {
            Ok(()) => Ok(None),
            Err((handed, _)) => Ok(Some((handed.arrive()?, self.seat(self.index)))),
        }
    }

    /// This thread, unless another has fewer connections.
    fn idlest(&self) -> usize {
        let connections = |index: usize| self.seats[index].connections.load(Ordering::Relaxed);
        let order = |index: &usize| (connections(*index), *index != self.index);
        (0..self.seats.len()).min_by_key(order).unwrap_or(self.index)
    }

    fn seat(&self, index: usize) -> Seated {
        self.seats[index].connections.fetch_add(1, Ordering::Relaxed);
        Seated { seats: self.seats.clone(), index }
    }
}
