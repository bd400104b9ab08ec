//! What a node sends about a hot key, and what it spends: leases are drawn before they are needed, and nothing
//! else is spent.

use tidegate_core::origin_cell::NodeId;
use tidegate_core::{
    Accuracy, Burst, Cost, Decision, FleetSecret, Item, KeyId, Limit, Moment, Nanos, Period, Rate,
    SharedState, Spec, Table, Undecided, Verdict,
};
use tidegate_node::region::{Effects, HotLimit, OutgoingExchange, Region, RegionOptions};
use tidegate_node::{DecideOutcome, Engine, EngineOptions, Purpose, Request, Subject};
use tidegate_origin::{OriginStore, ShardId};
use tidegate_rules::{Attributes, RuleSet, Source};

const KEY: KeyId = KeyId::from_hash(7 << 64);
const BEGIN: Nanos = Nanos::from_secs(1_800_000_000);

fn at(micros: u64) -> Moment {
    Moment::at(BEGIN.plus(Nanos::new(micros * 1000)))
}

fn item(limit: u64) -> Item {
    // Short: all that is left of it may be drawn.
    let period = Period::new(Nanos::from_secs(5)).unwrap();
    let spec = Spec::Fixed { limit: Limit::new(limit).unwrap(), period };
    Item { accuracy: Accuracy::Bounded, ..Item::new(KEY, spec, Cost::ONE) }
}

/// A node's region and table, and a store that answers at once.
struct Node {
    region: Region,
    table: Table<SharedState>,
    calls: usize,
}

impl Node {
    fn new(number: u64) -> Self {
        let options = RegionOptions { node: NodeId(number), fresh_for: Nanos::from_secs(5), seed: 1 };
        let table = Table::new(1000);
        table.set_live_nodes(2);
        Node { region: Region::new(options), table, calls: 0 }
    }

    /// It is known to the store, and hot.
    fn leased(number: u64, limit: u64, per_second: u64, store: &mut OriginStore) -> Self {
        let mut node = Node::new(number);
        let first = Item { accuracy: Accuracy::Async, ..item(limit) };
        node.table.decide(&first, at(0)).unwrap();
        node.flush(store, 0);
        node.region.heat(HotLimit { item: item(limit), limit: None }, per_second, at(0).now);
        node.flush(store, 0);
        assert!(node.state().is_leased());
        node
    }

    fn state(&self) -> SharedState {
        self.table.state(KEY).unwrap()
    }

    fn carry(&mut self, effects: Effects, store: &mut OriginStore, moment: Moment) {
        let mut send: Vec<OutgoingExchange> = effects.send;
        while let Some(call) = send.pop() {
            self.calls += 1;
            let answer = store.exchange(&call.exchange, moment.now);
            send.extend(self.region.replied(&self.table, call, Ok(answer), moment, &|_| ShardId(0)).send);
        }
    }

    fn flush(&mut self, store: &mut OriginStore, micros: u64) {
        let effects = self.region.flush(&self.table, at(micros), &|_| ShardId(0));
        self.carry(effects, store, at(micros));
    }

    /// Decides, and publishes what became urgent by it.
    fn decide(&mut self, limit: u64, store: &mut OriginStore, micros: u64) -> Result<Decision, Undecided> {
        let decided = self.table.decide(&item(limit), at(micros));
        if self.table.is_urgent() {
            let effects = self.region.publish_urgent(&self.table, at(micros), &|_| ShardId(0));
            self.carry(effects, store, at(micros));
        }
        decided
    }
}

#[test]
fn a_hot_key_is_renewed_before_its_lease_is_spent_and_nobody_asks() {
    let (mut store, limit) = (OriginStore::default(), 1_000_000);
    let mut node = Node::leased(1, limit, 10_000, &mut store);
    let before = node.calls;
    // 10,000 a second for two seconds.
    for number in 0..20_000_u64 {
        let decided = node.decide(limit, &mut store, number * 100);
        assert!(decided.is_ok_and(|decision| decision.is_admitted()), "number {number}");
        if number % 500 == 0 {
            node.flush(&mut store, number * 100);
        }
    }
    let calls = node.calls - before;
    assert!((15..=20).contains(&calls), "{calls} calls in two seconds");
    let held = node.state().prepaid(&item(limit).spec, at(2_000_000).now);
    assert!(held <= 1_250, "{held} held: a lease of 100 ms is 1,000");
}

