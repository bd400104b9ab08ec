//! What the region tier has counted: by shard, of which a store has few.

use super::family::{Kind, Labels, Sample};
use super::Families;
use crate::App;
use tidegate_node::region_driver::{BreakerState, RegionDriver};

pub(super) fn collect(families: &mut Families, app: &App, driver: &RegionDriver) {
    let Some(sharing) = app.engine.shared() else { return };
    for (name, count) in sharing.region.counters().named() {
        families.counter(name, count);
    }
    families.gauge("live_nodes", u64::from(sharing.table.live_nodes()));
    families.gauge("keys_waiting_for_a_shard", sharing.region.held() as u64);
    let (breakers, origin) = (sharing.region.breakers(), driver.origin());
    let labels = |shard| -> Labels { vec![("shard", origin.shard_name(shard).into())] };
    let (mut open, mut opened) = (Vec::new(), Vec::new());
    for shard in origin.shards() {
        let breaker = breakers.iter().find(|(of, _, _)| *of == shard);
        let is_open = breaker.is_some_and(|(_, state, _)| matches!(state, BreakerState::Open { .. }));
        open.push(Sample::whole(labels(shard), u64::from(is_open)));
        opened.push(Sample::whole(labels(shard), breaker.map_or(0, |(_, _, opens)| *opens)));
    }
    families.push("breaker_open", Kind::Gauge, open);
    families.push("breaker_opened", Kind::Counter, opened);
}
