//! Holds: held for 250 ms, seen only by granting, confirmed by a publish or released.

use crate::messages::{ReplyFields, Saying, fixed, gcra, millis, seconds};
use crate::region::Region;
use tidegate_core::exchange::{HOLD_TTL, KeySync};
use tidegate_core::{Nanos, Rate};

/// A window of 10 and a burst of 10 that doesn't refill in a test: holds are alike in both.
async fn limits_of_ten(region: &Region) -> [KeySync; 2] {
    let slow = Rate::new(1, seconds(86_400)).unwrap();
    [fixed(1, 10, region.now().await), gcra(2, slow, 10)]
}

/// The node admitted so much in all, `acked` of which the store confirmed.
fn admitted(sync: KeySync, cost: u64, now: Nanos) -> KeySync {
    match sync.counts {
        tidegate_core::exchange::CountSync::Window(_) => sync.publishing(cost, cost),
        tidegate_core::exchange::CountSync::Gcra { .. } => {
            sync.arrival(|arrival| (arrival.cumulative, arrival.oldest) = (cost, now))
        }
    }
}

pub(crate) async fn only_granting_sees_a_hold(region: &Region) {
    for sync in limits_of_ten(region).await {
        let reserved = region.sync(1, sync.clone().asking(&[8]).holding(71)).await;
        assert_eq!((reserved.granted[0], reserved.own()), (true, 0));
        let read = region.sync(2, sync.clone()).await;
        assert_eq!(read.own(), 0, "in nobody's count");
        let asked = region.sync(2, sync.clone().asking(&[3, 2])).await;
        assert_eq!(asked.granted.as_slice(), [false, true]);
        let wait = asked.retry_after.unwrap();
        assert!(wait > Nanos::ZERO && wait <= HOLD_TTL, "its earliest expiry: {wait:?}");
    }
}

pub(crate) async fn a_hold_expires_after_250_ms_of_the_stores_time(region: &Region) {
    for sync in limits_of_ten(region).await {
        let before = region.now().await;
        region.sync(1, sync.clone().asking(&[8]).holding(71)).await;
        region.wait(millis(20)).await;
        let refused = region.sync(2, sync.clone().asking(&[3])).await;
        let wait = refused.retry_after.unwrap();
        assert!(wait <= millis(230), "{wait:?}");
        region.wait(wait).await;
        assert!(region.now().await.minus(before) >= HOLD_TTL);
        assert!(region.sync(2, sync.clone().asking(&[3])).await.granted[0]);
    }
}

pub(crate) async fn a_publish_that_names_it_confirms_a_hold(region: &Region) {
    for sync in limits_of_ten(region).await {
        region.sync(1, sync.clone().asking(&[8]).holding(71)).await;
        let now = region.now().await;
        let confirmed = region.sync(1, admitted(sync.clone(), 8, now).settling(71)).await;
        assert_eq!(confirmed.own(), 8);
        let asked = region.sync(2, sync.clone().asking(&[3, 2])).await;
        assert_eq!(asked.granted.as_slice(), [false, true], "counted once: neither twice nor not at all");
        assert_ne!(asked.retry_after, Some(HOLD_TTL));
        // The same confirmation again, and one of a hold that nobody knows.
        region.sync(1, admitted(sync.clone(), 8, now).settling(71).settling(999)).await;
    }
}

pub(crate) async fn a_released_hold_gives_its_room_back(region: &Region) {
    for sync in limits_of_ten(region).await {
        region.sync(1, sync.clone().asking(&[8]).holding(71)).await;
        region.sync(1, sync.clone().asking(&[1]).holding(72)).await;
        region.sync(1, sync.clone().settling(71)).await;
        let asked = region.sync(2, sync.clone().asking(&[10, 9])).await;
        assert_eq!(asked.granted.as_slice(), [false, true]);
    }
}

pub(crate) async fn two_requests_that_hold_at_once_share_the_room(region: &Region) {
    for sync in limits_of_ten(region).await {
        let first = region.sync(1, sync.clone().asking(&[6]).holding(71)).await;
        let second = region.sync(2, sync.clone().asking(&[5]).holding(72)).await;
        let third = region.sync(2, sync.clone().asking(&[4]).holding(73)).await;
        assert_eq!([first.granted[0], second.granted[0], third.granted[0]], [true, false, true]);
        assert!(second.retry_after.is_some_and(|wait| wait <= HOLD_TTL));
    }
}

pub(crate) async fn a_repeated_hold_replaces_itself(region: &Region) {
    for sync in limits_of_ten(region).await {
        for _ in 0..3 {
            let again = region.sync(1, sync.clone().asking(&[8]).holding(71)).await;
            assert!(again.granted[0]);
        }
        assert!(region.sync(1, sync.clone().asking(&[5]).holding(71)).await.granted[0]);
        let asked = region.sync(2, sync.clone().asking(&[6, 5])).await;
        assert_eq!(asked.granted.as_slice(), [false, true]);
    }
}
