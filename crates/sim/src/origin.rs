//! The region's store, spread over its servers by the keys' places, and what it goes through.
//!
//! What nodes and their worker leave for each other is on the first server. Beside each real store it keeps a mirror of what each owner's component must be, which fares as the store
//! does: it is forgotten, copied and fails over with it.

use std::collections::{BTreeMap, BTreeSet};
use tidegate_core::counts::CellReply;
use tidegate_core::exchange::{CountReply, CountSync, KeyReply, KeySync};
use tidegate_core::origin_cell::NodeId;
use tidegate_core::{CellId, KeyId, Nanos, Rate, Sequence};
use tidegate_origin::record::{Pulse, PulseReply, RecordReading};
use tidegate_origin::{
    CellCondition, CellTotal, DoneReset, Exchange, ExchangeReply, Expiry, OriginStore, ShardId, WorldCell,
};

#[derive(Debug)]
pub(crate) struct SimulatedOrigin {
    shards: Vec<Shard>,
    /// Whether what the stores say is compared with their mirrors.
    is_audited: bool,
    pub(crate) is_down: bool,
    /// A mistake that is made on purpose: a lowered burst leaves the whole debt.
    pub(crate) keeps_debts: bool,
    pub(crate) paused_until: Nanos,
    /// Keys that are handed from one server to another, and until when.
    pub(crate) moves: Vec<(KeyId, Nanos)>,
}

#[derive(Debug, Default)]
struct Shard {
    store: OriginStore,
    mirror: Mirror,
    copy: Option<Box<(OriginStore, Mirror)>>,
    is_down: bool,
    /// How often another server took its place.
    generation: u64,
}

/// A key, the epoch and the cell.
type Id = (KeyId, u16, Sequence);

/// What the store must hold, by what it was sent and what it granted.
#[derive(Clone, Debug, Default)]
struct Mirror {
    components: BTreeMap<(KeyId, u16, Sequence, NodeId), u64>,
    /// Of buckets that the store may have forgotten.
    doubted: BTreeMap<(KeyId, u16, Sequence, NodeId), u64>,
    totals: BTreeMap<Id, u64>,
    /// Until when the store keeps a cell.
    expiries: BTreeMap<Id, Nanos>,
    by_expiry: BTreeSet<(Nanos, Id)>,
    /// Of GCRA keys and their epochs. A changed rate changes what is owed.
    tats: BTreeMap<(KeyId, u16), (Nanos, Rate)>,
    /// The largest burst of each: a lowered one leaves one empty bucket of what is owed.
    bursts: BTreeMap<(KeyId, u16), u64>,
}

/// A store keeps a bucket so long after it is full again, which is what nodes rely on, and to spare so much longer,
/// so that its expiry needn't move with every charge. Whether it has forgotten it in between depends on who joined
/// and when a rate changed, which nobody may rely on: both are right, and nothing else is.
const GCRA_STATE_TTL: Nanos = Nanos::from_secs(60);
const GCRA_STATE_MARGIN: Nanos = Nanos::from_secs(15);
/// GCRA has no cells.
const NO_CELL: Sequence = Sequence(u64::MAX);

impl SimulatedOrigin {
    pub(crate) fn new(shards: u32, is_audited: bool) -> Self {
        let shards = (0..shards.max(1)).map(|_| Shard::default()).collect();
        SimulatedOrigin {
            shards,
            is_audited,
            is_down: false,
            keeps_debts: false,
            paused_until: Nanos::ZERO,
            moves: Vec::new(),
        }
    }

    /// Where what isn't of one key is kept.
    pub(crate) fn coordination(&mut self) -> &mut OriginStore {
        &mut self.shards[0].store
    }

    fn shard_mut(&mut self, key: KeyId) -> &mut Shard {
        let index = self.place_of(key);
        &mut self.shards[index]
    }

    fn place_of(&self, key: KeyId) -> usize {
        let shards = u32::try_from(self.shards.len()).unwrap_or(u32::MAX);
        index_of(crate::simulation::shard_of(key, shards))
    }

    /// Whether a server answers.
    pub(crate) fn answers(&self, shard: ShardId) -> bool {
        !self.is_down && self.shards.get(index_of(shard)).is_none_or(|shard| !shard.is_down)
    }

    /// Whether the one does that what isn't of one key is kept on.
    pub(crate) fn coordination_answers(&self) -> bool {
        self.answers(ShardId(0))
    }

    /// Lets a server do an exchange, and compares what it says with the mirror.
    pub(crate) fn exchange(
        &mut self,
        shard: ShardId,
        exchange: &Exchange,
        now: Nanos,
    ) -> Result<ExchangeReply, String> {
        let Shard { store, mirror, .. } = &mut self.shards[index_of(shard)];
        if self.keeps_debts {
            store.lose_bursts();
        }
        let exchanged = store.exchange(exchange, now);
        if self.is_audited {
            for (sync, reply) in exchange.syncs.iter().zip(&exchanged.replies) {
                if let Ok(reply) = reply {
                    mirror.follow((exchange.node, exchange.now), sync, reply, now)?;
                }
            }
        }
        Ok(exchanged)
    }

