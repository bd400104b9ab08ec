//! A cluster serves all slots, survives a primary's death, and grows.

use tidegate_testkit::{Redis, RedisBinary, RedisCluster, RespClient, RespValue};

/// The slots of these keys are in Redis' own documentation and tests.
const FOO_SLOT: u16 = 12_182;
const BAR_SLOT: u16 = 5_061;

async fn over_tcp(node: &Redis, command: &[&str]) -> RespValue {
    RespClient::connect(node.address()).await.unwrap().command(command).await.unwrap()
}

#[tokio::test]
async fn a_replica_takes_over_from_a_killed_primary() {
    let cluster = RedisCluster::start().await;
    assert_eq!(cluster.urls().split(',').count(), 3);
    assert!(cluster.urls().starts_with(&format!("redis+cluster://{}", cluster.primaries()[0].address())));
    let primary = cluster.primary_of_slot(BAR_SLOT).await;
    assert_eq!(primary.address(), cluster.primaries()[0].address());
    // On one connection: it waits for what was written there.
    let mut client = RespClient::connect(primary.address()).await.unwrap();
    client.command(&["SET", "bar", "1"]).await.unwrap();
    assert_eq!(client.command(&["WAIT", "1", "5000"]).await.unwrap(), RespValue::Integer(1));

    cluster.kill_primary(0);
    cluster.wait_promoted(0).await;
    let promoted = cluster.primary_of_slot(BAR_SLOT).await;
    assert_eq!(promoted.address(), cluster.replicas()[0].address());
    assert_eq!(over_tcp(promoted, &["GET", "bar"]).await, RespValue::Bulk(Some(b"1".to_vec())));
    let elsewhere = over_tcp(&cluster.primaries()[1], &["GET", "bar"]).await;
    assert_eq!(elsewhere, RespValue::Error(format!("MOVED {BAR_SLOT} {}", promoted.address())));
}

#[tokio::test]
async fn slots_move_to_an_added_primary_with_their_keys() {
    let mut cluster = RedisCluster::start_with(RedisBinary::V6_2).await;
    let added = cluster.add_primary().await;
    let (old, new) = (&cluster.primaries()[2], &cluster.primaries()[added]);
    over_tcp(old, &["SET", "foo", "1"]).await;

    cluster.begin_move(2, added, FOO_SLOT).await;
    assert!(!over_tcp(old, &["GET", "foo"]).await.is_error());
    let missing = over_tcp(old, &["GET", "{foo}2"]).await;
    assert_eq!(missing, RespValue::Error(format!("ASK {FOO_SLOT} {}", new.address())));

    cluster.move_slots(2, added, FOO_SLOT - 20..=FOO_SLOT).await;
    assert_eq!(cluster.primary_of_slot(FOO_SLOT).await.address(), new.address());
    assert_eq!(over_tcp(new, &["GET", "foo"]).await, RespValue::Bulk(Some(b"1".to_vec())));
    for other in &cluster.primaries()[..3] {
        let moved = over_tcp(other, &["GET", "foo"]).await;
        assert_eq!(moved, RespValue::Error(format!("MOVED {FOO_SLOT} {}", new.address())));
    }
}
