//! What an answer changes, and what a failure does.

use super::pending::Pending;
use super::{
    AskOutcome, CLOCKS_DIFFER, Effects, OutgoingExchange, Region, RegionCounters, Route, ShardHealth, Ticket,
};
use tidegate_core::exchange::{CountSync, HOLD_TTL, KeyReply, KeySync};
use tidegate_core::state::{PublishUrgency, State as _};
use tidegate_core::{Moment, Nanos, SharedState, Table};
use tidegate_origin::record::RecordReading;
use tidegate_origin::{ExchangeReply, KeyError, OriginError};

/// How long after it was asked for, by the node's own clock, a hold may be relied on: its confirmation leaves with the next
/// flush, and has to arrive before the hold expires.
const HOLD_USABLE_TTL: Nanos = Nanos::new(HOLD_TTL.get() - Nanos::from_millis(80).get());

/// Whether what a reply granted can be relied on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Trust {
    Verified,
    /// The store may have lost data. Nobody will spend so much of what it granted.
    Unverified {
        forfeited: u64,
    },
}

impl Region {
    /// An exchange came to its end. A late answer is taken like any other: its grants become prepaid.
    pub fn replied(
        &self,
        table: &Table<SharedState>,
        outgoing: OutgoingExchange,
        result: Result<ExchangeReply, OriginError>,
        moment: Moment,
        route: Route<'_>,
    ) -> Effects {
        let mut effects = Effects::default();
        let mut pending = self.pending.lock();
        let OutgoingExchange { shard, exchange, tickets } = outgoing;
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
        let was_suspect = pending.shard(shard).health == ShardHealth::Suspect;
        let record = result.as_ref().map_or(RecordReading::NotRead, |exchanged| exchanged.record);
        let mut is_verified = pending.is_verified(shard, record);
        if let Ok(exchanged) = &result {
            is_verified &= pending.shard(shard).agrees_on_time(exchanged.now, exchange.now, moment.now);
        }
        let took = moment.now.minus(exchange.now);
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
            if reply.as_ref().is_ok_and(|reply| ticket.shows_loss(sync, reply, moment.now)) {
                pending.shard(shard).suspect_loss();
                is_verified = false;
            }
            if reply.is_ok() {
                pending.is_answered(sync);
            }
            // A key whose counts the store can't read is answered, too: to try it again would only hold up a recovery.
            let is_answered = !matches!(reply, Err(KeyError::Failed(_)));
            let merged = reply.and_then(|reply| {
                let trust = match is_verified {
                    true => Trust::Verified,
                    false => Trust::Unverified { forfeited: ticket.forfeited(sync, &reply) },
                };
                self.merge(table, sync, reply, exchange.now, trust, moment)
            });
            if ticket.is_republished {
                pending.shard(shard).returned(sync.key, !is_answered, took);
            }
            // Not when it failed: a view that is fresh keeps its credit then. Counts don't depend on it: what a held key
            // admits unverified is counted, published and paid by the next draw as any other key's.
            if merged.is_ok() {
                pending.hold_if_hot(table, sync.key);
            }
            match merged {
                Ok(reply) => {
                    pending.record_owners(sync, &reply, table.live_nodes());
                    let verified_until = is_verified.then(|| exchange.now.plus(HOLD_USABLE_TTL));
                    self.answered(&mut pending, (sync, &ticket), &reply, verified_until, &mut effects);
                }
                Err(_) => self.unanswered(&mut pending, sync, &ticket, moment.now, &mut effects),
            }
            self.complete_locally(&mut pending, table, sync.key, moment, &mut effects);
            self.send_waiting(&mut pending, table, sync.key, moment, route, &mut effects);
            self.send_deferred(&mut pending, table, sync.key, moment, route, &mut effects);
            pending.remove_if_idle(sync.key, moment.now);
        }
        self.republish_next(&mut pending, table, shard, moment, &mut effects);
        if !was_suspect && pending.shard(shard).health == ShardHealth::Suspect {
            effects.pulse.push(shard);
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
        trust: Trust,
        moment: Moment,
    ) -> Result<KeyReply, KeyError> {
        // The clock was set back since: the reply is about a window that hasn't begun, and what was counted in it was carried
        // to where the clock landed.
        if sent_at > moment.now.plus(CLOCKS_DIFFER) {
            return Ok(reply);
        }
        let fresh_until = (trust == Trust::Verified).then(|| moment.now.plus(self.options.fresh_for));
        let merged = table.upsert(sync.key, moment, |state| {
            state.merge(sync, &reply, sent_at, fresh_until).map(|()| {
                // A reply of an old epoch changed nothing.
                if let Trust::Unverified { forfeited: units @ 1.. } = trust
                    && state.epoch() == reply.epoch
                {
                    state.forfeit(&sync.counts, units);
                }
                state.publish()
            })
        });
        match merged {
            Some(Ok(publish)) => {
                if let Some(thousandths) = sync.overshoot(&reply, moment.now) {
                    self.asks.overshot(thousandths);
                }
                if publish != PublishUrgency::Nothing {
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
        (sync, ticket): (&KeySync, &Ticket),
        reply: &KeyReply,
        verified_until: Option<Nanos>,
        effects: &mut Effects,
    ) {
        if let Some(key) = pending.keys.get_mut(&sync.key) {
            key.failed_until = None;
        }
        let window = match &sync.counts {
            CountSync::Window(window) => Some(window.sequence),
            CountSync::Gcra { .. } => None,
        };
        for (position, (id, index)) in ticket.asks.iter().enumerate() {
            let granted = reply.granted.get(position).copied().unwrap_or(false);
            if granted && let Some(reservation) = sync.request.hold {
                pending.add_hold(*id, reservation, sync.key);
            }
            let outcome = match verified_until {
                // A refusal is right whatever the shard has lost: it counts no more than there was.
                _ if !granted => AskOutcome::Refused { retry_after: reply.retry_after, window },
                None => AskOutcome::Unverified,
                Some(until) if sync.request.hold.is_some() => AskOutcome::Held { until },
                Some(_) => AskOutcome::Granted,
            };
            pending.resolve(*id, *index, outcome, &mut effects.finished);
        }
        for (id, index) in &ticket.peeks {
            let outcome = if verified_until.is_some() { AskOutcome::Granted } else { AskOutcome::Unverified };
            pending.resolve(*id, *index, outcome, &mut effects.finished);
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
        for id in &sync.ended_holds {
            pending.end_hold_at(sync.key, *id);
        }
        let waiting = pending.keys.get_mut(&sync.key).map(|key| std::mem::take(&mut key.waiting));
        let waiting = waiting.unwrap_or_default().into_iter().map(|waiting| (waiting.id, waiting.index));
        let deferred = pending.keys.get_mut(&sync.key).map(|key| std::mem::take(&mut key.deferred));
        let deferred = deferred.unwrap_or_default().into_iter();
        let deferred =
            deferred.flat_map(|later| later.askable.into_iter().map(move |index| (later.id, index)));
        let asked = ticket.asks.iter().chain(&ticket.peeks).copied();
        for (id, index) in asked.chain(waiting).chain(deferred) {
            pending.resolve(id, index, AskOutcome::Unverified, &mut effects.finished);
        }
    }
}

fn missing() -> OriginError {
    OriginError::Nonsense { what: "fewer replies than syncs".to_owned() }
}
