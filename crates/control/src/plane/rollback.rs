//! What several versions changed together, and how to undo it.

use super::items::{RecordedChange, item_of};
use super::{PlaneError, RuleVersion};
use std::collections::BTreeMap;
use tidegate_rules::RuleChange;
use tidegate_world::{RuleItemId, RuleLog};

/// From before the first to after the last, each thing once.
pub(super) fn collapsed(entries: &[RuleVersion]) -> Vec<RecordedChange> {
    let mut changes: BTreeMap<RuleItemId, RecordedChange> = BTreeMap::new();
    for entry in entries {
        for (after, before) in entry.changed.changes.iter().zip(&entry.replaced.changes) {
            changes
                .entry(item_of(after))
                .and_modify(|known| known.after = after.clone())
                .or_insert_with(|| RecordedChange { after: after.clone(), before: before.clone() });
        }
    }
    changes.into_values().filter(|change| change.after != change.before).collect()
}

/// What makes things again what they were at a version. Who started afresh meanwhile stays so.
pub(super) async fn undoing(log: &dyn RuleLog, to: u64, head: u64) -> Result<Vec<RuleChange>, PlaneError> {
    let mut first: BTreeMap<RuleItemId, RuleChange> = BTreeMap::new();
    let mut after = to;
    while after < head {
        let page = log.entries(after).await?;
        let Some(last) = page.last() else { break };
        after = last.summary.version;
        for entry in page {
            let RuleVersion { replaced, .. } = RuleVersion::read(entry)?;
            for change in replaced.changes {
                if !matches!(change, RuleChange::Reset { .. }) {
                    first.entry(item_of(&change)).or_insert(change);
                }
            }
        }
        if first.len() > super::CHANGES_MAX {
            let message = format!("more than {} things changed since version {to}", super::CHANGES_MAX);
            let fix = "export the rules of then from a backup and import them";
            return Err(PlaneError::refused(message, fix));
        }
    }
    Ok(first.into_values().collect())
}
