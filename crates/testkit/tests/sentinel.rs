//! Sentinels name the primary, and another one when it dies or is told to step down.

use tidegate_testkit::{RespValue, Sentinel};

#[tokio::test]
async fn the_replica_takes_over_when_told_to() {
    let group = Sentinel::start().await;
    assert!(group.url().starts_with("redis+sentinel://127.0.0.1:") && group.url().ends_with("/tidegate"));
    let [first, second] = group.servers();
    assert_eq!(group.primary_address().await, first.address());
    // On one connection: it waits for what was written there.
    let mut client = first.client().await.unwrap();
    client.command(&["SET", "key", "value"]).await.unwrap();
    assert_eq!(client.command(&["WAIT", "1", "5000"]).await.unwrap(), RespValue::Integer(1));
    assert_eq!(group.failover().await, second.address());
    let value = group.primary().await.demand(&["GET", "key"]).await;
    assert_eq!(value, RespValue::Bulk(Some(b"value".to_vec())));
}

#[tokio::test]
async fn the_replica_takes_over_from_a_killed_primary() {
    let group = Sentinel::start().await;
    group.kill_sentinel(0);
    let killed = group.kill_primary().await;
    assert_eq!(killed, group.servers()[0].address());
    assert_eq!(group.wait_replaced(killed).await, group.servers()[1].address());
    group.primary().await.demand(&["SET", "key", "value"]).await;
}
