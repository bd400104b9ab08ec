//! One shard of the counter table: a sorted array with gaps.
//!
//! Keys are hashes, evenly spread, so a key's place in the sorted order can be computed: a look-up goes to
//! where the key should be and walks right over the few slots before it. What that buys: one look-up
//! touches one place in memory; growing is a single pass in order, in steps of a fifth rather than by
//! doubling; and a walk that was interrupted resumes at a key, missing none and repeating none.

use crate::identity::KeyId;
use crate::state::State;
use crate::time::Nanos;

#[derive(Clone, Copy, Debug)]
struct Slot<S> {
    key: KeyId,
    state: S,
}

impl<S: State> Slot<S> {
    fn empty() -> Self {
        Slot { key: KeyId::NONE, state: S::default() }
    }

    fn is_empty(&self) -> bool {
        self.key == KeyId::NONE
    }
}

#[derive(Debug)]
pub(crate) struct Shard<S> {
    /// Sorted by key but for empty slots. First the homes, which keys are aimed at, then the padding for
    /// those that were pushed right, the last of which is always empty and ends every walk.
    slots: Box<[Slot<S>]>,
    padding: u32,
    len: u32,
    len_max: u32,
    /// No entry expires before this: a full shard isn't searched in vain.
    sweep_from: Nanos,
    /// The top bits of a key chose the shard; the rest order it.
    shard_bits: u32,
}

/// Enough for the cluster at the end while keys are evenly spread; doubled when it isn't.
const PADDING: usize = 32;
const HOMES_MIN: usize = 8;
/// A shard grows when it is 7/8 full, to where it is 8/11 full.
const LOAD_MAX: (usize, usize) = (7, 8);
const LOAD_AFTER_REBUILD: (usize, usize) = (8, 11);
/// A full shard is searched for expired entries at most this often.
const SWEEP_PAUSE: Nanos = Nanos::from_millis(10);

impl<S: State> Shard<S> {
    pub(crate) fn new(shard_bits: u32, len_max: u32) -> Self {
        Shard { slots: Box::default(), padding: 0, len: 0, len_max, sweep_from: Nanos::ZERO, shard_bits }
    }

    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    /// Where the slots are, for prefetching.
    pub(crate) fn hint(&self) -> Hint {
        Hint { address: self.slots.as_ptr().addr(), homes: self.homes() }
    }

    #[inline]
    fn homes(&self) -> usize {
        self.slots.len() - self.padding as usize
    }

    /// The place of `key`: where it is, or where it would be put.
    #[inline]
    pub(crate) fn find(&self, key: KeyId) -> Result<usize, usize> {
        if self.slots.is_empty() {
            return Err(0);
        }
        let mut place = home(key, self.shard_bits, self.homes());
        // An empty slot's key is above every other, so it ends the walk too.
        while self.slots[place].key < key {
            place += 1;
        }
        if self.slots[place].key == key { Ok(place) } else { Err(place) }
    }

    #[inline]
    pub(crate) fn state(&self, place: usize) -> S {
        self.slots[place].state
    }

    #[inline]
    pub(crate) fn set_state(&mut self, place: usize, state: S) {
        self.slots[place].state = state;
    }

    /// Forgets when an entry may expire first: the clock is about to step.
    pub(crate) fn search_again(&mut self) {
        self.sweep_from = Nanos::ZERO;
    }

    /// Whether `more` entries fit under the cap.
    pub(crate) fn has_room(&self, more: usize) -> bool {
        self.len() + more <= self.len_max as usize
    }

    /// Puts in a key that `find` didn't find, or overwrites one that it would now find.
    pub(crate) fn insert(&mut self, key: KeyId, state: S) {
        if (self.len() + 1) * LOAD_MAX.1 > self.homes() * LOAD_MAX.0 {
            self.rebuild(homes_for(self.len() + 1), PADDING, |_| true);
        }
        let place = match self.find(key) {
            Ok(place) => return self.set_state(place, state),
            Err(place) => place,
        };
        let gap =
            self.slots[place..].iter().position(Slot::is_empty).map_or(self.slots.len(), |gap| place + gap);
        if gap + 1 >= self.slots.len() {
            // The last slot must stay empty.
            self.rebuild(self.homes(), 2 * self.padding as usize, |_| true);
            return self.insert(key, state);
        }
        self.slots.copy_within(place..gap, place + 1);
        self.slots[place] = Slot { key, state };
        self.len += 1;
        self.sweep_from = self.sweep_from.min(state.expires());
    }

