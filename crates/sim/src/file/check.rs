//! What a scenario needs to make sense, so that the simulator can trust it.

use super::{KEY_FIELDS, NODE_FIELDS, REGION_FIELDS};
use crate::scenario::{KeyPlan, LimitUse, Scenario};
use crate::streams::{ProcessId, StreamFault, StreamScenario};
use crate::swarm::Episode;
use crate::world::scenario::WorldScenario;
use serde::Serialize;
use std::ops::Range;
use tidegate_core::Cost;
use toml::Value;

/// A request has no more limits.
const LIMITS_MAX: usize = 5;
/// More than a machine can hold or anybody waits for.
const NODES_MAX: usize = 5_000;
/// Shards are numbered up to here, however many the store has.
const SHARDS_MAX: u32 = 1_000;

type Checked = Result<(), String>;

pub(super) fn check(episode: &Episode) -> Checked {
    match episode {
        Episode::Region(region, streams) => {
            check_region(region)?;
            streams.as_ref().map_or(Ok(()), |streams| check_streams(streams, region))
        }
        Episode::Counts(world) | Episode::Quotas(world) => check_world(world),
    }
}

fn within(what: &str, index: usize, count: usize) -> Checked {
    if index < count {
        Ok(())
    } else {
        Err(format!("there is no {what} {index}: there are {count}, from 0 on"))
    }
}

fn check_region(region: &Scenario) -> Checked {
    for window in region.keys.iter().filter_map(|key| key.calendar.as_ref()) {
        if !window.is_known() {
            return Err(format!("there is no time zone {:?}", window.time_zone));
        }
    }
    let is_ruled = |limit: &LimitUse| region.keys.get(limit.key).is_some_and(KeyPlan::is_ruled);
    if region
        .templates
        .iter()
        .any(|template| template.limits.len() > 1 && template.limits.iter().any(is_ruled))
    {
        return Err("a key of a calendar, or one that is always charged, is named alone".to_owned());
    }
    if region.nodes == 0 || region.nodes > NODES_MAX {
        return Err(format!("nodes: give 1 to {NODES_MAX}"));
    }
    if region.shards == 0 || region.shards > SHARDS_MAX {
        return Err(format!("shards: give 1 to {SHARDS_MAX}"));
    }
    if region.ends_at < region.boots_at {
        return Err("ends_at_ms: a region ends after it boots".to_owned());
    }
    region.absent.iter().try_for_each(|node| within("node", *node, region.nodes))?;
    for template in &region.templates {
        if template.limits.is_empty() || template.limits.len() > LIMITS_MAX {
            return Err(format!("templates: a request has 1 to {LIMITS_MAX} limits"));
        }
        for limit in &template.limits {
            within("key", limit.key, region.keys.len())?;
            Cost::new(limit.cost).map_err(|error| error.to_string())?;
        }
    }
    for arrival in &region.arrivals {
        within("node", arrival.node, region.nodes)?;
        within("template", arrival.template, region.templates.len())?;
    }
    if !region.arrivals.is_sorted_by_key(|arrival| arrival.at) {
        return Err("arrivals: give them in the order of time".to_owned());
    }
    for change in &region.changes {
        let Range { start, end } = change.keys;
        if start >= end || end > region.keys.len() {
            return Err(format!("changes: there are no keys {start} to {end} of {}", region.keys.len()));
        }
    }
    region.faults.iter().try_for_each(|(_, fault)| check_fault(fault, region))
}

fn check_fault(fault: &impl Serialize, region: &Scenario) -> Checked {
    numbers(fault, NODE_FIELDS)?.into_iter().try_for_each(|node| within("node", node, region.nodes))?;
    numbers(fault, KEY_FIELDS)?.into_iter().try_for_each(|key| within("key", key, region.keys.len()))
}

/// The numbers that a fault has under one of these names, however deep.
fn numbers(fault: &impl Serialize, names: &[&str]) -> Result<Vec<usize>, String> {
    let value = Value::try_from(fault).map_err(|error| error.to_string())?;
    let mut found = Vec::new();
    add_numbers(&value, names, &mut found);
    Ok(found)
}

fn add_numbers(value: &Value, names: &[&str], found: &mut Vec<usize>) {
    for (name, value) in value.as_table().into_iter().flatten() {
        let number = value.as_integer().filter(|_| names.contains(&name.as_str()));
        found.extend(number.and_then(|number| usize::try_from(number).ok()));
        add_numbers(value, names, found);
    }
}

fn check_streams(streams: &StreamScenario, region: &Scenario) -> Checked {
    let nodes: usize = streams.regions.iter().map(|region| region.nodes).sum();
    let brokers: usize = streams.regions.iter().map(|region| region.brokers).sum();
    if nodes != region.nodes {
        return Err(format!("streams: rules travel to {nodes} nodes, and the region has {}", region.nodes));
    }
    if streams.changes.len() != region.changes.len() {
        return Err("streams: changes_ms has a time for each of the region's changes".to_owned());
    }
    if !streams.changes.is_sorted() || streams.planes == 0 {
        return Err("streams: there is a control plane, and changes are in the order of time".to_owned());
    }
    for (_, fault) in &streams.faults {
        match *fault {
            StreamFault::LogAway { plane } | StreamFault::LogBack { plane } => {
                within("plane", plane, streams.planes)?;
            }
            StreamFault::Crash { who }
            | StreamFault::Start { who, .. }
            | StreamFault::Pause { who, .. }
            | StreamFault::Cut { who }
            | StreamFault::Mend { who }
            | StreamFault::Break { who } => match who {
                ProcessId::Plane(plane) => within("plane", plane, streams.planes)?,
                ProcessId::Broker(broker) => within("broker", broker, brokers)?,
                ProcessId::Node(node) => within("node", node, nodes)?,
            },
        }
    }
    Ok(())
}

fn check_world(world: &WorldScenario) -> Checked {
    if world.regions.is_empty() || world.networks.len() != world.regions.len() {
        return Err("world: give [[regions]], and a member of networks for each".to_owned());
    }
    if world.page_rows == 0 {
        return Err("page_rows: give 1 or more".to_owned());
    }
    for region in &world.regions {
        check_region(region)?;
        if region.world.is_none() {
            return Err("regions: each has a name in the world, `world = { region = \"…\" }`".to_owned());
        }
    }
    for (_, fault) in &world.faults {
        let regions = numbers(fault, REGION_FIELDS)?;
        regions.iter().try_for_each(|region| within("region", *region, world.regions.len()))?;
        check_fault(fault, &world.regions[regions.first().copied().unwrap_or(0)])?;
    }
    Ok(())
}
