//! From the answers of the world's scripts to what they mean. Every number is checked.

use super::ScriptCall;
use super::reply::{Fields, nonsense, shown};
use crate::redis::wire::Value;
use crate::{CellTotal, KeyError, LeaderStatus, OriginError, OriginId, PublishRequest};
use std::sync::Arc;
use tidegate_core::limit::NUMBER_MAX;
use tidegate_core::{CellId, KeyId, Nanos, Sequence, WorldPolicy, WorldView};

pub(crate) fn lead_reply(value: Value) -> Result<LeaderStatus, OriginError> {
    let mut fields = array(value)?;
    let now = fields.present()?;
    let is_leader = fields.count()? == 1;
    let origin = fields.text()?;
    let parsed = origin.split_once(':').and_then(|(id, life)| {
        let number = |text| u64::from_str_radix(text, 16).ok();
        Some(OriginId { id: number(id)?, incarnation: number(life)? })
    });
    let applied_by_all = fields.count()?;
    fields.end()?;
    let origin = match parsed {
        None if !origin.is_empty() || is_leader => return Err(nonsense(&origin)),
        parsed => parsed,
    };
    Ok(LeaderStatus { is_leader, origin, applied_by_all, now })
}

pub(crate) fn put_reply(value: Value) -> Result<u64, OriginError> {
    match value {
        Value::Int(refused) => u64::try_from(refused).map_err(|_| nonsense("a negative number of letters")),
        other => Err(problem(&other)),
    }
}

/// A publish request that can't be read is left out: the nodes name its cell again.
pub(crate) fn take_reply(value: Value) -> Result<Vec<PublishRequest>, OriginError> {
    let Value::Array(texts) = value else { return Err(problem(&value)) };
    let requests = texts.chunks_exact(2).filter_map(|pair| match pair {
        [Value::BulkString(cell), Value::BulkString(rest)] => request(cell, rest),
        _ => None,
    });
    Ok(requests.collect())
}

fn request(cell: &[u8], rest: &[u8]) -> Option<PublishRequest> {
    let (cell, rest) = (std::str::from_utf8(cell).ok()?, std::str::from_utf8(rest).ok()?);
    let mut parts = cell.split(':');
    let key = u128::from_str_radix(parts.next()?, 16).ok()?;
    let epoch = u16::from_str_radix(parts.next()?, 16).ok()?;
    let sequence = u64::from_str_radix(parts.next()?, 16).ok()?;
    let (limit, rest) = rest.split_once(':')?;
    let (expires_ms, name) = rest.split_once(':')?;
    let limit = limit.parse().ok().filter(|limit| *limit <= NUMBER_MAX)?;
    Some(PublishRequest {
        cell: CellId { key: KeyId::from_hash(key), epoch, sequence: Sequence(sequence) },
        limit,
        expires: Nanos::from_millis(expires_ms.parse().ok()?),
        name: Arc::from(name),
    })
}

pub(crate) fn published_view_reply(value: Value) -> Result<(), OriginError> {
    match value {
        Value::Int(1) => Ok(()),
        other => Err(problem(&other)),
    }
}

/// How the world stands; nothing where nobody has told.
pub(super) fn world_view(text: &str) -> Result<Option<WorldView>, OriginError> {
    if text.is_empty() {
        return Ok(None);
    }
    let parsed = || {
        let mut parts = text.splitn(3, ':');
        let version = parts.next()?.parse().ok()?;
        let regions = parts.next()?.parse().ok()?;
        let policy = match parts.next()? {
            "headroom" => WorldPolicy::Headroom,
            other => WorldPolicy::Floor { thousandths: other.strip_prefix("floor ")?.parse().ok()? },
        };
        Some(WorldView { regions, version, policy })
    };
    parsed().map(Some).ok_or_else(|| nonsense(text))
}

/// What was answered about each cell of a call.
pub(crate) fn cell_entries(call: &ScriptCall, value: Value) -> Result<Vec<Value>, OriginError> {
    match value {
        Value::Array(entries) if entries.len() == call.syncs.len() => Ok(entries),
        Value::Array(entries) => {
            Err(nonsense(&format!("{} entries for {} cells", entries.len(), call.syncs.len())))
        }
        other => Err(problem(&other)),
    }
}

pub(crate) fn cell_total(entry: Value) -> Result<CellTotal, KeyError> {
    if let Value::BulkString(what) = &entry {
        return Err(KeyError::Poisoned { what: shown(what) });
    }
    let mut fields = Fields::of(entry)?;
    let (total, published) = (fields.count()?, fields.count()?);
    fields.end()?;
    Ok(CellTotal { total, published })
}

/// What is said to be published of a cell that was told of the world.
pub(crate) fn cell_taken(entry: Value) -> Result<u64, KeyError> {
    match entry {
        Value::Int(published) => {
            u64::try_from(published).map_err(|_| nonsense("less than nothing is published").into())
        }
        Value::BulkString(what) => Err(KeyError::Poisoned { what: shown(&what) }),
        other => Err(problem(&other).into()),
    }
}

fn array(value: Value) -> Result<Fields, OriginError> {
    match value {
        Value::Array(_) => Fields::of(value),
        other => Err(problem(&other)),
    }
}

/// A string says what is wrong with the keys; anything else isn't an answer.
fn problem(value: &Value) -> OriginError {
    match value {
        Value::BulkString(what) => nonsense(&shown(what)),
        other => nonsense(&format!("{other:?}")),
    }
}
