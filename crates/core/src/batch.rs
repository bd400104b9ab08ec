//! Deciding a request: all of its limits, or none.
//!
//! The shards of all keys are locked in ascending order and every limit is decided in place; when one of them
//! denies, what the others were charged is taken back before anybody can see it. Nothing is incremented where
//! others look, so a request that is denied never makes another one's limit look fuller than it is (INV-4).

mod single;

use crate::ask::AskReason;
use crate::decision::{Decision, Verdict};
use crate::identity::KeyId;
use crate::item::{Charge, Item, Role, Room};
use crate::limit::Cost;
use crate::state::State;
use crate::sync::MutexGuard;
use crate::table::{Shard, Table};
use crate::time::Moment;
use arrayvec::ArrayVec;
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
    /// It would pass, or can't be sure that it wouldn't: the region has to be asked first. [`Table::reasons`] says for
    /// which items.
    #[error("the region has to be asked first")]
    MustAsk,
}

/// Why each item must ask first, if it must.
pub type Reasons = SmallVec<[Option<AskReason>; ITEMS_INLINE]>;

/// The shards of a request with their indices, locked in ascending order.
struct LockedShards<'a, S>(ArrayVec<(usize, MutexGuard<'a, Shard<S>>), ITEMS_MAX>);

/// A request half decided: what to put back if it is denied, and what to put in if it isn't.
struct Draft<S> {
    /// Entries as they were, in the order in which they were written.
    undo: ArrayVec<Undo<S>, ITEMS_MAX>,
    /// Items whose key has no entry, with the states that they would get.
    fresh: Vec<Fresh<S>>,
    must_ask: bool,
}

struct Undo<S> {
    /// Index into the locked shards.
    locked: usize,
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
    /// Decides a request of up to [`ITEMS_MAX`] limits, all or none, and writes each one's answer to
    /// `decisions`. A key that comes twice counts twice, in order.
    pub fn decide_all(
        &self,
        items: &[Item],
        moment: Moment,
        decisions: &mut Decisions,
    ) -> Result<Outcome, Undecided> {
        self.decide_all_predicting(items, None, moment, decisions)
    }

    /// Decides like [`Table::decide_all`], and evaluates the item first that is predicted to deny. If it does, the others
    /// are only evaluated for their answers, instead of being charged and rolled back. The answers are the same.
    #[inline]
    pub fn decide_all_predicting(
        &self,
        items: &[Item],
        predicted: Option<usize>,
        moment: Moment,
        decisions: &mut Decisions,
    ) -> Result<Outcome, Undecided> {
        assert!(items.len() <= ITEMS_MAX, "front ends refuse larger requests");
        if let [item] = items {
            decisions.clear();
            decisions.push(self.decide(item, moment)?);
            return Ok(outcome(items, decisions));
        }
        // Each is written below: what an earlier request left needs no clearing.
        if decisions.len() != items.len() {
            decisions.resize(items.len(), Decision::NONE);
        }
        let mut locked = LockedShards(ArrayVec::new());
        let mut draft = Draft { undo: ArrayVec::new(), fresh: Vec::new(), must_ask: false };
        let denying = predicted.filter(|suspect| self.denies(items, *suspect, moment, &mut locked));
        let mut uncertain = SmallVec::<[usize; 2]>::new();
        let outcome = if let Some(denying) = denying {
            decisions.fill(Decision::NONE);
            decisions[denying].verdict = Verdict::Deny { retry_after: None };
            Outcome::Denied
        } else {
            self.lock_and_draft(items, moment, &mut locked, &mut draft, |index, decision, reason| {
                decisions[index] = decision;
                if S::SHARED && reason.is_some() && !decision.is_admitted() {
                    uncertain.push(index);
                }
            });
            outcome(items, decisions)
        };
        if outcome == Outcome::Denied && !uncertain.is_empty() && would_pass(items, decisions, &uncertain) {
            locked.put_back(&mut draft);
            return Err(Undecided::MustAsk);
        }
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
        let mut locked = LockedShards(ArrayVec::new());
        let mut draft = Draft { undo: ArrayVec::new(), fresh: Vec::new(), must_ask: false };
        let mut reasons = Reasons::from_elem(None, items.len());
        self.lock_and_draft(items, moment, &mut locked, &mut draft, |index, _, reason| {
            reasons[index] = reason;
        });
        locked.put_back(&mut draft);
        reasons
    }

