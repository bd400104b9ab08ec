//! Who makes room for whom in a full table, one entry at a time. The entries say themselves when they expire and
//! whether somebody else knows them.

use super::super::shares::Entered;
use super::*;
use crate::ask::AskReason;
use std::cell::RefCell;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct EvictableState {
    expires_s: u64,
    is_known: bool,
    step: StepId,
}

impl State for EvictableState {
    const SHARED: bool = true;

    fn decide(&mut self, _: &Item, _: u32, _: Nanos) -> (Decision, Option<AskReason>) {
        unreachable!("nothing is decided here")
    }
    fn step(&self) -> StepId {
        self.step
    }
    fn with_step(self, step: StepId) -> Self {
        EvictableState { step, ..self }
    }
    fn carried(self, _: &Spec, _: ClockStep) -> Self {
        self
    }
    fn expires(&self) -> Nanos {
        Nanos::from_secs(self.expires_s)
    }
    fn is_evictable(&self) -> bool {
        self.is_known
    }
    fn publish(&self) -> PublishUrgency {
        PublishUrgency::Nothing
    }
}

/// Of two states that expire alike, which one goes is chance: so each expires at another time, the later the number.
fn known(number: u64) -> EvictableState {
    EvictableState { expires_s: 1_000_000 + number, is_known: true, step: StepId(0) }
}

fn unknown(number: u64) -> EvictableState {
    EvictableState { is_known: false, ..known(number) }
}

const A: u32 = 1;
const B: u32 = 2;
const C: u32 = 3;

/// A tenant's key in a shard of a table with so many bits. Keys of a lower number aren't lower, as hashes aren't.
fn key_in(shard: u64, shard_bits: u32, tenant: u32, number: u64) -> KeyId {
    let spread = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> shard_bits;
    KeyId::from_hash(u128::from(shard << (64 - shard_bits) | spread) << 64 | u128::from(tenant) << 32)
}

fn tag(tenant: u32) -> TenantTag {
    key_in(0, 1, tenant, 0).tenant()
}

const LATER: Moment = Moment::at(Nanos::from_secs(1000));

mod shard {
    use super::*;

    fn key(tenant: u32, number: u64) -> KeyId {
        key_in(0, 1, tenant, number)
    }

    fn shard(entries: impl IntoIterator<Item = (KeyId, EvictableState)>) -> Shard<EvictableState> {
        let mut shard = Shard::new(1);
        entries.into_iter().for_each(|(key, state)| assert!(shard.insert(key, state)));
        shard
    }

    fn held(shard: &mut Shard<EvictableState>) -> BTreeSet<KeyId> {
        let mut keys = BTreeSet::new();
        shard.visit(KeyId::from_hash(0), usize::MAX, |key, _| assert!(keys.insert(key)));
        keys
    }

    /// What is gone, in the order of the numbers, after `change`; each must have been told of.
    fn gone(
        shard: &mut Shard<EvictableState>,
        change: impl FnOnce(&mut Shard<EvictableState>, &dyn Fn(KeyId)) -> usize,
    ) -> BTreeSet<KeyId> {
        let (before, told) = (held(shard), RefCell::new(BTreeSet::new()));
        let said = change(shard, &|key| assert!(told.borrow_mut().insert(key), "told twice"));
        let gone: BTreeSet<KeyId> = before.difference(&held(shard)).copied().collect();
        assert_eq!((said, &gone), (gone.len(), &told.into_inner()), "what it says isn't what it did");
        gone
    }

    fn keys(tenant: u32, numbers: impl IntoIterator<Item = u64>) -> BTreeSet<KeyId> {
        numbers.into_iter().map(|number| key(tenant, number)).collect()
    }

