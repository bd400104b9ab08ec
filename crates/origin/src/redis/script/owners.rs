//! Folding on its way to Redis and back: which nodes a shard remembers, and one step through a crowded cell.

use super::ScriptCall;
use super::name::{self, Names};
use super::reply::{Fields, nonsense, shown};
use crate::redis::wire::{Arguments, Value};
use crate::{CrowdedCell, FoldStep, FoldedOwners, OriginError, RememberedNodes};
use tidegate_core::origin_cell::NodeId;

pub(crate) fn members_call(slot: u16) -> ScriptCall {
    let mut keys = Arguments::default();
    let [_, members] = name::record_names(slot);
    keys.text(&members);
    ScriptCall { slot, keys, args: Arguments::default(), syncs: Vec::new(), is_reading: false }
}

pub(crate) fn members_reply(value: Value) -> Result<RememberedNodes, OriginError> {
    let mut fields = fields(value)?;
    let live = fields.owners()?;
    let mut nodes = Vec::new();
    while let Ok(node) = fields.text() {
        nodes.push(NodeId(u64::from_str_radix(&node, 16).map_err(|_| nonsense(&node))?));
    }
    Ok(RememberedNodes { live, nodes })
}

pub(crate) fn fold_call(step: &FoldStep<'_>, topology_has_slots: bool) -> ScriptCall {
    let FoldStep { cell: CrowdedCell { key, epoch, sequence }, cursor, stays } = step;
    let (mut keys, mut args) = (Arguments::default(), Arguments::default());
    let names = Names::of(*key);
    match sequence {
        Some(sequence) => names.window_cell(&mut keys, *epoch, *sequence),
        None => names.gcra_state(&mut keys, *epoch),
    }
    args.number(*cursor);
    stays.iter().for_each(|node| args.write(format_args!("{:016x}", node.0)));
    let slot = if topology_has_slots { name::slot_of(*key) } else { 0 };
    ScriptCall { slot, keys, args, syncs: Vec::new(), is_reading: false }
}

pub(crate) fn fold_reply(value: Value) -> Result<FoldedOwners, OriginError> {
    let mut fields = fields(value)?;
    let next = fields.text()?;
    let next = next.parse().map_err(|_| nonsense(&next))?;
    let (folded, owners) = (fields.owners()?, fields.owners()?);
    fields.end()?;
    Ok(FoldedOwners { next, folded, owners })
}

/// A string says what is wrong with the keys.
fn fields(value: Value) -> Result<Fields, OriginError> {
    match value {
        Value::BulkString(problem) => Err(nonsense(&shown(&problem))),
        value => Fields::of(value),
    }
}
