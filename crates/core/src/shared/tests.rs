//! The shared state against the lone one, and what it makes of replies.

use super::*;
use crate::ask::Class;
use crate::batch::Undecided;
use crate::counts::CellReply;
use crate::exchange::{CountReply, CountSync, GrantRequest, KeyReply, KeySync, WindowSync};
use crate::gcra_sync::GcraSync;
use crate::identity::KeyId;
use crate::item::Charge;
use crate::limit::{Burst, Limit, Rate};
use crate::local::LocalState;
use crate::table::Table;
use crate::time::{Moment, Period};
use smallvec::smallvec;

const NOW: Nanos = Nanos::from_secs(1_000_000);

fn period() -> Period {
    Period::new(Nanos::from_secs(10)).unwrap()
}

fn sliding(limit: u64) -> Spec {
    Spec::Sliding { limit: Limit::new(limit).unwrap(), period: period() }
}

fn gcra(burst: u64) -> Spec {
    Spec::Gcra { rate: Rate::new(10, Nanos::from_secs(1)).unwrap(), burst: Burst::new(burst).unwrap() }
}

fn check(spec: Spec, cost: u64) -> Item {
    Item { accuracy: Accuracy::Bounded, ..Item::new(KeyId::from_hash(1), spec, Cost::new(cost).unwrap()) }
}

fn local(spec: Spec, cost: u64) -> Item {
    Item { accuracy: Accuracy::Async, ..check(spec, cost) }
}

/// A sync of what the state would ask about `spec` now, for `asks`.
fn sync(state: &SharedState, spec: Spec, asks: &[u64], now: Nanos) -> KeySync {
    let request = GrantRequest { asks: asks.into(), ..GrantRequest::default() };
    KeySync {
        key: KeyId::from_hash(1),
        epoch: state.epoch(),
        counts: state.asking(&spec, 1, now),
        request,
        ended_holds: smallvec![],
    }
}

fn window_reply(current: (u64, u64), previous: Option<(u64, u64)>, granted: &[bool]) -> KeyReply {
    let cell = |(component, total)| CellReply { component, total, world: 0, published: 0 };
    KeyReply {
        epoch: 0,
        counts: CountReply::Window { current: cell(current), previous: previous.map(cell), owners: 2 },
        granted: granted.into(),
        drawn: 0,
        retry_after: None,
        component_before: Some(0),
    }
}

fn merge(state: &mut SharedState, sent: &KeySync, reply: &KeyReply, now: Nanos) {
    state.merge(sent, reply, now, Some(now.plus(Nanos::from_secs(5)))).unwrap();
}

#[test]
fn it_is_96_bytes_and_a_lone_nodes_32() {
    assert_eq!((size_of::<SharedState>(), size_of::<LocalState>()), (96, 32));
}

#[test]
fn alone_it_decides_as_a_lone_node_does() {
    let thirds =
        Spec::Gcra { rate: Rate::new(7, Nanos::from_secs(3)).unwrap(), burst: Burst::new(4).unwrap() };
    for spec in [sliding(5), thirds] {
        let (mut shared, mut lone) = (SharedState::default(), LocalState::default());
        for tick in 0..500_u64 {
            let now = NOW.plus(Nanos::from_millis(tick * 313));
            let item = local(spec, tick % 4);
            assert_eq!(shared.decide(&item, 1, now), lone.decide(&item, 1, now), "tick {tick}");
            assert_eq!(shared.expires(), lone.expires());
        }
    }
}

#[test]
fn a_cold_key_asks_and_a_granted_ask_is_spent_without_asking_again() {
    for spec in [sliding(10), gcra(10)] {
        let mut state = SharedState::default();
        assert_eq!(state.decide(&check(spec, 1), 3, NOW).1, Some(AskReason::Cold));
        let mut state = SharedState::default();
        let sent = sync(&state, spec, &[1], NOW);
        let counts = match spec {
            Spec::Gcra { .. } => CountReply::Gcra {
                busy: BusyPeriod { tat: NOW.plus(Nanos::from_secs(1)), since: NOW },
                stored: 1,
                owners: 2,
            },
            _ => window_reply((1, 10), Some((0, 0)), &[true]).counts,
        };
        let reply = KeyReply { counts, ..window_reply((0, 0), None, &[true]) };
        merge(&mut state, &sent, &reply, NOW);
        let (decision, reason) = state.decide(&check(spec, 1), 3, NOW);
        assert!(decision.is_admitted() && reason.is_none(), "the last of ten was granted to this node");
        assert_eq!((decision.remaining, state.unsynced()), (0, 0));
        let (decision, reason) = state.decide(&check(spec, 1), 3, NOW);
        assert!(!decision.is_admitted() && reason.is_none(), "a denial asks nobody");
    }
}

