//! The resets of the last day, for who wasn't there when they were ordered.
//!
//! A rules file says how rules are, and a reset is something that happened: whoever comes by a file, or came by one that
//! it started from, is told of the latest apart. They may be told again and again: a region remembers much longer than
//! they are told that it carried one out. Must never tell of one that is older, nor grow past its bound.

use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use tidegate_core::Nanos;
use tidegate_rules::{Delta, RuleChange};

/// What is older isn't told. Regions remember orders for thirty times as long (`crates/origin/src/redis/reset.lua`).
pub const RESET_BROADCAST_TTL: Nanos = Nanos::from_secs(86_400);
/// Versions with resets that are told; beyond, the oldest aren't.
pub const RESET_BROADCAST_MAX: usize = 10_000;

/// The resets of one version.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PastReset {
    pub version: u64,
    /// Since it was ordered.
    pub age: Nanos,
    /// With nothing else in it, as `Delta::encode` writes it.
    pub delta: Bytes,
}

impl PastReset {
    /// `None` where nothing was reset.
    pub fn of(delta: &Delta, age: Nanos) -> Option<Self> {
        let is_reset = |change: &&RuleChange| matches!(change, RuleChange::Reset { .. });
        let changes: Vec<RuleChange> = delta.changes.iter().filter(is_reset).cloned().collect();
        if changes.is_empty() {
            return None;
        }
        let version = delta.version;
        let encoded = Delta { version, changes }.encode().ok()?;
        Some(PastReset { version, age, delta: encoded.into() })
    }

    /// What it is, when it is nothing but what it should be.
    pub fn read(&self) -> Result<Delta, String> {
        let delta = Delta::decode(&self.delta).map_err(|error| error.to_string())?;
        let is_whole = delta.version == self.version
            && delta.changes.iter().all(|change| matches!(change, RuleChange::Reset { .. }));
        is_whole.then_some(delta).ok_or_else(|| "a reset has something else in it".to_owned())
    }
}

/// In the order in which they were heard of here.
#[derive(Debug, Default)]
pub(super) struct Resets {
    broadcast: BTreeMap<u64, BroadcastReset>,
    versions: BTreeSet<u64>,
    /// Of the newest here.
    number: u64,
}

/// A reset that is still sent to followers, and when it was received.
#[derive(Debug)]
struct BroadcastReset {
    reset: PastReset,
    received_at: Nanos,
}

impl BroadcastReset {
    fn age(&self, now: Nanos) -> Nanos {
        self.reset.age.plus(now.minus(self.received_at))
    }
}

impl Resets {
    /// Stores a reset. Returns whether it is new.
    pub(super) fn receive(&mut self, reset: PastReset, now: Nanos) -> bool {
        self.remove_expired(now);
        if reset.age >= RESET_BROADCAST_TTL || !self.versions.insert(reset.version) {
            return false;
        }
        self.number += 1;
        self.broadcast.insert(self.number, BroadcastReset { reset, received_at: now });
        while self.broadcast.len() > RESET_BROADCAST_MAX {
            // Those that are heard of late are old: by version, not by when they came.
            let Some(oldest) = self.versions.pop_first() else { break };
            self.broadcast.retain(|_, sent| sent.reset.version != oldest);
        }
        true
    }

    fn remove_expired(&mut self, now: Nanos) {
        let Resets { broadcast, versions, .. } = self;
        broadcast.retain(|_, sent| {
            let is_current = sent.age(now) < RESET_BROADCAST_TTL;
            if !is_current {
                versions.remove(&sent.reset.version);
            }
            is_current
        });
    }

    /// Of the last one that was heard of.
    pub(super) fn last_number(&self) -> u64 {
        self.number
    }

    /// The next one behind a number that is of no later version, and up to which number that was looked for.
    pub(super) fn next(&self, after: u64, version_max: u64, now: Nanos) -> (u64, Option<PastReset>) {
        let is_due = |(_, sent): &(&u64, &BroadcastReset)| {
            sent.reset.version <= version_max && sent.age(now) < RESET_BROADCAST_TTL
        };
        match self.broadcast.range(after.saturating_add(1)..).find(is_due) {
            Some((number, sent)) => (*number, Some(PastReset { age: sent.age(now), ..sent.reset.clone() })),
            None => (self.number, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reset(version: u64, age: Nanos) -> PastReset {
        PastReset { version, age, delta: Bytes::new() }
    }

    fn sent(resets: &Resets, version_max: u64, now: Nanos) -> Vec<u64> {
        let mut after = 0;
        let mut next = || {
            let (number, reset) = resets.next(after, version_max, now);
            after = number;
            reset.map(|reset| reset.version)
        };
        std::iter::from_fn(&mut next).collect()
    }

    #[test]
    fn each_is_current_once_however_often_it_was_heard_of_and_for_a_day() {
        let (hour, mut resets) = (Nanos::from_secs(3600), Resets::default());
        assert!(resets.receive(reset(7, Nanos::ZERO), Nanos::ZERO));
        assert!(!resets.receive(reset(7, Nanos::ZERO), hour));
        assert!(resets.receive(reset(3, Nanos::new(20 * hour.get())), hour), "heard of late");
        assert!(!resets.receive(reset(2, RESET_BROADCAST_TTL), hour));
        assert_eq!(sent(&resets, 10, hour), [7, 3]);
        assert_eq!(sent(&resets, 5, hour), [3]);
        let age = resets.next(0, 10, hour).1.unwrap().age;
        assert_eq!(age, hour);
        assert_eq!(sent(&resets, 10, Nanos::new(5 * hour.get())), [7]);
        assert_eq!(sent(&resets, 10, RESET_BROADCAST_TTL), [0_u64; 0]);
    }

    #[test]
    fn the_newest_versions_are_kept() {
        let mut resets = Resets::default();
        let count = u64::try_from(RESET_BROADCAST_MAX).unwrap();
        for version in (1..=count + 3).rev() {
            resets.receive(reset(version, Nanos::ZERO), Nanos::ZERO);
        }
        assert_eq!(
            (resets.broadcast.len(), resets.versions.len()),
            (RESET_BROADCAST_MAX, RESET_BROADCAST_MAX)
        );
        assert_eq!(resets.versions.first(), Some(&4));
    }
}