    /// Whether a key's server has all that nodes know: it isn't recovering from a loss of data.
    pub(crate) fn is_whole(&self, key: KeyId) -> bool {
        let record = self.shards[self.place_of(key)].store.record();
        matches!(record, RecordReading::Found(record) if !record.is_recovering)
    }

    pub(crate) fn cell_total(&mut self, cell: &CellId, now: Nanos) -> CellTotal {
        self.shard_mut(cell.key).store.cell_total(cell, now)
    }

    /// A cell, with what the world tier has of it; all zero when there is none.
    pub(crate) fn cell(&self, cell: &CellId) -> CellReply {
        let none = CellReply { component: 0, total: 0, world: 0, published: 0 };
        self.shards[self.place_of(cell.key)].store.cell(cell).unwrap_or(none)
    }

    /// What is counted in a cell.
    pub(crate) fn total(&self, cell: &CellId) -> u64 {
        let store = &self.shards[self.place_of(cell.key)].store;
        store.total(cell.key, cell.epoch, cell.sequence).unwrap_or(0)
    }

    /// Who was counted in a cell, and how much of each.
    pub(crate) fn counters(&self, cell: &CellId) -> impl Iterator<Item = (NodeId, u64)> {
        let of = |node| (cell.key, cell.epoch, cell.sequence, NodeId(node));
        let components = &self.shards[self.place_of(cell.key)].mirror.components;
        components.range(of(0)..=of(u64::MAX)).map(|((_, _, _, node), count)| (*node, *count))
    }

    /// Tells the store what the world has of some cells, and hears what is taken for published of each. INV-5: that
    /// only raises.
    pub(crate) fn import(
        &mut self,
        cells: &[WorldCell],
        nodes_now: Nanos,
        now: Nanos,
    ) -> Result<Vec<u64>, String> {
        let is_audited = self.is_audited;
        let mut published = Vec::with_capacity(cells.len());
        for cell in cells {
            let Shard { store, mirror, .. } = self.shard_mut(cell.cell.key);
            if !is_audited {
                published.push(store.import(cell, nodes_now, now));
                continue;
            }
            let before = store.cell_total(&cell.cell, now);
            published.push(store.import(cell, nodes_now, now));
            let expires = Expiry { at: cell.expires, now: nodes_now }.by_store(now);
            mirror.store((cell.cell.key, cell.cell.epoch, cell.cell.sequence), expires);
            let after = store.cell_total(&cell.cell, now);
            if after.total != before.total.max(cell.own) && cell.expires > now {
                let told = cell.own;
                return Err(format!("INV-5: an own row of {told} made {after:?} of {before:?}"));
            }
        }
        Ok(published)
    }

    /// A server answers a pulse.
    pub(crate) fn pulse(&mut self, shard: ShardId, pulse: &Pulse, now: Nanos) -> PulseReply {
        self.shards[index_of(shard)].store.pulse(pulse, now)
    }

    /// How often another server took the place of a shard's.
    pub(crate) fn generation(&self, shard: ShardId) -> u64 {
        self.shards.get(index_of(shard)).map_or(0, |shard| shard.generation)
    }

    pub(crate) fn lose_data(&mut self) {
        for shard in &mut self.shards {
            shard.store.clear();
            shard.mirror = Mirror::default();
        }
    }

    /// One server loses everything.
    pub(crate) fn lose_shard_data(&mut self, shard: usize) {
        let index = shard % self.shards.len();
        self.shards[index].store.clear();
        self.shards[index].mirror = Mirror::default();
    }

    pub(crate) fn lose_key(&mut self, key: KeyId) {
        let Shard { store, mirror, .. } = self.shard_mut(key);
        store.lose_key(key);
        mirror.lose(key, None);
    }

    pub(crate) fn lose_epoch(&mut self, key: KeyId) {
        self.shard_mut(key).store.lose_epoch(key);
    }

    pub(crate) fn lose_component(&mut self, key: KeyId, node: NodeId) {
        let Shard { store, mirror, .. } = self.shard_mut(key);
        store.lose_component(key, node);
        mirror.lose(key, Some(node));
    }

    /// Starts a key afresh; an order that was carried out before changes nothing.
    pub(crate) fn reset(
        &mut self,
        key: KeyId,
        known: u16,
        expiry: Expiry,
        reset_id: Option<u64>,
        now: Nanos,
    ) -> u16 {
        let store = &mut self.shard_mut(key).store;
        match reset_id {
            Some(order) => store.reset_once(key, known, expiry, order, now),
            None => store.reset(key, known, expiry, now),
        }
    }

