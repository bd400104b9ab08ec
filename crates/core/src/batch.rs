//! Deciding a request: all of its limits, or none.
//!
//! The shards of all keys are locked in ascending order, every limit is evaluated on a copy of its state,
//! and only then the copies are written or dropped. Nothing is incremented speculatively, so a request that
//! is denied never makes another one's limit look fuller than it is (INV-4).

use crate::decision::{Decision, Settle};
use crate::identity::KeyId;
use crate::limit::{Cost, Spec};
use crate::state::State;
use crate::sync::MutexGuard;
use crate::table::{Shard, Table};
use crate::time::Moment;
use smallvec::SmallVec;

/// The most limits that one request may name.
pub const ITEMS_MAX: usize = 100;
/// Up to this many limits are decided without allocating.
pub const ITEMS_INLINE: usize = 16;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Charge {
    IfAdmitted,
    /// Post-paid: charged whatever the verdict, may overdraw.
    Always,
    /// Looked at for the answer only: the request is denied already.
    Never,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    Enforced,
    /// Counted as if enforced when the request passes; never denies it.
    Shadow,
}

/// Whether a key may get an entry when the table is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Room {
    Capped,
    /// One of the few keys that stand in for those that got no entry. Their number is bounded too.
    Reserved,
}

/// One limit of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Item {
    pub key: KeyId,
    pub spec: Spec,
    pub cost: Cost,
    pub charge: Charge,
    pub role: Role,
    pub room: Room,
}

impl Item {
    #[inline]
    pub const fn new(key: KeyId, spec: Spec, cost: Cost) -> Self {
        Item { key, spec, cost, charge: Charge::IfAdmitted, role: Role::Enforced, room: Room::Capped }
    }

    #[inline]
    const fn settle(&self) -> Settle {
        match self.charge {
            Charge::IfAdmitted => Settle::IfAdmitted,
            Charge::Always => Settle::Always,
            Charge::Never => Settle::Never,
        }
    }

    /// Whether its key may get an entry beside `others` that are new too.
    fn finds_room<S: State>(&self, shard: &Shard<S>, others: usize) -> bool {
        match self.room {
            Room::Capped => shard.has_room(others + 1),
            Room::Reserved => shard.has_reserved_room(),
        }
    }

    /// Whether a decision means that the cost was counted.
    #[inline]
    fn charges(&self, decision: &Decision) -> bool {
        self.cost > Cost::PEEK && self.settle().charges(decision.is_admitted())
    }
}

/// The answers of a request's limits, in their order.
pub type Decisions = SmallVec<[Decision; ITEMS_INLINE]>;

/// Whether the request passes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    Admitted,
    Denied,
}

/// The table is full, and this item's key got no entry. Nothing was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the counter table is full, and item {index} has no entry in it")]
pub struct Refused {
    pub index: usize,
}

/// What became of one item, before anything is written.
struct Evaluated<S> {
    /// Index into the locked shards.
    locked: usize,
    /// Where the key was found.
    place: Option<usize>,
    after: S,
    /// Whether `after` includes the item's cost. A key without an entry gets one only then.
    charged: bool,
}

