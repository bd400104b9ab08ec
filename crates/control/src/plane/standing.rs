//! The rules as they stand at one version, without their overrides: those are millions, and stay in the store.

use super::PlaneError;
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_core::FleetSecret;
use tidegate_rules::envoy::Windows;
use tidegate_rules::{Delta, DocumentName, Mode, RuleChange, RuleErrors, RuleSet, Source};

#[derive(Clone, Debug, Default)]
pub struct Standing {
    pub version: u64,
    pub fleet_mode: Mode,
    /// Shared between versions that differ in overrides only.
    pub documents: Arc<BTreeMap<DocumentName, Arc<str>>>,
    /// What the documents mean.
    pub set: Arc<RuleSet>,
}

impl Standing {
    pub(super) fn of(
        version: u64,
        changes: impl IntoIterator<Item = RuleChange>,
    ) -> Result<Self, PlaneError> {
        let mut standing = Standing { version, ..Standing::default() };
        changes.into_iter().for_each(|change| standing.take(&change));
        standing.set = read(&standing.documents).map_err(|errors| unreadable(&errors))?;
        Ok(standing)
    }

    /// With one more version.
    pub(super) fn after(&self, delta: &Delta) -> Result<Self, PlaneError> {
        let mut next = Standing { version: delta.version, ..self.clone() };
        delta.changes.iter().for_each(|change| next.take(change));
        if !Arc::ptr_eq(&next.documents, &self.documents) {
            next.set = read(&next.documents).map_err(|errors| unreadable(&errors))?;
        }
        Ok(next)
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

    /// The same with these changes, of the same version, if the whole set is valid with them.
    pub(super) fn with<'c>(
        &self,
        changes: impl IntoIterator<Item = &'c RuleChange>,
    ) -> Result<Self, RuleErrors> {
        let mut next = self.clone();
        changes.into_iter().for_each(|change| next.take(change));
        if next.documents != self.documents {
            next.set = read(&next.documents)?;
        }
        Ok(next)
    }
}

/// What rules mean doesn't depend on the fleet's secret.
fn read(documents: &BTreeMap<DocumentName, Arc<str>>) -> Result<Arc<RuleSet>, RuleErrors> {
    if documents.is_empty() {
        return Ok(Arc::default());
    }
    let source = |(name, text): (&DocumentName, &Arc<str>)| Source {
        name: format!("{}/{}", name.tenant, name.namespace),
        text: text.as_bytes().to_vec(),
    };
    let sources: Vec<Source> = documents.iter().map(source).collect();
    RuleSet::parse_as(&sources, &FleetSecret::BUILT_IN, Windows::Fixed).map(Arc::new)
}

fn unreadable(errors: &RuleErrors) -> PlaneError {
    PlaneError::Damaged(format!("the rules in the store can't be read: {errors}"))
}
