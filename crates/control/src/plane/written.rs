//! The rules as people write them, overrides included: a file that changes nothing when it is pushed as it is.

use super::{ControlPlane, PlaneError};
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_rules::{DocumentName, RuleChange, with_overrides};

/// The most overrides that are written into documents; of more, none are.
pub const WRITTEN_OVERRIDES_MAX: usize = 10_000;

/// Documents with their overrides.
#[derive(Debug)]
pub struct ExportedRules {
    /// The version of the documents.
    pub version: u64,
    pub documents: BTreeMap<DocumentName, Arc<str>>,
    /// How many overrides were added, changed and removed.
    pub overrides: WrittenOverrides,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WrittenOverrides {
    /// So many are in the documents, and so many can't be: their rules are gone, or have other keys.
    Included { written: usize, left_out: usize },
    /// There are more than [`WRITTEN_OVERRIDES_MAX`].
    TooMany,
}

impl ControlPlane {
    /// Returns the documents that are asked for, each with its overrides at its end.
    pub async fn written(
        &self,
        is_asked: impl Fn(&DocumentName) -> bool,
    ) -> Result<ExportedRules, PlaneError> {
        let rules = self.rules();
        let asked = rules.documents.iter().filter(|(name, _)| is_asked(name));
        let bare: BTreeMap<DocumentName, Arc<str>> =
            asked.map(|(name, text)| (name.clone(), text.clone())).collect();
        let mut documents = BTreeMap::new();
        let (mut total, mut written) = (0, 0);
        for (name, text) in &bare {
            let mut entries = Vec::new();
            let mut after = None;
            loop {
                let (page, next) = self.overrides(name, after).await?;
                for change in &page {
                    let RuleChange::Override { name, value: Some(value) } = change else { continue };
                    total += 1;
                    entries.extend(rules.set.override_entry(name, value));
                }
                if total > WRITTEN_OVERRIDES_MAX {
                    let overrides = WrittenOverrides::TooMany;
                    return Ok(ExportedRules { version: rules.version, documents: bare, overrides });
                }
                if next.is_none() {
                    break;
                }
                after = next;
            }
            // The store has them in the order of their hashes.
            entries.sort();
            let whole = if entries.is_empty() { None } else { with_overrides(name, text, &entries) };
            written += whole.as_ref().map_or(0, |_| entries.len());
            documents.insert(name.clone(), whole.map_or_else(|| text.clone(), Arc::from));
        }
        let overrides = WrittenOverrides::Included { written, left_out: total - written };
        Ok(ExportedRules { version: rules.version, documents, overrides })
    }
}
