//! What a sync's asks get: granted in order while they fit, and something drawn ahead.
//!
//! Windows and GCRA differ only in what fits; the order, the all-or-none and the draw are here.

use smallvec::SmallVec;
use tidegate_core::exchange::GrantRequest;
use tidegate_core::limit::NUMBER_MAX;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Allotment {
    pub(super) granted: SmallVec<[bool; 4]>,
    /// The granted asks together; held back instead when the sync reserves.
    pub(super) spent: u64,
    pub(super) drawn: u64,
    /// What a refused sync waits for.
    pub(super) refused: Option<u64>,
}

impl Allotment {
    pub(super) fn nothing(wants: &GrantRequest) -> Self {
        Allotment { granted: SmallVec::from_elem(false, wants.asks.len()), spent: 0, drawn: 0, refused: None }
    }

    /// `fits(units, ahead)`: whether so many more fit when the limit reaches `ahead` further.
    pub(super) fn of(wants: &GrantRequest, ahead: u64, fits: impl Fn(u64, u64) -> bool) -> Self {
        // A lease is of what is there.
        let ahead = if wants.draw && wants.lease.is_none() && fits(1, 0) { ahead } else { 0 };
        let mut allotted = Allotment { granted: SmallVec::new(), spent: 0, drawn: 0, refused: None };
        for ask in wants.asks.iter().map(|ask| (*ask).min(NUMBER_MAX)) {
            let spent = allotted.spent.saturating_add(ask);
            let is_granted = fits(spent, ahead);
            if is_granted {
                allotted.spent = spent;
            } else {
                allotted.refused.get_or_insert(ask);
            }
            allotted.granted.push(is_granted);
        }
        let most_that_fits = |most| largest(most, |drawn| fits(allotted.spent.saturating_add(drawn), ahead));
        allotted.drawn = match wants.lease {
            Some(wish) => wish.of(most_that_fits(NUMBER_MAX)).min(NUMBER_MAX),
            None => most_that_fits(ahead),
        };
        allotted
    }

    /// Nothing is granted after all: what waits can only pass as a whole.
    pub(super) fn cancel(&mut self, wants: &GrantRequest) {
        let asked = wants.asks.iter().fold(0_u64, |sum, ask| sum.saturating_add(*ask).min(NUMBER_MAX));
        *self = Allotment { refused: (!wants.asks.is_empty()).then_some(asked), ..Allotment::nothing(wants) };
    }

    /// What counts at once.
    pub(super) fn taken(&self, wants: &GrantRequest) -> u64 {
        let granted = if wants.hold.is_some() { 0 } else { self.spent };
        granted.saturating_add(self.drawn)
    }
}

/// The largest number up to `most` that passes, if smaller ones do too; 0 when none does.
fn largest(most: u64, passes: impl Fn(u64) -> bool) -> u64 {
    let (mut passed, mut failed) = (0, most.saturating_add(1));
    while failed - passed > 1 {
        let middle = passed + (failed - passed) / 2;
        if passes(middle) {
            passed = middle;
        } else {
            failed = middle;
        }
    }
    passed
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroU32;
    use tidegate_core::exchange::LeaseRequest;

    fn wants(asks: &[u64], draw: bool) -> GrantRequest {
        GrantRequest { asks: asks.into(), draw, ..GrantRequest::default() }
    }

    #[test]
    fn a_large_refused_ask_does_not_block_a_smaller_one_behind_it() {
        let allotted = Allotment::of(&wants(&[3, 9, 5, 4], false), 0, |units, _| units <= 8);
        assert_eq!(allotted.granted.as_slice(), [true, false, true, false]);
        assert_eq!((allotted.spent, allotted.refused), (8, Some(9)));
    }

    #[test]
    fn a_draw_takes_what_is_left_and_at_most_so_much() {
        let fits = |units, ahead| units <= 8 + ahead;
        let draw = |asks: &[u64]| Allotment::of(&wants(asks, true), 5, fits);
        assert_eq!((draw(&[2]).drawn, draw(&[10]).drawn, draw(&[13]).drawn), (5, 3, 0));
        let full = Allotment::of(&wants(&[1], true), 5, |units, ahead| units + 8 <= 8 + ahead);
        assert_eq!((full.drawn, full.refused), (0, Some(1)), "a key without room gives nothing in advance");
    }

    #[test]
    fn a_lease_is_what_was_wished_for_and_at_most_a_part_of_what_the_asks_leave() {
        let lease = |asks: &[u64], most, parts| {
            let lease = Some(LeaseRequest { most, parts: NonZeroU32::new(parts).unwrap() });
            Allotment::of(&GrantRequest { lease, ..wants(asks, true) }, 5, |units, ahead| units <= 30 + ahead)
                .drawn
        };
        assert_eq!((lease(&[], 7, 3), lease(&[], 100, 3), lease(&[15, 40], 100, 3)), (7, 10, 5));
        assert_eq!((lease(&[30], 100, 1), lease(&[], u64::MAX, 1)), (0, 30));
    }
}
