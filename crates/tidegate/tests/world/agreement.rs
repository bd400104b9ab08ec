//! What one region admits is seen in the others, and nothing else is.

use crate::fleet::{Algorithm, Limit};
use crate::regions::{Regions, SEEN_WITHIN, hourly, world_of};
use crate::support::{poll, request_with};

#[test]
fn counts_of_one_region_are_seen_in_the_other_and_named_for_people() {
    let world = Regions::start(2);
    let limit = Limit::new("Zoë", 1_000);
    let [here, there] = &world.regions[..] else { panic!("two regions") };
    for _ in 0..250 {
        assert!(here.nodes[0].ask(&limit).is_allowed());
        assert!(here.nodes[1].ask(&limit).is_allowed());
    }
    let seen = poll("half of the limit", SEEN_WITHIN, || {
        let remaining = there.remaining(&limit);
        (remaining <= 520).then_some(remaining)
    });
    assert!(seen > 200, "INV-2: nothing counts twice, {seen} are left");
    let names = poll("a row for people", SEEN_WITHIN, || {
        let rows = world.query("SELECT tenant, namespace, rule, identifier FROM tidegate_counts LIMIT 1");
        (!rows.is_empty()).then_some(rows)
    });
    assert_eq!(names, [["default", "shared", "", "Zoë"]]);
    // Once it has come to rest, the row is exact.
    poll("an exact row", SEEN_WITHIN, || (world.components(&limit).first() == Some(&500)).then_some(()));
    let worker = &here.nodes[here.wait_worker(SEEN_WITHIN)];
    let state = world_of(worker);
    assert_eq!((&state["policy"], &state["breaker"]), (&"headroom".into(), &"closed".into()), "{state}");
    assert_eq!(state["regions"].as_array().map(Vec::len), Some(2), "{state}");
    assert!(state["world_rows_published"].as_u64() > Some(0), "{state}");
    let metrics = request_with(&worker.node.admin, "GET /metrics", "", "");
    assert!(metrics.contains("tidegate_world_rows_published_total") && metrics.contains("world_worker 1"));
}

#[test]
fn a_denial_changes_no_other_regions_allowance() {
    let world = Regions::start(2);
    let [here, there] = &world.regions[..] else { panic!("two regions") };
    let cold = hourly("cold", 100).algorithm(Algorithm::Sliding);
    for node in &here.nodes {
        assert!(!node.ask(&cold.clone().cost(101)).is_allowed());
    }
    let worker = &here.nodes[here.wait_worker(SEEN_WITHIN)];
    let looked = || world_of(worker)["world_rows_published"].as_u64();
    poll("another key", SEEN_WITHIN, || {
        here.nodes[0].ask(&hourly("other", 10));
        (looked() > Some(0)).then_some(())
    });
    assert_eq!(world.components(&cold), [0_u64; 0]);
    let admitted = (0..120).filter(|_| there.nodes[0].ask(&cold).is_allowed()).count();
    assert_eq!(admitted, 100);
}

#[test]
fn a_limit_of_the_region_stays_there() {
    let world = Regions::start(2);
    let body = |scope: &str| {
        let limit = r#""namespace":"shared","identifier":"mine","limit":100,"duration_ms":31536000000"#;
        format!("{{{limit},\"algorithm\":\"fixed\",\"scope\":\"{scope}\"}}")
    };
    let [here, there] = &world.regions[..] else { panic!("two regions") };
    let mut caller = here.nodes[0].caller();
    (0..90).for_each(|_| drop(caller.post("/v1/limit", &body("region"))));
    let other = Limit::new("other", 100);
    (0..90).for_each(|_| drop(caller.ask(&other)));
    poll("the other limit", SEEN_WITHIN, || (there.remaining(&other) < 50).then_some(()));
    assert_eq!(world.components(&Limit::new("mine", 100)), [0_u64; 0]);
    assert!(there.nodes[0].caller().post("/v1/limit", &body("region")).remaining() == 99);
}

#[test]
fn a_reset_in_one_region_starts_the_key_afresh_in_the_other() {
    let world = Regions::start(2);
    let limit = Limit::new("again", 100);
    let [here, there] = &world.regions[..] else { panic!("two regions") };
    (0..100).for_each(|_| drop(here.nodes[0].ask(&limit)));
    poll("a limit that is used up", SEEN_WITHIN, || (there.remaining(&limit) == 0).then_some(()));
    let reset = here.nodes[1].caller().post("/v1/reset", &limit.json());
    assert_eq!((reset.status, &reset.body["reset"]), (200, &1.into()), "{}", reset.body);
    // Both nodes there deny by themselves, and ask nobody.
    for node in &there.nodes {
        poll("a new beginning", SEEN_WITHIN, || node.ask(&limit).is_allowed().then_some(()));
    }
}
