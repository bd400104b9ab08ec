//! What nodes and their world worker say to each other about quotas.

use crate::messages::millis;
use crate::region::Region;
use tidegate_core::origin_cell::NodeId;
use tidegate_core::slice::Lease;
use tidegate_core::{Burst, KeyId, Nanos, Rate, SliceSize, Spec};
use tidegate_origin::{OfferedDemand, QuotaNews, QuotaReport, Share, SliceReport};

const LONG: Nanos = Nanos::from_secs(60);

fn report(node: u64, applied: u64, keys: u64) -> QuotaReport {
    let rate = Rate::new(7, Nanos::from_secs(1)).unwrap();
    let spec = Spec::Gcra { rate, burst: Burst::new(9).unwrap() };
    let offered = (0..keys).map(|key| OfferedDemand {
        key: KeyId::from_hash(u128::from(key) << 64 | 5),
        spec,
        is_abuse: key % 2 == 1,
        milli_per_second: key * 1_000,
    });
    QuotaReport { node: NodeId(node), applied, version: 3, offered: offered.collect(), leaves: false }
}

fn news(stamp: u64, amount: u64) -> QuotaNews {
    let size = SliceSize { amount, rate_parts: 5 };
    let lease =
        Lease { size, whole: 100, until: Nanos::from_secs(1 << 31), rises: Nanos::from_secs(1 << 32) };
    let share = Share { version: 3, index: 1, members: 3, is_active: true };
    QuotaNews { stamp, share, slices: vec![SliceReport { key: KeyId::from_hash(u128::MAX - 1), lease }] }
}

pub(crate) async fn a_worker_hears_what_each_node_said_last(region: &Region) {
    let origin = region.origin();
    origin.report_quotas(&report(1, 0, 1)).await.unwrap();
    origin.report_quotas(&report(2, 0, 0)).await.unwrap();
    let heard = origin.report_quotas(&report(1, 0, 3)).await.unwrap();
    assert_eq!(heard.news, None, "nobody told anything");
    let mut gathered = origin.gather_quotas(LONG).await.unwrap();
    gathered.reports.sort_by_key(|report| report.node);
    assert_eq!(gathered.reports, [report(1, 0, 3), report(2, 0, 0)]);
    assert!(gathered.now >= heard.now);
    origin.report_quotas(&QuotaReport { leaves: true, ..report(1, 0, 0) }).await.unwrap();
    assert_eq!(origin.gather_quotas(LONG).await.unwrap().reports, [report(2, 0, 0)]);
    region.wait(millis(30)).await;
    assert_eq!(origin.gather_quotas(millis(20)).await.unwrap().reports, [], "it said nothing for too long");
}

pub(crate) async fn nodes_hear_the_latest_news_once(region: &Region) {
    let origin = region.origin();
    origin.publish_quotas(&news(1 << 50, 10)).await.unwrap();
    origin.publish_quotas(&news((1 << 50) - 1, 99)).await.unwrap();
    let heard = origin.report_quotas(&report(1, 0, 1)).await.unwrap();
    assert_eq!(heard.news.as_deref(), Some(&news(1 << 50, 10)), "a slower worker's come too late");
    assert_eq!(origin.report_quotas(&report(1, 1 << 50, 1)).await.unwrap().news, None);
    origin.publish_quotas(&news((1 << 50) + 1, 20)).await.unwrap();
    let heard = origin.report_quotas(&report(1, 1 << 50, 1)).await.unwrap();
    assert_eq!(heard.news.as_deref(), Some(&news((1 << 50) + 1, 20)));
    region.forget().await;
    assert_eq!(origin.report_quotas(&report(1, 5, 1)).await.unwrap().news, None, "nothing new is no change");
}

pub(crate) async fn a_store_that_forgot_who_reported_says_so(region: &Region) {
    let origin = region.origin();
    let forgot_at = async || origin.gather_quotas(LONG).await.unwrap().lost_data_at;
    let reported = async |node, applied| origin.report_quotas(&report(node, applied, 1)).await.unwrap();
    assert_eq!(forgot_at().await, Nanos::ZERO, "nobody was there before");
    assert!(!reported(1, 0).await.is_behind);
    origin.publish_quotas(&news(1 << 50, 10)).await.unwrap();
    assert!(!reported(2, 0).await.is_behind && !reported(1, 1 << 50).await.is_behind);
    assert!(!reported(2, (1 << 50) - 1).await.is_behind);
    assert_eq!(forgot_at().await, Nanos::ZERO, "a region that is new");
    // All are gone, as when a region of one node is started anew: that isn't forgotten.
    for node in [1, 2] {
        origin.report_quotas(&QuotaReport { leaves: true, ..report(node, 0, 0) }).await.unwrap();
    }
    assert!(!reported(1, 0).await.is_behind);
    assert_eq!(forgot_at().await, Nanos::ZERO, "all had left");

    region.forget().await;
    let behind = reported(1, 1 << 50).await;
    assert!(behind.is_behind && behind.news.is_none(), "it goes by what is unknown here");
    assert_eq!(forgot_at().await, behind.now);

    // A worker may tell again before anybody reports.
    region.forget().await;
    origin.publish_quotas(&news(1 << 51, 10)).await.unwrap();
    let later = reported(1, 1 << 50).await;
    assert!(!later.is_behind && later.news.is_some());
    assert_eq!(forgot_at().await, later.now);

    // Or only such report as heard nothing yet.
    region.forget().await;
    origin.publish_quotas(&news(1 << 51, 10)).await.unwrap();
    let fresh = reported(3, 0).await;
    assert_eq!(forgot_at().await, fresh.now);

    // A replica that never heard of one of them.
    let known = reported(4, 1 << 50).await;
    assert_eq!(forgot_at().await, known.now, "it reported before, to be told that");
    reported(4, 1 << 51).await;
    assert_eq!(forgot_at().await, known.now, "once");
}

pub(crate) async fn a_report_of_ten_thousand_keys_gets_through(region: &Region) {
    let origin = region.origin();
    origin.report_quotas(&report(1, 0, 10_000)).await.unwrap();
    assert_eq!(origin.gather_quotas(LONG).await.unwrap().reports, [report(1, 0, 10_000)]);
}