#[test]
fn a_node_that_forgot_counts_what_it_published_as_its_own() {
    let mut state = SharedState::default();
    // Admitted unverified while it was cold, after an earlier entry had published 4.
    state.decide(&local(sliding(10), 2), 1, NOW);
    let sent = sync(&state, sliding(10), &[1], NOW);
    let CountSync::Window(window) = sent.counts else { panic!("a window") };
    assert_eq!(window.current.component, 0, "a cold node publishes nothing");
    merge(&mut state, &sent, &window_reply((5, 7), Some((0, 0)), &[true]), NOW);
    assert_eq!((state.current.own, state.current.prepaid(), state.unsynced()), (6, 0, 1));
    assert_eq!(state.current.effective(), 8);
}

#[test]
fn credit_runs_out_and_half_of_it_publishes_at_once() {
    let mut state = SharedState::default();
    let sent = sync(&state, sliding(120), &[], NOW);
    merge(&mut state, &sent, &window_reply((0, 0), Some((0, 0)), &[]), NOW);
    let mut publish = Vec::new();
    let asked_at = (1..1000).find(|_| {
        let reason = state.decide(&check(sliding(120), 1), 9, NOW).1;
        publish.push(state.publish());
        reason == Some(AskReason::Credit)
    });
    // N = owners + 1 = 3, so the credit is a twelfth of what is left.
    assert_eq!(asked_at, Some(10));
    assert_eq!(publish.iter().position(|publish| *publish == PublishUrgency::Now), Some(4));
    let abuse = Item { class: Class::Abuse, ..check(sliding(120), 1) };
    assert_eq!(state.decide(&abuse, 9, NOW).1, Some(AskReason::Credit));
}

#[test]
fn fast_is_strict_after_a_denial_and_over_the_rollover() {
    let fast = |cost| Item { accuracy: Accuracy::Fast, ..check(sliding(10), cost) };
    let mut state = SharedState::default();
    let sent = sync(&state, sliding(10), &[], NOW);
    merge(&mut state, &sent, &window_reply((0, 4), Some((0, 0)), &[]), NOW);
    assert_eq!(state.decide(&fast(6), 9, NOW).1, None);
    assert!(!state.decide(&fast(11), 9, NOW).0.is_admitted());
    assert!(!state.view(0, 9, NOW).is_strict, "a cost above the limit says nothing about the key");
    assert!(!state.decide(&fast(1), 9, NOW).0.is_admitted());
    let later = NOW.plus(Nanos::from_millis(9_999));
    assert!(state.view(0, 9, later).is_strict && !state.view(0, 9, NOW.plus(Nanos::from_secs(10))).is_strict);
}

#[test]
fn a_reset_elsewhere_starts_afresh_and_a_late_reply_of_an_older_cell_is_ignored() {
    let mut state = SharedState::default();
    state.decide(&local(sliding(10), 3), 1, NOW);
    let sent = sync(&state, sliding(10), &[], NOW);
    let reset = KeyReply { epoch: 3, ..window_reply((0, 2), Some((0, 0)), &[]) };
    merge(&mut state, &sent, &reset, NOW);
    assert_eq!((state.epoch(), state.current.effective(), state.unsynced()), (3, 2, 0));
    let later = NOW.plus(Nanos::from_secs(40));
    state.decide(&local(sliding(10), 1), 1, later);
    let before = state;
    merge(&mut state, &sent, &window_reply((9, 9), Some((9, 9)), &[]), later);
    assert_eq!((state.current, state.previous), (before.current, before.previous));
}

#[test]
fn nonsense_changes_nothing() {
    let mut state = SharedState::default();
    let sent = sync(&state, sliding(10), &[1], NOW);
    let before = state;
    let reply = window_reply((5, 4), Some((0, 0)), &[true]);
    assert!(state.merge(&sent, &reply, NOW, Some(NOW)).is_err());
    let gcra = CountReply::Gcra { busy: BusyPeriod::default(), stored: 0, owners: 1 };
    assert!(state.merge(&sent, &KeyReply { counts: gcra, ..reply }, NOW, Some(NOW)).is_err());
    assert_eq!(state, before);
}