#[test]
fn two_nodes_with_leases_never_admit_more_than_the_limit_and_nearly_all_of_it() {
    let (mut store, limit) = (OriginStore::default(), 5_000);
    let mut nodes = [1, 2].map(|number| Node::leased(number, limit, 10_000, &mut store));
    let before = nodes[0].calls;
    let mut admitted = [1, 1];
    for number in 0..20_000_u64 {
        for (node, admitted) in nodes.iter_mut().zip(&mut admitted) {
            match node.decide(limit, &mut store, number * 100) {
                Ok(decision) => *admitted += u64::from(decision.is_admitted()),
                // What a request does that must ask, in short.
                Err(_) => node.carry_ask(limit, &mut store, number * 100),
            }
        }
    }
    let (admitted, calls) = (admitted.iter().sum::<u64>(), nodes[0].calls - before);
    assert!((4_900..=limit).contains(&admitted), "{admitted} admitted of {limit}");
    assert!(calls <= 30, "{calls} calls in two seconds");
}

#[test]
fn a_spent_lease_of_a_key_that_is_nearly_spent_denies_by_itself_until_the_next_draw() {
    let (mut store, limit) = (OriginStore::default(), 1_000);
    let mut node = Node::leased(1, limit, 1_000_000, &mut store);
    // All but a hundredth of it: half of what is left, again and again.
    for micros in 0..3_000 {
        if let Err(Undecided::MustAsk) = node.decide(limit, &mut store, micros) {
            node.carry_ask(limit, &mut store, micros);
        }
        if node.state().is_dry(at(micros).now) && node.state().prepaid(&item(limit).spec, at(micros).now) == 0
        {
            let calls = node.calls;
            let denied = node.decide(limit, &mut store, micros).unwrap();
            let Verdict::Deny { retry_after: Some(wait) } = denied.verdict else { panic!("{denied:?}") };
            assert!(denied.remaining > 0 && wait <= Nanos::from_millis(100), "{denied:?}");
            assert_eq!(node.calls, calls, "nobody was asked");
            let later = micros + wait.get() / 1000 + 1000;
            assert_eq!(node.decide(limit, &mut store, later), Err(Undecided::MustAsk), "now it is worth it");
            return;
        }
    }
    panic!("it never ran dry");
}

/// Spent by this node alone, which tells the store so, and hot from then on.
fn spent(item: &Item, units: u64, store: &mut OriginStore) -> Node {
    let mut node = Node::new(1);
    for _ in 0..units {
        assert!(
            node.table.decide(&Item { accuracy: Accuracy::Async, ..*item }, at(0)).unwrap().is_admitted()
        );
    }
    let effects = node.region.publish_urgent(&node.table, at(0), &|_| ShardId(0));
    node.carry(effects, store, at(0));
    node.flush(store, 0);
    assert_eq!(node.state().unsynced(), 0);
    node.region.heat(HotLimit { item: *item, limit: None }, 10_000, at(0).now);
    node
}

/// A denial on the local view is right and asks nobody (INV-3), also where its key is found to be hot.
#[test]
fn denials_of_a_hot_key_draw_nothing_and_what_refills_is_drawn() {
    const MILLIS: u64 = 1_000;
    let (limit, period) = (Limit::new(100).unwrap(), Period::new(Nanos::from_secs(60)).unwrap());
    let rate = Rate::new(10, Nanos::from_secs(1)).unwrap();
    let bucket = Spec::Gcra { rate, burst: Burst::new(100).unwrap() };
    // With when the first unit comes back.
    let specs = [
        (Spec::Fixed { limit, period }, 60_000 * MILLIS),
        (Spec::Sliding { limit, period }, 60_000 * MILLIS + 1),
        (bucket, 100 * MILLIS),
    ];
    for (spec, refilled) in specs {
        for accuracy in [Accuracy::Exact, Accuracy::Bounded, Accuracy::Fast] {
            let (item, mut store) = (Item { spec, accuracy, ..item(100) }, OriginStore::default());
            let mut node = spent(&item, 100, &mut store);
            let before = node.calls;
            for step in 0..50 {
                let micros = (refilled - 1) / 50 * step;
                assert!(!node.table.decide(&item, at(micros)).unwrap().is_admitted(), "{spec:?}");
                node.region.heat(HotLimit { item, limit: None }, 10_000, at(micros).now);
                node.flush(&mut store, micros);
            }
            assert_eq!(node.calls - before, 0, "calls because of denials: {accuracy:?}, {spec:?}");
            assert!(node.state().is_leased(), "it spends only what is granted from now on");
            let large = Item { cost: Cost::new(50).unwrap(), ..item };
            node.region.heat(HotLimit { item: large, limit: None }, 10_000, at(refilled).now);
            node.flush(&mut store, refilled);
            let fits = matches!(spec, Spec::Fixed { .. });
            assert_eq!(node.calls - before, usize::from(fits), "more than there is is denied: {spec:?}");
            node.region.heat(HotLimit { item, limit: None }, 10_000, at(refilled).now);
            node.flush(&mut store, refilled + MILLIS);
            assert_eq!(node.calls - before, 1, "what came back is drawn: {accuracy:?}, {spec:?}");
        }
    }
}

