//! How a node agrees with its region: who must be asked, what is published when, whom to believe.
//!
//! Sans-IO: every call takes the present as an argument and returns what to send and who may go on. The
//! driver carries messages over Redis, the simulator over a network of its own. Nothing here waits, and a
//! message that is lost, late or repeated does no harm.

mod asked;
mod figures;
mod flush;
mod lease;
mod owners;
mod pending;
mod reply;
mod reserve;
mod resets;
mod shards;

use crate::quota::{KeySet, Quotas};
use crate::world::WorldNode;
use arc_swap::ArcSwap;
use figures::AskFigures;
pub use figures::ShardFigures;
pub use lease::{HOT_MAX, HotLimit};
use parking_lot::Mutex;
use pending::{Asks, Pending, TakenAsks, WaitingAsk};
pub use shards::{ShardCondition, ShardEvent, ShardHealth};
use smallvec::SmallVec;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tidegate_core::ask::AskReason;
use tidegate_core::exchange::{CountSync, GrantRequest, HoldId, KeyReply, KeySync};
use tidegate_core::origin_cell::NodeId;
use tidegate_core::state::State as _;
use tidegate_core::window::add_count;
use tidegate_core::{
    Accuracy, Class, Cost, Item, KeyId, Moment, Nanos, Role, Sequence, SharedState, Spec, Table, Verdict,
};
use tidegate_origin::{BreakerState, DoneReset, Exchange, Grant, ShardId};

/// A store keeps a bucket so long after it is full again.
const BUCKET_TTL: Nanos = Nanos::from_secs(60);
/// Nodes follow the same clock up to so much: the one that set an expiry may have been ahead.
const CLOCKS_DIFFER: Nanos = Nanos::from_millis(50);
/// For so long after a failed sync of a key, ± a fifth, its admissions don't ask.
const FAILED_SYNC_RETRY_AFTER: Nanos = Nanos::from_millis(300);

#[derive(Debug, Clone, Copy)]
pub struct RegionOptions {
    pub node: NodeId,
    /// How long a reply keeps a view fresh.
    pub fresh_for: Nanos,
    /// What jitter is made of.
    pub seed: u64,
}

/// One limit that must ask before its request is admitted.
#[derive(Clone, Copy, Debug)]
pub struct AskItem {
    pub key: KeyId,
    pub spec: Spec,
    pub cost: Cost,
    pub accuracy: Accuracy,
    pub class: Class,
    pub role: Role,
    /// As in [`Item`].
    pub regions: u32,
    pub reason: AskReason,
}

impl AskItem {
    pub(crate) fn item(&self) -> Item {
        Item {
            accuracy: self.accuracy,
            class: self.class,
            regions: self.regions,
            ..Item::new(self.key, self.spec, self.cost)
        }
    }

    /// How long a fixed window that is full stays so: a store doesn't know where its cells end. `None` where
    /// no wait helps, and where the store does know.
    pub(crate) fn until_cell_end(&self, now: Nanos) -> Option<Nanos> {
        let end = match self.spec {
            Spec::Fixed { period, .. } => period.cell_at(now).end,
            Spec::Calendar { cell, .. } => cell.end,
            Spec::Sliding { .. } | Spec::Gcra { .. } => return None,
        };
        (self.cost.get() <= self.spec.shown_limit()).then(|| end.minus(now))
    }

    /// Whether a fixed window has ended. A refusal in it says nothing about the next one.
    pub(crate) fn has_ended(&self, window: Sequence, now: Nanos) -> bool {
        matches!(self.spec, Spec::Fixed { period, .. } if period.cell_at(now).sequence > window)
    }
}

/// What came of asking about one limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AskOutcome {
    /// The origin has counted it for this node.
    Granted,
    /// The origin holds it back for this request alone, until then: whoever comes later may find it given to others.
    Held { until: Nanos },
    Refused {
        retry_after: Option<Nanos>,
        /// The window that is full, of a limit that has windows.
        window: Option<Sequence>,
    },
    /// It couldn't be asked, or nobody answered in time.
    Unverified,
}

pub type AskOutcomes = SmallVec<[AskOutcome; 4]>;

/// Called once, when every limit of a request has its standing.
pub type Wake = Box<dyn FnOnce(AskOutcomes) + Send>;

/// A request that waits for answers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AskId(u64);