#[test]
fn what_was_drawn_ahead_is_spent_though_the_limit_is_reached_and_lapses_when_gcra_is_idle() {
    // 990 of the cell before count still, and one fades in the next 10 ms: that is drawn ahead.
    let (mut state, now) = (SharedState::default(), millis(100));
    let sent = sync(&state, sliding(1_000), &[1], now);
    let reply = KeyReply { drawn: 1, ..window_reply((2, 11), Some((0, 1_000)), &[true]) };
    merge(&mut state, &sent, &reply, now);
    let admitted = (0..9).filter(|_| state.decide(&check(sliding(1_000), 1), 3, now).0.is_admitted()).count();
    assert_eq!((admitted, state.unsynced()), (2, 0));
    let mut state = SharedState::default();
    let sent = sync(&state, gcra(5), &[4], NOW);
    let busy = BusyPeriod { tat: NOW.plus(Nanos::from_millis(400)), since: NOW };
    let counts = CountReply::Gcra { busy, stored: 4, owners: 1 };
    merge(&mut state, &sent, &KeyReply { counts, ..window_reply((0, 0), None, &[true]) }, NOW);
    assert_eq!(state.current.prepaid(), 4);
    let idle = NOW.plus(Nanos::from_secs(3));
    let always = |cost| Item { charge: Charge::IfAdmitted, ..local(gcra(5), cost) };
    assert!(!state.decide(&always(6), 1, idle).0.is_admitted(), "a burst of 5 is 5");
    assert!(state.decide(&always(5), 1, idle).0.is_admitted());
}

#[test]
fn a_clock_step_neither_keeps_a_view_fresh_nor_publishes_what_it_carried() {
    let mut state = SharedState::default();
    state.decide(&local(sliding(10), 1), 1, NOW);
    let sent = sync(&state, sliding(10), &[], NOW);
    merge(&mut state, &sent, &window_reply((0, 0), Some((0, 0)), &[]), NOW);
    let step = ClockStep { delta_ns: -3_600_000_000_000, lands_at: NOW.shifted(-3_600_000_000_000) };
    let carried = state.carried(&sliding(10), step);
    assert!(carried.has_forgotten() && !carried.view(0, 1, step.lands_at).is_fresh);
    assert_eq!((carried.current.regional(), carried.current.effective()), (0, 1));
    // Within its cell it keeps its own component, so that a reply counts it once.
    let step = ClockStep { delta_ns: 300_000_000, lands_at: NOW.shifted(300_000_000) };
    let mut carried = state.carried(&sliding(10), step);
    merge(&mut carried, &sent, &window_reply((1, 1), Some((0, 0)), &[]), NOW);
    assert_eq!((carried.current.effective(), carried.current.prepaid()), (1, 0));
}

/// A decision that must ask is taken back, and what it made of a clock step with it.
#[test]
fn a_publish_from_before_a_clock_was_set_back_does_not_lead_to_the_later_cell_again() {
    let mut state = SharedState::default();
    assert!(state.decide(&local(sliding(10), 3), 1, NOW).0.is_admitted());
    let counts = state.publishing().expect("three are to be published");
    let sent = KeySync { counts, ..sync(&state, sliding(10), &[], NOW) };
    let step = ClockStep { delta_ns: -72_000_000_000, lands_at: NOW.shifted(-72_000_000_000) };
    let mut carried = state.carried(&sliding(10), step);
    let landed = carried.sequence;
    merge(&mut carried, &sent, &window_reply((3, 3), None, &[]), step.lands_at);
    assert_eq!(
        (carried.sequence, carried.current.effective()),
        (landed, 3),
        "it goes on where its clock landed"
    );
}

#[test]
fn what_is_granted_after_a_clock_step_is_there_to_be_spent() {
    for delta_ms in [-3_600_000, -22_000, -100, 100, 15_000, 3_600_000] {
        let (table, spec) = (Table::<SharedState>::with_shard_bits(8, 1), sliding(10));
        let item = check(spec, 1);
        table.decide(&local(spec, 1), Moment::at(NOW)).unwrap();
        let now = NOW.plus(Nanos::from_secs(1)).shifted(delta_ms * 1_000_000);
        let moment = Moment { now, step: table.clock_stepped(delta_ms * 1_000_000, now) };
        assert_eq!(table.decide(&item, moment), Err(Undecided::MustAsk), "{delta_ms} ms");
        let sent = sync(&table.aligned(item.key, &spec, moment), spec, &[1], now);
        let CountSync::Window(window) = sent.counts else { panic!("a window") };
        let component = window.current.component + 1;
        let reply = window_reply((component, component), Some((0, 0)), &[true]);
        table.upsert(item.key, moment, |state| merge(state, &sent, &reply, now));
        assert!(table.decide(&item, moment).is_ok_and(|said| said.is_admitted()), "{delta_ms} ms");
        let state = table.state(item.key).unwrap();
        assert!(!state.has_forgotten() && state.unsynced() == 0, "{delta_ms} ms: {state:?}");
    }
}

/// Whatever 32 bits of milliseconds make of the present.
#[test]
fn a_deadline_that_was_never_set_or_long_ago_has_passed() {
    for days in 0..100 {
        let now = Nanos::from_secs(20_000 * 86_400).plus(Nanos::from_secs(days * 86_400));
        assert!(!Deadline::default().is_ahead_of(Deadline::at(now)), "never set, on day {days}");
        let set = Deadline::at(NOW.plus(Nanos::from_secs(60)));
        assert!(set.is_ahead_of(Deadline::at(NOW)));
        let later = NOW.plus(Nanos::from_secs(61 + days * 86_400));
        assert!(!set.is_ahead_of(Deadline::at(later)), "{days} days ago");
    }
}

