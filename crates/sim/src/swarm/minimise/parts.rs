//! What can be left out of an episode: faults, requests, limits, keys, nodes and regions.
//!
//! What is numbered is renumbered everywhere when one is left out. Faults name what they hit by
//! fields, so they are renumbered as the values that files are made of, also those that are added later.

use super::Search;
use crate::file::{KEY_FIELDS, NODE_FIELDS, REGION_FIELDS};
use crate::network::NetworkOptions;
use crate::scenario::{LimitChange, Scenario};
use crate::streams::Streams;
use crate::swarm::Episode;
use crate::world::scenario::{WorldFault, WorldScenario};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::panic::{AssertUnwindSafe, catch_unwind};
use tidegate_core::Nanos;
use toml::Value;

impl Search {
    /// Mends what goes wrong all the time.
    pub(super) fn calm(&mut self) {
        let each = |change: fn(&mut Scenario)| {
            move |episode: &mut Episode| episode.regions_mut().iter_mut().for_each(change)
        };
        self.try_change(each(|region| region.network = NetworkOptions::LOOPBACK));
        self.try_change(each(calm_clocks));
        self.try_change(each(|region| region.keys_max = Scenario::default().keys_max));
        self.try_change(each(|region| region.shards = 1));
        self.try_change(each(|region| region.wakes_within = Nanos::ZERO));
        let world = |change: fn(&mut WorldScenario)| {
            move |episode: &mut Episode| episode.world_mut().into_iter().for_each(change)
        };
        self.try_change(world(|world| world.networks.fill(NetworkOptions::LOOPBACK)));
        self.try_change(world(|world| world.store_offset_ns = 0));
        self.try_change(world(|world| world.commits_within = Nanos::ZERO));
        self.try_change(drop_changes);
        self.try_change(fix_when_changes_are_heard);
    }

    pub(super) fn drop_parts(&mut self) {
        for region in 0..self.smallest.regions().len() {
            self.drop_each(
                |episode| episode.regions()[region].faults.len(),
                |episode, index| {
                    episode.regions_mut()[region].faults.remove(index);
                },
            );
        }
        self.drop_each(
            |episode| episode.streams().map_or(0, |streams| streams.faults.len()),
            drop_stream_fault,
        );
        self.drop_each(|episode| episode.world().map_or(0, |world| world.faults.len()), drop_world_fault);
        self.drop_each(|episode| episode.regions().len(), drop_region);
        for region in 0..self.smallest.regions().len() {
            self.try_change(|episode| {
                episode
                    .world_mut()
                    .into_iter()
                    .for_each(|world| world.networks[region] = NetworkOptions::LOOPBACK);
            });
        }
        for region in 0..self.smallest.regions().len() {
            self.drop_each(
                |episode| episode.regions()[region].arrivals.len(),
                |episode, index| {
                    episode.regions_mut()[region].arrivals.remove(index);
                },
            );
            let nodes = |episode: &Episode| episode.regions()[region].nodes;
            self.drop_each(nodes, |episode, node| drop_node(episode, region, node));
            self.drop_each(nodes, |episode, node| join_nodes(episode, region, node));
        }
        self.drop_each(|episode| episode.regions()[0].changes.len(), drop_change);
        self.drop_each(|episode| episode.regions()[0].keys.len(), drop_key);
        for region in 0..self.smallest.regions().len() {
            self.drop_limits(region);
        }
    }

    /// Leaves out ever smaller parts of what is numbered, the last ones first.
    fn drop_each(&mut self, count: impl Fn(&Episode) -> usize, drop_one: impl Fn(&mut Episode, usize)) {
        let mut part = count(&self.smallest);
        while part > 0 && !self.is_over() {
            let mut until = count(&self.smallest);
            while until > 0 {
                let from = until.saturating_sub(part);
                self.try_change(|episode| (from..until).rev().for_each(|index| drop_one(episode, index)));
                until = from;
            }
            part /= 2;
        }
    }

    /// Leaves out templates that nobody uses, and limits of those that are used.
    fn drop_limits(&mut self, region: usize) {
        self.try_change(|episode| drop_unused_templates(&mut episode.regions_mut()[region]));
        for template in 0..self.smallest.regions()[region].templates.len() {
            self.drop_each(
                |episode| episode.regions()[region].templates[template].limits.len(),
                |episode, limit| {
                    let limits = &mut episode.regions_mut()[region].templates[template].limits;
                    if limits.len() > 1 {
                        limits.remove(limit);
                    }
                },
            );
        }
    }
}

fn drop_stream_fault(episode: &mut Episode, index: usize) {
    if let Episode::Region(_, Some(streams)) = episode {
        streams.faults.remove(index);
    }
}

fn drop_world_fault(episode: &mut Episode, index: usize) {
    // Without calm nothing could heal.
    if let Some(world) = episode.world_mut().filter(|world| world.faults[index].1 != WorldFault::Calm) {
        world.faults.remove(index);
    }
}

fn calm_clocks(region: &mut Scenario) {
    region.clock_offsets_ns.clear();
    region.clock_drifts_ppm.clear();
    region.origin_offset_ns = 0;
}

fn drop_changes(episode: &mut Episode) {
    episode.regions_mut().iter_mut().for_each(|region| region.changes.clear());
    if let Episode::Region(_, streams) = episode {
        *streams = None;
    }
}

/// Replaces the way of rules by when each node hears of them.
fn fix_when_changes_are_heard(episode: &mut Episode) {
    let Episode::Region(region, streams) = episode else { return };
    let Some(way) = streams.as_deref().cloned() else { return };
    // What is violated on the way is no part of what remains.
    let Ok(travelled) = catch_unwind(AssertUnwindSafe(|| Streams::new(way).run_and_heal())) else { return };
    for (change, heard_at) in region.changes.iter_mut().zip(travelled.heard_at) {
        change.heard_at = heard_at;
    }
    *streams = None;
}