#[test]
fn a_lease_of_all_that_was_left_is_not_renewed() {
    let (mut store, limit) = (OriginStore::default(), 1_000);
    let mut node = Node::new(1);
    node.table.set_live_nodes(1);
    node.region.heat(HotLimit { item: item(limit), limit: None }, 1_000_000, at(0).now);
    node.carry_ask(limit, &mut store, 0);
    let before = node.calls;
    for number in 0..1_000 {
        let decided = node.decide(limit, &mut store, number * 200);
        assert!(decided.is_ok_and(|decision| decision.is_admitted()), "number {number}");
    }
    assert!(!node.state().is_dry(at(200_000).now), "the pause after the draw is over");
    for number in 0..1_000 {
        assert!(!node.decide(limit, &mut store, 200_000 + number * 200).unwrap().is_admitted());
        node.flush(&mut store, 200_000 + number * 200);
    }
    assert_eq!(node.calls - before, 0, "everything was drawn, and this node knows it");
}

/// What the store before knew all of is news to the next one.
#[test]
fn a_changed_store_is_told_of_a_lease_that_is_spent() {
    let (mut store, limit) = (OriginStore::default(), 1_000);
    let mut node = Node::new(1);
    node.table.set_live_nodes(1);
    node.region.heat(HotLimit { item: item(limit), limit: None }, 1_000_000, at(0).now);
    node.carry_ask(limit, &mut store, 0);
    assert!(node.state().is_dry(at(0).now), "everything was drawn");
    let mut next = OriginStore::default();
    node.region.republish(&node.table);
    node.flush(&mut next, 0);
    let sequence = node.state().cells().unwrap().0;
    assert_eq!(next.total(KEY, 0, sequence), Some(limit));
}

#[test]
fn a_key_that_cools_down_keeps_to_its_credit_again() {
    let (mut store, limit) = (OriginStore::default(), 1_000_000);
    let mut node = Node::leased(1, limit, 10_000, &mut store);
    node.flush(&mut store, 4_900_000);
    assert!(node.state().is_leased(), "it was hot a moment ago");
    node.flush(&mut store, 5_100_000);
    assert!(!node.state().is_leased() && node.region.leased().is_empty());
}

#[test]
fn what_the_region_calls_hot_stays_so() {
    let (mut store, limit) = (OriginStore::default(), 1_000_000);
    let mut node = Node::leased(1, limit, 10_000, &mut store);
    node.region.set_hot([KEY]);
    node.flush(&mut store, 60_000_000);
    assert!(node.state().is_leased());
    node.region.set_hot([]);
    node.flush(&mut store, 60_000_000);
    assert!(!node.state().is_leased());
}

