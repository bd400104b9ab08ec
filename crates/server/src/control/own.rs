//! What a control plane or a broker says of itself, and of who follows it.

use super::ControlApp;
use super::answer::ControlResponse;
use super::write::document;
use crate::access::{Caller, Permission};
use serde_json::{Value, json};
use std::sync::atomic::Ordering;
use tidegate_control::stream::{FollowView, NodeReport, Staleness};

/// Why it may lack the newest rules.
fn problem(app: &ControlApp) -> Option<String> {
    match (&app.plane, &app.following) {
        (Some(plane), _) => plane.problem(),
        (None, Some(view)) => view.status().0.problem,
        (None, None) => None,
    }
}

/// A broker is ready as soon as it has rules to hand on, however old. What is wrong with a store may name its address
/// and its user: `is_told` is whether whoever asks may see that.
pub(super) fn ready(app: &ControlApp, is_told: bool) -> ControlResponse {
    let (version, problem) = (app.feed.head(), problem(app));
    let has_rules = if app.plane.is_some() { problem.is_none() } else { version > 0 };
    let is_ready = has_rules && !app.is_stopping.load(Ordering::Relaxed);
    let problem = problem.map(|problem| match is_told {
        true => problem,
        false => "see the log, or /v1/state with an operator's token".to_owned(),
    });
    let body = document(&json!({ "ready": is_ready, "version": version, "problem": problem }));
    if is_ready { ControlResponse::Json(body) } else { ControlResponse::Unready(body) }
}

/// Whether a caller may see what concerns all tenants.
pub(super) fn is_operator(caller: &Caller) -> bool {
    caller.is_operator() && caller.may(Permission::Read)
}

/// A tenant sees its own share: who follows, and what is wrong with the store, are the operators' business.
pub(super) fn state_for_tenant(app: &ControlApp, caller: &Caller) -> Vec<u8> {
    let mut state = json!({
        "software": env!("CARGO_PKG_VERSION"),
        "role": if app.plane.is_some() { "control" } else { "broker" },
        "tenant": caller.tenant(),
        "version": app.feed.head(),
        "stale_ms": app.feed.stale_for(app.feed.clock().now()).as_millis_ceil(),
    });
    if let Some(plane) = &app.plane {
        let standing = plane.rules();
        let namespaces = standing.set.namespaces();
        let own = namespaces.iter().filter(|namespace| *namespace.tenant == *caller.tenant());
        state["version"] = json!(standing.version);
        state["fleet_mode"] = json!(standing.fleet_mode.to_string());
        state["namespaces"] = json!(own.clone().count());
        state["rules"] = json!(own.map(|namespace| namespace.rules.len()).sum::<usize>());
    }
    document(&state)
}

pub(super) fn state(app: &ControlApp) -> Vec<u8> {
    let now = app.feed.clock().now();
    let mut state = json!({
        "software": env!("CARGO_PKG_VERSION"),
        "role": if app.plane.is_some() { "control" } else { "broker" },
        "version": app.feed.head(),
        "stale_ms": app.feed.stale_for(now).as_millis_ceil(),
        "followers": app.feed.nodes(now).iter().filter(|node| node.is_connected).count(),
        "problem": problem(app),
    });
    if let Some(plane) = &app.plane {
        let standing = plane.rules();
        let counts = standing.set.counts();
        state["version"] = json!(standing.version);
        state["fleet_mode"] = json!(standing.fleet_mode.to_string());
        state["namespaces"] = json!(counts.namespaces);
        state["rules"] = json!(counts.rules);
    }
    if let Some(view) = &app.following {
        state["upstream"] = upstream(view);
    }
    document(&state)
}

fn upstream(view: &FollowView) -> Value {
    let (status, stale_for) = view.status();
    let servers = view.servers().as_slice();
    json!({
        "servers": servers.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "server": servers.get(status.server).map(ToString::to_string),
        "is_connected": status.following.is_some(),
        "server_version": status.following.as_ref().map(|following| &*following.software),
        "is_other_release": status.following.as_ref().is_some_and(|following| following.is_other_release),
        "head": status.head,
        "stale_ms": stale_for.as_millis_ceil(),
        "staleness": Staleness::of(stale_for).word(),
        "loaded_bytes": status.loading.map(|(have, _)| have),
        "snapshot_bytes": status.loading.map(|(_, total)| total),
        "refused": status.refused.map(|(version, reason)| json!({ "version": version, "reason": reason })),
    })
}

pub(super) fn nodes(app: &ControlApp) -> Vec<u8> {
    let node = |node: &NodeReport| {
        json!({
            "node": &*node.node,
            "region": &*node.region,
            "software": &*node.software,
            "role": node.role.word(),
            "rule_version": node.rule_version,
            "refused_version": (node.refused_version > 0).then_some(node.refused_version),
            "seen_ms_ago": node.seen_ms_ago,
            "is_connected": node.is_connected,
        })
    };
    let nodes = app.feed.nodes(app.feed.clock().now());
    let nodes: Vec<Value> = nodes.iter().map(node).collect();
    document(&json!({ "version": app.feed.head(), "nodes": nodes }))
}
