//! A long window that many incarnations of nodes counted in: its hash becomes small by itself, and its count stays.

use crate::fleet::{Algorithm, Limit, PATIENT, fleet, wait_for};
use crate::store::{cell_of, command, total_of};
use crate::support::poll;
use std::time::Duration;
use tidegate_testkit::Redis;

const OWNERS: u64 = 15_000;

#[test]
fn fifteen_thousand_owners_of_a_window_are_folded_and_nothing_is_forgotten() {
    let redis = wait_for(Redis::start());
    let nodes = fleet(&redis.url(), 2, &PATIENT);
    let limit = Limit::strict("monthly", 100_000);
    assert!(nodes[0].ask(&limit).is_allowed() && nodes[1].ask(&limit).is_allowed());
    let cell = cell_of(&redis, &limit).expect("a cell").name;
    crowd(&redis, &cell, "3");
    let total = 3 * OWNERS + 2;
    for field in ["s", "f"] {
        command(&redis, &["HSET", &cell, field, &total.to_string()]);
    }
    let answer = nodes[0].ask(&limit);
    assert_eq!(answer.remaining(), 100_000 - total - 1);
    wait_small(&redis, &cell);
    assert_eq!(total_of(&redis, &limit), total + 1);
    for node in &nodes {
        assert!(node.ask(&limit).is_allowed());
    }
    let folded = cell_of(&redis, &limit).expect("a cell");
    assert_eq!(folded.components().values().sum::<u64>(), total + 3, "the components and their sum agree");
    assert_eq!(total_of(&redis, &limit), total + 3);
}

#[test]
fn a_bucket_that_many_nodes_used_is_folded_too() {
    let redis = wait_for(Redis::start());
    let nodes = fleet(&redis.url(), 2, &PATIENT);
    let limit = Limit::strict("bucket", 1_000).algorithm(Algorithm::Gcra);
    assert!(nodes[0].ask(&limit).is_allowed() && nodes[1].ask(&limit).is_allowed());
    let state = cell_of(&redis, &limit).expect("a state").name;
    crowd(&redis, &state, "1");
    let before = nodes[1].ask(&limit).remaining();
    wait_small(&redis, &state);
    assert_eq!(nodes[0].ask(&limit).remaining(), before - 1, "the bucket is as full as it was");
}

/// As if so many incarnations had counted here.
fn crowd(redis: &Redis, name: &str, component: &str) {
    for first in (0..OWNERS).step_by(500) {
        let fields =
            (first..first + 500).flat_map(|owner| [format!("c:{:016x}", owner + 1), component.to_owned()]);
        let words: Vec<String> = ["HSET".to_owned(), name.to_owned()].into_iter().chain(fields).collect();
        command(redis, &words.iter().map(String::as_str).collect::<Vec<_>>());
    }
    command(redis, &["HSET", name, "n", &(OWNERS + 2).to_string()]);
}

fn wait_small(redis: &Redis, name: &str) {
    let bytes = || command(redis, &["MEMORY", "USAGE", name, "SAMPLES", "0"]).integer().unwrap_or_default();
    assert!(bytes() > 1_000_000);
    poll("two owners", Duration::from_secs(60), || {
        (command(redis, &["HGET", name, "n"]).text().as_deref() == Some("2")).then_some(())
    });
    // The table of a hash shrinks with the next deletions only.
    assert!(bytes() < 200_000, "{} bytes", bytes());
}
