//! Which part of a limit a node goes by, and what it says was asked for.

use super::*;
use tidegate_core::{Burst, Rate};
use tidegate_origin::{QuotaReports, SliceReport};
use tidegate_world::{AcknowledgedSlice, Acknowledgement, Member, Membership, OwnerId, SliceRow, Slices};

const START: Nanos = Nanos::from_secs(1_000_000);

fn at(millis: u64) -> Nanos {
    START.plus(Nanos::from_millis(millis))
}

fn key(number: u128) -> KeyId {
    KeyId::from_hash(number << 90 | number)
}

fn spec() -> Spec {
    Spec::Gcra { rate: Rate::new(90, Nanos::from_secs(1)).unwrap(), burst: Burst::new(90).unwrap() }
}

fn news(stamp: u64, is_active: bool, slices: Vec<SliceReport>) -> QuotaNews {
    QuotaNews { stamp, share: Share { version: stamp, index: 0, members: 3, is_active }, slices }
}

/// A slice that the origin's clock, an hour ahead of the node's, ends in ten seconds.
fn slice(number: u128, amount: u64) -> SliceReport {
    let ahead = at(0).plus(Nanos::from_secs(3_600));
    let lease = Lease {
        size: SliceSize { amount, rate_parts: u32::try_from(amount * 1_000_000_000 / 90).unwrap() },
        whole: 90,
        until: ahead.plus(Nanos::from_secs(10)),
        rises: ahead.plus(Nanos::from_secs(40)),
    };
    SliceReport { key: key(number), lease }
}

fn receive(quotas: &Quotas, news: QuotaNews, sent: Nanos) {
    let now = sent.plus(Nanos::from_secs(3_600));
    quotas.receive(&QuotaReply { now, news: Some(std::sync::Arc::new(news)), is_behind: false }, sent);
}

/// The origin answers, and has nothing new.
fn receive_nothing(quotas: &Quotas, sent: Nanos) {
    quotas.receive(&QuotaReply { now: at(0), news: None, is_behind: false }, sent);
}

fn burst(quotas: &Quotas, number: u128, class: Class, now: Nanos) -> u64 {
    quotas.apply_slice(key(number), &spec(), class, now).shown_limit()
}

#[test]
fn who_heard_nothing_goes_alone_and_abuse_not_at_all() {
    let quotas = Quotas::new(NodeId(1));
    assert_eq!(burst(&quotas, 1, Class::Paid, at(0)), 90);
    assert_eq!(burst(&quotas, 1, Class::Abuse, at(0)), 0);
    receive(&quotas, news(1, false, vec![]), at(0));
    assert_eq!(burst(&quotas, 1, Class::Paid, at(0)), 0, "a region that isn't active holds nothing");
    receive(&quotas, news(2, true, vec![]), at(0));
    assert_eq!(burst(&quotas, 1, Class::Abuse, at(0)), 30);
}

#[test]
fn a_slice_ends_by_this_nodes_clock_and_then_the_smaller_part_holds() {
    let quotas = Quotas::new(NodeId(1));
    receive(&quotas, news(1, true, vec![slice(1, 70), slice(2, 5)]), at(0));
    let both = |millis| [1, 2].map(|number| burst(&quotas, number, Class::Paid, at(millis)));
    assert_eq!(both(10_000), [70, 5]);
    assert_eq!(both(10_001), [30, 5]);
    assert_eq!(both(40_001), [30, 5], "nothing was heard for a lease: the region may hold anything");
    receive_nothing(&quotas, at(40_001));
    assert_eq!(
        both(40_001),
        [30, 30],
        "the region is heard, and has nothing new: nobody counts on the slice"
    );
}

#[test]
fn abuse_holds_nothing_where_the_region_was_not_heard_for_a_lease() {
    let quotas = Quotas::new(NodeId(1));
    receive(&quotas, news(1, true, vec![]), at(0));
    let both = |millis| [Class::Abuse, Class::Paid].map(|class| burst(&quotas, 1, class, at(millis)));
    assert_eq!(both(15_000), [30, 30]);
    assert_eq!(both(15_001), [0, 30], "its region may have acknowledged less without it");
    receive_nothing(&quotas, at(15_001));
    assert_eq!(both(15_001), [30, 30]);
}

