//! Tokens on disk: the file that `tidegate token` writes and a node reads.

mod command;
mod file;

pub(crate) use command::{TokenCommand, TokenError, run};
pub(crate) use file::{FileError, StoredToken};

use crate::output::counted;
use crate::supervisor::Supervisor;
use crate::watched_files::{self, WatchedFiles};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidegate_node::Engine;
use tidegate_node::driver::Tenancy;
use tidegate_server::{TokenRecord, Tokens};

/// The tokens that a node starts with, and the watch that keeps them up to date.
#[derive(Debug)]
pub(crate) struct TokensAtStart {
    pub(crate) tokens: Arc<Tokens>,
    /// For the banner.
    pub(crate) summary: String,
    file: Option<(PathBuf, WatchedFiles)>,
    tenants: BTreeSet<String>,
}

impl TokensAtStart {
    /// Without a path there are none.
    pub(crate) fn read(path: Option<&Path>) -> Result<Self, FileError> {
        let Some(path) = path else {
            let summary = "no tokens: only this machine is served, and every caller is of tenant default";
            return Ok(TokensAtStart {
                tokens: Arc::new(Tokens::not_required()),
                summary: summary.to_owned(),
                file: None,
                tenants: BTreeSet::new(),
            });
        };
        let watched = WatchedFiles::new(vec![path.to_owned()]);
        let stored = file::read(path)?;
        let tenants = tenants(&stored);
        let of_tenants = counted(tenants.len(), "tenant");
        let summary = format!("{}: {} of {of_tenants}", path.display(), counted(stored.len(), "token"));
        Ok(TokensAtStart {
            tokens: Arc::new(Tokens::required(records(stored))),
            summary,
            file: Some((path.to_owned(), watched)),
            tenants,
        })
    }

    pub(crate) fn tenancy(&self) -> Tenancy {
        if self.file.is_some() { Tenancy::ByToken } else { Tenancy::DefaultOnly }
    }

    /// Gives each tenant its share of the counter table, before the first count.
    pub(crate) fn divide(&self, engine: &Engine) {
        if self.file.is_some() {
            engine.share_among(self.tenants.iter().map(String::as_str));
        }
    }

    /// Within a runtime.
    pub(crate) fn spawn_watch(self, supervisor: &Supervisor, engine: Arc<Engine>) {
        self.spawn_watch_telling(supervisor, move |tenants| {
            engine.share_among(tenants.iter().map(String::as_str));
        });
    }

    /// The same, for whoever else wants to know the tenants.
    pub(crate) fn spawn_watch_telling(
        self,
        supervisor: &Supervisor,
        tell: impl Fn(&BTreeSet<String>) + Send + 'static,
    ) {
        let TokensAtStart { tokens, file: Some((path, watched)), .. } = self else { return };
        let read = move || file::read(&path).map_err(|error| error.to_string());
        let apply = move |stored: Vec<StoredToken>| {
            let (count, tenants) = (stored.len(), tenants(&stored));
            tell(&tenants);
            tokens.replace(records(stored));
            tracing::info!(tokens = count, tenants = tenants.len(), "tokens reloaded");
        };
        supervisor.spawn("the token watch", watched_files::watch("auth.tokens", watched, read, apply));
    }
}

fn tenants(stored: &[StoredToken]) -> BTreeSet<String> {
    stored.iter().map(|token| token.tenant.clone()).collect()
}

fn records(stored: Vec<StoredToken>) -> Vec<TokenRecord> {
    let record =
        |StoredToken { id, hash, tenant, permissions, .. }| TokenRecord { id, hash, tenant, permissions };
    stored.into_iter().map(record).collect()
}