    pub(crate) fn restore_reset(&mut self, done: &DoneReset, nodes_now: Nanos, now: Nanos) {
        self.shard_mut(done.reset.key).store.restore_reset(done, nodes_now, now);
    }

    pub(crate) fn epoch(&self, key: KeyId) -> u16 {
        self.shards[self.place_of(key)].store.epoch(key)
    }

    /// Whether a key is being handed from one server to another.
    pub(crate) fn is_moving(&self, key: KeyId, now: Nanos) -> bool {
        self.moves.iter().any(|(moving, until)| *moving == key && *until > now)
    }

    pub(crate) fn cell_condition(&self, cell: &CellId, now: Nanos) -> Option<CellCondition> {
        self.shards[self.place_of(cell.key)].store.cell_condition(cell, now)
    }

    pub(crate) fn bucket_condition(&self, key: KeyId, epoch: u16, now: Nanos) -> Option<CellCondition> {
        self.shards[self.place_of(key)].store.bucket_condition(key, epoch, now)
    }

    /// When a bucket is full again; zero when there is none.
    pub(crate) fn tat(&self, key: KeyId, epoch: u16) -> Nanos {
        let store = &self.shards[self.place_of(key)].store;
        store.busy(key, epoch).map_or(Nanos::ZERO, |busy| busy.tat)
    }

    pub(crate) fn copy(&mut self) {
        self.shards.iter_mut().for_each(Shard::copy);
    }

    /// Says whether there was a copy to fail over to.
    pub(crate) fn fail_over(&mut self) -> bool {
        // All of them, also after the first.
        self.shards.iter_mut().filter_map(|shard| shard.fail_over().then_some(())).count() > 0
    }

    pub(crate) fn copy_shard(&mut self, shard: usize) {
        let index = shard % self.shards.len();
        self.shards[index].copy();
    }

    pub(crate) fn shard_goes_down(&mut self, shard: usize) {
        let index = shard % self.shards.len();
        self.shards[index].is_down = true;
    }

    /// Says whether something was forgotten.
    pub(crate) fn shard_fails_over(&mut self, shard: usize) -> bool {
        let index = shard % self.shards.len();
        self.shards[index].is_down = false;
        self.shards[index].fail_over()
    }

    /// All servers are up.
    pub(crate) fn calm(&mut self, now: Nanos) {
        self.is_down = false;
        self.paused_until = now;
        self.shards.iter_mut().for_each(|shard| shard.is_down = false);
    }
}

impl Shard {
    fn copy(&mut self) {
        self.copy = Some(Box::new((self.store.clone(), self.mirror.clone())));
    }

    fn fail_over(&mut self) -> bool {
        let Some(copy) = self.copy.take() else { return false };
        (self.store, self.mirror) = *copy;
        self.generation += 1;
        self.store.restart(self.generation);
        true
    }
}

impl Mirror {
    fn follow(
        &mut self,
        (node, nodes_now): (NodeId, Nanos),
        sync: &KeySync,
        reply: &KeyReply,
        now: Nanos,
    ) -> Result<(), String> {
        let kept_until = |expires| Expiry { at: expires, now: nodes_now }.by_store(now);
        let (taken, epoch) = (taken(sync, reply), reply.epoch);
        self.expire(now);
        // A node that missed a reset publishes nothing, and is granted what it asks for in the new epoch.
        let sync = &if epoch > sync.epoch { sync.in_epoch(epoch) } else { sync.clone() };
        match (&sync.counts, &reply.counts) {
            (CountSync::Window(sent), CountReply::Window { current, previous, .. }) => {
                let cell = (sync.key, epoch, sent.sequence);
                self.store(cell, kept_until(sent.current.expires));
                self.own(cell, node, sent.current.component, taken, current.component)?;
                self.total(cell, current.total)?;
                let before = Sequence(sent.sequence.0.wrapping_sub(1));
                if let (Some(sent), Some(previous)) = (sent.previous, previous) {
                    let before = (sync.key, epoch, before);
                    // Looking back at a cell that isn't there makes none.
                    if previous.total > 0 {
                        self.store(before, kept_until(sent.expires));
                    }
                    self.own(before, node, sent.component, 0, previous.component)?;
                    self.total(before, previous.total)?;
                }
            }
            (CountSync::Gcra { sync: sent, burst }, CountReply::Gcra { busy, stored, .. }) => {
                let largest = self.bursts.entry((sync.key, epoch)).or_default();
                *largest = (*largest).max(*burst);
                let is_lowered = *burst < *largest;
                let cell = (sync.key, epoch, NO_CELL);
                self.doubt((sync.key, epoch), now);
                self.own(cell, node, sent.cumulative, taken, *stored)?;
                let before = self.tats.insert((sync.key, epoch), (busy.tat, sent.rate));
                let idle_from = kept_until(busy.tat.max(nodes_now));
                self.store(cell, idle_from.plus(GCRA_STATE_TTL).plus(GCRA_STATE_MARGIN));
                let same_rate = before.filter(|(_, rate)| *rate == sent.rate && !is_lowered);
                if let Some((tat, _)) = same_rate.filter(|(tat, _)| busy.tat < *tat) {
                    return Err(format!("INV-1: an arrival time went back from {tat:?} to {:?}", busy.tat));
                }
            }
            _ => return Err("the store answers about another algorithm".to_owned()),
        }
        Ok(())
    }

