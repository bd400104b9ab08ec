//! The table against a plain map, its cap, its sweep, its walk, and requests of many limits.

mod room;

use super::*;
use crate::ask::{Accuracy, AskReason};
use crate::batch::{Decisions, Outcome, Undecided};
use crate::counts::CellReply;
use crate::decision::{Decision, Verdict};
use crate::exchange::{CountReply, GrantRequest, KeyReply, KeySync};
use crate::item::{Charge, Item, Role, Room};
use crate::limit::{Burst, Cost, Limit, Rate};
use crate::local::LocalState;
use crate::shared::SharedState;
use crate::time::Period;
use proptest::prelude::*;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};

const NOW: Nanos = Nanos::from_secs(1_800_000_000);

fn at(seconds: u64) -> Moment {
    Moment::at(NOW.plus(Nanos::from_secs(seconds)))
}

fn sliding(limit: u64) -> Spec {
    let period = Period::new(Nanos::from_secs(60)).unwrap();
    Spec::Sliding { limit: Limit::new(limit).unwrap(), period }
}

fn gcra(burst: u64) -> Spec {
    Spec::Gcra { rate: Rate::new(1, Nanos::from_secs(1)).unwrap(), burst: Burst::new(burst).unwrap() }
}

/// Spreads small numbers over the keys, as a hash does.
fn key(number: u64) -> KeyId {
    let mixed = u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    KeyId::from_hash(mixed ^ (mixed >> 64))
}

fn item(number: u64, limit: u64, cost: u64) -> Item {
    Item::new(key(number), sliding(limit), Cost::new(cost).unwrap())
}

fn table(keys_max: usize) -> Table<LocalState> {
    Table::with_shard_bits(keys_max, 2)
}

fn decide_all(table: &Table<LocalState>, items: &[Item]) -> (Outcome, Vec<(bool, u64)>) {
    let mut decisions = Decisions::new();
    let outcome = table.decide_all(items, at(0), &mut decisions).unwrap();
    (outcome, decisions.iter().map(|decision| (decision.is_admitted(), decision.remaining)).collect())
}

/// Fills a table where it doesn't matter which keys still find room.
fn ignore(_: Result<Decision, Undecided>) {}

fn remaining(table: &Table<LocalState>, number: u64, limit: u64) -> u64 {
    table.decide(&item(number, limit, 0), at(0)).unwrap().remaining
}

