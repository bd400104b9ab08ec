//! Parts of a limit: what a region enforces of it, and how a limit is divided.
//!
//! Everything is rounded so that parts never sum to more than their whole (INV-6). Shares are max-min fair, also
//! called water-filling: who asks for little gets all of it, the others share the rest evenly.

use crate::limit::{Burst, Limit, Spec};
use crate::time::Nanos;

/// A whole rate, in the unit of its parts.
pub const PARTS: u32 = 1_000_000_000;

/// A part of a limit. Parts of one limit sum to its whole at most.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct SliceSize {
    /// Of a window: how much of its limit. Of GCRA: how much of its burst.
    pub amount: u64,
    /// Of GCRA: billionths of its rate. A window has them too, as its share before rounding.
    pub rate_parts: u32,
}

impl SliceSize {
    pub const NOTHING: SliceSize = SliceSize { amount: 0, rate_parts: 0 };

    /// All of a limit whose number is `amount`.
    pub const fn whole(amount: u64) -> Self {
        SliceSize { amount, rate_parts: PARTS }
    }

    /// The part of the `index`-th of `members` that divide evenly; the first ones get what is left over.
    #[must_use]
    pub fn even(self, index: usize, members: usize) -> Self {
        let (index, members) = (index as u64, members.max(1) as u64);
        let part = |whole: u64| whole / members + u64::from(index < whole % members);
        SliceSize { amount: part(self.amount), rate_parts: narrow(part(u64::from(self.rate_parts))) }
    }

    /// The most that any of `members` can have who divide evenly.
    #[must_use]
    pub fn even_at_most(self, members: usize) -> Self {
        self.even(0, members)
    }

    /// The same part of a whole with another number, rounded up: what it may be at most.
    #[must_use]
    pub fn of_other_whole(self, before: u64, now: u64) -> Self {
        if before == now {
            return self;
        }
        let amount = (u128::from(self.amount) * u128::from(now)).div_ceil(u128::from(before.max(1)));
        SliceSize { amount: u64::try_from(amount).unwrap_or(u64::MAX).min(now), ..self }
    }

    /// The same part of a whole with another number, rounded down: what is in force of it, so that parts never sum to
    /// more than their whole.
    #[must_use]
    pub fn scaled_down(self, before: u64, now: u64) -> Self {
        if before == now {
            return self;
        }
        let amount = u128::from(self.amount) * u128::from(now) / u128::from(before.max(1));
        SliceSize { amount: narrow_to(amount, now), ..self }
    }

    #[must_use]
    pub fn at_least(self, other: Self) -> Self {
        SliceSize { amount: self.amount.max(other.amount), rate_parts: self.rate_parts.max(other.rate_parts) }
    }

    #[must_use]
    pub fn at_most(self, other: Self) -> Self {
        SliceSize { amount: self.amount.min(other.amount), rate_parts: self.rate_parts.min(other.rate_parts) }
    }

    /// Saturates: a sum beyond any limit fits nowhere.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        SliceSize {
            amount: self.amount.saturating_add(other.amount),
            rate_parts: self.rate_parts.saturating_add(other.rate_parts),
        }
    }

    /// Saturates at nothing.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        SliceSize {
            amount: self.amount.saturating_sub(other.amount),
            rate_parts: self.rate_parts.saturating_sub(other.rate_parts),
        }
    }

    pub fn fits(self, other: Self) -> bool {
        self.at_most(other) == self
    }
}

impl Spec {
    /// Returns the part of this limit that the holder of `size` enforces.
    #[must_use]
    pub fn apply(&self, size: SliceSize) -> Spec {
        let amount = |number: u64| size.amount.min(number);
        let limit_of = |limit: Limit| Limit::new(amount(limit.get())).unwrap_or(Limit::BLOCKED);
        match *self {
            Spec::Sliding { limit, period } => Spec::Sliding { limit: limit_of(limit), period },
            Spec::Fixed { limit, period } => Spec::Fixed { limit: limit_of(limit), period },
            Spec::Calendar { limit, unit, cell } => Spec::Calendar { limit: limit_of(limit), unit, cell },
            Spec::Gcra { rate, burst } => match rate.parted(size.rate_parts.min(PARTS)) {
                Some(rate) => {
                    Spec::Gcra { rate, burst: Burst::new(amount(burst.get())).unwrap_or(Burst::BLOCKED) }
                }
                None => Spec::Gcra { rate, burst: Burst::BLOCKED },
            },
        }
    }
}

