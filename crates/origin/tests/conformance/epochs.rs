//! Resets: a key moves on to new cells, and nothing of the old ones follows it there.

use crate::messages::{ReplyFields, Saying, fixed, gcra, key, per_second, seconds};
use crate::region::Region;
use tidegate_core::Nanos;
use tidegate_origin::Expiry;

async fn in_an_hour(region: &Region) -> Expiry {
    let now = region.now().await;
    Expiry { at: now.plus(seconds(3_600)), now }
}

async fn reset(region: &Region, number: u64) -> u16 {
    reset_above(region, number, 0).await
}

async fn reset_above(region: &Region, number: u64, known: u16) -> u16 {
    let shard = region.origin().shard_of(key(number));
    region.origin().reset(shard, key(number), known, in_an_hour(region).await).await.unwrap()
}

pub(crate) async fn a_reset_starts_afresh_for_every_node(region: &Region) {
    let sync = fixed(1, 10, region.now().await);
    assert!(region.sync(1, sync.clone().asking(&[10])).await.granted[0]);
    assert_eq!(reset(region, 1).await, 1);
    assert!(region.sync(1, sync.clone().at_epoch(1).asking(&[10])).await.granted[0]);
    assert_eq!(reset(region, 1).await, 2);
    let reply = region.sync(2, sync.at_epoch(2).asking(&[1])).await;
    assert_eq!((reply.epoch, reply.granted[0], reply.cell().total), (2, true, 1));
}

pub(crate) async fn an_order_is_carried_out_once_however_many_nodes_ask(region: &Region) {
    let expiry = in_an_hour(region).await;
    let shard = region.origin().shard_of(key(1));
    let order =
        |known: u16, order: u64| region.origin().reset_once(shard, key(1), known, expiry, Some(order));
    for known in [0, 0, 1] {
        assert_eq!(order(known, 7).await, Ok(1));
    }
    assert_eq!(reset(region, 1).await, 2, "whoever resets it otherwise still does");
    assert_eq!(order(0, 7).await, Ok(2));
    assert_eq!(order(2, 9).await, Ok(3));
    assert_eq!(order(0, 8).await, Ok(3), "an older order that comes late");
    // A key of its own.
    let other = region.origin().shard_of(key(2));
    assert_eq!(region.origin().reset_once(other, key(2), 4, expiry, Some(7)).await, Ok(5));
}

pub(crate) async fn a_node_that_missed_a_reset_publishes_nothing_and_asks_in_the_new_epoch(region: &Region) {
    let window = fixed(1, 10, region.now().await);
    region.sync(1, window.clone().publishing(9, 9)).await;
    reset(region, 1).await;
    region.sync(2, window.clone().at_epoch(1).publishing(3, 3)).await;
    let missed = window.clone().publishing(9, 9).asking(&[1, 1, 6]).settling(5);
    let told = region.sync(1, missed).await;
    assert_eq!((told.epoch, told.cell().component, told.cell().total, told.owners()), (1, 2, 5, 2));
    assert_eq!(told.granted.as_slice(), [true, true, false]);
    let held = region.sync(1, window.clone().asking(&[4]).holding(71)).await;
    assert!(held.granted[0] && held.epoch == 1);
    let after = region.sync(2, window.at_epoch(1).asking(&[1, 2])).await;
    assert_eq!((after.granted.as_slice(), after.cell().total), ([true, false].as_slice(), 6));

    let bucket = gcra(2, per_second(1), 10);
    let spent = region.sync(1, bucket.clone().asking(&[10])).await;
    assert_eq!(reset(region, 2).await, 1);
    let told = region.sync(1, bucket.clone().arrival(|arrival| arrival.busy = spent.busy())).await;
    assert_eq!((told.epoch, told.busy().tat, told.own(), told.owners()), (1, Nanos::ZERO, 0, 1));
    assert!(region.sync(2, bucket.at_epoch(1).asking(&[10])).await.granted[0]);
}

pub(crate) async fn a_node_that_knows_a_higher_epoch_raises_it(region: &Region) {
    let window = fixed(1, 10, region.now().await);
    let bucket = gcra(2, per_second(1), 10);
    for (number, sync) in [(1, window), (2, bucket)] {
        assert_eq!(region.sync(1, sync.clone().at_epoch(3)).await.epoch, 3);
        assert_eq!(region.sync(2, sync.clone()).await.epoch, 3);
        // A store that forgot is told again, and a reset goes on from there.
        region.forget().await;
        assert_eq!(region.sync(1, sync.clone().at_epoch(3)).await.epoch, 3);
        assert_eq!(reset(region, number).await, 4);
        assert_eq!(region.sync(1, sync.at_epoch(3)).await.epoch, 4);
        // So does one that comes before anybody has told it.
        region.forget().await;
        assert_eq!(reset_above(region, number, 4).await, 5);
    }
}
