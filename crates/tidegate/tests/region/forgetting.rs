//! A store that forgets, or whose answers are lost: what the nodes know heals it, and the limit holds.

use crate::fleet::{Algorithm, Limit, Member, fleet, wait_for};
use crate::load::{Load, under_load};
use crate::store::{command, total_of};
use crate::support::{SOON, poll};
use std::ops::RangeInclusive;
use std::time::Duration;
use tidegate_testkit::{FaultProxy, ProxyFault, Redis, RespValue, Sentinel};

const LIMIT: u64 = 1000;
/// While the store is gone, nodes admit without knowing of each other's: that is what `paid` means.
const SLOWLY: Duration = Duration::from_millis(100);
const FAST: Duration = Duration::from_millis(3);
const LONG: Duration = Duration::from_secs(10);

fn limit() -> Limit {
    Limit::new("forgotten", LIMIT)
}

/// The limit is used up in full, and by hardly more.
fn assert_near_the_limit(admitted: u64) {
    assert_within(95..=105, admitted);
}

/// Of a hundredth of the limit each.
fn assert_within(percent: RangeInclusive<u64>, admitted: u64) {
    println!("admitted {admitted} of {LIMIT}");
    let (least, most) = (LIMIT * percent.start() / 100, LIMIT * percent.end() / 100);
    assert!((least..=most).contains(&admitted), "{admitted}");
}

#[test]
fn a_store_that_was_emptied_hears_everything_again() {
    let redis = wait_for(Redis::start());
    let nodes = fleet(&redis.url(), 3, &[]);
    for algorithm in [Algorithm::Sliding, Algorithm::Fixed, Algorithm::Gcra] {
        let admitted = under_load(&nodes, &limit().algorithm(algorithm), |load| {
            load.wait_admitted(LIMIT * 60 / 100);
            command(&redis, &["FLUSHALL"]);
        });
        // A GCRA's arrival time is restored by the node that knows most; what the others hadn't published yet
        // isn't added to it.
        assert_within(if algorithm == Algorithm::Gcra { 95..=110 } else { 95..=105 }, admitted);
    }
}

/// Requests take effect, and nobody hears of it.
#[test]
fn answers_that_were_lost_are_made_up_for() {
    let redis = wait_for(Redis::start());
    let proxy = wait_for(FaultProxy::start(redis.address()));
    let address = proxy.address().to_string();
    let nodes = fleet(&format!("redis://{address}"), 3, &[]);
    let admitted = under_load(&nodes, &limit(), |load| {
        load.wait_admitted(LIMIT / 2);
        load.set_pace(SLOWLY);
        proxy.set(ProxyFault::DropToClient);
        nodes.iter().for_each(|node| node.wait_breaker(&address, true, SOON));
        load.wait_admitted(LIMIT * 60 / 100);
        proxy.set(ProxyFault::None);
        go_on_when_told(&nodes, &address, &redis, load);
    });
    assert_near_the_limit(admitted);
    wait_told(&redis, || admitted);
}

/// The store has heard of everything that was admitted so far.
fn wait_told(store: &Redis, admitted: impl Fn() -> u64) {
    poll("the store's count of it all", LONG, || {
        let admitted = admitted();
        (total_of(store, &limit()) >= admitted).then_some(())
    });
}

fn go_on_when_told(nodes: &[Member], address: &str, store: &Redis, load: &Load) {
    nodes.iter().for_each(|node| node.wait_breaker(address, false, LONG));
    wait_told(store, || load.admitted());
    load.set_pace(FAST);
}

/// The replica gets no more from here on: its primary ends the connection, and takes it back no more.
fn cut_off_the_replica(group: &Sentinel) {
    let [primary, replica] = group.servers();
    command(primary, &["ACL", "SETUSER", "default", "-psync", "-sync", "-replconf"]);
    command(primary, &["CLIENT", "KILL", "TYPE", "replica"]);
    let status = || wait_for(replica.info("master_link_status")).unwrap();
    poll("a replica that is cut off", SOON, || (status().as_deref() == Some("down")).then_some(()));
}

fn fail_over(group: &Sentinel, nodes: &[Member], load: &Load) {
    let [primary, replica] = group.servers();
    load.wait_admitted(LIMIT * 40 / 100);
    cut_off_the_replica(group);
    let known = total_of(replica, &limit());
    load.wait_admitted(LIMIT * 60 / 100);
    load.set_pace(SLOWLY);
    let before = wait_for(group.kill_primary());
    assert_eq!(before, primary.address());
    assert_eq!(wait_for(group.wait_replaced(before)), replica.address());
    println!("the new primary knew of {known}; by now {} are admitted", load.admitted());
    go_on_when_told(nodes, &replica.address().to_string(), replica, load);
}

#[test]
fn a_replica_that_missed_the_last_writes_is_brought_up_to_date() {
    let group = wait_for(Sentinel::start());
    let nodes = fleet(&group.url(), 3, &[]);
    let admitted = under_load(&nodes, &limit(), |load| fail_over(&group, &nodes, load));
    assert_near_the_limit(admitted);
    let promoted = &group.servers()[1];
    assert_eq!(
        command(promoted, &["ROLE"]).items().first().and_then(RespValue::text).as_deref(),
        Some("master")
    );
    wait_told(promoted, || admitted);
}
