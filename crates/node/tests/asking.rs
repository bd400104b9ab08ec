//! What a node sends when its requests ask: which keys, how often, and for what. Found by the simulator.

use std::sync::mpsc;
use tidegate_core::ask::AskReason;
use tidegate_core::exchange::CountSync;
use tidegate_core::origin_cell::NodeId;
use tidegate_core::state::PublishUrgency;
use tidegate_core::{
    Accuracy, Burst, Class, Cost, FleetSecret, Item, KeyId, Limit, Moment, Nanos, Period, Rate, Role,
    SharedState, Spec, Table,
};
use tidegate_node::region::{
    AskId, AskItem, AskOutcome, AskOutcomes, Effects, OutgoingExchange, Region, RegionOptions,
};
use tidegate_node::{
    DecideOutcome, Engine, EngineOptions, GivenLimit, GivenPolicy, Purpose, Request, Subject,
};
use tidegate_origin::{Grant, OriginError, OriginStore, ShardId};
use tidegate_origin::{Reset, ResetLog, ResetPosition};
use tidegate_rules::RuleSet;

const NOW: Moment = Moment::at(Nanos::from_secs(1_800_000_000));

fn later(millis: u64) -> Moment {
    Moment::at(NOW.now.plus(Nanos::from_millis(millis)))
}

fn fixed(limit: u64) -> Spec {
    let period = Period::new(Nanos::from_secs(3600)).unwrap();
    Spec::Fixed { limit: Limit::new(limit).unwrap(), period }
}

/// What is heard of a fixed window that is full.
fn refused() -> AskOutcome {
    let Spec::Fixed { period, .. } = fixed(1) else { panic!("a fixed window") };
    AskOutcome::Refused { retry_after: None, window: Some(period.cell_at(NOW.now).sequence) }
}

fn item(key: u128, spec: Spec, cost: u64, reason: AskReason) -> AskItem {
    let (key, cost) = (KeyId::from_hash(key), Cost::new(cost).unwrap());
    AskItem {
        key,
        spec,
        cost,
        accuracy: Accuracy::Bounded,
        class: Class::Paid,
        role: Role::Enforced,
        regions: 1,
        reason,
    }
}

/// The same place, and another key for each number.
fn beside(number: u128, role: Role) -> AskItem {
    AskItem { role, ..item((number << 96) | 5, fixed(10), 1, AskReason::Exact) }
}

#[test]
fn a_shadow_limit_keeps_nobody_of_its_place_from_being_granted() {
    let grants = |role: Role| -> Vec<(Grant, bool)> {
        let calls = Node::new().ask(&[beside(1, Role::Enforced), beside(2, role)]).1;
        let reserves =
            |call: &OutgoingExchange| call.exchange.syncs.iter().all(|sync| sync.request.hold.is_some());
        calls.iter().map(|call| (call.exchange.grant, reserves(call))).collect()
    };
    assert_eq!(grants(Role::Enforced), [(Grant::Together, false)]);
    // All or none would be none as soon as the shadow limit is full.
    assert_eq!(grants(Role::Shadow), [(Grant::Each, true)]);
    assert_eq!(grants(Role::Quota), [(Grant::Each, true)]);
}

/// A node's region and table, a store, and nothing between them but the test.
struct Node {
    region: Region,
    table: Table<SharedState>,
    store: OriginStore,
}

impl Node {
    fn new() -> Self {
        let options = RegionOptions { node: NodeId(7), fresh_for: Nanos::from_secs(5), seed: 1 };
        Node { region: Region::new(options), table: Table::new(1000), store: OriginStore::default() }
    }

    fn ask(&self, items: &[AskItem]) -> (AskId, Vec<OutgoingExchange>, mpsc::Receiver<AskOutcomes>) {
        let (id, effects, hear) = self.begin(items);
        let mut calls = self.send_asked(&effects.asked_keys);
        calls.extend(go_on(effects));
        (id, calls, hear)
    }

