//! What requests that wait on one thread have in common: the calls that leave in its next turn, and one timer.
//!
//! Both are shared so that a request that asks costs its thread as few system calls as can be: a call for each
//! would be read and answered for each, and a timer for each wakes its own thread, which is awake. Only a
//! convenience of the driver: nothing here knows what is asked, or of whom.

#[cfg(test)]
mod tests;

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tidegate_core::KeyId;
use tokio::time::{Instant, sleep_until};

/// Threads beyond this many share queues.
const THREAD_QUEUES_MAX: usize = 8;

#[derive(Debug, Default)]
pub(super) struct ThreadQueues([Arc<ThreadQueue>; THREAD_QUEUES_MAX]);

#[derive(Debug, Default)]
pub(super) struct ThreadQueue {
    pending: Mutex<PendingKeys>,
    waits: Mutex<Waits>,
}

/// Keys whose calls leave together.
#[derive(Debug, Default)]
struct PendingKeys {
    keys: Vec<KeyId>,
    /// A task has yet to send them.
    has_sender: bool,
}

/// Those who wait, in the order in which their time ends.
#[derive(Debug, Default)]
struct Waits {
    waiting: VecDeque<Waiting>,
    /// The number of the first.
    first: u64,
    /// A task keeps the time.
    has_timer: bool,
}

#[derive(Debug)]
struct Waiting {
    until: Instant,
    /// `None` when it waits no longer.
    waker: Option<Waker>,
}

impl ThreadQueues {
    /// This thread's.
    pub(super) fn here(&self) -> &Arc<ThreadQueue> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static HERE: usize = NEXT.fetch_add(1, Ordering::Relaxed) % THREAD_QUEUES_MAX;
        }
        HERE.with(|queue| &self.0[*queue])
    }
}

impl ThreadQueue {
    /// Adds keys to what leaves next. When nobody is about to send that, says who is from now on.
    pub(super) fn add(self: &Arc<Self>, keys: &[KeyId]) -> Option<Sender> {
        let mut asked = self.pending.lock();
        asked.keys.extend_from_slice(keys);
        let has_sender = std::mem::replace(&mut asked.has_sender, true);
        (!has_sender).then(|| Sender(Some(self.clone())))
    }

    /// Returns after so long. Of one queue, nobody's may end before that of who came earlier.
    pub(super) fn wait(self: &Arc<Self>, length: Duration) -> Wait<'_> {
        Wait { queue: self, until: Instant::now() + length, number: None }
    }

    /// Tells who has waited long enough, and says until when the next one waits.
    fn expire(&self, now: Instant) -> Option<Instant> {
        let mut waits = self.waits.lock();
        while let Some(Waiting { until, waker }) = waits.waiting.front_mut() {
            match waker.take_if(|_| *until <= now) {
                Some(waker) => waker.wake(),
                None if waker.is_some() => return Some(*until),
                None => {}
            }
            waits.waiting.pop_front();
            waits.first += 1;
        }
        waits.has_timer = false;
        None
    }
}

/// Whoever holds it sends what its queue has. If it is dropped with its runtime, who asks next sends.
#[derive(Debug)]
pub(super) struct Sender(Option<Arc<ThreadQueue>>);

impl Sender {
    pub(super) fn take(mut self) -> Vec<KeyId> {
        self.0.take().map(|queue| queue.pending.lock().take()).unwrap_or_default()
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        if let Some(queue) = &self.0 {
            queue.pending.lock().has_sender = false;
        }
    }
}

impl PendingKeys {
    fn take(&mut self) -> Vec<KeyId> {
        self.has_sender = false;
        std::mem::take(&mut self.keys)
    }
}

/// A request's patience.
#[derive(Debug)]
pub(super) struct Wait<'a> {
    queue: &'a Arc<ThreadQueue>,
    until: Instant,
    /// Which one of its queue it is, once it was polled.
    number: Option<u64>,
}

impl Wait<'_> {
    pub(super) fn is_over(&self) -> bool {
        self.until <= Instant::now()
    }
}

impl Future for Wait<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.is_over() {
            return Poll::Ready(());
        }
        let queue = self.queue;
        let mut waits = queue.waits.lock();
        let number = waits.put(self.number, self.until, context.waker());
        self.number = Some(number);
        if !std::mem::replace(&mut waits.has_timer, true) {
            tokio::spawn(WaitTimer(queue.clone()).run());
        }
        Poll::Pending
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        if let Some(waiting) = self.queue.waits.lock().at(number) {
            waiting.waker = None;
        }
    }
}

impl Waits {
    fn at(&mut self, number: u64) -> Option<&mut Waiting> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.waiting.get_mut(index)
    }

    /// Has somebody told, at the place that it has or else at a new one, which it says.
    fn put(&mut self, number: Option<u64>, until: Instant, waker: &Waker) -> u64 {
        if let Some(number) = number
            && let Some(waiting) = self.at(number)
        {
            waiting.waker = Some(waker.clone());
            return number;
        }
        self.waiting.push_back(Waiting { until, waker: Some(waker.clone()) });
        self.first + self.waiting.len() as u64 - 1
    }
}

/// Keeps the time of a lane as long as anybody waits.
struct WaitTimer(Arc<ThreadQueue>);

impl WaitTimer {
    async fn run(self) {
        while let Some(until) = self.0.expire(Instant::now()) {
            sleep_until(until).await;
        }
    }
}

impl Drop for WaitTimer {
    fn drop(&mut self) {
        let mut waits = self.0.waits.lock();
        waits.has_timer = false;
        // It was dropped with its runtime: who waits on another one needs another keeper.
        for waiting in &mut waits.waiting {
            if let Some(waker) = waiting.waker.take() {
                waker.wake();
            }
        }
    }
}
