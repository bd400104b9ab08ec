//! `tidegate token new|list|revoke`: works on the file itself; nodes that watch it follow within a second.

use super::file::{self, FileError, NAME_CHARS_MAX, StoredToken, TENANT_FIX, TOKENS_MAX, is_name, is_tenant};
use crate::output;
use std::path::Path;
use std::process::ExitCode;
use tidegate_node::clock::Clock;
use tidegate_server::{NewToken, Permission, Permissions, TokenId};

/// As it was typed.
#[derive(Debug)]
pub(crate) enum TokenCommand {
    New { tenant: String, permissions: String, name: String },
    List,
    Revoke { id: String },
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum TokenError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(
        "no token file is set; name one: --auth-tokens PATH, TIDEGATE_AUTH_TOKENS, or [auth] tokens in tidegate.toml"
    )]
    NoFile,
    #[error("--tenant {0:?} isn't the name of a tenant; {TENANT_FIX}")]
    Tenant(String),
    #[error("--name {0:?} is too long or not printable; use at most {NAME_CHARS_MAX} characters")]
    Name(String),
    #[error("--permissions: {0:?} isn't a permission; write check, read and admin, separated by commas")]
    Permission(String),
    #[error("there are {TOKENS_MAX} tokens already; revoke some")]
    TooMany,
    #[error("there is no token {0:?} in the file; `tidegate token list` shows the ids")]
    NoSuchToken(String),
    #[error("the system gives no random bytes; try again")]
    NoRandomness,
}

pub(crate) fn run(path: Option<&Path>, command: TokenCommand) -> Result<ExitCode, TokenError> {
    let path = path.ok_or(TokenError::NoFile)?;
    match command {
        TokenCommand::New { tenant, permissions, name } => new(path, tenant, &permissions, name)?,
        TokenCommand::List => list(path)?,
        TokenCommand::Revoke { id } => revoke(path, &id)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn new(path: &Path, tenant: String, permissions: &str, name: String) -> Result<(), TokenError> {
    if !is_tenant(&tenant) {
        return Err(TokenError::Tenant(tenant));
    }
    if !is_name(&name) {
        return Err(TokenError::Name(name));
    }
    let permissions = permissions_of(permissions)?;
    let created = now();
    let token = file::change(path, |tokens| {
        if tokens.len() >= TOKENS_MAX {
            return Err(TokenError::TooMany);
        }
        let token = NewToken::generate().ok_or(TokenError::NoRandomness)?;
        if tokens.iter().any(|known| known.id == token.id) {
            return Err(TokenError::NoRandomness);
        }
        let (id, hash) = (token.id, token.hash());
        tokens.push(StoredToken { id, name, tenant, permissions, created, hash });
        Ok(token)
    })?;
    // Alone on its line, for scripts; what is for people goes elsewhere.
    output::print(&format!("{}\n", token.reveal()));
    output::complain(&format!("made token {} in {}; it is shown this once", token.id, path.display()));
    Ok(())
}

fn permissions_of(text: &str) -> Result<Permissions, TokenError> {
    let mut permissions = Permissions::default();
    for word in text.split(',').map(str::trim) {
        let permission = Permission::parse(word).ok_or_else(|| TokenError::Permission(word.to_owned()))?;
        permissions = permissions.with(permission);
    }
    Ok(permissions)
}

fn list(path: &Path) -> Result<(), TokenError> {
    let tokens = file::read(path)?;
    let mut text =
        format!("{:12}  {:20}  {:16}  {:20}  {}\n", "ID", "CREATED", "PERMISSIONS", "TENANT", "NAME");
    for StoredToken { id, name, tenant, permissions, created, .. } in &tokens {
        let words = Permission::ALL.into_iter().filter(|permission| permissions.has(*permission));
        let words = words.map(Permission::word).collect::<Vec<_>>().join(",");
        let line = format!("{id}  {created:20}  {words:16}  {tenant:20}  {name}");
        text.push_str(line.trim_end());
        text.push('\n');
    }
    output::print(&text);
    Ok(())
}

fn revoke(path: &Path, id: &str) -> Result<(), TokenError> {
    let unknown = || TokenError::NoSuchToken(id.chars().take(20).collect());
    let wanted = TokenId::parse(id.as_bytes()).ok_or_else(unknown)?;
    file::change(path, |tokens| {
        let count = tokens.len();
        tokens.retain(|token| token.id != wanted);
        if tokens.len() < count { Ok(()) } else { Err(unknown()) }
    })?;
    output::print(&format!("revoked {wanted}; nodes that watch the file refuse it within a second\n"));
    Ok(())
}

/// In whole seconds, UTC.
fn now() -> String {
    let seconds = Clock::system().now().now.get() / 1_000_000_000;
    let timestamp =
        i64::try_from(seconds).ok().and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    timestamp.map_or_else(String::new, |timestamp| timestamp.to_string())
}
