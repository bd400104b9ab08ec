//! What an answer changes, and what a failure does.

use super::pending::Pending;
use super::{Effects, Outgoing, Region, RegionCounters, Route, Standing, Ticket};
use tidegate_core::exchange::{KeyReply, KeySync};
use tidegate_core::state::{Publish, State as _};
use tidegate_core::{Moment, Nanos, SharedState, Table};
use tidegate_origin::{Exchanged, KeyError, OriginError};

impl Region {
    /// An exchange came to its end. A late answer is taken like any other: its grants become prepaid.
    pub fn replied(
        &self,
        table: &Table<SharedState>,
        outgoing: Outgoing,
        result: Result<Exchanged, OriginError>,
        moment: Moment,
        route: Route<'_>,
    ) -> Effects {
        let mut effects = Effects::default();
        let mut pending = self.pending.lock();
        let Outgoing { shard, exchange, tickets } = outgoing;
        let figures = pending.figures.entry(shard).or_default();
        figures.ended(result.as_ref().err(), moment.now.minus(exchange.now));
        match &result {
            Ok(_) => pending.breaker(shard).on_success(moment.now),
            Err(_) => {
                pending.breaker(shard).on_failure(moment.now);
                RegionCounters::add(&self.counters.failed_exchanges, 1);
            }
        }
        if result.is_ok() {
            pending.probes.remove(&shard);
        }
        let mut replies = result.map(|exchanged| exchanged.replies.into_iter());
        for (sync, ticket) in exchange.syncs.iter().zip(tickets) {
            let reply = match &mut replies {
                Ok(replies) => replies.next().unwrap_or_else(|| Err(KeyError::Failed(missing()))),
                Err(error) => Err(KeyError::Failed(error.clone())),
            };
            if ticket.holds_key
                && let Some(key) = pending.keys.get_mut(&sync.key)
            {
                key.in_flight = false;
            }
            let merged = reply.and_then(|reply| self.merge(table, sync, reply, exchange.now, moment));
            // Not when it failed: a view that is fresh keeps its credit then. Counts don't depend on it: what a held key
            // admits unverified is counted, published and paid by the next draw as any other key's.
            if merged.is_ok() {
                pending.hold_if_hot(table, sync.key);
            }
            match merged {
                Ok(reply) => self.answered(&mut pending, sync, &ticket, &reply, &mut effects),
                Err(_) => self.unanswered(&mut pending, sync, &ticket, moment.now, &mut effects),
            }
            self.settle_locally(&mut pending, table, sync.key, moment, &mut effects);
            self.send_waiting(&mut pending, table, sync.key, moment, route, &mut effects);
            self.send_deferred(&mut pending, table, sync.key, moment, route, &mut effects);
            pending.forget_if_idle(sync.key, moment.now);
        }
        drop(pending);
        self.counted(&effects);
        effects
    }

    /// Takes a reply into the table. What is still unpublished is queued again.
    fn merge(
        &self,
        table: &Table<SharedState>,
        sync: &KeySync,
        reply: KeyReply,
        sent_at: Nanos,
        moment: Moment,
    ) -> Result<KeyReply, KeyError> {
        let fresh_until = moment.now.plus(self.options.fresh_for);
        let merged = table.upsert(sync.key, moment, |state| {
            state.merge(sync, &reply, sent_at, fresh_until).map(|()| state.publish())
        });
        match merged {
            Some(Ok(publish)) => {
                if let Some(thousandths) = sync.overshoot(&reply, moment.now) {
                    self.asks.overshot(thousandths);
                }
                if publish != Publish::Nothing {
                    table.requeue(sync.key, publish);
                }
                if let Some(world) = &self.world {
                    world.replied(sync, &reply, moment.now);
                }
                Ok(reply)
            }
            // No room for what was only asked about: the answer counts all the same.
            None => Ok(reply),
            Some(Err(error)) => Err(KeyError::Failed(OriginError::Nonsense { what: error.to_string() })),
        }
    }

    fn answered(
        &self,
        pending: &mut Pending,
        sync: &KeySync,
        ticket: &Ticket,
        reply: &KeyReply,
        effects: &mut Effects,
    ) {
        if let Some(key) = pending.keys.get_mut(&sync.key) {
            key.failed_until = None;
        }
        for (position, (id, index)) in ticket.asks.iter().enumerate() {
            let granted = reply.granted.get(position).copied().unwrap_or(false);
            if granted && let Some(reservation) = sync.wants.reserve {
                pending.reserved(*id, reservation, sync.key);
            }
            let standing = match granted {
                true if sync.wants.reserve.is_some() => Standing::Reserved,
                true => Standing::Granted,
                // It was reset meanwhile: the new epoch has room, but nobody asked it.
                false if reply.epoch > sync.epoch => Standing::Unverified,
                false => Standing::Refused { retry_after: reply.retry_after },
            };
            pending.stand(*id, *index, standing, &mut effects.finished);
        }
    }

    fn unanswered(
        &self,
        pending: &mut Pending,
        sync: &KeySync,
        ticket: &Ticket,
        now: Nanos,
        effects: &mut Effects,
    ) {
        RegionCounters::add(&self.counters.failed_keys, 1);
        pending.failed(sync.key, now);
        for id in &sync.settled {
            pending.settle_at(sync.key, *id);
        }
        let waiting = pending.keys.get_mut(&sync.key).map(|key| std::mem::take(&mut key.waiting));
        let waiting = waiting.unwrap_or_default().into_iter().map(|waiting| (waiting.id, waiting.index));
        let deferred = pending.keys.get_mut(&sync.key).map(|key| std::mem::take(&mut key.deferred));
        let deferred = deferred.unwrap_or_default().into_iter();
        let deferred =
            deferred.flat_map(|later| later.askable.into_iter().map(move |index| (later.id, index)));
        for (id, index) in ticket.asks.iter().copied().chain(waiting).chain(deferred) {
            pending.stand(id, index, Standing::Unverified, &mut effects.finished);
        }
    }
}

fn missing() -> OriginError {
    OriginError::Nonsense { what: "fewer replies than syncs".to_owned() }
}
