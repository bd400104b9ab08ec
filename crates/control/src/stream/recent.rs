//! The newest changes, as they leave: what a follower lacks that isn't far behind.
//!
//! One copy for all followers, each of which remembers only the last version that it was sent. What is older than
//! the bound is forgotten, and whoever still needs it gets a snapshot: a slow follower costs nothing.

use super::frame::framed;
use super::message::ServerMessage;
use bytes::Bytes;
use std::collections::VecDeque;

/// Two minutes at 1,700 changes a second are a fifth of that many bytes.
const BYTES_MAX: usize = 128 << 20;
const CHANGES_MAX: usize = 500_000;

#[derive(Debug, Default)]
pub(super) struct Recent {
    /// Of the newest change, kept or not.
    head: u64,
    /// The newest ones, up to the head, framed.
    framed: VecDeque<Bytes>,
    bytes: usize,
}

/// What a follower gets next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Lack {
    Nothing,
    /// The changes after its version, as many as fit.
    Changes(Vec<Bytes>),
    /// More than is kept.
    TooMuch,
}

/// A change that doesn't follow the newest.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("version {version} doesn't follow version {head}")]
pub struct OutOfOrder {
    pub head: u64,
    pub version: u64,
}

impl Recent {
    pub(super) fn head(&self) -> u64 {
        self.head
    }

    /// The version before the oldest change that is kept: who has it lacks nothing that isn't here.
    pub(super) fn base(&self) -> u64 {
        self.head - u64::try_from(self.framed.len()).unwrap_or(self.head)
    }

    pub(super) fn push(&mut self, version: u64, delta: Bytes) -> Result<(), OutOfOrder> {
        if version != self.head + 1 {
            return Err(OutOfOrder { head: self.head, version });
        }
        let framed: Bytes = framed(|out| ServerMessage::Change { version, delta }.encode(out)).into();
        self.bytes += framed.len();
        self.framed.push_back(framed);
        self.head = version;
        // The newest one is kept whatever its size: a follower that has the one before lacks just that.
        while (self.bytes > BYTES_MAX || self.framed.len() > CHANGES_MAX) && self.framed.len() > 1 {
            self.bytes -= self.framed.pop_front().map_or(0, |oldest| oldest.len());
        }
        Ok(())
    }

    /// Goes on from a snapshot: what came before it is of no use.
    pub(super) fn restart(&mut self, version: u64) {
        *self = Recent { head: version, ..Recent::default() };
    }

    /// What somebody lacks who has `version`, at most `bytes_max` of it or one change.
    pub(super) fn after(&self, version: u64, bytes_max: usize) -> Lack {
        if version >= self.head {
            return Lack::Nothing;
        }
        let Some(first) = version.checked_sub(self.base()).and_then(|first| usize::try_from(first).ok())
        else {
            return Lack::TooMuch;
        };
        let (mut changes, mut bytes) = (Vec::new(), 0);
        for change in self.framed.iter().skip(first) {
            bytes += change.len();
            if bytes > bytes_max && !changes.is_empty() {
                break;
            }
            changes.push(change.clone());
        }
        Lack::Changes(changes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(versions: std::ops::RangeInclusive<u64>) -> Recent {
        let mut recent = Recent::default();
        recent.restart(versions.start() - 1);
        for version in versions {
            recent.push(version, Bytes::from_static(b"delta")).unwrap();
        }
        recent
    }

    fn count(lack: Lack) -> Option<usize> {
        match lack {
            Lack::Nothing => Some(0),
            Lack::Changes(changes) => Some(changes.len()),
            Lack::TooMuch => None,
        }
    }

    #[test]
    fn who_is_near_gets_changes_and_who_is_far_a_snapshot() {
        let recent = of(11..=20);
        assert_eq!(count(recent.after(20, 1000)), Some(0));
        assert_eq!(count(recent.after(25, 1000)), Some(0), "it has heard of newer ones elsewhere");
        assert_eq!(count(recent.after(15, 1000)), Some(5));
        assert_eq!(count(recent.after(10, 1000)), Some(10));
        assert_eq!(count(recent.after(9, 1000)), None);
        assert_eq!(count(recent.after(10, 1)), Some(1), "one change, whatever its size");
    }

    #[test]
    fn versions_have_no_gaps() {
        let mut recent = of(1..=3);
        assert_eq!(recent.push(5, Bytes::new()), Err(OutOfOrder { head: 3, version: 5 }));
        assert_eq!(recent.push(3, Bytes::new()), Err(OutOfOrder { head: 3, version: 3 }));
        assert_eq!(recent.push(4, Bytes::new()), Ok(()));
    }

    #[test]
    fn what_is_kept_has_a_bound() {
        let mut recent = Recent::default();
        let delta = Bytes::from(vec![0; 16 << 20]);
        for version in 1..=20 {
            recent.push(version, delta.clone()).unwrap();
        }
        assert!(recent.bytes <= BYTES_MAX && recent.base() > 10, "{} bytes", recent.bytes);
        assert_eq!(recent.bytes, recent.framed.iter().map(Bytes::len).sum::<usize>());
    }
}
