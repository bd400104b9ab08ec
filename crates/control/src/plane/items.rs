//! What rules are made of, as the store knows it: a name's hash, and the last change as bytes.
//!
//! A value is a [`Delta`] of one change, as streams and files have it: one format, with its own version and checksum.
//! Hashes are SHA-256 of length-prefixed parts: no tenant can make two names share one.

use super::PlaneError;
use aws_lc_rs::digest::{Context, SHA256};
use std::collections::BTreeSet;
use tidegate_rules::{Delta, DocumentName, OverrideName, RuleChange};
use tidegate_world::{RuleItem, RuleItemId, RuleLogSubject};

/// One change, and what it replaced.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordedChange {
    pub after: RuleChange,
    pub before: RuleChange,
}

fn hash(parts: &[&str]) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    for part in parts {
        context.update(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
        context.update(part.as_bytes());
    }
    let mut hash = [0; 32];
    hash.copy_from_slice(context.finish().as_ref());
    hash
}

fn subject(parts: &[&str]) -> RuleLogSubject {
    let mut short = [0; 16];
    short.copy_from_slice(&hash(parts)[..16]);
    RuleLogSubject(short)
}

/// Under which all documents lie, so that they are found without the overrides between.
pub(super) fn documents() -> RuleLogSubject {
    subject(&["documents"])
}

/// Under which the overrides of a namespace lie.
pub(super) fn overrides_of(document: &DocumentName) -> RuleLogSubject {
    subject(&["overrides", &document.tenant, &document.namespace])
}

pub(super) fn document_item(name: &DocumentName) -> RuleItemId {
    RuleItemId { place: documents(), item: hash(&["document", &name.tenant, &name.namespace]) }
}

pub(super) fn fleet_item() -> RuleItemId {
    RuleItemId { place: subject(&["fleet"]), item: hash(&["fleet mode"]) }
}

pub(super) fn override_item(name: &OverrideName) -> RuleItemId {
    named("override", overrides_of(&document_of(name)), name)
}

pub(super) fn reset_item(name: &OverrideName) -> RuleItemId {
    named("reset", subject(&["resets", &name.tenant, &name.namespace]), name)
}

fn named(kind: &str, place: RuleLogSubject, name: &OverrideName) -> RuleItemId {
    let mut parts = vec![kind, &name.tenant, &name.namespace, &name.rule];
    parts.extend(name.parts.iter().map(|part| &**part));
    RuleItemId { place, item: hash(&parts) }
}

pub(super) fn document_of(name: &OverrideName) -> DocumentName {
    DocumentName { tenant: name.tenant.clone(), namespace: name.namespace.clone() }
}

pub(super) fn item_of(change: &RuleChange) -> RuleItemId {
    match change {
        RuleChange::Document { name, .. } => document_item(name),
        RuleChange::Override { name, .. } => override_item(name),
        RuleChange::FleetMode(_) => fleet_item(),
        RuleChange::Reset { name, .. } => reset_item(name),
    }
}

/// Whose change it is; `None` for the fleet's.
pub fn owner(change: &RuleChange) -> Option<DocumentName> {
    match change {
        RuleChange::Document { name, .. } => Some(name.clone()),
        RuleChange::Override { name, .. } | RuleChange::Reset { name, .. } => Some(document_of(name)),
        RuleChange::FleetMode(_) => None,
    }
}

/// By what history finds an entry: its tenants, its namespaces, and whether it resets anything.
pub(super) fn subjects(changes: &[RecordedChange]) -> Vec<RuleLogSubject> {
    let owners: BTreeSet<DocumentName> = changes.iter().filter_map(|change| owner(&change.after)).collect();
    let both = owners.iter().flat_map(|owner| [tenant_subject(&owner.tenant), namespace_subject(owner)]);
    let has_reset = changes.iter().any(|change| matches!(change.after, RuleChange::Reset { .. }));
    both.chain(has_reset.then(resets)).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Under which history has the versions that had somebody start afresh.
pub(super) fn resets() -> RuleLogSubject {
    subject(&["resets"])
}

pub(super) fn tenant_subject(tenant: &str) -> RuleLogSubject {
    subject(&["tenant", tenant])
}

pub(super) fn namespace_subject(document: &DocumentName) -> RuleLogSubject {
    subject(&["namespace", &document.tenant, &document.namespace])
}

/// What the store keeps of an item from now on; `None` when it is gone.
pub(super) fn value_of(change: &RuleChange, version: u64) -> Result<Option<Vec<u8>>, PlaneError> {
    match change {
        RuleChange::Document { text: None, .. } | RuleChange::Override { value: None, .. } => Ok(None),
        kept => encode(version, vec![kept.clone()]).map(Some),
    }
}

pub(super) fn encode(version: u64, changes: Vec<RuleChange>) -> Result<Vec<u8>, PlaneError> {
    let encoded = Delta { version, changes }.encode();
    encoded.map_err(|error| PlaneError::refused(error.to_string(), "split the change, or mend it"))
}

/// The change that an item is.
pub(crate) fn change_of(item: &RuleItem) -> Result<RuleChange, PlaneError> {
    let mut changes = decode(&item.value)?.changes;
    match (changes.pop(), changes.is_empty()) {
        (Some(change), true) if item_of(&change) == item.id => Ok(change),
        _ => Err(PlaneError::Damaged("an item's value is another's".to_owned())),
    }
}

pub(super) fn decode(bytes: &[u8]) -> Result<Delta, PlaneError> {
    Delta::decode(bytes).map_err(|error| PlaneError::Damaged(error.to_string()))
}

/// The same thing, gone, or as it is when nobody ever set it.
pub(super) fn absent(change: &RuleChange) -> RuleChange {
    match change {
        RuleChange::Document { name, .. } => RuleChange::Document { name: name.clone(), text: None },
        RuleChange::Override { name, .. } => RuleChange::Override { name: name.clone(), value: None },
        RuleChange::FleetMode(_) => RuleChange::FleetMode(tidegate_rules::Mode::default()),
        RuleChange::Reset { name, .. } => RuleChange::Reset { name: name.clone(), epoch: 0 },
    }
}
