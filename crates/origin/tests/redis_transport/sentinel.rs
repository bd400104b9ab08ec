//! Sentinels: the master is found, and followed when it changes.

use super::support::{component, key, origin, publish, until_published};
use std::time::Duration;
use tidegate_origin::Origin;
use tidegate_testkit::{Sentinel, until};

const SOON: Duration = Duration::from_secs(3);
const FOLLOWED: Duration = Duration::from_secs(5);
/// Nothing fails when both servers live: the sentinels are asked every five seconds or so.
const NOTICED: Duration = Duration::from_secs(8);

#[tokio::test]
async fn the_master_is_found_while_a_sentinel_is_gone() {
    let group = Sentinel::start().await;
    group.kill_sentinel(0);
    let origin = origin(&group.url());
    until_published(&origin, key(0), SOON).await;
    assert_eq!(component(&publish(&origin, key(1), 5).await.unwrap()), 5);
    let master = group.primary_address().await.to_string();
    assert_eq!(origin.shard_name(origin.shard_of(key(1))), master);
}

#[tokio::test]
async fn a_killed_master_is_followed_to_its_successor() {
    let group = Sentinel::start().await;
    let origin = origin(&group.url());
    until_published(&origin, key(0), SOON).await;
    let shard = origin.shard_of(key(0));
    let before = group.kill_primary().await;
    let after = group.wait_replaced(before).await;
    let took = until_published(&origin, key(0), FOLLOWED).await;
    println!("a new master was followed {took:?} after all sentinels named it");
    assert_ne!(origin.shard_of(key(0)), shard, "another server is another shard");
    assert_eq!(origin.shard_name(origin.shard_of(key(0))), after.to_string());
    assert_eq!(origin.shards().len(), 1);
}

#[tokio::test]
async fn a_planned_failover_is_followed() {
    let group = Sentinel::start().await;
    let origin = origin(&group.url());
    until_published(&origin, key(0), SOON).await;
    let after = group.failover().await;
    until("the new master", NOTICED, || async {
        publish(&origin, key(0), 1).await.ok()?;
        (origin.shard_name(origin.shard_of(key(0))) == after.to_string()).then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_unknown_master_is_told() {
    let group = Sentinel::start().await;
    let url = group.url().replace("/tidegate", "/nobody");
    let origin = origin(&url);
    let error = until("what the sentinels say", SOON, || async {
        publish(&origin, key(0), 1).await.err().filter(|error| error.to_string().contains("knows no master"))
    });
    println!("{}", error.await);
    assert!(origin.shards().is_empty());
}
