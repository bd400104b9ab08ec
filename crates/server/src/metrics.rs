//! What a node has counted, as families of metrics. Per rule, shard and node, never per key: whatever callers send, the
//! number of series stays the same.
//!
//! `metrics/family.rs` is the form, `metrics/catalogue.rs` says what each means, and `docs/metrics.md` says it to people.

mod catalogue;
mod control;
mod family;
mod region;
mod rules;
mod text;
mod world;

pub(crate) use control::control_text;
pub(crate) use family::{Family, Kind, Labels, Sample, Value};

use crate::App;
use crate::counters::COUNTERS;
use std::borrow::Cow;
use tidegate_control::stream::{FollowView, Staleness};
use tidegate_core::Nanos;

/// In Prometheus' text format.
pub(crate) fn text(app: &App) -> String {
    text::write(&families(app))
}

/// Everything that this node counts, at one time.
pub(crate) fn families(app: &App) -> Vec<Family> {
    let mut families = Families::default();
    node(&mut families, app);
    for (name, count) in
        app.engine.journal().iter().flat_map(|journal| journal.recorder().counters().counts_by_name())
    {
        families.counter(name, count);
    }
    if let Some(view) = &app.following {
        following(&mut families, view);
    }
    if let Some(driver) = &app.sharing {
        region::collect(&mut families, app, driver);
    }
    if let Some(driver) = &app.world {
        world::collect(&mut families, app, driver);
    }
    families.0
}

/// A list that is being made. Names are given as they are counted, without the prefix and a counter's ending.
#[derive(Default)]
struct Families(Vec<Family>);

impl Families {
    fn push(&mut self, name: &str, kind: Kind, samples: Vec<Sample>) {
        let ending = if kind == Kind::Counter { "_total" } else { "" };
        let name = format!("tidegate_{name}{ending}");
        let help = catalogue::help(&name);
        self.0.push(Family { name: Cow::Owned(name), help, kind, samples });
    }

    fn counter(&mut self, name: &str, count: u64) {
        self.push(name, Kind::Counter, vec![Sample::whole(Labels::new(), count)]);
    }

    fn gauge(&mut self, name: &str, value: u64) {
        self.push(name, Kind::Gauge, vec![Sample::whole(Labels::new(), value)]);
    }

    fn seconds(&mut self, name: &str, length: Nanos) {
        let value = Value::Real(length.get() as f64 / Nanos::PER_SECOND as f64);
        self.push(name, Kind::Gauge, vec![Sample { labels: Labels::new(), value }]);
    }
}

/// What every node has.
fn node(families: &mut Families, app: &App) {
    let [version, region, id] = [env!("CARGO_PKG_VERSION"), &app.region, &app.node].map(Into::into);
    let labels = vec![("version", version), ("region", region), ("node", id)];
    families.push("node_info", Kind::Gauge, vec![Sample::whole(labels, 1)]);
    let source = vec![("source", app.secret_source.into())];
    families.push("fleet_secret_info", Kind::Gauge, vec![Sample::whole(source, 1)]);
    for (name, count) in app.engine.stats().counts_by_name().into_iter().chain(COUNTERS.counts_by_name()) {
        families.counter(name, count);
    }
    rules::collect(families, app);
    families.gauge("keys", app.engine.key_count() as u64);
    families.gauge("keys_max", app.engine.keys_max() as u64);
    families.counter("keys_evicted", app.engine.evicted());
    families.gauge("rule_version", app.engine.rules().version);
    families.gauge("overrides", app.overrides.in_force().count() as u64);
}

/// Rules of a control plane.
fn following(families: &mut Families, view: &FollowView) {
    let (status, stale_for) = view.status();
    for (name, count) in status.counters() {
        families.counter(name, count);
    }
    families.gauge("rule_head_version", status.head);
    families.seconds("rule_staleness_seconds", stale_for);
    families.gauge("rule_staleness_grade", Staleness::of(stale_for) as u64);
    families.gauge("rule_stream_connected", u64::from(status.following.is_some()));
    families.gauge("rule_refused_version", status.refused.as_ref().map_or(0, |(version, _)| *version));
    let (have, total) = status.loading.unwrap_or((0, 0));
    families.gauge("rule_snapshot_loaded_bytes", have);
    families.gauge("rule_snapshot_bytes", total);
}
