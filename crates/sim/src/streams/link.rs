//! One connection from a follower to a server. Nothing on it is lost or overtaken while it lives: what a network loses is
//! sent again, later.

use bytes::Bytes;
use std::collections::VecDeque;
use tidegate_control::stream::{FollowerMessage, Subscriber};
use tidegate_core::Nanos;

/// From a node to its broker, one way.
pub(super) const NEAR: Nanos = Nanos::new(300_000);
/// What a network lost is sent again after this.
pub(super) const SENT_AGAIN_AFTER: Nanos = Nanos::from_millis(200);
/// A follower hasn't taken so many bytes yet: nothing more is sent.
pub(super) const WINDOW_BYTES: usize = 64 << 10;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct LinkId(pub(super) u64);

/// Which of the two ends of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    Follower,
    Server,
}

#[derive(Debug)]
pub(super) struct Link {
    pub(super) follower: usize,
    pub(super) server: usize,
    /// From the follower's hello on.
    pub(super) subscriber: Option<Subscriber>,
    pub(super) down: Pipe<Bytes>,
    pub(super) up: Pipe<FollowerMessage>,
    /// That the follower hasn't taken.
    pub(super) bytes_on_the_way: usize,
    pub(super) fills_at: Nanos,
    /// Ends that don't know yet that it is over.
    pub(super) is_open_at: [bool; 2],
}

impl Link {
    pub(super) fn new(follower: usize, server: usize) -> Self {
        Link {
            follower,
            server,
            subscriber: None,
            down: Pipe::default(),
            up: Pipe::default(),
            bytes_on_the_way: 0,
            fills_at: Nanos::MAX,
            is_open_at: [true; 2],
        }
    }

    pub(super) fn process_at(&self, end: End) -> usize {
        match end {
            End::Follower => self.follower,
            End::Server => self.server,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.is_open_at == [true; 2]
    }
}

/// One way of a link.
#[derive(Debug)]
pub(super) struct Pipe<T> {
    /// With when they arrive.
    queue: VecDeque<(Nanos, T)>,
    last_at: Nanos,
}

impl<T> Default for Pipe<T> {
    fn default() -> Self {
        Pipe { queue: VecDeque::new(), last_at: Nanos::ZERO }
    }
}

impl<T> Pipe<T> {
    /// Says when it arrives.
    pub(super) fn send(&mut self, message: T, at: Nanos) -> Nanos {
        self.last_at = self.last_at.max(at);
        self.queue.push_back((self.last_at, message));
        self.last_at
    }

    pub(super) fn take(&mut self) -> Option<T> {
        self.queue.pop_front().map(|(_, message)| message)
    }

    /// What has arrived.
    pub(super) fn take_until(&mut self, now: Nanos) -> Vec<T> {
        let count = self.queue.partition_point(|(at, _)| *at <= now);
        self.queue.drain(..count).map(|(_, message)| message).collect()
    }
}