    /// A bucket that was full for long enough is the store's to forget: from then on nobody can tell whether it did.
    fn doubt(&mut self, (key, epoch): (KeyId, u16), now: Nanos) {
        if self.tats.get(&(key, epoch)).is_none_or(|(tat, _)| tat.plus(GCRA_STATE_TTL) > now) {
            return;
        }
        self.tats.remove(&(key, epoch));
        let owners = (key, epoch, NO_CELL, NodeId(0))..=(key, epoch, NO_CELL, NodeId(u64::MAX));
        let owners: Vec<_> = self.components.range(owners).map(|(id, count)| (*id, *count)).collect();
        for (id, count) in owners {
            self.components.remove(&id);
            self.doubted.insert(id, count);
        }
    }

    /// The store lost a key, or what one node counted of it.
    fn lose(&mut self, key: KeyId, node: Option<NodeId>) {
        self.components
            // Of a bucket the store loses no part.
            .retain(|(other, _, cell, owner), _| {
                *other != key || node.is_some_and(|node| node != *owner || *cell == NO_CELL)
            });
        self.totals.retain(|(other, ..), _| *other != key);
        if node.is_none() {
            self.doubted.retain(|(other, ..), _| *other != key);
            self.expiries.retain(|(other, ..), _| *other != key);
            self.by_expiry.retain(|(_, (other, ..))| *other != key);
            self.tats.retain(|(other, _), _| *other != key);
        }
    }

    fn store(&mut self, cell: Id, expires: Nanos) {
        let kept = self.expiries.get(&cell).copied().unwrap_or_default();
        self.store_until(cell, expires.max(kept));
    }

    fn store_until(&mut self, cell: Id, expires: Nanos) {
        let expires = Nanos::from_millis(expires.as_millis_ceil());
        if let Some(before) = self.expiries.insert(cell, expires) {
            self.by_expiry.remove(&(before, cell));
        }
        self.by_expiry.insert((expires, cell));
    }

    fn expire(&mut self, now: Nanos) {
        while let Some((expires, cell)) = self.by_expiry.first().copied().filter(|first| first.0 <= now) {
            self.by_expiry.remove(&(expires, cell));
            self.expiries.remove(&cell);
            self.totals.remove(&cell);
            let (key, epoch, sequence) = cell;
            let owners = (key, epoch, sequence, NodeId(0))..=(key, epoch, sequence, NodeId(u64::MAX));
            let owners: Vec<_> = self.components.range(owners).map(|(id, _)| *id).collect();
            for id in &owners {
                self.components.remove(id);
            }
            if sequence == NO_CELL {
                self.tats.remove(&(key, epoch));
            }
        }
    }

    fn own(
        &mut self,
        (key, epoch, sequence): Id,
        node: NodeId,
        sent: u64,
        taken: u64,
        told: u64,
    ) -> Result<(), String> {
        let doubted = self.doubted.remove(&(key, epoch, sequence, node));
        let component = self.components.entry((key, epoch, sequence, node)).or_default();
        let kept = doubted.filter(|count| told == (*count).max(sent) + taken);
        let expected = (*component).max(kept.unwrap_or(0)).max(sent) + taken;
        *component = expected;
        if told == expected {
            return Ok(());
        }
        Err(format!("INV-2: the store has {told} of {node:?} in {sequence:?} of {key:?}, and not {expected}"))
    }

    fn total(&mut self, cell: Id, told: u64) -> Result<(), String> {
        let total = self.totals.entry(cell).or_default();
        if told < *total {
            return Err(format!("INV-1: the total of {cell:?} shrank from {total} to {told}"));
        }
        *total = told;
        Ok(())
    }
}

/// What an exchange added to a component by granting.
pub(crate) fn taken(sync: &KeySync, reply: &KeyReply) -> u64 {
    if sync.request.hold.is_some() {
        return reply.drawn;
    }
    let granted = sync.request.asks.iter().zip(&reply.granted).filter(|(_, granted)| **granted);
    reply.drawn + granted.map(|(cost, _)| cost).sum::<u64>()
}

fn index_of(shard: ShardId) -> usize {
    usize::try_from(shard.0).unwrap_or(usize::MAX)
}