#[test]
fn older_news_and_an_older_membership_change_nothing() {
    let quotas = Quotas::new(NodeId(1));
    receive(&quotas, news(5, true, vec![slice(1, 5)]), at(0));
    receive(&quotas, news(4, true, vec![slice(1, 70)]), at(1));
    assert_eq!(burst(&quotas, 1, Class::Paid, at(1)), 5);
    let mut old = news(6, true, vec![]);
    old.share = Share { version: 4, index: 0, members: 1, is_active: true };
    receive(&quotas, old, at(2));
    assert_eq!(burst(&quotas, 1, Class::Paid, at(2)), 30, "another worker read the membership earlier");
    assert_eq!(quotas.report(1, at(3)).applied, 6);
}

#[test]
fn a_clock_that_is_set_neither_ends_nor_extends_a_slice() {
    let quotas = Quotas::new(NodeId(1));
    receive(&quotas, news(1, true, vec![slice(1, 70)]), at(0));
    quotas.clock_stepped(-500_000_000_000);
    let before = |millis| at(millis).minus(Nanos::from_secs(500));
    assert_eq!(burst(&quotas, 1, Class::Paid, before(10_000)), 70);
    assert_eq!(burst(&quotas, 1, Class::Paid, before(10_001)), 30);
}

#[test]
fn a_decision_is_shown_as_the_whole_limits_and_counts_as_demand() {
    let quotas = Quotas::new(NodeId(1));
    receive(&quotas, news(1, true, vec![]), at(0));
    let decide = |number, verdict, remaining, cost| {
        let mut decision = Decision { verdict, limit: 30, remaining, reset: at(0) };
        let asked = DemandSample { key: key(number), whole: &spec(), cost, is_abuse: false };
        let denied = quotas.decided(&asked, &mut decision, at(0));
        (decision, denied)
    };
    let (decision, denied) = decide(1, Verdict::Admit, 29, 1);
    assert_eq!((decision.limit, decision.remaining, denied), (90, 29, false));
    assert_eq!(quotas.tracked_keys(), 0, "it found its bucket full");
    let (_, denied) = decide(1, Verdict::Deny { retry_after: None }, 0, 50);
    assert!(denied);
    let (decision, _) = decide(2, Verdict::Deny { retry_after: None }, 30, 50);
    assert_eq!(decision.verdict, Verdict::Deny { retry_after: Some(RETRY_LATER) }, "slices follow demand");
    let (decision, _) = decide(2, Verdict::Deny { retry_after: None }, 30, 91);
    assert_eq!(decision.verdict, Verdict::Deny { retry_after: None }, "never");
    let offered = quotas.report(1, at(500)).offered;
    assert_eq!(offered.iter().map(|offered| offered.key).collect::<Vec<_>>(), [key(2), key(1)]);
    assert_eq!(offered[0].milli_per_second / 1_000, 141 * 2 * 206 / 1000);
    let later = quotas.report(1, at(60_000));
    assert!(later.offered.is_empty() && quotas.tracked_keys() == 0, "{later:?}");
}

/// With 500 nodes in each of three regions, an even part of a part is less than a thousandth a second.
#[test]
fn a_key_that_came_once_leaves_the_book_in_a_large_fleet_too() {
    let quotas = Quotas::new(NodeId(1));
    receive(&quotas, news(1, true, vec![]), at(0));
    let whole =
        Spec::Gcra { rate: Rate::new(5, Nanos::from_secs(1)).unwrap(), burst: Burst::new(10).unwrap() };
    assert!(quotas.demand.add(key(1), &whole, false, 1, at(0)));
    let reported: Vec<usize> =
        (1..=80).map(|quarter| quotas.report(500, at(250 * quarter)).offered.len()).collect();
    assert_eq!(reported[..20], [1; 20], "it counts for five seconds");
    assert_eq!((reported[79], quotas.tracked_keys()), (0, 0));
}

