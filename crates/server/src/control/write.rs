//! What callers are told: rules, history, lines of exports and backups, and this process.

use super::answer::{ControlRequest, ControlResponse};
use super::problem::{Problem, line, summary};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::time::Duration;
use tidegate_control::plane::json::{ChangeJson, EntryJson};
use tidegate_control::plane::{
    PlaneError, PushOutcome, RecordedChange, RuleVersion, WrittenOverrides, owner,
};
use tidegate_rules::{DocumentName, RuleChange};
use tidegate_world::{RuleItemId, RuleLogSubject};

pub(super) const EXPORT_HEADING: &str = "{\"tidegate_rules\":1";
pub(super) const BACKUP_HEADING: &str = "{\"tidegate_backup\":1";
/// How long somebody who watches waits for news.
const WATCH_TIMEOUT: Duration = Duration::from_secs(25);
const HISTORY_ROWS: u64 = 50;
/// Two for each byte of an item's id.
const CURSOR_DIGITS: usize = 96;

/// One JSON value and a line break.
pub(super) fn document(value: &Value) -> Vec<u8> {
    let mut body = value.to_string().into_bytes();
    body.push(b'\n');
    body
}

pub(super) fn outcome(outcome: &PushOutcome, is_dry: bool) -> Vec<u8> {
    let text = |change: &RuleChange| match change {
        RuleChange::Document { text, .. } => text.as_deref().map(str::to_owned),
        _ => None,
    };
    let changed = |RecordedChange { after, before }: &RecordedChange| match after {
        RuleChange::Document { name, .. } => Some(json!({
            "tenant": &*name.tenant,
            "namespace": &*name.namespace,
            "before": text(before),
            "after": text(after),
        })),
        _ => None,
    };
    let documents: Vec<Value> = outcome.changes.iter().filter_map(changed).collect();
    document(&json!({
        "version": outcome.version,
        "dry_run": is_dry,
        "changes": outcome.changes.len(),
        "lines": outcome.lines.iter().map(line).collect::<Vec<_>>(),
        "documents": documents,
    }))
}

fn document_json(name: &DocumentName, text: &str) -> Value {
    json!({ "tenant": &*name.tenant, "namespace": &*name.namespace, "text": text })
}

fn is_visible(asked: &ControlRequest<'_>, tenant: &str) -> bool {
    asked.tenant().is_none_or(|own| own == tenant)
}

pub(super) async fn rules(asked: &ControlRequest<'_>) -> Result<ControlResponse, Problem> {
    let query = asked.query(&["namespace", "tenant", "overrides"])?;
    asked.plane.ready()?;
    let standing = asked.plane.rules();
    let is_asked = |name: &DocumentName| {
        is_visible(asked, &name.tenant)
            && query.get("tenant").is_none_or(|tenant| *name.tenant == *tenant)
            && query.get("namespace").is_none_or(|namespace| *name.namespace == *namespace)
    };
    let fleet_mode = standing.fleet_mode.to_string();
    if query.flag("overrides")? {
        let written = asked.plane.written(is_asked).await?;
        let (written_count, left_out) = match written.overrides {
            WrittenOverrides::Included { written, left_out } => (written.into(), left_out.into()),
            WrittenOverrides::TooMany => (Value::from(0), Value::Null),
        };
        let documents: Vec<Value> =
            written.documents.iter().map(|(name, text)| document_json(name, text)).collect();
        return Ok(ControlResponse::Json(document(&json!({
            "version": written.version,
            "fleet_mode": fleet_mode,
            "documents": documents,
            "overrides_written": written_count,
            "overrides_left_out": left_out,
        }))));
    }
    let asked_for = standing.documents.iter().filter(|(name, _)| is_asked(name));
    let documents: Vec<Value> = asked_for.map(|(name, text)| document_json(name, text)).collect();
    Ok(ControlResponse::Json(document(&json!({
        "version": standing.version,
        "fleet_mode": fleet_mode,
        "documents": documents,
    }))))
}