proptest! {
    /// Random keys, and keys so close together that all are aimed at one slot, at either end.
    #[test]
    fn the_table_holds_what_a_plain_map_holds(numbers in prop::collection::vec((0_u64..4000, 0_u8..4), 1..1500)) {
        let table = table(1_000_000);
        let mut plain = BTreeMap::<KeyId, u64>::new();
        for (number, kind) in numbers {
            let key = match kind {
                0 => KeyId::from_hash(u128::from(number)),
                1 => KeyId::from_hash(u128::MAX - 1 - u128::from(number)),
                _ => key(number),
            };
            *plain.entry(key).or_default() += 1;
            table.decide(&Item::new(key, sliding(10_000), Cost::ONE), at(0)).unwrap();
        }
        prop_assert_eq!(table.len(), plain.len());
        let mut walked = BTreeMap::new();
        table.for_each(|key, state| {
            let peek = state.decide(&Item::new(key, sliding(10_000), Cost::PEEK), 1, NOW).0;
            assert!(walked.insert(key, 10_000 - peek.remaining).is_none(), "visited twice");
        });
        prop_assert_eq!(walked, plain);
    }

    /// All or none, duplicates in order, against a list of numbers.
    #[test]
    fn batches_count_all_or_none(requests in prop::collection::vec(
        prop::collection::vec((0_u64..6, 0_u64..5, prop::bool::weighted(0.1), prop::bool::weighted(0.2)), 1..20), 1..60)) {
        const LIMIT: u64 = 12;
        let table = table(1_000_000);
        let mut plain = BTreeMap::<u64, u64>::new();
        for request in requests {
            let items: Vec<Item> = request.iter().map(|&(number, cost, always, shadow)| Item {
                charge: if always { Charge::Always } else { Charge::IfAdmitted },
                role: if shadow { Role::Shadow } else { Role::Enforced },
                ..item(number, LIMIT, cost)
            }).collect();
            let (outcome, _) = decide_all(&table, &items);
            // First as if all passed, then only what is charged in any case.
            let mut passed = plain.clone();
            let mut denied = plain.clone();
            let mut allowed = true;
            for &(number, cost, always, shadow) in &request {
                let used = passed.entry(number).or_default();
                let fits = *used + cost <= LIMIT;
                allowed &= fits || shadow;
                if fits || always {
                    *used += cost;
                }
                if always {
                    *denied.entry(number).or_default() += cost;
                }
            }
            plain = if allowed { passed } else { denied };
            prop_assert_eq!(outcome == Outcome::Admitted, allowed);
            for number in 0..6 {
                let used = plain.get(&number).copied().unwrap_or(0);
                prop_assert_eq!(remaining(&table, number, 1 << 40), (1 << 40) - used);
            }
        }
    }

    /// A guess about who denies changes no answer and no count, whether it is right, wrong or out of range.
    #[test]
    fn who_is_suspected_makes_no_difference(requests in prop::collection::vec(
        (prop::collection::vec((0_u64..6, 0_u64..6, 0_u8..12), 2..8), 0_usize..9), 1..60)) {
        let (plain, suspecting) = (table(1_000_000), table(1_000_000));
        for (second, (request, suspect)) in (0..).zip(requests) {
            let items: Vec<Item> = request.iter().map(|&(number, cost, kind)| Item {
                charge: if kind == 0 { Charge::Always } else { Charge::IfAdmitted },
                role: match kind { 1 => Role::Shadow, 2 | 3 => Role::Quota, _ => Role::Enforced },
                spec: if number % 2 == 0 { sliding(12) } else { gcra(8) },
                ..item(number, 12, cost)
            }).collect();
            let (mut expected, mut decisions) = (Decisions::new(), Decisions::new());
            let outcome = plain.decide_all(&items, at(second), &mut expected);
            let guessed = suspecting.decide_all_predicting(&items, Some(suspect), at(second), &mut decisions);
            prop_assert_eq!((guessed, decisions), (outcome, expected));
        }
        let all = |table: &Table<LocalState>| {
            let mut all = Vec::new();
            table.for_each(|key, state| all.push((key, *state)));
            all
        };
        prop_assert_eq!(all(&suspecting), all(&plain));
    }
}

#[test]
fn a_denied_batch_consumes_nothing_and_makes_no_entry() {
    let table = table(1000);
    let (outcome, answers) = decide_all(&table, &[item(1, 10, 3), item(2, 10, 11), item(3, 10, 3)]);
    assert_eq!(outcome, Outcome::Denied);
    assert_eq!(answers, [(true, 10), (false, 10), (true, 10)]);
    assert!(table.is_empty());
}

#[test]
fn the_same_key_twice_counts_twice_in_order() {
    let table = table(1000);
    assert_eq!(decide_all(&table, &[item(1, 10, 6), item(1, 10, 6)]).0, Outcome::Denied);
    assert_eq!(remaining(&table, 1, 10), 10);
    let (outcome, answers) = decide_all(&table, &[item(1, 10, 6), item(1, 10, 4)]);
    assert_eq!((outcome, answers), (Outcome::Admitted, vec![(true, 4), (true, 0)]));
    assert_eq!(table.len(), 1);
}

#[test]
fn a_key_that_comes_twice_is_told_when_both_would_pass() {
    let table = table(1000);
    let waits = |items: &[Item], moment: Moment| {
        let mut decisions = Decisions::new();
        let outcome = table.decide_all(items, moment, &mut decisions).unwrap();
        (outcome, decisions.iter().map(|decision| decision.verdict).collect::<Vec<_>>())
    };
    assert!(waits(&[item(1, 5, 2)], at(0)).0 == Outcome::Admitted);
    let (outcome, verdicts) = waits(&[item(1, 5, 3), item(1, 5, 2)], at(0));
    assert_eq!((outcome, verdicts[0]), (Outcome::Denied, Verdict::Admit));
    let Verdict::Deny { retry_after: Some(wait) } = verdicts[1] else { panic!("{verdicts:?}") };
    let later = |wait: Nanos| Moment::at(NOW.plus(wait));
    assert_eq!(waits(&[item(1, 5, 3), item(1, 5, 2)], later(wait.minus(Nanos::new(1)))).0, Outcome::Denied);
    assert_eq!(waits(&[item(1, 5, 3), item(1, 5, 2)], later(wait)).0, Outcome::Admitted);
    let (_, verdicts) = waits(&[item(2, 5, 3), item(2, 5, 3)], at(0));
    assert_eq!(verdicts[1], Verdict::Deny { retry_after: None }, "more than the limit never passes");
}