    /// Whether the item that is suspected denies the request whatever the others say. All shards are locked then,
    /// so that what follows sees what this saw; otherwise none is.
    #[cold]
    #[inline(never)]
    fn denies<'a>(
        &'a self,
        items: &[Item],
        predicted: usize,
        moment: Moment,
        locked: &mut LockedShards<'a, S>,
    ) -> bool {
        let Some(item) = items.get(predicted) else { return false };
        if item.role != Role::Enforced || item.charge == Charge::Always {
            return false;
        }
        let mut shards: ArrayVec<usize, ITEMS_MAX> =
            items.iter().map(|item| self.shard_index(item.key)).collect();
        shards.sort_unstable();
        for shard_index in shards {
            if locked.0.last().is_none_or(|(last, _)| *last != shard_index) {
                self.lock_next(items, shard_index, moment, locked);
            }
        }
        let shard = &locked.0[locked.position(self.shard_index(item.key))].1;
        let is_denied = shard.find(item.key).is_ok_and(|place| {
            let mut looked_at = shard.state(place);
            let now = self.align(&mut looked_at, &item.spec, moment);
            let (decision, reason) = looked_at.decide(item, self.live_nodes(), now);
            !decision.is_admitted() && reason.is_none()
        });
        if !is_denied {
            locked.0.clear();
        }
        is_denied
    }

    /// Locks every shard that the items need, once, in ascending order, and decides each item in place as soon
    /// as its shard is locked, as if all passed. Items of one key share a shard, so they are decided in order.
    #[inline]
    fn lock_and_draft<'a>(
        &'a self,
        items: &[Item],
        moment: Moment,
        locked: &mut LockedShards<'a, S>,
        draft: &mut Draft<S>,
        mut decided: impl FnMut(usize, Decision, Option<AskReason>),
    ) {
        // A shard's index and an item's in one word: at most 2^16 shards and 100 items.
        let mut order = ArrayVec::<u32, ITEMS_MAX>::new();
        for (index, item) in items.iter().enumerate() {
            self.prefetch(item.key);
            order.push(u32::try_from(self.shard_index(item.key) << 8 | index).unwrap_or(u32::MAX));
        }
        sort(&mut order);
        for entry in &order {
            let (shard_index, index) = ((entry >> 8) as usize, (entry & 0xff) as usize);
            if locked.0.last().is_none_or(|(last, _)| *last != shard_index) {
                self.lock_next(items, shard_index, moment, locked);
            }
            let position = locked.0.len() - 1;
            let shard = &mut locked.0[position].1;
            let (decision, reason) = self.draft(items, index, moment, (position, shard), draft);
            decided(index, decision, reason);
        }
    }

    /// Decides an item whose shard is locked, in place.
    #[inline(always)]
    fn draft(
        &self,
        items: &[Item],
        index: usize,
        moment: Moment,
        (position, shard): (usize, &mut Shard<S>),
        draft: &mut Draft<S>,
    ) -> (Decision, Option<AskReason>) {
        let item = &items[index];
        let (decision, reason) = match shard.find(item.key) {
            Ok(place) => {
                let state = shard.state_mut(place);
                draft.undo.push(Undo { locked: position, place, before: *state });
                let now = self.align(state, &item.spec, moment);
                state.decide(item, self.live_nodes(), now)
            }
            Err(_) => draft.decide_fresh(items, index, (self.live_nodes(), self.remembers_all()), moment),
        };
        draft.must_ask |= reason.is_some();
        (decision, reason)
    }

    /// Locks a shard that comes after all that are locked.
    #[inline(always)]
    fn lock_next<'a>(
        &'a self,
        items: &[Item],
        shard_index: usize,
        moment: Moment,
        locked: &mut LockedShards<'a, S>,
    ) {
        locked.0.push((shard_index, self.shard(shard_index).lock()));
        if !self.fits(items.len()) {
            self.make_room_for(items, moment, locked);
        }
    }

    /// Makes room for the items that have no entry yet. Moves no entry of a shard in which something was drafted.
    #[cold]
    #[inline(never)]
    fn make_room_for(&self, items: &[Item], moment: Moment, locked: &mut LockedShards<'_, S>) {
        let is_missing = |item: &Item| {
            let of = self.shard_index(item.key);
            locked.0.iter().any(|(index, shard)| *index == of && shard.find(item.key).is_err())
        };
        let missing = items.iter().filter(|item| is_missing(item)).count();
        let last = locked.0.last().map_or(0, |(index, _)| *index);
        let here = items.iter().find(|item| self.shard_index(item.key) == last && is_missing(item));
        if let (Some(item), Some((_, shard))) = (here, locked.0.last_mut()) {
            self.make_room(last, shard, (item.key.tenant(), missing), moment);
        }
    }

    /// A denied request is charged to nothing but its post-paid limits; the others answer as if only looked
    /// at.
    #[cold]
    #[inline(never)]
    fn charge_overdrafts(
        &self,
        items: &[Item],
        moment: Moment,
        locked: &mut LockedShards<'_, S>,
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
        let mut passing = SmallVec::<[(usize, Verdict); 2]>::new();
        for (index, decision) in decisions.iter_mut().enumerate() {
            let position = locked.position(self.shard_index(items[index].key));
            let shard = &mut locked.0[position].1;
            let drafted = decision.verdict;
            (*decision, _) = self.draft(&items, index, moment, (position, shard), draft);
            if drafted != Verdict::Admit && decision.verdict == Verdict::Admit {
                passing.push((index, drafted));
            }
        }
        if !passing.is_empty() && outcome(&items, decisions) == Outcome::Admitted {
            // What denied after an earlier item of its key may pass with it, by what is prepaid. The request is charged
            // to nothing, so it stays denied.
            passing.into_iter().for_each(|(index, drafted)| decisions[index].verdict = drafted);
        }
    }

    /// Gives the new keys their entries. An insertion may move the others, so it comes last.
    #[cold]
    #[inline(never)]
    fn insert_fresh(
        &self,
        items: &[Item],
        draft: &mut Draft<S>,
        locked: &mut LockedShards<'_, S>,
    ) -> Result<(), Undecided> {
        if let Some(index) = self.first_without_room(items, draft) {
            locked.put_back(draft);
            return Err(Undecided::NoRoom { index });
        }
        self.announce_all(draft, locked);
        for fresh in draft.fresh.iter().filter(|fresh| fresh.charged) {
            let key = items[fresh.item].key;
            let position = locked.position(self.shard_index(key));
            let (index, shard) = &mut locked.0[position];
            self.insert(*index, shard, key, fresh.after);
            self.announce(key, S::default().publish(), fresh.after.publish());
        }
        draft.undo.clear();
        Ok(())
    }

    /// The first new key that finds no room beside the other new keys of the request.
    fn first_without_room(&self, items: &[Item], draft: &Draft<S>) -> Option<usize> {
        let mut new_keys = SmallVec::<[KeyId; ITEMS_INLINE]>::new();
        for fresh in draft.fresh.iter().filter(|fresh| fresh.charged) {
            let item = &items[fresh.item];
            if new_keys.contains(&item.key) {
                continue;
            }
            if !self.finds_room(item, new_keys.len()) {
                return Some(fresh.item);
            }
            new_keys.push(item.key);
        }
        None
    }

    /// Whether an item's key may get an entry beside `others` that are new too.
    fn finds_room(&self, item: &Item, others: usize) -> bool {
        match item.room {
            Room::Capped => self.has_room(item.key.tenant(), others + 1),
            Room::Reserved => self.has_reserved_room(others + 1),
        }
    }

    /// Queues what the request charged. Before the places of its entries move.
    #[inline]
    fn announce_all(&self, draft: &Draft<S>, locked: &LockedShards<'_, S>) {
        if !S::SHARED {
            return;
        }
        for undo in &draft.undo {
            let shard = &locked.0[undo.locked].1;
            let (key, after) = (shard.key(undo.place), shard.state(undo.place));
            self.announce(key, undo.before.publish(), after.publish());
        }
    }
}

