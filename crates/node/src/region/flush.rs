//! What is published without anybody waiting: half-spent credit at once, everything else within 100 ms.
//!
//! Bounded per call, so that a store that comes back after an outage isn't drowned by what was held for it.

use super::pending::Pending;
use super::shards::ShardData;
use super::{Effects, OutgoingExchange, Region, Route, Ticket};
use std::collections::BTreeMap;
use tidegate_core::exchange::{GrantRequest, KeySync};
use tidegate_core::state::PublishUrgency;
use tidegate_core::{KeyId, Moment, Nanos, SharedState, Table};
use tidegate_origin::{Grant, ShardId};

/// The most keys in one exchange, and the most that one flush publishes.
const KEYS_PER_EXCHANGE: usize = 256;
const KEYS_PER_FLUSH: usize = 16_384;

impl Region {
    /// Publishes what has spent half of its credit.
    pub fn publish_urgent(&self, table: &Table<SharedState>, moment: Moment, route: Route<'_>) -> Effects {
        self.publish(table, table.take_urgent(), moment, route)
    }

    /// Publishes what was admitted since the last flush, retries what failed, and probes what is down.
    pub fn flush(&self, table: &Table<SharedState>, moment: Moment, route: Route<'_>) -> Effects {
        let mut keys = self.due(moment.now);
        keys.extend(self.turn_over_leases(table, moment.now));
        table.take_soon(&mut keys);
        if keys.len() > KEYS_PER_FLUSH {
            for key in keys.drain(KEYS_PER_FLUSH..) {
                table.requeue(key, PublishUrgency::Soon);
            }
        }
        self.publish(table, keys, moment, route)
    }

    /// Publishes everything that has anything to publish to an origin that knows nothing of it.
    pub fn republish(&self, table: &Table<SharedState>) -> usize {
        let mut keys = Vec::new();
        table.for_each(|key, state| {
            if state.publishing().is_some() {
                keys.push(key);
            }
        });
        let mut pending = self.pending.lock();
        pending.breakers.clear();
        pending.probes.clear();
        let held: Vec<KeyId> = std::mem::take(&mut pending.held).into_values().flatten().collect();
        pending.republish.extend(keys.iter().copied().chain(held));
        keys.len()
    }

    /// A key is said to the origin with the next flush, also where everything about it seems to be known: what the
    /// origin answers is of interest.
    pub fn mark_unpublished(&self, table: &Table<SharedState>, key: KeyId) {
        let mut pending = self.pending.lock();
        let entry = pending.keys.entry(key).or_default();
        if !entry.in_flight {
            entry.is_unpublished = true;
            table.requeue(key, PublishUrgency::Soon);
        }
    }

    /// Nobody will bring back the calls that are on their way: what they carried is published anew.
    pub fn abandon_calls(&self) {
        let mut pending = self.pending.lock();
        let Pending { keys, republish, .. } = &mut *pending;
        for (key, entry) in keys.iter_mut().filter(|(_, entry)| entry.in_flight) {
            entry.in_flight = false;
            republish.push_back(*key);
        }
    }

    /// Whether everything that was sent has been answered, and nothing waits to be sent again.
    pub fn is_idle(&self) -> bool {
        let pending = self.pending.lock();
        pending.keys.values().all(|key| !key.in_flight && key.settled.is_empty())
            && pending.held.is_empty()
            && pending.retries.is_empty()
            && pending.republish.is_empty()
            && pending.shards.values().all(ShardData::has_republished)
    }

    /// Keys whose time to be tried again has come: failed ones, and those of a shard that is back.
    fn due(&self, now: Nanos) -> Vec<KeyId> {
        let mut pending = self.pending.lock();
        let mut keys = Vec::new();
        while keys.len() < KEYS_PER_FLUSH {
            let Some(key) = pending.take_retry(now) else { break };
            let entry = pending.keys.entry(key).or_default();
            // Else its next call is on its way, and says the same.
            if !entry.in_flight {
                entry.is_unpublished = true;
                keys.push(key);
            }
        }
        for key in std::mem::take(&mut pending.settling) {
            match pending.keys.get(&key) {
                // They are named when the call in flight has come back.
                Some(entry) if entry.in_flight => pending.settling.push(key),
                Some(entry) if !entry.settled.is_empty() => keys.push(key),
                // Another sync has named them.
                _ => {}
            }
        }
        for _ in 0..pending.republish.len().min(KEYS_PER_FLUSH) {
            let Some(key) = pending.republish.pop_front() else { break };
            // Its call may have gone to the origin before this one: it is told when that has come back.
            let entry = pending.keys.entry(key).or_default();
            if entry.in_flight {
                pending.republish.push_back(key);
            } else {
                entry.is_unpublished = true;
                keys.push(key);
            }
        }
        let shards: Vec<ShardId> = pending.held.keys().copied().collect();
        for shard in shards {
            if pending.breaker(shard).admits() {
                keys.append(&mut pending.held.remove(&shard).unwrap_or_default());
            }
        }
        keys
    }

