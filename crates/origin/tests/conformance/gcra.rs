//! GCRA: publishes that arrive at once, late, twice, or at a store that lost its data.

use crate::messages::{ReplyFields, Saying, gcra, millis, per_second, seconds};
use crate::region::Region;
use tidegate_core::gcra_sync::BusyPeriod;
use tidegate_core::{Nanos, Rate};

pub(crate) async fn a_lost_reply_and_a_retry_charge_once(region: &Region) {
    let start = region.now().await;
    let sync = gcra(1, per_second(10), 100);
    let five = sync.clone().arrival(|arrival| (arrival.cumulative, arrival.oldest) = (5, start));
    for _ in 0..3 {
        let reply = region.sync(1, five.clone()).await;
        assert_eq!(reply.busy(), BusyPeriod { tat: start.plus(millis(500)), since: start });
        assert_eq!((reply.own(), reply.owners()), (5, 1));
    }
    let seven = sync.arrival(|arrival| (arrival.cumulative, arrival.oldest) = (7, start));
    assert_eq!(region.sync(1, seven).await.busy().tat, start.plus(millis(700)));
}

pub(crate) async fn nodes_share_one_arrival_time(region: &Region) {
    let start = region.now().await;
    for node in 1..=3 {
        let sync = gcra(1, per_second(10), 100)
            .arrival(|arrival| (arrival.cumulative, arrival.oldest) = (node, start.plus(millis(node))));
        let reply = region.sync(node, sync).await;
        assert_eq!((reply.own(), u64::from(reply.owners())), (node, node));
    }
    let busy = region.sync(9, gcra(1, per_second(10), 100)).await.busy();
    assert_eq!(busy, BusyPeriod { tat: start.plus(millis(601)), since: start.plus(millis(1)) });
}

pub(crate) async fn a_forgetful_store_takes_the_nodes_pair(region: &Region) {
    let start = region.now().await;
    let pair = BusyPeriod { tat: start.plus(millis(900)), since: start };
    let sync = gcra(1, per_second(10), 100).arrival(|arrival| {
        (arrival.cumulative, arrival.acked, arrival.oldest) = (9, 8, start.plus(millis(800)));
        arrival.busy = pair;
    });
    region.sync(1, sync.clone()).await;
    region.forget().await;
    let healed = region.sync(1, sync.clone()).await;
    assert_eq!((healed.busy(), healed.own()), (pair, 9), "restored, not charged");
    let behind = sync.arrival(|arrival| arrival.busy.tat = start);
    let known = behind.clone().arrival(|arrival| arrival.sent = 9);
    assert_eq!(region.sync(2, known).await.busy(), pair, "a pair that is behind changes nothing");
    let more = region.sync(3, behind).await.busy();
    assert_eq!(more.tat, start.plus(millis(1_000)), "a unit that was never sent before is new to everybody");
}

pub(crate) async fn late_news_is_paid_by_the_idle_time_between(region: &Region) {
    let start = region.now().await;
    let (rate, since) = (per_second(10), start.plus(seconds(1)));
    let told = |number, cumulative, oldest| {
        gcra(number, rate, 100).arrival(|arrival| (arrival.cumulative, arrival.oldest) = (cumulative, oldest))
    };
    for number in [1, 2, 3] {
        region.sync(1, told(number, 3, since)).await;
    }
    let little = region.sync(2, told(1, 2, start)).await;
    assert_eq!(little.busy(), BusyPeriod { tat: since.plus(millis(300)), since });
    let much = region.sync(2, told(2, 15, start)).await;
    assert_eq!(much.busy(), BusyPeriod { tat: since.plus(millis(800)), since: start });
    for (node, owed) in [(2, 300), (3, 300), (4, 800), (5, 1_300)] {
        let busy = region.sync(node, told(3, 5, start)).await.busy();
        assert_eq!(busy.tat, since.plus(millis(owed)), "it pays once");
    }
}

