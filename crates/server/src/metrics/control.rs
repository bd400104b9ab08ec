//! What a control plane or a broker has counted.

use super::{Families, text};
use crate::control::ControlApp;

pub(crate) fn control_text(app: &ControlApp) -> String {
    let now = app.feed.clock().now();
    let mut families = Families::default();
    families.gauge("control_rule_version", app.feed.head());
    families.seconds("control_staleness_seconds", app.feed.stale_for(now));
    let followers = app.feed.nodes(now).iter().filter(|node| node.is_connected).count();
    families.gauge("control_followers", followers as u64);
    if let Some(plane) = &app.plane {
        families.gauge("control_follows_store", u64::from(plane.problem().is_none()));
    }
    for (name, count) in app.feed.counters().counts_by_name() {
        families.counter(&format!("control_{name}"), count);
    }
    text::write(&families.0)
}