    /// Asks; a call has yet to be sent.
    fn begin(&self, items: &[AskItem]) -> (AskId, Effects, mpsc::Receiver<AskOutcomes>) {
        let (heard, hear) = mpsc::channel();
        // Some tests don't listen.
        let wake = Box::new(move |outcomes| drop(heard.send(outcomes)));
        let (id, effects) = self.region.ask(&self.table, items, NOW, &|_| ShardId(0), wake);
        (id, effects, hear)
    }

    fn send_asked(&self, keys: &[KeyId]) -> Vec<OutgoingExchange> {
        go_on(self.region.send_asks(&self.table, keys, NOW, &|_| ShardId(0)))
    }

    fn bring(&mut self, call: OutgoingExchange) -> Vec<OutgoingExchange> {
        let answer = self.store.exchange(&call.exchange, NOW.now);
        go_on(self.region.replied(&self.table, call, Ok(answer), NOW, &|_| ShardId(0)))
    }

    fn lose(&self, call: OutgoingExchange) -> Vec<OutgoingExchange> {
        let lost = Err(OriginError::Timeout { waited_ms: 50 });
        go_on(self.region.replied(&self.table, call, lost, NOW, &|_| ShardId(0)))
    }

    fn flush(&self, moment: Moment) -> Vec<OutgoingExchange> {
        go_on(self.region.flush(&self.table, moment, &|_| ShardId(0)))
    }

    /// Admits on the local view.
    fn admit(&self, key: u128, spec: Spec, cost: u64) {
        let item = Item::new(KeyId::from_hash(key), spec, Cost::new(cost).unwrap());
        assert!(self.table.decide(&item, NOW).unwrap().is_admitted());
    }
}

/// Wakes who may go on, and says what is to be sent.
fn go_on(effects: Effects) -> Vec<OutgoingExchange> {
    for (wake, outcomes) in effects.finished {
        wake(outcomes);
    }
    effects.send
}

#[track_caller]
fn only<T>(mut list: Vec<T>) -> T {
    assert_eq!(list.len(), 1);
    list.remove(0)
}

#[test]
fn a_key_that_a_request_names_twice_is_asked_about_once_for_both() {
    let mut node = Node::new();
    let twice = [item(1, fixed(5), 3, AskReason::Cold); 2];
    let (_, calls, hear) = node.ask(&twice);
    let call = only(calls);
    let sync = &call.exchange.syncs[..];
    assert!(matches!(sync, [sync] if sync.request.asks[..] == [3, 3]), "one sync of the key: {sync:?}");
    node.bring(call);
    let refused = [refused(); 2];
    assert_eq!(hear.try_recv().unwrap()[..], refused, "three and three are more than five");
}

/// One of the two costs alone was within the credit: it was granted on the spot, not enough for both, and asked
/// for again, for as long as the request had time.
#[test]
fn a_key_that_a_request_names_twice_asks_for_both_if_for_either() {
    let secret = FleetSecret::BUILT_IN;
    let region = RegionOptions { node: NodeId(7), fresh_for: Nanos::from_secs(5), seed: 1 };
    let engine = Engine::sharing(EngineOptions { secret, keys_max: 1000 }, region, RuleSet::empty());
    let Spec::Fixed { limit, period } = fixed(100) else { panic!("a fixed window") };
    let given = |cost| GivenLimit {
        namespace: "given",
        identifier: "same",
        policy: GivenPolicy::Fixed { limit, period },
        cost: Cost::new(cost).unwrap(),
        class: Class::Paid,
        accuracy: Accuracy::Bounded,
        scope: None,
    };
    let rules = engine.rules();
    let decide = |limits: &[GivenLimit<'_>]| {
        let request =
            Request { tenant: "default", purpose: Purpose::Check, subject: Subject::Limits(limits) };
        engine.decide(&rules, &request, NOW).unwrap()
    };
    let DecideOutcome::Ask(first) = decide(&[given(1)]) else { panic!("a cold key asks") };
    let sharing = engine.shared().unwrap();
    let (_, effects) =
        sharing.region.ask(&sharing.table, first.asks(), NOW, &|_| ShardId(0), Box::new(|_| {}));
    let effects = sharing.region.send_asks(&sharing.table, &effects.asked_keys, NOW, &|_| ShardId(0));
    let call = only(go_on(effects));
    let answer = OriginStore::default().exchange(&call.exchange, NOW.now);
    go_on(sharing.region.replied(&sharing.table, call, Ok(answer), NOW, &|_| ShardId(0)));
    let DecideOutcome::Ask(asking) = decide(&[given(15), given(15)]) else {
        panic!("thirty of a hundred ask")
    };
    assert_eq!(asking.asks().len(), 2);
}

