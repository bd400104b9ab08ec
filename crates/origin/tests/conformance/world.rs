//! What nodes and their world worker leave with the origin for each other.

use crate::messages::{ReplyFields, SEQUENCE, Saying, fixed, key, millis, seconds};
use crate::region::Region;
use std::sync::Arc;
use tidegate_core::counts::CellReply;
use tidegate_core::origin_cell::NodeId;
use tidegate_core::world::CREDIT_WAIT;
use tidegate_core::{CellId, Nanos, Sequence};
use tidegate_origin::{
    CellTotal, Heartbeat, LeaderCandidate, LeaderRequest, LeaderStatus, OriginId, PublishRequest, WorldCell,
};

fn cell(number: u64) -> CellId {
    CellId { key: key(number), epoch: 0, sequence: SEQUENCE }
}

fn request(number: u64, limit: u64) -> PublishRequest {
    let name = Arc::from("t\u{1f}n:a\u{1f}r\u{1f}Zoë: 5");
    PublishRequest { cell: cell(number), limit, expires: Nanos::from_secs(2_000_000_000), name }
}

async fn lead(region: &Region, node: u64, wish: LeaderRequest) -> LeaderStatus {
    let proposed = Some(OriginId { id: node * 100, incarnation: node * 1_000 });
    region.origin().lead(LeaderCandidate { node: NodeId(node), request: wish, proposed }).await.unwrap()
}

pub(crate) async fn one_node_leads_until_its_lease_ends_or_it_gives_up(region: &Region) {
    let long = LeaderRequest::Lead { lease: seconds(60) };
    let short = LeaderRequest::Lead { lease: millis(100) };
    assert!(lead(region, 1, long).await.is_leader);
    assert!(!lead(region, 2, long).await.is_leader);
    assert!(!lead(region, 2, LeaderRequest::GiveUp).await.is_leader, "it isn't another one's to give up");
    assert!(lead(region, 1, long).await.is_leader, "kept");
    assert!(!lead(region, 1, LeaderRequest::GiveUp).await.is_leader);
    assert!(lead(region, 2, short).await.is_leader);
    region.wait(millis(101)).await;
    assert!(lead(region, 1, long).await.is_leader, "the second's lease has ended");
}

pub(crate) async fn an_origin_keeps_its_id_and_a_forgetful_one_takes_the_id_it_had(region: &Region) {
    let long = LeaderRequest::Lead { lease: seconds(60) };
    let newcomer = LeaderCandidate { node: NodeId(9), request: long, proposed: None };
    let nobody = region.origin().lead(newcomer).await.unwrap();
    assert_eq!((nobody.origin, nobody.is_leader), (None, false), "others speak first");
    let first = OriginId { id: 100, incarnation: 1_000 };
    assert_eq!(lead(region, 1, long).await.origin, Some(first));
    assert_eq!(lead(region, 2, long).await.origin, Some(first));
    assert_eq!(region.origin().lead(newcomer).await.unwrap().origin, Some(first));
    region.forget().await;
    let proposed = Some(OriginId { incarnation: 77, ..first });
    let again =
        region.origin().lead(LeaderCandidate { node: NodeId(2), request: long, proposed }).await.unwrap();
    assert_eq!((again.origin, again.is_leader), (proposed, true), "the same id, in another life");
    let beat = |node, heard| Heartbeat {
        node: NodeId(node),
        fingerprint: 1,
        alive_for: seconds(60),
        leaves: false,
        applied: heard,
        acceptance: tidegate_origin::Acceptance::default(),
    };
    for heartbeat in [beat(1, 5), beat(2, 4), beat(3, 4)] {
        region.origin().beat(heartbeat).await.unwrap();
    }
    assert_eq!(lead(region, 2, long).await.applied_by_all, 4);
    assert_eq!(lead(region, 1, long).await.applied_by_all, 0, "told to the leader only");
    region.origin().beat(Heartbeat { leaves: true, ..beat(2, 4) }).await.unwrap();
    region.origin().beat(beat(3, 6)).await.unwrap();
    assert_eq!(lead(region, 2, long).await.applied_by_all, 5, "one that is gone goes by nothing");
    region.origin().beat(beat(4, 0)).await.unwrap();
    assert_eq!(lead(region, 2, long).await.applied_by_all, 0, "one that has heard of nothing yet");
}

pub(crate) async fn a_cell_is_queued_once_and_the_oldest_are_dequeued_first(region: &Region) {
    let origin = region.origin();
    assert_eq!(origin.dequeue_publish_requests(10).await.unwrap(), []);
    assert_eq!(origin.enqueue_publish_requests(&[request(5, 10)]).await.unwrap(), 0);
    region.wait(millis(2)).await;
    assert_eq!(
        origin.enqueue_publish_requests(&[request(9, 10), request(2, 10), request(5, 20)]).await.unwrap(),
        0
    );
    let first = origin.dequeue_publish_requests(2).await.unwrap();
    assert_eq!(first, [request(5, 20), request(2, 10)], "what was said last, where it was said first");
    assert_eq!(origin.dequeue_publish_requests(2).await.unwrap(), [request(9, 10)]);
    assert_eq!(origin.dequeue_publish_requests(2).await.unwrap(), []);
    let later =
        PublishRequest { cell: CellId { epoch: 3, sequence: Sequence(1 << 40), ..cell(1) }, ..request(1, 1) };
    origin.enqueue_publish_requests(std::slice::from_ref(&later)).await.unwrap();
    assert_eq!(origin.dequeue_publish_requests(2).await.unwrap(), [later]);
}