    #[test]
    fn a_sixteenth_of_those_that_may_go_makes_room_the_coldest_first() {
        // The coldest of all may not go, or nobody else knows them.
        let entries = (0..8).map(|number| (key(B, number), known(number)));
        let entries = entries.chain((8..16).map(|number| (key(A, number), unknown(number))));
        let mut shard = shard(entries.chain((16..48).map(|number| (key(A, number), known(number)))));
        let make_room = |shard: &mut Shard<EvictableState>, left: &dyn Fn(KeyId)| {
            shard.make_room(|_| false, |key| key.tenant() == tag(A), Some(left))
        };
        assert_eq!(gone(&mut shard, make_room), keys(A, [16, 17, 18]));
    }

    #[test]
    fn one_of_a_few_makes_room_and_none_where_none_may() {
        let mut shard = shard((0..5).map(|number| (key(A, number), known(number))));
        let none = gone(&mut shard, |shard, left| shard.make_room(|_| false, |_| false, Some(left)));
        assert_eq!(none, keys(A, []));
        let one = gone(&mut shard, |shard, left| shard.make_room(|_| false, |_| true, Some(left)));
        assert_eq!(one, keys(A, [0]));
    }

    #[test]
    fn while_something_has_expired_nothing_that_is_alive_makes_room() {
        let mut shard = shard((0..32).map(|number| (key(A, number), known(number))));
        let expired = |state: &EvictableState| *state == known(30) || *state == known(31);
        let evicted = shard.make_room(expired, |_| true, None);
        let rest = keys(A, 0..30);
        assert_eq!((evicted, held(&mut shard)), (0, rest));
    }

    #[test]
    fn as_many_give_way_as_are_asked_for_and_a_sixteenth_of_all_at_most() {
        for (asked, went) in [(0, 1), (1, 1), (3, 3), (4, 4), (5, 4), (1000, 4)] {
            let mut shard = shard((0..64).map(|number| (key(A, number), known(number))));
            let gone = gone(&mut shard, |shard, left| shard.give_way(asked, |_| 64, Some(left)));
            assert_eq!(gone, keys(A, 0..went), "{asked} were asked for");
        }
    }

    #[test]
    fn exactly_as_many_as_are_there_give_way() {
        let others = (4..64).map(|number| (key(B, number), known(number)));
        let mut shard = shard((0..4).map(|number| (key(A, number), known(number))).chain(others));
        let excess = |key: KeyId| if key.tenant() == tag(A) { 10 } else { 0 };
        assert_eq!(gone(&mut shard, |shard, left| shard.give_way(4, excess, Some(left))), keys(A, 0..4));
    }

    #[test]
    fn whom_somebody_else_knows_gives_way_before_what_expires_sooner() {
        let unknown = (0..32).map(|number| (key(A, number), unknown(number)));
        let mut shard = shard(unknown.chain((32..64).map(|number| (key(A, number), known(number)))));
        let four =
            |shard: &mut Shard<EvictableState>, left: &dyn Fn(KeyId)| shard.give_way(4, |_| 64, Some(left));
        assert_eq!(gone(&mut shard, four), keys(A, 32..36));
    }

    #[test]
    fn nobody_gives_way_to_below_its_share_and_who_has_no_more_is_passed_over() {
        let entries = (0..16).map(|number| (key(A, number), known(number)));
        let entries = entries.chain((16..18).map(|number| (key(B, number), known(number))));
        let mut shard = shard(entries.chain((18..64).map(|number| (key(C, number), known(number)))));
        let excess = |key: KeyId| match key.tenant() {
            tenant if tenant == tag(B) => 1,
            tenant if tenant == tag(C) => 40,
            _ => 0,
        };
        let gone = gone(&mut shard, |shard, left| shard.give_way(4, excess, Some(left)));
        let expected: BTreeSet<KeyId> = keys(B, [16]).union(&keys(C, [18, 19])).copied().collect();
        assert_eq!(gone, expected);
    }

    #[test]
    fn where_nobody_can_give_way_nobody_is_asked_again_before_the_next_search() {
        let mut shard = shard((0..32).map(|number| (key(A, number), known(number))));
        let now = Nanos::from_secs(1000);
        assert!(shard.begin_search(now));
        assert_eq!(shard.give_way(1, |_| 0, None), 0);
        assert_eq!(shard.give_way(1, |_| 9, None), 0, "a walk over all entries for each request");
        assert!(!shard.begin_search(now.plus(Nanos::from_millis(999))));
        assert!(shard.begin_search(now.plus(Nanos::from_secs(1))));
        assert_eq!(shard.give_way(1, |_| 9, None), 1);
    }

