//! What a shared state says to its origin, and what it takes from the answer.
//!
//! A reply may be late, repeated, or about a cell that is over; it raises what is known and never lowers it.
//! What a store says is checked before anything is written.

use super::{Deadline, OWNS_CURRENT, OWNS_PREVIOUS, SharedState, UNCONFIRMED, WORLD_SPENT};
use crate::counts::{CellReply, Counts, ReplyError};
use crate::decision::ChargeMode;
use crate::exchange::{CellSync, CountReply, CountSync, Fading, KeyReply, KeySync, WindowSync};
use crate::gcra_sync::{BusyPeriod, GcraSync, adopt};
use crate::limit::{Rate, Spec};
use crate::packed::{
    adopted_denominator, gcra_tag, is_gcra, payload_of, rate_of, step_of, tag_with_step, window_expires,
    window_tag,
};
use crate::state::{PublishUrgency, sequence_of, window_expiry};
use crate::time::{Nanos, Sequence};
use crate::window::add_count;
use crate::world::{CellUsage, is_spent};

/// A store keeps a bucket so long after it is full again.
const BUCKET_MARGIN: Nanos = Nanos::from_secs(60);
/// A store keeps a cell this much longer than its nodes: their clocks and their syncs may lag.
const STORE_MARGIN: Nanos = Nanos::from_secs(60);

impl SharedState {
    /// The node's own part of what the region admitted in the current cell, and the whole of that.
    pub fn share(&self) -> (u64, u64) {
        if is_gcra(self.tag) {
            return (0, 0);
        }
        let (own, regional) = (self.current.own, self.current.regional());
        if regional > 0 { (own, regional) } else { (self.previous.own, self.previous.regional()) }
    }

    /// Returns the node's share and the total, as the origin last reported them. What was admitted since isn't counted:
    /// the others' part of that is unknown, and with its own alone, an isolated node would take itself for the only one.
    pub fn share_when_last_received(&self) -> (u64, u64) {
        if is_gcra(self.tag) {
            return (0, 0);
        }
        let heard = |counts: &Counts| (counts.stored, add_count(counts.stored, counts.others));
        let current = heard(&self.current);
        if current.1 > 0 { current } else { heard(&self.previous) }
    }

    /// What is to be asked about a check of `spec` now; `regions` as in [`WindowSync`].
    pub fn asking(&self, spec: &Spec, regions: u32, now: Nanos) -> CountSync {
        if let Spec::Gcra { rate, burst } = *spec {
            let mut state = *self;
            if state.sequence.0 != burst.get() {
                // A decision that had to ask was taken back, and what it forgave with it.
                state.change_burst(rate, burst.get(), ChargeMode::IfAdmitted, now);
            }
            return CountSync::Gcra { sync: state.gcra_sync(rate, now), burst: burst.get() };
        }
        let sequence = sequence_of(spec, now, self.sequence).max(self.sequence);
        let state = if sequence > self.sequence { self.rolled_to(sequence) } else { *self };
        let expires = window_expiry(spec, sequence, window_expires(self.tag)).plus(STORE_MARGIN);
        let fading = match *spec {
            Spec::Sliding { period, .. } => {
                Some(Fading { end: period.cell(sequence).end, period: period.length() })
            }
            _ => None,
        };
        let previous = (fading.is_some() || state.previous.unsynced() > 0)
            .then(|| state.cell_sync(&state.previous, expires));
        CountSync::Window(WindowSync {
            limit: spec.shown_limit(),
            regions,
            sequence,
            current: state.cell_sync(&state.current, expires),
            previous,
            fading,
        })
    }

    /// What is to be published, whatever the rules say by now; `None` when nothing was ever admitted.
    pub fn publishing(&self) -> Option<CountSync> {
        if is_gcra(self.tag) {
            let rate = rate_of(self.previous.others, self.tag)?;
            return Some(CountSync::Gcra { sync: self.gcra_sync(rate, Nanos::ZERO), burst: self.sequence.0 });
        }
        if payload_of(self.tag) == 0 {
            return None;
        }
        let expires = window_expires(self.tag).plus(STORE_MARGIN);
        let previous =
            (self.fades || self.previous.unsynced() > 0).then(|| self.cell_sync(&self.previous, expires));
        Some(CountSync::Window(WindowSync {
            limit: 0,
            regions: 1,
            sequence: self.sequence,
            current: self.cell_sync(&self.current, expires),
            previous,
            fading: None,
        }))
    }

    /// A node that forgot publishes and claims 0: it doesn't know yet what it published before its entry was
    /// dropped, and would take what it claims of its own admissions for somebody else's.
    fn cell_sync(&self, counts: &Counts, expires: Nanos) -> CellSync {
        if self.has_forgotten_cells() {
            return CellSync { component: 0, acked: 0, claim: 0, expires };
        }
        CellSync { component: counts.component(), acked: counts.stored, claim: counts.regional(), expires }
    }