    fn publish(
        &self,
        table: &Table<SharedState>,
        mut keys: Vec<KeyId>,
        moment: Moment,
        route: Route<'_>,
    ) -> Effects {
        keys.sort_unstable();
        keys.dedup();
        let mut effects = Effects::default();
        let mut by_shard = BTreeMap::<ShardId, Vec<(KeySync, Ticket)>>::new();
        let mut pending = self.pending.lock();
        for key in keys {
            let shard = route(key);
            if !pending.breaker(shard).admits() {
                pending.held.entry(shard).or_default().push(key);
            } else if let Some((mut sync, ticket)) = self.due_sync(&mut pending, table, (key, shard), moment)
            {
                if let Some(world) = &self.world {
                    world.complete(&mut sync);
                }
                by_shard.entry(shard).or_default().push((sync, ticket));
            }
        }
        for (shard, mut syncs) in by_shard {
            while !syncs.is_empty() {
                let rest = syncs.split_off(syncs.len().min(KEYS_PER_EXCHANGE));
                effects.send.push(self.outgoing(shard, Grant::Each, syncs, moment.now));
                syncs = rest;
            }
        }
        self.probe(&mut pending, table, moment, &mut effects);
        self.republish_due(&mut pending, table, moment, &mut effects);
        drop(pending);
        self.counted(&effects);
        effects
    }

    /// What is to be said of a key: its lease is renewed, or what was admitted is published.
    fn due_sync(
        &self,
        pending: &mut Pending,
        table: &Table<SharedState>,
        (key, shard): (KeyId, ShardId),
        moment: Moment,
    ) -> Option<(KeySync, Ticket)> {
        if pending.keys.get(&key).is_some_and(|entry| entry.in_flight) {
            // The reply queues it again if something is left.
            return None;
        }
        let renews = pending.is_to_be_leased(table, key);
        if let Some(renewing) = renews.then(|| self.renewing(pending, table, (key, shard), moment)).flatten()
        {
            return Some(renewing);
        }
        if pending.is_idle(table, key) {
            return None;
        }
        pending.publishing(table, key, moment)
    }

    /// One small exchange to each shard that is down and whose time to be probed has come.
    fn probe(
        &self,
        pending: &mut Pending,
        table: &Table<SharedState>,
        moment: Moment,
        effects: &mut Effects,
    ) {
        let Pending { breakers, held, probes, .. } = pending;
        // Where there is nothing to probe with, the next request is the probe.
        let has_probe = |shard: &ShardId| probes.contains_key(shard) || held.contains_key(shard);
        let down = breakers.iter_mut().filter(|(shard, breaker)| !breaker.admits() && has_probe(shard));
        let down: Vec<ShardId> =
            down.filter_map(|(shard, breaker)| breaker.probe_due(moment.now).then_some(*shard)).collect();
        for shard in down {
            let publishing = pending.publish_held(table, shard, moment);
            let Some(probe) = publishing.or_else(|| self.probing(pending, table, shard, moment)) else {
                continue;
            };
            let outgoing: OutgoingExchange = self.outgoing(shard, Grant::Each, vec![probe], moment.now);
            effects.send.push(outgoing);
        }
    }

    /// Returns a sync of the key that a shard is probed with, as things stand now: an old sync would be answered as if it
    /// were of the moment it is sent. It carries what the node counted, like any other.
    fn probing(
        &self,
        pending: &mut Pending,
        table: &Table<SharedState>,
        shard: ShardId,
        moment: Moment,
    ) -> Option<(KeySync, Ticket)> {
        let item = *pending.probes.get(&shard)?;
        let mut sync = self.reading(table, &item, moment);
        pending.mark_sent(&mut sync);
        let confirmed = table.state(item.key).and_then(|state| state.confirmed(&sync.counts, moment.now));
        Some((sync, Ticket { confirmed, ..Ticket::default() }))
    }
}

impl Pending {
    /// The sync of one of the keys that wait for a shard: of the first that has something to say.
    fn publish_held(
        &mut self,
        table: &Table<SharedState>,
        shard: ShardId,
        moment: Moment,
    ) -> Option<(KeySync, Ticket)> {
        let mut keys = self.held.remove(&shard)?;
        let mut publishing = None;
        while publishing.is_none()
            && let Some(key) = keys.pop()
        {
            publishing = self.publishing(table, key, moment);
        }
        if !keys.is_empty() {
            self.held.insert(shard, keys);
        }
        publishing
    }

    /// Returns the sync that publishes a key; `None` when there is nothing to publish, or a call of the key is in flight. Its
    /// answer shows whether the store lost the node's component: after a publish, the store has that again, and no later
    /// answer shows it.
    pub(super) fn publishing(
        &mut self,
        table: &Table<SharedState>,
        key: KeyId,
        moment: Moment,
    ) -> Option<(KeySync, Ticket)> {
        let entry = self.keys.entry(key).or_default();
        if entry.in_flight {
            return None;
        }
        let state = table.present_state(key, moment);
        let counts = state.and_then(|state| state.publishing());
        let (Some(state), Some(counts)) = (state, counts) else {
            entry.is_unpublished = false;
            // Not who has asked and whose call is yet to leave: nobody else would send it.
            self.remove_if_idle(key, moment.now);
            return None;
        };
        let ended_holds = entry.leaves();
        let mut sync =
            KeySync { key, epoch: state.epoch(), counts, request: GrantRequest::default(), ended_holds };
        self.mark_sent(&mut sync);
        let confirmed = state.confirmed(&sync.counts, moment.now);
        Some((sync, Ticket { holds_key: true, confirmed, ..Ticket::default() }))
    }
}
