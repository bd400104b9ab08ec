//! The messages between a node and its region's origin about one key (docs/design.md, "Asking the region").
//!
//! One exchange publishes the node's absolute component, reads the region's total and grants what waits. A
//! message may be lost, repeated or late without harm: everything in it is absolute and merged by max, but for
//! grants, which count at once and come back as prepaid when nobody waits for them any more.

use crate::counts::CellReply;
use crate::gcra_sync::{BusyPeriod, GcraSync, interval_times};
use crate::identity::KeyId;
use crate::origin_cell::PublishedCell;
use crate::time::{Nanos, Sequence};
use crate::window::add_count;
use smallvec::SmallVec;
use std::num::NonZeroU32;

/// The most asks that one exchange carries for one key; what waits beyond them joins the next.
pub const ASKS_MAX: usize = 1000;
/// How long a hold lasts by the origin's time, unless it is confirmed or released before.
pub const HOLD_TTL: Nanos = Nanos::from_millis(250);
/// How much of its refill a saturated key may give out in advance.
pub const DRAW_AHEAD: Nanos = Nanos::from_millis(10);
/// How long a lease is meant to last: a hot key's node asks its region ten times a second.
pub const KEY_LEASE_TTL: Nanos = Nanos::from_millis(100);

/// Identifies the hold of one request, the same at every key. Unique among the live nodes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HoldId(pub u64);

/// What a node sends about one key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeySync {
    pub key: KeyId,
    /// How often the key was reset, as far as the node knows. The store keeps the highest that it heard of.
    pub epoch: u16,
    pub counts: CountSync,
    pub request: GrantRequest,
    /// Holds of this node that are over: confirmed (their cost is in the component now) or released.
    pub ended_holds: SmallVec<[HoldId; 2]>,
}

impl KeySync {
    /// The same sync in a later epoch, of which the node doesn't know yet: it has counted nothing there that it knows of.
    #[must_use]
    pub fn in_epoch(&self, epoch: u16) -> KeySync {
        let nothing = |cell: CellSync| CellSync { component: 0, acked: 0, claim: 0, ..cell };
        let counts = match self.counts {
            CountSync::Window(window) => CountSync::Window(WindowSync {
                current: nothing(window.current),
                previous: window.previous.map(nothing),
                ..window
            }),
            CountSync::Gcra { sync, burst } => CountSync::Gcra {
                sync: GcraSync { cumulative: 0, acked: 0, sent: 0, busy: BusyPeriod::default(), ..sync },
                burst,
            },
        };
        KeySync { epoch, counts, ..self.clone() }
    }

    /// By how many thousandths of its limit the key was beyond it, by what the origin answered; `None` where it wasn't,
    /// and where the sync only published and so doesn't know the limit. To be told, never to decide by.
    pub fn overshoot(&self, reply: &KeyReply, now: Nanos) -> Option<u64> {
        if reply.epoch != self.epoch {
            return None;
        }
        let (used, allowed) = match (self.counts, reply.counts) {
            (CountSync::Window(sync), CountReply::Window { current, previous, .. }) => {
                (u128::from(sync.used(current, previous, now)), u128::from(sync.limit))
            }
            (CountSync::Gcra { sync, burst }, CountReply::Gcra { busy, .. }) => {
                let allowed = interval_times(sync.rate, burst);
                (u128::from(busy.tat.minus(now).get()), u128::from(allowed.get()))
            }
            _ => return None,
        };
        let thousandths = used.checked_sub(allowed)?.checked_mul(1000)?.checked_div(allowed)?;
        // Rounding up to nanoseconds is no overshoot; a single unit is.
        let is_beyond = thousandths > 0 || (used > allowed && matches!(self.counts, CountSync::Window(_)));
        is_beyond.then(|| u64::try_from(thousandths).unwrap_or(u64::MAX).max(1))
    }
}

/// Requests units of a key for a node. A sync also publishes and reads the key's counts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct GrantRequest {
    /// Costs to grant, in order, each if it fits. A granted one counts for everybody at once.
    pub asks: SmallVec<[u64; 4]>,
    /// Draw up to [`DRAW_AHEAD`] of refill beside the asks: the key is saturated and busy.
    pub draw: bool,
    /// Draw ahead for a key that is hot, beside the asks and of what they leave.
    pub lease: Option<LeaseRequest>,
    /// Holds the costs of the asks under this id instead of granting them: those of one request, all or none.
    pub hold: Option<HoldId>,
    /// Only read the counts: a node that has published nothing doesn't become an owner by this.
    pub peek: bool,
}

impl GrantRequest {
    /// The most that may be granted by asks and a lease. What is drawn ahead of the refill isn't in it.
    pub fn most_granted(&self) -> u64 {
        if self.hold.is_some() {
            return 0;
        }
        let leased = self.lease.map_or(0, |lease| lease.most);
        self.asks.iter().fold(leased, |sum, cost| add_count(sum, *cost))
    }
}

/// A request to draw units ahead: at most `most`, and at most one of `parts` of what is left of the limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeaseRequest {
    pub most: u64,
    /// Nodes that share what is left.
    pub parts: NonZeroU32,
}