#[test]
fn a_hundred_limits_are_decided_together() {
    let table = table(1000);
    let mut items: Vec<Item> = (0..100).map(|number| item(number, 5, 1)).collect();
    assert_eq!(decide_all(&table, &items).0, Outcome::Admitted);
    items[99].cost = Cost::new(6).unwrap();
    assert_eq!(decide_all(&table, &items).0, Outcome::Denied);
    assert!((0..100).all(|number| remaining(&table, number, 5) == 4));
}

#[test]
fn a_post_paid_limit_is_charged_though_the_request_is_denied() {
    let table = table(1000);
    let post_paid = Item { charge: Charge::Always, ..item(1, 10, 25) };
    assert_eq!(decide_all(&table, &[post_paid, item(2, 10, 1)]).0, Outcome::Denied);
    assert_eq!(remaining(&table, 1, 100), 75);
    assert_eq!(remaining(&table, 2, 10), 10);
}

#[test]
fn a_shadow_limit_never_denies_and_is_charged_as_if_it_did() {
    let table = table(1000);
    let shadow = |cost| Item { role: Role::Shadow, ..item(1, 10, cost) };
    let (outcome, answers) = decide_all(&table, &[shadow(11), item(2, 10, 1)]);
    assert_eq!((outcome, answers), (Outcome::Admitted, vec![(false, 10), (true, 9)]));
    assert_eq!(decide_all(&table, &[shadow(4), item(2, 10, 1)]).0, Outcome::Admitted);
    assert_eq!(remaining(&table, 1, 10), 6);
}

#[test]
fn a_full_table_keeps_what_is_live_and_refuses_the_rest() {
    let table = table(40);
    let admitted = (0..400).filter(|number| table.decide(&item(*number, 10, 1), at(0)).is_ok()).count();
    assert_eq!((admitted, table.len()), (40, 40));
    assert!((0..400).filter_map(|number| table.state(key(number))).count() == 40);
    // What has an entry goes on being counted, a peek needs none, a batch says which item it was.
    let held = (0..400).find(|number| table.state(key(*number)).is_some()).unwrap();
    let other = (0..400).find(|number| table.state(key(*number)).is_none()).unwrap();
    assert_eq!(table.decide(&item(held, 10, 1), at(0)).unwrap().remaining, 8);
    assert_eq!(table.decide(&item(other, 10, 0), at(0)).unwrap().remaining, 10);
    let refused = table.decide_all(&[item(held, 10, 1), item(other, 10, 1)], at(0), &mut Decisions::new());
    assert_eq!(refused, Err(Undecided::NoRoom { index: 1 }));
    assert_eq!(remaining(&table, held, 10), 8, "a refused batch changed something");
    let reserved = Item { room: Room::Reserved, ..item(other, 10, 1) };
    assert!(table.decide(&reserved, at(0)).is_ok());
}

#[test]
fn a_table_fills_up_before_it_refuses() {
    for keys_max in [1_000, 10_000, 200_000] {
        let table = Table::<LocalState>::new(keys_max);
        let first_refused =
            (0..1_000_000).find(|number| table.decide(&item(*number, 10, 1), at(0)).is_err()).unwrap();
        assert_eq!((first_refused, table.len()), (keys_max as u64, keys_max));
    }
}

#[test]
fn a_full_table_lets_expired_entries_go_first() {
    let table = table(40);
    (0..400).for_each(|number| ignore(table.decide(&item(number, 10, 1), at(0))));
    let later = (1000..1400).filter(|number| table.decide(&item(*number, 10, 1), at(300)).is_ok()).count();
    assert_eq!((later, table.len()), (40, 40));
}

#[test]
fn a_full_table_lets_expired_entries_go_also_after_the_clock_was_set_back() {
    let table = table(40);
    (0..400).for_each(|number| ignore(table.decide(&item(number, 10, 1), at(0))));
    let day_earlier = NOW.shifted(-86_400_000_000_000);
    let step = table.clock_stepped(-86_400_000_000_000, day_earlier);
    let refused = Moment { now: day_earlier.plus(Nanos::from_secs(1)), step };
    assert!((2000..2100).all(|number| table.decide(&item(number, 10, 1), refused).is_err()));
    let later = Moment { now: day_earlier.plus(Nanos::from_secs(300)), step };
    let found_room = (1000..1400).filter(|number| table.decide(&item(*number, 10, 1), later).is_ok()).count();
    assert_eq!(found_room, 40);
}

