//! The token file: TOML, with what a node needs to know a token again and never what it would take to use one.
//!
//! Written as a whole, to a file beside it that is synced and renamed over it, under a lock, so that two commands
//! at once lose nothing and a node never reads half of it.

use serde::Deserialize;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tidegate_node::files::{beside, directory_of};
use tidegate_server::{Permission, Permissions, TokenHash, TokenId};
use toml::Spanned;

pub(super) const TOKENS_MAX: usize = 100_000;
pub(super) const NAME_CHARS_MAX: usize = 128;
const CREATED_CHARS_MAX: usize = 40;
const FILE_BYTES_MAX: u64 = 64 << 20;
/// Only its owner: a hash of 256 random bits tells nothing, but who has tokens is nobody else's business.
const MODE: u32 = 0o600;
/// How often, and how far apart, a lock that another command holds is tried.
const LOCK_TRIES: u32 = 500;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

const HEAD: &str = "# Tokens of Tidegate: who may ask, as whom. Made by `tidegate token`, and written anew by it: comments are lost.\n\
                    # To revoke a token by hand, remove its part. Secrets aren't here, only their SHA-256.\n";

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct StoredToken {
    pub(crate) id: TokenId,
    /// For people.
    pub(crate) name: String,
    pub(crate) tenant: String,
    pub(crate) permissions: Permissions,
    pub(crate) created: String,
    pub(crate) hash: TokenHash,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    #[error("auth.tokens: there is no {}; make its first token: `tidegate token new --tenant default --auth-tokens {}`", .path.display(), .path.display())]
    Missing { path: PathBuf },
    #[error("auth.tokens: can't read {}: {source}; check the path and its permissions", .path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("auth.tokens: {} is larger than {} MiB; check that it is the file you mean", .path.display(), FILE_BYTES_MAX >> 20)]
    TooLarge { path: PathBuf },
    #[error("auth.tokens: {}:{line}: {message}; {fix}", .path.display())]
    Bad { path: PathBuf, line: usize, message: String, fix: String },
    #[error("auth.tokens: can't write {}: {source}; check the directory's permissions and the disk", .path.display())]
    Unwritable { path: PathBuf, source: io::Error },
    #[error("auth.tokens: another command has held {} for seconds; try again when it has ended", .path.display())]
    Locked { path: PathBuf },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    token: Vec<TokenEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenEntry {
    id: Spanned<String>,
    #[serde(default)]
    name: Option<Spanned<String>>,
    tenant: Spanned<String>,
    permissions: Vec<Spanned<String>>,
    created: Spanned<String>,
    sha256: Spanned<String>,
}

/// What is wrong, where, and what to do about it.
struct Wrong {
    span: Range<usize>,
    message: String,
    fix: String,
}

fn wrong(at: &Spanned<String>, message: impl Into<String>, fix: impl Into<String>) -> Wrong {
    Wrong { span: at.span(), message: message.into(), fix: fix.into() }
}

pub(super) fn read(path: &Path) -> Result<Vec<StoredToken>, FileError> {
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => FileError::Missing { path: path.to_owned() },
        _ => FileError::Unreadable { path: path.to_owned(), source },
    };
    let mut text = String::new();
    let file = File::open(path).map_err(failed)?;
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(failed)?;
    if u64::try_from(text.len()).unwrap_or(u64::MAX) > FILE_BYTES_MAX {
        return Err(FileError::TooLarge { path: path.to_owned() });
    }
    parse(&text).map_err(|Wrong { span, message, fix }| {
        let line = text.get(..span.start).unwrap_or(&text).matches('\n').count() + 1;
        FileError::Bad { path: path.to_owned(), line, message, fix }
    })
}

fn parse(text: &str) -> Result<Vec<StoredToken>, Wrong> {
    let document: Document = toml::from_str(text).map_err(|error| Wrong {
        span: error.span().unwrap_or(0..0),
        message: error.message().replace('\n', ", "),
        fix: "restore it, or remove the token that it is about".to_owned(),
    })?;
    let mut ids = BTreeSet::new();
    let mut tokens = Vec::with_capacity(document.token.len().min(TOKENS_MAX));
    for entry in &document.token {
        let token = stored(entry)?;
        if !ids.insert(token.id) {
            return Err(wrong(
                &entry.id,
                format!("the id {} comes twice", token.id),
                "remove one of the two",
            ));
        }
        if tokens.len() == TOKENS_MAX {
            return Err(wrong(&entry.id, format!("there are more than {TOKENS_MAX} tokens"), "revoke some"));
        }
        tokens.push(token);
    }
    Ok(tokens)
}