/// The shards of a request, locked in ascending order, and which of them each item is in.
struct Locked<'a, S> {
    shards: SmallVec<[(usize, MutexGuard<'a, Shard<S>>); ITEMS_INLINE]>,
    of_item: [u8; ITEMS_MAX],
}

type Evaluations<S> = SmallVec<[Evaluated<S>; ITEMS_INLINE]>;

impl<S: State> Table<S> {
    /// Decides a request of one limit: the hot path.
    #[inline]
    pub fn decide(&self, item: &Item, moment: Moment) -> Result<Decision, Refused> {
        // The lock is taken while the entry is on its way from memory.
        self.prefetch(item.key);
        let index = self.shard_index(item.key);
        let mut shard = self.shard(index).lock();
        match shard.find(item.key) {
            Ok(place) => {
                let (state, now) = self.align(shard.state(place), &item.spec, moment);
                let (decision, after) = state.decide(&item.spec, item.cost, item.settle(), now);
                shard.set_state(place, after);
                Ok(decision)
            }
            Err(_) => self.decide_first_sight(index, &mut shard, item, moment),
        }
    }

    #[cold]
    fn decide_first_sight(
        &self,
        index: usize,
        shard: &mut Shard<S>,
        item: &Item,
        moment: Moment,
    ) -> Result<Decision, Refused> {
        let fresh = S::default().with_step(moment.step);
        let (decision, after) = fresh.decide(&item.spec, item.cost, item.settle(), moment.now);
        if item.charges(&decision) {
            self.make_room(index, shard, moment);
            if !item.finds_room(shard, 0) {
                return Err(Refused { index: 0 });
            }
            shard.insert(item.key, after);
            self.publish_hint(index, shard);
        }
        Ok(decision)
    }

    /// Makes room in a shard that has none, if that can be.
    fn make_room(&self, index: usize, shard: &mut Shard<S>, moment: Moment) {
        if !shard.has_room(1) {
            shard.make_room(moment.now, |state| self.is_expired(state, moment));
            self.publish_hint(index, shard);
        }
    }

    /// Decides a request of up to [`ITEMS_MAX`] limits, all or none, and writes each one's answer to
    /// `decisions`. A key that comes twice counts twice, in order.
    pub fn decide_all(
        &self,
        items: &[Item],
        moment: Moment,
        decisions: &mut Decisions,
    ) -> Result<Outcome, Refused> {
        assert!(items.len() <= ITEMS_MAX, "front ends refuse larger requests");
        decisions.clear();
        if let [item] = items {
            decisions.push(self.decide(item, moment)?);
            return Ok(outcome(items, decisions));
        }
        let mut locked = Locked { shards: SmallVec::new(), of_item: [0; ITEMS_MAX] };
        self.lock_all(items, moment, &mut locked);
        let mut evaluations = Evaluations::new();
        self.evaluate(items, moment, &locked, &mut evaluations, decisions)?;
        let outcome = outcome(items, decisions);
        if outcome == Outcome::Denied {
            self.keep_only_overdrafts(items, moment, &locked, &mut evaluations, decisions);
        }
        self.commit(items, &evaluations, &mut locked);
        Ok(outcome)
    }

    /// Locks every shard that the items need, once, in ascending order, and makes room where it may lack.
    #[inline]
    fn lock_all<'a>(&'a self, items: &[Item], moment: Moment, locked: &mut Locked<'a, S>) {
        let mut order = SmallVec::<[(usize, usize); ITEMS_INLINE]>::new();
        for (index, item) in items.iter().enumerate() {
            self.prefetch(item.key);
            order.push((self.shard_index(item.key), index));
        }
        order.sort_unstable();
        for run in order.chunk_by(|a, b| a.0 == b.0) {
            let mut shard = self.shard(run[0].0).lock();
            if !shard.has_room(run.len()) && run.iter().any(|(_, item)| shard.find(items[*item].key).is_err())
            {
                self.make_room(run[0].0, &mut shard, moment);
            }
            for (_, index) in run {
                locked.of_item[*index] = u8::try_from(locked.shards.len()).unwrap_or(u8::MAX);
            }
            locked.shards.push((run[0].0, shard));
        }
    }

    #[inline]
    fn evaluate(
        &self,
        items: &[Item],
        moment: Moment,
        locked: &Locked<'_, S>,
        evaluations: &mut Evaluations<S>,
        decisions: &mut Decisions,
    ) -> Result<(), Refused> {
        for (index, item) in items.iter().enumerate() {
            let (position, shard) = locked.shard_of(index);
            let place = shard.find(item.key).ok();
            let before = locked.before(items, index, place, evaluations, moment);
            let (before, now) = self.align(before, &item.spec, moment);
            let (decision, after) = before.decide(&item.spec, item.cost, item.settle(), now);
            let charged = item.charges(&decision);
            if charged && place.is_none() && !locked.has_room_for(items, index, evaluations) {
                return Err(Refused { index });
            }
            decisions.push(decision);
            evaluations.push(Evaluated { locked: position, place, after, charged });
        }
        Ok(())
    }

    /// A denied request is charged to nothing but its post-paid limits; the others answer as if only looked
    /// at.
    #[cold]
    fn keep_only_overdrafts(
        &self,
        items: &[Item],
        moment: Moment,
        locked: &Locked<'_, S>,
        evaluations: &mut Evaluations<S>,
        decisions: &mut Decisions,
    ) {
        for (index, item) in items.iter().enumerate() {
            let before = locked.before(items, index, evaluations[index].place, evaluations, moment);
            let settle = if item.charge == Charge::Always { Settle::Always } else { Settle::Never };
            // A key that comes again asks for all that it was asked for so far.
            let same_key = |earlier: &&Item| earlier.key == item.key && earlier.charge == Charge::IfAdmitted;
            let asked: u64 = match item.charge {
                Charge::IfAdmitted => {
                    items[..index].iter().filter(same_key).map(|item| item.cost.get()).sum()
                }
                Charge::Always | Charge::Never => 0,
            };
            let cost = Cost::new(asked + item.cost.get()).unwrap_or(Cost::MAX);
            let (before, now) = self.align(before, &item.spec, moment);
            let (decision, after) = before.decide(&item.spec, cost, settle, now);
            decisions[index] = decision;
            evaluations[index].after = after;
            evaluations[index].charged = item.cost > Cost::PEEK && settle == Settle::Always;
        }
    }

    /// Writes what was evaluated. Entries that exist first: an insertion may move the others.
    #[inline]
    fn commit(&self, items: &[Item], evaluations: &Evaluations<S>, locked: &mut Locked<'_, S>) {
        let mut has_new = false;
        for entry in evaluations {
            match entry.place {
                Some(place) => locked.shards[entry.locked].1.set_state(place, entry.after),
                None => has_new |= entry.charged,
            }
        }
        if has_new {
            self.insert_new(items, evaluations, locked);
        }
    }

    #[cold]
    fn insert_new(&self, items: &[Item], evaluations: &Evaluations<S>, locked: &mut Locked<'_, S>) {
        for (item, entry) in items.iter().zip(evaluations) {
            if entry.place.is_none() && entry.charged {
                let (index, shard) = &mut locked.shards[entry.locked];
                shard.insert(item.key, entry.after);
                self.publish_hint(*index, shard);
            }
        }
    }
}

