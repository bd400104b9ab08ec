//! Redis: nothing is ever left there for good.

use crate::messages::{Saying, fixed, gcra, key, millis, per_second, seconds, sliding};
use crate::region::Region;
use tidegate_core::exchange::Fading;
use tidegate_core::origin_cell::NodeId;
use tidegate_core::{CellId, Nanos, Rate, Sequence, WorldPolicy, WorldView};
use tidegate_origin::{
    Expiry, Heartbeat, LeaderCandidate, LeaderRequest, OriginId, PublishRequest, WorldCell,
};

/// Every key, and how long it still lives; a negative number stands for always.
async fn lifetimes(region: &Region) -> Vec<(String, i64)> {
    let mut lifetimes = Vec::new();
    for name in region.server().demand(&["KEYS", "*"]).await.items() {
        let name = name.text().unwrap();
        let left_ms = region.server().demand(&["PTTL", &name]).await.integer().unwrap();
        lifetimes.push((name, left_ms));
    }
    lifetimes
}

#[tokio::test]
async fn every_key_expires() {
    let region = Region::redis().await;
    let now = region.now().await;
    let fading = Fading { end: now.plus(seconds(5)), period: seconds(10) };
    for epoch in [0, 1] {
        let window = sliding(1, 10, now, fading).at_epoch(epoch).publishing(1, 5).publishing_previous(2, 2);
        region.sync(1, window.clone().asking(&[1]).drawing()).await;
        region.sync(2, window.publishing_previous(0, 9).asking(&[1]).holding(7)).await;
        region.sync(2, fixed(2, 10, now).at_epoch(epoch).asking(&[1]).holding(7)).await;
        region.sync(1, gcra(3, per_second(1), 10).at_epoch(epoch).asking(&[3])).await;
        region.sync(1, gcra(4, per_second(1), 10).at_epoch(epoch).asking(&[3]).holding(7)).await;
    }
    let shard = region.origin().shard_of(key(5));
    region.origin().reset(shard, key(5), 0, Expiry { at: now.plus(seconds(100)), now }).await.unwrap();
    let heartbeat = Heartbeat {
        node: NodeId(1),
        fingerprint: 1,
        alive_for: Nanos::from_secs(5),
        leaves: false,
        applied: 0,
        acceptance: tidegate_origin::Acceptance::New,
    };
    region.origin().beat(heartbeat).await.unwrap();
    let (node, proposed) = (NodeId(1), Some(OriginId { id: 1, incarnation: 1 }));
    let lead = LeaderCandidate { node, request: LeaderRequest::Lead { lease: seconds(5) }, proposed };
    region.origin().lead(lead).await.unwrap();
    region.origin().beat(Heartbeat { applied: 3, ..heartbeat }).await.unwrap();
    let view = WorldView { regions: 3, version: 7, policy: WorldPolicy::Headroom };
    region.origin().publish_world_view(view).await.unwrap();
    let cell = CellId { key: key(6), epoch: 0, sequence: Sequence(1) };
    let expires = now.plus(seconds(60));
    region.origin().import(&[WorldCell { cell, own: 1, others: 0, expires }], now).await.unwrap();
    region
        .origin()
        .enqueue_publish_requests(&[PublishRequest { cell, limit: 1, expires, name: "".into() }])
        .await
        .unwrap();
    let lifetimes = lifetimes(&region).await;
    assert_eq!(lifetimes.len(), 10 + 5 + 2 + 8, "{lifetimes:?}");
    assert!(lifetimes.iter().all(|(_, left_ms)| *left_ms > 0), "{lifetimes:?}");
}

#[tokio::test]
async fn a_cell_lives_as_long_as_was_said_and_an_arrival_time_a_minute_longer_than_itself() {
    let region = Region::redis().await;
    let now = region.now().await;
    let until = |length: Nanos| {
        move |window: &mut tidegate_core::exchange::WindowSync| {
            window.current.expires = now.plus(length);
        }
    };
    region.sync(1, fixed(1, 10, now).at_epoch(2).window(until(seconds(50)))).await;
    region.sync(1, fixed(1, 10, now).at_epoch(2).window(until(seconds(20)))).await;
    region.sync(1, gcra(2, per_second(1), 100).asking(&[40])).await;
    for (name, left_ms) in lifetimes(&region).await {
        let expected_ms = if name.ends_with(":g") { 100_000..=115_010 } else { 45_000..=50_001 };
        assert!(expected_ms.contains(&left_ms), "{name}: {left_ms} ms");
    }
    region.sync(2, fixed(1, 10, now).at_epoch(2).window(until(seconds(90)))).await;
    region.sync(1, gcra(2, per_second(1), 100).asking(&[30])).await;
    for (name, left_ms) in lifetimes(&region).await {
        let expected_ms = if name.ends_with(":g") { 130_000..=145_010 } else { 85_000..=90_001 };
        assert!(expected_ms.contains(&left_ms), "{name}: {left_ms} ms");
    }
    // What is over when it is published leaves nothing behind.
    region.forget().await;
    let over = || fixed(3, 10, now).at_epoch(1).window(until(Nanos::ZERO)).publishing(1, 1);
    region.sync(1, over()).await;
    region.sync(1, over().asking(&[1]).holding(5)).await;
    region.wait(millis(5)).await;
    assert_eq!(lifetimes(&region).await, []);
}

#[tokio::test]
async fn a_debt_of_centuries_can_be_stored() {
    let region = Region::redis().await;
    let slowest = Rate::new(1, seconds(366 * 86_400)).unwrap();
    region.sync(1, gcra(1, slowest, 1 << 53).asking(&[1 << 53])).await;
    assert!(lifetimes(&region).await[0].1 > 0);
}
