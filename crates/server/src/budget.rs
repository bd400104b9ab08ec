//! The connections that one listener may have, and which of them have yet to authenticate.
//!
//! Each listener has its own budget, shared by the threads that serve it, so that the connections of one can't use up
//! another's. Where tokens are required, a connection starts unauthenticated: it has [`AUTHENTICATION_TIMEOUT`] to present
//! a valid token, and while the budget is used up, the oldest unauthenticated connection is closed for each new one.
//! Authenticated connections are never closed here. One whose token is revoked is unauthenticated again.
//!
//! Must cost a request nothing: the budget is called when a connection opens, verifies a token, and closes.

use crate::access::Tokens;
use crate::counters::COUNTERS;
use crate::token::TokenId;
use parking_lot::Mutex;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::task::AbortHandle;
use tokio::time::Instant;

/// From a connection's beginning, or the revocation of its token, to a valid token.
const AUTHENTICATION_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a listener calls [`ConnectionBudget::sweep`].
pub(crate) const SWEEP_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct ConnectionBudget {
    max: usize,
    open: AtomicUsize,
    registry: Mutex<Registry>,
}

/// The connections of a listener where tokens are required; empty elsewhere.
#[derive(Debug, Default)]
struct Registry {
    last_id: u64,
    connections: HashMap<u64, Registered>,
    /// Those without a token, by when they became so: the oldest first.
    unauthenticated: BTreeSet<(Instant, u64)>,
    /// Of the tokens when they were last compared with these connections.
    tokens_version: u64,
}

#[derive(Debug)]
struct Registered {
    /// `None` until the connection's task was spawned.
    task: Option<AbortHandle>,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    UnauthenticatedSince(Instant),
    Authenticated(TokenId),
}

impl ConnectionBudget {
    pub(crate) fn new(max: usize) -> Arc<Self> {
        let registry = Mutex::new(Registry::default());
        Arc::new(ConnectionBudget { max, open: AtomicUsize::new(0), registry })
    }

    /// Returns a place for one more connection, or `None` when there is none to be had.
    pub(crate) fn admit(self: &Arc<Self>, tokens: &Tokens) -> Option<ConnectionSlot> {
        let is_registered = tokens.are_required();
        if self.open.fetch_add(1, Ordering::Relaxed) >= self.max
            && !(is_registered && self.close_oldest_unauthenticated())
        {
            self.open.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let id = is_registered.then(|| self.registry.lock().insert(Instant::now()));
        Some(ConnectionSlot { budget: Arc::clone(self), id })
    }

    /// Whether connections that were told to close are still open beyond the budget.
    pub(crate) fn is_exceeded(&self) -> bool {
        self.open.load(Ordering::Relaxed) > self.max
    }

    fn close_oldest_unauthenticated(&self) -> bool {
        let oldest = self.registry.lock().take_oldest(Instant::now());
        if let Some(task) = &oldest {
            COUNTERS.connections_evicted.add_one();
            task.abort();
        }
        oldest.is_some()
    }

    /// Closes the connections that took too long to authenticate. Those whose token was revoked since the last call
    /// are unauthenticated from now on.
    pub(crate) fn sweep(&self, tokens: &Tokens) {
        let now = Instant::now();
        let mut registry = self.registry.lock();
        registry.apply_revocations(tokens, now);
        let Some(until) = now.checked_sub(AUTHENTICATION_TIMEOUT) else { return };
        while let Some(task) = registry.take_oldest(until) {
            COUNTERS.connections_unauthenticated.add_one();
            task.abort();
        }
    }
}

impl Registry {
    fn insert(&mut self, now: Instant) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        self.connections.insert(id, Registered { task: None, state: State::UnauthenticatedSince(now) });
        self.unauthenticated.insert((now, id));
        id
    }

    fn set_state(&mut self, id: u64, state: State) {
        // One that is being closed is registered no more.
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if let State::UnauthenticatedSince(since) = connection.state {
            self.unauthenticated.remove(&(since, id));
        }
        connection.state = state;
        if let State::UnauthenticatedSince(since) = state {
            self.unauthenticated.insert((since, id));
        }
    }

    fn remove(&mut self, id: u64) -> Option<Registered> {
        let removed = self.connections.remove(&id)?;
        if let State::UnauthenticatedSince(since) = removed.state {
            self.unauthenticated.remove(&(since, id));
        }
        Some(removed)
    }

    /// Removes the oldest connection that has a task and has been unauthenticated since `until` or before.
    fn take_oldest(&mut self, until: Instant) -> Option<AbortHandle> {
        let has_task = |id: &u64| self.connections.get(id).is_some_and(|found| found.task.is_some());
        let oldest = self.unauthenticated.iter().find(|(_, id)| has_task(id)).copied();
        let (_, id) = oldest.filter(|(since, _)| *since <= until)?;
        self.remove(id)?.task
    }

    fn apply_revocations(&mut self, tokens: &Tokens, now: Instant) {
        // Before the tokens are read: if they change meanwhile, the next call reads them again.
        let version = tokens.version();
        if version == self.tokens_version {
            return;
        }
        self.tokens_version = version;
        let is_revoked = |connection: &Registered| match connection.state {
            State::Authenticated(token) => !tokens.has(token),
            State::UnauthenticatedSince(_) => false,
        };
        let revoked: Vec<u64> =
            self.connections.iter().filter(|(_, found)| is_revoked(found)).map(|(id, _)| *id).collect();
        for id in revoked {
            self.set_state(id, State::UnauthenticatedSince(now));
        }
    }
}

/// A connection's slot in the budget of its listener, until it is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionSlot {
    budget: Arc<ConnectionBudget>,
    id: Option<u64>,
}

impl ConnectionSlot {
    pub(crate) fn registration(&self) -> Registration {
        Registration(self.id.map(|id| (Arc::clone(&self.budget), id)))
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.budget.open.fetch_sub(1, Ordering::Relaxed);
        if let Some(id) = self.id {
            let _ = self.budget.registry.lock().remove(id);
        }
    }
}

/// By which a connection reports whose it is. Empty where no tokens are required.
#[derive(Clone, Debug, Default)]
pub(crate) struct Registration(Option<(Arc<ConnectionBudget>, u64)>);

impl Registration {
    /// The task that serves the connection: what is aborted to close it.
    pub(crate) fn served_by(&self, task: AbortHandle) {
        if let Some((budget, id)) = &self.0
            && let Some(connection) = budget.registry.lock().connections.get_mut(id)
        {
            connection.task = Some(task);
        }
    }

    pub(crate) fn is_required(&self) -> bool {
        self.0.is_some()
    }

    /// The connection presented this token, which is valid.
    pub(crate) fn authenticated(&self, token: TokenId) {
        self.set_state(State::Authenticated(token));
    }

    /// The connection gave up its token.
    pub(crate) fn logged_out(&self) {
        if self.is_required() {
            self.set_state(State::UnauthenticatedSince(Instant::now()));
        }
    }

    fn set_state(&self, state: State) {
        if let Some((budget, id)) = &self.0 {
            budget.registry.lock().set_state(*id, state);
        }
    }
}

#[cfg(test)]
mod tests;
