//! Who lives in the region, and who is kept out of it.

use crate::messages::{key, millis};
use crate::region::Region;
use tidegate_core::origin_cell::NodeId;
use tidegate_core::{KeyId, WorldPolicy, WorldView};
use tidegate_origin::record::{Incarnation, Pulse};
use tidegate_origin::{
    Acceptance, DoneReset, Expiry, Heartbeat, OriginError, Reset, ResetLog, ResetNews, ResetPosition,
};

fn beat(node: u64) -> Heartbeat {
    Heartbeat {
        node: NodeId(node),
        fingerprint: 0xfeed,
        alive_for: millis(200),
        leaves: false,
        applied: 0,
        acceptance: Acceptance::New,
    }
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
    let refused_before = Heartbeat { acceptance: Acceptance::Refused, ..other };
    let refused = region.origin().beat(refused_before).await;
    assert!(
        matches!(refused, Err(OriginError::Refused { .. })),
        "it doesn't take the store over: {refused:?}"
    );
    assert_eq!(region.origin().beat(other).await.unwrap().nodes, 1, "one that is new may");
    let taken = |beat, times| Heartbeat { acceptance: Acceptance::Taken(times), ..beat };
    region.origin().beat(taken(other, 1)).await.unwrap();
    region.origin().beat(taken(other, 9)).await.unwrap();
    let ours = region.origin().beat(taken(mine, 9)).await;
    let theirs = OriginError::OtherSecret { theirs: u64::MAX, ours: 0xfeed };
    assert_eq!(ours, Err(theirs.clone()), "the other one was accepted as often");
    region.origin().beat(taken(mine, 10)).await.unwrap();
    let mine_is_there = OriginError::OtherSecret { theirs: 0xfeed, ours: u64::MAX };
    let refused = region.origin().beat(taken(other, 10)).await;
    assert_eq!(refused, Err(mine_is_there.clone()), "the fleet was here before");
    region.origin().beat(taken(mine, 150)).await.unwrap();
    let refused = region.origin().beat(taken(other, 1_000)).await;
    assert_eq!(refused, Err(mine_is_there), "a secret that was accepted for a minute isn't replaced");
    region.forget().await;
    region.origin().beat(taken(other, 100)).await.unwrap();
    region.origin().beat(taken(mine, 1_000)).await.unwrap();
    assert!(region.origin().beat(taken(other, 101)).await.is_err(), "the fleet was away for forty seconds");
}

pub(crate) async fn every_node_hears_of_a_reset(region: &Region) {
    let share = async |known, resets| {
        region.origin().share_resets(ResetNews { known, next_log: 7, resets }).await.unwrap()
    };
    let empty = share(None, vec![]).await;
    assert_eq!(
        empty,
        ResetLog { position: ResetPosition { log: 7, number: 0 }, has_gap: true, resets: vec![] }
    );
    let resets: Vec<Reset> = [(u128::MAX - 1, 1), (5, u16::MAX)]
        .map(|(key, epoch)| Reset { key: KeyId::from_hash(key), epoch })
        .into();
    share(None, resets.clone()).await;
    let read = share(Some(empty.position), vec![]).await;
    assert_eq!((read.position.number, read.has_gap), (2, false));
    assert!(resets.iter().all(|reset| read.resets.contains(reset)), "{read:?}");
    let nothing_new = share(Some(read.position), vec![]).await;
    assert_eq!((nothing_new.position, nothing_new.has_gap), (read.position, false));
    region.forget().await;
    let other = ResetNews { known: Some(read.position), next_log: 8, resets: vec![] };
    let other = region.origin().share_resets(other).await.unwrap();
    assert!(other.has_gap && other.position.log == 8, "the log is another one");
}

pub(crate) async fn a_node_that_missed_more_resets_than_are_kept_is_told_so(region: &Region) {
    let share = async |known, resets| {
        region.origin().share_resets(ResetNews { known, next_log: 7, resets }).await.unwrap()
    };
    let start = share(None, vec![]).await.position;
    let resets = |keys: std::ops::Range<u128>| keys.map(|key| Reset { key: KeyId::from_hash(key), epoch: 1 });
    share(Some(start), resets(0..900).collect()).await;
    assert!(!share(Some(start), vec![]).await.has_gap);
    share(Some(start), resets(900..1_200).collect()).await;
    let read = share(Some(start), vec![]).await;
    assert!(read.has_gap && read.position.number == 1_200 && read.resets.len() >= 1_000);
}

pub(crate) async fn a_reset_that_is_told_again_counts_once(region: &Region) {
    let (key, now) = (key(1), region.now().await);
    let expires = now.plus(millis(60_000));
    let expiry = Expiry { at: expires, now };
    let shard = region.origin().shard_of(key);
    let done = |epoch, reset_id| DoneReset { reset: Reset { key, epoch }, reset_id, expires };
    region.origin().restore_reset(shard, done(3, Some(9)), now).await.unwrap();
    region.origin().restore_reset(shard, done(2, None), now).await.unwrap();
    let ordered = async |reset_id| region.origin().reset_once(shard, key, 0, expiry, Some(reset_id)).await;
    assert_eq!(ordered(9).await, Ok(3), "it was carried out before the loss");
    assert_eq!(ordered(10).await, Ok(4));
    region.origin().restore_reset(shard, done(3, Some(9)), now).await.unwrap();
    assert_eq!(ordered(10).await, Ok(4));
}

pub(crate) async fn a_shard_that_lost_its_data_says_so_until_its_nodes_have_confirmed(region: &Region) {
    let origin = region.origin();
    let shard = origin.shards()[0];
    let pulse = |number, acked, known, confirmed| Pulse {
        node: NodeId(1),
        next: Incarnation(0xabc + number),
        number,
        acked,
        known,
        confirmed,
        alive_for: millis(1_500),
        leaves: false,
        adopts: acked == 0,
    };
    let first = origin.pulse(shard, pulse(1, 0, None, None)).await.unwrap().record;
    assert!(!first.is_recovering);
    let known = Some(first.incarnation);
    assert_eq!(origin.pulse(shard, pulse(2, 1, known, known)).await.unwrap().record, first);
    region.forget().await;
    let lost = origin.pulse(shard, pulse(3, 2, known, known)).await.unwrap().record;
    assert!(lost.is_recovering && lost.incarnation == Incarnation(0xabc + 3));
    let known = Some(lost.incarnation);
    assert!(origin.pulse(shard, pulse(4, 3, known, known)).await.unwrap().record.is_recovering, "too early");
    let ahead = origin.pulse(shard, pulse(6, 5, known, known)).await.unwrap().record;
    assert!(
        ahead.is_recovering && ahead.incarnation == Incarnation(0xabc + 6),
        "it knows of pulse 4 at most"
    );
}

pub(crate) async fn the_world_is_told_with_the_heartbeat(region: &Region) {
    let world = async || region.origin().beat(beat(1)).await.unwrap().world;
    assert_eq!(world().await, None);
    let view = WorldView { regions: 3, version: 7, policy: WorldPolicy::Headroom };
    region.origin().publish_world_view(view).await.unwrap();
    assert_eq!(world().await, Some(view));
    let older = WorldView { regions: 2, version: 6, ..view };
    region.origin().publish_world_view(older).await.unwrap();
    assert_eq!(world().await, Some(view), "an older worker was slow");
    let other = WorldView { policy: WorldPolicy::Floor { thousandths: 500 }, ..view };
    region.origin().publish_world_view(other).await.unwrap();
    assert_eq!(world().await, Some(other));
}
