//! Who lives in the region, and who is kept out of it.

use crate::messages::millis;
use crate::region::Region;
use tidegate_core::origin_cell::NodeId;
use tidegate_core::{KeyId, WorldPolicy, WorldView};
use tidegate_origin::{Heartbeat, OriginError, Reset};

fn beat(node: u64) -> Heartbeat {
    Heartbeat { node: NodeId(node), fingerprint: 0xfeed, alive_for: millis(200), leaves: false, heard: 0 }
}

pub(crate) async fn nodes_join_leave_and_die(region: &Region) {
    let nodes = async |heartbeat| region.origin().beat(heartbeat).await.unwrap().nodes;
    let long = |node| Heartbeat { alive_for: millis(60_000), ..beat(node) };
    assert_eq!(nodes(long(1)).await, 1);
    assert_eq!(nodes(long(2)).await, 2);
    assert_eq!(nodes(long(2)).await, 2, "the same node again");
    assert_eq!(nodes(Heartbeat { leaves: true, ..long(2) }).await, 1);
    assert_eq!(nodes(Heartbeat { leaves: true, ..long(2) }).await, 1, "gone already");
    region.origin().beat(beat(3)).await.unwrap();
    region.wait(millis(201)).await;
    let alive = region.origin().beat(long(1)).await.unwrap();
    assert_eq!(alive.nodes, 1, "the third died");
    let now = region.now().await;
    assert!(alive.now <= now && now.minus(alive.now) < millis(5_000));
}

pub(crate) async fn another_secret_is_refused(region: &Region) {
    let mine = Heartbeat { alive_for: millis(60_000), ..beat(1) };
    region.origin().beat(mine).await.unwrap();
    let other = Heartbeat { node: NodeId(2), fingerprint: u64::MAX, ..mine };
    let refused = region.origin().beat(other).await;
    assert_eq!(refused, Err(OriginError::OtherSecret { theirs: 0xfeed, ours: u64::MAX }));
    assert_eq!(region.origin().beat(mine).await.unwrap().nodes, 1, "and it wasn't counted");
    region.forget().await;
    assert_eq!(region.origin().beat(other).await.unwrap().nodes, 1);
}

pub(crate) async fn every_node_hears_of_a_reset(region: &Region) {
    let told = async |resets| region.origin().tell_resets(resets).await.unwrap();
    assert_eq!(told(vec![]).await, []);
    let resets: Vec<Reset> = [(u128::MAX - 1, 1), (5, u16::MAX)]
        .map(|(key, epoch)| Reset { key: KeyId::from_hash(key), epoch })
        .into();
    told(resets.clone()).await;
    let mut heard = told(vec![]).await;
    heard.sort_by_key(|reset| std::cmp::Reverse(reset.key));
    assert_eq!(heard, resets);
}

pub(crate) async fn the_world_is_told_with_the_heartbeat(region: &Region) {
    let world = async || region.origin().beat(beat(1)).await.unwrap().world;
    assert_eq!(world().await, None);
    let view = WorldView { regions: 3, version: 7, policy: WorldPolicy::Headroom };
    region.origin().tell_world(view).await.unwrap();
    assert_eq!(world().await, Some(view));
    let older = WorldView { regions: 2, version: 6, ..view };
    region.origin().tell_world(older).await.unwrap();
    assert_eq!(world().await, Some(view), "an older worker was slow");
    let other = WorldView { policy: WorldPolicy::Floor { thousandths: 500 }, ..view };
    region.origin().tell_world(other).await.unwrap();
    assert_eq!(world().await, Some(other));
}