/// A bucket that is full again before the answer is there: asked for again and again, it took a grant for each ask,
/// and ended unverified. So it was with rates above one in a round trip, and where a clock is ahead of the origin's.
#[test]
fn what_was_granted_is_spent_though_the_bucket_was_full_again_first() {
    let secret = FleetSecret::BUILT_IN;
    let region = RegionOptions { node: NodeId(7), fresh_for: Nanos::from_secs(5), seed: 1 };
    let engine = Engine::sharing(EngineOptions { secret, keys_max: 1000 }, region, RuleSet::empty());
    let rate = Rate::new(1_000, Nanos::from_secs(1)).unwrap();
    let limits = [GivenLimit {
        namespace: "given",
        identifier: "quick",
        policy: GivenPolicy::Gcra { rate, burst: Burst::new(5).unwrap() },
        cost: Cost::ONE,
        class: Class::Abuse,
        accuracy: Accuracy::Exact,
        scope: None,
    }];
    let (rules, sharing, mut store) = (engine.rules(), engine.shared().unwrap(), OriginStore::default());
    for turn in 0..3 {
        let (sent, heard) = (later(100 * turn), later(100 * turn + 2));
        let request =
            Request { tenant: "default", purpose: Purpose::Check, subject: Subject::Limits(&limits) };
        let DecideOutcome::Ask(asking) = engine.decide(&rules, &request, sent).unwrap() else {
            panic!("it asks")
        };
        let (wake, key) = (Box::new(|_| {}), asking.asks()[0].key);
        let (_, effects) = sharing.region.ask(&sharing.table, asking.asks(), sent, &|_| ShardId(0), wake);
        let call =
            only(go_on(sharing.region.send_asks(&sharing.table, &effects.asked_keys, sent, &|_| ShardId(0))));
        let answer = store.exchange(&call.exchange, sent.now);
        go_on(sharing.region.replied(&sharing.table, call, Ok(answer), heard, &|_| ShardId(0)));
        let DecideOutcome::Answer(answer) = engine.resume_or_ask(*asking, &[AskOutcome::Granted], heard)
        else {
            panic!("it was granted, and asks again")
        };
        assert!(answer.allowed);
        let state = sharing.table.state(key).unwrap();
        let Some(CountSync::Gcra { sync, .. }) = state.publishing() else { panic!("a bucket") };
        assert_eq!((state.unsynced(), sync.cumulative), (0, turn + 1), "counted once");
    }
}

#[test]
fn a_key_of_which_nothing_is_known_has_one_call_in_flight() {
    let mut node = Node::new();
    let [one, other] = [1, 2].map(|key| item(key, fixed(5), 1, AskReason::Cold));
    let (_, calls, first) = node.ask(&[one]);
    let first_call = only(calls);
    let (_, calls, both) = node.ask(&[one, other]);
    assert!(calls.is_empty(), "its grant would be taken for what the node had forgotten");
    let batch = only(node.bring(first_call));
    assert_eq!(first.try_recv().unwrap()[..], [AskOutcome::Granted]);
    node.bring(batch);
    let held = both.try_recv().unwrap();
    assert!(held.len() == 2 && held.iter().all(|outcome| matches!(outcome, AskOutcome::Held { .. })));
}

#[test]
fn who_waits_for_a_call_that_fails_is_unverified() {
    let node = Node::new();
    let [one, other] = [1, 2].map(|key| item(key, fixed(5), 1, AskReason::Cold));
    let (_, calls, _first) = node.ask(&[one]);
    let (_, _, both) = node.ask(&[one, other]);
    assert!(node.lose(only(calls)).is_empty());
    assert_eq!(both.try_recv().unwrap()[..], [AskOutcome::Unverified; 2]);
}