/// Otherwise each of several nodes that hear nothing would soon admit as if it were alone.
#[test]
fn a_share_stays_as_it_was_last_heard_of() {
    let mut state = SharedState::default();
    let spec = sliding(1000);
    let sent = sync(&state, spec, &[1], NOW);
    merge(&mut state, &sent, &window_reply((1, 4), Some((0, 0)), &[true]), NOW);
    for _ in 0..100 {
        state.decide(&local(spec, 1), 4, NOW);
    }
    assert_eq!(state.unsynced(), 99);
    assert_eq!(state.share_when_last_received(), (1, 4));
    // In the next cell, until something was heard of it.
    let next = NOW.plus(period().length());
    state.decide(&local(spec, 1), 4, next);
    assert_eq!(state.share_when_last_received(), (1, 4));
}

fn window_of(counts: CountSync) -> WindowSync {
    let CountSync::Window(window) = counts else { panic!("a window") };
    window
}

fn gcra_of(counts: CountSync) -> GcraSync {
    let CountSync::Gcra { sync, .. } = counts else { panic!("a bucket") };
    sync
}

fn gcra_reply(tat: Nanos, stored: u64, drawn: u64) -> KeyReply {
    let counts = CountReply::Gcra { busy: BusyPeriod { tat, since: NOW }, stored, owners: 1 };
    KeyReply { counts, drawn, ..window_reply((0, 0), None, &[true]) }
}

fn millis(millis: u64) -> Nanos {
    NOW.plus(Nanos::from_millis(millis))
}

#[test]
fn what_a_node_admitted_before_its_first_answer_isnt_somebody_elses() {
    let mut state = SharedState::default();
    state.decide(&local(sliding(10), 1), 1, NOW);
    let sent = sync(&state, sliding(10), &[], NOW);
    let claimed = window_of(sent.counts).current.claim;
    merge(&mut state, &sent, &window_reply((0, claimed), Some((0, 0)), &[]), NOW);
    assert_eq!(state.current.effective(), 1);
}

#[test]
fn answers_lost_for_a_whole_cell_count_nothing_twice() {
    let mut state = SharedState::default();
    let sent = sync(&state, sliding(10), &[], NOW);
    merge(&mut state, &sent, &window_reply((0, 0), Some((0, 0)), &[]), NOW);
    let cell = |number: u64| NOW.plus(Nanos::from_secs(10 * number));
    state.decide(&local(sliding(10), 2), 1, cell(1));
    state.decide(&local(sliding(10), 1), 1, cell(2));
    let sent = sync(&state, sliding(10), &[], cell(2));
    assert_eq!(window_of(sent.counts).previous.map(|previous| previous.component), Some(2));
    // The store has had the two all along, and the node never heard of that.
    merge(&mut state, &sent, &window_reply((1, 1), Some((2, 2)), &[]), cell(2));
    assert_eq!((state.previous.effective(), state.current.effective()), (2, 1));
}

#[test]
fn a_bucket_is_charged_once_for_what_two_calls_were_granted() {
    let mut state = SharedState::default();
    let first = sync(&state, gcra(10), &[1], NOW);
    merge(&mut state, &first, &gcra_reply(millis(100), 1, 0), NOW);
    let (one, other) = (sync(&state, gcra(10), &[1], NOW), sync(&state, gcra(10), &[1], NOW));
    merge(&mut state, &one, &gcra_reply(millis(200), 2, 0), NOW);
    merge(&mut state, &other, &gcra_reply(millis(300), 3, 0), NOW);
    assert_eq!(state.busy().tat, millis(300));
    assert_eq!(state.current.prepaid(), 3);
}

#[test]
fn what_was_admitted_before_the_first_answer_keeps_its_instant() {
    let mut state = SharedState::default();
    state.decide(&local(gcra(10), 1), 1, NOW);
    let sent = sync(&state, gcra(10), &[], millis(50));
    merge(&mut state, &sent, &gcra_reply(Nanos::ZERO, 0, 0), millis(50));
    assert_eq!(gcra_of(state.asking(&gcra(10), 1, millis(60))).oldest, NOW);
}

#[test]
fn what_was_drawn_lapses_when_the_bucket_is_full_though_the_next_request_asks() {
    let mut state = SharedState::default();
    let sent = sync(&state, gcra(5), &[1], NOW);
    merge(&mut state, &sent, &gcra_reply(millis(500), 5, 4), NOW);
    assert_eq!(state.current.prepaid(), 5);
    // The request that finds the bucket full has to ask, so what it found is taken back.
    let later = millis(3_000);
    let sent = sync(&state, gcra(5), &[1], later);
    merge(&mut state, &sent, &gcra_reply(millis(3_500), 10, 4), later);
    assert_eq!(state.current.prepaid(), 5, "and not ten");
}

