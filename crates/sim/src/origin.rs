//! The one store of the region, and what it goes through.
//!
//! Beside the real store it keeps a mirror of what each owner's component must be, which fares as the store
//! does: it is forgotten, copied and fails over with it.

use std::collections::BTreeMap;
use tidegate_core::exchange::{CountReply, CountSync, KeyReply, KeySync};
use tidegate_core::origin_cell::NodeId;
use tidegate_core::{KeyId, Nanos, Rate, Sequence};
use tidegate_origin::{Exchange, Exchanged, Store, WorldCell};

#[derive(Debug, Default)]
pub(crate) struct SimulatedOrigin {
    pub(crate) store: Store,
    mirror: Mirror,
    copy: Option<(Store, Mirror)>,
    pub(crate) is_down: bool,
    pub(crate) paused_until: Nanos,
}

/// What the store must hold, by what it was sent and what it granted.
#[derive(Clone, Debug, Default)]
struct Mirror {
    components: BTreeMap<(KeyId, Sequence, NodeId), u64>,
    totals: BTreeMap<(KeyId, Sequence), u64>,
    /// Until when the store keeps a cell.
    expiries: BTreeMap<(KeyId, Sequence), Nanos>,
    /// Of GCRA keys. A changed rate changes what is owed.
    tats: BTreeMap<KeyId, (Nanos, Rate)>,
}

/// A store keeps a bucket so long after it is full again.
const GCRA_KEPT_FOR: Nanos = Nanos::from_secs(60);
/// GCRA has no cells.
const NO_CELL: Sequence = Sequence(u64::MAX);

impl SimulatedOrigin {
    /// Lets the store do an exchange, and compares what it says with the mirror.
    pub(crate) fn exchange(&mut self, exchange: &Exchange, now: Nanos) -> Result<Exchanged, String> {
        let exchanged = self.store.exchange(exchange, now);
        for (sync, reply) in exchange.syncs.iter().zip(&exchanged.replies) {
            if let Ok(reply) = reply {
                self.mirror.follow(exchange.node, sync, reply, now)?;
            }
        }
        Ok(exchanged)
    }

    /// Tells the store what the world has of some cells. INV-5: that only raises.
    pub(crate) fn import(&mut self, cells: &[WorldCell], now: Nanos) -> Result<(), String> {
        for cell in cells {
            let before = self.store.cell_total(&cell.cell, now);
            self.store.import(cell, now);
            self.mirror.keep((cell.cell.key, cell.cell.sequence), cell.expires);
            let after = self.store.cell_total(&cell.cell, now);
            if after.total != before.total.max(cell.own) && cell.expires > now {
                let told = cell.own;
                return Err(format!("INV-5: an own row of {told} made {after:?} of {before:?}"));
            }
        }
        Ok(())
    }

    pub(crate) fn forget(&mut self) {
        self.store.clear();
        self.mirror = Mirror::default();
    }

    pub(crate) fn copy(&mut self) {
        self.copy = Some((self.store.clone(), self.mirror.clone()));
    }

    /// Says whether there was a copy to fail over to.
    pub(crate) fn fail_over(&mut self) -> bool {
        let Some((store, mirror)) = self.copy.take() else { return false };
        (self.store, self.mirror) = (store, mirror);
        true
    }
}

impl Mirror {
    fn follow(&mut self, node: NodeId, sync: &KeySync, reply: &KeyReply, now: Nanos) -> Result<(), String> {
        let taken = taken(sync, reply);
        self.expire(now);
        match (&sync.counts, &reply.counts) {
            (CountSync::Window(sent), CountReply::Window { current, previous, .. }) => {
                let cell = (sync.key, sent.sequence);
                self.keep(cell, sent.current.expires);
                self.own(cell, node, sent.current.component, taken, current.component)?;
                self.total(cell, current.total)?;
                let before = Sequence(sent.sequence.0.wrapping_sub(1));
                if let (Some(sent), Some(previous)) = (sent.previous, previous) {
                    self.keep((sync.key, before), sent.expires);
                    self.own((sync.key, before), node, sent.component, 0, previous.component)?;
                    self.total((sync.key, before), previous.total)?;
                }
            }
            (CountSync::Gcra { sync: sent, .. }, CountReply::Gcra { busy, stored, .. }) => {
                self.own((sync.key, NO_CELL), node, sent.cumulative, taken, *stored)?;
                let before = self.tats.insert(sync.key, (busy.tat, sent.rate));
                let expires = Nanos::from_millis(busy.tat.plus(GCRA_KEPT_FOR).as_millis_ceil());
                self.expiries.insert((sync.key, NO_CELL), expires);
                let same_rate = before.filter(|(_, rate)| *rate == sent.rate);
                if let Some((tat, _)) = same_rate.filter(|(tat, _)| busy.tat < *tat) {
                    return Err(format!("INV-1: an arrival time went back from {tat:?} to {:?}", busy.tat));
                }
            }
            _ => return Err("the store answers about another algorithm".to_owned()),
        }
        Ok(())
    }

    fn keep(&mut self, cell: (KeyId, Sequence), expires: Nanos) {
        let kept = self.expiries.entry(cell).or_default();
        *kept = (*kept).max(Nanos::from_millis(expires.as_millis_ceil()));
    }

    fn expire(&mut self, now: Nanos) {
        let expired: Vec<_> = self.expiries.iter().filter(|(_, expires)| **expires <= now).collect();
        let expired: Vec<_> = expired.into_iter().map(|(cell, _)| *cell).collect();
        for cell in expired {
            self.expiries.remove(&cell);
            self.totals.remove(&cell);
            self.components.retain(|(key, sequence, _), _| (*key, *sequence) != cell);
            if cell.1 == NO_CELL {
                self.tats.remove(&cell.0);
            }
        }
    }

    fn own(
        &mut self,
        (key, sequence): (KeyId, Sequence),
        node: NodeId,
        sent: u64,
        taken: u64,
        told: u64,
    ) -> Result<(), String> {
        let component = self.components.entry((key, sequence, node)).or_default();
        let expected = (*component).max(sent) + taken;
        *component = expected;
        if told == expected {
            return Ok(());
        }
        Err(format!("INV-2: the store has {told} of {node:?} in {sequence:?} of {key:?}, and not {expected}"))
    }

    fn total(&mut self, cell: (KeyId, Sequence), told: u64) -> Result<(), String> {
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
    if sync.wants.reserve.is_some() {
        return reply.drawn;
    }
    let granted = sync.wants.asks.iter().zip(&reply.granted).filter(|(_, granted)| **granted);
    reply.drawn + granted.map(|(cost, _)| cost).sum::<u64>()
}