#[test]
fn the_book_is_bounded_and_says_what_it_left_out() {
    let quotas = Quotas::new(NodeId(1));
    for number in 0..40_000_u128 {
        let mut decision =
            Decision { verdict: Verdict::Deny { retry_after: None }, limit: 0, remaining: 0, reset: at(0) };
        let key = KeyId::from_hash(number.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835));
        quotas.decided(&DemandSample { key, whole: &spec(), cost: 50, is_abuse: true }, &mut decision, at(0));
    }
    assert_eq!(quotas.tracked_keys(), 64 * 256);
    assert_eq!(quotas.counters().untracked.get(), 40_000 - 64 * 256);
    assert!((9_000..=10_000).contains(&quotas.report(1, at(500)).offered.len()));
    // The worker reads all nodes' reports in one answer.
    assert!((4_500..=5_000).contains(&quotas.report(20, at(500)).offered.len()));
}

/// Of three thousand callers who ask for as much, each of a hundred nodes sees next to nothing, and may report 1,000.
#[test]
fn what_many_callers_ask_for_adds_up_over_nodes_that_can_not_name_them_all() {
    let nodes: Vec<Quotas> = (0..100).map(|number| Quotas::new(NodeId(number))).collect();
    let whole =
        Spec::Gcra { rate: Rate::new(50, Nanos::from_secs(1)).unwrap(), burst: Burst::new(50).unwrap() };
    let spread = |number: u64| {
        KeyId::from_hash(u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835))
    };
    let mut sums = std::collections::BTreeMap::<KeyId, u64>::new();
    let mut all = 0;
    for quarter in 0..8_u64 {
        for (place, node) in (0_u64..).zip(&nodes) {
            receive(node, news(1, true, vec![]), at(0));
            (0..3_000).filter(|number| (number * 7 + place * 13 + quarter) % 4 == 0).for_each(|number| {
                assert!(node.demand.add(spread(number), &whole, false, 1, at(250 * quarter)));
            });
            let offered = node.report(100, at(250 * (quarter + 1))).offered;
            assert!(offered.len() <= 1_000);
            if quarter >= 4 {
                for offered in offered {
                    *sums.entry(offered.key).or_default() += offered.milli_per_second;
                    all += offered.milli_per_second;
                }
            }
        }
    }
    let mean = all / 3_000;
    // A hundred a second, of which two seconds of averaging see about 45 %.
    assert!((4 * 35_000..4 * 60_000).contains(&mean), "{mean}");
    assert_eq!(sums.len(), 3_000, "nobody is left out");
    let far_off = sums.values().filter(|sum| sum.abs_diff(mean) > mean / 4).count();
    assert!(far_off < 30, "{far_off} of 3,000 are off by a quarter");
}

#[test]
fn the_largest_costs_of_many_keys_are_reported_without_overflow() {
    let quotas = Quotas::new(NodeId(1));
    for number in 0..16_000_u128 {
        let key = KeyId::from_hash(number.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835));
        quotas.demand.add(key, &spec(), false, u64::MAX, at(0));
    }
    let offered = quotas.report(20, at(250)).offered;
    assert!((4_500..=5_000).contains(&offered.len()), "{}", offered.len());
}

fn reported_demand(worker: &mut QuotaWorker, offered: &[(u128, u64)]) -> Vec<(KeyId, u64)> {
    let of = |(number, milli_per_second): &(u128, u64)| tidegate_origin::OfferedDemand {
        key: key(*number),
        spec: spec(),
        is_abuse: false,
        milli_per_second: *milli_per_second,
    };
    let report = |offered: &[(u128, u64)]| {
        let offered = offered.iter().map(of).collect();
        QuotaReport { node: NodeId(1), applied: 0, version: 0, offered, leaves: false }
    };
    // None of them had to leave anything out.
    let reports = offered.chunks(5_000).map(report).collect();
    let gathered = QuotaReports { now: at(20_000), lost_data_at: Nanos::ZERO, reports };
    worker.gathered(&gathered).demands.into_iter().map(|said| (said.key, said.milli_per_second)).collect()
}

