//! What a region may go by, of one key, at any instant from now on: all that INV-6 rests on.
//!
//! A region that was told nothing goes by its even part. One that has a slice goes by it until the lease ends, then
//! by the smaller of slice and even part, and by the even part from two leases after its last acknowledgement on
//! (it waits a margin longer, which covers the way of the acknowledgement). While a change isn't acknowledged it
//! may go by either size.

use tidegate_core::{Nanos, SliceSize};
use tidegate_world::{Member, SLICE_LEASE, SliceHolding, SliceRow};

#[derive(Clone, Copy, Debug)]
pub(super) struct Holding {
    pub(super) is_active: bool,
    /// The largest even part that it may go by, whichever membership it knows.
    pub(super) even: SliceSize,
    pub(super) confirmed: Nanos,
    pub(super) held: Option<SliceHolding>,
}

impl Holding {
    pub(super) fn new(member: &Member, even: SliceSize, held: Option<SliceHolding>) -> Self {
        Holding { is_active: member.is_active, even, confirmed: member.confirmed, held }
    }

    /// Two leases after the last acknowledgement.
    fn rises_at(&self) -> Nanos {
        self.confirmed.plus(SLICE_LEASE).plus(SLICE_LEASE)
    }

    /// Nothing was acknowledged for a lease: it isn't counted on any more.
    pub(super) fn is_silent(&self, now: Nanos) -> bool {
        self.confirmed.plus(SLICE_LEASE) < now
    }

    pub(super) fn is_acknowledged(&self) -> bool {
        self.held.is_none_or(|held| held.acknowledged >= held.row.generation)
    }

    /// The most that may be in force at an instant, if nothing more is written.
    pub(super) fn at(&self, instant: Nanos) -> SliceSize {
        if !self.is_active {
            return SliceSize::NOTHING;
        }
        let Some(held) = self.held else { return self.even };
        let leased = |size: SliceSize, until| if instant <= until { size } else { size.at_most(self.even) };
        let mut most = leased(held.row.size, held.row.expires);
        if let Some((size, until)) = held.before.filter(|_| !self.is_acknowledged()) {
            most = most.at_least(leased(size, until));
        }
        if instant > self.rises_at() { most.at_least(self.even) } else { most }
    }

    /// The instants after which something else is in force.
    fn turns(&self) -> impl Iterator<Item = Nanos> {
        let leases = self.held.into_iter().flat_map(|held| {
            [Some(held.row.expires), held.before.map(|(_, until)| until)].into_iter().flatten()
        });
        leases.chain([self.rises_at()])
    }

    /// The same after another size was written. What it may still go by is the size before, until its lease ends,
    /// or whatever its even part is. Only after the last change was acknowledged: one at a time.
    #[must_use]
    pub(super) fn rewritten(self, row: SliceRow) -> Self {
        let before = match self.held {
            Some(held) => (held.row.size, held.row.expires),
            None => (SliceSize::whole(row.whole), Nanos::ZERO),
        };
        let acknowledged = self.held.map_or(0, |held| held.acknowledged);
        Holding { held: Some(SliceHolding { row, acknowledged, before: Some(before) }), ..self }
    }
}

/// The most that may be in force together at any instant from `now` to a lease later.
pub(super) fn peak(holdings: &[Holding], now: Nanos) -> SliceSize {
    let end = now.plus(SLICE_LEASE);
    let turns = holdings.iter().flat_map(Holding::turns).filter(|turn| (now..end).contains(turn));
    let instants = turns.map(|turn| turn.plus(Nanos::new(1))).chain([now]);
    instants
        .map(|instant| {
            let sizes = holdings.iter().map(|holding| holding.at(instant));
            sizes.fold(SliceSize::NOTHING, SliceSize::plus)
        })
        .fold(SliceSize::NOTHING, SliceSize::at_least)
}
