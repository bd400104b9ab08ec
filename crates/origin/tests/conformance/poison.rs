//! Redis: what doesn't belong into a key costs that key its answer, its neighbours nothing, and isn't touched.

use crate::messages::{
    ReplyFields, SEQUENCE, Saying, fixed, gcra, key, millis, per_second, seconds, sliding,
};
use crate::region::{Region, stem};
use tidegate_core::Nanos;
use tidegate_core::exchange::{Fading, KeySync};
use tidegate_core::gcra_sync::BusyPeriod;
use tidegate_core::origin_cell::NodeId;
use tidegate_origin::{Expiry, Grant, Heartbeat, KeyError, OriginError};
use tidegate_testkit::RespValue;

const NO_COUNTS: [&str; 9] =
    ["", "text", "-1", "1.5", "1e3", " 1", "0x10", "9223372036854775807", "9007199254740994"];
const NO_INSTANTS: [&str; 6] = ["", "text", "5", "1.5", "-1.000000000", "99999999999.000000000"];

async fn dump(region: &Region) -> Vec<RespValue> {
    let mut names: Vec<String> =
        region.server().demand(&["KEYS", "*"]).await.items().iter().filter_map(RespValue::text).collect();
    names.sort();
    let mut dump = Vec::new();
    for name in names.iter().filter(|name| !name.contains(&format!("{:032x}", key(1).get()))) {
        dump.push(region.server().demand(&["DUMP", name]).await);
    }
    dump
}

/// Syncs the poisoned key between two good ones: one that nobody has counted yet, and another one.
async fn sync_between(region: &Region, poisoned: KeySync, grant: Grant) -> Result<(), KeyError> {
    let now = region.now().await;
    let good = |number| fixed(number, 10, now).publishing(2, 2).asking(&[1]);
    let before = dump(region).await;
    let new = fixed(1, 10, now).asking(&[1]);
    let exchanged = region.exchange(1, now, grant, vec![new, poisoned, good(1_001)]).await;
    let replies = exchanged.replies;
    for (index, published) in [(0, 0), (2, 2)] {
        let reply = replies[index].as_ref().unwrap();
        let grants = grant == Grant::Each || replies[1].is_ok();
        assert_eq!((reply.granted[0], reply.cell().total), (grants, published + u64::from(grants)));
    }
    let result = replies[1].clone();
    if result.is_err() {
        region.server().demand(&["DEL", &format!("{}0:{}", stem(key(1_001)), SEQUENCE.0)]).await;
        assert_eq!(dump(region).await, before, "nothing of the poisoned key was written");
    }
    region.server().demand(&["DEL", &format!("{}0:{}", stem(key(1)), SEQUENCE.0)]).await;
    region.server().demand(&["DEL", &format!("{}0:{}", stem(key(1_001)), SEQUENCE.0)]).await;
    result.map(drop)
}

async fn is_poisoned(region: &Region, sync: KeySync, what: &str) {
    for grant in [Grant::Each, Grant::Together] {
        let result = sync_between(region, sync.clone(), grant).await;
        assert!(matches!(result, Err(KeyError::Poisoned { .. })), "{what}: {result:?}");
    }
}

#[tokio::test]
async fn poisoned_windows_cost_only_themselves() {
    let region = Region::redis().await;
    let now = region.now().await;
    let fading = Fading { end: now.plus(seconds(5)), period: seconds(10) };
    let sync =
        || sliding(2, 10, now, fading).publishing(3, 3).publishing_previous(4, 4).asking(&[1]).at_epoch(0);
    for sequence in [SEQUENCE.0, SEQUENCE.0 - 1] {
        let name = format!("{}0:{sequence}", stem(key(2)));
        for field in ["c:0000000000000001", "s", "f", "w", "n", "x"] {
            for value in NO_COUNTS {
                region.server().demand(&["HSET", &name, field, value]).await;
                is_poisoned(&region, sync(), &format!("{sequence} {field} {value:?}")).await;
                region.server().demand(&["DEL", &name]).await;
            }
        }
        for command in [&["SET", &name, "5"], &["LPUSH", &name, "5"], &["SADD", &name, "5"]] {
            region.server().demand(command).await;
            is_poisoned(&region, sync(), command[0]).await;
            region.server().demand(&["DEL", &name]).await;
        }
    }
    assert_eq!(sync_between(&region, sync(), Grant::Each).await, Ok(()), "healed when it is gone");
}

