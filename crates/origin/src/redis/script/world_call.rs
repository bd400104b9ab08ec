//! From what nodes and their world worker say to each other to the keys and arguments of a script's call.

use super::call::count;
use super::name::{self, Names};
use super::{SYNCS_MAX, ScriptCall};
use crate::redis::wire::Arguments;
use crate::{LeaderCandidate, LeaderRequest, OriginId, PublishRequest, WorldCell};
use std::collections::BTreeMap;
use tidegate_core::{CellId, KeyId, Nanos, WorldPolicy, WorldView};

/// The most cells of one call: reading and raising some numbers is quicker than a sync. A server does nothing else
/// meanwhile, and requests wait: after an outage of the world store tens of thousands of cells go this way.
const CELLS_MAX: usize = 2 * SYNCS_MAX;

fn of_nodes(names: &[&str], args: Arguments) -> ScriptCall {
    let mut keys = Arguments::default();
    names.iter().for_each(|name| keys.text(name));
    ScriptCall { slot: name::slot_of_nodes(), keys, args, syncs: Vec::new(), is_reading: false }
}

pub(crate) fn lead_call(lead: &LeaderCandidate) -> ScriptCall {
    let mut args = Arguments::default();
    args.write(format_args!("{:016x}", lead.node.0));
    match lead.request {
        LeaderRequest::Lead { lease } => count(&mut args, lease.as_millis_ceil().max(1)),
        LeaderRequest::GiveUp => args.text(""),
    }
    match lead.proposed {
        Some(OriginId { id, incarnation }) => args.write(format_args!("{id:016x}:{incarnation:016x}")),
        None => args.text(""),
    }
    of_nodes(&[name::WORKER, name::ORIGIN, name::LIVE_NODES, name::APPLIED_VERSIONS], args)
}

/// A publish request's cell is written so that the order of texts is the order of cells.
pub(crate) fn enqueue_call(requests: &[PublishRequest]) -> ScriptCall {
    let mut args = Arguments::default();
    for PublishRequest { cell, limit, expires, name } in requests {
        args.write(format_args!("{:032x}:{:04x}:{:016x}", cell.key.get(), cell.epoch, cell.sequence.0));
        args.write(format_args!("{limit}:{}:{name}", expires.as_millis_ceil()));
    }
    of_nodes(&[name::PUBLISH_QUEUE, name::PUBLISH_REQUESTS], args)
}

pub(crate) fn take_call(most: u16) -> ScriptCall {
    let mut args = Arguments::default();
    count(&mut args, u64::from(most));
    of_nodes(&[name::PUBLISH_QUEUE, name::PUBLISH_REQUESTS], args)
}

pub(crate) fn publish_view_call(view: &WorldView) -> ScriptCall {
    let mut args = Arguments::default();
    let WorldView { regions, version, policy } = view;
    match policy {
        WorldPolicy::Headroom => args.write(format_args!("{version}:{regions}:headroom")),
        WorldPolicy::Floor { thousandths } => {
            args.write(format_args!("{version}:{regions}:floor {thousandths}"));
        }
    }
    count(&mut args, *version);
    of_nodes(&[name::WORLD], args)
}

pub(crate) fn totals_calls(cells: &[CellId], topology_has_slots: bool) -> Vec<ScriptCall> {
    let keys = |keys: &mut Arguments, _: &mut Arguments, cell: &CellId| {
        Names::of(cell.key).window_cell(keys, cell.epoch, cell.sequence);
    };
    cell_calls(cells, |cell| cell.key, |_| {}, keys, topology_has_slots)
}

pub(crate) fn import_calls(cells: &[WorldCell], now: Nanos, topology_has_slots: bool) -> Vec<ScriptCall> {
    let head = |args: &mut Arguments| count(args, now.as_millis_ceil());
    let arguments = |keys: &mut Arguments, args: &mut Arguments, cell: &WorldCell| {
        let CellId { key, epoch, sequence } = cell.cell;
        let names = Names::of(key);
        names.window_cell(keys, epoch, sequence);
        names.epoch(keys);
        count(args, cell.own);
        count(args, cell.others);
        count(args, cell.expires.as_millis_ceil());
        count(args, u64::from(epoch));
    };
    cell_calls(cells, |cell| cell.cell.key, head, arguments, topology_has_slots)
}

/// The calls that carry some cells. In a cluster a call's keys must share a slot.
fn cell_calls<T>(
    cells: &[T],
    key: impl Fn(&T) -> KeyId,
    head: impl Fn(&mut Arguments),
    push: impl Fn(&mut Arguments, &mut Arguments, &T),
    topology_has_slots: bool,
) -> Vec<ScriptCall> {
    let mut by_slot: BTreeMap<u16, Vec<usize>> = BTreeMap::new();
    for (index, cell) in cells.iter().enumerate() {
        let slot = if topology_has_slots { name::slot_of(key(cell)) } else { 0 };
        by_slot.entry(slot).or_default().push(index);
    }
    let mut calls = Vec::new();
    for (slot, indices) in by_slot {
        for part in indices.chunks(CELLS_MAX) {
            let (mut keys, mut args) = (Arguments::default(), Arguments::default());
            head(&mut args);
            part.iter().for_each(|index| push(&mut keys, &mut args, &cells[*index]));
            calls.push(ScriptCall { slot, keys, args, syncs: part.to_vec(), is_reading: false });
        }
    }
    calls
}