#[test]
fn what_a_clock_step_carried_is_never_claimed() {
    let mut state = SharedState::default();
    state.decide(&local(sliding(10), 3), 1, NOW);
    let step = ClockStep { delta_ns: 60_000_000_000, lands_at: NOW.shifted(60_000_000_000) };
    let mut carried = state.carried(&sliding(10), step);
    let sent = sync(&carried, sliding(10), &[], step.lands_at);
    merge(&mut carried, &sent, &window_reply((0, 0), Some((0, 0)), &[]), step.lands_at);
    assert_eq!(carried.current.effective(), 3, "a step refills nothing");
    let published = window_of(carried.publishing().unwrap()).current;
    assert_eq!((published.component, published.claim), (0, 0));
}

/// Three regions share 1,000: what this one may admit before the others hear of it is a sixth of what is left.
#[test]
fn a_spent_world_credit_makes_abuse_ask_until_the_others_have_heard() {
    let spec = sliding(1_000);
    let heard = |total, published, regions| {
        let mut state = SharedState::default();
        let mut sent = sync(&state, spec, &[], NOW);
        sent.counts = state.asking(&spec, regions, NOW);
        let current = CellReply { component: 0, total, world: 0, published };
        let counts = CountReply::Window { current, previous: Some(window_cell()), owners: 2 };
        merge(&mut state, &sent, &KeyReply { counts, ..window_reply((0, 0), None, &[]) }, NOW);
        state
    };
    let abuse = Item { class: Class::Abuse, regions: 3, ..check(spec, 1) };
    let reason = |mut state: SharedState, item: &Item| state.decide(item, 2, NOW).1;
    assert_eq!(reason(heard(142, 0, 3), &abuse), None);
    assert_eq!(reason(heard(143, 0, 3), &abuse), Some(AskReason::Credit));
    assert_eq!(reason(heard(143, 2, 3), &abuse), None, "the others have heard of two");
    assert_eq!(reason(heard(143, 0, 3), &check(spec, 1)), None, "other classes admit");
    assert_eq!(reason(heard(143, 0, 1), &abuse), None, "a publish that knows no limit says nothing");
    let mut next = heard(143, 0, 3);
    assert_eq!(
        next.decide(&abuse, 2, NOW.plus(Nanos::from_secs(10))).1,
        Some(AskReason::Stale),
        "another cell"
    );
}

fn window_cell() -> CellReply {
    CellReply { component: 0, total: 0, world: 0, published: 0 }
}

/// A state that was granted so much of `spec` at [`NOW`], of which the others have admitted `others`.
fn granted(spec: Spec, cost: u64, others: u64) -> SharedState {
    let mut state = SharedState::default();
    let sent = sync(&state, spec, &[cost], NOW);
    let reply = match spec {
        Spec::Gcra { rate, .. } => {
            let tat = NOW.plus(crate::gcra_sync::interval_times(rate, cost + others));
            gcra_reply(tat, cost, 0)
        }
        _ => window_reply((cost, cost + others), Some((0, 0)), &[true]),
    };
    merge(&mut state, &sent, &reply, NOW);
    state
}

#[test]
fn what_was_granted_can_be_spent_to_the_end_of_its_cell_or_until_the_bucket_is_full() {
    let (window, bucket) = (sliding(10), gcra(5));
    let of_window = granted(window, 3, 0);
    let end = period().cell_at(NOW).end;
    assert_eq!(of_window.prepaid(&window, end.minus(Nanos::new(1))), 3);
    assert_eq!(of_window.prepaid(&window, end), 0);
    let of_bucket = granted(bucket, 4, 0);
    assert_eq!((of_bucket.prepaid(&bucket, NOW), of_bucket.prepaid(&bucket, millis(400))), (4, 4));
    assert_eq!(of_bucket.prepaid(&bucket, millis(400).plus(Nanos::new(1))), 0);
    let mut spent = of_bucket;
    assert!(spent.decide(&local(bucket, 4), 1, millis(400)).0.is_admitted());
    assert_eq!(
        (spent.unsynced(), spent.publish()),
        (0, PublishUrgency::Nothing),
        "the origin knows of it already"
    );
}

#[test]
fn what_is_prepaid_is_spent_up_to_the_limit_in_force() {
    let spent = |mut state: SharedState, spec| {
        let item = local(spec, 1);
        (0..50).filter(|_| state.decide(&item, 1, NOW).0.is_admitted()).count()
    };
    for number in [sliding, gcra] {
        let state = granted(number(20), 4, 16);
        assert_eq!(spent(state, number(20)), 4);
        assert_eq!(spent(state, number(10)), 0, "the others have spent as much as the lowered limit");
        assert_eq!(spent(state, number(0)), 0, "a block holds at once");
    }
    assert_eq!(spent(granted(sliding(20), 4, 16), sliding(18)), 2);
    let mut leased = SharedState { lease: Lease::of_tests(), ..granted(sliding(20), 4, 16) };
    assert!(!leased.decide(&local(sliding(10), 1), 1, NOW).0.is_admitted());
    assert!(!leased.is_leased(), "a lowered limit ends the lease");
}

