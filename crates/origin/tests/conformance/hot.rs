//! What nodes say to each other about hot keys.

use crate::messages::millis;
use crate::region::Region;
use tidegate_core::origin_cell::NodeId;
use tidegate_core::{KeyId, Nanos};
use tidegate_origin::{HOT_KEYS_MAX, HotKey, HotNews, HotReport};

const LONG: Nanos = Nanos::from_secs(60);

fn keys(count: u64) -> Vec<HotKey> {
    let key = |number: u64| KeyId::from_hash(u128::from(number) << 64 | 5);
    (0..count).map(|number| HotKey { key: key(number), per_second: number * 1_000 }).collect()
}

fn report(node: u64, applied: u64, count: u64) -> HotReport {
    HotReport { node: NodeId(node), applied, keys: keys(count) }
}

pub(crate) async fn what_each_node_said_last_is_gathered(region: &Region) {
    let origin = region.origin();
    origin.report_hot(&report(1, 0, 1)).await.unwrap();
    origin.report_hot(&report(2, 0, 0)).await.unwrap();
    assert_eq!(origin.report_hot(&report(1, 0, 3)).await.unwrap().news, None, "nobody told anything");
    let mut gathered = origin.gather_hot(LONG).await.unwrap();
    gathered.sort_by_key(|report| report.node);
    assert_eq!(gathered, [report(1, 0, 3), report(2, 0, 0)]);
    region.wait(millis(30)).await;
    assert_eq!(origin.gather_hot(millis(20)).await.unwrap(), [], "they said nothing for too long");
}

pub(crate) async fn the_hot_set_is_heard_once_and_the_latest_wins(region: &Region) {
    let origin = region.origin();
    let news = |stamp, count| HotNews { stamp, keys: keys(count) };
    origin.publish_hot_keys(&news(1 << 50, 2)).await.unwrap();
    origin.publish_hot_keys(&news((1 << 50) - 1, 3)).await.unwrap();
    assert_eq!(origin.report_hot(&report(1, 0, 0)).await.unwrap().news, Some(news(1 << 50, 2)));
    assert_eq!(origin.report_hot(&report(1, 1 << 50, 0)).await.unwrap().news, None);
    let most = u64::try_from(HOT_KEYS_MAX).unwrap();
    origin.publish_hot_keys(&news((1 << 50) + 1, most)).await.unwrap();
    let applied = origin.report_hot(&report(1, 1 << 50, most)).await.unwrap();
    assert_eq!(applied.news, Some(news((1 << 50) + 1, most)), "a full set gets through");
}