#[test]
fn a_sharing_node_evicts_the_coldest_of_what_the_origin_knows() {
    let table = Table::<SharedState>::with_shard_bits(40, 1);
    let synced = |key: KeyId, state: &mut SharedState| {
        let counts = state.publishing().unwrap();
        let sent =
            KeySync { key, epoch: 0, counts, request: GrantRequest::default(), ended_holds: SmallVec::new() };
        let cell = CellReply { component: 0, total: 0, world: 0, published: 0 };
        let counts = CountReply::Window { current: cell, previous: Some(cell), owners: 1 };
        let none = KeyReply {
            epoch: 0,
            counts,
            granted: SmallVec::new(),
            drawn: 0,
            retry_after: None,
            component_before: None,
        };
        state.merge(&sent, &none, NOW, Some(NOW)).unwrap();
        let cell = CellReply { component: 1, total: 1, world: 0, published: 0 };
        let counts = CountReply::Window { current: cell, previous: Some(cell), owners: 1 };
        state.merge(&sent, &KeyReply { counts, ..none }, NOW, Some(NOW)).unwrap();
    };
    let decide = |number| table.decide(&item(number, 10, 1), at(0));
    assert_eq!((0..400).filter(|number| decide(*number).is_ok()).count(), 40);
    assert!(decide(1000).is_err(), "everything is unsynced, nothing may go");
    assert_eq!((table.evicted(), table.remembers_all()), (0, true));
    table.for_each(synced);
    let later = |number| table.decide(&item(number, 10, 1), at(1));
    assert!((1000..1004).all(|number| later(number).is_ok()));
    assert!(table.len() > 30, "a few make room, not all");
    assert_eq!(table.evicted(), 44 - table.len() as u64);
    assert!(!table.remembers_all(), "what it dropped was alive");
}

#[test]
fn the_sweep_drops_what_expired_and_gives_memory_back() {
    let table = table(1_000_000);
    (0..10_000).for_each(|number| ignore(table.decide(&item(number, 10, 1), at(0))));
    table.decide(&item(77, 10, 1), at(110)).unwrap();
    let swept: usize = (0..table.shard_count()).map(|shard| table.sweep_shard(shard, at(170))).sum();
    assert_eq!((swept, table.len()), (9_999, 1));
    assert!(table.state(key(77)).is_some());
}

#[test]
fn an_interrupted_walk_visits_every_old_entry_exactly_once() {
    let table = table(1_000_000);
    (0..5000).for_each(|number| ignore(table.decide(&item(number, 10, 1), at(0))));
    let mut seen = BTreeSet::new();
    let mut from = Some(KeyId::from_hash(0));
    let mut new = 5000;
    for shard in 0..table.shard_count() {
        from = from.or(Some(KeyId::from_hash(0)));
        while let Some(next) = from {
            from = table.shard(shard).lock().visit(next, 7, |key, _| {
                assert!(seen.insert(key), "visited twice");
            });
            (0..20).for_each(|_| {
                new += 1;
                assert!(table.decide(&item(new, 10, 1), at(0)).is_ok());
            });
        }
    }
    assert!((0..5000).all(|number| seen.contains(&key(number))), "missed one");
}

#[test]
fn a_clock_step_refills_nothing_in_either_direction() {
    for hours in [-5_i64, -1, 1, 5] {
        let table = table(1000);
        let bucket = Item::new(key(1), gcra(10), Cost::ONE);
        let window = item(2, 10, 1);
        for item in [&bucket, &window] {
            (0..10).for_each(|_| assert!(table.decide(item, at(0)).unwrap().is_admitted()));
        }
        let delta_ns = hours * 3_600_000_000_000 + 1;
        let step = table.clock_stepped(delta_ns, NOW.shifted(delta_ns));
        let after = Moment { now: NOW.shifted(delta_ns), step };
        let denied = |item| !table.decide(item, after).unwrap().is_admitted();
        assert!(denied(&bucket) && denied(&window), "refilled by a step of {hours} h");
        // Whoever read the clock before the step finds the same.
        assert!(!table.decide(&bucket, at(0)).unwrap().is_admitted());
        let second_later = Moment { now: after.now.plus(Nanos::from_secs(1)), step };
        assert!(table.decide(&bucket, second_later).unwrap().is_admitted());
        assert!(!table.decide(&bucket, second_later).unwrap().is_admitted());
    }
}