pub(crate) async fn a_full_publish_queue_rejects(region: &Region) {
    let origin = region.origin();
    for thousand in 0..20 {
        let requests: Vec<_> = (0..1_000).map(|number| request(thousand * 1_000 + number, 1)).collect();
        assert_eq!(origin.enqueue_publish_requests(&requests).await.unwrap(), 0);
    }
    assert_eq!(
        origin.enqueue_publish_requests(&[request(7, 5), request(70_000, 1)]).await.unwrap(),
        1,
        "only the new one"
    );
    assert_eq!(origin.dequeue_publish_requests(1).await.unwrap().len(), 1);
    assert_eq!(origin.enqueue_publish_requests(&[request(70_000, 1)]).await.unwrap(), 0);
}

pub(crate) async fn an_import_raises_the_total_and_registers_nobody(region: &Region) {
    let now = region.now().await;
    let import = async |own, others, published| {
        let expires = now.plus(seconds(60));
        let cells = [WorldCell { cell: cell(1), own, others, expires }];
        assert_eq!(region.origin().import(&cells, now).await.unwrap(), [Ok(published)]);
    };
    import(0, 0, 0).await;
    assert_eq!(region.cells().await, 0, "nothing is made for nothing");
    import(7, 5, 7).await;
    let sync = fixed(1, 100, now);
    let reply = region.sync(1, sync.clone()).await;
    let expected = CellReply { component: 0, total: 7, world: 5, published: 7 };
    assert_eq!((reply.cell(), reply.owners()), (expected, 1), "INV-5: an import makes nobody an owner");
    import(6, 4, 7).await;
    assert_eq!(region.sync(1, sync.clone()).await.cell(), expected, "INV-1: nothing shrinks");
    let grown = region.sync(1, sync.clone().publishing(9, 9)).await.cell();
    assert_eq!(grown, CellReply { component: 9, total: 9, world: 5, published: 7 });
    import(20, 6, 20).await;
    assert_eq!(
        region.sync(1, sync).await.cell(),
        CellReply { component: 9, total: 20, world: 6, published: 20 }
    );
}

pub(crate) async fn totals_are_read_with_what_is_published_of_them(region: &Region) {
    let now = region.now().await;
    region.sync(1, fixed(1, 100, now).publishing(9, 12)).await;
    region.sync(1, fixed(3, 100, now).publishing(4, 4)).await;
    let cells = [WorldCell { cell: cell(3), own: 3, others: 50, expires: now.plus(seconds(60)) }];
    region.origin().import(&cells, now).await.unwrap();
    let totals = region.origin().totals(&[cell(3), cell(2), cell(1)]).await.unwrap();
    let total = |total, published| Ok(CellTotal { total, published });
    assert_eq!(totals, [total(4, 3), total(0, 0), total(12, 0)]);
    assert_eq!(region.origin().totals(&[]).await.unwrap(), []);
    let many: Vec<CellId> = (0..1_000).map(cell).collect();
    assert_eq!(region.origin().totals(&many).await.unwrap().len(), 1_000);
}

/// Three regions share 1,000: half of what is left, divided by three.
pub(crate) async fn abuse_stops_at_the_world_credit_and_goes_on_when_it_is_published(region: &Region) {
    let now = region.now().await;
    let sync = || fixed(1, 1_000, now).window(|window| window.regions = 3);
    let asked = region.sync(1, sync().asking(&[100, 60, 60, 6])).await;
    assert_eq!(asked.granted.as_slice(), [true, true, false, true], "166 in all");
    assert_eq!(asked.retry_after, Some(CREDIT_WAIT));
    let others = fixed(1, 1_000, now).asking(&[200]);
    assert!(region.sync(2, others).await.granted[0], "other classes admit");
    assert!(!region.sync(2, sync().asking(&[1])).await.granted[0]);
    let published = [WorldCell { cell: cell(1), own: 366, others: 0, expires: now.plus(seconds(60)) }];
    region.origin().import(&published, now).await.unwrap();
    let asked = region.sync(1, sync().asking(&[105, 1])).await;
    assert_eq!(asked.granted.as_slice(), [true, false], "634 are left: 105");
}

pub(crate) async fn what_costs_more_than_the_credit_passes_when_nothing_is_unpublished(region: &Region) {
    let now = region.now().await;
    let sync = |number| fixed(number, 1_000, now).window(|window| window.regions = 3);
    for number in [1, 2] {
        let asked = region.sync(1, sync(number).publishing(0, number - 1).asking(&[900])).await;
        assert_eq!(asked.granted[0], number == 1);
    }
    assert!(!region.sync(2, sync(1).asking(&[1])).await.granted[0]);
}

pub(crate) async fn a_key_that_was_reset_elsewhere_is_reset_here(region: &Region) {
    let now = region.now().await;
    assert!(region.sync(1, fixed(1, 10, now).asking(&[10])).await.granted[0]);
    let marker = |epoch| {
        let cell = CellId { epoch, sequence: Sequence(0), ..cell(1) };
        WorldCell { cell, own: 0, others: 0, expires: now.plus(seconds(60)) }
    };
    region.origin().import(&[marker(2)], now).await.unwrap();
    let missed = region.sync(1, fixed(1, 10, now).asking(&[11])).await;
    assert_eq!((missed.epoch, missed.cell().total), (2, 0));
    region.origin().import(&[marker(1)], now).await.unwrap();
    let asked = region.sync(1, fixed(1, 10, now).at_epoch(2).asking(&[10])).await;
    assert!(asked.granted[0] && asked.epoch == 2, "an older one changes nothing");
}
