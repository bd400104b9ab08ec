//! Publishing and reading: absolute, merged by max, healed by claims.

use crate::messages::{
    ReplyFields, SEQUENCE, Saying, fixed, gcra, key, millis, per_second, seconds, sliding,
};
use crate::region::Region;
use tidegate_core::counts::CellReply;
use tidegate_core::exchange::{Fading, GrantRequest, KeyReply, KeySync};

pub(crate) async fn a_publish_is_absolute_and_a_retry_counts_once(region: &Region) {
    let sync = fixed(1, 100, region.now().await).publishing(5, 5);
    let first = region.sync(1, sync.clone()).await;
    assert_eq!(first.cell(), CellReply { component: 5, total: 5, world: 0, published: 0 });
    let again = KeyReply { component_before: Some(5), ..first };
    assert_eq!(region.sync(1, sync.clone()).await, again);
    assert_eq!(region.sync(1, sync.clone().publishing(3, 3)).await, again, "a component never shrinks");
    assert_eq!(region.sync(1, sync.publishing(8, 8)).await.cell().total, 8);
}

pub(crate) async fn two_nodes_add_up_and_every_sync_registers_its_sender(region: &Region) {
    let sync = fixed(1, 100, region.now().await);
    region.sync(1, sync.clone().publishing(5, 5)).await;
    let second = region.sync(2, sync.clone().publishing(7, 7)).await;
    assert_eq!(
        (second.cell(), second.owners()),
        (CellReply { component: 7, total: 12, world: 0, published: 0 }, 2)
    );
    let third = region.sync(3, sync).await;
    assert_eq!(
        (third.cell(), third.owners()),
        (CellReply { component: 0, total: 12, world: 0, published: 0 }, 3)
    );
}

pub(crate) async fn claims_heal_an_emptied_store(region: &Region) {
    let sync = fixed(1, 100, region.now().await);
    region.sync(1, sync.clone().publishing(5, 5)).await;
    region.sync(2, sync.clone().publishing(7, 12)).await;
    region.forget().await;
    let healed = region.sync(1, sync.clone().publishing(5, 12)).await;
    assert_eq!(
        (healed.cell(), healed.owners()),
        (CellReply { component: 5, total: 12, world: 0, published: 0 }, 1)
    );
    let back = region.sync(2, sync.publishing(7, 12)).await;
    assert_eq!(
        back.cell(),
        CellReply { component: 7, total: 12, world: 0, published: 0 },
        "counted once, not twice"
    );
}

/// What only the others remember of a node grows by what they admit from then on, each of them.
pub(crate) async fn survivors_of_a_loss_grow_side_by_side(region: &Region) {
    let sync = fixed(1, 2_000, region.now().await);
    for node in [2, 3] {
        let republished = region.sync(node, sync.clone().publishing(1, 602)).await;
        assert_eq!((republished.cell().total, republished.component_before), (602, None));
    }
    region.sync(2, sync.clone().growing(6, 1, 607)).await;
    let grown = region.sync(3, sync.clone().growing(6, 1, 607)).await;
    assert_eq!((grown.cell().total, grown.component_before), (612, Some(1)));
    assert_eq!(
        region.sync(3, sync.growing(6, 1, 607)).await.cell().total,
        612,
        "a repeated publish counts once"
    );
}

/// Who only looks leaves no trace, and an owner that looks stays one.
pub(crate) async fn a_peek_reads_and_makes_nobody_an_owner(region: &Region) {
    let now = region.now().await;
    let peek =
        |sync: KeySync| KeySync { request: GrantRequest { peek: true, ..GrantRequest::default() }, ..sync };
    let limits = [fixed(1, 100, now), gcra(2, per_second(1), 5)];
    for sync in &limits {
        assert_eq!(region.sync(7, peek(sync.clone())).await.component_before, None);
    }
    assert_eq!(region.cells().await, 0);
    region.sync(1, limits[0].clone().publishing(5, 5)).await;
    region.sync(1, limits[1].clone().asking(&[2])).await;
    let looked = region.sync(7, peek(limits[0].clone())).await;
    assert_eq!((looked.cell().total, looked.cell().component, looked.owners()), (5, 0, 1));
    assert_eq!(region.sync(7, peek(limits[1].clone())).await.owners(), 1);
    let own = region.sync(1, peek(limits[0].clone().publishing(5, 5))).await;
    assert_eq!((own.component_before, own.owners()), (Some(5), 1));
}

pub(crate) async fn the_previous_cell_is_published_and_read_and_looking_back_creates_nothing(
    region: &Region,
) {
    let now = region.now().await;
    let fading = Fading { end: now.plus(seconds(50)), period: seconds(100) };
    let sync = sliding(1, 100, now, fading);
    let looked = region.sync(1, sync.clone()).await;
    assert_eq!(looked.previous(), CellReply { component: 0, total: 0, world: 0, published: 0 });
    assert_eq!(region.cells().await, 1, "only the current cell");
    let first = region.sync(1, sync.clone().publishing_previous(4, 9)).await;
    assert_eq!(first.previous(), CellReply { component: 4, total: 9, world: 0, published: 0 });
    let second = region.sync(2, sync.publishing_previous(6, 6)).await;
    assert_eq!(second.previous(), CellReply { component: 6, total: 10, world: 0, published: 0 });
    assert_eq!(second.cell().total, 0);
}

pub(crate) async fn the_other_regions_count_against_the_limit_and_stay_apart(region: &Region) {
    let sync = fixed(1, 10, region.now().await);
    region.sync(1, sync.clone().publishing(2, 2)).await;
    region.import_world(key(1), SEQUENCE, 6).await;
    let reply = region.sync(1, sync.asking(&[3, 2, 1])).await;
    assert_eq!(reply.cell(), CellReply { component: 4, total: 4, world: 6, published: 0 });
    assert_eq!(reply.granted.as_slice(), [false, true, false]);
}

pub(crate) async fn numbers_up_to_2_to_the_53_are_exact(region: &Region) {
    let now = region.now().await;
    let most = 1_u64 << 53;
    let sync = fixed(1, most, now);
    let reply = region.sync(1, sync.clone().publishing(most - 5, most - 5).asking(&[3, 3, 2, 1])).await;
    assert_eq!(reply.granted.as_slice(), [true, false, true, false]);
    assert_eq!(reply.cell(), CellReply { component: most, total: most, world: 0, published: 0 });
    let beyond = region.sync(2, sync.publishing(u64::MAX, u64::MAX).asking(&[0, 1])).await;
    assert_eq!(beyond.cell(), CellReply { component: most, total: most, world: 0, published: 0 });
    assert_eq!(beyond.granted.as_slice(), [true, false]);
    // A product of 2^53 and a year of microseconds.
    let year = seconds(366 * 86_400);
    let end = now.plus(millis(1_000 * 183 * 86_400));
    let sync = sliding(2, most, now, Fading { end, period: year });
    let sync = sync.publishing_previous(most - 1, most - 1).asking(&[1]);
    assert!(region.sync_at(1, now, sync).await.granted[0]);
}