/// An exchange to be sent, and who waits for what in it.
#[derive(Debug)]
pub struct OutgoingExchange {
    pub shard: ShardId,
    pub exchange: Exchange,
    /// For each sync, in order.
    tickets: Vec<Ticket>,
}

/// Who waits for one sync of an exchange.
#[derive(Debug, Default)]
struct Ticket {
    /// For each of its asks, the request and which of its limits.
    asks: Asks,
    /// For each of its asks, the class of the limit's rule.
    classes: SmallVec<[Class; 4]>,
    /// Requests that only want to know how the key stands, and which of their limits it is.
    peeks: Asks,
    /// The node's component of the current cell, as the origin had confirmed it when this left; `None` where the node was
    /// no owner of it. An origin that knows less has lost data.
    confirmed: Option<u64>,
    /// It is published because its shard lost data.
    is_republished: bool,
    /// It is the key's one call; others wait for it.
    holds_key: bool,
}

impl Ticket {
    /// Whether what is granted must be verified by the shard's record: the node wasn't confirmed there, and so can't tell
    /// by its own component whether data is gone.
    fn needs_record(&self, sync: &KeySync) -> bool {
        let asks = !sync.request.asks.is_empty() || sync.request.lease.is_some();
        asks && self.confirmed.is_none()
    }

    /// Returns how much of what an unverified reply granted nobody spends: what was drawn ahead, and what class `abuse`
    /// denies. A request of another class passes by its node's own count, also one that gave up before the reply.
    fn forfeited(&self, sync: &KeySync, reply: &KeyReply) -> u64 {
        let reserves = sync.request.hold.is_some();
        let granted = self.classes.iter().zip(&sync.request.asks).zip(&reply.granted);
        let denied =
            granted.filter(|((class, _), granted)| !reserves && **granted && **class == Class::Abuse);
        denied.fold(reply.drawn, |sum, ((_, cost), _)| add_count(sum, *cost))
    }

    /// Whether the reply shows that the origin lost something of this key, and hasn't just dropped a cell that is over.
    fn shows_loss(&self, sync: &KeySync, reply: &KeyReply, now: Nanos) -> bool {
        let by_now = now.plus(CLOCKS_DIFFER);
        let is_over = match &sync.counts {
            CountSync::Window(window) => window.current.expires <= by_now,
            CountSync::Gcra { sync, .. } => sync.busy.tat.plus(BUCKET_TTL) <= by_now,
        };
        let lost = |confirmed| reply.component_before.is_none_or(|before| before < confirmed);
        !is_over && reply.epoch == sync.epoch && self.confirmed.is_some_and(lost)
    }
}

/// What is to be done after an event.
#[derive(Default)]
#[must_use]
pub struct Effects {
    pub send: Vec<OutgoingExchange>,
    /// Keys that a request waits for: [`Region::send_asks`] makes their calls, when whoever asks at the same time
    /// has asked too.
    pub asked_keys: SmallVec<[KeyId; 4]>,
    /// Shards that showed that they lost something: a pulse is due at once.
    pub pulse: SmallVec<[ShardId; 1]>,
    /// Resets that a shard may have lost, to be told to it again; [`Region::restored`] takes what came of each.
    pub restore: Vec<(ShardId, DoneReset)>,
    pub finished: Vec<(Wake, AskOutcomes)>,
}

impl fmt::Debug for Effects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Effects")
            .field("send", &self.send)
            .field("asked", &self.asked_keys)
            .field("pulse", &self.pulse)
            .field("finished", &self.finished.len())
            .finish()
    }
}