fn drop_change(episode: &mut Episode, index: usize) {
    if let Episode::Region(_, Some(streams)) = episode {
        streams.changes.remove(index);
    }
    for region in episode.regions_mut() {
        region.changes.remove(index);
    }
}

fn drop_region(episode: &mut Episode, dropped: usize) {
    let Some(world) = episode.world_mut().filter(|world| world.regions.len() > 1) else { return };
    world.regions.remove(dropped);
    world.networks.remove(dropped);
    renumber_all(&mut world.faults, REGION_FIELDS, dropped);
}

fn drop_node(episode: &mut Episode, region: usize, dropped: usize) {
    if episode.regions()[region].nodes < 2 {
        return;
    }
    if let Episode::Region(_, Some(streams)) = episode {
        renumber_all(&mut streams.faults, NODE_FIELDS, dropped);
        streams.regions[region].nodes -= 1;
    }
    if let Some(world) = episode.world_mut() {
        let (own, others): (Vec<_>, Vec<_>) = world.faults.drain(..).partition(
            |(_, fault)| matches!(fault, WorldFault::Inside { region: inside, .. } if *inside == region),
        );
        let mut own = own;
        renumber_all(&mut own, NODE_FIELDS, dropped);
        world.faults = others;
        world.faults.extend(own);
        world.faults.sort_by_key(|(at, _)| *at);
    }
    let region = &mut episode.regions_mut()[region];
    region.nodes -= 1;
    renumber_all(&mut region.faults, NODE_FIELDS, dropped);
    renumber_list(&mut region.absent, dropped);
    region.arrivals.retain(|arrival| arrival.node != dropped);
    region.arrivals.iter_mut().for_each(|arrival| arrival.node -= usize::from(arrival.node > dropped));
    remove_if_there(&mut region.clock_offsets_ns, dropped);
    remove_if_there(&mut region.clock_drifts_ppm, dropped);
    region.changes.iter_mut().for_each(|change| remove_if_there(&mut change.heard_at, dropped));
}

/// Sends a node's requests to the one before it.
fn join_nodes(episode: &mut Episode, region: usize, node: usize) {
    let Some(before) = node.checked_sub(1) else { return };
    let region = &mut episode.regions_mut()[region];
    region
        .arrivals
        .iter_mut()
        .filter(|arrival| arrival.node == node)
        .for_each(|arrival| arrival.node = before);
}

/// All regions have the same keys.
fn drop_key(episode: &mut Episode, dropped: usize) {
    if episode.regions()[0].keys.len() < 2 {
        return;
    }
    if let Some(world) = episode.world_mut() {
        renumber_all(&mut world.faults, KEY_FIELDS, dropped);
    }
    // What is changed of that key only is pushed no more.
    let is_of_it = |change: &LimitChange| change.keys == (dropped..dropped + 1);
    let changes = &episode.regions()[0].changes;
    let unused: Vec<usize> = (0..changes.len()).filter(|index| is_of_it(&changes[*index])).collect();
    unused.into_iter().rev().for_each(|index| drop_change(episode, index));
    for region in episode.regions_mut() {
        region.keys.remove(dropped);
        renumber_all(&mut region.faults, KEY_FIELDS, dropped);
        for template in &mut region.templates {
            template.limits.retain(|limit| limit.key != dropped);
            template.limits.iter_mut().for_each(|limit| limit.key -= usize::from(limit.key > dropped));
        }
        for change in &mut region.changes {
            change.keys.start -= usize::from(change.keys.start > dropped);
            change.keys.end -= usize::from(change.keys.end > dropped);
        }
        let templates = &region.templates;
        region.arrivals.retain(|arrival| !templates[arrival.template].limits.is_empty());
        drop_unused_templates(region);
    }
}

fn drop_unused_templates(region: &mut Scenario) {
    for dropped in (0..region.templates.len()).rev() {
        if region.arrivals.iter().all(|arrival| arrival.template != dropped) {
            region.templates.remove(dropped);
            region
                .arrivals
                .iter_mut()
                .for_each(|arrival| arrival.template -= usize::from(arrival.template > dropped));
        }
    }
}

fn remove_if_there<T>(list: &mut Vec<T>, index: usize) {
    if index < list.len() {
        list.remove(index);
    }
}

fn renumber_list(list: &mut Vec<usize>, dropped: usize) {
    list.retain(|index| *index != dropped);
    list.iter_mut().for_each(|index| *index -= usize::from(*index > dropped));
}

/// Leaves out the faults that name what is dropped, and renumbers those that name what comes after it.
fn renumber_all<F: Serialize + DeserializeOwned>(
    faults: &mut Vec<(Nanos, F)>,
    names: &[&str],
    dropped: usize,
) {
    let all = std::mem::take(faults);
    faults.extend(all.into_iter().filter_map(|(at, fault)| {
        let mut value = Value::try_from(&fault).ok()?;
        let is_left = renumber(&mut value, names, i64::try_from(dropped).ok()?);
        is_left.then(|| value.try_into().ok()).flatten().map(|fault| (at, fault))
    }));
}

/// Whether what is dropped isn't named.
fn renumber(value: &mut Value, names: &[&str], dropped: i64) -> bool {
    let Value::Table(table) = value else { return true };
    table.iter_mut().all(|(field, value)| match value {
        Value::Integer(index) if names.contains(&field.as_str()) => {
            let is_left = *index != dropped;
            *index -= i64::from(*index > dropped);
            is_left
        }
        value => renumber(value, names, dropped),
    })
}