/// An override says so: from the first request on, before anybody has counted how often it comes.
#[test]
fn what_an_override_declares_hot_is_leased_at_once() {
    let text = "
namespace: api
rules:
  - { name: per-user, key: [user], limit: 1000 per 1h }
overrides:
  - { rule: per-user, user: bigcorp, hot: true }
";
    let secret = FleetSecret::BUILT_IN;
    let source = Source { name: "rules.yaml".into(), text: text.as_bytes().to_vec() };
    let rules = RuleSet::parse(&[source], &secret).unwrap_or_else(|errors| panic!("{errors}"));
    let region = RegionOptions { node: NodeId(1), fresh_for: Nanos::from_secs(5), seed: 1 };
    let engine = Engine::sharing(EngineOptions { secret, keys_max: 1000 }, region, rules);
    let (sharing, rules) = (engine.shared().unwrap(), engine.rules());
    for (user, is_hot) in [("somebody", false), ("bigcorp", true)] {
        let attributes = [("user", user)];
        let subject =
            Subject::Rules { namespace: "api", attributes: Attributes(&attributes), cost: Cost::ONE };
        let request = Request { tenant: "default", purpose: Purpose::Check, subject };
        let DecideOutcome::Ask(asking) = engine.decide(&rules, &request, at(0)).unwrap() else {
            panic!("cold")
        };
        let (_, effects) =
            sharing.region.ask(&sharing.table, asking.asks(), at(0), &|_| ShardId(0), Box::new(|_| {}));
        let effects = sharing.region.send_asks(&sharing.table, &effects.asked_keys, at(0), &|_| ShardId(0));
        let lease = effects.send[0].exchange.syncs[0].request.lease;
        assert_eq!(lease.is_some(), is_hot, "{user}");
    }
    assert_eq!(sharing.region.leased().len(), 1);
    let report = engine.top_report(None, at(1000).now);
    let marks: Vec<_> =
        report.busiest.iter().map(|caller| (&*caller.identifier, caller.is_hot, caller.is_leased)).collect();
    assert_eq!(marks, [("bigcorp", true, true), ("somebody", false, false)]);
}

/// Sidecars see little of a key each. What asks each time is worth a word sooner than what keeps to its credit.
#[test]
fn a_key_of_an_exact_rule_is_told_of_that_comes_seldom_to_each_of_many_nodes() {
    const NODES: u32 = 200;
    let text = "
namespace: api
rules:
  - { name: exact, key: [user], limit: 100000 per 1h, accuracy: exact }
  - { name: bounded, key: [user], limit: 100000 per 1h }
";
    let secret = FleetSecret::BUILT_IN;
    let source = Source { name: "rules.yaml".into(), text: text.as_bytes().to_vec() };
    let rules = RuleSet::parse(&[source], &secret).unwrap_or_else(|errors| panic!("{errors}"));
    let region = RegionOptions { node: NodeId(1), fresh_for: Nanos::from_secs(5), seed: 1 };
    let engine = Engine::sharing(EngineOptions { secret, keys_max: 1000 }, region, rules);
    let (sharing, rules) = (engine.shared().unwrap(), engine.rules());
    // Rates are of the time since the last look.
    let told = |begin_micros: u64, per_second: u64| {
        sharing.hot.watch(engine.top(), &sharing.region, NODES, at(begin_micros).now);
        let attributes = [("user", "somebody")];
        let subject =
            Subject::Rules { namespace: "api", attributes: Attributes(&attributes), cost: Cost::ONE };
        let request = Request { tenant: "default", purpose: Purpose::Check, subject };
        for number in 0..per_second / 5 {
            let micros = begin_micros + number * 1_000_000 / per_second;
            let decided = engine.decide(&rules, &request, at(micros));
            assert!(matches!(decided, Ok(DecideOutcome::Ask(_))), "cold");
        }
        sharing.hot.watch(engine.top(), &sharing.region, NODES, at(begin_micros + 200_000).now);
        sharing.hot.report(NodeId(1)).keys.len()
    };
    assert_eq!(told(1_000_000, 50), 1, "only that of the exact rule");
    assert_eq!(told(2_000_000, 10), 0);
    assert_eq!(told(3_000_000, 500), 2);
}

impl Node {
    /// Asks for one request, and spends what it was granted.
    fn carry_ask(&mut self, limit: u64, store: &mut OriginStore, micros: u64) {
        let Item { key, spec, cost, accuracy, class, role, regions, .. } = item(limit);
        let reason = tidegate_core::ask::AskReason::Credit;
        let ask = tidegate_node::region::AskItem { key, spec, cost, accuracy, class, role, regions, reason };
        let wake = Box::new(|_| {});
        let (id, effects) = self.region.ask(&self.table, &[ask], at(micros), &|_| ShardId(0), wake);
        let asked = self.region.send_asks(&self.table, &effects.asked_keys, at(micros), &|_| ShardId(0));
        self.carry(effects, store, at(micros));
        self.carry(asked, store, at(micros));
        self.region.complete(id);
    }
}