#[test]
fn a_lowered_burst_leaves_an_empty_bucket_of_what_the_region_owes() {
    // 200 units at ten a second, of which others spent most: the debt was adopted.
    let mut state = granted(gcra(200), 1, 199);
    let wait =
        |state: &mut SharedState, burst, now| match state.decide(&local(gcra(burst), 1), 1, now).0.verdict {
            Verdict::Deny { retry_after } => retry_after,
            Verdict::Admit => Some(Nanos::ZERO),
        };
    assert_eq!(wait(&mut state.clone(), 200, NOW), Some(Nanos::ZERO), "it was granted one");
    let sent = sync(&state, gcra(5), &[1], NOW);
    let CountSync::Gcra { sync: told, burst: 5 } = sent.counts else { panic!("{sent:?}") };
    assert_eq!(told.busy.tat, millis(500), "who asks tells of no more");
    assert_eq!(wait(&mut state, 5, NOW), Some(Nanos::from_millis(100)));
    assert_eq!(wait(&mut state, 5, millis(100)), Some(Nanos::ZERO));
    let mut overdrawn = granted(gcra(200), 1, 299);
    assert_eq!(wait(&mut overdrawn.clone(), 5, NOW), wait(&mut overdrawn, 5, NOW));
    assert!(wait(&mut overdrawn, 5, NOW) > Some(Nanos::from_secs(20)), "a hundred were post-paid");
}

#[test]
fn an_owner_of_a_cell_is_not_cold_in_the_next_one_and_is_in_any_later() {
    let asked = |mut state: SharedState, cells: u64| {
        let now = NOW.plus(Nanos::from_secs(10 * cells));
        state.decide(&check(sliding(10), 1), 3, now).1
    };
    let owner = granted(sliding(10), 1, 0);
    assert_eq!((asked(owner, 1), asked(owner, 2)), (Some(AskReason::Stale), Some(AskReason::Cold)));
    let mut unheard = SharedState::default();
    unheard.decide(&local(sliding(10), 1), 1, NOW);
    assert_eq!(asked(unheard, 1), Some(AskReason::Cold));
}

#[test]
fn the_credit_is_a_part_of_what_is_left_before_the_admission() {
    let mut state = SharedState::default();
    let sent = sync(&state, sliding(120), &[], NOW);
    merge(&mut state, &sent, &window_reply((0, 0), Some((0, 0)), &[]), NOW);
    let reason = |mut state: SharedState, cost| state.decide(&check(sliding(120), cost), 9, NOW).1;
    assert_eq!((reason(state, 10), reason(state, 11)), (None, Some(AskReason::Credit)));
}

#[test]
fn only_a_denial_of_fast_that_says_something_about_the_key_makes_it_strict() {
    let is_strict = |item: Item| {
        let mut state = granted(sliding(10), 1, 9);
        state.decide(&local(sliding(10), 1), 1, NOW);
        assert!(!state.decide(&item, 9, NOW).0.is_admitted(), "{item:?}");
        state.view(0, 9, NOW).is_strict
    };
    let fast = |cost| Item { accuracy: Accuracy::Fast, ..check(sliding(10), cost) };
    assert!(is_strict(fast(1)) && is_strict(fast(10)) && !is_strict(fast(11)));
    assert!(!is_strict(check(sliding(10), 1)), "another accuracy");
    assert!(!is_strict(Item { charge: Charge::Never, ..fast(1) }), "a look");
}

#[test]
fn cells_are_shown_of_windows_only_and_what_was_said_is_not_queued() {
    let mut window = SharedState::default();
    window.decide(&local(sliding(10), 3), 1, NOW);
    let (sequence, current, previous) = window.cells().unwrap();
    assert_eq!((sequence, current.own, previous), (period().cell_at(NOW).sequence, 3, Counts::default()));
    assert_ne!(window.publish(), PublishUrgency::Nothing);
    window.unqueue();
    assert_eq!(window.publish(), PublishUrgency::Nothing);
    let mut bucket = SharedState::default();
    bucket.decide(&local(gcra(10), 3), 1, NOW);
    assert_eq!(bucket.cells(), None);
}