#[tokio::test]
async fn poisoned_arrival_times_cost_only_themselves() {
    let region = Region::redis().await;
    let name = format!("{}0:g", stem(key(2)));
    let sync = || gcra(2, per_second(3), 10).arrival(|arrival| arrival.cumulative = 3).asking(&[1]);
    let cases = [("c:0000000000000001", NO_COUNTS.as_slice()), ("n", &NO_COUNTS), ("x", &NO_COUNTS)];
    let cases = cases.into_iter().chain(["tat", "b", "d", "e"].map(|field| (field, NO_INSTANTS.as_slice())));
    let no_intervals = ["", "text", "1:0:0", "1:0:0:0", "0:0:0:1", "0:1000000000:0:1", "0:1:3:2", "-1:0:0:1"];
    for (field, values) in cases.chain([("i", no_intervals.as_slice())]) {
        for value in values {
            region.server().demand(&["HSET", &name, field, value]).await;
            is_poisoned(&region, sync(), &format!("{field} {value:?}")).await;
            region.server().demand(&["DEL", &name]).await;
        }
    }
    region.server().demand(&["SET", &name, "5"]).await;
    is_poisoned(&region, sync(), "a string").await;
    region.server().demand(&["DEL", &name]).await;
    assert_eq!(sync_between(&region, sync(), Grant::Each).await, Ok(()));
}

#[tokio::test]
async fn poisoned_reservations_and_epochs_cost_only_their_key() {
    let region = Region::redis().await;
    let now = region.now().await;
    let sync = || fixed(2, 10, now).publishing(3, 3).asking(&[1]);
    let name = format!("{}0:{}", stem(key(2)), SEQUENCE.0);
    for value in ["text", "ab:1", "ab:-1:5;", "ab:1:5;?", "ab:9007199254740994:5;"] {
        region.server().demand(&["HSET", &name, "r", value]).await;
        is_poisoned(&region, sync(), value).await;
        region.server().demand(&["DEL", &name]).await;
    }
    // One that would last for ever isn't believed.
    region.server().demand(&["HSET", &name, "r", "ab:10:9007199254740992;"]).await;
    assert!(region.sync(1, sync()).await.granted[0]);
    let epoch = format!("{}e", stem(key(2)));
    for value in ["", "text", "1", "65536:5", "-1:5", "1:9223372036854775807"] {
        region.server().demand(&["SET", &epoch, value]).await;
        is_poisoned(&region, sync(), value).await;
        let shard = region.origin().shard_of(key(2));
        let reset = region.origin().reset(shard, key(2), 0, Expiry { at: now.plus(seconds(5)), now }).await;
        assert!(matches!(reset, Err(OriginError::Nonsense { .. })), "{reset:?}");
    }
}

#[tokio::test]
async fn poisoned_heartbeats_are_told_apart_from_another_secret() {
    let region = Region::redis().await;
    let heartbeat = Heartbeat {
        node: NodeId(1),
        fingerprint: 5,
        alive_for: seconds(5),
        leaves: false,
        applied: 0,
        acceptance: tidegate_origin::Acceptance::New,
    };
    for command in [
        ["SET", "tidegate:{nodes}:secret", "text"],
        ["SADD", "tidegate:{nodes}:secret", "text"],
        ["SET", "tidegate:{nodes}:alive", "text"],
    ] {
        region.server().demand(&command).await;
        let refused = region.origin().beat(heartbeat).await;
        assert!(matches!(refused, Err(OriginError::Nonsense { .. })), "{command:?}: {refused:?}");
        region.forget().await;
    }
    assert!(region.origin().beat(heartbeat).await.is_ok());
}

/// An older release's script knows nothing of the busy period before, and may have moved the one that it is before.
#[tokio::test]
async fn a_busy_period_before_that_ends_within_this_one_is_no_longer_known() {
    let region = Region::redis().await;
    let start = region.now().await;
    let since = start.plus(seconds(1));
    let told = |cumulative, oldest| {
        gcra(2, per_second(10), 100)
            .arrival(|arrival| (arrival.cumulative, arrival.oldest) = (cumulative, oldest))
    };
    region.sync(1, told(3, since)).await;
    let name = format!("{}0:g", stem(key(2)));
    let shown = |at: Nanos| format!("{}.{:09}", at.get() / 1_000_000_000, at.get() % 1_000_000_000);
    let (from, to) = (shown(start), shown(since.plus(seconds(1))));
    region.server().demand(&["HSET", &name, "d", &from, "e", &to]).await;
    let busy = region.sync(2, told(2, start)).await.busy();
    assert_eq!(busy, BusyPeriod { tat: since.plus(millis(300)), since }, "the idle second pays");
}
