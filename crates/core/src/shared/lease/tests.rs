//! Leases of windows and buckets: what is spent, what lapses and what is waited for.

use super::*;
use crate::identity::KeyId;
use crate::limit::{Burst, Limit};
use crate::state::{PublishUrgency, State as _};
use crate::time::Period;
use smallvec::SmallVec;

const NOW: Nanos = Nanos::from_secs(1_000_000);

fn fixed(limit: u64) -> Item {
    let period = Period::new(Nanos::from_secs(3600)).unwrap();
    let spec = Spec::Fixed { limit: Limit::new(limit).unwrap(), period };
    Item { accuracy: Accuracy::Bounded, ..Item::new(KeyId::from_hash(1), spec, Cost::ONE) }
}

fn bucket(per_second: u64, burst: u64) -> Item {
    let rate = Rate::new(per_second, Nanos::from_secs(1)).unwrap();
    Item { spec: Spec::Gcra { rate, burst: Burst::new(burst).unwrap() }, ..fixed(1) }
}

/// A state that was granted a lease of `drawn`, by an origin that has nothing else of the key.
fn leased(item: &Item, most: u64, drawn: u64) -> SharedState {
    let mut state = SharedState::default();
    draw(&mut state, item, most, drawn);
    state
}

fn draw(state: &mut SharedState, item: &Item, most: u64, drawn: u64) {
    let lease = Some(LeaseRequest { most, parts: NonZeroU32::MIN });
    let counts = state.asking(&item.spec, 1, NOW);
    let request = crate::exchange::GrantRequest { lease, ..Default::default() };
    let sent = KeySync { key: item.key, epoch: 0, counts, request, ended_holds: SmallVec::new() };
    let cell = CellReply { component: drawn, total: drawn, world: 0, published: 0 };
    let heard = match item.spec {
        Spec::Gcra { rate, .. } => {
            let busy = BusyPeriod { tat: NOW.plus(interval_times(rate, drawn)), since: NOW };
            CountReply::Gcra { busy, stored: drawn, owners: 1 }
        }
        _ => CountReply::Window { current: cell, previous: None, owners: 1 },
    };
    let granted = SmallVec::new();
    let reply =
        KeyReply { epoch: 0, counts: heard, granted, drawn, retry_after: None, component_before: Some(0) };
    state.merge(&sent, &reply, NOW, Some(NOW.plus(Nanos::from_secs(5)))).unwrap();
}

#[test]
fn it_is_renewed_when_an_eighth_is_left_and_nothing_else_is_spent() {
    let item = fixed(1_000_000);
    let mut state = leased(&item, 64, 64);
    for spent in 1..=64_u64 {
        let (decision, reason) = state.decide(&item, 2, NOW);
        assert!(decision.is_admitted() && reason.is_none(), "{spent}");
        let is_low = 64 - spent < 8;
        assert_eq!(state.publish() == PublishUrgency::Now, is_low, "{spent}");
    }
    assert!(state.decide(&item, 2, NOW).1.is_some(), "however much credit there would be");
    state.end_lease();
    let mut state = SharedState { queued: PublishUrgency::Nothing, ..state };
    assert_eq!(state.decide(&item, 2, NOW).1, None, "it keeps to its credit again");
}

