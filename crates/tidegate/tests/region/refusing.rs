//! A store that answers, and refuses to count: out of memory, read-only, loading, or without a login. Every node shows it
//! within two seconds, says it once, and admits what it can't check by the class of its rule.

use crate::fleet::{Limit, Member, PATIENT, fleet, pause, wait_for};
use crate::store::command;
use crate::support::{poll, request, request_with};
use std::collections::HashMap;
use std::time::Duration;
use tidegate_testkit::{Redis, RespValue};

/// What a node may take to show that its store is away, or back.
const SHOWN_WITHIN: Duration = Duration::from_secs(2);

fn shard(node: &Member) -> serde_json::Value {
    node.origin()["shards"][0].clone()
}

/// Every node says that its store is unavailable, with words of the server's or the connection's.
fn wait_unavailable(nodes: &[Member], words: &str) {
    for node in nodes {
        poll(&format!("a shard that is unavailable: {words}"), SHOWN_WITHIN, || {
            let shard = shard(node);
            let says = shard["problem"].as_str().is_some_and(|problem| problem.contains(words));
            (shard["data"] == "unavailable" && says).then_some(())
        });
        let metrics = request_with(&node.node.admin, "GET /metrics", "", "");
        let value = metrics.lines().find(|line| line.starts_with("tidegate_shard_unavailable{"));
        assert!(value.is_some_and(|line| line.ends_with(" 1")), "{value:?}");
    }
}

/// Every node says that its store is back: healthy, or recovering what was lost.
fn wait_back(nodes: &[Member]) {
    for node in nodes {
        poll("a shard that is back", SHOWN_WITHIN, || {
            let shard = shard(node);
            let is_back = shard["data"] == "healthy" || shard["data"] == "recovering";
            (is_back && shard["problem"].is_null()).then_some(())
        });
    }
}

fn lines_with(node: &Member, words: &str) -> usize {
    node.log().lines().filter(|line| line.contains(words)).count()
}

fn admitted(nodes: &[Member], limit: &Limit, requests: usize) -> usize {
    let mut callers: Vec<_> = nodes.iter().map(Member::caller).collect();
    let asks = (0..requests).flat_map(|_| 0..nodes.len());
    asks.filter(|node| callers[*node].ask(limit).is_allowed()).count()
}