    fn gcra_sync(&self, rate: Rate, now: Nanos) -> GcraSync {
        let cumulative = if self.has_forgotten() { 0 } else { self.current.component() };
        let has_unsynced = self.current.unsynced() > 0;
        let oldest = if has_unsynced { Nanos::new(self.current.others) } else { now };
        let busy = if self.has_forgotten() { BusyPeriod::default() } else { self.busy() };
        let acked = self.current.stored;
        GcraSync { cumulative, acked, sent: acked, oldest, busy, rate }
    }

    /// Whether this node counted anything of the key, as far as it knows.
    pub fn counts_anything(&self) -> bool {
        let previous = if is_gcra(self.tag) { 0 } else { self.previous.component() };
        self.current.component() > 0 || previous > 0
    }

    /// The node's component of the cell that `sent` is about, as the origin confirmed it; `None` where the node is no owner
    /// of that cell, and where the origin may have dropped it by now.
    pub fn confirmed(&self, sent: &CountSync, now: Nanos) -> Option<u64> {
        let is_there = match sent {
            CountSync::Window(window) => window.sequence == self.sequence,
            CountSync::Gcra { .. } => now < self.busy().tat.plus(BUCKET_MARGIN),
        };
        (is_there && self.marks & OWNS_CURRENT != 0).then_some(self.current.stored)
    }

    /// Takes the origin's answer to `sent`, which left at `sent_at`. Without `fresh_until` the origin may have lost data:
    /// its counts are taken, but neither is the view fresher by them, nor may anything that was granted be spent before
    /// the key is confirmed.
    pub fn merge(
        &mut self,
        sent: &KeySync,
        reply: &KeyReply,
        sent_at: Nanos,
        fresh_until: Option<Nanos>,
    ) -> Result<(), ReplyError> {
        if reply.epoch < self.epoch {
            // The key was reset since: the reply is about cells that nobody counts in any more.
            return Ok(());
        }
        let mut after = *self;
        if reply.epoch > after.epoch {
            after = after.at_epoch(reply.epoch);
        }
        let granted = granted_in(sent, reply);
        let owners = match (sent.counts, reply.counts) {
            (CountSync::Window(sync), CountReply::Window { current, previous, owners }) => {
                // A publish, which doesn't know the limit, is about the cell that the state was in. If the state is in an
                // earlier one now, its clock was set back, and what was counted was carried there.
                let is_publish =
                    sync.limit == 0 && sent.request.asks.is_empty() && sent.request.lease.is_none();
                if is_publish && payload_of(after.tag) != 0 && sync.sequence > after.sequence {
                    return Ok(());
                }
                after.merge_window(&sync, current, previous, granted)?;
                // A publish doesn't know the limit, and says nothing about it.
                if sync.regions > 1 && sync.sequence == after.sequence {
                    let is_spent = sync.has_spent(current, previous, sent_at);
                    after.marks = after.marks & !WORLD_SPENT | if is_spent { WORLD_SPENT } else { 0 };
                }
                owners
            }
            (CountSync::Gcra { sync, burst }, CountReply::Gcra { busy, stored, owners }) => {
                // A late reply that was asked for with a larger burst must not bring that burst back.
                if burst > 0 && (after.sequence.0 == 0 || burst < after.sequence.0) {
                    after.change_burst(sync.rate, burst, ChargeMode::IfAdmitted, sent_at);
                }
                after.merge_gcra(&sync, busy, stored, granted, sent_at)?;
                owners
            }
            _ => return Err(ReplyError::OtherAlgorithm),
        };
        if let Some(wish) = sent.request.lease {
            after.take_lease(sent, wish, reply, sent_at);
        }
        after.owners = u16::try_from(owners).unwrap_or(u16::MAX).max(1);
        if sent.request.peek {
            // The node has looked, and owns no more than before.
            after.marks =
                after.marks & !(OWNS_CURRENT | OWNS_PREVIOUS) | self.marks & (OWNS_CURRENT | OWNS_PREVIOUS);
        }
        match fresh_until {
            Some(fresh_until) => {
                after.fresh_until = Deadline::at(fresh_until);
                after.marks &= !UNCONFIRMED;
            }
            None if granted > 0 || self.marks & UNCONFIRMED != 0 => after.unconfirm(),
            None => {}
        }
        after.queued = if after.unsynced() > 0 { PublishUrgency::Soon } else { PublishUrgency::Nothing };
        *self = after;
        Ok(())
    }

    /// Counts as spent what a reply to `sent` granted and nobody will spend, because the store may have lost data. Nodes
    /// that restore what they know claim more than the store counted when it granted, so their claims hide the grant; spent
    /// later, it would come on top of the limit.
    ///
    /// Example: a limit of 20, of which 18 are used, and the store lost them. It grants 6. Another node then claims the 18,
    /// and the store counts 18, not 24.
    pub fn forfeit(&mut self, sent: &CountSync, units: u64) {
        match sent {
            CountSync::Window(window) => {
                if let Some(cell) = self.cell_mut(window.sequence) {
                    cell.own = add_count(cell.own, units);
                }
            }
            CountSync::Gcra { .. } => {
                // Beside what lapsed: nobody admitted it.
                self.current.own = add_count(self.current.own, units);
                self.current.world = add_count(self.current.world, units);
            }
        }
        self.queued = if self.unsynced() > 0 { PublishUrgency::Soon } else { self.queued };
    }