#[test]
fn a_state_that_a_step_carried_is_of_its_epoch_lives_as_long_and_still_fades() {
    let mut state = SharedState::default().at_epoch(3);
    state.decide(&local(sliding(10), 3), 1, NOW);
    let step = |delta_ns, left: Nanos| ClockStep { delta_ns, lands_at: left.shifted(delta_ns) };
    let far = step(3_600_000_000_000, NOW);
    let carried = state.carried(&sliding(10), far);
    assert_eq!((carried.epoch(), carried.current.effective()), (3, 3));
    assert!(carried.expires() > far.lands_at.plus(period().length()));
    assert!(window_of(carried.publishing().unwrap()).previous.is_some());
    let late = NOW.plus(Nanos::from_secs(60));
    for delta_ns in [3_600_000_000_000, -60_000_000_000] {
        let over = state.carried(&sliding(10), step(delta_ns, late));
        assert_eq!((over.epoch(), over.expires(), over.current), (3, Nanos::ZERO, Counts::default()));
    }
}

fn fixed(limit: u64) -> Spec {
    Spec::Fixed { limit: Limit::new(limit).unwrap(), period: period() }
}

/// One that spent what it was granted and `more`, which the origin doesn't know of yet.
fn with_unsynced(spec: Spec, more: u64) -> SharedState {
    let mut state = granted(spec, 1, 6);
    state.decide(&local(spec, 1 + more), 1, NOW);
    state
}

#[test]
fn a_share_is_that_of_the_cell_or_of_the_one_before_while_it_is_empty() {
    let mut state = with_unsynced(sliding(100), 2);
    assert_eq!(state.share(), (3, 9));
    let next = NOW.plus(period().length());
    state.decide(&local(sliding(100), 1), 1, next);
    assert_eq!(state.share(), (1, 1));
    let mut state = with_unsynced(sliding(100), 2);
    let sent = sync(&state, sliding(100), &[], next);
    merge(&mut state, &sent, &window_reply((0, 0), Some((3, 9)), &[]), next);
    assert_eq!(state.share(), (3, 9), "nothing was admitted in the next one yet");
    assert_eq!(with_unsynced(gcra(100), 2).share(), (0, 0));
}

#[test]
fn what_is_asked_in_the_next_cell_names_the_one_before_where_it_matters() {
    let (now, next) = (NOW, NOW.plus(period().length()));
    for (spec, fades) in [(sliding(100), true), (fixed(100), false)] {
        let asked = |state: &SharedState, now| window_of(state.asking(&spec, 1, now));
        let state = with_unsynced(spec, 2);
        assert_eq!((asked(&state, now).current.component, asked(&state, next).current.component), (3, 0));
        assert_eq!(asked(&state, next).previous.map(|cell| cell.component), Some(3));
        assert_eq!(asked(&state, next).sequence, period().cell_at(next).sequence);
        assert_eq!(asked(&state, now).previous.is_some(), fades);
        let known = with_unsynced(spec, 0);
        assert_eq!(asked(&known, next).previous.is_some(), fades, "all of it is known");
        let fading = asked(&state, now).fading.map(|fading| (fading.end, fading.period));
        assert_eq!(fading, fades.then_some((period().cell_at(now).end, period().length())));
        for (mut state, is_unsynced) in [(state, true), (known, false)] {
            state.decide(&local(spec, 1), 1, next);
            let published = window_of(state.publishing().unwrap()).previous;
            assert_eq!(published.is_some(), fades || is_unsynced);
        }
    }
}

#[test]
fn after_an_answer_a_key_is_queued_only_for_what_it_left_out() {
    for (told, publish) in [(3, PublishUrgency::Nothing), (2, PublishUrgency::Soon)] {
        let mut state = with_unsynced(sliding(100), 2);
        let sent = sync(&state, sliding(100), &[], NOW);
        merge(&mut state, &sent, &window_reply((told, told + 6), Some((0, 0)), &[]), NOW);
        assert_eq!(state.publish(), publish);
    }
}

#[test]
fn an_answer_about_a_later_cell_moves_a_key_on_and_one_about_the_cell_before_warms_it() {
    let next = NOW.plus(period().length());
    let mut state = SharedState::default();
    state.decide(&local(sliding(100), 1), 1, NOW);
    let sent = sync(&state, sliding(100), &[], next);
    let late = sync(&state, sliding(100), &[], NOW);
    let mut moved = state;
    merge(&mut moved, &sent, &window_reply((0, 4), Some((0, 0)), &[]), next);
    assert_eq!(moved.cells().map(|cells| cells.0), Some(period().cell_at(next).sequence));
    assert_eq!(moved.expires(), period().cell_at(next).end.plus(period().length()));
    assert!(window_of(moved.publishing().unwrap()).previous.is_some(), "it fades");
    state.decide(&local(sliding(100), 1), 1, next);
    assert_eq!(state.decide(&check(sliding(100), 1), 1, next).1, Some(AskReason::Cold));
    merge(&mut state, &late, &window_reply((0, 0), Some((0, 0)), &[]), next);
    assert_eq!(state.decide(&check(sliding(100), 1), 1, next).1, None);
}

