//! A fixed number of warm decisions of one kind, to be counted by callgrind: `cargo xtask test` runs it twice
//! with different numbers and divides the difference, so a regression shows on a noisy machine too.
//!
//! `instructions CASE OPERATIONS`. CASE is one of hash, gcra, sliding, fixed, denied, five for a node that is
//! alone; five-denied is a request that the last of five limits denies, five-suspected the same once that is expected; of shared-gcra, shared-sliding, shared-five for one that shares its counts; of engine-memory,
//! engine-redis for what the whole engine does for a request of one given limit; engine-unwatched is the latter
//! without the look at who comes most often.

use smallvec::SmallVec;
use std::hint::black_box;
use tidegate_core::counts::CellReply;
use tidegate_core::exchange::{CountReply, CountSync, GrantRequest, KeyReply, KeySync};
use tidegate_core::gcra_sync::BusyPeriod;
use tidegate_core::identity::Shape;
use tidegate_core::origin_cell::NodeId;
use tidegate_core::state::State;
use tidegate_core::{
    Accuracy, Burst, Class, Cost, Decisions, FleetSecret, Item, KeyId, KeyPrefix, Limit, LocalState, Moment,
    Nanos, Outcome, Period, Rate, SharedState, Spec, Table,
};
use tidegate_node::region::RegionOptions;
use tidegate_node::{
    DecideOutcome, Engine, EngineOptions, GivenLimit, GivenPolicy, Purpose, Request, Subject,
};
use tidegate_rules::RuleSet;

const KEYS: u64 = 64;
const KEYS_MAX: usize = 10_000;
const NOW: Moment = Moment::at(Nanos::from_secs(1_800_000_000));
const FRESH_FOR: Nanos = Nanos::from_secs(5);
const LIVE_NODES: u32 = 3;
const NAMESPACE: &str = "bench";
const RULES: [&str; 5] = ["user", "key", "endpoint", "org", "global"];

fn main() {
    let mut args = std::env::args().skip(1).filter(|arg| arg != "--bench");
    let (Some(case), Some(operations)) = (args.next(), args.next().and_then(|text| text.parse().ok())) else {
        println!("usage: instructions CASE OPERATIONS");
        return;
    };
    let period = Period::new(Nanos::from_secs(60)).unwrap();
    let roomy = Limit::new(1 << 40).unwrap();
    let rate = Rate::new(1000, Nanos::from_secs(1)).unwrap();
    let gcra = (Spec::Gcra { rate, burst: Burst::new(1 << 40).unwrap() }, Shape::Gcra);
    let sliding = (Spec::Sliding { limit: roomy, period }, Shape::Sliding(period));
    let fixed = (Spec::Fixed { limit: roomy, period }, Shape::Fixed(period));
    let tight = (Spec::Sliding { limit: Limit::new(1).unwrap(), period }, Shape::Sliding(period));
    match case.as_str() {
        "gcra" => single(&alone(), gcra, operations),
        "sliding" => single(&alone(), sliding, operations),
        "fixed" => single(&alone(), fixed, operations),
        "denied" => single(&alone(), tight, operations),
        "five" => five(&alone(), sliding, operations),
        "five-denied" => five_denied(tight, sliding, None, operations),
        "five-suspected" => five_denied(tight, sliding, Some(4), operations),
        "shared-gcra" => single(&shared(&["user"], gcra), gcra, operations),
        "shared-sliding" => single(&shared(&["user"], sliding), sliding, operations),
        "shared-five" => five(&shared(&RULES, sliding), sliding, operations),
        "engine-memory" => requests(&Engine::new(engine_options(), RuleSet::default()), operations),
        "engine-redis" => requests(&sharing_engine(), operations),
        "engine-unwatched" => {
            let engine = sharing_engine();
            tidegate_node::top::stop_sampling();
            requests(&engine, operations);
        }
        "hash" => hash(operations),
        other => println!("unknown case {other}"),
    }
}

fn prefix(rule: &str, shape: Shape<'_>) -> KeyPrefix {
    KeyPrefix::new(&FleetSecret::BUILT_IN, "default", NAMESPACE, rule, shape)
}

/// 16 bytes that differ in the last.
fn text(number: u64) -> String {
    format!("user-00000000{:03}", number % KEYS)
}

fn texts() -> Vec<String> {
    (0..KEYS).map(text).collect()
}

/// As rules make it when they say nothing else. A lone node doesn't look at the accuracy.
fn item(key: KeyId, spec: Spec) -> Item {
    Item { accuracy: Accuracy::Bounded, class: Class::Paid, ..Item::new(key, spec, Cost::ONE) }
}

fn alone() -> Table<LocalState> {
    Table::new(KEYS_MAX)
}

