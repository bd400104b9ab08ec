//! Which keys have slices when more are wanted than a region can be told of.
//!
//! What isn't told is never acknowledged, and what isn't acknowledged can be neither raised nor given to another: so
//! many keys at the most, those of which most is asked for. A key that has slices stays unless another asks for twice
//! as much, since slices that come and go serve nobody.

use super::key::Key;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use tidegate_core::KeyId;

/// How much more another key must ask for to take a key's place.
const TAKES_OVER_AT: u64 = 2;

/// Returns the keys for which there is no room beside the others.
pub(super) fn rejected(keys: &BTreeMap<KeyId, Key<'_>>, most: usize) -> BTreeSet<KeyId> {
    if keys.len() <= most {
        return BTreeSet::new();
    }
    let of = |is_sliced: bool| keys.iter().filter(move |(_, key)| key.is_sliced() == is_sliced);
    let mut sliced: Vec<(u64, KeyId)> = of(true).map(|(id, key)| (key.appetite(), *id)).collect();
    let mut waiting: Vec<(Reverse<u64>, KeyId)> =
        of(false).map(|(id, key)| (Reverse(key.appetite()), *id)).collect();
    sliced.sort_unstable();
    waiting.sort_unstable();
    let room = most.saturating_sub(sliced.len()).min(waiting.len());
    let turned_away = waiting.split_off(room);
    // An earlier release gave slices to whoever asked.
    let stays = sliced.split_off(sliced.len().saturating_sub(most));
    // Its place is free when its slices are gone.
    let taken_over = stays
        .iter()
        .zip(&turned_away)
        .take_while(|((has, _), (Reverse(asks), _))| has.saturating_mul(TAKES_OVER_AT) < *asks);
    let taken_over = taken_over.map(|((_, id), _)| *id);
    let surplus = sliced.iter().map(|(_, id)| *id);
    surplus.chain(taken_over).chain(turned_away.iter().map(|(_, id)| *id)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::{Limit, Nanos, Period, SliceSize, Spec};
    use tidegate_world::{Demand, OwnerId, SliceHolding, SliceRow};

    fn demand(number: u128, percent: u64) -> Demand {
        let (limit, period) = (Limit::new(1_000).unwrap(), Period::new(Nanos::from_secs(10)).unwrap());
        let (spec, is_abuse) = (Spec::Sliding { limit, period }, false);
        Demand {
            key: KeyId::from_hash(number),
            spec,
            is_abuse,
            milli_per_second: percent * 1_000,
            name: None,
        }
    }

    fn slice(number: u128) -> SliceHolding {
        let (size, expires) = (SliceSize::whole(1_000), Nanos::ZERO);
        let (key, owner) = (KeyId::from_hash(number), OwnerId(1));
        let row = SliceRow { key, owner, generation: 1, size, whole: 1_000, expires };
        SliceHolding { row, acknowledged: 1, before: None }
    }

    /// Which of the keys are turned away, of which so many percent are asked for, the first ones with slices.
    fn away(sliced: &[u64], waiting: &[u64], most: usize) -> Vec<usize> {
        let demands: Vec<Demand> =
            sliced.iter().chain(waiting).zip(1..).map(|(percent, number)| demand(number, *percent)).collect();
        let slices: Vec<SliceHolding> = sliced.iter().zip(1..).map(|(_, number)| slice(number)).collect();
        let mut keys = BTreeMap::<KeyId, Key<'_>>::new();
        demands
            .iter()
            .for_each(|demand| keys.entry(demand.key).or_default().demands.push((OwnerId(1), demand)));
        slices.iter().for_each(|held| keys.entry(held.row.key).or_default().slices.push(held));
        let away = rejected(&keys, most);
        (1..=demands.len()).filter(|number| away.contains(&KeyId::from_hash(*number as u128))).collect()
    }

    #[test]
    fn where_there_is_room_nobody_is_turned_away() {
        assert!(away(&[1, 2], &[3, 4], 4).is_empty());
    }

    #[test]
    fn who_asks_for_most_gets_the_room_that_there_is() {
        assert_eq!(away(&[50], &[20, 90, 30], 3), [2]);
        assert_eq!(away(&[50], &[20, 90, 30], 2), [2, 4]);
    }

    #[test]
    fn a_slice_makes_room_for_who_asks_for_twice_as_much_and_for_nobody_else() {
        assert_eq!(away(&[40, 50], &[75], 2), [3]);
        assert_eq!(away(&[40, 50], &[81], 2), [1, 3], "it waits until the slices are gone");
        assert_eq!(away(&[10, 50, 20], &[90, 60, 5], 3), [1, 3, 4, 5, 6]);
    }

    #[test]
    fn of_more_slices_than_there_is_room_for_the_smallest_go() {
        assert_eq!(away(&[10, 50, 20], &[], 2), [1]);
        assert_eq!(
            away(&[10, 50, 20, 30], &[25, 90], 2),
            [1, 3, 4, 5, 6],
            "and what is left may be taken over"
        );
    }

    #[test]
    fn more_than_all_of_a_limit_is_no_more() {
        assert_eq!(away(&[60], &[100_000], 1), [2]);
    }
}
