//! Bounds the history that each tenant has in the store, so that no tenant fills the disk of all by pushing.
//!
//! The details of a tenant's latest versions stay, up to a number of versions and of bytes. Of an older version only
//! those changes stay that are still in force: the log as a whole still makes the rules what they are, so backups and
//! restores go on as before. Who made a version, when and why stays for all of them.
//!
//! A pruned version can't be undone, and can't be applied by somebody who is further behind than it: see
//! [`RuleVersion::is_pruned`]. What operators push isn't pruned.

use super::{PlaneError, RuleVersion, items};
use std::collections::HashMap;
use std::sync::Arc;
use tidegate_rules::RuleChange;
use tidegate_world::{Remainder, RuleItemId, RuleLog, RuleLogEntrySize};

/// How much of the history a tenant has in full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Retention {
    pub versions: usize,
    /// Bytes of changes and of what they replaced. The latest version is kept whatever its size.
    pub bytes: u64,
}

impl Default for Retention {
    fn default() -> Self {
        Retention { versions: 1000, bytes: 64 << 20 }
    }
}

/// A tenant's history is scanned after this many of its versions.
const SCAN_EVERY_VERSIONS: usize = 32;
/// A tenant's history is scanned after this many bytes of its versions.
const SCAN_EVERY_BYTES: usize = 8 << 20;
/// One scan prunes at most this many versions: each is read and written, and other tenants' pushes wait meanwhile.
const PRUNED_AT_ONCE_MAX: usize = 64;
/// One scan reads the sizes of at most this many versions. That is more than are retained, so it includes the first
/// versions to prune; older ones were pruned by earlier scans.
const SCANNED_MAX: usize = 2000;
/// A pruned version is scanned again while more than this is left of it: more of it may be outdated by then.
const RESCAN_ABOVE_BYTES: u64 = 4 << 10;

/// Counts the versions and bytes that each tenant pushed since its history was last scanned.
#[derive(Debug, Default)]
pub(super) struct PushesSinceScan(HashMap<Arc<str>, (usize, usize)>);

impl PushesSinceScan {
    /// Counts a version of a tenant; returns whether its history is due for a scan. The first version that a process
    /// writes always is: nobody knows how many there were before.
    pub(super) fn is_due(&mut self, tenant: &Arc<str>, bytes: usize) -> bool {
        let Some((versions, sum)) = self.0.get_mut(tenant) else {
            self.0.insert(Arc::clone(tenant), (0, 0));
            return true;
        };
        (*versions, *sum) = (*versions + 1, *sum + bytes);
        let is_due = *versions >= SCAN_EVERY_VERSIONS || *sum >= SCAN_EVERY_BYTES;
        if is_due {
            (*versions, *sum) = (0, 0);
        }
        is_due
    }
}

/// Prunes what a tenant has beyond the retention, a bounded part of it; returns how many versions it changed.
pub(super) async fn prune(
    log: &dyn RuleLog,
    tenant: &str,
    retention: Retention,
) -> Result<usize, PlaneError> {
    let sizes = sizes(log, tenant).await?;
    let mut remainders = Vec::new();
    for size in beyond(&sizes, retention) {
        if remainders.len() == PRUNED_AT_ONCE_MAX {
            break;
        }
        if is_pruned(size)? && size.changed <= RESCAN_ABOVE_BYTES {
            continue;
        }
        let Some(entry) = log.entry(size.version).await? else { continue };
        remainders.extend(remainder(log, tenant, size, RuleVersion::read(entry)?).await?);
    }
    log.prune(&remainders).await?;
    Ok(remainders.len())
}

/// Refuses to undo a tenant's versions that were pruned.
pub(super) async fn check_undoable(log: &dyn RuleLog, tenant: &str, to: u64) -> Result<(), PlaneError> {
    for size in sizes(log, tenant).await? {
        if size.version <= to {
            break;
        }
        if is_pruned(&size)? {
            let message = format!("what version {} changed is no longer kept", size.version);
            let fix = "go back to a later version, or push the rules that you want";
            return Err(PlaneError::refused(message, fix));
        }
    }
    Ok(())
}

/// Returns the sizes of a tenant's versions, the latest first.
async fn sizes(log: &dyn RuleLog, tenant: &str) -> Result<Vec<RuleLogEntrySize>, PlaneError> {
    Ok(log.sizes(items::tenant_subject(tenant), SCANNED_MAX).await?)
}

/// Returns the versions that are beyond the retention.
fn beyond(sizes: &[RuleLogEntrySize], retention: Retention) -> &[RuleLogEntrySize] {
    let mut bytes = 0_u64;
    let is_retained = |(index, size): &(usize, &RuleLogEntrySize)| {
        bytes = bytes.saturating_add(size.changed + size.replaced);
        *index == 0 || (*index < retention.versions && bytes <= retention.bytes)
    };
    let retained = sizes.iter().enumerate().take_while(is_retained).count();
    &sizes[retained..]
}

/// Every version replaces something, if only that there was nothing; a pruned one doesn't say so any more.
fn is_pruned(size: &RuleLogEntrySize) -> Result<bool, PlaneError> {
    let nothing = items::encode(size.version, Vec::new())?;
    Ok(size.replaced <= u64::try_from(nothing.len()).unwrap_or(u64::MAX))
}

/// Returns what is kept of a version, if that is less than there is: the changes that are still in force. A version that
/// changed something of other tenants too is kept whole.
async fn remainder(
    log: &dyn RuleLog,
    tenant: &str,
    size: &RuleLogEntrySize,
    entry: RuleVersion,
) -> Result<Option<Remainder>, PlaneError> {
    let version = entry.summary.version;
    let mut changes = entry.changed.changes;
    let is_own = |change: &RuleChange| items::owner(change).is_some_and(|owner| *owner.tenant == *tenant);
    if !changes.iter().all(is_own) {
        return Ok(None);
    }
    let ids: Vec<RuleItemId> = changes.iter().map(items::item_of).collect();
    let found = log.find(&ids).await?;
    let in_force: std::collections::HashSet<RuleItemId> =
        found.iter().filter(|item| item.version == version).map(|item| item.id).collect();
    changes.retain(|change| in_force.contains(&items::item_of(change)));
    let changed = items::encode(version, changes)?;
    let is_less = is_pruned(size).map(|is_pruned| !is_pruned)?
        || u64::try_from(changed.len()).unwrap_or(u64::MAX) < size.changed;
    Ok(is_less.then_some(Remainder { version, changed, replaced: items::encode(version, Vec::new())? }))
}