#[test]
fn nothing_is_drawn_while_something_drawn_is_left() {
    let mut node = Node::new();
    let rate = Rate::new(1000, Nanos::from_secs(1)).unwrap();
    let bucket = Spec::Gcra { rate, burst: Burst::new(100).unwrap() };
    let ask = |cost| item(1, bucket, cost, AskReason::Credit);
    let first = only(node.ask(&[ask(1)]).1);
    assert!(first.exchange.syncs[0].request.draw);
    node.bring(first);
    let second = only(node.ask(&[ask(50)]).1);
    assert!(!second.exchange.syncs[0].request.draw, "ten are left of what the first drew");
}

#[test]
fn a_probe_tells_what_is_known_when_it_is_sent() {
    let mut node = Node::new();
    let asked = item(1, fixed(100), 1, AskReason::Stale);
    let first = only(node.ask(&[asked]).1);
    node.bring(first);
    for key in 10..15 {
        let call = only(node.ask(&[item(key, fixed(5), 1, AskReason::Cold)]).1);
        node.lose(call);
    }
    let (_, calls, unverified) = node.ask(&[asked]);
    assert!(calls.is_empty() && unverified.try_recv().unwrap()[..] == [AskOutcome::Unverified]);
    node.admit(1, fixed(100), 20);
    let probe = only(node.flush(later(200)));
    let CountSync::Window(sent) = probe.exchange.syncs[0].counts else { panic!("a window") };
    assert_eq!(sent.current.component, 20, "not what it was when the request asked");
}

#[test]
fn holds_end_once_and_also_while_a_call_is_in_flight() {
    let mut node = Node::new();
    let both = [1, 2].map(|key| item(key, fixed(5), 1, AskReason::Cold));
    let (id, calls, reserved) = node.ask(&both);
    for call in calls {
        assert!(node.bring(call).is_empty());
    }
    let held = reserved.try_recv().unwrap();
    assert!(held.len() == 2 && held.iter().all(|outcome| matches!(outcome, AskOutcome::Held { .. })));
    let in_flight = only(node.ask(&[AskItem { accuracy: Accuracy::Exact, ..both[0] }]).1);
    node.region.complete(id);
    let names = |call: &OutgoingExchange| {
        call.exchange.syncs.iter().filter(|sync| !sync.ended_holds.is_empty()).count()
    };
    let release = only(node.flush(later(50)));
    assert_eq!(
        (release.exchange.syncs.len(), names(&release)),
        (1, 1),
        "the key whose call is in flight waits"
    );
    node.bring(release);
    node.bring(in_flight);
    let release = only(node.flush(later(100)));
    assert_eq!(names(&release), 1);
    node.bring(release);
    assert!(node.flush(later(150)).is_empty(), "there is nothing left to say");
    assert!(node.region.is_idle());
}

/// Begins to ask about a key each.
fn begin_all(node: &Node, items: &[AskItem]) -> (Vec<KeyId>, Vec<mpsc::Receiver<AskOutcomes>>) {
    let begun = items.iter().map(|item| node.begin(&[*item]));
    let begun = begun.map(|(_, effects, hear)| (effects.asked_keys.to_vec(), hear));
    let (keys, hear): (Vec<_>, Vec<_>) = begun.unzip();
    (keys.concat(), hear)
}

#[test]
fn asks_that_come_together_leave_in_one_call() {
    let mut node = Node::new();
    let limits = [(1, 5), (2, 5), (1, 5), (3, 2)];
    let items = limits.map(|(key, limit)| item(key, fixed(limit), 3, AskReason::Cold));
    let (keys, hear) = begin_all(&node, &items);
    let call = only(node.send_asked(&keys));
    let asks: Vec<_> = call.exchange.syncs.iter().map(|sync| sync.request.asks.to_vec()).collect();
    assert_eq!(asks, [vec![3, 3], vec![3], vec![3]], "one call, and a key is named once");
    assert_eq!(node.region.counters().counts_by_name()[0], ("origin_exchanges", 1));
    assert!(node.bring(call).is_empty());
    let heard: Vec<_> = hear.iter().map(|hear| hear.try_recv().unwrap()[0]).collect();
    assert_eq!(heard, [AskOutcome::Granted, AskOutcome::Granted, refused(), refused()]);
}