/// Which shard keeps a key.
pub type Route<'a> = &'a (dyn Fn(KeyId) -> ShardId + 'a);

#[derive(Debug)]
pub struct Region {
    options: RegionOptions,
    pending: Mutex<Pending>,
    counters: RegionCounters,
    asks: AskFigures,
    /// What this node does for the world tier, where there is one.
    world: Option<WorldNode>,
    /// The parts of limits that hold over the world.
    quotas: Option<Arc<Quotas>>,
    /// The keys that are hot in the region, whatever comes of them here.
    hot: ArcSwap<KeySet>,
}

/// What the region tier did, for operators.
#[derive(Debug, Default)]
pub struct RegionCounters {
    pub exchanges: AtomicU64,
    pub syncs: AtomicU64,
    pub asks: AtomicU64,
    pub unverified: AtomicU64,
    pub failed_exchanges: AtomicU64,
    pub failed_keys: AtomicU64,
}

impl RegionCounters {
    fn add(counter: &AtomicU64, more: usize) {
        counter.fetch_add(u64::try_from(more).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub fn counts_by_name(&self) -> [(&'static str, u64); 6] {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [
            ("origin_exchanges", get(&self.exchanges)),
            ("origin_syncs", get(&self.syncs)),
            ("origin_asks", get(&self.asks)),
            ("unverified_limits", get(&self.unverified)),
            ("origin_failed_exchanges", get(&self.failed_exchanges)),
            ("origin_failed_keys", get(&self.failed_keys)),
        ]
    }
}

impl Region {
    pub fn new(options: RegionOptions) -> Self {
        Region {
            options,
            pending: Mutex::new(Pending::new(options.seed)),
            counters: RegionCounters::default(),
            asks: AskFigures::default(),
            world: None,
            quotas: None,
            hot: ArcSwap::default(),
        }
    }

    /// The same for a region that agrees with others.
    #[must_use]
    pub fn with_world(self, world: WorldNode, quotas: Arc<Quotas>) -> Self {
        Region { world: Some(world), quotas: Some(quotas), ..self }
    }

    #[inline]
    pub fn world(&self) -> Option<&WorldNode> {
        self.world.as_ref()
    }

    pub fn node(&self) -> NodeId {
        self.options.node
    }

    pub fn counters(&self) -> &RegionCounters {
        &self.counters
    }

    /// Every shard's breaker that there has been a reason to make.
    pub fn breakers(&self) -> Vec<(ShardId, BreakerState, u64)> {
        let pending = self.pending.lock();
        pending.breakers.iter().map(|(shard, breaker)| (*shard, breaker.state(), breaker.opens())).collect()
    }

    /// How many keys wait for a shard whose breaker is open.
    pub fn held(&self) -> usize {
        self.pending.lock().held.values().map(Vec::len).sum()
    }

    /// Asks about the limits of one request; `wake` is called when all have their standing. The request may
    /// give up before that.
    pub fn ask(
        &self,
        table: &Table<SharedState>,
        items: &[AskItem],
        moment: Moment,
        route: Route<'_>,
        wake: Wake,
    ) -> (AskId, Effects) {
        RegionCounters::add(&self.counters.asks, items.len());
        let mut effects = Effects::default();
        let mut pending = self.pending.lock();
        let id = pending.register(items.len(), wake);
        let mut askable = SmallVec::<[usize; 4]>::new();
        for (index, item) in items.iter().enumerate() {
            self.asks.asked(item.reason);
            let shard = route(item.key);
            if pending.may_ask(item.key, shard, moment.now) {
                match item.cost {
                    Cost::PEEK => asked::join(&mut pending, items, index, id, &mut effects),
                    _ => askable.push(index),
                }
            } else {
                pending.unaskable(shard, item);
                pending.resolve(id, index, AskOutcome::Unverified, &mut effects.finished);
            }
        }
        match askable[..] {
            [] => {}
            [index] => asked::join(&mut pending, items, index, id, &mut effects),
            _ => self.hold(&mut pending, table, items, &askable, id, moment, route, &mut effects),
        }
        drop(pending);
        self.counted(&effects);
        (id, effects)
    }

    /// The request waits no longer: what has no standing yet is unverified. `None` when it was woken already.
    pub fn give_up(&self, id: AskId) -> Option<AskOutcomes> {
        self.pending.lock().give_up(id)
    }

    /// The request was decided with the standings that it got, or dropped: what it reserved is over.
    pub fn complete(&self, id: AskId) {
        self.pending.lock().complete(id);
    }

    /// Sends the call that a key's waiting requests have been waiting for.
    fn send_waiting(
        &self,
        pending: &mut Pending,
        table: &Table<SharedState>,
        key: KeyId,
        moment: Moment,
        route: Route<'_>,
        effects: &mut Effects,
    ) {
        if pending.keys.get(&key).is_none_or(|entry| entry.in_flight) {
            return;
        }
        let Some(TakenAsks { spec, regions, asks, classes, peeks, request: mut wants }) =
            pending.take_asks(key)
        else {
            return;
        };
        let state = table.aligned(key, &spec, moment);
        wants.lease = pending.leases.request((key, spec), &state, table.live_nodes(), moment.now);
        // What was drawn before is spent before more is.
        wants.draw &= state.prepaid(&spec, moment.now) == 0 && wants.lease.is_none();
        wants.peek = wants.asks.is_empty() && wants.lease.is_none() && !state.counts_anything();
        let counts = state.asking(&spec, regions, moment.now);
        let settled = pending.keys.entry(key).or_default().leaves();
        let mut sync = KeySync { key, epoch: state.epoch(), counts, request: wants, ended_holds: settled };
        pending.mark_sent(&mut sync);
        let confirmed = state.confirmed(&sync.counts, moment.now);
        let ticket = Ticket { asks, classes, peeks, confirmed, holds_key: true, ..Ticket::default() };
        let shard = route(key);
        match effects.send.iter_mut().find(|outgoing| outgoing.has_room(shard, moment.now)) {
            Some(outgoing) => {
                outgoing.exchange.reads_record |= ticket.needs_record(&sync);
                outgoing.exchange.syncs.push(sync);
                outgoing.tickets.push(ticket);
            }
            None => {
                let (node, now) = (self.options.node, moment.now);
                let reads_record = ticket.needs_record(&sync);
                let exchange = Exchange { node, now, syncs: vec![sync], grant: Grant::Each, reads_record };
                effects.send.push(OutgoingExchange { shard, exchange, tickets: vec![ticket] });
            }
        }
    }

    /// Who waited for a key's call may need none of their own any more: what it brought is enough for them, or
    /// shows that there is nothing left. Only after a call: a request that asks again must get an answer.
    fn complete_locally(
        &self,
        pending: &mut Pending,
        table: &Table<SharedState>,
        key: KeyId,
        moment: Moment,
        effects: &mut Effects,
    ) {
        let Some(entry) = pending.keys.get_mut(&key) else { return };
        let Some(first) = entry.waiting.front() else { return };
        let mut state = table.aligned(key, &first.item.spec, moment);
        let mut settled = SmallVec::<[(AskId, usize, AskOutcome); 4]>::new();
        entry.waiting.retain(|WaitingAsk { id, index, item }| {
            let before = state;
            let (decision, reason) = state.decide(&item.item(), table.live_nodes(), moment.now);
            let outcome = match (decision.verdict, reason) {
                (Verdict::Admit, None) => AskOutcome::Granted,
                (Verdict::Admit, Some(_)) => {
                    state = before;
                    return true;
                }
                (Verdict::Deny { retry_after }, _) => AskOutcome::Refused { retry_after, window: None },
            };
            settled.push((*id, *index, outcome));
            false
        });
        for (id, index, outcome) in settled {
            pending.resolve(id, index, outcome, &mut effects.finished);
        }
    }

    /// Returns a sync of an item's key that publishes what the node counted and asks for nothing.
    fn reading(&self, table: &Table<SharedState>, item: &AskItem, moment: Moment) -> KeySync {
        let state = table.aligned(item.key, &item.spec, moment);
        KeySync {
            key: item.key,
            epoch: state.epoch(),
            counts: state.asking(&item.spec, item.regions, moment.now),
            request: GrantRequest::default(),
            ended_holds: SmallVec::new(),
        }
    }

    fn outgoing(
        &self,
        shard: ShardId,
        grant: Grant,
        syncs: Vec<(KeySync, Ticket)>,
        now: Nanos,
    ) -> OutgoingExchange {
        let reads_record = syncs.iter().any(|(sync, ticket)| ticket.needs_record(sync));
        let (syncs, tickets) = syncs.into_iter().unzip();
        OutgoingExchange {
            shard,
            exchange: Exchange { node: self.options.node, now, syncs, grant, reads_record },
            tickets,
        }
    }

    fn counted(&self, effects: &Effects) {
        RegionCounters::add(&self.counters.exchanges, effects.send.len());
        let syncs = effects.send.iter().map(|outgoing| outgoing.exchange.syncs.len()).sum();
        RegionCounters::add(&self.counters.syncs, syncs);
        let unverified = effects.finished.iter().flat_map(|(_, outcomes)| outcomes);
        let unverified = unverified.filter(|outcome| **outcome == AskOutcome::Unverified).count();
        RegionCounters::add(&self.counters.unverified, unverified);
    }

    /// A reservation's name, unlike any other of this node, and so of this region.
    fn hold_id(&self, id: AskId) -> HoldId {
        // Nodes are numbered at random: their numbers mixed with a counter don't meet within 250 ms.
        HoldId(self.options.node.0.rotate_left(32) ^ id.0.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }
}
