//! A map whose entries are forgotten at their time.
//!
//! Ordered by key and by time, so that it never iterates by chance, and grows without a pause. Forgetting costs only
//! what is forgotten, and keeping longer costs nothing: an entry is looked at again when its time seems to have come.

use std::collections::{BTreeMap, BTreeSet};
use tidegate_core::Nanos;

#[derive(Clone, Debug)]
pub(super) struct Expiring<K, V> {
    entries: BTreeMap<K, ExpiringEntry<V>>,
    /// When each entry is looked at: not after it expires.
    by_check: BTreeSet<(Nanos, K)>,
    /// None is looked at before.
    first: Nanos,
    /// Those of which nobody may have said yet how long they stay.
    new: Vec<K>,
}

/// A value, and when it expires.
#[derive(Clone, Debug, Default)]
struct ExpiringEntry<V> {
    expires: Nanos,
    /// `None` of a new one.
    check_at: Option<Nanos>,
    value: V,
}

impl<K: Ord, V> Default for Expiring<K, V> {
    fn default() -> Self {
        Expiring { entries: BTreeMap::new(), by_check: BTreeSet::new(), first: Nanos::MAX, new: Vec::new() }
    }
}

impl<K: Ord + Copy, V: Default> Expiring<K, V> {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(key).map(|entry| &entry.value)
    }

    pub(super) fn expires(&self, key: &K) -> Option<Nanos> {
        self.entries.get(key).map(|entry| entry.expires)
    }

    /// The value of `key`, made if need be. A new one is gone at once unless it is told until when to stay.
    pub(super) fn entry(&mut self, key: K) -> &mut V {
        let Expiring { entries, new, .. } = self;
        let entry = entries.entry(key).or_insert_with(|| {
            new.push(key);
            ExpiringEntry::default()
        });
        &mut entry.value
    }

    /// Stores an entry until `expires`, in whole milliseconds, or longer if it was stored for longer before.
    pub(super) fn store_until(&mut self, key: K, expires: Nanos) {
        let expires = Nanos::from_millis(expires.as_millis_ceil());
        if self.expires(&key).is_some_and(|before| before < expires) {
            self.set_expiry(key, expires);
        }
    }

    /// Keeps an entry until `expires`, whatever was said before.
    pub(super) fn set_expiry(&mut self, key: K, expires: Nanos) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        entry.expires = expires;
        if entry.check_at.is_some_and(|looked_at| looked_at <= expires) {
            return;
        }
        if let Some(later) = entry.check_at.replace(expires) {
            self.by_check.remove(&(later, key));
        }
        self.by_check.insert((expires, key));
        self.first = self.first.min(expires);
    }

    /// Removes the entries whose keys pass.
    pub(super) fn remove_where(&mut self, passes: impl Fn(&K) -> bool) {
        self.entries.retain(|key, _| !passes(key));
        self.by_check.retain(|(_, key)| !passes(key));
    }

    /// The entries whose keys pass.
    pub(super) fn values_where(&mut self, passes: impl Fn(&K) -> bool) -> impl Iterator<Item = (&K, &mut V)> {
        let entries = self.entries.iter_mut().filter(move |(key, _)| passes(key));
        entries.map(|(key, entry)| (key, &mut entry.value))
    }

    /// Forgets what has expired.
    pub(super) fn expire(&mut self, now: Nanos) {
        for key in self.new.drain(..) {
            if self.entries.get(&key).is_some_and(|entry| entry.check_at.is_none()) {
                self.entries.remove(&key);
            }
        }
        if now < self.first {
            return;
        }
        while let Some((looked_at, key)) = self.by_check.first().copied().filter(|next| next.0 <= now) {
            self.by_check.remove(&(looked_at, key));
            let Some(entry) = self.entries.get_mut(&key) else { continue };
            if entry.expires <= now {
                self.entries.remove(&key);
            } else {
                entry.check_at = Some(entry.expires);
                self.by_check.insert((entry.expires, key));
            }
        }
        self.first = self.by_check.first().map_or(Nanos::MAX, |next| next.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_stays_as_long_as_the_last_that_was_said() {
        let mut map = Expiring::<u8, u8>::default();
        *map.entry(1) = 10;
        map.store_until(1, Nanos::from_secs(5));
        map.store_until(1, Nanos::from_secs(3));
        *map.entry(2) = 20;
        map.store_until(2, Nanos::from_secs(4));
        map.expire(Nanos::from_secs(4));
        assert_eq!((map.get(&1), map.get(&2), map.len()), (Some(&10), None, 1));
        map.set_expiry(1, Nanos::from_secs(4));
        map.expire(Nanos::from_secs(4));
        assert_eq!((map.len(), map.by_check.len()), (0, 0));
    }

    #[test]
    fn an_entry_that_is_kept_longer_is_looked_at_again() {
        let mut map = Expiring::<u8, u8>::default();
        *map.entry(1) = 10;
        map.set_expiry(1, Nanos::from_secs(2));
        map.set_expiry(1, Nanos::from_secs(9));
        map.expire(Nanos::from_secs(5));
        assert_eq!((map.get(&1), map.by_check.len()), (Some(&10), 1));
        map.set_expiry(1, Nanos::from_secs(7));
        map.expire(Nanos::from_secs(7));
        assert_eq!((map.len(), map.by_check.len()), (0, 0));
    }

    #[test]
    fn an_entry_of_which_nobody_says_how_long_it_stays_goes_at_once() {
        let mut map = Expiring::<u8, u8>::default();
        *map.entry(1) = 10;
        map.set_expiry(1, Nanos::from_secs(2));
        *map.entry(2) = 20;
        map.expire(Nanos::from_secs(1));
        assert_eq!((map.get(&1), map.get(&2)), (Some(&10), None));
    }
}
