//! INV-6 as the database shows it: whatever regions may go by at an instant sums to the limit at most.
//!
//! Every region is taken to go by the most that it may: also by what a slice was before, until its change was
//! acknowledged; by its even part or the slice, whichever is smaller, once a lease has ended; and by its even part
//! two leases after it was last heard of.

use crate::ledger::{Owner, Size, Slice};
use crate::watch::WatchLog;
use std::collections::BTreeSet;

/// Of GCRA's rate.
const WHOLE_RATE: u64 = 1_000_000_000;
/// How long a slice is a region's.
const LEASE_US: u64 = tidegate_world::SLICE_LEASE.get() / 1000;

/// The largest sum ever seen of a key's slices, as part of the limit; 0 when there were none.
pub(crate) fn largest_sum(seen: &WatchLog, key: u128, limit: u64) -> f64 {
    let sums = seen.looks.iter().map(|look| {
        let slices: Vec<&Slice> = look.slices.iter().filter(|slice| slice.key == key).collect();
        if slices.is_empty() { 0.0 } else { sum(&slices, &look.owners, limit) }
    });
    sums.fold(0.0, f64::max)
}

/// How often a key had slices when somebody looked.
pub(crate) fn looks_with_slices(seen: &WatchLog, key: u128) -> usize {
    seen.looks.iter().filter(|look| look.slices.iter().any(|slice| slice.key == key)).count()
}

fn sum(slices: &[&Slice], owners: &[Owner], limit: u64) -> f64 {
    let holders: BTreeSet<u32> =
        owners.iter().map(|owner| owner.id).chain(slices.iter().map(|slice| slice.owner)).collect();
    let count = u64::try_from(holders.len()).unwrap_or(1);
    let (mut amount, mut rate_parts) = (0, 0);
    for (holder, place) in holders.iter().zip(0..) {
        let even =
            Size { amount: even_part(limit, count, place), rate_parts: even_part(WHOLE_RATE, count, place) };
        let slice = slices.iter().find(|slice| slice.owner == *holder);
        let confirmed = owners.iter().find(|owner| owner.id == *holder).map_or(0, |owner| owner.confirmed);
        let held = slice.map_or(even, |slice| held(slice, even, confirmed));
        amount += held.amount;
        rate_parts += held.rate_parts;
    }
    // A window's slice has no rate.
    let of_rate = if slices.iter().all(|slice| slice.size.rate_parts == 0) { 0 } else { rate_parts };
    part(amount, limit).max(part(of_rate, WHOLE_RATE))
}

/// The most that the holder of a slice may go by.
fn held(slice: &Slice, even: Size, confirmed: u64) -> Size {
    let leased = |size: Size, until| if slice.now <= until { size } else { size.at_most(even) };
    let mut most = leased(slice.size, slice.expires);
    if slice.acknowledged < slice.generation {
        most = most.at_least(leased(slice.before, slice.before_until));
    }
    // Nobody counts on a slice any more so long after its holder was last heard of.
    if slice.now > confirmed + 2 * LEASE_US { most.at_least(even) } else { most }
}

/// The remainder goes to the first.
fn even_part(whole: u64, count: u64, place: u64) -> u64 {
    whole / count + u64::from(place < whole % count)
}

#[expect(clippy::cast_precision_loss, reason = "limits of a benchmark are far below 2^52")]
fn part(sum: u64, whole: u64) -> f64 {
    sum as f64 / whole as f64
}