impl<S: State> Draft<S> {
    /// Decides an item whose key has no entry, on what an earlier item of that key left.
    #[cold]
    #[inline(never)]
    fn decide_fresh(
        &mut self,
        items: &[Item],
        index: usize,
        (live_nodes, remembers_all): (u32, bool),
        moment: Moment,
    ) -> (Decision, Option<AskReason>) {
        let earlier = self.fresh.iter().rev().find(|fresh| items[fresh.item].key == items[index].key);
        let (mut after, was_charged) = match earlier {
            Some(earlier) => (earlier.after, earlier.charged),
            None => (S::begun(moment.step, remembers_all), false),
        };
        let (decision, reason) = after.decide(&items[index], live_nodes, moment.now);
        let charged = was_charged || items[index].charges(&decision);
        self.fresh.push(Fresh { item: index, after, charged });
        (decision, reason)
    }
}

impl<S: State> LockedShards<'_, S> {
    /// Which of them the shard `index` is.
    fn position(&self, index: usize) -> usize {
        self.0.partition_point(|(other, _)| *other < index)
    }

    /// Takes back everything that was written.
    #[cold]
    #[inline(never)]
    fn put_back(&mut self, draft: &mut Draft<S>) {
        // In reverse: a key that comes twice ends as it was before the first time.
        for undo in draft.undo.drain(..).rev() {
            self.0[undo.locked].1.set_state(undo.place, undo.before);
        }
        draft.fresh.clear();
    }
}