#[test]
fn a_step_in_january_bills_nothing_to_february() {
    let calendar = crate::calendar::Calendar::new(crate::calendar::CalendarUnit::Month, "UTC").unwrap();
    let january_20 = Nanos::from_secs(1_768_867_200);
    let february_1 = calendar.cell_at(january_20).end;
    let monthly = |now: Nanos| Spec::Calendar {
        limit: Limit::new(10).unwrap(),
        unit: calendar.unit(),
        cell: calendar.cell_at(now),
    };
    let check = |table: &Table<LocalState>, moment: Moment| {
        table.decide(&Item::new(key(1), monthly(moment.now), Cost::ONE), moment).unwrap().remaining
    };
    let table = table(1000);
    (0..10).for_each(|_| assert!(check(&table, Moment::at(january_20)) < 10));
    let lands_at = january_20.plus(Nanos::from_secs(3600));
    let step = table.clock_stepped(3_600_000_000_000, lands_at);
    let just_after = Moment { now: february_1.plus(Nanos::from_secs(60)), step };
    assert_eq!(check(&table, just_after), 9);
    // A step over the end of the month itself refills nothing.
    let table = self::table(1000);
    (0..10).for_each(|_| assert!(check(&table, Moment::at(january_20)) < 10));
    let step = table.clock_stepped(20 * 86_400_000_000_000, january_20.plus(Nanos::from_secs(20 * 86_400)));
    let february_9 = Moment { now: january_20.plus(Nanos::from_secs(20 * 86_400)), step };
    assert_eq!(check(&table, february_9), 0);
}

#[test]
fn a_denial_says_exactly_when_to_come_back() {
    let table = table(10);
    (0..10).for_each(|_| ignore(table.decide(&item(1, 10, 1), at(0))));
    let decision = table.decide(&item(1, 10, 1), at(0)).unwrap();
    let Verdict::Deny { retry_after: Some(wait) } = decision.verdict else { panic!("{decision:?}") };
    let later = |wait: Nanos| Moment::at(NOW.plus(wait));
    assert!(!table.decide(&item(1, 10, 1), later(wait.minus(Nanos::new(1)))).unwrap().is_admitted());
    assert!(table.decide(&item(1, 10, 1), later(wait)).unwrap().is_admitted());
}

/// The first so many keys of a shard.
fn keys_of_shard<S: State>(table: &Table<S>, shard: usize, count: usize) -> Vec<KeyId> {
    (0..10_000).map(key).filter(|key| table.shard_index(*key) == shard).take(count).collect()
}

fn of_key(key: KeyId) -> Item {
    Item { key, ..item(0, 10, 1) }
}

#[test]
fn a_batch_that_must_ask_changes_nothing_and_says_why() {
    let table = Table::<SharedState>::with_shard_bits(1000, 2);
    let (known, cold) = (item(1, 10, 1), Item { accuracy: Accuracy::Bounded, ..item(2, 10, 1) });
    let mut decisions = Decisions::new();
    let mut decide = |items: &[Item]| table.decide_all(items, at(0), &mut decisions);
    assert_eq!(decide(&[known, item(3, 10, 1)]), Ok(Outcome::Admitted));
    let before = table.state(known.key);
    assert_eq!(decide(&[known, cold]), Err(Undecided::MustAsk));
    assert_eq!((table.state(known.key), table.state(cold.key)), (before, None));
    assert_eq!(*table.reasons(&[known, cold], at(0)), [None, Some(AskReason::Cold)]);
    assert_eq!((table.state(known.key), table.len()), (before, 2), "a question changes nothing either");
}

