//! One key's entry, looked at or changed outside of a decision.
//!
//! What is dropped here is never dropped unnoticed: a state that begins knows whether there may have been another.

use super::Table;
use crate::identity::KeyId;
use crate::limit::Spec;
use crate::state::State;
use crate::time::Moment;
use std::sync::atomic::Ordering;

impl<S: State> Table<S> {
    /// Whether whatever was admitted here in a cell that isn't over is in the table. To be asked with the lock of a
    /// key's shard, or after it: then it is true of that key.
    pub(crate) fn remembers_all(&self) -> bool {
        !self.has_gaps.load(Ordering::Relaxed)
    }

    /// The state of a key that has none.
    pub(crate) fn begun(&self, moment: Moment) -> S {
        S::begun(moment.step, self.remembers_all())
    }

    /// Changes the state of one key, if it has one.
    pub fn update(&self, key: KeyId, change: impl FnOnce(&mut S)) -> bool {
        let mut shard = self.shard(self.shard_index(key)).lock();
        let Ok(place) = shard.find(key) else { return false };
        let mut state = shard.state(place);
        change(&mut state);
        shard.set_state(place, state);
        true
    }

    /// Changes the state of one key, which gets an entry if there is room. Says what the change said.
    pub fn upsert<T>(&self, key: KeyId, moment: Moment, change: impl FnOnce(&mut S) -> T) -> Option<T> {
        let index = self.shard_index(key);
        let mut shard = self.shard(index).lock();
        if let Ok(place) = shard.find(key) {
            let state = shard.state_mut(place);
            self.align_instants(state, moment);
            return Some(change(state));
        }
        self.make_room(index, &mut shard, (key.tenant(), 1), moment);
        if !self.has_room(key.tenant(), 1) {
            self.has_gaps.store(true, Ordering::Relaxed);
            return None;
        }
        let mut state = self.begun(moment);
        let result = change(&mut state);
        self.insert(index, &mut shard, key, state);
        Some(result)
    }

    /// The state of a key as it stands at `moment`; a default one when it has none. It is brought there for good:
    /// what is asked of it now, and the answer to that, are of this time, and would be carried over a clock step
    /// once more if the entry stayed behind it.
    pub fn aligned(&self, key: KeyId, spec: &Spec, moment: Moment) -> S {
        let mut shard = self.shard(self.shard_index(key)).lock();
        let Ok(place) = shard.find(key) else { return self.begun(moment) };
        let state = shard.state_mut(place);
        self.align(state, spec, moment);
        *state
    }

    /// The state of a key that has one, its instants brought to the time of `moment`.
    pub fn present_state(&self, key: KeyId, moment: Moment) -> Option<S> {
        let mut shard = self.shard(self.shard_index(key)).lock();
        let place = shard.find(key).ok()?;
        let state = shard.state_mut(place);
        self.align_instants(state, moment);
        Some(*state)
    }

    pub fn state(&self, key: KeyId) -> Option<S> {
        let shard = self.shard(self.shard_index(key)).lock();
        shard.find(key).ok().map(|place| shard.state(place))
    }
}
