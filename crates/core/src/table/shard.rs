//! One shard of the counter table: a sorted array with gaps.
//!
//! Keys are hashes, evenly spread, so a key's place in the sorted order can be computed: a look-up goes to
//! where the key should be and walks right over the few slots before it. What that buys: one look-up
//! touches one place in memory; growing is a single pass in order, in steps of a fifth rather than by
//! doubling; and a walk that was interrupted resumes at a key, missing none and repeating none.

use crate::identity::KeyId;
use crate::state::State;
use crate::time::Nanos;
use std::collections::BTreeMap;

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
    /// When a full shard may be searched for room again.
    search_from: Nanos,
    /// The top bits of a key chose the shard; the rest order it.
    shard_bits: u8,
    /// Nobody could give way when a tenant under its share needed room; until the next search.
    is_stuck: bool,
    /// Some entry may be more than [`WALK_MAX`] slots from its home; until the shard is laid out anew.
    pub(crate) has_long_runs: bool,
}

/// Enough for the cluster at the end while keys are evenly spread; doubled when it isn't.
const PADDING: usize = 32;
const HOMES_MIN: usize = 8;
/// A shard grows when it is 7/8 full, to where it is 8/11 full.
const LOAD_MAX: (usize, usize) = (7, 8);
const LOAD_AFTER_REBUILD: (usize, usize) = (8, 11);
/// A full shard is searched for room at most this often: a search looks at every entry.
const SEARCH_PAUSE: Nanos = Nanos::from_secs(1);
/// How many slots a look-up walks over one by one. Hashes are evenly spread, so no entry is ever that far from its home:
/// only keys that somebody crafted are. A shard that has such an entry is searched by halves; all others pay for that
/// with one branch.
const WALK_MAX: usize = 128;

impl<S: State> Shard<S> {
    pub(crate) fn new(shard_bits: u8) -> Self {
        Shard {
            // Never without the empty slot that ends every walk.
            slots: Box::new([Slot::empty()]),
            padding: 1,
            len: 0,
            search_from: Nanos::ZERO,
            shard_bits,
            is_stuck: false,
            has_long_runs: false,
        }
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
        if self.has_long_runs { self.find_by_halves(key) } else { self.find_by_walking(key) }
    }

    /// The same in a shard without long runs.
    #[inline]
    pub(crate) fn find_by_walking(&self, key: KeyId) -> Result<usize, usize> {
        let mut place = self.home(key);
        // An empty slot's key is above every other, so it ends the walk too.
        while self.slots[place].key < key {
            place += 1;
        }
        if self.slots[place].key == key { Ok(place) } else { Err(place) }
    }

    /// The same in any shard.
    ///
    /// Between its home and its place an entry has no gap. So whatever lies behind the first gap after the home of
    /// `key` has a later home, and a higher key: keys below `key` come first, without exception.
    #[cold]
    #[inline(never)]
    pub(crate) fn find_by_halves(&self, key: KeyId) -> Result<usize, usize> {
        let home = self.home(key);
        let place = home + self.slots[home..].partition_point(|slot| slot.key < key);
        if self.slots[place].key == key { Ok(place) } else { Err(place) }
    }

    #[inline]
    fn home(&self, key: KeyId) -> usize {
        home(key, u32::from(self.shard_bits), self.homes())
    }

    /// Whether an entry between these slots is further from its home than a look-up should walk.
    fn has_far_entry(&self, from: usize, to: usize) -> bool {
        let is_far = |place: usize| place - self.home(self.slots[place].key) > WALK_MAX;
        (from..to).any(is_far)
    }

    #[inline]
    pub(crate) fn state(&self, place: usize) -> S {
        self.slots[place].state
    }

    pub(crate) fn key(&self, place: usize) -> KeyId {
        self.slots[place].key
    }

    #[inline]
    pub(crate) fn state_mut(&mut self, place: usize) -> &mut S {
        &mut self.slots[place].state
    }

    #[inline]
    pub(crate) fn set_state(&mut self, place: usize, state: S) {
        self.slots[place].state = state;
    }

    /// Puts in a key that `find` didn't find, or overwrites one that it would now find. Says whether it is new.
    pub(crate) fn insert(&mut self, key: KeyId, state: S) -> bool {
        if (self.len() + 1) * LOAD_MAX.1 > self.homes() * LOAD_MAX.0 {
            self.rebuild(homes_for(self.len() + 1), PADDING, |_, _| true);
        }
        let place = match self.find(key) {
            Ok(place) => {
                self.set_state(place, state);
                return false;
            }
            Err(place) => place,
        };
        let gap =
            self.slots[place..].iter().position(Slot::is_empty).map_or(self.slots.len(), |gap| place + gap);
        if gap + 1 >= self.slots.len() {
            // The last slot must stay empty.
            self.rebuild(self.homes(), 2 * self.padding as usize, |_, _| true);
            return self.insert(key, state);
        }
        self.slots.copy_within(place..gap, place + 1);
        self.slots[place] = Slot { key, state };
        self.len += 1;
        // No entry that was moved has an earlier home than this one.
        if !self.has_long_runs && gap - self.home(key) > WALK_MAX {
            self.has_long_runs = self.has_far_entry(place, gap + 1);
        }
        true
    }

