//! A request of several limits that must ask: all of them are granted, or none.
//!
//! Keys of one place are granted together by one call, when each of them could deny the request. Others are reserved in one parallel round trip; with
//! all in hand the request is admitted at once, and the next publish of each key names the reservation. A
//! node that dies in between leaves reservations behind that lapse by themselves. A key of which the node knows
//! nothing yet has one call in flight; a request that needs it too waits for that.

use super::pending::{DeferredAsk, Pending};
use super::{AskId, AskItem, Effects, OutgoingExchange, Region, Route, Ticket};
use smallvec::{SmallVec, smallvec};
use std::collections::BTreeMap;
use tidegate_core::exchange::{GrantRequest, HoldId, KeySync};
use tidegate_core::{KeyId, Moment, Role, SharedState, Table};
use tidegate_origin::{Grant, ShardId};

impl Region {
    #[expect(clippy::too_many_arguments, reason = "one request's context, passed on")]
    pub(super) fn hold(
        &self,
        pending: &mut Pending,
        table: &Table<SharedState>,
        items: &[AskItem],
        askable: &[usize],
        id: AskId,
        moment: Moment,
        route: Route<'_>,
        effects: &mut Effects,
    ) {
        let forgotten: SmallVec<[KeyId; 4]> = askable
            .iter()
            .map(|index| &items[*index])
            .filter(|item| table.aligned(item.key, &item.spec, moment).has_forgotten())
            .map(|item| item.key)
            .collect();
        let busy = forgotten.iter().find(|key| pending.keys.get(key).is_some_and(|entry| entry.in_flight));
        if let Some(entry) = busy.and_then(|key| pending.keys.get_mut(key)) {
            entry.deferred.push(DeferredAsk { id, items: items.into(), askable: askable.into() });
            return;
        }
        for key in &forgotten {
            pending.keys.entry(*key).or_default().in_flight = true;
        }
        let place = items[askable[0]].key.place();
        // A limit that doesn't deny by itself must not keep the others from being granted.
        let is_together = |item: &AskItem| item.key.place() == place && item.role == Role::Enforced;
        let together = askable.iter().all(|index| is_together(&items[*index]));
        let reserve = (!together).then(|| self.hold_id(id));
        let mut by_shard = BTreeMap::<ShardId, Vec<(KeySync, Ticket)>>::new();
        for index in askable {
            let item = &items[*index];
            let syncs = by_shard.entry(route(item.key)).or_default();
            // A key that comes twice is named once, and asked for both costs in order.
            if let Some((sync, ticket)) = syncs.iter_mut().find(|(sync, _)| sync.key == item.key) {
                sync.request.asks.push(item.cost.get());
                ticket.asks.push((id, *index));
                ticket.classes.push(item.class);
                continue;
            }
            let sync = self.asking_alone(pending, table, item, reserve, moment);
            let confirmed = table.state(item.key).and_then(|state| state.confirmed(&sync.counts, moment.now));
            let ticket = Ticket {
                asks: smallvec![(id, *index)],
                classes: smallvec![item.class],
                confirmed,
                holds_key: forgotten.contains(&item.key),
                ..Ticket::default()
            };
            syncs.push((sync, ticket));
        }
        // Not before every cost of a key is in its sync.
        for (sync, _) in by_shard.values_mut().flatten() {
            pending.mark_sent(sync);
        }
        let grant = if together { Grant::Together } else { Grant::Each };
        let outgoing =
            |(shard, syncs)| -> OutgoingExchange { self.outgoing(shard, grant, syncs, moment.now) };
        effects.send.extend(by_shard.into_iter().map(outgoing));
        for index in askable {
            self.renew_beside(pending, table, items[*index].key, moment, route, effects);
        }
    }

    /// The call that some requests of several limits had to wait for came back.
    pub(super) fn send_deferred(
        &self,
        pending: &mut Pending,
        table: &Table<SharedState>,
        key: KeyId,
        moment: Moment,
        route: Route<'_>,
        effects: &mut Effects,
    ) {
        let deferred = pending.keys.get_mut(&key).map(|key| std::mem::take(&mut key.deferred));
        for DeferredAsk { id, items, askable } in deferred.unwrap_or_default() {
            if pending.is_waiting(id) {
                self.hold(pending, table, &items, &askable, id, moment, route, effects);
            }
        }
    }

    fn asking_alone(
        &self,
        pending: &mut Pending,
        table: &Table<SharedState>,
        item: &AskItem,
        hold: Option<HoldId>,
        moment: Moment,
    ) -> KeySync {
        let settled = pending.keys.get_mut(&item.key).map(|key| std::mem::take(&mut key.settled));
        KeySync {
            request: GrantRequest { asks: smallvec![item.cost.get()], hold, ..GrantRequest::default() },
            ended_holds: settled.unwrap_or_default(),
            ..self.reading(table, item, moment)
        }
    }
}
