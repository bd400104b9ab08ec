//! Several limits of one request that share a place: granted all or none, in one call.

use crate::messages::{ReplyFields, Saying, fixed, gcra, millis, per_second, seconds, sliding};
use crate::region::Region;
use tidegate_core::Nanos;
use tidegate_core::exchange::{Fading, KeyReply, KeySync};
use tidegate_origin::Grant;

async fn ask_together(region: &Region, now: Nanos, syncs: Vec<KeySync>) -> Vec<KeyReply> {
    let exchanged = region.exchange(1, now, Grant::Together, syncs).await;
    exchanged.replies.into_iter().map(Result::unwrap).collect()
}

fn granted(replies: &[KeyReply]) -> Vec<bool> {
    replies.iter().flat_map(|reply| reply.granted.iter().copied()).collect()
}

pub(crate) async fn all_keys_grant_or_none_does(region: &Region) {
    let round = 0;
    let now = region.now().await;
    let user = || fixed(round, 10, now).asking(&[4]);
    let fading = Fading { end: now.plus(seconds(50)), period: seconds(100) };
    let organisation = || sliding(round + 1, 7, now, fading).asking(&[4]);
    let burst = || gcra(round + 2, per_second(1), 100).asking(&[4]);
    let first = ask_together(region, now, vec![user(), organisation(), burst()]).await;
    assert_eq!(granted(&first), [true, true, true]);
    let second = ask_together(region, now, vec![user(), organisation(), burst()]).await;
    assert_eq!(granted(&second), [false, false, false]);
    assert!(second.iter().all(|reply| reply.own() == 4), "a denied request consumes nothing: {second:?}");
    assert_eq!(second[2].busy(), first[2].busy());
    // What a sync publishes counts in any case, and a key that asks nothing blocks nobody.
    let third = vec![user().publishing(5, 5), organisation().asking(&[]), burst()];
    let third = ask_together(region, now, third).await;
    assert_eq!((granted(&third), third[0].own()), (vec![true, true], 9));
}

pub(crate) async fn a_refusal_tells_each_key_how_long_it_alone_would_wait(region: &Region) {
    let round = 0;
    let now = region.now().await;
    let fading = Fading { end: now.plus(millis(900)), period: seconds(1) };
    let full = sliding(round, 1_000, now, fading).publishing(99, 99).publishing_previous(1_000, 1_000);
    let syncs = vec![
        full.asking(&[11, 10]),
        gcra(round + 1, per_second(10), 5).asking(&[5]),
        fixed(round + 2, 10, now).asking(&[6, 6]),
    ];
    let replies = ask_together(region, now, syncs).await;
    assert_eq!(granted(&replies), [false; 5]);
    // 21 as a whole, as in `waiting_for_the_previous_cell_to_fade_is_exact`; at once; never.
    let waits: Vec<_> = replies.iter().map(|reply| reply.retry_after).collect();
    assert_eq!(waits, [Some(Nanos::new(19_001_000)), Some(Nanos::ZERO), None]);
}

pub(crate) async fn a_request_of_a_hundred_limits_is_one_call(region: &Region) {
    let round = 0;
    let now = region.now().await;
    let limits = |last| {
        let numbers = round..round + 100;
        let limit = move |number| if number == round + 99 { last } else { 10 };
        numbers.map(move |number| fixed(number, limit(number), now).asking(&[1])).collect::<Vec<_>>()
    };
    let refused = ask_together(region, now, limits(0)).await;
    assert!(refused.iter().all(|reply| !reply.granted[0] && reply.own() == 0));
    let passed = ask_together(region, now, limits(1)).await;
    assert!(passed.iter().all(|reply| reply.granted[0] && reply.own() == 1));
}
