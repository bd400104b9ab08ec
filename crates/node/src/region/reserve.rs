//! A request of several limits that must ask: all of them are granted, or none.
//!
//! Keys of one place are granted together by one call. Others are reserved in one parallel round trip; with
//! all in hand the request is admitted at once, and the next publish of each key names the reservation. A
//! node that dies in between leaves reservations behind that lapse by themselves.

use super::pending::Pending;
use super::{AskId, AskItem, Effects, Outgoing, Region, Route, Ticket};
use smallvec::smallvec;
use std::collections::BTreeMap;
use tidegate_core::exchange::{KeySync, ReservationId, Wants};
use tidegate_core::{Moment, SharedState, Table};
use tidegate_origin::{Grant, ShardId};

impl Region {
    #[expect(clippy::too_many_arguments, reason = "one request's context, passed on")]
    pub(super) fn reserve(
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
        let place = items[askable[0]].key.place();
        let together = askable.iter().all(|index| items[*index].key.place() == place);
        let reserve = (!together).then(|| self.reservation(id));
        let mut by_shard = BTreeMap::<ShardId, Vec<(KeySync, Ticket)>>::new();
        for index in askable {
            let item = &items[*index];
            let syncs = by_shard.entry(route(item.key)).or_default();
            // A key that comes twice is named once, and asked for both costs in order.
            if let Some((sync, ticket)) = syncs.iter_mut().find(|(sync, _)| sync.key == item.key) {
                sync.wants.asks.push(item.cost.get());
                ticket.asks.push((id, *index));
                continue;
            }
            let sync = self.asking_alone(pending, table, item, reserve, moment);
            let ticket = Ticket { asks: smallvec![(id, *index)], holds_key: false };
            syncs.push((sync, ticket));
        }
        let grant = if together { Grant::Together } else { Grant::Each };
        let outgoing = |(shard, syncs)| -> Outgoing { self.outgoing(shard, grant, syncs, moment.now) };
        effects.send.extend(by_shard.into_iter().map(outgoing));
    }

    fn asking_alone(
        &self,
        pending: &mut Pending,
        table: &Table<SharedState>,
        item: &AskItem,
        reserve: Option<ReservationId>,
        moment: Moment,
    ) -> KeySync {
        let settled = pending.keys.get_mut(&item.key).map(|key| std::mem::take(&mut key.settled));
        KeySync {
            wants: Wants { asks: smallvec![item.cost.get()], draw: false, reserve },
            settled: settled.unwrap_or_default(),
            ..self.read_only(table, item, moment)
        }
    }
}
