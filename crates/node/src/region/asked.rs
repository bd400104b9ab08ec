//! Requests that ask at the same time: each joins the call of its key, and the calls leave together.
//!
//! Who asks is told which keys are to be sent, and sends them when whoever else has its turn has had it. Nothing
//! waits for that: a request that is alone is sent at once.

use super::pending::{Pending, WaitingAsk};
use super::{AskId, AskItem, AskOutcome, Effects, OutgoingExchange, Region, Route};
use tidegate_core::{KeyId, Moment, Nanos, SharedState, Table};
use tidegate_origin::{Exchange, Grant, ShardId};

/// The most keys that requests wait for in one exchange: as many as one call of the script carries.
const KEYS_PER_CALL: usize = 32;
/// So many requests may wait for one key; the next one goes unverified.
const WAITING_MAX: usize = 10_000;

impl Region {
    /// Sends the calls of keys that requests asked about, as few as they fit in. A key whose call is in flight
    /// follows when that has come back.
    pub fn send_asks(
        &self,
        table: &Table<SharedState>,
        keys: &[KeyId],
        moment: Moment,
        route: Route<'_>,
    ) -> Effects {
        let mut effects = Effects::default();
        let mut pending = self.pending.lock();
        for key in keys {
            self.send_waiting(&mut pending, table, *key, moment, route, &mut effects);
            pending.remove_if_idle(*key, moment.now);
        }
        drop(pending);
        self.counted(&effects);
        effects
    }
}

impl OutgoingExchange {
    /// Whether the call of a key that has none in flight may go with it. Only where every sync holds its key:
    /// then no key comes twice.
    pub(super) fn has_room(&self, shard: ShardId, now: Nanos) -> bool {
        let Exchange { now: sent_at, grant, .. } = self.exchange;
        self.shard == shard
            && sent_at == now
            && grant == Grant::Each
            && self.tickets.len() < KEYS_PER_CALL
            && self.tickets.iter().all(|ticket| ticket.holds_key)
    }
}

/// Joins the key's next call, which is to be sent.
pub(super) fn join(pending: &mut Pending, items: &[AskItem], index: usize, id: AskId, effects: &mut Effects) {
    let item = items[index];
    let key = pending.keys.entry(item.key).or_default();
    if key.waiting.len() >= WAITING_MAX {
        pending.resolve(id, index, AskOutcome::Unverified, &mut effects.finished);
        return;
    }
    key.waiting.push_back(WaitingAsk { id, index, item });
    if !key.in_flight {
        effects.asked_keys.push(item.key);
    }
}