impl<S: State> Locked<'_, S> {
    #[inline]
    fn shard_of(&self, item: usize) -> (usize, &Shard<S>) {
        let position = usize::from(self.of_item[item]);
        (position, &self.shards[position].1)
    }

    /// Whether a new key finds room beside the other new keys of the request.
    fn has_room_for(&self, items: &[Item], index: usize, evaluations: &Evaluations<S>) -> bool {
        let (position, shard) = self.shard_of(index);
        let new_keys = items
            .iter()
            .zip(evaluations)
            .filter(|(_, other)| other.locked == position && other.charged && other.place.is_none());
        let is_counted = new_keys.clone().any(|(other, _)| other.key == items[index].key);
        is_counted || items[index].finds_room(shard, new_keys.count())
    }

    /// The state that an item is decided on: what an earlier item of the same key left, or the table's.
    #[inline]
    fn before(
        &self,
        items: &[Item],
        index: usize,
        place: Option<usize>,
        evaluations: &Evaluations<S>,
        moment: Moment,
    ) -> S {
        // Where every item has a shard of its own, no two have the same key.
        if self.shards.len() < items.len() {
            let same_key = |earlier: &Item| earlier.key == items[index].key;
            if let Some(earlier) = items[..index].iter().rposition(same_key) {
                return evaluations[earlier].after;
            }
        }
        match place {
            Some(place) => self.shard_of(index).1.state(place),
            None => S::default().with_step(moment.step),
        }
    }
}

#[inline]
fn outcome(items: &[Item], decisions: &[Decision]) -> Outcome {
    let denies =
        |(item, decision): (&Item, &Decision)| item.role == Role::Enforced && !decision.is_admitted();
    if items.iter().zip(decisions).any(denies) { Outcome::Denied } else { Outcome::Admitted }
}
