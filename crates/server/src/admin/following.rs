//! How the rules of a control plane are followed, for operators.

use super::Object;
use crate::json::write;
use tidegate_control::stream::{FollowView, Staleness, Status};
use tidegate_core::Nanos;

/// For `/readyz`.
pub(super) fn brief(object: &mut Object<'_>, view: &FollowView) {
    let (status, stale_for) = view.status();
    object.string("source", "control").number("head", status.head.max(status.version));
    staleness(object, stale_for);
    if status.version == 0 {
        object.string("problem", "no rules were loaded yet: everything is allowed");
    }
    progress(object, &status);
}

/// For `/v1/state`.
pub(super) fn whole(object: &mut Object<'_>, view: &FollowView) {
    let (status, stale_for) = view.status();
    object
        .string("source", "control")
        .number("version", status.version)
        .number("head", status.head.max(status.version));
    staleness(object, stale_for);
    let servers = view.servers().as_slice();
    object.list("servers", servers, |out, server| write::string(out, &server.to_string()));
    if let Some(server) = servers.get(status.server) {
        object.shown("server", server);
    }
    write::boolean(object.name("is_connected"), status.following.is_some());
    if let Some(following) = &status.following {
        object.string("server_name", &following.name).string("server_version", &following.software);
        object.number("protocol", u64::from(following.protocol));
        write::boolean(object.name("is_other_release"), following.is_other_release);
    }
    progress(object, &status);
    if let Some((version, reason)) = &status.refused {
        object.number("refused_version", *version).string("refused_because", reason);
    }
    if let Some(problem) = &status.problem {
        object.string("problem", problem);
    }
    for (name, count) in status.counters() {
        object.number(name, count);
    }
}

fn staleness(object: &mut Object<'_>, stale_for: Nanos) {
    object.number("stale_ms", stale_for.as_millis_ceil());
    object.string("staleness", Staleness::of(stale_for).word());
}

fn progress(object: &mut Object<'_>, status: &Status) {
    if let Some((have, total)) = status.loading {
        object.number("loaded_bytes", have).number("snapshot_bytes", total);
    }
}