impl LeaseRequest {
    /// What is drawn where so much is left.
    pub fn of(self, left: u64) -> u64 {
        self.most.min(left / u64::from(self.parts.get()))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CountSync {
    Window(WindowSync),
    Gcra { sync: GcraSync, burst: u64 },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WindowSync {
    pub limit: u64,
    /// How many regions share the world credit that asks must keep to (class `abuse`); 1: none is looked at.
    pub regions: u32,
    pub sequence: Sequence,
    pub current: CellSync,
    /// The cell before: read and published when it is weighed, or when something of it is unpublished.
    pub previous: Option<CellSync>,
    /// How the previous cell fades; `None` for fixed and calendar windows, which forget it at once.
    pub fading: Option<Fading>,
}

/// A sliding window weighs its previous cell by what is left of the current one: `(end − now) / period`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fading {
    pub end: Nanos,
    pub period: Nanos,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CellSync {
    /// The node's own component; 0 before it knows what it published earlier.
    pub component: u64,
    /// How much of the component the origin has confirmed, or may have counted: a call carried it whose outcome isn't
    /// known. Another node may have read that much, so it can't count once more beside what others claim.
    pub acked: u64,
    /// The highest count of the region that the node knows of.
    pub claim: u64,
    /// When nobody needs the cell any more.
    pub expires: Nanos,
}

impl CellSync {
    /// What the origin counts of it.
    pub fn published(&self) -> PublishedCell {
        PublishedCell { component: self.component, acked: self.acked, claim: self.claim }
    }
}

/// What the origin answers about one key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyReply {
    /// Above the node's own epoch: the key was reset, and this is the state of the new epoch's cells. Asks were granted
    /// there, and nothing of what the node sent about its old epoch was published.
    pub epoch: u16,
    pub counts: CountReply,
    /// For each ask, in order, whether it was granted (or reserved).
    pub granted: SmallVec<[bool; 4]>,
    /// What was drawn beside the asks. It is in the component already, like the granted asks.
    pub drawn: u64,
    /// For a refused ask: the earliest that the first of them could pass if nobody else came.
    pub retry_after: Option<Nanos>,
    /// The node's component before this exchange; `None` where it was no owner. Less than was confirmed: data is gone.
    pub component_before: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CountReply {
    Window {
        current: CellReply,
        /// Given when the sync named it.
        previous: Option<CellReply>,
        /// How many nodes have a component of the current cell, the asking one included.
        owners: u32,
    },
    Gcra {
        busy: BusyPeriod,
        /// The node's cumulative cost, grants included.
        stored: u64,
        owners: u32,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rate;

    const NOW: Nanos = Nanos::from_secs(6030);

    fn overshoot(counts: CountSync, reply: CountReply) -> Option<u64> {
        let key = KeyId::from_hash(1);
        let sync =
            KeySync { key, epoch: 1, counts, request: GrantRequest::default(), ended_holds: SmallVec::new() };
        let granted = SmallVec::new();
        let reply = KeyReply {
            epoch: 1,
            counts: reply,
            granted,
            drawn: 0,
            retry_after: None,
            component_before: Some(0),
        };
        let of_another_epoch = KeyReply { epoch: 2, ..reply.clone() };
        assert_eq!(sync.overshoot(&of_another_epoch, NOW), None);
        sync.overshoot(&reply, NOW)
    }

    /// Half of the cell before counts.
    fn window(limit: u64, totals: [u64; 2], world: u64) -> Option<u64> {
        let cell = CellSync { component: 0, acked: 0, claim: 0, expires: NOW };
        let period = Nanos::from_secs(60);
        let fading = Some(Fading { end: NOW.plus(Nanos::from_secs(30)), period });
        let (sequence, regions) = (Sequence(100), 1);
        let sync = WindowSync { limit, regions, sequence, current: cell, previous: Some(cell), fading };
        let [current, previous] = totals.map(|total| CellReply { component: 0, total, world, published: 0 });
        let reply = CountReply::Window { current, previous: Some(previous), owners: 1 };
        overshoot(CountSync::Window(sync), reply)
    }

    #[test]
    fn a_window_overshoots_by_what_is_counted_beyond_its_limit() {
        assert_eq!(window(100, [70, 60], 0), None, "exactly the limit");
        assert_eq!(window(100, [71, 60], 0), Some(10));
        assert_eq!(window(100, [70, 60], 10), Some(150), "the other regions count too");
        assert_eq!(window(1_000_000, [1_000_001, 0], 0), Some(1), "one unit too many is told");
        assert_eq!(window(0, [50, 0], 0), None, "a publish doesn't know the limit");
    }

    #[test]
    fn a_lease_is_no_more_than_was_wished_for_and_than_a_part_of_what_is_left() {
        let of = |most, left| LeaseRequest { most, parts: NonZeroU32::new(3).unwrap() }.of(left);
        assert_eq!([of(10, 100), of(10, 30), of(10, 29), of(10, 2), of(0, 100)], [10, 10, 9, 0, 0]);
    }

    #[test]
    fn a_rate_overshoots_by_what_is_owed_beyond_its_burst() {
        let rate = Rate::new(10, Nanos::from_secs(1)).unwrap();
        let busy = |millis| BusyPeriod { tat: NOW.plus(Nanos::from_millis(millis)), since: NOW };
        let sync = GcraSync { cumulative: 0, acked: 0, sent: 0, oldest: NOW, busy: busy(0), rate };
        let owed = |burst, millis| {
            let reply = CountReply::Gcra { busy: busy(millis), stored: 0, owners: 1 };
            overshoot(CountSync::Gcra { sync, burst }, reply)
        };
        assert_eq!(owed(20, 2000), None);
        assert_eq!(owed(20, 2500), Some(250));
        assert_eq!(owed(0, 2500), None, "a publish doesn't know the burst");
    }
}
