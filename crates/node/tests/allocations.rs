//! The hot path allocates nothing: requests by rules and requests with limits, warm, keys up to 128 bytes.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use tidegate_core::{Cost, FleetSecret, Limit, Moment, Nanos, Period};
use tidegate_node::{Descriptor, Engine, EngineOptions, GivenLimit, GivenPolicy, Purpose, Request, Subject};
use tidegate_rules::{Attributes, RuleSet, Source};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

#[allow(unsafe_code)]
// SAFETY: hands everything to the system's allocator; the count is a thread-local cell without a destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const NOW: Moment = Moment::at(Nanos::from_secs(1_800_000_000));

fn engine() -> Engine {
    engine_of(16)
}

/// So many rules, all of which every request meets.
fn engine_of(rule_count: u32) -> Engine {
    let secret = FleetSecret::BUILT_IN;
    let mut rules = String::from("namespace: api\nrules:\n");
    for number in 0..rule_count {
        rules += &format!("  - {{ name: r{number}, key: [user, endpoint], limit: 1000000 per 1m }}\n");
    }
    let source = Source { name: "rules.yaml".into(), text: rules.into_bytes() };
    let set = RuleSet::parse(&[source], &secret).unwrap_or_else(|errors| panic!("{errors}"));
    Engine::new(EngineOptions { secret, keys_max: 1_000_000 }, set)
}

/// Allocations per 1,000 runs, after ten to warm up.
fn allocations(mut run: impl FnMut()) -> u64 {
    (0..10).for_each(|_| run());
    let before = ALLOCATIONS.get();
    (0..1000).for_each(|_| run());
    ALLOCATIONS.get() - before
}

#[test]
fn sixteen_rules_are_decided_without_allocating() {
    let engine = engine();
    let long = "x".repeat(128);
    let attributes = [("user", long.as_str()), ("endpoint", "/search")];
    let subject = Subject::Rules { namespace: "api", attributes: Attributes(&attributes), cost: Cost::ONE };
    let request = Request { tenant: "default", purpose: Purpose::Check, subject };
    let count = allocations(|| {
        let rules = engine.rules();
        let answer = engine.decide(&rules, &request, NOW).unwrap().answer().unwrap();
        assert!(answer.allowed && answer.limits.len() == 16);
    });
    assert_eq!(count, 0);
}

#[test]
fn sixteen_given_limits_are_decided_without_allocating() {
    let engine = engine();
    let period = Period::new(Nanos::from_secs(60)).unwrap();
    let names: Vec<String> = (0..16).map(|number| format!("{number:0128}")).collect();
    let limits: Vec<GivenLimit<'_>> = names
        .iter()
        .map(|identifier| GivenLimit {
            namespace: "n",
            identifier,
            policy: GivenPolicy::Sliding { limit: Limit::new(1 << 40).unwrap(), period },
            cost: Cost::ONE,
            class: tidegate_core::Class::Paid,
            accuracy: tidegate_core::Accuracy::Bounded,
            scope: None,
        })
        .collect();
    let request = Request { tenant: "default", purpose: Purpose::Check, subject: Subject::Limits(&limits) };
    let count = allocations(|| {
        let rules = engine.rules();
        assert!(engine.decide(&rules, &request, NOW).unwrap().answer().unwrap().allowed);
    });
    assert_eq!(count, 0);
}

#[test]
fn eight_descriptors_that_meet_two_rules_each_are_decided_without_allocating() {
    let engine = engine_of(2);
    let attributes = [("user", "42"), ("endpoint", "/search")];
    let one = Descriptor { attributes: Attributes(&attributes), cost: Cost::ONE, limit: None };
    let subject = Subject::Descriptors { namespace: "api", descriptors: &[one; 8] };
    let request = Request { tenant: "default", purpose: Purpose::Check, subject };
    let rules = engine.rules();
    let decide =
        || assert_eq!(engine.decide(&rules, &request, NOW).unwrap().answer().unwrap().limits.len(), 16);
    assert_eq!(allocations(decide), 0);
}
