//! Deciding a request: all of its limits, or none.
//!
//! The shards of all keys are locked in ascending order and every limit is decided in place; when one of them
//! denies, what the others were charged is taken back before anybody can see it. Nothing is incremented where
//! others look, so a request that is denied never makes another one's limit look fuller than it is (INV-4).

use crate::ask::AskReason;
use crate::decision::Decision;
use crate::item::{Charge, Item, Role, Room};
use crate::limit::Cost;
use crate::state::State;
use crate::sync::MutexGuard;
use crate::table::{Shard, Table};
use crate::time::Moment;
use smallvec::SmallVec;

/// The most limits that one request may name.
pub const ITEMS_MAX: usize = 100;
/// Up to this many limits are decided without allocating.
pub const ITEMS_INLINE: usize = 16;

/// The answers of a request's limits, in their order.
pub type Decisions = SmallVec<[Decision; ITEMS_INLINE]>;

/// Whether the request passes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    Admitted,
    Denied,
}

/// Why a request wasn't decided. Nothing was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Undecided {
    #[error("the counter table is full, and item {index} has no entry in it")]
    NoRoom { index: usize },
    /// It would pass, but the region has to be asked first: [`Table::reasons`] says for which items.
    #[error("the region has to be asked first")]
    MustAsk,
}

/// Why each item must ask first, if it must.
pub type Reasons = SmallVec<[Option<AskReason>; ITEMS_INLINE]>;

