//! Carries the region's messages: sends what the logic in `region.rs` says, waits no longer than a request
//! may, and beats the heart of this node.
//!
//! Decides nothing. An exchange that was sent always comes back to the logic, answered or failed, so that no
//! key stays in flight for ever.

mod heartbeats;
mod hot;
mod lanes;
mod leaving;
mod owners;
mod pulses;

use crate::clock::Clock;
use crate::driver::calm_interval;
use crate::engine::{DecideOutcome, Engine, PendingDecision, ResetKey};
use crate::known_nodes::KnownNodes;
use crate::region::{AskId, AskOutcomes, Effects, OutgoingExchange, Region, Wake};
use crate::request::Answer;
use crate::sharing::Sharing;
use arc_swap::ArcSwap;
use lanes::{Sender, ThreadQueues, Wait};
use parking_lot::Mutex;
use pulses::Pulses;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tidegate_core::{KeyId, Nanos};
use tidegate_origin::{Acceptance, DoneReset, Expiry, Reset, ResetLog, ShardId};
pub use tidegate_origin::{BreakerState, Origin, OriginError};
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

/// What was admitted is published within 100 ms: half of that, and the time it takes.
const FLUSH_EVERY: Duration = Duration::from_millis(50);
const ALIVE_FOR: Nanos = HEARTBEAT_TTL;
/// How long after its last heartbeat a node counts as alive.
pub const HEARTBEAT_TTL: Nanos = Nanos::from_millis(1500);
/// The runtime's timers may be a millisecond late; a request's wait is hard.
const TIMER_SLACK: Duration = Duration::from_millis(1);
/// From the socket to the connection's task, from there to the exchange's, from there to the request's.
const TURNS: usize = 3;
/// A reset waits so long for a store that is recovering.
const RESET_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub struct RegionDriver {
    engine: Arc<Engine>,
    clock: Arc<Clock>,
    origin: ArcSwap<Box<dyn Origin>>,
    wait: Duration,
    thread_queues: ThreadQueues,
    /// The store belongs to a fleet with another secret: nothing is sent there.
    is_foreign: AtomicBool,
    /// This node doesn't know the fleet's secret yet: nothing is sent, not even a heartbeat.
    is_held: watch::Sender<bool>,
    /// The store has told its time: until then nothing is sent there, because this node's cells may be others.
    knows_time: watch::Sender<bool>,
    /// No heartbeat may follow the last one.
    is_leaving: AtomicBool,
    /// What the next process is told of the region's nodes.
    known_nodes: OnceLock<Arc<KnownNodes>>,
    /// How the store has answered this node's heartbeats.
    acceptance: Mutex<Acceptance>,
    pulses: Pulses,
}

/// A request that waits; dropped with the request, or when it was decided.
struct Waiter<'a> {
    region: &'a Region,
    id: AskId,
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.region.give_up(self.id);
        self.region.complete(self.id);
    }
}

impl RegionDriver {
    /// For an engine that shares its counts; `None` for one that is alone.
    pub fn new(
        engine: Arc<Engine>,
        clock: Arc<Clock>,
        origin: Box<dyn Origin>,
        wait: Duration,
    ) -> Option<Arc<Self>> {
        engine.shared()?;
        let knows_time = watch::Sender::new(!origin.keeps_time());
        let origin = ArcSwap::from_pointee(origin);
        let [is_foreign, is_leaving] = [AtomicBool::new(false), AtomicBool::new(false)];
        let (thread_queues, is_held) = (ThreadQueues::default(), watch::Sender::new(false));
        let known_nodes = OnceLock::new();
        let pulses = Pulses::default();
        Some(Arc::new(RegionDriver {
            engine,
            clock,
            origin,
            wait,
            thread_queues,
            is_foreign,
            is_held,
            knows_time,
            is_leaving,
            known_nodes,
            acceptance: Mutex::default(),
            pulses,
        }))
    }

    /// Keeps the number of live nodes for the next process, and begins with what an earlier one kept.
    pub fn set_known_nodes(&self, known: KnownNodes) {
        self.shared().assume_nodes(known.last());
        let _ = self.known_nodes.set(Arc::new(known));
    }

    fn record_nodes(&self, nodes: u32) {
        self.shared().set_live_nodes(nodes);
        if let Some(known) = self.known_nodes.get().filter(|known| !known.is(nodes)).cloned() {
            tokio::task::spawn_blocking(move || known.write(nodes));
        }
    }

    fn shared(&self) -> &Sharing {
        // `new` made sure.
        self.engine.shared().unwrap_or_else(|| unreachable!("a driver of an engine that is alone"))
    }

    pub fn origin(&self) -> Arc<Box<dyn Origin>> {
        self.origin.load_full()
    }

    /// Why no heartbeat was answered since the start; `None` once one was.
    pub fn never_answered_because(&self) -> Option<OriginError> {
        self.pulses.never_answered()
    }

    pub fn is_foreign(&self) -> bool {
        self.is_foreign.load(Ordering::Relaxed)
    }