    #[test]
    fn a_sweep_is_worth_an_eighth_of_the_shard_and_gives_its_memory_back() {
        for (expired, swept) in [(0, 0), (7, 0), (8, 8), (9, 9), (32, 32)] {
            let mut shard = shard((0..64).map(|number| (key(A, number), known(number))));
            let is_expired = |state: &EvictableState| state.expires() < known(expired).expires();
            let gone = gone(&mut shard, |shard, left| shard.sweep(is_expired, Some(left)));
            assert_eq!(gone, keys(A, 0..swept), "{expired} of 64 have expired");
            assert!(expired < 32 || (33..64).contains(&shard.hint().homes), "{:?}", shard.hint());
        }
    }

    /// Keys that are all aimed at the last home, as nobody's hashes are, fill the padding to its end.
    #[test]
    fn a_walk_ends_however_many_keys_are_aimed_at_the_end() {
        let last = |number: u64| KeyId::from_hash(u128::from(u64::MAX >> 1) << 64 | u128::from(number));
        let after_all = KeyId::from_hash(u128::from(u64::MAX >> 1) << 64 | u128::from(u64::MAX));
        for count in 1..=140 {
            let mut shard = Shard::new(1);
            shard.insert(key(A, 1), known(1));
            for number in 1..=count {
                shard.insert(last(number), known(1 + number));
                assert!(shard.find(after_all).is_err());
            }
            // Without the first, the others are laid out anew.
            shard.make_room(|state| *state == known(1), |_| false, None);
            assert!(shard.find(after_all).is_err());
            assert!(
                (1..=count).all(|number| shard.find(last(number)).is_ok()) && shard.len() as u64 == count
            );
        }
    }

    /// Else every look-up walks over all the keys before it.
    #[test]
    fn keys_lie_as_evenly_as_they_are_spread() {
        let even = |eighth: u64| KeyId::from_hash(u128::from(eighth << 60) << 64);
        let mut shard = shard((0..8).map(|eighth| (even(eighth), known(eighth))));
        (100..150).for_each(|number| assert!(shard.insert(key(A, number), known(number))));
        let homes = shard.hint().homes;
        for eighth in 0..8 {
            let (place, aim) =
                (shard.find(even(eighth)).unwrap(), homes * usize::try_from(eighth).unwrap() / 8);
            assert!((aim..aim + 8).contains(&place), "{place} for {aim} of {homes}");
        }
    }

    /// With crafted keys, thousands lie in one run. A look-up that walked over them one by one would take as long as
    /// there are keys; it must find each, and where each that isn't there would be.
    #[test]
    fn keys_in_long_runs_are_found_and_so_are_their_places() {
        let crafted = |number: u64| KeyId::from_hash((1 << 125) + u128::from(number));
        let mut shard = Shard::new(1);
        // Spread keys, before and after the run.
        (0..500).for_each(|number| assert!(shard.insert(key(A, number), known(number))));
        (0..3000).rev().for_each(|number| assert!(shard.insert(crafted(2 * number), known(number))));
        for number in 0..3000 {
            let place = shard.find(crafted(2 * number)).unwrap();
            assert_eq!(shard.state(place), known(number));
            assert_eq!(shard.find(crafted(2 * number + 1)), Err(place + 1));
        }
        assert!((0..500).all(|number| shard.find(key(A, number)).is_ok()));
        assert_eq!(held(&mut shard).len(), 3500);
        assert!(shard.has_long_runs, "they are searched by halves");
    }