/// The shards of a request, locked in ascending order, and which of them each item is in.
struct Locked<'a, S> {
    shards: SmallVec<[(usize, MutexGuard<'a, Shard<S>>); ITEMS_INLINE]>,
    of_item: [u8; ITEMS_MAX],
}

/// A request half decided: what to put back if it is denied, and what to put in if it isn't.
struct Draft<S> {
    /// Entries as they were, in the order in which they were written.
    undo: SmallVec<[Undo<S>; ITEMS_INLINE]>,
    /// Items whose key has no entry, with the states that they would get.
    fresh: Vec<Fresh<S>>,
    must_ask: bool,
}

struct Undo<S> {
    /// Index into the locked shards.
    locked: u8,
    place: usize,
    before: S,
}

struct Fresh<S> {
    item: usize,
    after: S,
    /// Whether `after` includes the item's cost. A key gets an entry only then.
    charged: bool,
}

impl<S: State> Table<S> {
    /// Decides a request of one limit: the hot path.
    #[inline]
    pub fn decide(&self, item: &Item, moment: Moment) -> Result<Decision, Undecided> {
        // The lock is taken while the entry is on its way from memory.
        self.prefetch(item.key);
        let index = self.shard_index(item.key);
        let mut shard = self.shard(index).lock();
        let Ok(place) = shard.find(item.key) else {
            return self.decide_first_sight(index, &mut shard, item, moment);
        };
        let state = shard.state_mut(place);
        let before = *state;
        let now = self.align(state, &item.spec, moment);
        let (decision, reason) = state.decide(item, self.live_nodes(), now);
        if S::SHARED {
            if reason.is_some() {
                *state = before;
                return Err(Undecided::MustAsk);
            }
            self.announce(item.key, before.publish(), state.publish());
        }
        Ok(decision)
    }

    #[cold]
    fn decide_first_sight(
        &self,
        index: usize,
        shard: &mut Shard<S>,
        item: &Item,
        moment: Moment,
    ) -> Result<Decision, Undecided> {
        let mut state = S::default().with_step(moment.step);
        let (decision, reason) = state.decide(item, self.live_nodes(), moment.now);
        if reason.is_some() {
            return Err(Undecided::MustAsk);
        }
        if item.charges(&decision) {
            self.make_room(index, shard, moment);
            if !item.finds_room(shard, 0) {
                return Err(Undecided::NoRoom { index: 0 });
            }
            shard.insert(item.key, state);
            self.publish_hint(index, shard);
            self.announce(item.key, S::default().publish(), state.publish());
        }
        Ok(decision)
    }

    /// Makes room in a shard that has none, if that can be.
    pub(crate) fn make_room(&self, index: usize, shard: &mut Shard<S>, moment: Moment) {
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
    ) -> Result<Outcome, Undecided> {
        assert!(items.len() <= ITEMS_MAX, "front ends refuse larger requests");
        decisions.clear();
        if let [item] = items {
            decisions.push(self.decide(item, moment)?);
            return Ok(outcome(items, decisions));
        }
        let mut locked = Locked { shards: SmallVec::new(), of_item: [0; ITEMS_MAX] };
        self.lock_all(items, moment, &mut locked);
        let mut draft = Draft { undo: SmallVec::new(), fresh: Vec::new(), must_ask: false };
        self.draft(items, moment, &mut locked, &mut draft, |_, decision, _| decisions.push(decision));
        let outcome = outcome(items, decisions);
        if outcome == Outcome::Denied {
            locked.put_back(&mut draft);
            self.charge_overdrafts(items, moment, &mut locked, &mut draft, decisions);
        } else if S::SHARED && draft.must_ask {
            locked.put_back(&mut draft);
            return Err(Undecided::MustAsk);
        }
        if !draft.fresh.is_empty() {
            self.insert_fresh(items, &mut draft, &mut locked)?;
        }
        if S::SHARED {
            self.announce_all(&draft, &locked);
        }
        Ok(outcome)
    }

    /// Why the items of a request that must ask have to.
    pub fn reasons(&self, items: &[Item], moment: Moment) -> Reasons {
        let mut locked = Locked { shards: SmallVec::new(), of_item: [0; ITEMS_MAX] };
        self.lock_all(items, moment, &mut locked);
        let mut draft = Draft { undo: SmallVec::new(), fresh: Vec::new(), must_ask: false };
        let mut reasons = Reasons::new();
        self.draft(items, moment, &mut locked, &mut draft, |_, _, reason| reasons.push(reason));
        locked.put_back(&mut draft);
        reasons
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

    /// Decides every item in place, as if all passed.
    #[inline]
    fn draft(
        &self,
        items: &[Item],
        moment: Moment,
        locked: &mut Locked<'_, S>,
        draft: &mut Draft<S>,
        mut decided: impl FnMut(usize, Decision, Option<AskReason>),
    ) {
        let live_nodes = self.live_nodes();
        for (index, item) in items.iter().enumerate() {
            let position = locked.of_item[index];
            let shard = &mut locked.shards[usize::from(position)].1;
            let (decision, reason) = match shard.find(item.key) {
                Ok(place) => {
                    let state = shard.state_mut(place);
                    draft.undo.push(Undo { locked: position, place, before: *state });
                    let now = self.align(state, &item.spec, moment);
                    state.decide(item, live_nodes, now)
                }
                Err(_) => draft.decide_fresh(items, index, live_nodes, moment),
            };
            draft.must_ask |= reason.is_some();
            decided(index, decision, reason);
        }
    }

    /// A denied request is charged to nothing but its post-paid limits; the others answer as if only looked
    /// at.
    #[cold]
    fn charge_overdrafts(
        &self,
        items: &[Item],
        moment: Moment,
        locked: &mut Locked<'_, S>,
        draft: &mut Draft<S>,
        decisions: &mut Decisions,
    ) {
        let looked_at = |(index, item): (usize, &Item)| {
            // A key that comes again asks for all that it was asked for so far.
            let same_key = |earlier: &&Item| earlier.key == item.key && earlier.charge == Charge::IfAdmitted;
            let asked: u64 = match item.charge {
                Charge::IfAdmitted => {
                    items[..index].iter().filter(same_key).map(|item| item.cost.get()).sum()
                }
                Charge::Always | Charge::Never => 0,
            };
            let cost = Cost::new(asked + item.cost.get()).unwrap_or(Cost::MAX);
            let charge = if item.charge == Charge::Always { Charge::Always } else { Charge::Never };
            Item { cost, charge, ..*item }
        };
        let items: SmallVec<[Item; ITEMS_INLINE]> = items.iter().enumerate().map(looked_at).collect();
        self.draft(&items, moment, locked, draft, |index, decision, _| decisions[index] = decision);
    }

    /// Gives the new keys their entries. An insertion may move the others, so it comes last.
    #[cold]
    fn insert_fresh(
        &self,
        items: &[Item],
        draft: &mut Draft<S>,
        locked: &mut Locked<'_, S>,
    ) -> Result<(), Undecided> {
        if let Some(index) = locked.first_without_room(items, draft) {
            locked.put_back(draft);
            return Err(Undecided::NoRoom { index });
        }
        self.announce_all(draft, locked);
        for fresh in draft.fresh.iter().filter(|fresh| fresh.charged) {
            let key = items[fresh.item].key;
            let (index, shard) = &mut locked.shards[usize::from(locked.of_item[fresh.item])];
            shard.insert(key, fresh.after);
            self.publish_hint(*index, shard);
            self.announce(key, S::default().publish(), fresh.after.publish());
        }
        draft.undo.clear();
        Ok(())
    }

    /// Queues what the request charged. Before the places of its entries move.
    #[inline]
    fn announce_all(&self, draft: &Draft<S>, locked: &Locked<'_, S>) {
        if !S::SHARED {
            return;
        }
        for undo in &draft.undo {
            let shard = &locked.shards[usize::from(undo.locked)].1;
            let (key, after) = (shard.key(undo.place), shard.state(undo.place));
            self.announce(key, undo.before.publish(), after.publish());
        }
    }
}

impl<S: State> Draft<S> {
    /// Decides an item whose key has no entry, on what an earlier item of that key left.
    #[cold]
    fn decide_fresh(
        &mut self,
        items: &[Item],
        index: usize,
        live_nodes: u32,
        moment: Moment,
    ) -> (Decision, Option<AskReason>) {
        let earlier = self.fresh.iter().rev().find(|fresh| items[fresh.item].key == items[index].key);
        let (mut after, was_charged) = match earlier {
            Some(earlier) => (earlier.after, earlier.charged),
            None => (S::default().with_step(moment.step), false),
        };
        let (decision, reason) = after.decide(&items[index], live_nodes, moment.now);
        let charged = was_charged || items[index].charges(&decision);
        self.fresh.push(Fresh { item: index, after, charged });
        (decision, reason)
    }
}

impl<S: State> Locked<'_, S> {
    /// Takes back everything that was written.
    #[cold]
    fn put_back(&mut self, draft: &mut Draft<S>) {
        // In reverse: a key that comes twice ends as it was before the first time.
        for undo in draft.undo.drain(..).rev() {
            self.shards[usize::from(undo.locked)].1.set_state(undo.place, undo.before);
        }
        draft.fresh.clear();
    }

    /// The first new key that finds no room beside the other new keys of the request.
    fn first_without_room(&self, items: &[Item], draft: &Draft<S>) -> Option<usize> {
        let mut new_keys = SmallVec::<[(u8, usize); ITEMS_INLINE]>::new();
        for fresh in draft.fresh.iter().filter(|fresh| fresh.charged) {
            let (item, position) = (&items[fresh.item], self.of_item[fresh.item]);
            if new_keys.iter().any(|(_, other)| items[*other].key == item.key) {
                continue;
            }
            let others = new_keys.iter().filter(|(other, _)| *other == position).count();
            if !item.finds_room(&self.shards[usize::from(position)].1, others) {
                return Some(fresh.item);
            }
            new_keys.push((position, fresh.item));
        }
        None
    }
}

impl Item {
    /// Whether its key may get an entry beside `others` that are new too.
    fn finds_room<S: State>(&self, shard: &Shard<S>, others: usize) -> bool {
        match self.room {
            Room::Capped => shard.has_room(others + 1),
            Room::Reserved => shard.has_reserved_room(),
        }
    }
}

#[inline]
fn outcome(items: &[Item], decisions: &[Decision]) -> Outcome {
    let denies =
        |(item, decision): (&Item, &Decision)| item.role == Role::Enforced && !decision.is_admitted();
    if items.iter().zip(decisions).any(denies) { Outcome::Denied } else { Outcome::Admitted }
}
