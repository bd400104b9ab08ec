//! The rules as they stand at one version, without their overrides: those are millions, and stay in the store.

use super::PlaneError;
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_core::FleetSecret;
use tidegate_rules::{ApplyError, Delta, DocumentName, Mode, RuleChange, RuleErrors, RuleOptions, RuleSet};

/// The rules at one version, without overrides.
#[derive(Clone, Debug, Default)]
pub struct RuleState {
    pub version: u64,
    pub fleet_mode: Mode,
    /// Shared between versions that differ in overrides only.
    pub documents: Arc<BTreeMap<DocumentName, Arc<str>>>,
    /// What the documents mean.
    pub set: Arc<RuleSet>,
}

impl RuleState {
    pub(super) fn of(
        version: u64,
        changes: impl IntoIterator<Item = RuleChange>,
    ) -> Result<Self, PlaneError> {
        let empty = RuleState { version, ..RuleState::default() };
        let changes: Vec<RuleChange> = changes.into_iter().collect();
        empty.with(&changes).map_err(|errors| unreadable(&errors))
    }

    /// With one more version.
    pub(super) fn after(&self, delta: &Delta) -> Result<Self, PlaneError> {
        let next = self.with(&delta.changes).map_err(|errors| unreadable(&errors))?;
        Ok(RuleState { version: delta.version, ..next })
    }

    fn take(&mut self, change: &RuleChange) {
        match change {
            RuleChange::Document { name, text: Some(text) } => {
                Arc::make_mut(&mut self.documents).insert(name.clone(), text.clone());
            }
            RuleChange::Document { name, text: None } => {
                Arc::make_mut(&mut self.documents).remove(name);
            }
            RuleChange::FleetMode(mode) => self.fleet_mode = *mode,
            RuleChange::Override { .. } | RuleChange::Reset { .. } => {}
        }
    }

    /// The same with these changes, of the same version, if the whole set is valid with them. Reads the documents that
    /// change, and no others: what a push takes doesn't grow with what other tenants have.
    pub(super) fn with<'c>(
        &self,
        changes: impl IntoIterator<Item = &'c RuleChange>,
    ) -> Result<Self, RuleErrors> {
        let mut next = self.clone();
        let mut documents = Vec::new();
        for change in changes {
            next.take(change);
            if let RuleChange::Document { name, text } = change
                && self.documents.get(name) != text.as_ref()
            {
                documents.push(change.clone());
            }
        }
        if !documents.is_empty() {
            let delta = Delta { version: self.set.version() + 1, changes: documents };
            // Any secret will do here: the meaning of rules doesn't depend on it.
            let options = RuleOptions::new(&FleetSecret::BUILT_IN);
            next.set = Arc::new(self.set.apply(&delta, options).map_err(ApplyError::into_errors)?);
        }
        Ok(next)
    }

    /// How many rules a tenant has, and the bytes of their texts.
    pub(super) fn size_of(&self, tenant: &str) -> Size {
        let own = |name: &str| *name == *tenant;
        let namespaces = self.set.namespaces().iter().filter(|namespace| own(&namespace.tenant));
        let documents = self.documents.iter().filter(|(name, _)| own(&name.tenant));
        Size {
            rules: namespaces.map(|namespace| namespace.rules.len()).sum(),
            bytes: documents.map(|(_, text)| text.len()).sum(),
        }
    }

    /// The same of all tenants.
    pub(super) fn size(&self) -> Size {
        Size {
            rules: self.set.namespaces().iter().map(|namespace| namespace.rules.len()).sum(),
            bytes: self.documents.values().map(|text| text.len()).sum(),
        }
    }
}

/// How much of the control plane rules take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Size {
    pub(super) rules: usize,
    pub(super) bytes: usize,
}

fn unreadable(errors: &RuleErrors) -> PlaneError {
    PlaneError::Damaged(format!("the rules in the store can't be read: {errors}"))
}