    /// Whatever the order of insertions, and also after the shard was laid out anew.
    #[test]
    fn only_keys_that_were_crafted_are_far_from_their_homes() {
        let spread = shard((0..50_000).map(|number| (key(A, number), known(number))));
        assert!(!spread.has_long_runs);
        let crafted = |number: u64| KeyId::from_hash((1 << 125) + u128::from(number));
        for is_descending in [false, true] {
            let number = |number: u64| if is_descending { 400 - number } else { number };
            let mut crowded = shard((0..400).map(number).map(|number| (crafted(number), known(number))));
            assert!(crowded.has_long_runs, "descending: {is_descending}");
            let swept = crowded.sweep(|state| state.expires_s % 1000 >= 100, None);
            assert!(swept >= 300 && !crowded.has_long_runs, "a hundred that are left can be walked over");
        }
    }
}

/// Four shards of 512 entries.
const KEYS_MAX: usize = 2048;

fn key(shard: u64, tenant: u32, number: u64) -> KeyId {
    key_in(shard, 2, tenant, number)
}

fn table_shared_by(tenants: &[u32]) -> Table<EvictableState> {
    let table = Table::with_shard_bits(KEYS_MAX, 2);
    table.share_among(&tenants.iter().map(|tenant| tag(*tenant)).collect::<Vec<_>>());
    table
}

/// How many of these entries the table has taken in.
fn put(table: &Table<EvictableState>, entries: impl IntoIterator<Item = (KeyId, EvictableState)>) -> usize {
    let put = |(key, state)| table.upsert(key, LATER, |held| *held = state).is_some();
    entries.into_iter().map(put).filter(|is_in| *is_in).count()
}

fn entries(
    shard: u64,
    tenant: u32,
    numbers: std::ops::Range<u64>,
    state: fn(u64) -> EvictableState,
) -> impl Iterator<Item = (KeyId, EvictableState)> {
    numbers.map(move |number| (key(shard, tenant, number), state(number)))
}

fn held(table: &Table<EvictableState>, shard: u64, tenant: u32) -> usize {
    let mut count = 0;
    let is_counted = |key: KeyId| key.tenant() == tag(tenant) && table.shard_index(key) as u64 == shard;
    table.for_each(|key, _| count += usize::from(is_counted(key)));
    count
}

#[test]
fn no_set_of_keys_makes_a_shard_refuse_while_the_table_has_room() {
    for shard in 0..4 {
        let table = Table::<EvictableState>::with_shard_bits(KEYS_MAX, 2);
        assert_eq!(
            put(&table, entries(shard, A, 0..2048, unknown)),
            KEYS_MAX,
            "all of them in shard {shard}"
        );
        assert_eq!(put(&table, (0..4).flat_map(|other| entries(other, A, 5000..5010, unknown))), 0);
        assert_eq!((table.len(), table.evicted()), (KEYS_MAX, 0));
        assert!(table.has_reserved_room(4 * 16) && !table.has_reserved_room(4 * 16 + 1));
    }
}

#[test]
fn a_full_table_takes_what_has_expired_from_whichever_shard_has_it() {
    let table = Table::<EvictableState>::with_shard_bits(KEYS_MAX, 2);
    assert_eq!(put(&table, entries(3, A, 0..2048, unknown)), KEYS_MAX);
    // A hundredth of them, too few for the sweep to be worth it.
    let then = Moment::at(unknown(20 - 1).expires().plus(SWEEP_MARGIN));
    let finds_room =
        |number: &u64| table.upsert(key(0, A, *number), then, |held| *held = unknown(*number)).is_some();
    assert_eq!((5000..5100).filter(finds_room).count(), 20);
    assert_eq!((held(&table, 0, A), held(&table, 3, A), table.evicted()), (20, 2028, 0));
}

#[test]
fn a_crowded_shard_makes_room_for_the_others_and_is_not_filled_at_their_cost() {
    let table = Table::<EvictableState>::with_shard_bits(KEYS_MAX, 2);
    // Those of the small shard are colder.
    assert_eq!(put(&table, entries(0, A, 0..40, known)), 40);
    assert_eq!(put(&table, entries(2, A, 100..2108, known)), 2008);
    assert_eq!(put(&table, entries(0, A, 3000..3001, known)), 1);
    assert_eq!(
        (held(&table, 0, A), held(&table, 2, A)),
        (41, 2008 - 126),
        "a sixteenth of the crowded shard"
    );
}