    /// Lays the entries that `keep` names out anew, over `homes` homes and at least so much padding.
    fn rebuild(&mut self, homes: usize, padding: usize, keep: impl Fn(KeyId, &S) -> bool) {
        let mut slots = vec![Slot::empty(); homes + padding].into_boxed_slice();
        let mut next = 0;
        let mut len = 0;
        let mut has_long_runs = false;
        for slot in self.slots.iter().filter(|slot| !slot.is_empty() && keep(slot.key, &slot.state)) {
            let home = home(slot.key, u32::from(self.shard_bits), homes);
            let place = home.max(next);
            has_long_runs |= place - home > WALK_MAX;
            if place + 1 >= slots.len() {
                return self.rebuild(homes, 2 * padding, keep);
            }
            slots[place] = *slot;
            next = place + 1;
            len += 1;
        }
        self.slots = slots;
        // At most twice the number of entries, which is a u32 by the table's cap.
        self.padding = u32::try_from(padding).unwrap_or(u32::MAX);
        self.len = len;
        self.has_long_runs = has_long_runs;
    }

    /// Drops what has expired when that is an eighth or more of the shard, and tells of each. Says how many it
    /// dropped.
    pub(crate) fn sweep(&mut self, expired: impl Fn(&S) -> bool, left: Option<&dyn Fn(KeyId)>) -> usize {
        let count = self.iter().filter(|(_, state)| expired(state)).count();
        if count * 8 < self.len().max(1) {
            return 0;
        }
        self.retain(homes_for(self.len() - count), |_, state| !expired(state), left);
        count
    }

    /// Whether a full shard may be searched for room again. If so, it isn't for a while.
    pub(crate) fn begin_search(&mut self, now: Nanos) -> bool {
        let is_due = self.is_search_due(now);
        if is_due {
            (self.search_from, self.is_stuck) = (now.plus(SEARCH_PAUSE), false);
        }
        is_due
    }

    fn is_search_due(&self, now: Nanos) -> bool {
        // Further ahead than a pause means that the clock was set back.
        now >= self.search_from || self.search_from > now.plus(SEARCH_PAUSE)
    }

    /// Whether a search could find room: it is due, or a tenant has a right to room and others may give way.
    pub(crate) fn is_worth_a_search(&self, now: Nanos, has_rights: bool) -> bool {
        self.len > 0 && (self.is_search_due(now) || (S::SHARED && has_rights && !self.is_stuck))
    }

    /// Makes room in a full shard: what expired goes first, then the coldest of the entries that may go. Says how
    /// many went that were alive.
    pub(crate) fn make_room(
        &mut self,
        expired: impl Fn(&S) -> bool,
        may_go: impl Fn(KeyId) -> bool,
        left: Option<&dyn Fn(KeyId)>,
    ) -> usize {
        if self.iter().any(|(_, state)| expired(state)) {
            self.retain(self.homes(), |_, state| !expired(state), left);
            0
        } else if S::SHARED {
            let before = self.len();
            self.evict_coldest(may_go, left);
            before.saturating_sub(self.len())
        } else {
            0
        }
    }

    /// Drops a sixteenth of the entries that may go, those that expire first.
    fn evict_coldest(&mut self, may_go: impl Fn(KeyId) -> bool, left: Option<&dyn Fn(KeyId)>) {
        let may_go = |key, state: &S| state.is_evictable() && may_go(key);
        let evictable = self.iter().filter(|(key, state)| may_go(*key, state));
        let mut coldest: Vec<(Nanos, KeyId)> = evictable.map(|(key, state)| (state.expires(), key)).collect();
        if coldest.is_empty() {
            return;
        }
        let last = coldest.len() / 16;
        let (_, threshold, _) = coldest.select_nth_unstable(last);
        let threshold = *threshold;
        let stays = |key, state: &S| !may_go(key, state) || (state.expires(), key) > threshold;
        self.retain(self.homes(), stays, left);
    }

    /// Makes room for a tenant within its share: drops `count` entries, a sixteenth of all at most, of tenants beyond
    /// theirs, and of none more than its `excess`. Those go first that somebody else knows, and of these the ones that expire
    /// first; a live one goes even where nobody else knows it, since its tenant had the room only as long as nobody
    /// needed it. Says how many went.
    pub(crate) fn give_way(
        &mut self,
        count: usize,
        excess: impl Fn(KeyId) -> usize,
        left: Option<&dyn Fn(KeyId)>,
    ) -> usize {
        if self.is_stuck {
            return 0;
        }
        let going = self.iter().filter(|(key, _)| excess(*key) > 0);
        let going = going.map(|(key, state)| (!state.is_evictable(), state.expires(), key));
        let mut going: Vec<(bool, Nanos, KeyId)> = going.collect();
        let count = count.min(self.len() / 16).max(1);
        if going.len() > count {
            going.select_nth_unstable(count);
            going.truncate(count);
        }
        let mut gone = BTreeMap::new();
        going.retain(|(_, _, key)| {
            let gone: &mut usize = gone.entry(key.tenant()).or_default();
            *gone += 1;
            *gone <= excess(*key)
        });
        self.is_stuck = going.is_empty();
        going.sort_unstable_by_key(|(_, _, key)| *key);
        let stays = |key: KeyId, _: &S| going.binary_search_by_key(&key, |(_, _, key)| *key).is_err();
        self.retain(self.homes(), stays, left);
        going.len()
    }

    /// Retains the entries that `stays` accepts, and reports each of the others to `left`.
    fn retain(&mut self, homes: usize, stays: impl Fn(KeyId, &S) -> bool, left: Option<&dyn Fn(KeyId)>) {
        if let Some(left) = left {
            self.iter().filter(|(key, state)| !stays(*key, state)).for_each(|(key, _)| left(key));
        }
        self.rebuild(homes, PADDING, stays);
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