#[test]
fn a_store_out_of_memory_is_shown_and_abuse_is_denied_until_it_is_back() {
    let redis = wait_for(Redis::start());
    let nodes = fleet(&redis.url(), 2, &PATIENT);
    wait_back(&nodes);
    let half = Limit::strict("half spent", 6);
    assert_eq!(admitted(&nodes[..1], &half, 3), 3);
    command(&redis, &["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    let page = "x".repeat(100_000);
    for index in 0..60 {
        command(&redis, &["SET", &format!("filler {index}"), &page]);
    }
    command(&redis, &["CONFIG", "SET", "maxmemory", "4mb"]);
    wait_unavailable(&nodes, "OOM command not allowed");
    // The new key on each node, the half spent one on both: nothing is granted that the store can't count.
    assert_eq!(admitted(&nodes, &Limit::strict("new", 5), 5), 0);
    assert_eq!(admitted(&nodes, &half, 5), 0);
    let paid = Limit::new("new", 5).exact();
    let answer = nodes[0].ask(&paid);
    assert!(answer.is_allowed() && answer.is_unverified(), "{}", answer.body);
    pause(SHOWN_WITHIN);
    for node in &nodes {
        assert_eq!(lines_with(node, "the store refuses writes"), 1, "{}", node.log());
        assert_eq!(lines_with(node, "the origin doesn't answer"), 0, "it answers");
    }
    command(&redis, &["CONFIG", "SET", "maxmemory", "0"]);
    wait_back(&nodes);
    for node in &nodes {
        node.wait_logged("the store accepts writes again");
        assert_eq!(lines_with(node, "the store accepts writes again"), 1, "{}", node.log());
    }
    poll("a verified admission", Duration::from_secs(10), || {
        (admitted(&nodes[1..], &Limit::strict("after", 1), 1) == 1).then_some(())
    });
    assert_eq!(admitted(&nodes, &half, 5), 3, "six in all");
}

#[test]
fn a_read_only_store_is_shown_and_does_not_flood_the_log() {
    let redis = wait_for(Redis::start());
    let nodes = fleet(&redis.url(), 1, &PATIENT);
    wait_back(&nodes);
    command(&redis, &["REPLICAOF", "127.0.0.1", "1"]);
    wait_unavailable(&nodes, "");
    poll("the server's message", SHOWN_WITHIN, || {
        shard(&nodes[0])["problem"].as_str()?.contains("READONLY").then_some(())
    });
    assert_eq!(admitted(&nodes, &Limit::strict("new", 5), 5), 0);
    pause(SHOWN_WITHIN);
    assert_eq!(lines_with(&nodes[0], "the store refuses writes"), 1, "{}", nodes[0].log());
    assert!(lines_with(&nodes[0], "WARN") <= 4, "{}", nodes[0].log());
    command(&redis, &["REPLICAOF", "NO", "ONE"]);
    wait_back(&nodes);
}

#[test]
fn a_dead_store_is_shown_on_a_node_that_nobody_asks() {
    let redis = wait_for(Redis::start());
    let nodes = fleet(&redis.url(), 2, &[]);
    wait_back(&nodes);
    let before: HashMap<_, _> =
        nodes.iter().map(|node| (node.node.http.clone(), lines_with(node, "\"WARN\""))).collect();
    redis.kill();
    wait_unavailable(&nodes, "not connected");
    for node in &nodes {
        // The charts go by this: at, admitted, denied, shards that are away.
        poll("a second without the store", SHOWN_WITHIN, || {
            let (_, history) = request(&node.node.admin, "GET", "/v1/history", "");
            (history["seconds"].as_array()?.last()?[3] == 1).then_some(())
        });
        // One of the server, with the reason, and one of what it means for the region.
        let warnings = lines_with(node, "\"WARN\"") - before[&node.node.http];
        assert!(warnings <= 2, "{}", node.log());
    }
    wait_for(redis.restart());
    wait_back(&nodes);
    redis.stop();
    wait_unavailable(&nodes, "");
    redis.resume();
    wait_back(&nodes);
}

#[test]
fn a_store_that_wants_a_password_is_shown_by_a_node_that_starts() {
    let redis = wait_for(Redis::start());
    command(&redis, &["CONFIG", "SET", "requirepass", "secret"]);
    let nodes = [Member::start(&redis.url(), &PATIENT)];
    wait_unavailable(&nodes, "NOAUTH");
    let limit = Limit::strict("new", 5);
    assert_eq!(admitted(&nodes, &limit, 5), 0);
    assert!(nodes[0].ask(&Limit::new("paid", 5)).is_unverified());
}

#[test]
fn a_store_that_loads_its_data_is_shown_until_it_has() {
    let (redis, primary) = (wait_for(Redis::start()), wait_for(Redis::start()));
    let nodes = fleet(&redis.url(), 2, &PATIENT);
    wait_back(&nodes);
    command(&primary, &["CONFIG", "SET", "repl-diskless-sync-delay", "0"]);
    let fill = "for i = 1, 20000 do redis.call('SET', 'filler ' .. i, i) end";
    command(&primary, &["EVAL", fill, "0"]);
    // A replica that takes its time, half a millisecond for each key.
    command(&redis, &["CONFIG", "SET", "key-load-delay", "500"]);
    command(&redis, &["CONFIG", "SET", "loading-process-events-interval-bytes", "1024"]);
    let address = primary.address();
    command(&redis, &["REPLICAOF", &address.ip().to_string(), &address.port().to_string()]);
    poll("a store that loads", Duration::from_secs(10), || {
        let answer = wait_for(redis.command(&["GET", "anything"])).ok()?;
        matches!(answer, RespValue::Error(problem) if problem.starts_with("LOADING")).then_some(())
    });
    wait_unavailable(&nodes, "LOADING");
    command(&redis, &["CONFIG", "SET", "key-load-delay", "0"]);
    poll("a store that has loaded", Duration::from_secs(10), || {
        let answer = wait_for(redis.command(&["GET", "anything"])).ok()?;
        (!matches!(answer, RespValue::Error(_))).then_some(())
    });
    command(&redis, &["REPLICAOF", "NO", "ONE"]);
    wait_back(&nodes);
}

/// A server that may remove keys by itself: said at once, and what it removed is published again, once a minute at most.
#[test]
fn a_store_that_evicts_is_told_about_and_gets_its_keys_back() {
    let redis = wait_for(Redis::start());
    command(&redis, &["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    let nodes = fleet(&redis.url(), 1, &PATIENT);
    nodes[0].wait_logged("the store removes keys when its memory is full");
    let limit = Limit::strict("evicted", 10);
    assert_eq!(admitted(&nodes, &limit, 4), 4);
    // As if the server had chosen this key: what it really evicts here are keys that expire sooner than ours.
    for name in crate::store::names_of(&redis, &limit) {
        command(&redis, &["DEL", &name]);
    }
    let evicted = || wait_for(redis.info("evicted_keys")).unwrap().unwrap_or_default();
    command(&redis, &["CONFIG", "SET", "maxmemory-policy", "volatile-ttl"]);
    let page = "x".repeat(100_000);
    for index in 0..20 {
        command(&redis, &["SET", &format!("filler {index}"), &page, "EX", "60"]);
    }
    let used: u64 = wait_for(redis.info("used_memory")).unwrap().unwrap().trim().parse().unwrap();
    command(&redis, &["CONFIG", "SET", "maxmemory", &(used - 300_000).to_string()]);
    poll("an eviction", SHOWN_WITHIN, || (evicted().trim() != "0").then_some(()));
    command(&redis, &["CONFIG", "SET", "maxmemory", "0"]);
    poll("the key again", Duration::from_secs(20), || {
        (crate::store::total_of(&redis, &limit) == 4).then_some(())
    });
    pause(Duration::from_secs(1));
    assert_eq!(lines_with(&nodes[0], "the store evicted keys"), 1, "{}", nodes[0].log());
    assert!(!nodes[0].log().contains("the store lost data"), "no recovery: {}", nodes[0].log());
}