#[test]
fn a_lease_of_all_that_was_left_is_waited_for() {
    let item = fixed(1_000);
    let mut state = leased(&item, 2_000, 1_000);
    assert!(state.is_dry(NOW) && !state.is_dry(NOW.plus(KEY_LEASE_TTL)));
    let mut state_with_room = leased(&item, 2_000, 500);
    assert!(!state_with_room.is_dry(NOW), "half of it is left: asking for more is worth it");
    state_with_room.end_lease();
    // 5 of 1,000 are left, and were not drawn.
    let mut nearly = leased(&item, 2_000, 995);
    for _ in 0..995 {
        assert!(nearly.decide(&item, 2, NOW).0.is_admitted());
    }
    let before = nearly;
    for charge in [Charge::IfAdmitted, Charge::Never] {
        let (denied, reason) = nearly.decide(&Item { charge, ..item }, 2, NOW);
        assert_eq!(denied.verdict, Verdict::Deny { retry_after: Some(KEY_LEASE_TTL) }, "{charge:?}");
        assert_eq!((denied.remaining, reason), (5, None));
        assert_eq!(nearly, before, "a denial consumes nothing (INV-4)");
    }
    assert!(nearly.decide(&item, 2, NOW.plus(KEY_LEASE_TTL)).1.is_some(), "then it asks");
    assert!(nearly.decide(&Item { accuracy: Accuracy::Async, ..item }, 2, NOW).0.is_admitted());
    assert!(!state.decide(&Item { cost: Cost::new(1_001).unwrap(), ..item }, 2, NOW).0.is_admitted());
}

#[test]
fn what_was_granted_to_a_request_is_spent_by_it_though_all_who_hold_a_part_may_keep_none() {
    // The first unit of a full bucket, of eight nodes that lease the key.
    let item = bucket(1, 10);
    let granted = SharedState { owners: 8, ..leased(&item, 1, 1) };
    assert!(granted.clone().decide(&item, 8, NOW).1.is_some(), "drawn ahead it lapses, and is asked for");
    let mut state = granted;
    assert!(state.spend_lapsed(&item, 8, NOW));
    assert_eq!((state.admitted().1, state.prepaid(&item.spec, NOW)), (1, 0));
    assert!(!state.spend_lapsed(&item, 8, NOW), "once");
    let mut alone = leased(&item, 1, 1);
    assert!(!alone.spend_lapsed(&item, 1, NOW), "nothing lapses: it is decided as ever");
}

#[test]
fn there_is_room_for_what_was_not_granted_yet_and_none_before_it_refills() {
    let after = |millis| NOW.plus(Nanos::from_millis(millis));
    let costing = |item: Item, cost| Item { cost: Cost::new(cost).unwrap(), ..item };
    let window = fixed(1_000);
    let held = leased(&window, 2_000, 995);
    assert!(held.has_room(&window, NOW) && held.has_room(&costing(window, 1_000), NOW));
    assert!(!held.has_room(&costing(window, 1_001), NOW), "995 are granted, and 5 are left");
    assert!(!leased(&window, 2_000, 1_000).has_room(&window, NOW), "what was granted is all");
    assert!(leased(&window, 2_000, 1_000).has_room(&window, NOW.plus(Nanos::from_secs(3600))));
    let bucket = bucket(1_000, 1_000);
    let empty = leased(&bucket, 2_000, 1_000);
    assert!(!empty.has_room(&bucket, NOW) && empty.has_room(&bucket, after(1)), "one unit refilled");
    assert!(empty.has_room(&bucket, after(5_000)));
}

/// What is drawn ahead puts a bucket into debt: a look at it denies, while what is prepaid passes.
#[test]
fn a_request_that_is_charged_to_nothing_is_denied() {
    let (other, paid) = (Item { key: KeyId::from_hash(2), ..fixed(1_000) }, bucket(1, 10));
    let items = [other, Item { cost: Cost::new(4).unwrap(), ..paid }, Item { cost: Cost::PEEK, ..paid }];
    for suspect in [None, Some(2)] {
        let table = crate::Table::new(1_000);
        let moment = crate::Moment::at(NOW);
        let items = items.map(|item| Item { accuracy: Accuracy::Async, ..item });
        table.upsert(paid.key, moment, |state: &mut SharedState| *state = leased(&paid, 11, 11));
        let mut decisions = crate::Decisions::new();
        let outcome = table.decide_all_predicting(&items, suspect, moment, &mut decisions).unwrap();
        let is_charged = table.state(other.key).is_some_and(|state| state.unsynced() == 1);
        let is_admitted = decisions.iter().all(crate::Decision::is_admitted);
        assert_eq!(is_admitted, is_charged, "{outcome:?} by {suspect:?}: {decisions:?}");
    }
}

