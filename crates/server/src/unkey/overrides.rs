//! Overrides: other numbers for an identifier, or for those that a pattern fits, set by callers of this node.
//!
//! Read without a lock, at one pointer where a node has none. A change replaces the pointer, off the threads that
//! answer; it is in force before it is answered, and on the disk if it can be. They hold on this node: until a
//! control plane carries them, each node has its own.

use super::journal::Journal;
use super::namespace::Namespace;
use super::requests::LimitTarget;
use super::unknown_override;
use crate::for_caller::spawn_blocking;
use crate::refusal::{Code, Refusal, excerpt};
use crate::request_id::RequestId;
use arc_swap::{ArcSwap, Guard};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tidegate_core::{Limit, Period};
use tidegate_rules::Pattern;
use tokio::sync::Mutex;
use tokio::time::timeout;

const NAMESPACE_OVERRIDES_MAX: usize = 10_000;
/// Those of a namespace that have a text between two stars, such as `*bot*`: each is compared with every identifier
/// that begins like it, which may take 3 µs, and all of them less than a millisecond.
const NAMESPACE_SEARCHING_MAX: usize = 250;
/// Of all tenants. Each may set as many as are left for the others, so that none can take the last place: one alone
/// half of them.
const NODE_OVERRIDES_MAX: usize = 200_000;
/// How long a change waits for those before it, and then for the disk.
const WAIT_MAX: Duration = Duration::from_secs(2);

/// A node's overrides, of all tenants.
#[derive(Debug, Default)]
pub struct Overrides {
    in_force: ArcSwap<OverridesInForce>,
    /// Held by the one change that is under way.
    journal: Arc<Mutex<Journal>>,
}

impl Overrides {
    /// Opens the overrides that are stored in a directory. Changes are stored there too.
    pub fn stored_in(directory: PathBuf) -> Self {
        let mut journal = Journal::new(directory);
        let in_force = ArcSwap::from_pointee(journal.read());
        Overrides { in_force, journal: Arc::new(Mutex::new(journal)) }
    }

    #[inline]
    pub(crate) fn in_force(&self) -> Guard<Arc<OverridesInForce>> {
        self.in_force.load()
    }

    /// Makes a change; what was set, with its id. Whoever goes away meanwhile gets all of it or nothing.
    pub(super) async fn change(&self, mut change: Change) -> Result<Option<Override>, Refusal> {
        let turn = timeout(WAIT_MAX, self.journal.clone().lock_owned()).await;
        let mut journal = turn.map_err(|_| busy())?;
        let current = self.in_force.load_full();
        let changing = spawn_blocking(move || {
            current.leaves_room_for_others(&change)?;
            let mut next = OverridesInForce::clone(&current);
            next.apply(&mut change).map(|()| (Arc::new(next), change))
        });
        let (next, change) = changing.await.map_err(|_| busy())?.map_err(|rejected| rejected.refusal())?;
        let old = self.in_force.swap(next.clone());
        let set = change.to.clone();
        let keeping = spawn_blocking(move || {
            journal.append(&change, &next);
            // Takes a while too when there are thousands.
            drop(old);
        });
        if timeout(WAIT_MAX, keeping).await.is_err() {
            tracing::warn!(
                fix = "check the disk",
                "an override is in force, but the disk doesn't take it yet"
            );
        }
        Ok(set)
    }
}

#[cold]
fn busy() -> Refusal {
    let message = "the disk doesn't take the overrides that were set before; nothing was changed";
    Refusal::new(Code::OverridesBusy, message, "try again; check the disk of the node's data.dir")
}

/// What applies instead of the numbers of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Override {
    id: Arc<str>,
    limit: Limit,
    period: Period,
}

impl Override {
    /// With an id of its own.
    pub(super) fn new(limit: Limit, period: Period) -> Self {
        Self::with_id(&format!("ovr_{}", RequestId::made().as_str()), limit, period)
    }

    pub(super) fn with_id(id: &str, limit: Limit, period: Period) -> Self {
        Override { id: id.into(), limit, period }
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn numbers(&self) -> (Limit, Period) {
        (self.limit, self.period)
    }
}

/// An override to be set, or deleted when it is set to nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Change {
    pub(super) tenant: Arc<str>,
    pub(super) namespace: Arc<str>,
    pub(super) identifier: Arc<str>,
    pub(super) to: Option<Override>,
}

impl Change {
    pub(super) fn new(tenant: &str, named: &LimitTarget<'_>, to: Option<Override>) -> Self {
        let (namespace, identifier) = ((&*named.namespace).into(), (&*named.identifier).into());
        Change { tenant: tenant.into(), namespace, identifier, to }
    }
}

/// Why a change wasn't made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum OverrideError {
    Unknown { namespace: Arc<str>, identifier: Arc<str> },
    NamespaceFull { namespace: Arc<str> },
    Searching { namespace: Arc<str> },
    ShareSpent { count: usize },
    NodeFull,
}

