//! Which resets this node knows of.
//!
//! A node that denies a key by itself asks nobody, so it reads the region's log of resets with each heartbeat. Where it may
//! have missed one (it stood still, there were too many at once, or the log was lost), the next decision about every key
//! asks, also one that denies.

use super::Region;
use tidegate_core::state::State as _;
use tidegate_core::{Nanos, SharedState, Table};
use tidegate_origin::{DoneReset, Reset, ResetLog, ResetNews};

/// A node remembers so many resets that it took part in. More than that in the lifetime of their windows aren't restored
/// after a loss of data.
const REMEMBERED_MAX: usize = 10_000;

/// Entries of the log that a node hasn't read yet are no older than that, if it has read the log since. A store keeps an
/// epoch for longer.
const ENTRIES_ARE_NEW_FOR: Nanos = Nanos::from_secs(20);

impl Region {
    /// What to add to the log of resets, and how far this node has read it.
    pub fn reset_news(&self, resets: Vec<Reset>) -> ResetNews {
        let mut pending = self.pending.lock();
        ResetNews { known: pending.reset_position, next_log: pending.random(), resets }
    }

    /// Takes what the log says. Returns whether resets may have been missed.
    ///
    /// A node that has read the log a moment ago, `now` being when it asked, goes by its new entries. One that hasn't doesn't
    /// know how old they are, and asks about their keys instead: the store may have dropped the epoch of an old entry, whose windows are over, and a node
    /// that went by it would lead the store to that epoch and drop what was counted since.
    pub fn take_resets(&self, table: &Table<SharedState>, log: &ResetLog, now: Nanos) -> bool {
        let (is_first, is_late) = {
            let mut pending = self.pending.lock();
            let known = pending.reset_position;
            if known.is_some_and(|known| known.log == log.position.log && known.number > log.position.number)
            {
                // A later answer overtook this one.
                return false;
            }
            pending.reset_position = Some(log.position);
            let read_before = pending.resets_read_at.replace(now);
            (known.is_none(), read_before.is_none_or(|before| before.plus(ENTRIES_ARE_NEW_FOR) < now))
        };
        if log.has_gap {
            table.for_each(|_, state| state.unconfirm());
        }
        if log.has_gap || is_late {
            self.ask_about(table, &log.resets);
        } else {
            self.start_afresh(table, &log.resets, now);
        }
        log.has_gap && !is_first
    }

    /// Publishes keys that may have been reset since the node counted them: the answer has their epoch. Until then the next
    /// decision about each asks.
    fn ask_about(&self, table: &Table<SharedState>, resets: &[Reset]) {
        for reset in resets {
            let mut is_behind = false;
            table.update(reset.key, |state| {
                is_behind = reset.epoch > state.epoch();
                if is_behind {
                    state.unconfirm();
                }
            });
            if is_behind {
                self.mark_unpublished(table, reset.key);
            }
        }
    }

    /// A key was reset, by this node or before it: should its shard lose that, it is told again.
    pub fn remember_reset(&self, done: DoneReset, now: Nanos) {
        let mut pending = self.pending.lock();
        let resets = &mut pending.done_resets;
        resets.retain(|_, other| other.expires > now);
        let known = resets.get(&done.reset.key).map_or(0, |other| other.reset.epoch);
        if done.reset.epoch >= known && (resets.len() < REMEMBERED_MAX || known > 0) {
            resets.insert(done.reset.key, done);
        }
    }

    /// Starts keys afresh, if they aren't yet. A node that had counted in an earlier epoch remembers the reset: the node that
    /// carried it out may be gone when the store loses its data.
    pub fn start_afresh(&self, table: &Table<SharedState>, resets: &[Reset], now: Nanos) {
        let mut started = Vec::new();
        for reset in resets {
            table.update(reset.key, |state| {
                if reset.epoch > state.epoch() {
                    started.push(DoneReset { reset: *reset, reset_id: None, expires: state.expires() });
                    *state = state.at_epoch(reset.epoch);
                }
            });
        }
        if started.is_empty() {
            return;
        }
        let done = &mut self.pending.lock().done_resets;
        done.retain(|_, other| other.expires > now);
        for reset in started.into_iter().filter(|reset| reset.expires > now) {
            let known = done.get(&reset.reset.key).map_or(0, |other| other.reset.epoch);
            if reset.reset.epoch > known && (done.len() < REMEMBERED_MAX || known > 0) {
                done.insert(reset.reset.key, reset);
            }
        }
    }
}
