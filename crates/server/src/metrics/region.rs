//! What the region tier has counted: by shard, of which a store has few.

use super::Families;
use super::family::{Kind, Labels, Sample, Value};
use crate::App;
use tidegate_node::region::{Region, ShardHealth};
use tidegate_node::region_driver::{BreakerState, Origin, OriginError, RegionDriver};

pub(super) fn collect(families: &mut Families, app: &App, driver: &RegionDriver) {
    let Some(sharing) = app.engine.shared() else { return };
    // Those that asked are told by their reason.
    for (name, count) in
        sharing.region.counters().counts_by_name().into_iter().filter(|(name, _)| *name != "origin_asks")
    {
        families.counter(name, count);
    }
    let asks = sharing.region.asks_by_reason().into_iter();
    let asks = asks.map(|(reason, count)| Sample::whole(vec![("reason", reason.into())], count));
    families.push("origin_asks", Kind::Counter, asks.collect());
    let overshoot = Sample { labels: Labels::new(), value: Value::Histogram(sharing.region.overshoot()) };
    families.push("overshoot_ratio", Kind::Histogram, vec![overshoot]);
    families.gauge("live_nodes", u64::from(sharing.table.live_nodes()));
    families.gauge("keys_waiting_for_a_shard", sharing.region.held() as u64);
    families.gauge("leased_keys", sharing.region.leased().len() as u64);
    let (breakers, origin) = (sharing.region.breakers(), driver.origin());
    let labels = |shard| -> Labels { vec![("shard", origin.shard_name(shard).into())] };
    let (mut open, mut opened) = (Vec::new(), Vec::new());
    let (mut recovering, mut unavailable, mut to_republish) = (Vec::new(), Vec::new(), Vec::new());
    let conditions = sharing.region.shard_conditions();
    for shard in origin.shards() {
        let breaker = breakers.iter().find(|(of, _, _)| *of == shard);
        let is_open = breaker.is_some_and(|(_, state, _)| matches!(state, BreakerState::Open { .. }));
        open.push(Sample::whole(labels(shard), u64::from(is_open)));
        opened.push(Sample::whole(labels(shard), breaker.map_or(0, |(_, _, opens)| *opens)));
        let condition = conditions.iter().find(|condition| condition.shard == shard);
        let is = |health| u64::from(condition.is_some_and(|condition| condition.health == health));
        recovering.push(Sample::whole(labels(shard), is(ShardHealth::Recovering)));
        unavailable.push(Sample::whole(labels(shard), is(ShardHealth::Unavailable)));
        let keys = condition.map_or(0, |condition| condition.keys_to_republish as u64);
        to_republish.push(Sample::whole(labels(shard), keys));
    }
    families.push("breaker_open", Kind::Gauge, open);
    families.push("breaker_opened", Kind::Counter, opened);
    families.push("shard_recovering", Kind::Gauge, recovering);
    families.push("shard_unavailable", Kind::Gauge, unavailable);
    families.push("keys_to_republish", Kind::Gauge, to_republish);
    operations(families, &sharing.region, &**origin);
}

/// Of the shards that there are now: those of a map that was replaced aren't told any more.
fn operations(families: &mut Families, region: &Region, origin: &dyn Origin) {
    let figures = region.shard_figures();
    let (mut ended, mut answered, mut failed) = (Vec::new(), Vec::new(), Vec::new());
    for shard in origin.shards() {
        let Some(of) = figures.iter().find(|figures| figures.shard == shard) else { continue };
        let label = || ("shard", origin.shard_name(shard).into());
        ended.push(Sample::whole(vec![label()], of.operations()));
        answered.push(Sample { labels: vec![label()], value: Value::Histogram(of.answered.clone()) });
        for (kind, count) in OriginError::KINDS.into_iter().zip(of.failed) {
            failed.push(Sample::whole(vec![label(), ("kind", kind.into())], count));
        }
    }
    families.push("origin_operations", Kind::Counter, ended);
    families.push("origin_operation_duration_seconds", Kind::Histogram, answered);
    families.push("origin_errors", Kind::Counter, failed);
}