#[test]
fn a_call_carries_so_many_keys_and_those_of_one_shard_alone() {
    let node = Node::new();
    let items: Vec<_> = (0..70).map(|key| item(key, fixed(5), 1, AskReason::Cold)).collect();
    let (keys, _hear) = begin_all(&node, &items);
    let shard_of = |key: KeyId| ShardId(u32::try_from(key.get() % 2).unwrap());
    let calls = node.region.send_asks(&node.table, &keys, NOW, &shard_of).send;
    let sizes = calls.iter().map(|call| (call.shard.0, call.exchange.syncs.len()));
    assert_eq!(sizes.collect::<Vec<_>>(), [(0, 32), (1, 32), (0, 3), (1, 3)]);
    assert!(calls.iter().all(|call| call.exchange.syncs.iter().all(|sync| shard_of(sync.key) == call.shard)));
}

/// What is published meanwhile holds the key: who asked goes with the call after that.
#[test]
fn who_asked_waits_for_a_publish_that_left_first() {
    let mut node = Node::new();
    let asked = item(1, fixed(100), 1, AskReason::Cold);
    let known = only(node.ask(&[asked]).1);
    node.bring(known);
    node.admit(1, fixed(100), 2);
    let (_, begun, hear) = node.begin(&[asked]);
    let publish = only(node.flush(NOW));
    assert!(node.send_asked(&begun.asked_keys).is_empty(), "one call of a key at a time");
    for call in node.bring(publish) {
        node.bring(call);
    }
    assert_eq!(hear.try_recv().unwrap()[..], [AskOutcome::Granted]);
}

/// A flush that came between an ask and its call found nothing to publish, and forgot who had asked.
#[test]
fn a_flush_that_has_nothing_to_say_of_a_key_forgets_nobody_who_asked() {
    let mut node = Node::new();
    let item = item(1, fixed(5), 1, AskReason::Cold);
    let (_, effects, hear) = node.begin(&[item]);
    node.table.requeue(item.key, PublishUrgency::Soon);
    assert!(node.flush(NOW).is_empty());
    let call = only(node.send_asked(&effects.asked_keys));
    node.bring(call);
    assert_eq!(hear.try_recv().unwrap()[..], [AskOutcome::Granted]);
}

#[test]
fn who_gave_up_before_the_call_left_isnt_asked_for() {
    let node = Node::new();
    let (id, begun, _hear) = node.begin(&[item(1, fixed(5), 1, AskReason::Cold)]);
    node.region.give_up(id);
    assert!(node.send_asked(&begun.asked_keys).is_empty());
    assert!(node.region.is_idle());
}

/// An old entry may name an epoch that the store has dropped: a node that went by it would lead the store there, and drop
/// what was counted since.
#[test]
fn only_a_node_that_has_read_the_log_of_resets_lately_goes_by_its_entries() {
    let mut node = Node::new();
    let (_, calls, _hear) = node.ask(&[item(1, fixed(5), 3, AskReason::Cold)]);
    node.bring(only(calls));
    let key = KeyId::from_hash(1);
    let reads = |number: u16, at: Moment| {
        let position = ResetPosition { log: 7, number: u64::from(number) };
        let resets = vec![Reset { key, epoch: number }];
        node.region.take_resets(&node.table, &ResetLog { position, has_gap: false, resets }, at.now);
        let state = node.table.state(key).expect("the key was asked about");
        (state.epoch(), state.is_unconfirmed())
    };
    assert_eq!(reads(1, NOW), (0, true), "it has never read the log: it asks about the key");
    assert_eq!(reads(2, later(400)), (2, false), "it has just read the log: the reset is new");
    assert_eq!(reads(3, later(30_000)), (2, true), "it stood still: it asks");
}