/// The whole is 90 a second, and who divides it isn't known yet: all of it is this region's even part.
#[test]
fn what_is_asked_for_is_said_when_it_is_much_or_changes_and_that_it_is_over_once() {
    let mut worker = QuotaWorker::default();
    assert_eq!(
        reported_demand(&mut worker, &[(1, 80_000), (2, 1_000)]),
        [(key(1), 80_000)],
        "a little needs no slice"
    );
    assert_eq!(reported_demand(&mut worker, &[(1, 81_000), (2, 1_000)]), [], "it hardly changed");
    assert_eq!(reported_demand(&mut worker, &[(1, 70_000)]), [(key(1), 70_000)]);
    assert_eq!(
        reported_demand(&mut worker, &[]),
        [(key(1), 0)],
        "the store would believe in it for half a minute"
    );
    assert!((0..100).all(|_| reported_demand(&mut worker, &[]).is_empty()));
    worker.report_failed();
    assert_eq!(reported_demand(&mut worker, &[(1, 70_000)]), [(key(1), 70_000)]);
}

#[test]
fn a_worker_that_takes_over_says_of_its_slices_that_nobody_asks_for_them() {
    let me = OwnerId(1);
    let size = SliceSize { amount: 5, rate_parts: 55_555_555 };
    let row = SliceRow { key: key(1), owner: me, generation: 1, size, whole: 90, expires: at(0) };
    let slices = Slices { slices: vec![row], now: Nanos::from_secs(70), confirmed: Nanos::ZERO, revision: 1 };
    let mut worker = QuotaWorker::default();
    worker.read(
        me,
        &Membership { version: 1, members: Vec::new() },
        &slices,
        &SlicesInForce::default(),
        at(0),
        Nanos::ZERO,
    );
    assert_eq!(reported_demand(&mut worker, &[(1, 0), (2, 0)]), [(key(1), 0)]);
    assert_eq!(reported_demand(&mut worker, &[(1, 0)]), []);
}

#[test]
fn of_more_keys_than_a_message_holds_those_are_said_that_ask_for_most() {
    let mut worker = QuotaWorker::default();
    let many: Vec<(u128, u64)> = (1..=9_000).map(|number| (number, 40_000)).collect();
    assert_eq!(reported_demand(&mut worker, &many[..5_000]).len(), 5_000);
    let more: Vec<(u128, u64)> = (1..=4_900).map(|number| (20_000 + number, 50_000)).collect();
    let all: Vec<(u128, u64)> = many.iter().chain(&more).copied().collect();
    let keys: Vec<KeyId> = reported_demand(&mut worker, &all[4_000..]).iter().map(|(key, _)| *key).collect();
    assert_eq!(keys.len(), 10_000);
    let asks_most = |number: &(u128, u64)| keys.contains(&key(number.0));
    assert!(more.iter().all(asks_most));
}

#[test]
fn who_was_cut_off_stays_so_where_the_origin_has_forgotten_the_news() {
    let behind = |quotas: &Quotas, sent| {
        quotas.receive(&QuotaReply { now: at(0), news: None, is_behind: true }, sent);
    };
    let cut_off = Quotas::new(NodeId(1));
    receive(&cut_off, news(1, true, vec![slice(1, 5)]), at(0));
    behind(&cut_off, at(40_001));
    assert_eq!(burst(&cut_off, 1, Class::Abuse, at(40_001)), 0, "its region may hold less by now");
    assert_eq!(burst(&cut_off, 1, Class::Paid, at(40_001)), 5);
    let waited_for = Quotas::new(NodeId(2));
    receive(&waited_for, news(1, true, vec![slice(1, 5)]), at(0));
    for sent in [10_000, 20_000, 30_000, 40_001].map(at) {
        behind(&waited_for, sent);
    }
    assert_eq!(burst(&waited_for, 1, Class::Abuse, at(40_001)), 30, "nothing was acknowledged without it");
}