pub(crate) async fn a_burst_is_granted_and_no_more(region: &Region) {
    let round = 0;
    let now = region.now().await;
    let thirds = Rate::new(3, seconds(7)).unwrap();
    let sync = gcra(round, thirds, 10);
    let reply = region.sync_at(1, now, sync.clone().asking(&[1; 11])).await;
    assert_eq!(reply.granted.iter().filter(|granted| **granted).count(), 10);
    // 10 × 7/3 s, rounded up once.
    let busy = BusyPeriod { tat: now.plus(Nanos::new(23_333_333_334)), since: now };
    assert_eq!((reply.busy(), reply.own()), (busy, 10));
    let large = gcra(round + 1, thirds, 10).asking(&[4, 11, 7, 6]);
    assert_eq!(region.sync_at(1, now, large).await.granted.as_slice(), [true, false, false, true]);
}

pub(crate) async fn the_wait_is_exact_to_the_nanosecond(region: &Region) {
    let round = 0;
    let now = region.now().await.minus(millis(20)).plus(Nanos::new(123));
    let rate = Rate::new(700, Nanos::from_secs(3)).unwrap();
    let ask = gcra(round, rate, 1_000).asking(&[5]);
    region.sync_at(1, now, ask.clone().asking(&[1_000])).await;
    let refused = region.sync_at(1, now, ask.clone()).await;
    let wait = refused.retry_after.unwrap();
    // 5 × 3/700 s.
    assert_eq!((refused.granted[0], wait), (false, Nanos::new(21_428_572)));
    let early = region.sync_at(1, now.plus(wait).minus(Nanos::new(1)), ask.clone()).await;
    assert_eq!((early.granted[0], early.retry_after), (false, Some(Nanos::new(1))));
    assert!(region.sync_at(1, now.plus(wait), ask.clone()).await.granted[0]);
    let never = region.sync_at(1, now, ask.asking(&[1_001])).await;
    assert_eq!((never.granted[0], never.retry_after), (false, None));
}

pub(crate) async fn a_draw_reaches_10_ms_beyond_the_burst(region: &Region) {
    let round = 0;
    let now = region.now().await;
    // 10,500 a second: 105 in 10 ms.
    let sync = |number| gcra(number, per_second(10_500), 1_000).drawing();
    let ample = region.sync_at(1, now, sync(round).asking(&[500])).await;
    assert_eq!((ample.granted[0], ample.drawn, ample.own()), (true, 105, 605));
    let scarce = region.sync_at(1, now, sync(round + 1).asking(&[1_000, 60, 50])).await;
    assert_eq!((scarce.granted.as_slice(), scarce.drawn), ([true, true, false].as_slice(), 45));
    let full = region.sync_at(1, now, sync(round + 1).asking(&[1])).await;
    assert_eq!((full.granted[0], full.drawn), (false, 0));
}

pub(crate) async fn a_changed_rate_keeps_what_was_spent(region: &Region) {
    let round = 0;
    let now = region.now().await;
    region.sync_at(1, now, gcra(round, per_second(100), 50).asking(&[10])).await;
    let slower = region.sync_at(1, now, gcra(round, per_second(1), 50)).await;
    assert_eq!(slower.busy(), BusyPeriod { tat: now.plus(seconds(10)), since: now });
    let faster = region.sync_at(2, now, gcra(round, per_second(1_000), 50)).await;
    assert_eq!(faster.busy().tat, now.plus(millis(10)));
    assert_eq!(region.sync_at(1, now, gcra(round, per_second(1_000), 50)).await.busy(), faster.busy());
}

pub(crate) async fn huge_numbers_stop_at_the_end_of_time(region: &Region) {
    let most = 1_u64 << 53;
    let slowest = Rate::new(1, seconds(366 * 86_400)).unwrap();
    let reply = region.sync(1, gcra(1, slowest, most).asking(&[most, 1])).await;
    assert_eq!((reply.granted[0], reply.busy().tat), (true, Nanos::MAX));
    // 2^53 units at 10^9 a second are 104 days.
    let fastest = per_second(1_000_000_000);
    let reply = region.sync(1, gcra(2, fastest, most).asking(&[most - 7, 8, 7])).await;
    assert_eq!(reply.granted.as_slice(), [true, false, true]);
    assert_eq!((reply.busy().tat.minus(reply.busy().since), reply.own()), (Nanos::new(most), most));
}
