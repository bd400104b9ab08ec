//! Requests of one limit: the hot path.

use super::Undecided;
use crate::decision::Decision;
use crate::item::Item;
use crate::state::State;
use crate::table::{Shard, Table};
use crate::time::Moment;

impl<S: State> Table<S> {
    /// Decides a request of one limit: the hot path.
    #[inline(always)]
    pub fn decide(&self, item: &Item, moment: Moment) -> Result<Decision, Undecided> {
        // The lock is taken while the entry is on its way from memory.
        self.prefetch(item.key);
        let index = self.shard_index(item.key);
        let mut shard = self.shard(index).lock();
        if shard.has_long_runs {
            return self.decide_in_long_run(index, &mut shard, item, moment);
        }
        let Ok(place) = shard.find_by_walking(item.key) else {
            return self.decide_first_sight(index, &mut shard, item, moment);
        };
        self.decide_known(shard.state_mut(place), item, moment)
    }

    /// The same in a shard that somebody crowded with crafted keys. Apart, so that others pay for it with one branch.
    #[cold]
    #[inline(never)]
    fn decide_in_long_run(
        &self,
        index: usize,
        shard: &mut Shard<S>,
        item: &Item,
        moment: Moment,
    ) -> Result<Decision, Undecided> {
        match shard.find_by_halves(item.key) {
            Ok(place) => self.decide_known(shard.state_mut(place), item, moment),
            Err(_) => self.decide_first_sight(index, shard, item, moment),
        }
    }

    /// Decides about a key that has an entry.
    #[inline(always)]
    fn decide_known(&self, state: &mut S, item: &Item, moment: Moment) -> Result<Decision, Undecided> {
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
    #[inline(never)]
    fn decide_first_sight(
        &self,
        index: usize,
        shard: &mut Shard<S>,
        item: &Item,
        moment: Moment,
    ) -> Result<Decision, Undecided> {
        let mut state = self.begun(moment);
        let (decision, reason) = state.decide(item, self.live_nodes(), moment.now);
        if reason.is_some() {
            return Err(Undecided::MustAsk);
        }
        if item.charges(&decision) {
            self.make_room(index, shard, (item.key.tenant(), 1), moment);
            if !self.finds_room(item, 0) {
                return Err(Undecided::NoRoom { index: 0 });
            }
            self.insert(index, shard, item.key, state);
            self.announce(item.key, S::default().publish(), state.publish());
        }
        Ok(decision)
    }
}