/// A region of one node that reported, and maybe of one that the origin forgot.
#[test]
fn a_change_is_not_acknowledged_while_a_node_may_be_forgotten() {
    let me = OwnerId(1);
    let member =
        Member { owner: me, region: "a".into(), is_active: true, applied: 1, seen: at(0), confirmed: at(0) };
    let membership = Membership { version: 7, members: vec![member] };
    let size = SliceSize { amount: 5, rate_parts: 55_555_555 };
    let row = |generation| SliceRow { key: key(1), owner: me, generation, size, whole: 90, expires: at(0) };
    let mut worker = QuotaWorker::default();
    let mut stamp = 0;
    let mut say = |generation: u64, version: u64, lost_data_at: Nanos| {
        let read = Nanos::from_secs(70 + generation);
        let slices =
            Slices { slices: vec![row(generation)], now: read, confirmed: read, revision: generation };
        stamp = worker
            .read(me, &membership, &slices, &SlicesInForce::default(), at(0), Nanos::ZERO)
            .map_or(stamp, |news| news.stamp);
        let report =
            QuotaReport { node: NodeId(1), applied: stamp, version, offered: Vec::new(), leaves: false };
        let say = worker.gathered(&QuotaReports { now: at(20_000), lost_data_at, reports: vec![report] });
        let said = say.acknowledged.expect("all that are known go by it");
        assert_eq!(said.read, read, "that the region is there may always be said");
        (said.slices.len(), say.applied)
    };
    assert_eq!(say(1, 7, Nanos::ZERO), (1, 7));
    assert_eq!(say(2, 8, at(5_000)), (0, 7), "who is forgotten may go by what was before");
    assert_eq!(say(3, 8, at(4_999)), (1, 8), "a lease later it is cut off");
}

/// The others count on a slice for two leases from its read on, however long before that the round began.
#[test]
fn slices_that_are_read_long_after_the_round_began_are_not_told() {
    let me = OwnerId(1);
    let member =
        Member { owner: me, region: "a".into(), is_active: true, applied: 1, seen: at(0), confirmed: at(0) };
    let membership = Membership { version: 1, members: vec![member; 3] };
    let size = SliceSize { amount: 5, rate_parts: 55_555_555 };
    let expires = Nanos::from_secs(80);
    let row = SliceRow { key: key(1), owner: me, generation: 1, size, whole: 90, expires };
    for took in (0..60).map(Nanos::from_secs) {
        let mut worker = QuotaWorker::default();
        let gathered = QuotaReports { now: at(0), lost_data_at: Nanos::ZERO, reports: Vec::new() };
        let say = worker.gathered(&gathered);
        let slices =
            Slices { slices: vec![row], now: Nanos::from_secs(70), confirmed: Nanos::ZERO, revision: 1 };
        let news = worker.read(me, &membership, &slices, &SlicesInForce::default(), say.before, took);
        let Some(news) = news else { continue };
        let read = at(0).plus(took);
        assert!(news.slices[0].lease.rises >= read.plus(SLICE_LEASE).plus(SLICE_LEASE), "after {took:?}");
        assert!(took <= Nanos::from_secs(8));
    }
    let slices = Slices { slices: vec![row], now: Nanos::from_secs(70), confirmed: Nanos::ZERO, revision: 1 };
    let in_time = QuotaWorker::default().read(
        me,
        &membership,
        &slices,
        &SlicesInForce::default(),
        at(0),
        Nanos::from_secs(8),
    );
    assert!(in_time.is_some(), "statements may take long");
}

/// A region and its world store, round by round. Its one node goes by all that it is told.
struct Rounds {
    worker: QuotaWorker,
    node: Quotas,
    membership: Membership,
    /// What the store holds, and when the last acknowledged was read.
    row: SliceRow,
    confirmed: Nanos,
    /// In half seconds.
    round: u64,
}

impl Rounds {
    fn new(amount: u64) -> Self {
        let member = |owner| Member {
            owner: OwnerId(owner),
            region: format!("region {owner}"),
            is_active: true,
            applied: 1,
            seen: at(0),
            confirmed: at(0),
        };
        let row = SliceRow {
            key: key(1),
            owner: OwnerId(1),
            generation: 0,
            size: SliceSize { amount: 0, rate_parts: 0 },
            whole: 90,
            expires: Nanos::ZERO,
        };
        let membership = Membership { version: 1, members: [1, 2, 3].map(member).to_vec() };
        let (worker, node) = (QuotaWorker::default(), Quotas::new(NodeId(1)));
        let mut rounds = Rounds { worker, node, membership, row, confirmed: Nanos::ZERO, round: 0 };
        rounds.hold(amount);
        rounds
    }