fn stored(entry: &TokenEntry) -> Result<StoredToken, Wrong> {
    let TokenEntry { id, name, tenant, permissions, created, sha256 } = entry;
    let restore = "restore it, or remove this token";
    let token_id = TokenId::parse(id.get_ref().as_bytes());
    let token_id = token_id.ok_or_else(|| wrong(id, "an id is 12 letters and digits", restore))?;
    if !is_tenant(tenant.get_ref()) {
        return Err(wrong(tenant, "isn't the name of a tenant", TENANT_FIX));
    }
    if let Some(name) = name.as_ref().filter(|name| !is_name(name.get_ref())) {
        return Err(wrong(
            name,
            format!("a name has at most {NAME_CHARS_MAX} printable characters"),
            "shorten it",
        ));
    }
    let mut set = Permissions::default();
    for word in permissions {
        let unknown = || wrong(word, "isn't a permission", "write check, read or admin");
        set = set.with(Permission::parse(word.get_ref()).ok_or_else(unknown)?);
    }
    if created.get_ref().len() > CREATED_CHARS_MAX || !is_name(created.get_ref()) {
        return Err(wrong(created, "isn't an instant", "write it as 2026-12-01T00:00:00Z"));
    }
    let hash = TokenHash::parse(sha256.get_ref());
    let hash = hash.ok_or_else(|| wrong(sha256, "a hash is 64 of 0-9 and a-f", restore))?;
    Ok(StoredToken {
        id: token_id,
        name: name.as_ref().map(|name| name.get_ref().clone()).unwrap_or_default(),
        tenant: tenant.get_ref().clone(),
        permissions: set,
        created: created.get_ref().clone(),
        hash,
    })
}

pub(super) const TENANT_FIX: &str = "use 1 to 128 printable characters, as in the rules' `tenant:`";

/// A name that rules may have, too.
pub(super) fn is_tenant(text: &str) -> bool {
    !text.is_empty() && is_name(text)
}

pub(super) fn is_name(text: &str) -> bool {
    text.chars().count() <= NAME_CHARS_MAX && !text.chars().any(char::is_control)
}

fn render(tokens: &[StoredToken]) -> String {
    let mut text = HEAD.to_owned();
    let quoted = |text: &str| toml::Value::from(text).to_string();
    for StoredToken { id, name, tenant, permissions, created, hash } in tokens {
        let words = Permission::ALL.into_iter().filter(|permission| permissions.has(*permission));
        let words: Vec<String> = words.map(|permission| format!("\"{}\"", permission.word())).collect();
        // Writing to a string can't fail.
        let _ = write!(
            text,
            "\n[[token]]\nid = \"{id}\"\nname = {}\ntenant = {}\npermissions = [{}]\ncreated = {}\nsha256 = \"{hash}\"\n",
            quoted(name),
            quoted(tenant),
            words.join(", "),
            quoted(created),
        );
    }
    text
}

/// Changes the tokens of a file under its lock. A file that isn't there has none.
pub(super) fn change<T, E: From<FileError>>(
    path: &Path,
    change: impl FnOnce(&mut Vec<StoredToken>) -> Result<T, E>,
) -> Result<T, E> {
    // Links are followed: what they point to is replaced, not they.
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let _lock = lock(path)?;
    let mut tokens = match read(path) {
        Err(FileError::Missing { .. }) => Vec::new(),
        read => read?,
    };
    let said = change(&mut tokens)?;
    replace(path, &render(&tokens))
        .map_err(|source| FileError::Unwritable { path: path.to_owned(), source })?;
    Ok(said)
}

/// A lock beside the file, which itself is replaced under it.
#[expect(clippy::disallowed_methods, reason = "a command waits for another one, which has no clock of ours")]
fn lock(path: &Path) -> Result<File, FileError> {
    let failed = |source| FileError::Unwritable { path: path.to_owned(), source };
    let options = OpenOptions::new().create(true).truncate(false).write(true).mode(MODE).clone();
    let file = options.open(beside(path, "lock")).map_err(failed)?;
    for _ in 0..LOCK_TRIES {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
    }
    Err(FileError::Locked { path: path.to_owned() })
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    let partial = beside(path, "partial");
    let written = write_beside(path, &partial, text).and_then(|()| fs::rename(&partial, path));
    if written.is_err() {
        let _ = fs::remove_file(&partial);
    }
    written?;
    File::open(directory_of(path))?.sync_all()
}

fn write_beside(path: &Path, partial: &Path, text: &str) -> io::Result<()> {
    let _ = fs::remove_file(partial);
    let mut file = OpenOptions::new().create_new(true).write(true).mode(MODE).open(partial)?;
    // A node that could read the file before must be able to afterwards, whoever runs this command.
    if let Ok(before) = fs::metadata(path) {
        file.set_permissions(fs::Permissions::from_mode(before.mode() & 0o777))?;
        let now = file.metadata()?;
        if (before.uid(), before.gid()) != (now.uid(), now.gid()) {
            chown(partial, Some(before.uid()), Some(before.gid()))?;
        }
    }
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests;