#[test]
fn what_was_charged_is_queued_once_until_it_becomes_urgent() {
    let table = Table::<SharedState>::with_shard_bits(1000, 2);
    let soon = || {
        let mut keys = Vec::new();
        table.take_soon(&mut keys);
        keys.sort_unstable();
        keys
    };
    let mut both = vec![key(1), key(2)];
    both.sort_unstable();
    let mut decisions = Decisions::new();
    table.decide_all(&[item(1, 1000, 1), item(2, 1000, 1)], at(0), &mut decisions).unwrap();
    assert_eq!((soon(), soon()), (both.clone(), vec![]), "as new entries");
    table.decide(&item(1, 1000, 1), at(0)).unwrap();
    assert_eq!(soon(), [], "its state is queued already");
    for number in [1, 2] {
        assert!(table.update(key(number), SharedState::unqueue));
    }
    table.decide_all(&[item(1, 1000, 1), item(2, 1000, 1)], at(0), &mut decisions).unwrap();
    assert_eq!(soon(), both, "as entries that were there");
    assert!(!table.update(key(3), SharedState::unqueue), "there is none");
    assert!(!table.is_urgent() && table.take_urgent().is_empty());
    table.requeue(key(2), PublishUrgency::Now);
    assert!(table.is_urgent());
    assert_eq!((table.take_urgent(), table.is_urgent()), (vec![key(2)], false));
}

#[test]
fn a_lone_node_is_always_one_and_a_shared_table_at_least() {
    let (lone, shared) = (table(1000), Table::<SharedState>::new(1000));
    for (set, expected) in [(5, 5), (0, 1), (2, 2)] {
        lone.set_live_nodes(set);
        shared.set_live_nodes(set);
        assert_eq!((lone.live_nodes(), shared.live_nodes()), (1, expected));
    }
}

#[test]
fn a_batch_makes_room_where_entries_have_expired() {
    let table = Table::<LocalState>::with_shard_bits(8, 1);
    let keys = keys_of_shard(&table, 1, 10);
    for key in &keys[..8] {
        table.decide(&of_key(*key), at(0)).unwrap();
    }
    let new = [of_key(keys[8]), of_key(keys[9]), of_key(keys_of_shard(&table, 0, 1)[0])];
    let mut decisions = Decisions::new();
    let refused = table.decide_all(&new, at(0), &mut decisions);
    assert!(matches!(refused, Err(Undecided::NoRoom { .. })));
    assert_eq!(table.decide_all(&new, at(600), &mut decisions), Ok(Outcome::Admitted));
    assert_eq!(table.len(), 3);
}

#[test]
fn new_keys_of_a_batch_take_room_from_each_other_whatever_their_shards() {
    for (keys_max, shards) in [(2, [0, 0, 1]), (2, [0, 1, 1]), (2, [1, 1, 1]), (3, [1, 0, 1]), (3, [0, 0, 0])]
    {
        let table = Table::<LocalState>::with_shard_bits(keys_max, 1);
        let items = [0, 1, 2].map(|index| of_key(keys_of_shard(&table, shards[index], 3)[index]));
        let outcome = table.decide_all(&items, at(0), &mut Decisions::new());
        if keys_max == 3 {
            assert_eq!((outcome, table.len()), (Ok(Outcome::Admitted), 3), "{shards:?}");
        } else {
            assert!(matches!(outcome, Err(Undecided::NoRoom { .. })), "{shards:?}");
            assert!(table.is_empty());
        }
    }
}

#[test]
fn a_table_whose_clock_was_set_does_not_remember_all() {
    let table = Table::<SharedState>::with_shard_bits(64, 1);
    assert!(table.remembers_all());
    table.clock_stepped(1_000_000, NOW);
    assert!(!table.remembers_all());
}

/// Whoever is suspected, also where what was prepaid passes and somebody else denies.
#[test]
fn a_denied_batch_answers_each_item_as_if_it_was_looked_at() {
    let (one, full) = (item(1, 10, 4), item(2, 10, 10));
    let always = Item { charge: Charge::Always, ..item(3, 10, 1) };
    for suspect in [None, Some(0), Some(1), Some(2), Some(3)] {
        let table = table(1000);
        decide_all(&table, &[full]);
        let mut decisions = Decisions::new();
        let items = [one, full, always, Item { role: Role::Shadow, ..full }];
        let outcome = table.decide_all_predicting(&items, suspect, at(0), &mut decisions).unwrap();
        let admitted: Vec<bool> = decisions.iter().map(Decision::is_admitted).collect();
        assert_eq!((outcome, admitted), (Outcome::Denied, vec![true, false, true, false]), "{suspect:?}");
        assert_eq!((remaining(&table, 1, 10), remaining(&table, 3, 10)), (10, 9));
    }
}
