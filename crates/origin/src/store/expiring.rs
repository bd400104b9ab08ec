//! A map whose entries are forgotten at their time.
//!
//! Ordered by key and by expiry, so that it never iterates by chance, and forgetting costs only what is
//! forgotten.

use std::collections::{BTreeMap, BTreeSet};
use tidegate_core::Nanos;

#[derive(Clone, Debug)]
pub(super) struct Expiring<K, V> {
    entries: BTreeMap<K, (Nanos, V)>,
    by_expiry: BTreeSet<(Nanos, K)>,
}

impl<K: Ord, V> Default for Expiring<K, V> {
    fn default() -> Self {
        Expiring { entries: BTreeMap::new(), by_expiry: BTreeSet::new() }
    }
}

impl<K: Ord + Copy, V: Default> Expiring<K, V> {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(key).map(|(_, value)| value)
    }

    pub(super) fn expires(&self, key: &K) -> Option<Nanos> {
        self.entries.get(key).map(|(expires, _)| *expires)
    }

    /// The value of `key`, made if need be. A new one is gone at once unless it is told until when to stay.
    pub(super) fn entry(&mut self, key: K) -> &mut V {
        let Expiring { entries, by_expiry } = self;
        let (_, value) = entries.entry(key).or_insert_with(|| {
            by_expiry.insert((Nanos::ZERO, key));
            (Nanos::ZERO, V::default())
        });
        value
    }

    /// Keeps an entry until `expires`, in whole milliseconds, or longer if that was said before.
    pub(super) fn keep_until(&mut self, key: K, expires: Nanos) {
        let expires = Nanos::from_millis(expires.as_millis_ceil());
        if self.expires(&key).is_some_and(|before| before < expires) {
            self.set_expiry(key, expires);
        }
    }

    /// Keeps an entry until `expires`, whatever was said before.
    pub(super) fn set_expiry(&mut self, key: K, expires: Nanos) {
        if let Some((before, _)) = self.entries.get_mut(&key) {
            self.by_expiry.remove(&(*before, key));
            self.by_expiry.insert((expires, key));
            *before = expires;
        }
    }

    /// Forgets what has expired.
    pub(super) fn expire(&mut self, now: Nanos) {
        while let Some((expires, key)) = self.by_expiry.first().copied() {
            if expires > now {
                return;
            }
            self.by_expiry.pop_first();
            self.entries.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_stays_as_long_as_the_last_that_was_said() {
        let mut map = Expiring::<u8, u8>::default();
        *map.entry(1) = 10;
        map.keep_until(1, Nanos::from_secs(5));
        map.keep_until(1, Nanos::from_secs(3));
        *map.entry(2) = 20;
        map.keep_until(2, Nanos::from_secs(4));
        map.expire(Nanos::from_secs(4));
        assert_eq!((map.get(&1), map.get(&2), map.len()), (Some(&10), None, 1));
        map.set_expiry(1, Nanos::from_secs(4));
        map.expire(Nanos::from_secs(4));
        assert_eq!((map.len(), map.by_expiry.len()), (0, 0));
    }
}