pub(super) async fn history(asked: &ControlRequest<'_>) -> Result<ControlResponse, Problem> {
    let query = asked.query(&["namespace", "tenant", "before", "limit"])?;
    let given = query.get("tenant").unwrap_or_else(|| asked.caller.tenant());
    if !is_visible(asked, given) {
        return Err(PlaneError::Forbidden { tenant: given.to_owned() }.into());
    }
    let namespace = query
        .get("namespace")
        .map(|namespace| DocumentName { tenant: given.into(), namespace: namespace.into() });
    let tenant = query.get("tenant").or(asked.tenant());
    let before = query.number("before")?.unwrap_or(u64::MAX);
    let rows = query.number("limit")?.unwrap_or(HISTORY_ROWS);
    let rows = usize::try_from(rows).unwrap_or(usize::MAX);
    let found = asked.plane.history(tenant, namespace.as_ref(), before, rows).await?;
    let entries: Vec<Value> = found.iter().map(summary).collect();
    Ok(ControlResponse::Json(document(
        &json!({ "version": asked.plane.rules().version, "history": entries }),
    )))
}

fn visible_changes(asked: &ControlRequest<'_>, entry: &RuleVersion) -> Vec<RecordedChange> {
    let pairs = entry.changed.changes.iter().zip(&entry.replaced.changes);
    let pairs = pairs.map(|(after, before)| RecordedChange { after: after.clone(), before: before.clone() });
    let is_seen = |change: &RecordedChange| {
        asked.tenant().is_none() || owner(&change.after).is_some_and(|owner| is_visible(asked, &owner.tenant))
    };
    pairs.filter(is_seen).collect()
}

fn entry_json(asked: &ControlRequest<'_>, entry: &RuleVersion) -> Value {
    let both = |RecordedChange { after, before }: &RecordedChange| json!({ "after": ChangeJson::from(after), "before": ChangeJson::from(before) });
    let changes: Vec<Value> = visible_changes(asked, entry).iter().map(both).collect();
    let mut value = summary(&entry.summary);
    value["changed"] = changes.into();
    value
}

pub(super) async fn version(asked: &ControlRequest<'_>, version: u64) -> Result<ControlResponse, Problem> {
    asked.query(&[])?;
    let entry = asked.plane.entry(version).await?;
    if asked.tenant().is_some() && visible_changes(asked, &entry).is_empty() {
        return Err(PlaneError::Unknown(format!("version {version}")).into());
    }
    Ok(ControlResponse::Json(document(&entry_json(asked, &entry))))
}

/// Waits for news, and tells them.
pub(super) async fn watch(asked: &ControlRequest<'_>) -> Result<ControlResponse, Problem> {
    let query = asked.query(&["after"])?;
    let plane = asked.plane;
    let after = query.number("after")?.unwrap_or_else(|| plane.rules().version);
    let version = plane.wait_beyond(after, WATCH_TIMEOUT).await;
    let mut entries = if version > after { plane.entries_after(after).await? } else { Vec::new() };
    let seen = entries.last().map_or(after, |entry| entry.summary.version);
    entries.retain(|entry| asked.tenant().is_none() || !visible_changes(asked, entry).is_empty());
    let entries: Vec<Value> = entries.iter().map(|entry| entry_json(asked, entry)).collect();
    Ok(ControlResponse::Json(document(&json!({ "version": version, "seen": seen, "entries": entries }))))
}

fn json_line(lines: &mut Vec<u8>, value: &impl serde::Serialize) -> Result<(), Problem> {
    serde_json::to_writer(&mut *lines, value)
        .map_err(|error| PlaneError::Damaged(format!("a change can't be written: {error}")))?;
    lines.push(b'\n');
    Ok(())
}

