//! Which keys have charges that the origin doesn't know yet: what a sharing node publishes next.
//!
//! A state remembers that its key was queued, so a busy key is pushed once between two syncs, and the queues
//! never hold more keys than the table does.

use crate::identity::KeyId;
use crate::state::PublishUrgency;
use crate::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Debug)]
pub(crate) struct Outbox {
    /// One queue per shard of the table, so that threads seldom meet.
    soon: Box<[Mutex<Vec<KeyId>>]>,
    now: Mutex<Vec<KeyId>>,
    /// Read after every decision, so that nobody waits for the lock to learn that there is nothing.
    is_urgent: AtomicBool,
}

impl Outbox {
    /// A lone node has nothing to publish, and no queues.
    pub(crate) fn new(shards: usize) -> Self {
        Outbox {
            soon: (0..shards).map(|_| Mutex::new(Vec::new())).collect(),
            now: Mutex::new(Vec::new()),
            is_urgent: AtomicBool::new(false),
        }
    }

    #[cold]
    pub(crate) fn push(&self, shard: usize, key: KeyId, publish: PublishUrgency) {
        match publish {
            PublishUrgency::Nothing => {}
            PublishUrgency::Soon => self.soon[shard].lock().push(key),
            PublishUrgency::Now => {
                self.now.lock().push(key);
                self.is_urgent.store(true, Ordering::Release);
            }
        }
    }

    #[inline]
    pub(crate) fn is_urgent(&self) -> bool {
        self.is_urgent.load(Ordering::Relaxed)
    }

    pub(crate) fn take_urgent(&self) -> Vec<KeyId> {
        self.is_urgent.store(false, Ordering::Release);
        std::mem::take(&mut *self.now.lock())
    }

    /// Everything that waits for the flush.
    pub(crate) fn take_soon(&self, into: &mut Vec<KeyId>) {
        for queue in &self.soon {
            into.append(&mut *queue.lock());
        }
    }
}