#[test]
fn what_was_drawn_of_a_bucket_lapses_as_it_refills() {
    let item = bucket(1_000, 1_000);
    let after = |millis| NOW.plus(Nanos::from_millis(millis));
    let held = |nodes, millis| {
        let mut state = leased(&item, 200, 200);
        state.decide(&item, nodes, after(millis));
        state.current.prepaid()
    };
    assert_eq!((held(1, 0), held(1, 100), held(1, 150)), (199, 99, 49), "one unit a millisecond");
    assert_eq!((held(2, 0), held(2, 100)), (99, 49), "two may hold some: half of what is owed each");
    let mut state = leased(&item, 200, 200);
    state.decide(&item, 1, after(100));
    assert_eq!(state.admitted().1, 1, "what lapsed wasn't admitted");
}

#[test]
fn a_hot_key_holds_a_lease_also_of_nothing_and_keeps_the_one_it_has() {
    let mut state = SharedState::default();
    assert!(!state.is_leased());
    state.hold_lease();
    assert!(state.is_leased());
    state.end_lease();
    assert!(!state.is_leased());
    let mut held = leased(&bucket(1_000, 1_000), 200, 200);
    let before = held;
    held.hold_lease();
    assert_eq!(held, before);
    assert_eq!(
        leased(&fixed(10), 3, 3).admitted(),
        (Period::new(Nanos::from_secs(3600)).unwrap().cell_at(NOW).sequence, 0)
    );
}

/// Whoever can't be asked is decided for as if everything were known.
#[test]
fn what_a_held_key_admits_unverified_is_counted_once_and_paid_by_the_next_draw() {
    for item in [fixed(1_000), bucket(1_000, 1_000)] {
        for begun in [SharedState::default(), SharedState::begun(crate::time::StepId(0), true)] {
            let (mut held, mut free) = (begun, begun);
            held.hold_lease();
            for state in [&mut held, &mut free] {
                let unverified = Item { accuracy: Accuracy::Async, ..item };
                (0..3).for_each(|_| assert!(state.decide(&unverified, 2, NOW).0.is_admitted()));
            }
            assert_eq!((held.current, held.previous), (free.current, free.previous));
            assert_eq!(held.publishing(), free.publishing(), "INV-2");
            draw(&mut held, &item, 10, 10);
            assert_eq!((held.admitted().1, held.current.prepaid(), held.unsynced()), (3, 7, 0));
            assert_eq!(held.current.component(), 10, "INV-3: what the origin has");
        }
    }
}

#[test]
fn a_lease_that_is_renewed_by_the_clock_ends_soon_16_milliseconds_before() {
    let before = RENEWED_BEFORE.minus(Nanos::new(1));
    let (timed, other) = (Lease::new(8, true), Lease::new(8, false));
    assert!(timed.ends_soon(before) && timed.ends_soon(Nanos::ZERO) && !timed.ends_soon(RENEWED_BEFORE));
    assert!(!other.ends_soon(before) && !Lease::default().ends_soon(Nanos::ZERO));
}

#[test]
fn a_lease_of_nearly_all_of_a_bucket_is_waited_for_as_long_as_it_takes_to_refill_some() {
    let after = |millis| NOW.plus(Nanos::from_millis(millis));
    let dry_for = |item: &Item, drawn| {
        let state = leased(item, 2_000, drawn);
        (0..200).find(|millis| !state.is_dry(after(*millis))).unwrap()
    };
    assert_eq!(dry_for(&bucket(1_000, 1_000), 1_000), 100);
    assert_eq!(dry_for(&bucket(1_000, 200), 200), 50, "a quarter of what a small one takes");
    assert_eq!((dry_for(&bucket(1_000, 1_000), 899), dry_for(&bucket(1_000, 1_000), 900)), (0, 100));
    assert_eq!((dry_for(&bucket(1, 1_000), 989), dry_for(&bucket(1, 1_000), 990)), (0, 100), "a hundredth");
}