/// Sorts numbers that differ. A few are ranked without a branch that depends on them: which way a comparison
/// of hashes goes can't be predicted, and a wrong guess costs more than all comparisons.
#[inline]
fn sort(numbers: &mut [u32]) {
    const FEW: usize = 8;
    if numbers.len() > FEW {
        return numbers.sort_unstable();
    }
    let mut few = [u32::MAX; FEW];
    few[..numbers.len()].copy_from_slice(numbers);
    for number in few.iter().take(numbers.len()) {
        let rank = few.iter().map(|other| usize::from(other < number)).sum::<usize>();
        numbers[rank] = *number;
    }
}

#[inline]
fn outcome(items: &[Item], decisions: &[Decision]) -> Outcome {
    let limits = items.iter().zip(decisions).map(|(item, decision)| (item.role, decision.is_admitted()));
    if Role::deny(limits) { Outcome::Denied } else { Outcome::Admitted }
}

/// Whether a request passes if the limits that deny it, but aren't certain of that, don't.
#[cold]
fn would_pass(items: &[Item], decisions: &[Decision], uncertain: &[usize]) -> bool {
    let admits = |(index, (item, decision)): (usize, (&Item, &Decision))| {
        (item.role, decision.is_admitted() || uncertain.contains(&index))
    };
    !Role::deny(items.iter().zip(decisions).enumerate().map(admits).collect::<Vec<_>>().into_iter())
}

#[cfg(test)]
mod tests {
    use super::sort;

    #[test]
    fn few_and_many_are_sorted() {
        for count in 0..20_u32 {
            // Multiples of a number that is prime to 101: all differ, in no order.
            let mut numbers: Vec<u32> = (1..=count).map(|number| number * 37 % 101).collect();
            let mut sorted = numbers.clone();
            sorted.sort_unstable();
            sort(&mut numbers);
            assert_eq!(numbers, sorted);
        }
    }
}