#[test]
fn an_empty_bucket_that_was_heard_of_is_a_bucket_and_warm() {
    let mut state = SharedState::default();
    let sent = sync(&state, gcra(10), &[], NOW);
    merge(&mut state, &sent, &gcra_reply(Nanos::ZERO, 0, 0), NOW);
    assert!(state.cells().is_none() && state.publishing().is_some());
    assert_eq!(state.decide(&check(gcra(10), 1), 1, NOW).1, None);
}

#[test]
fn what_isnt_confirmed_is_no_older_than_the_question() {
    let mut state = granted(gcra(100), 1, 0);
    state.decide(&local(gcra(100), 1), 1, millis(5));
    assert_eq!(gcra_of(state.asking(&gcra(100), 1, millis(7))).oldest, millis(7), "all is confirmed");
    state.decide(&local(gcra(100), 1), 1, millis(10));
    let sent = sync(&state, gcra(100), &[], millis(20));
    assert_eq!(gcra_of(sent.counts).oldest, millis(10));
    state.decide(&local(gcra(100), 1), 1, millis(30));
    merge(&mut state, &sent, &gcra_reply(millis(300), 2, 0), millis(20));
    assert_eq!(gcra_of(state.asking(&gcra(100), 1, millis(40))).oldest, millis(20));
}

#[test]
fn what_was_drawn_is_there_until_the_bucket_is_full_to_the_nanosecond() {
    for (sent_at, prepaid) in [(millis(500), 10), (millis(500).plus(Nanos::new(1)), 5)] {
        let mut state = granted(gcra(5), 5, 0);
        let sent = sync(&state, gcra(5), &[1], sent_at);
        merge(&mut state, &sent, &gcra_reply(sent_at.plus(Nanos::from_millis(500)), 10, 4), sent_at);
        assert_eq!(state.current.prepaid(), prepaid, "asked at {sent_at:?}");
    }
}

#[test]
fn a_spent_world_credit_is_that_of_the_present_cell_and_of_several_regions() {
    let spec = sliding(1_000);
    let abuse = Item { class: Class::Abuse, regions: 3, ..check(spec, 1) };
    let ask = |state: &SharedState, regions, now| KeySync {
        counts: state.asking(&spec, regions, now),
        ..sync(state, spec, &[], now)
    };
    let reply = |total| window_reply((0, total), Some((0, 0)), &[]);
    let mut alone = SharedState::default();
    let sent = ask(&alone, 1, NOW);
    merge(&mut alone, &sent, &reply(900), NOW);
    assert_eq!(alone.decide(&abuse, 2, NOW).1, None, "a region that is asked alone knows no credit");
    let mut state = SharedState::default();
    let late = ask(&state, 3, NOW);
    merge(&mut state, &late, &reply(0), NOW);
    assert_eq!(state.marks, OWNS_CURRENT);
    let next = NOW.plus(period().length());
    state.decide(&local(spec, 1), 1, next);
    merge(&mut state, &late, &reply(300), next);
    assert_eq!(state.decide(&abuse, 2, next).1, None, "what is said of another cell");
}

/// An answer of the time after a clock step mustn't be carried over that step once more.
#[test]
fn what_a_bucket_is_told_after_a_clock_step_is_of_the_time_after_it() {
    let table = Table::<SharedState>::new(1_000);
    let rate = Rate::new(10, Nanos::from_secs(1)).unwrap();
    let spec = Spec::Gcra { rate, burst: Burst::new(5).unwrap() };
    let item = Item { accuracy: Accuracy::Async, ..Item::new(KeyId::from_hash(7), spec, Cost::ONE) };
    let before = Moment { now: NOW, step: StepId(0) };
    assert!(table.decide(&item, before).unwrap().is_admitted());
    let delta = Nanos::from_secs(150);
    let step = table.clock_stepped(150_000_000_000, NOW.plus(delta));
    let after = Moment { now: NOW.plus(delta).plus(Nanos::from_secs(1)), step };
    // Answered before anybody decides about the key again.
    assert_eq!(table.present_state(item.key, after).unwrap().step(), step);
    let told = gcra_reply(after.now.plus(Nanos::from_millis(100)), 1, 0);
    table.upsert(item.key, after, |state| {
        let counts = state.asking(&spec, 1, after.now);
        let request = GrantRequest { asks: smallvec![1], ..GrantRequest::default() };
        let sent = KeySync { key: item.key, epoch: 0, counts, request, ended_holds: smallvec![] };
        merge(state, &sent, &told, after.now);
    });
    let later = Moment { now: after.now.plus(Nanos::from_secs(1)), step };
    assert!(table.decide(&item, later).unwrap().is_admitted(), "the bucket is full again");
}
