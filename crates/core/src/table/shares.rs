//! How many entries of a table each tenant has, and how many it may always have: its share.
//!
//! Room that nobody needs is anybody's. Where other nodes know the counts, a tenant with more than its share gives way
//! when one with less needs a place. Where nobody else knows them nothing is given up: half of the table is divided
//! into shares, which stay free for their tenants. Counted where entries come and go, never by a decision about one that is there, and not at all in a
//! table of one tenant.

use crate::identity::TenantTag;
use parking_lot::{RwLock, RwLockReadGuard};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

#[derive(Debug)]
pub(crate) struct Shares {
    /// What is divided among the tenants.
    divided: usize,
    /// How many entries all tenants together may still make within their shares.
    unclaimed: AtomicUsize,
    /// Read before the lock, so that a table of one tenant never takes it.
    is_counted: AtomicBool,
    holders: RwLock<Holders>,
}

/// Every tenant that has a share or an entry, by tag.
#[derive(Debug, Default)]
pub(crate) struct Holders(Vec<Holder>);

#[derive(Debug)]
struct Holder {
    tenant: TenantTag,
    held: AtomicUsize,
    share: usize,
}

/// Whether an entry came within its tenant's share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Entered {
    WithinShare,
    BeyondShare,
}

/// Whether an entry that left was within its tenant's share: if so, the tenant may make another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Left {
    WithinShare,
    BeyondShare,
}

impl Shares {
    pub(crate) fn new(divided: usize) -> Self {
        let (is_counted, unclaimed) = (AtomicBool::new(false), AtomicUsize::new(0));
        Shares { divided, unclaimed, is_counted, holders: RwLock::default() }
    }

    /// Gives each of these tenants an equal share, and everybody else none. What is held stays counted.
    pub(crate) fn divide(&self, tenants: &[TenantTag]) {
        let mut holders = self.holders.write();
        holders.0.retain(|holder| holder.held.load(Ordering::Relaxed) > 0);
        holders.0.iter_mut().for_each(|holder| holder.share = 0);
        let each = self.divided / tenants.len().max(1);
        for tenant in tenants {
            // Two tenants of one tag have both shares together.
            holders.insert(*tenant).share += each;
        }
        self.unclaimed.store(holders.0.iter().map(Holder::rights).sum(), Ordering::Relaxed);
        self.is_counted.store(true, Ordering::Release);
    }

    /// The counts; `None` where nothing is counted. Mustn't be asked for while they are held.
    pub(crate) fn counted(&self) -> Option<RwLockReadGuard<'_, Holders>> {
        self.is_counted.load(Ordering::Acquire).then(|| self.holders.read())
    }

    /// How many entries all tenants together may still make within their shares.
    pub(crate) fn unclaimed(&self) -> usize {
        self.unclaimed.load(Ordering::Relaxed)
    }

    /// Counts an entry that came.
    pub(crate) fn enter(&self, tenant: TenantTag) -> Entered {
        let entered = match self.counted() {
            None => return Entered::BeyondShare,
            Some(holders) => holders.find(tenant).map(Holder::enter),
        };
        // A tenant that nobody named has no share.
        let entered = entered.unwrap_or_else(|| self.holders.write().insert(tenant).enter());
        if entered == Entered::WithinShare {
            self.unclaimed.fetch_sub(1, Ordering::Relaxed);
        }
        entered
    }

    /// Counts an entry that left.
    pub(crate) fn leave(&self, holders: &Holders, tenant: TenantTag) {
        if holders.leave(tenant) == Some(Left::WithinShare) {
            self.unclaimed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Holders {
    fn position(&self, tenant: TenantTag) -> Result<usize, usize> {
        self.0.binary_search_by_key(&tenant, |holder| holder.tenant)
    }

    fn find(&self, tenant: TenantTag) -> Option<&Holder> {
        self.position(tenant).ok().map(|position| &self.0[position])
    }

    fn insert(&mut self, tenant: TenantTag) -> &mut Holder {
        let position = self.position(tenant).unwrap_or_else(|position| {
            self.0.insert(position, Holder { tenant, held: AtomicUsize::new(0), share: 0 });
            position
        });
        &mut self.0[position]
    }

    /// Counts an entry that left, in its tenant's count alone.
    fn leave(&self, tenant: TenantTag) -> Option<Left> {
        let holder = self.find(tenant)?;
        let fewer = |held: usize| held.checked_sub(1);
        let before = holder.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer).ok()?;
        Some(if before <= holder.share { Left::WithinShare } else { Left::BeyondShare })
    }

    /// How many more entries this tenant may make within its share.
    pub(crate) fn rights(&self, tenant: TenantTag) -> usize {
        self.find(tenant).map_or(0, Holder::rights)
    }

    /// By how much a tenant is beyond its share.
    pub(crate) fn excess(&self, tenant: TenantTag) -> usize {
        let excess = |holder: &Holder| holder.held.load(Ordering::Relaxed).saturating_sub(holder.share);
        self.find(tenant).map_or(0, excess)
    }
}

impl Holder {
    fn rights(&self) -> usize {
        self.share.saturating_sub(self.held.load(Ordering::Relaxed))
    }

    fn enter(&self) -> Entered {
        let before = self.held.fetch_add(1, Ordering::Relaxed);
        if before < self.share { Entered::WithinShare } else { Entered::BeyondShare }
    }
}

#[cfg(test)]
mod tests;