    /// Lays the entries that `keep` names out anew, over `homes` homes and at least so much padding.
    fn rebuild(&mut self, homes: usize, padding: usize, mut keep: impl FnMut(&S) -> bool) {
        let mut slots = vec![Slot::empty(); homes + padding].into_boxed_slice();
        let mut next = 0;
        let mut len = 0;
        for slot in self.slots.iter().filter(|slot| !slot.is_empty() && keep(&slot.state)) {
            let place = home(slot.key, self.shard_bits, homes).max(next);
            if place + 1 >= slots.len() {
                return self.rebuild(homes, 2 * padding, keep);
            }
            slots[place] = *slot;
            next = place + 1;
            len += 1;
        }
        self.slots = slots;
        // At most twice the number of entries, which is a u32 by `len_max`.
        self.padding = u32::try_from(padding).unwrap_or(u32::MAX);
        self.len = len;
    }

    /// Drops what expired before `now` when that is an eighth or more of the shard. Says how many it dropped.
    pub(crate) fn sweep(&mut self, mut expired: impl FnMut(&S) -> bool) -> usize {
        let count = self.slots.iter().filter(|slot| !slot.is_empty() && expired(&slot.state)).count();
        if count * 8 < self.len().max(1) {
            return 0;
        }
        self.rebuild(homes_for(self.len() - count), PADDING, |state| !expired(state));
        count
    }

    /// Makes room in a full shard: what expired goes first, then the coldest entries that may go.
    pub(crate) fn make_room(&mut self, now: Nanos, mut expired: impl FnMut(&S) -> bool) -> usize {
        if now < self.sweep_from {
            return 0;
        }
        let before = self.len();
        self.rebuild(self.homes(), PADDING, |state| !expired(state));
        if self.len() == before && S::MAY_BE_EVICTED {
            self.evict_coldest();
        }
        let earliest = self.iter().map(|(_, state)| state.expires()).min().unwrap_or(Nanos::ZERO);
        let pause_ends = now.plus(SWEEP_PAUSE);
        // What may be evicted can become so at any time; what can't, goes only when it expires.
        self.sweep_from = if S::MAY_BE_EVICTED { pause_ends } else { earliest.max(pause_ends) };
        before - self.len()
    }

    /// Drops a sixteenth of the entries that may go, those that expire first.
    fn evict_coldest(&mut self) {
        let mut expiries: Vec<Nanos> =
            self.iter().filter(|(_, state)| state.is_evictable()).map(|(_, state)| state.expires()).collect();
        if expiries.is_empty() {
            return;
        }
        let rank = expiries.len() / 16;
        let coldest = *expiries.select_nth_unstable(rank).1;
        let mut left = rank + 1;
        self.rebuild(self.homes(), PADDING, |state| {
            let goes = left > 0 && state.is_evictable() && state.expires() <= coldest;
            left -= usize::from(goes);
            !goes
        });
    }

    fn iter(&self) -> impl Iterator<Item = (KeyId, &S)> {
        self.slots.iter().filter(|slot| !slot.is_empty()).map(|slot| (slot.key, &slot.state))
    }

    /// Visits up to `count` entries from the first key at or above `from`; says where to go on.
    pub(crate) fn visit(
        &mut self,
        from: KeyId,
        count: usize,
        mut visit: impl FnMut(KeyId, &mut S),
    ) -> Option<KeyId> {
        let place = match self.find(from) {
            Ok(place) | Err(place) => place,
        };
        let entries = self.slots.iter_mut().skip(place).filter(|slot| !slot.is_empty());
        for (visited, slot) in entries.enumerate() {
            if visited == count {
                return Some(slot.key);
            }
            visit(slot.key, &mut slot.state);
        }
        None
    }
}

/// Where a shard's slots are and how many of them keys are aimed at.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hint {
    pub(crate) address: usize,
    pub(crate) homes: usize,
}

impl Hint {
    /// The address at which `key` is looked up first.
    #[inline]
    pub(crate) fn address_of<S>(self, key: KeyId, shard_bits: u32) -> usize {
        self.address.wrapping_add(home(key, shard_bits, self.homes).wrapping_mul(size_of::<Slot<S>>()))
    }
}

/// The slot that `key` is aimed at: its rank among all keys that a shard can have, scaled to the homes.
/// Monotone in the key.
#[inline]
fn home(key: KeyId, shard_bits: u32, homes: usize) -> usize {
    let rank = key.high() << shard_bits;
    // The product of a 64-bit fraction and `homes`, so below `homes`.
    usize::try_from((u128::from(rank) * homes as u128) >> 64).unwrap_or(0)
}

fn homes_for(len: usize) -> usize {
    (len * LOAD_AFTER_REBUILD.1).div_ceil(LOAD_AFTER_REBUILD.0).max(HOMES_MIN)
}
