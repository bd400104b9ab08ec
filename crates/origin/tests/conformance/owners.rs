//! Folding: a hash that every incarnation of a node left a field in becomes small, and nothing that was counted changes.

use crate::messages::{ReplyFields, SEQUENCE, Saying, fixed, gcra, key, millis, per_second, seconds};
use crate::region::{Region, stem};
use tidegate_core::exchange::{CountSync, KeySync};
use tidegate_core::origin_cell::NodeId;
use tidegate_origin::record::{Incarnation, Pulse};
use tidegate_origin::{CrowdedCell, FoldStep, FoldedOwners};

pub(crate) fn nodes(numbers: &[u64]) -> Vec<NodeId> {
    numbers.iter().map(|number| NodeId(*number)).collect()
}

pub(crate) fn first_step<'a>(sync: &KeySync, stays: &'a [NodeId]) -> FoldStep<'a> {
    let sequence = matches!(sync.counts, CountSync::Window(_)).then_some(SEQUENCE);
    FoldStep { cell: CrowdedCell { key: sync.key, epoch: sync.epoch, sequence }, cursor: 0, stays }
}

/// Folds everybody but the nodes that stay, and says how many steps that took and what came of the last.
pub(crate) async fn fold(region: &Region, sync: &KeySync, stays: &[u64]) -> (u32, FoldedOwners) {
    let shard = region.origin().shard_of(sync.key);
    let stays = nodes(stays);
    let (mut step, mut steps) = (first_step(sync, &stays), 0);
    loop {
        let folded = region.origin().fold_owners(shard, step).await.unwrap();
        steps += 1;
        step.cursor = folded.next;
        if folded.next == 0 {
            return (steps, folded);
        }
    }
}

pub(crate) async fn folding_changes_no_total_and_an_owner_that_is_back_counts_once(region: &Region) {
    let sync = fixed(1, 100_000, region.now().await);
    for node in 1..=300 {
        region.sync(node, sync.clone().publishing(node, 0)).await;
    }
    let total = 300 * 301 / 2;
    assert_eq!(fold(region, &sync, &[1, 300]).await.1.owners, 2);
    let first = region.sync(1, sync.clone().publishing(1, 0)).await;
    assert_eq!((first.cell().total, first.owners(), first.component_before), (total, 2, Some(1)));
    let back = region.sync(70, sync.clone().growing(75, 70, total)).await;
    assert_eq!((back.cell().total, back.owners(), back.component_before), (total + 5, 3, Some(70)));
    let again = region.sync(70, sync.clone().growing(75, 70, total)).await;
    assert_eq!((again.cell().total, again.owners(), again.component_before), (total + 5, 3, Some(75)));
    let new = region.sync(301, sync.clone().asking(&[7])).await;
    assert_eq!((new.cell().total, new.owners(), new.component_before), (total + 12, 4, None));
}

pub(crate) async fn a_folded_owner_of_a_bucket_is_charged_only_for_what_is_new(region: &Region) {
    let now = region.now().await;
    let bucket = gcra(1, per_second(1), 1_000);
    let publishing = |cumulative, acked| {
        bucket.clone().arrival(|sync| {
            (sync.cumulative, sync.acked, sync.oldest) = (cumulative, acked, now);
        })
    };
    for node in 1..=200 {
        region.sync(node, publishing(2, 0)).await;
    }
    let (before, owners) = fold(region, &bucket, &[1]).await;
    assert!(before > 0 && owners.owners == 1);
    let level = region.sync(1, publishing(2, 2)).await;
    let back = region.sync(9, publishing(5, 2)).await;
    assert_eq!((back.own(), back.owners(), back.component_before), (5, 2, Some(2)));
    assert_eq!(back.busy().tat, level.busy().tat.plus(seconds(3)), "three units are new");
}

pub(crate) async fn a_shard_remembers_the_nodes_that_sent_it_a_pulse(region: &Region) {
    let shard = region.origin().shard_of(key(0));
    for node in [5, 6] {
        let pulse = Pulse {
            node: NodeId(node),
            next: Incarnation(node),
            number: 1,
            acked: 0,
            known: None,
            confirmed: None,
            alive_for: millis(if node == 5 { 60_000 } else { 1 }),
            leaves: false,
            adopts: true,
        };
        region.origin().pulse(shard, pulse).await.unwrap();
    }
    region.wait(millis(5)).await;
    let mut remembered = region.origin().remembered_nodes(shard).await.unwrap();
    remembered.nodes.sort_unstable();
    assert_eq!((remembered.live, remembered.nodes), (1, vec![NodeId(5), NodeId(6)]));
}

/// The cell of a monthly limit after 15,000 incarnations.
#[tokio::test]
async fn a_hash_of_fifteen_thousand_owners_becomes_small_in_short_steps() {
    let region = Region::redis().await;
    let sync = fixed(1, 1 << 40, region.now().await);
    region.sync(1, sync.clone().publishing(10, 0)).await;
    let cell = format!("{}0:{}", stem(sync.key), SEQUENCE.0);
    let server = region.server();
    for first in (0..15_000_u64).step_by(500) {
        let mut command = vec!["HSET".to_owned(), cell.clone()];
        for owner in first..first + 500 {
            command.extend([
                format!("c:{:016x}", owner.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 << 63),
                "3".to_owned(),
            ]);
        }
        server.demand(&command).await;
    }
    server.demand(&["HSET", &cell, "s", "45010", "f", "45010", "n", "15001"]).await;
    let bytes = async || server.demand(&["MEMORY", "USAGE", &cell, "SAMPLES", "0"]).await.integer().unwrap();
    let before = bytes().await;
    let (steps, last) = fold(&region, &sync, &[1]).await;
    // A server gives the memory of an emptied table back when it comes to it.
    assert!(before > 1_000_000 && bytes().await < 200_000, "{before} bytes before, {} after", bytes().await);
    assert!(steps > 60, "{steps} steps: each must be short");
    assert_eq!(last.owners, 1);
    let reply = region.sync(1, sync.publishing(12, 0)).await;
    assert_eq!((reply.cell().total, reply.owners()), (45_012, 1));
    let ttl = server.demand(&["PTTL", &cell]).await.integer().unwrap();
    assert!(ttl > 0, "the cell still expires");
}