#[test]
fn who_got_all_that_it_wished_for_does_not_wait() {
    assert!(
        !leased(&fixed(1_000), 1_000, 1_000).is_dry(NOW) && leased(&fixed(1_000), 1_001, 1_000).is_dry(NOW)
    );
}

#[test]
fn only_what_would_pass_waits_for_the_next_lease() {
    let item = fixed(1_000);
    let mut state = leased(&item, 2_000, 995);
    state.decide(&Item { cost: Cost::new(995).unwrap(), ..item }, 2, NOW);
    let verdict = |changed: Item| SharedState::clone(&state).decide(&changed, 2, NOW).0.verdict;
    let waits = Verdict::Deny { retry_after: Some(KEY_LEASE_TTL) };
    assert_eq!(verdict(item), waits);
    assert_eq!(verdict(Item { cost: Cost::PEEK, ..item }), Verdict::Admit);
    assert_eq!(verdict(Item { charge: Charge::Always, ..item }), Verdict::Admit);
    let too_much = verdict(Item { cost: Cost::new(6).unwrap(), ..item });
    assert!(too_much != Verdict::Admit && too_much != waits, "that long waits for the next cell");
}

#[test]
fn what_lapsed_before_its_request_could_spend_it_is_spent_once() {
    let item = bucket(1_000, 1_000);
    let full = NOW.plus(Nanos::from_millis(3));
    let two = |item: Item| Item { cost: Cost::new(2).unwrap(), ..item };
    let mut state = leased(&item, 3, 3);
    state.end_lease();
    assert!(!state.spend_lapsed(&two(item), 1, full), "not full yet");
    let full = full.plus(Nanos::new(1));
    assert!(
        state.spend_lapsed(&two(item), 1, full) && !state.spend_lapsed(&two(item), 1, full),
        "one is left"
    );
    assert!(state.spend_lapsed(&item, 1, full) && !state.spend_lapsed(&item, 1, full));
    assert_eq!(state.admitted().1, 3);
    let window = two(fixed(10));
    assert!(!leased(&window, 3, 3).spend_lapsed(&window, 1, full), "a window's doesn't lapse so");
}

#[test]
fn what_was_drawn_at_a_rate_of_thirds_lapses_as_exactly() {
    let item = bucket(3_000, 3_000);
    let mut state = leased(&item, 300, 300);
    state.decide(&item, 1, NOW.plus(Nanos::from_millis(50)));
    assert_eq!(state.current.prepaid(), 149);
}

#[test]
fn a_bucket_far_from_empty_is_drawn_from_for_as_long_as_it_takes_to_refill() {
    let wish = |item: &Item, demand| SharedState::default().lease_request(item, demand, 1, NOW).most;
    assert_eq!(wish(&bucket(1_000, 1_000), 3), 100, "100 ms of its rate");
    assert_eq!(wish(&bucket(1_000, 200), 3), 50, "a quarter of what is there");
    assert_eq!((wish(&fixed(1_000), 3), wish(&fixed(1_000), 0)), (3, 1));
    let abuse = |spec| Item { class: crate::Class::Abuse, regions: 3, ..spec };
    let wish = |item: Item| SharedState::default().lease_request(&item, 3, 2, NOW);
    let (of_bucket, of_window) = (wish(abuse(bucket(1_000, 240))), wish(abuse(fixed(1_000))));
    assert_eq!((of_bucket.most, of_bucket.parts.get()), (10, 6), "two nodes in each of three regions");
    assert_eq!((of_window.most, of_window.parts.get()), (3, 6));
    assert!(is_leasable(&bucket(1_000, 100).spec, 1) && !is_leasable(&bucket(1_000, 99).spec, 1));
    assert!(is_leasable(&fixed(80).spec, 10) && !is_leasable(&fixed(79).spec, 10), "eight for each node");
}