/// Documents and the fleet's mode first, then overrides, a page at a time.
pub(super) async fn export(asked: &ControlRequest<'_>) -> Result<ControlResponse, Problem> {
    let query = asked.query(&["after"])?;
    let mut lines = Vec::new();
    let after = match query.get("after") {
        None => {
            asked.plane.ready()?;
            let standing = asked.plane.rules();
            json_line(&mut lines, &json!({ "tidegate_rules": 1, "version": standing.version }))?;
            if asked.tenant().is_none() {
                json_line(&mut lines, &ChangeJson::from(&RuleChange::FleetMode(standing.fleet_mode)))?;
            }
            for (name, text) in standing.documents.iter().filter(|(name, _)| is_visible(asked, &name.tenant))
            {
                let change = RuleChange::Document { name: name.clone(), text: Some(text.clone()) };
                json_line(&mut lines, &ChangeJson::from(&change))?;
            }
            None
        }
        Some(text) => Some(cursor(text)?),
    };
    let (changes, next) = asked.plane.everything(after).await?;
    for change in &changes {
        if let RuleChange::Override { name, .. } = change
            && is_visible(asked, &name.tenant)
        {
            json_line(&mut lines, &ChangeJson::from(change))?;
        }
    }
    Ok(ControlResponse::Lines(lines, next.map(|id| shown(&id))))
}

pub(super) async fn overrides(asked: &ControlRequest<'_>) -> Result<ControlResponse, Problem> {
    let query = asked.query(&["tenant", "namespace", "after"])?;
    let tenant = query.get("tenant").unwrap_or_else(|| asked.caller.tenant());
    if !is_visible(asked, tenant) {
        return Err(PlaneError::Forbidden { tenant: tenant.to_owned() }.into());
    }
    let Some(namespace) = query.get("namespace") else {
        let fix = "give `?namespace=NAME`, and `&tenant=NAME` for another's";
        return Err(Problem::bad_request("missing_field", "namespace", "`namespace` is missing", fix));
    };
    let name = DocumentName { tenant: tenant.into(), namespace: namespace.into() };
    let after = query.get("after").map(cursor).transpose()?;
    let (changes, next) = asked.plane.overrides(&name, after).await?;
    let mut lines = Vec::new();
    for change in &changes {
        json_line(&mut lines, &ChangeJson::from(change))?;
    }
    Ok(ControlResponse::Lines(lines, next.map(|id| shown(&id))))
}

/// Every version with all that it changed and replaced, a page at a time.
pub(super) async fn backup(asked: &ControlRequest<'_>) -> Result<ControlResponse, Problem> {
    asked.caller.require_operator()?;
    let query = asked.query(&["after"])?;
    let after = query.number("after")?.unwrap_or(0);
    let mut lines = Vec::new();
    if after == 0 {
        let version = asked.plane.rules().version;
        json_line(&mut lines, &json!({ "tidegate_backup": 1, "version": version }))?;
    }
    let entries = asked.plane.entries_after(after).await?;
    let next = entries.last().map(|entry| entry.summary.version.to_string());
    for RuleVersion { summary, changed, replaced } in entries {
        let line = EntryJson {
            version: summary.version,
            at_us: summary.at.get() / 1000,
            author: summary.author,
            reason: summary.reason,
            changed: changed.changes.iter().map(ChangeJson::from).collect(),
            replaced: replaced.changes.iter().map(ChangeJson::from).collect(),
        };
        json_line(&mut lines, &line)?;
    }
    Ok(ControlResponse::Lines(lines, next))
}

/// Where a page begins, as hexadecimal digits.
fn shown(id: &RuleItemId) -> String {
    let mut text = String::with_capacity(CURSOR_DIGITS);
    for byte in id.place.0.iter().chain(&id.item) {
        // Writing to a String can't fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn cursor(text: &str) -> Result<RuleItemId, Problem> {
    let bad = || {
        let fix = "give what the last page had in `X-Tidegate-Next`";
        Problem::bad_request("invalid_text", "after", "isn't where a page begins", fix)
    };
    if text.len() != CURSOR_DIGITS {
        return Err(bad());
    }
    let digits: Option<Vec<u32>> = text.chars().map(|digit| digit.to_digit(16)).collect();
    let bytes: Vec<u8> = digits
        .ok_or_else(bad)?
        .chunks_exact(2)
        .filter_map(|pair| u8::try_from(16 * pair[0] + pair[1]).ok())
        .collect();
    let (place, item) = bytes.split_at_checked(16).ok_or_else(bad)?;
    let place = RuleLogSubject(place.try_into().map_err(|_| bad())?);
    Ok(RuleItemId { place, item: item.try_into().map_err(|_| bad())? })
}