impl OverrideError {
    fn refusal(&self) -> Refusal {
        let message = match self {
            OverrideError::Unknown { namespace, identifier } => {
                return unknown_override(namespace, identifier);
            }
            OverrideError::NamespaceFull { namespace } => {
                format!(
                    "namespace `{}` has {NAMESPACE_OVERRIDES_MAX} overrides, which is the most",
                    excerpt(namespace)
                )
            }
            OverrideError::Searching { namespace } => {
                let message = format!(
                    "namespace `{}` has {NAMESPACE_SEARCHING_MAX} overrides with a text between two stars, which is the most",
                    excerpt(namespace)
                );
                let fix = "delete some, or use one star; more would make checks slow";
                return Refusal::of_field(Code::TooMany, "identifier", message, fix);
            }
            OverrideError::ShareSpent { count } => {
                format!("your tenant has {count} overrides; the room left on this node is for other tenants")
            }
            OverrideError::NodeFull => {
                format!("this node has {NODE_OVERRIDES_MAX} overrides, which is the most")
            }
        };
        let fix = "delete some, or replace several by one with a wildcard";
        Refusal::of_field(Code::TooMany, "identifier", message, fix)
    }
}

type Namespaces = HashMap<Arc<str>, Arc<Namespace>>;

/// All overrides of a node. A clone shares what isn't changed in it.
#[derive(Clone, Debug, Default)]
pub(crate) struct OverridesInForce {
    tenants: HashMap<Arc<str>, Arc<Namespaces>>,
    count: usize,
}

impl OverridesInForce {
    #[inline]
    pub(super) fn namespace(&self, tenant: &str, namespace: &str) -> Option<&Namespace> {
        if self.count == 0 {
            return None;
        }
        self.tenants.get(tenant)?.get(namespace).map(|namespace| &**namespace)
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Every one of them, as the change that would set it.
    pub(super) fn each(&self, mut take: impl FnMut(&Change)) {
        for (tenant, namespaces) in &self.tenants {
            for (namespace, overrides) in &**namespaces {
                for (identifier, found) in overrides.from("") {
                    let (tenant, namespace) = (tenant.clone(), namespace.clone());
                    take(&Change {
                        tenant,
                        namespace,
                        identifier: identifier.into(),
                        to: Some(found.clone()),
                    });
                }
            }
        }
    }

    /// Whether a change may be asked for. Not asked of those that were made once: a restart forgets none.
    pub(super) fn leaves_room_for_others(&self, change: &Change) -> Result<(), OverrideError> {
        let namespace = self.namespace(&change.tenant, &change.namespace);
        let is_known = namespace.is_some_and(|known| known.exactly(&change.identifier).is_some());
        if change.to.is_none() || is_known {
            return Ok(());
        }
        if namespace.is_some_and(|known| known.searching() >= NAMESPACE_SEARCHING_MAX)
            && Pattern::new(&change.identifier).is_some_and(|pattern| pattern.searches())
        {
            return Err(OverrideError::Searching { namespace: change.namespace.clone() });
        }
        let own = self.tenants.get(&change.tenant);
        let count = own.map_or(0, |own| own.values().map(|namespace| namespace.len()).sum());
        let left = NODE_OVERRIDES_MAX.saturating_sub(self.count);
        if count < left { Ok(()) } else { Err(OverrideError::ShareSpent { count }) }
    }

    /// Makes a change, if it can be. One that is set again keeps its id, which the change is told.
    pub(super) fn apply(&mut self, change: &mut Change) -> Result<(), OverrideError> {
        let Change { tenant, namespace, identifier, to } = change;
        let known = self.namespace(tenant, namespace);
        let known_count = known.map_or(0, Namespace::len);
        match (known.and_then(|known| known.exactly(identifier)), to) {
            (Some(known), Some(to)) => to.id = known.id.clone(),
            (Some(_), None) => {}
            (None, Some(_)) if known_count >= NAMESPACE_OVERRIDES_MAX => {
                return Err(OverrideError::NamespaceFull { namespace: namespace.clone() });
            }
            (None, Some(_)) if self.count >= NODE_OVERRIDES_MAX => return Err(OverrideError::NodeFull),
            (None, Some(_)) => self.count += 1,
            (None, None) => {
                let (namespace, identifier) = (namespace.clone(), identifier.clone());
                return Err(OverrideError::Unknown { namespace, identifier });
            }
        }
        match &change.to {
            Some(to) => self.set(change, to),
            None => self.delete(change),
        }
        Ok(())
    }

    fn set(&mut self, change: &Change, to: &Override) {
        let namespaces = Arc::make_mut(self.tenants.entry(change.tenant.clone()).or_default());
        let namespace = Arc::make_mut(namespaces.entry(change.namespace.clone()).or_default());
        namespace.set(&change.identifier, to);
    }

    /// What is empty after it costs nothing.
    fn delete(&mut self, change: &Change) {
        let Some(namespaces) = self.tenants.get_mut(&change.tenant).map(Arc::make_mut) else { return };
        let Some(namespace) = namespaces.get_mut(&change.namespace).map(Arc::make_mut) else { return };
        self.count -= usize::from(namespace.delete(&change.identifier));
        if namespace.len() == 0 {
            namespaces.remove(&change.namespace);
        }
        if namespaces.is_empty() {
            self.tenants.remove(&change.tenant);
        }
    }
}

#[cfg(test)]
mod tests;
