//! A cluster with a dead primary: its own keys follow their class, all others notice nothing, and its
//! replica is followed without a restart.

use crate::fleet::{Limit, Member, PATIENT, fleet, wait_for};
use crate::load::drain;
use crate::store::{command, tag, total_of};
use crate::support::{SOON, poll};
use tidegate_testkit::{Redis, RedisCluster};

/// A limit that a primary keeps, for each of the first three.
pub(crate) fn one_limit_each(cluster: &RedisCluster, name: &str) -> Vec<Limit> {
    let addresses: Vec<_> = cluster.primaries()[..3].iter().map(Redis::address).collect();
    let mut found: Vec<Option<Limit>> = vec![None; 3];
    for number in 0.. {
        let limit = Limit::strict(&format!("{name}-{number}"), 40);
        let owner = wait_for(cluster.primary_of_slot(slot_of(cluster, &limit))).address();
        if let Some(index) = addresses.iter().position(|address| *address == owner) {
            found[index].get_or_insert(limit);
        }
        if found.iter().all(Option::is_some) {
            break;
        }
    }
    found.into_iter().flatten().collect()
}

pub(crate) fn slot_of(cluster: &RedisCluster, limit: &Limit) -> u16 {
    let slot = command(&cluster.primaries()[1], &["CLUSTER", "KEYSLOT", &tag(limit)]);
    u16::try_from(slot.integer().unwrap()).unwrap()
}

/// Asks until every shard has answered each node. Returns how much of each limit is used then: what was admitted, and what
/// was granted and given up because it couldn't be verified yet.
pub(crate) fn connect_all(cluster: &RedisCluster, nodes: &[Member], limits: &[Limit]) -> Vec<u64> {
    for limit in limits {
        nodes.iter().for_each(|node| drop(node.ask_until_verified(limit)));
    }
    limits.iter().map(|limit| total_of_all(cluster, limit)).collect()
}

#[test]
fn one_dead_primary_concerns_its_own_keys_alone() {
    let cluster = wait_for(RedisCluster::start());
    let nodes = fleet(&cluster.urls(), 2, &PATIENT);
    let limits = one_limit_each(&cluster, "shard");
    let addresses: Vec<String> =
        cluster.primaries().iter().map(|primary| primary.address().to_string()).collect();
    let admitted = connect_all(&cluster, &nodes, &limits);

    cluster.kill_primary(0);
    // Far from used up by what its class admits meanwhile.
    let (orphan, healthy) = (Limit { number: 1_000_000, ..limits[0].clone() }, &limits[1..]);
    for node in &nodes {
        let mut caller = node.caller();
        poll("an open breaker", SOON, || {
            let abuse = caller.ask(&orphan);
            assert!(!abuse.is_allowed() && abuse.is_unverified(), "{}", abuse.body);
            let paid = caller.ask(&orphan.clone().class("paid"));
            assert!(paid.is_allowed() && paid.is_unverified(), "{}", paid.body);
            for limit in healthy {
                // As if nothing had happened; a cost of nothing would not ask.
                let answer = caller.ask(&limit.clone().cost(100));
                assert!(!answer.is_allowed() && !answer.is_unverified(), "{}", answer.body);
            }
            (node.is_open(&addresses[0]) == Some(true)).then_some(())
        });
        for address in &addresses[1..] {
            assert_eq!(node.is_open(address), Some(false), "{address}");
        }
    }
    // The others count on, exactly.
    for (limit, admitted) in healthy.iter().zip(&admitted[1..]) {
        assert_eq!(drain(&nodes, limit), 40 - admitted);
    }

    wait_for(cluster.wait_promoted(0));
    let promoted = cluster.replicas()[0].address().to_string();
    for node in &nodes {
        node.ask_until_verified(&orphan);
        node.wait_breaker(&promoted, false, SOON);
        assert_eq!(node.is_open(&addresses[0]), None, "the dead one is no shard any more");
    }
    for limit in healthy {
        assert_eq!(drain(&nodes, limit), 0, "what was used up stays so");
    }
}

/// Wherever it is kept by now.
pub(crate) fn total_of_all(cluster: &RedisCluster, limit: &Limit) -> u64 {
    let owner = wait_for(cluster.primary_of_slot(slot_of(cluster, limit)));
    total_of(owner, limit)
}