    /// Whether nothing is sent because the fleet's secret isn't known yet.
    pub fn is_held(&self) -> bool {
        *self.is_held.borrow()
    }

    /// Sends nothing until released: keys that are hashed with a secret that isn't the fleet's mean nothing to others.
    pub fn hold(&self) {
        self.is_held.send_replace(true);
    }

    pub fn release(&self) {
        self.is_held.send_replace(false);
    }

    /// Waits until the store has told its time, `most` at most: what is asked before that can't be sent.
    pub async fn until_time_is_known(&self, most: Duration) {
        let mut knows_time = self.knows_time.subscribe();
        if !self.is_held() {
            // A store that can't be reached isn't waited for: callers are decided on the local view.
            let _ = timeout(most, knows_time.wait_for(|knows_time| *knows_time)).await;
        }
    }

    /// Asks what must be asked, and decides with what was heard in time.
    pub async fn ask<'r>(self: &Arc<Self>, mut asking: Box<PendingDecision<'r>>) -> Answer<'r> {
        let mut patience = pin!(self.thread_queues.here().wait(self.wait.saturating_sub(TIMER_SLACK)));
        let answer = loop {
            let (waiter, outcomes) = self.receive(&asking, patience.as_mut()).await;
            let now = self.clock.now();
            let decided = if patience.is_over() {
                DecideOutcome::Answer(self.engine.resume(*asking, &outcomes, now))
            } else {
                self.engine.resume_or_ask(*asking, &outcomes, now)
            };
            drop(waiter);
            match decided {
                DecideOutcome::Answer(answer) => break answer,
                DecideOutcome::Ask(again) => asking = again,
            }
        };
        self.publish_urgent();
        answer
    }

    /// What becomes of asking, until the patience ends.
    async fn receive<'s>(
        self: &'s Arc<Self>,
        asking: &PendingDecision<'_>,
        patience: Pin<&mut Wait<'_>>,
    ) -> (Waiter<'s>, AskOutcomes) {
        let Sharing { table, region, .. } = self.shared();
        let (waker, mut woken) = oneshot::channel::<AskOutcomes>();
        let wake: Wake = Box::new(move |outcomes| {
            // Nobody listens any more when the request gave up.
            let _ = waker.send(outcomes);
        });
        let origin = self.origin();
        let route = |key: KeyId| origin.shard_of(key);
        let (id, effects) = region.ask(table, asking.asks(), self.clock.now(), &route, wake);
        let waiter = Waiter { region, id };
        self.execute(effects);
        let in_time = tokio::select! {
            biased;
            outcomes = &mut woken => outcomes.ok(),
            () = patience => poll_once_more(&mut woken).await,
        };
        // It may have been woken at the last moment.
        let in_time = in_time.or_else(|| region.give_up(id)).or_else(|| woken.try_recv().ok());
        (waiter, in_time.unwrap_or_default())
    }

    /// Publishes keys that have spent half of their credit. Called after decisions; nearly always nothing.
    #[inline]
    pub fn publish_urgent(self: &Arc<Self>) {
        if self.shared().table.is_urgent() {
            let origin = self.origin();
            let moment = self.clock.now();
            let Sharing { table, region, .. } = self.shared();
            self.execute(region.publish_urgent(table, moment, &|key| origin.shard_of(key)));
        }
    }

    /// Says whether there was anything to send.
    fn flush(self: &Arc<Self>) -> bool {
        let origin = self.origin();
        let Sharing { table, region, .. } = self.shared();
        let effects = region.flush(table, self.clock.now(), &|key| origin.shard_of(key));
        let sends = !effects.send.is_empty();
        self.execute(effects);
        sends
    }

    fn execute(self: &Arc<Self>, effects: Effects) {
        for (wake, outcomes) in effects.finished {
            wake(outcomes);
        }
        for outgoing in effects.send {
            tokio::spawn(self.clone().carry(outgoing));
        }
        for shard in effects.pulse {
            tokio::spawn(self.clone().pulse(shard));
        }
        if !effects.restore.is_empty() {
            tokio::spawn(self.clone().restore_resets(effects.restore));
        }
        if !effects.asked_keys.is_empty()
            && let Some(sender) = self.thread_queues.here().add(&effects.asked_keys)
        {
            tokio::spawn(self.clone().send_asks(sender));
        }
    }

    /// Sends what the requests of this thread asked that had their turn before this task has its own: they came
    /// together, and leave together.
    async fn send_asks(self: Arc<Self>, sender: Sender) {
        let origin = self.origin();
        let route = |key: KeyId| origin.shard_of(key);
        let Sharing { table, region, .. } = self.shared();
        let mut effects = region.send_asks(table, &sender.take(), self.clock.now(), &route);
        let first = effects.send.pop();
        self.execute(effects);
        if let Some(outgoing) = first {
            self.carry(outgoing).await;
        }
    }

    /// Sends one exchange and brings the answer back.
    async fn carry(self: Arc<Self>, outgoing: OutgoingExchange) {
        let origin = self.origin();
        let result = if let Some(cause) = self.why_silent() {
            Err(OriginError::Unreachable { cause: cause.to_owned() })
        } else {
            self.notice_reconnect(&origin, outgoing.shard);
            origin.exchange(outgoing.shard, &outgoing.exchange).await
        };
        if let Err(error) = &result {
            tracing::debug!(%error, shard = origin.shard_name(outgoing.shard), "an exchange failed");
        }
        let route = |key: KeyId| origin.shard_of(key);
        let Sharing { table, region, .. } = self.shared();
        let effects = region.replied(table, outgoing, result, self.clock.now(), &route);
        self.execute(effects);
    }

    /// Why nothing may be sent to the store yet.
    fn why_silent(&self) -> Option<&'static str> {
        if self.is_held() {
            Some("the fleet's secret isn't known yet")
        } else if self.is_foreign() {
            Some("the store belongs to another fleet")
        } else if !*self.knows_time.borrow() {
            Some("the store hasn't told its time yet")
        } else {
            None
        }
    }

    /// Flushes, beats and looks after hot keys until the future is dropped. None waits for the other: a store that
    /// hangs must not keep the flush from its pace.
    pub async fn run(self: Arc<Self>) {
        // The sender lives as long as the driver.
        let _ = self.is_held.subscribe().wait_for(|is_held| !is_held).await;
        tokio::join!(
            self.run_flush(),
            self.run_heartbeats(),
            self.run_hot_key_scan(),
            self.run_hot_key_reports(),
            self.run_folding(),
        );
    }

    async fn run_flush(self: &Arc<Self>) {
        let mut tick = calm_interval(FLUSH_EVERY);
        loop {
            tick.tick().await;
            self.flush();
        }
    }

    /// Starts keys afresh for all nodes of the region: each moves on to cells of a new epoch, the others within
    /// a heartbeat. Says how many. What has an `order` is done once in a region, however many nodes are told.
    pub async fn reset(&self, keys: &[ResetKey], reset_id: Option<u64>) -> Result<usize, OriginError> {
        let origin = self.origin();
        let mut resets = Vec::new();
        for ResetKey { key, forgotten_at, is_world } in keys {
            let mut known = 0;
            self.shared().table.update(*key, |state| known = state.epoch());
            let (shard, expires) = (origin.shard_of(*key), *forgotten_at);
            self.until_recovered(shard).await?;
            let expiry = Expiry { at: expires, now: self.clock.now().now };
            let epoch = origin.reset_once(shard, *key, known, expiry, reset_id).await?;
            if epoch == 0 {
                // It was carried out before, and what was counted then is over.
                continue;
            }
            let reset = Reset { key: *key, epoch };
            resets.push(reset);
            let done = DoneReset { reset, reset_id, expires };
            self.shared().region.remember_reset(done, self.clock.now().now);
            if let Some(world) = self.engine.world().filter(|_| *is_world) {
                world.reset(*key, epoch, *forgotten_at);
            }
        }
        self.share_resets(resets).await?;
        Ok(keys.len())
    }

    /// Starts keys afresh here, and announces their resets to the other nodes.
    pub async fn share_resets(&self, resets: Vec<Reset>) -> Result<(), OriginError> {
        let Sharing { table, region, .. } = self.shared();
        region.start_afresh(table, &resets, self.clock.now().now);
        let asked_at = self.clock.now().now;
        let log = self.origin().share_resets(region.reset_news(resets)).await?;
        self.take_resets(&log, asked_at);
        Ok(())
    }

    /// A shard that lost data doesn't know how often a key was reset before its nodes have told it again.
    async fn until_recovered(&self, shard: ShardId) -> Result<(), OriginError> {
        let recovered = async {
            while !self.shared().region.is_reliable(shard) {
                tokio::time::sleep(FLUSH_EVERY).await;
            }
        };
        let cause = "the store is recovering from a loss of data; try again in some seconds".to_owned();
        timeout(RESET_TIMEOUT, recovered).await.map_err(|_| OriginError::Unreachable { cause })
    }

    fn take_resets(&self, log: &ResetLog, asked_at: Nanos) {
        let Sharing { table, region, .. } = self.shared();
        if region.take_resets(table, log, asked_at) {
            tracing::info!(
                "this node may have missed resets: the next decision about each key asks the region"
            );
        }
    }

    /// Another store from here on: it is told everything that this node knows. Says of how many keys.
    pub fn change_origin(self: &Arc<Self>, origin: Box<dyn Origin>) -> usize {
        self.origin.store(Arc::new(origin));
        let Sharing { table, region, .. } = self.shared();
        let keys = region.republish(table);
        self.flush();
        keys
    }
}

/// A thread that had no core for some milliseconds finds its timers over and the answers in its sockets, and comes
/// to the timers first: what has come is worth a few turns of its other tasks.
async fn poll_once_more(hear: &mut oneshot::Receiver<AskOutcomes>) -> Option<AskOutcomes> {
    for _ in 0..TURNS {
        tokio::task::yield_now().await;
        if let Ok(outcomes) = hear.try_recv() {
            return Some(outcomes);
        }
    }
    None
}
