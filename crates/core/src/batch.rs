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
    /// One of the few keys that stand in for those that got no entry.
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
    pub const fn new(key: KeyId, spec: Spec, cost: Cost) -> Self {
        Item { key, spec, cost, charge: Charge::IfAdmitted, role: Role::Enforced, room: Room::Capped }
    }

    const fn settle(&self) -> Settle {
        match self.charge {
            Charge::IfAdmitted => Settle::IfAdmitted,
            Charge::Always => Settle::Always,
        }
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

struct Evaluated<S> {
    /// Index into the guards.
    guard: usize,
    /// Where the key was found.
    place: Option<usize>,
    before: S,
    after: S,
    /// Whether `after` includes the item's cost. A key without an entry gets one only then.
    charged: bool,
}

type Guards<'a, S> = SmallVec<[(usize, MutexGuard<'a, Shard<S>>); ITEMS_INLINE]>;

impl<S: State> Table<S> {
    /// Decides a request of one limit: the hot path.
    #[inline]
    pub fn decide(&self, item: &Item, moment: Moment) -> Result<Decision, Refused> {
        let mut shard = self.shard(self.shard_index(item.key)).lock();
        match shard.find(item.key) {
            Ok(place) => {
                let (state, now) = self.align(shard.state(place), &item.spec, moment);
                let (decision, after) = state.decide(&item.spec, item.cost, item.settle(), now);
                shard.set_state(place, after);
                Ok(decision)
            }
            Err(_) => self.decide_first_sight(&mut shard, item, moment),
        }
    }

    fn decide_first_sight(
        &self,
        shard: &mut Shard<S>,
        item: &Item,
        moment: Moment,
    ) -> Result<Decision, Refused> {
        let fresh = S::default().with_step(moment.step);
        let (decision, after) = fresh.decide(&item.spec, item.cost, item.settle(), moment.now);
        if charges(item, &decision) {
            if item.room == Room::Capped && !shard.has_room(1) {
                shard.make_room(moment.now, |state| self.is_expired(state, moment));
                if !shard.has_room(1) {
                    return Err(Refused { index: 0 });
                }
            }
            shard.insert(item.key, after);
        }
        Ok(decision)
    }

    /// Decides a request of up to [`ITEMS_MAX`] limits, all or none. A key that comes twice counts twice, in
    /// order.
    pub fn decide_all(&self, items: &[Item], moment: Moment) -> Result<(Outcome, Decisions), Refused> {
        assert!(items.len() <= ITEMS_MAX, "front ends refuse larger requests");
        if let [item] = items {
            let decision = self.decide(item, moment)?;
            return Ok((outcome(items, &[decision]), SmallVec::from_slice(&[decision])));
        }
        let mut guards = self.lock_all(items, moment);
        let mut decisions = Decisions::new();
        let mut evaluated = self.evaluate(&guards, items, moment, &mut decisions)?;
        let outcome = outcome(items, &decisions);
        if outcome == Outcome::Denied {
            self.keep_only_overdrafts(items, moment, &mut evaluated, &mut decisions);
        }
        commit(&mut guards, items, &evaluated);
        Ok((outcome, decisions))
    }

    /// Locks every shard that the items need, once, in ascending order, and makes room where it may lack.
    fn lock_all(&self, items: &[Item], moment: Moment) -> Guards<'_, S> {
        let mut shards: SmallVec<[usize; ITEMS_INLINE]> =
            items.iter().map(|item| self.shard_index(item.key)).collect();
        shards.sort_unstable();
        let mut guards = Guards::new();
        for run in shards.chunk_by(|a, b| a == b) {
            let mut shard = self.shard(run[0]).lock();
            if !shard.has_room(run.len()) {
                shard.make_room(moment.now, |state| self.is_expired(state, moment));
            }
            guards.push((run[0], shard));
        }
        guards
    }

    fn evaluate(
        &self,
        guards: &Guards<'_, S>,
        items: &[Item],
        moment: Moment,
        decisions: &mut Decisions,
    ) -> Result<SmallVec<[Evaluated<S>; ITEMS_INLINE]>, Refused> {
        let mut evaluated = SmallVec::<[Evaluated<S>; ITEMS_INLINE]>::new();
        for (index, item) in items.iter().enumerate() {
            let shard_index = self.shard_index(item.key);
            let guard = guards.partition_point(|(shard, _)| *shard < shard_index);
            let place = guards[guard].1.find(item.key).ok();
            let earlier = items[..index].iter().rposition(|earlier| earlier.key == item.key);
            let before = match (earlier, place) {
                (Some(earlier), _) => evaluated[earlier].after,
                (None, Some(place)) => guards[guard].1.state(place),
                (None, None) => S::default().with_step(moment.step),
            };
            let (before, now) = self.align(before, &item.spec, moment);
            let (decision, after) = before.decide(&item.spec, item.cost, item.settle(), now);
            let charged = charges(item, &decision);
            if charged && place.is_none() && item.room == Room::Capped {
                let is_new =
                    |other: &&Evaluated<S>| other.guard == guard && other.charged && other.place.is_none();
                if !guards[guard].1.has_room(evaluated.iter().filter(is_new).count() + 1) {
                    return Err(Refused { index });
                }
            }
            decisions.push(decision);
            evaluated.push(Evaluated { guard, place, before, after, charged });
        }
        Ok(evaluated)
    }

    /// A denied request is charged to nothing but its post-paid limits; the others answer as if only looked
    /// at.
    fn keep_only_overdrafts(
        &self,
        items: &[Item],
        moment: Moment,
        evaluated: &mut [Evaluated<S>],
        decisions: &mut Decisions,
    ) {
        for index in 0..items.len() {
            let item = &items[index];
            let earlier = items[..index].iter().rposition(|earlier| earlier.key == item.key);
            let before = match earlier {
                Some(earlier) => evaluated[earlier].after,
                None => evaluated[index].before,
            };
            let admitted = decisions[index].is_admitted();
            let settle = if item.charge == Charge::Always { Settle::Always } else { Settle::Never };
            let (_, now) = self.align(before, &item.spec, moment);
            let (decision, after) = before.decide(&item.spec, item.cost, settle, now);
            // What a limit said of the whole request stands; what it has left is told without it.
            if admitted {
                decisions[index] = Decision { verdict: decisions[index].verdict, ..decision };
            }
            evaluated[index].after = after;
            evaluated[index].charged = item.cost > Cost::PEEK && settle == Settle::Always;
        }
    }
}

/// Writes what was evaluated. Entries that exist first: an insertion may move the others.
fn commit<S: State>(guards: &mut Guards<'_, S>, items: &[Item], evaluated: &[Evaluated<S>]) {
    for entry in evaluated {
        if let Some(place) = entry.place {
            guards[entry.guard].1.set_state(place, entry.after);
        }
    }
    for (item, entry) in items.iter().zip(evaluated) {
        if entry.place.is_none() && entry.charged {
            guards[entry.guard].1.insert(item.key, entry.after);
        }
    }
}

fn charges(item: &Item, decision: &Decision) -> bool {
    item.cost > Cost::PEEK && item.settle().charges(decision.is_admitted())
}

fn outcome(items: &[Item], decisions: &[Decision]) -> Outcome {
    let denies =
        |(item, decision): (&Item, &Decision)| item.role == Role::Enforced && !decision.is_admitted();
    if items.iter().zip(decisions).any(denies) { Outcome::Denied } else { Outcome::Admitted }
}