    /// The reconciler has written another slice.
    fn hold(&mut self, amount: u64) {
        self.row.generation += 1;
        self.row.size = SliceSize { amount, rate_parts: u32::try_from(amount * 1_000_000_000 / 90).unwrap() };
    }

    /// Returns what was acknowledged, if anything.
    fn go_on(&mut self) -> Option<Acknowledgement> {
        self.round += 1;
        let now = at(500 * self.round);
        let report = QuotaReport { offered: Vec::new(), ..self.node.report(1, now) };
        let gathered = QuotaReports { now, lost_data_at: Nanos::ZERO, reports: vec![report] };
        let say = self.worker.gathered(&gathered);
        self.row.expires = now.plus(SLICE_LEASE);
        let (confirmed, revision) = (self.confirmed, self.row.generation);
        let slices = Slices { slices: vec![self.row], now, confirmed, revision };
        let in_force = self.node.in_force();
        let news = self.worker.read(OwnerId(1), &self.membership, &slices, &in_force, now, Nanos::ZERO);
        let said = say.acknowledged.and_then(|said| self.worker.acknowledgement(said));
        if let Some(said) = &said {
            assert_eq!(said.known, self.confirmed, "an older copy of the store ignores it");
            self.confirmed = said.read;
            self.worker.acknowledged(said);
        }
        let news = news.map(std::sync::Arc::new);
        self.node.receive(&QuotaReply { now, news, is_behind: false }, now);
        said
    }

    fn in_force(&self) -> u64 {
        burst(&self.node, 1, Class::Abuse, at(500 * self.round))
    }
}

#[test]
fn slices_follow_the_world_store_while_it_knows_what_was_acknowledged() {
    let mut rounds = Rounds::new(40);
    for amount in [40, 70, 20, 60] {
        rounds.hold(amount);
        rounds.go_on();
        assert_eq!(rounds.in_force(), amount);
        let said = rounds.go_on().expect("the node goes by it");
        assert_eq!(said.slices.len(), 1);
    }
}

#[test]
fn nothing_is_raised_and_nothing_lost_is_acknowledged_after_the_world_store_went_back() {
    let mut rounds = Rounds::new(40);
    (0..4).for_each(|_| drop(rounds.go_on()));
    let backup = (rounds.row, rounds.confirmed);
    rounds.hold(5);
    (0..4).for_each(|_| drop(rounds.go_on()));
    assert_eq!(rounds.in_force(), 5);
    (rounds.row, rounds.confirmed) = backup;
    assert_eq!(rounds.go_on(), None, "the generation that was lowered will be given out again");
    assert_eq!(rounds.in_force(), 5);
    let said = rounds.go_on().expect("it goes by less than the store says");
    assert_eq!(said.slices, [AcknowledgedSlice { key: key(1), generation: backup.0.generation }]);
    // Twice the lease, and the margin.
    for _ in 2..90 {
        rounds.go_on();
        assert_eq!(rounds.in_force(), 5, "after {} rounds", rounds.round);
    }
    (0..4).for_each(|_| drop(rounds.go_on()));
    assert_eq!(rounds.in_force(), 40);
}

#[test]
fn a_region_that_confirmed_nothing_since_the_backup_sees_that_grants_are_missing() {
    let mut rounds = Rounds::new(40);
    (0..4).for_each(|_| drop(rounds.go_on()));
    let backup = rounds.row;
    // The region reads that its slice was lowered. An older copy replaces the store before the region acknowledges that.
    rounds.hold(5);
    rounds.go_on();
    assert_eq!(rounds.in_force(), 5);
    rounds.row = backup;
    for _ in 0..80 {
        rounds.go_on();
        assert_eq!(rounds.in_force(), 5, "after {} rounds", rounds.round);
    }
}

#[test]
fn a_worker_that_does_not_know_what_is_in_force_tells_nothing_after_the_world_store_went_back() {
    let mut rounds = Rounds::new(40);
    (0..4).for_each(|_| drop(rounds.go_on()));
    rounds.confirmed = Nanos::ZERO;
    rounds.go_on();
    rounds.node = Quotas::new(NodeId(1));
    rounds.go_on();
    assert_eq!(rounds.node.version(), 0);
}