/// A lone node's counts are known to nobody else: dropping one would refill its limit.
#[test]
fn a_lone_node_never_drops_an_entry_that_is_alive() {
    let lone = Table::<LocalState>::with_shard_bits(KEYS_MAX, 2);
    lone.share_among(&[tag(A), tag(B)]);
    let finds_room = |tenant: u32, number: u64| {
        lone.decide(&Item { key: key(number % 4, tenant, number), ..item(0, 10, 1) }, at(0)).is_ok()
    };
    // Half of the table is divided: a quarter is each tenant's for sure, and stays free for it.
    assert_eq!((0..4000).filter(|number| finds_room(C, *number)).count(), 1024);
    assert_eq!((0..4000).filter(|number| finds_room(A, *number)).count(), 512);
    assert_eq!((0..4000).filter(|number| finds_room(B, *number)).count(), 512);
    assert_eq!((lone.evicted(), lone.len(), lone.shares.unclaimed()), (0, KEYS_MAX, 0));
}

#[test]
fn who_has_all_of_its_share_makes_room_among_its_own() {
    let table = table_shared_by(&[A, B]);
    // Those of the other are colder.
    assert_eq!(put(&table, entries(0, B, 0..1024, known)), 1024);
    assert_eq!(put(&table, entries(0, A, 2000..3024, known)), 1024);
    assert_eq!(put(&table, entries(0, A, 4000..4001, known)), 1);
    assert_eq!((held(&table, 0, A), held(&table, 0, B)), (1024 - 65 + 1, 1024));
    assert_eq!((table.evicted(), table.remembers_all()), (65, false));
}

#[test]
fn who_has_no_share_finds_room_where_another_has_too_much() {
    let table = table_shared_by(&[A]);
    assert_eq!(put(&table, entries(0, A, 0..1024, known)), 1024);
    assert_eq!(put(&table, entries(0, B, 2000..3024, known)), 1024);
    assert_eq!(put(&table, entries(0, C, 4000..4001, known)), 1);
    assert_eq!((held(&table, 0, A), held(&table, 0, B), held(&table, 0, C)), (1024, 1024 - 65, 1));
}

#[test]
fn who_has_all_of_its_share_makes_nobody_give_way() {
    let table = table_shared_by(&[A, B]);
    assert_eq!(put(&table, (1..3).flat_map(|shard| entries(shard, A, 0..512, unknown))), 1024);
    assert_eq!(put(&table, entries(0, C, 0..1024, unknown)), 1024);
    assert_eq!(put(&table, entries(0, A, 2000..2001, unknown)), 0);
    assert_eq!((held(&table, 0, C), table.evicted(), table.remembers_all()), (1024, 0, false));
}

/// Half of what it has a right to, over all shards: the rest may be needed in another.
#[test]
fn what_was_given_up_is_for_those_within_their_share_until_the_next_sweep() {
    let table = table_shared_by(&[A, B]);
    assert_eq!(put(&table, (1..4).flat_map(|shard| entries(shard, A, 0..320, unknown))), 960);
    assert_eq!(put(&table, entries(0, C, 0..1088, unknown)), 1088);
    assert_eq!(put(&table, entries(0, A, 2000..2001, unknown)), 1);
    assert_eq!(table.evicted(), 8, "64 entries, half of them, in four shards");
    assert_eq!(put(&table, entries(0, C, 3000..3010, unknown)), 0, "it has given up these");
    assert_eq!(put(&table, entries(1, B, 3000..3003, unknown)), 3, "in whichever shard");
    assert_eq!(put(&table, entries(0, C, 3000..3010, unknown)), 0, "it has given up these");
    assert_eq!(put(&table, entries(0, A, 2001..2002, unknown)), 1);
    assert_eq!((held(&table, 0, C), table.evicted()), (1088 - 8, 8), "nobody had to give way for them");
    assert_eq!(table.sweep_shard(0, LATER), 0);
    assert_eq!(put(&table, entries(0, C, 3000..3010, unknown)), 3, "nobody wanted them");
}

