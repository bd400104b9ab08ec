//! Granting from windows: in order while it fits, weighed exactly, with a wait that is exact.

use crate::messages::{ReplyFields, SEQUENCE, Saying, fixed, millis, seconds, sliding};
use crate::region::Region;
use tidegate_core::counts::CellReply;
use tidegate_core::exchange::Fading;
use tidegate_core::{Nanos, Sequence};

const MICRO: Nanos = Nanos::new(1_000);

pub(crate) async fn asks_are_granted_in_order_while_they_fit(region: &Region) {
    let sync = fixed(1, 10, region.now().await).publishing(2, 2);
    let reply = region.sync(1, sync.asking(&[3, 9, 4, 2, 1])).await;
    assert_eq!(reply.granted.as_slice(), [true, false, true, false, true]);
    assert_eq!(reply.cell(), CellReply { component: 10, total: 10, world: 0, published: 0 });
}

pub(crate) async fn a_grant_counts_for_everybody_at_once(region: &Region) {
    let sync = fixed(1, 10, region.now().await);
    region.sync(1, sync.clone().asking(&[4])).await;
    let other = region.sync(2, sync.clone().asking(&[7, 6])).await;
    assert_eq!(other.granted.as_slice(), [false, true]);
    assert_eq!(other.cell(), CellReply { component: 6, total: 10, world: 0, published: 0 });
    // The reply to the first was lost: its grant is in its component all the same.
    assert_eq!(
        region.sync(1, sync).await.cell(),
        CellReply { component: 4, total: 10, world: 0, published: 0 }
    );
}

pub(crate) async fn a_fading_cell_weighs_exactly_what_is_left_of_it(region: &Region) {
    let round = 0;
    let now = region.now().await;
    // 70.0001 % of 10 are 7, so 3 fit; 1 µs later, 7 are 7 as well; 10 ms earlier 8 would be.
    let fading = Fading { end: now.plus(millis(70)).plus(MICRO), period: millis(100) };
    let sync = sliding(round, 10, now, fading).publishing_previous(10, 10);
    let full = region.sync_at(1, now, sync.clone().asking(&[4, 3, 1])).await;
    assert_eq!(full.granted.as_slice(), [false, true, false]);
    let sooner = sliding(round + 1, 10, now, fading).publishing_previous(10, 10);
    let sooner = region.sync_at(1, now.minus(millis(10)), sooner.asking(&[3, 2])).await;
    assert_eq!(sooner.granted.as_slice(), [false, true]);
}

pub(crate) async fn waiting_for_the_previous_cell_to_fade_is_exact(region: &Region) {
    let round = 0;
    let now = region.now().await.minus(millis(20));
    let fading = Fading { end: now.plus(millis(900)), period: seconds(1) };
    let sync = sliding(round, 1_000, now, fading).publishing(99, 99).publishing_previous(1_000, 1_000);
    let ask = sync.asking(&[21]);
    let refused = region.sync_at(1, now, ask.clone()).await;
    let wait = refused.retry_after.unwrap();
    assert_eq!((refused.granted[0], wait), (false, Nanos::new(19_001_000)));
    let early = region.sync_at(1, now.plus(wait).minus(MICRO), ask.clone()).await;
    assert_eq!((early.granted[0], early.retry_after), (false, Some(MICRO)));
    assert!(region.sync_at(1, now.plus(wait), ask).await.granted[0]);
}

pub(crate) async fn waiting_for_the_current_cell_to_fade_is_exact(region: &Region) {
    let round = 0;
    let now = region.now().await.minus(millis(20));
    let fading = Fading { end: now.plus(millis(10)), period: seconds(1) };
    let full = sliding(round, 1_000, now, fading).publishing(1_000, 1_000).asking(&[21]);
    let refused = region.sync_at(1, now, full).await;
    let wait = refused.retry_after.unwrap();
    assert_eq!((refused.granted[0], wait), (false, Nanos::new(30_001_000)));
    let fading = Fading { end: fading.end.plus(fading.period), ..fading };
    let next = sliding(round, 1_000, now, fading).window(|window| window.sequence = Sequence(SEQUENCE.0 + 1));
    let next = next.publishing_previous(1_000, 1_000).asking(&[21]);
    let early = region.sync_at(1, now.plus(wait).minus(MICRO), next.clone()).await;
    assert!(!early.granted[0]);
    assert!(region.sync_at(1, now.plus(wait), next).await.granted[0]);
}

pub(crate) async fn an_ask_beyond_the_limit_is_told_no_time(region: &Region) {
    let now = region.now().await;
    let fading = Fading { end: now.plus(seconds(50)), period: seconds(100) };
    let reply = region.sync(1, sliding(1, 10, now, fading).asking(&[11, 10])).await;
    assert_eq!((reply.granted.as_slice(), reply.retry_after), ([false, true].as_slice(), None));
    let blocked = region.sync(1, sliding(2, 0, now, fading).asking(&[1])).await;
    assert_eq!((blocked.granted[0], blocked.retry_after), (false, None));
    // Where nothing fades the node knows better when its cell ends.
    let full = region.sync(1, fixed(3, 10, now).publishing(10, 10).asking(&[1])).await;
    assert_eq!((full.granted[0], full.retry_after), (false, None));
}

pub(crate) async fn a_draw_needs_room_and_takes_at_most_10_ms_of_refill(region: &Region) {
    let round = 0;
    let now = region.now().await;
    // 10,000 in 1 s: 100 in 10 ms. Half of them have faded.
    let fading = Fading { end: now.plus(millis(500)), period: seconds(1) };
    let busy = |number| sliding(number, 10_000, now, fading).publishing_previous(10_000, 10_000).drawing();
    let ample = region.sync_at(1, now, busy(round).publishing(4_000, 4_000).asking(&[10])).await;
    assert_eq!((ample.granted[0], ample.drawn, ample.cell().component), (true, 100, 4_110));
    let scarce = busy(round + 1).publishing(4_999, 4_999).asking(&[1, 60, 50]);
    let scarce = region.sync_at(1, now, scarce).await;
    assert_eq!(scarce.granted.as_slice(), [true, true, false]);
    assert_eq!((scarce.drawn, scarce.cell().total), (40, 5_100), "the limit and 10 ms of refill");
    let again = region.sync_at(2, now, busy(round + 1).asking(&[1])).await;
    assert_eq!((again.granted[0], again.drawn), (false, 0), "nothing in advance twice");
    let full = region.sync_at(1, now, busy(round + 2).publishing(5_000, 5_000).asking(&[1])).await;
    assert_eq!((full.granted[0], full.drawn), (false, 0), "without room nothing in advance");
    // Without a fading cell nothing is refilled within 10 ms.
    let fixed = fixed(round + 3, 10, now).publishing(5, 5).drawing();
    assert_eq!(region.sync_at(1, now, fixed).await.drawn, 0);
}
