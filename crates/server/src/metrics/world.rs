//! What the world tier has counted, on every node and on its region's worker.

use super::Families;
use crate::App;
use tidegate_node::world_driver::WorldDriver;

pub(super) fn collect(families: &mut Families, app: &App, driver: &WorldDriver) {
    let Some(node) = app.engine.world() else { return };
    for (name, count) in node.counters().counts_by_name() {
        families.counter(name, count);
    }
    if let Some(quotas) = app.engine.quotas() {
        for (name, count) in
            quotas.counters().counts_by_name().into_iter().chain(driver.reconciler().counts_by_name())
        {
            families.counter(name, count);
        }
        families.gauge("slices_in_force", quotas.slice_count() as u64);
        families.gauge("quota_keys_tracked", quotas.tracked_keys() as u64);
        driver.reconciler().gauges().into_iter().for_each(|(name, value)| families.gauge(name, value));
    }
    families.gauge("world_keys", node.index_len() as u64);
    families.gauge("world_regions", node.view().map_or(0, |view| u64::from(view.regions)));
    families.gauge("world_membership", node.version());
    let state = driver.state();
    families.gauge("world_worker", u64::from(state.is_worker));
    if !state.is_worker {
        return;
    }
    families.gauge("world_breaker_open", u64::from(state.is_breaker_open));
    families.counter("world_breaker_opened", state.breaker_opened);
    families.gauge("world_namesakes", u64::from(state.namesakes));
    families.gauge("world_rows_in_last_import", state.rows_in_last_import as u64);
    families.gauge("world_cells_waiting", state.cells_waiting as u64);
    families.gauge("world_cells_known", state.cells_known as u64);
    let now = app.clock.now().now;
    for (name, instant) in [("import", state.imported_at), ("publish", state.published_at)] {
        if let Some(instant) = instant {
            families.seconds(&format!("world_{name}_age_seconds"), now.minus(instant));
        }
    }
}