/// A table that has heard of every key from its region lately: nobody is asked about any of them.
fn shared(rules: &[&str], (spec, shape): (Spec, Shape<'_>)) -> Table<SharedState> {
    let table = Table::new(KEYS_MAX);
    table.set_live_nodes(LIVE_NODES);
    for rule in rules {
        let prefix = prefix(rule, shape);
        texts().iter().for_each(|text| hear(&table, prefix.key(text), &spec));
    }
    table
}

/// The origin answers that others have admitted some, and that there is plenty left.
fn hear(table: &Table<SharedState>, key: KeyId, spec: &Spec) {
    let counts = table.aligned(key, spec, NOW).asking(spec, 1, NOW.now);
    let cell = CellReply { component: 0, total: 7, world: 0, published: 0 };
    let heard = match counts {
        CountSync::Window(_) => {
            CountReply::Window { current: cell, previous: Some(cell), owners: LIVE_NODES }
        }
        CountSync::Gcra { .. } => {
            let busy = BusyPeriod { tat: NOW.now.plus(Nanos::from_millis(7)), since: NOW.now };
            CountReply::Gcra { busy, stored: 0, owners: LIVE_NODES }
        }
    };
    let sent =
        KeySync { key, epoch: 0, counts, request: GrantRequest::default(), ended_holds: SmallVec::new() };
    let reply = KeyReply {
        epoch: 0,
        counts: heard,
        granted: SmallVec::new(),
        drawn: 0,
        retry_after: None,
        component_before: None,
    };
    let merge = |state: &mut SharedState| state.merge(&sent, &reply, NOW.now, Some(NOW.now.plus(FRESH_FOR)));
    table.upsert(key, NOW, merge).unwrap().unwrap();
}

fn single<S: State>(table: &Table<S>, (spec, shape): (Spec, Shape<'_>), operations: u64) {
    let prefix = prefix("user", shape);
    let texts = texts();
    for number in 0..operations {
        let key = prefix.key(black_box(&texts[usize::try_from(number % KEYS).unwrap()]));
        let decision = table.decide(&item(key, spec), NOW);
        black_box(decision.unwrap().is_admitted());
    }
}

fn five<S: State>(table: &Table<S>, (spec, shape): (Spec, Shape<'_>), operations: u64) {
    let prefixes = RULES.map(|rule| prefix(rule, shape));
    let texts = texts();
    let mut decisions = Decisions::new();
    for number in 0..operations {
        let text = black_box(&texts[usize::try_from(number % KEYS).unwrap()]);
        let items: [Item; 5] = std::array::from_fn(|limit| item(prefixes[limit].key(text), spec));
        black_box(table.decide_all(&items, NOW, &mut decisions).unwrap());
    }
}

/// The last limit is spent.
fn five_denied(
    (tight, _): (Spec, Shape<'_>),
    (roomy, shape): (Spec, Shape<'_>),
    suspect: Option<usize>,
    operations: u64,
) {
    let table = alone();
    let prefixes = RULES.map(|rule| prefix(rule, shape));
    let texts = texts();
    let specs = [roomy, roomy, roomy, roomy, tight];
    for (prefix, spec) in prefixes.iter().zip(specs) {
        for text in &texts {
            let _ = table.decide(&item(prefix.key(text), spec), NOW);
        }
    }
    let mut decisions = Decisions::new();
    for number in 0..operations {
        let text = black_box(&texts[usize::try_from(number % KEYS).unwrap()]);
        let items: [Item; 5] = std::array::from_fn(|limit| item(prefixes[limit].key(text), specs[limit]));
        let outcome = table.decide_all_predicting(&items, black_box(suspect), NOW, &mut decisions);
        assert_eq!(black_box(outcome), Ok(Outcome::Denied));
    }
}

fn engine_options() -> EngineOptions {
    EngineOptions { secret: FleetSecret::BUILT_IN, keys_max: KEYS_MAX }
}

fn given(identifier: &str) -> GivenLimit<'_> {
    let (limit, period) = (Limit::new(1 << 40).unwrap(), Period::new(Nanos::from_secs(60)).unwrap());
    GivenLimit {
        namespace: NAMESPACE,
        identifier,
        policy: GivenPolicy::Sliding { limit, period },
        cost: Cost::ONE,
        class: Class::Paid,
        accuracy: Accuracy::Bounded,
        scope: None,
    }
}

fn request<'a>(limits: &'a [GivenLimit<'a>]) -> Request<'a> {
    Request { tenant: "default", purpose: Purpose::Check, subject: Subject::Limits(limits) }
}

/// An engine whose region has answered about every key that will be asked for.
fn sharing_engine() -> Engine {
    let region = RegionOptions { node: NodeId(1), fresh_for: FRESH_FOR, seed: 1 };
    let engine = Engine::sharing(engine_options(), region, RuleSet::default());
    let rules = engine.rules();
    let table = &engine.shared().unwrap().table;
    table.set_live_nodes(LIVE_NODES);
    for text in texts() {
        let limits = [given(&text)];
        let Ok(DecideOutcome::Ask(asking)) = engine.decide(&rules, &request(&limits), NOW) else {
            panic!("a cold key asks");
        };
        let ask = asking.asks()[0];
        hear(table, ask.key, &ask.spec);
    }
    drop(rules);
    engine
}

/// What a front end calls for each request, and the look at what is urgent that follows.
fn requests(engine: &Engine, operations: u64) {
    let texts = texts();
    for number in 0..operations {
        let limits = [given(black_box(&texts[usize::try_from(number % KEYS).unwrap()]))];
        let rules = engine.rules();
        let answer = engine.decide(&rules, &request(&limits), NOW).unwrap().answer().unwrap();
        assert!(black_box(answer.allowed));
        black_box(engine.shared().is_some_and(|sharing| sharing.table.is_urgent()));
    }
}

fn hash(operations: u64) {
    let prefix = prefix("user", Shape::Gcra);
    let texts = texts();
    for number in 0..operations {
        black_box(prefix.key(black_box(&texts[usize::try_from(number % KEYS).unwrap()])));
    }
}
