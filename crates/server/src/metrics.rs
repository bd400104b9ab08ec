//! What a node has counted, in Prometheus' text format. Per node and per shard, never per key.

use crate::App;
use crate::counters::COUNTERS;
use std::fmt::Write;
use tidegate_control::stream::{FollowView, Staleness};
use tidegate_node::region_driver::{BreakerState, RegionDriver};
use tidegate_node::world_driver::WorldDriver;

pub(crate) fn text(app: &App) -> String {
    let mut out = String::with_capacity(2048);
    for (name, count) in app.engine.stats().named().into_iter().chain(COUNTERS.named()) {
        counter(&mut out, name, count);
    }
    for (name, count) in app.engine.journal().iter().flat_map(|journal| journal.recorder().counters().named())
    {
        counter(&mut out, name, count);
    }
    gauge(&mut out, "keys", app.engine.key_count() as u64);
    gauge(&mut out, "rule_version", app.engine.rules().version);
    gauge(&mut out, "overrides", app.overrides.in_force().count() as u64);
    if let Some(view) = &app.following {
        following(&mut out, view);
    }
    if let Some(driver) = &app.sharing {
        region(&mut out, app, driver);
    }
    if let Some(driver) = &app.world {
        world(&mut out, app, driver);
    }
    out
}

fn region(out: &mut String, app: &App, driver: &RegionDriver) {
    let Some(sharing) = app.engine.shared() else { return };
    for (name, count) in sharing.region.counters().named() {
        counter(out, name, count);
    }
    gauge(out, "live_nodes", u64::from(sharing.table.live_nodes()));
    gauge(out, "keys_waiting_for_a_shard", sharing.region.held() as u64);
    let (breakers, origin) = (sharing.region.breakers(), driver.origin());
    for (name, kind) in [("breaker_open", "gauge"), ("breaker_opened_total", "counter")] {
        let _ = writeln!(out, "# TYPE tidegate_{name} {kind}");
        for shard in origin.shards() {
            let breaker = breakers.iter().find(|(of, _, _)| *of == shard);
            let is_open = breaker.is_some_and(|(_, state, _)| matches!(state, BreakerState::Open { .. }));
            let opened = breaker.map_or(0, |(_, _, opens)| *opens);
            let value = if kind == "gauge" { u64::from(is_open) } else { opened };
            let _ =
                writeln!(out, "tidegate_{name}{{shard=\"{}\"}} {value}", label(&origin.shard_name(shard)));
        }
    }
}

fn world(out: &mut String, app: &App, driver: &WorldDriver) {
    let Some(node) = app.engine.world() else { return };
    for (name, count) in node.counters().named() {
        counter(out, name, count);
    }
    if let Some(quotas) = app.engine.quotas() {
        for (name, count) in quotas.counters().named().into_iter().chain(driver.reconciler().named()) {
            counter(out, name, count);
        }
        gauge(out, "slices_in_force", quotas.slice_count() as u64);
        gauge(out, "quota_keys_tracked", quotas.tracked_keys() as u64);
        driver.reconciler().gauges().into_iter().for_each(|(name, value)| gauge(out, name, value));
    }
    let (state, now) = (driver.state(), app.clock.now().now);
    gauge(out, "world_keys", node.book_len() as u64);
    gauge(out, "world_regions", node.view().map_or(0, |view| u64::from(view.regions)));
    gauge(out, "world_membership", node.version());
    gauge(out, "world_worker", u64::from(state.is_worker));
    if !state.is_worker {
        return;
    }
    gauge(out, "world_breaker_open", u64::from(state.is_breaker_open));
    counter(out, "world_breaker_opened", state.breaker_opened);
    gauge(out, "world_namesakes", u64::from(state.namesakes));
    gauge(out, "world_rows_in_last_import", state.rows_in_last_import as u64);
    gauge(out, "world_cells_waiting", state.cells_waiting as u64);
    gauge(out, "world_cells_known", state.cells_known as u64);
    for (name, instant) in [("import", state.imported_at), ("publish", state.published_at)] {
        if let Some(instant) = instant {
            gauge(out, &format!("world_last_{name}_ago_ms"), now.minus(instant).as_millis_ceil());
        }
    }
}

fn following(out: &mut String, view: &FollowView) {
    let (status, stale_for) = view.status();
    for (name, count) in status.counters() {
        counter(out, name, count);
    }
    gauge(out, "rule_head_version", status.head);
    gauge(out, "rule_staleness_ms", stale_for.as_millis_ceil());
    gauge(out, "rule_staleness_grade", Staleness::of(stale_for) as u64);
    gauge(out, "rule_stream_connected", u64::from(status.following.is_some()));
    gauge(out, "rule_refused_version", status.refused.as_ref().map_or(0, |(version, _)| *version));
    let (have, total) = status.loading.unwrap_or((0, 0));
    gauge(out, "rule_snapshot_loaded_bytes", have);
    gauge(out, "rule_snapshot_bytes", total);
}

fn counter(out: &mut String, name: &str, count: u64) {
    // Writing to a string can't fail.
    let _ = writeln!(out, "# TYPE tidegate_{name}_total counter\ntidegate_{name}_total {count}");
}

fn gauge(out: &mut String, name: &str, value: u64) {
    let _ = writeln!(out, "# TYPE tidegate_{name} gauge\ntidegate_{name} {value}");
}

/// A label's value, as the format wants it escaped.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