/// A region's slice, as its nodes go by it. Its instants are of whatever clock the present is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lease {
    pub size: SliceSize,
    /// The amount of the whole that it was cut from.
    pub whole: u64,
    /// Until when it is in force.
    pub until: Nanos,
    /// From when on nobody counts on it any more.
    pub rises: Nanos,
}

impl Lease {
    /// What is in force of a limit whose number is `number`, for who has the part `even` without a slice: the slice,
    /// the smaller of both when the lease is over, and the even part when nobody else counts on the slice. Of a slice
    /// of another number it is the smaller of both, too: scaled parts and even parts are rounded differently, and some
    /// regions may have gone back to even parts already.
    pub fn in_force(&self, number: u64, even: SliceSize, now: Nanos) -> SliceSize {
        if now > self.rises {
            return even;
        }
        let size = self.size.scaled_down(self.whole, number);
        if now <= self.until && self.whole == number { size } else { size.at_most(even) }
    }

    /// The same by a clock that shows `ours` when this one's shows `theirs`. What is over stays over.
    #[must_use]
    pub fn by_clock(&self, theirs: Nanos, ours: Nanos) -> Lease {
        let moved =
            |instant: Nanos| if instant > theirs { ours.plus(instant.minus(theirs)) } else { Nanos::ZERO };
        Lease { until: moved(self.until), rises: moved(self.rises), ..*self }
    }
}

/// The least that a member of so many holds, in billionths: a tenth, half of an even part, and for all others
/// together a sixth, so that one who is alone in asking gets five sixths however many there are.
pub fn floor_parts(members: usize) -> u32 {
    let members = u32::try_from(members).unwrap_or(u32::MAX).max(1);
    let of_a_sixth = PARTS / 6 / (members - 1).max(1);
    (PARTS / 10).min(PARTS / members / 2).min(of_a_sixth)
}

/// Divides all of `total` among those who want so much each, max-min fair. What nobody wants is divided evenly, so
/// that everybody can grow. Sums to exactly `total`, if there is anybody.
pub fn fill(total: u64, wants: &[u64]) -> Vec<u64> {
    let mut order: Vec<usize> = (0..wants.len()).collect();
    order.sort_by_key(|index| wants[*index]);
    let mut shares = vec![0; wants.len()];
    let mut left = total;
    for (position, index) in order.iter().enumerate() {
        let others = (wants.len() - position) as u64;
        // The smallest want first: who wants less than an even part of the rest leaves more for the others.
        shares[*index] = wants[*index].min(left / others);
        left -= shares[*index];
    }
    let members = wants.len().max(1) as u64;
    for (index, share) in (0_u64..).zip(&mut shares) {
        *share += left / members + u64::from(index < left % members);
    }
    shares
}

/// Divides all of `total` in proportion to the weights, in whole numbers: each gets its part rounded down, and
/// what is left goes to the largest remainders, the first of equal ones first. Nobody gets anything when all
/// weights are 0.
pub fn apportion(total: u64, weights: &[u64]) -> Vec<u64> {
    let sum: u128 = weights.iter().map(|weight| u128::from(*weight)).sum();
    if sum == 0 {
        return vec![0; weights.len()];
    }
    let product = |weight: &u64| u128::from(total) * u128::from(*weight);
    let mut parts: Vec<u64> = weights.iter().map(|weight| narrow_to(product(weight) / sum, total)).collect();
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by_key(|index| std::cmp::Reverse(product(&weights[*index]) % sum));
    let left = total - parts.iter().sum::<u64>();
    for (_, index) in (0..left).zip(order) {
        parts[index] += 1;
    }
    parts
}

/// At most `most`, which it can't exceed but by a mistake of somebody else's.
fn narrow_to(number: u128, most: u64) -> u64 {
    u64::try_from(number).unwrap_or(most).min(most)
}

/// Billionths fit.
fn narrow(parts: u64) -> u32 {
    u32::try_from(parts).unwrap_or(PARTS)
}

#[cfg(test)]
mod tests;
