//! Pulses: one to every shard with each heartbeat, and at once where an answer showed that data may be gone.

use super::{ALIVE_FOR, RegionDriver};
use crate::region::ShardEvent;
use crate::sharing::Sharing;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tidegate_core::KeyId;
use tidegate_origin::record::{Eviction, Pulse};
use tidegate_origin::{DoneReset, Origin, OriginError, ShardId};

/// What the driver remembers of the shards that it sends pulses to.
#[derive(Debug, Default)]
pub(super) struct Pulses {
    /// A heartbeat was answered: it is known whether the store belongs to this fleet, and which release wrote it.
    has_begun: AtomicBool,
    /// Why it wasn't.
    silence: Mutex<Option<OriginError>>,
    shards: Mutex<BTreeMap<ShardId, PulsedShard>>,
}

#[derive(Debug, Default)]
struct PulsedShard {
    /// How often a connection had been made when the last pulse left, or the last call did; `None` before either.
    connects: Option<u64>,
    /// The last pulse was refused, and the operator knows.
    is_refused: bool,
    /// The server may remove keys by itself, and the operator knows.
    may_evict: bool,
}

impl Pulses {
    pub(super) fn have_begun(&self) -> bool {
        self.has_begun.load(Ordering::Relaxed)
    }

    pub(super) fn never_answered(&self) -> Option<OriginError> {
        self.silence.lock().clone().filter(|_| !self.have_begun())
    }

    pub(super) fn begin(&self) {
        self.has_begun.store(true, Ordering::Relaxed);
    }
}

impl RegionDriver {
    /// Sends a pulse to every shard.
    pub(super) fn pulse_all(self: &Arc<Self>) {
        for shard in self.origin().shards() {
            tokio::spawn(self.clone().pulse(shard));
        }
    }

    /// Sends a pulse to one shard, and does what its answer asks for.
    pub(super) async fn pulse(self: Arc<Self>, shard: ShardId) {
        if !self.pulses.have_begun() || self.is_foreign() || self.is_held() {
            return;
        }
        let origin = self.origin();
        let Sharing { table, region, .. } = self.shared();
        let pulse = region.pulse(shard, ALIVE_FOR, self.clock.now().now);
        self.pulses.shards.lock().entry(shard).or_default().connects = Some(origin.connects(shard));
        let pulsed = origin.pulse(shard, pulse).await;
        self.report_refusal(shard, pulsed.as_ref().err(), &**origin);
        let eviction = pulsed.as_ref().ok().and_then(|pulsed| pulsed.eviction);
        self.report_policy(shard, eviction, &**origin);
        let route = |key: KeyId| origin.shard_of(key);
        let (effects, event) =
            region.pulsed(table, (shard, pulse), &pulsed, (self.clock.now(), self.clock.is_right()), &route);
        self.execute(effects);
        let server = || origin.shard_name(shard);
        match event {
            Some(ShardEvent::LostData { keys }) => tracing::warn!(
                server = server(),
                keys,
                fix = "see docs/failures.md",
                "the store lost data: this node publishes again what it knows; until all nodes have, what the store grants \
                 is unverified"
            ),
            Some(ShardEvent::Evicted { keys }) => tracing::warn!(
                server = server(),
                keys,
                fix = "set maxmemory-policy noeviction, and give it more memory; see docs/failures.md",
                "the store evicted keys: counts are gone there, and limits may be granted again; this node publishes again what \
                 it knows"
            ),
            Some(ShardEvent::Recovered) => {
                tracing::info!(server = server(), "the store has recovered: all nodes have published again");
            }
            Some(ShardEvent::GaveUpRecovery { nodes }) => tracing::warn!(
                server = server(),
                nodes,
                "the store's recovery took too long: what some nodes know isn't all published again, and counts as lost"
            ),
            None => {}
        }
    }

    /// Tells shards that lost data which keys were reset.
    pub(super) async fn restore_resets(self: Arc<Self>, resets: Vec<(ShardId, DoneReset)>) {
        let origin = self.origin();
        for (shard, done) in resets {
            let restored = origin.restore_reset(shard, done, self.clock.now().now).await;
            self.shared().region.restored(shard, &done, restored.is_ok());
        }
    }

    /// Another server may answer since the last call: what it grants isn't relied on before it has answered a pulse.
    pub(super) fn notice_reconnect(self: &Arc<Self>, origin: &Arc<Box<dyn Origin>>, shard: ShardId) {
        let connects = Some(origin.connects(shard));
        let known = {
            let mut shards = self.pulses.shards.lock();
            std::mem::replace(&mut shards.entry(shard).or_default().connects, connects)
        };
        if known.is_some() && known != connects && self.shared().region.reconnected(shard) {
            tokio::spawn(self.clone().pulse(shard));
        }
    }

    /// Lets no shard wait for this node.
    pub(super) async fn leave_shards(&self) {
        let origin = self.origin();
        for shard in origin.shards() {
            let pulse = self.shared().region.pulse(shard, ALIVE_FOR, self.clock.now().now);
            // A shard that can't be told stops waiting by itself.
            let _ = origin.pulse(shard, Pulse { leaves: true, ..pulse }).await;
        }
    }

    /// A server that refuses what nodes tell it grants nothing that is verified: worth a warning, once, until it has answered
    /// again. Between refusals the connection may end: a server that became read-only is connected to anew.
    fn report_refusal(&self, shard: ShardId, error: Option<&OriginError>, origin: &dyn Origin) {
        let is_refused = matches!(error, Some(OriginError::Refused { .. } | OriginError::Nonsense { .. }));
        let was_refused = {
            let mut shards = self.pulses.shards.lock();
            let known = &mut shards.entry(shard).or_default().is_refused;
            let is_known = is_refused || (*known && error.is_some());
            std::mem::replace(known, is_known)
        };
        let server = || origin.shard_name(shard);
        match error {
            Some(error) if is_refused && !was_refused => tracing::warn!(
                %error,
                server = server(),
                fix = "see docs/failures.md",
                "the store refuses writes: nothing is counted there, and admissions that must ask follow their class"
            ),
            None if was_refused => tracing::info!(server = server(), "the store accepts writes again"),
            _ => {}
        }
    }

    /// A server that removes keys when its memory is full forgets counts: worth a warning, once.
    fn report_policy(&self, shard: ShardId, eviction: Option<Eviction>, origin: &dyn Origin) {
        let Some(Eviction { is_allowed, .. }) = eviction else { return };
        let was_allowed = {
            let mut shards = self.pulses.shards.lock();
            std::mem::replace(&mut shards.entry(shard).or_default().may_evict, is_allowed)
        };
        if is_allowed && !was_allowed {
            tracing::warn!(
                server = origin.shard_name(shard),
                fix = "set maxmemory-policy noeviction",
                "the store removes keys when its memory is full: counts would be lost, and limits granted again"
            );
        }
    }

    /// A heartbeat failed before any was answered: no pulse is sent then, and the shards are known to be no better.
    pub(super) fn never_answered(&self, error: &OriginError) {
        if !self.pulses.have_begun() {
            *self.pulses.silence.lock() = Some(error.clone());
            for shard in self.origin().shards() {
                self.shared().region.pulse_failed(shard, error);
            }
        }
    }
}