/// Wherever the entries of the other lie, and wherever the new ones belong.
#[test]
fn who_is_within_its_share_finds_room_though_one_shard_holds_all_of_the_others() {
    let table = table_shared_by(&[A, B]);
    assert_eq!(put(&table, entries(2, C, 0..2048, unknown)), KEYS_MAX);
    assert_eq!(put(&table, entries(0, A, 3000..4024, unknown)), 1024);
    assert_eq!((held(&table, 0, A), held(&table, 2, C)), (1024, 1024));
    assert_eq!(put(&table, entries(0, A, 5000..5001, unknown)), 0, "it has its share");
}

#[test]
fn an_entry_that_finds_no_room_is_not_changed_and_not_forgotten() {
    let table = table_shared_by(&[A]);
    assert_eq!(table.upsert(key(0, A, 0), LATER, |_| 7), Some(7), "what the change said");
    assert!(table.remembers_all() && !table.is_empty());
    assert_eq!(put(&table, entries(0, A, 0..2048, unknown)), KEYS_MAX);
    assert_eq!(table.upsert(key(0, A, 3000), LATER, |_| unreachable!("there is no room")), None::<()>);
    assert!(!table.remembers_all(), "what it is charged elsewhere isn't known here");
    assert_eq!(table.state(key(0, A, 3000)), None);
}

proptest! {
    /// Against a plain map: whichever shards keys fall into, and whatever expires or is swept meanwhile, a table without
    /// evictable entries refuses a key only when as many are alive as it has room for.
    #[test]
    fn a_table_refuses_only_when_it_is_full_of_live_entries(
        steps in prop::collection::vec((0_u64..4, 0_u64..300, 1_u64..40, 0_u8..8), 1..400)
    ) {
        const ROOM: usize = 64;
        let table = Table::<EvictableState>::with_shard_bits(ROOM, 2);
        let mut alive = BTreeMap::<KeyId, u64>::new();
        let mut now_s = 1000;
        for (shard, number, lasts_s, kind) in steps {
            // A search that found nothing isn't repeated for a second.
            now_s += if kind == 0 { 2 } else { 0 };
            let moment = Moment::at(Nanos::from_secs(now_s));
            alive.retain(|_, expires_s| Nanos::from_secs(*expires_s).plus(SWEEP_MARGIN) > moment.now);
            if kind == 1 {
                table.sweep_shard(usize::try_from(shard).unwrap(), moment);
            }
            let (key, expires_s) = (key(shard, A, number), now_s + lasts_s);
            let state = EvictableState { expires_s, is_known: false, step: StepId(0) };
            let is_in = table.upsert(key, moment, |held| *held = state).is_some();
            let has_room = alive.contains_key(&key) || alive.len() < ROOM;
            prop_assert!(is_in == has_room || table.state(key).is_some(), "{} alive", alive.len());
            if is_in {
                alive.insert(key, expires_s);
            }
            prop_assert!(table.len() <= ROOM);
            prop_assert!(alive.keys().all(|key| table.state(*key).is_some()), "one that is alive is gone");
        }
        let mut counted = 0;
        table.for_each(|_, _| counted += 1);
        prop_assert_eq!(counted, table.len());
    }
}

#[test]
fn an_entry_is_within_a_share_up_to_its_last() {
    let shares = Shares::new(5);
    assert_eq!(shares.enter(tag(A)), Entered::BeyondShare, "nothing is shared yet");
    shares.divide(&[tag(A), tag(B)]);
    let entered = |tenant: u32| [(); 3].map(|()| shares.enter(tag(tenant)));
    let (within, beyond) = (Entered::WithinShare, Entered::BeyondShare);
    assert_eq!((entered(A), entered(C)), ([within, within, beyond], [beyond; 3]));
}