    fn merge_window(
        &mut self,
        sent: &WindowSync,
        current: CellReply,
        previous: Option<CellReply>,
        granted: u64,
    ) -> Result<(), ReplyError> {
        if sent.sequence > self.sequence || payload_of(self.tag) == 0 {
            *self = self.rolled_to(sent.sequence);
            let expires = window_tag(sent.current.expires.minus(STORE_MARGIN));
            self.tag = tag_with_step(expires, step_of(self.tag));
            self.fades |= sent.fading.is_some();
        }
        let had_forgotten = self.has_forgotten_cells();
        if let Some(cell) = self.cell_mut(sent.sequence) {
            cell.take(current, granted, had_forgotten)?;
        }
        if let (Some(reply), Some(before)) = (previous, sent.sequence.0.checked_sub(1))
            && let Some(cell) = self.cell_mut(Sequence(before))
        {
            cell.take(reply, 0, had_forgotten)?;
        }
        match self.sequence.0 - sent.sequence.0 {
            0 => self.marks |= OWNS_CURRENT,
            1 => self.marks |= OWNS_PREVIOUS,
            _ => {}
        }
        Ok(())
    }

    fn merge_gcra(
        &mut self,
        sent: &GcraSync,
        busy: BusyPeriod,
        stored: u64,
        granted: u64,
        sent_at: Nanos,
    ) -> Result<(), ReplyError> {
        let had_forgotten = self.has_forgotten();
        // What the origin didn't know of when it answered. Not what was admitted since it was asked: another
        // call may have told it meanwhile, and what this one was granted is in both.
        let admitted_since =
            if had_forgotten { self.current.own } else { self.current.component().saturating_sub(stored) };
        // The counts of GCRA have no others: those are in the arrival time.
        let mut counts = Counts { others: 0, ..self.current };
        if self.previous.own < sent_at.get() {
            // The bucket was full again when this left, so what was granted before has lapsed. A decision that
            // found that out and had to ask was taken back, and what it found with it.
            let lapsed = counts.prepaid();
            (counts.own, counts.world) = (counts.component(), add_count(counts.world, lapsed));
        }
        counts.take(
            CellReply { component: stored, total: stored, world: 0, published: 0 },
            granted,
            had_forgotten,
        )?;
        // A node that had forgotten sent nothing of what it admitted before.
        let is_younger = counts.unsynced() > 0 && !had_forgotten;
        let oldest = if is_younger { sent_at.get() } else { self.current.others };
        self.current = Counts { others: oldest, ..counts };
        let own = self.busy();
        let since = if had_forgotten { Nanos::new(oldest) } else { sent_at };
        let adopted = adopt(own, busy, admitted_since, since, sent.rate);
        if adopted != own || payload_of(self.tag) == 0 {
            (self.previous.own, self.previous.stored) = (adopted.tat.get(), 0);
            self.previous.others = adopted_denominator(sent.rate);
            self.previous.world = adopted.since.get();
            self.tag = tag_with_step(gcra_tag(sent.rate), step_of(self.tag));
        }
        self.marks |= OWNS_CURRENT;
        Ok(())
    }

    /// The counts of the cell `sequence`, if the state still has them.
    fn cell_mut(&mut self, sequence: Sequence) -> Option<&mut Counts> {
        if sequence == self.sequence {
            Some(&mut self.current)
        } else if sequence.0.checked_add(1) == Some(self.sequence.0) {
            Some(&mut self.previous)
        } else {
            None
        }
    }
}

impl WindowSync {
    /// Whether the region has no world credit left, by what it answered.
    fn has_spent(&self, current: CellReply, previous: Option<CellReply>, now: Nanos) -> bool {
        let used = self.used(current, previous, now);
        let CellReply { total, published, .. } = current;
        is_spent(&CellUsage { limit: self.limit, used, total, published }, self.regions)
    }
}

impl WindowSync {
    /// What was in use of the limit at `now`, by what the origin answered.
    pub(crate) fn used(&self, current: CellReply, previous: Option<CellReply>, now: Nanos) -> u64 {
        let faded = self
            .fading
            .map_or(0, |Fading { end, period }| self.faded_in(previous, end.minus(now).min(period)));
        add_count(add_count(current.total, current.world), faded)
    }

    /// How much of the cell before fades in so long.
    pub(super) fn faded_in(&self, previous: Option<CellReply>, length: Nanos) -> u64 {
        let (Some(Fading { period, .. }), Some(cell)) = (self.fading, previous) else { return 0 };
        let count = u128::from(add_count(cell.total, cell.world));
        let faded = count * u128::from(length.get()) / u128::from(period.get().max(1));
        u64::try_from(faded).unwrap_or(u64::MAX)
    }
}

/// How much of the replied component is new by this very exchange.
fn granted_in(sent: &KeySync, reply: &KeyReply) -> u64 {
    if sent.request.hold.is_some() {
        return 0;
    }
    let granted = sent.request.asks.iter().zip(&reply.granted).filter(|(_, granted)| **granted);
    granted.fold(reply.drawn, |sum, (cost, _)| add_count(sum, *cost))
}
