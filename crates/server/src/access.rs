//! Who calls: a tenant and what it may do, by its token; without a token file everybody is `default` and may do
//! everything.
//!
//! A request must not pay for this with an allocation or a hash: a connection remembers who it verified last,
//! and which tokens were in force then. A token that was revoked must not outlive that, and how long a look-up
//! takes must tell nothing about a secret.

use crate::App;
use crate::budget::Registration;
use crate::counters::COUNTERS;
use crate::log_gate::LogGate;
use crate::refusal::{Code, Refusal};
use crate::token::{TokenHash, TokenId, is_equal, split};
use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, HeaderName};
use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tidegate_node::driver::DEFAULT_TENANT;
use tokio::sync::watch;

/// Where `Authorization` belongs to somebody else.
const TOKEN_HEADER: HeaderName = HeaderName::from_static("x-tidegate-token");
const SCHEME: &[u8] = b"Bearer ";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Permission {
    /// Asking for decisions, and reporting what passed already.
    Check,
    /// Seeing state and rules.
    Read,
    /// Changing what others rely on: starting keys afresh. Includes reading.
    Admin,
}

impl Permission {
    pub const ALL: [Permission; 3] = [Permission::Check, Permission::Read, Permission::Admin];

    pub const fn word(self) -> &'static str {
        match self {
            Permission::Check => "check",
            Permission::Read => "read",
            Permission::Admin => "admin",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Permission::ALL.into_iter().find(|permission| permission.word() == word)
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A set of permissions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Permissions(u8);

impl Permissions {
    pub const ALL: Permissions =
        Permissions(Permission::Check.bit() | Permission::Read.bit() | Permission::Admin.bit());

    #[must_use]
    pub const fn with(self, permission: Permission) -> Self {
        Permissions(self.0 | permission.bit())
    }

    /// Whether the set names it.
    pub const fn has(self, permission: Permission) -> bool {
        self.0 & permission.bit() != 0
    }

    const fn allow(self, permission: Permission) -> bool {
        match permission {
            Permission::Read => self.has(Permission::Read) || self.has(Permission::Admin),
            Permission::Check | Permission::Admin => self.has(permission),
        }
    }
}

/// Who sent a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Caller {
    tenant: Box<str>,
    permissions: Permissions,
    /// `None` where no tokens are required.
    token: Option<TokenId>,
}

impl Caller {
    /// Of what needs no token where tokens are needed.
    fn nobody() -> Self {
        Caller { tenant: "".into(), permissions: Permissions::default(), token: None }
    }

    pub(crate) fn tenant(&self) -> &str {
        &self.tenant
    }

    /// The token that it presented.
    pub(crate) fn token(&self) -> Option<TokenId> {
        self.token
    }

    /// Whether what concerns all tenants is its business: that is so for tenant `default`.
    pub(crate) fn is_operator(&self) -> bool {
        &*self.tenant == DEFAULT_TENANT
    }

    pub(crate) fn may(&self, permission: Permission) -> bool {
        self.permissions.allow(permission)
    }

    #[inline]
    pub(crate) fn require(&self, permission: Permission) -> Result<(), Refusal> {
        if self.may(permission) { Ok(()) } else { Err(lacks(permission)) }
    }

    /// For what shows all tenants at once.
    pub(crate) fn require_operator(&self) -> Result<(), Refusal> {
        if self.is_operator() { Ok(()) } else { Err(not_an_operator()) }
    }
}

/// A token as the node knows it.
#[derive(Clone, Debug)]
pub struct TokenRecord {
    pub id: TokenId,
    pub hash: TokenHash,
    pub tenant: String,
    pub permissions: Permissions,
}

/// The tokens in force.
#[derive(Debug)]
pub struct Tokens {
    /// `None`: there is no token file.
    tokens: Option<RwLock<TokensById>>,
    /// One more at each change.
    version: AtomicU64,
    /// Wakes what lasts longer than a request.
    changes: watch::Sender<()>,
}

/// The hash and the caller of each token, by its id.
type TokensById = HashMap<TokenId, (TokenHash, Caller)>;

impl Tokens {
    /// No token file: everybody is `default` and may do everything, and a token that is sent is ignored.
    pub fn not_required() -> Self {
        Tokens { tokens: None, version: AtomicU64::new(0), changes: watch::Sender::new(()) }
    }

    pub fn required(records: Vec<TokenRecord>) -> Self {
        let known = Some(RwLock::new(known(records)));
        Tokens { tokens: known, version: AtomicU64::new(0), changes: watch::Sender::new(()) }
    }

    /// Puts other tokens in force, for connections that are open too. Nothing changes where none are required.
    pub fn replace(&self, records: Vec<TokenRecord>) {
        if let Some(current) = &self.tokens {
            *current.write() = known(records);
            self.version.fetch_add(1, Ordering::Release);
            self.changes.send_replace(());
        }
    }

    pub fn are_required(&self) -> bool {
        self.tokens.is_some()
    }

    #[inline]
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Whether a token of this id is in force.
    pub(crate) fn has(&self, id: TokenId) -> bool {
        self.tokens.as_ref().is_some_and(|known| known.read().contains_key(&id))
    }

    /// Waits until a caller's token is revoked, or loses the permission; returns what to refuse it with. For what lasts
    /// longer than a request: requests look for themselves.
    pub(crate) async fn until_revoked(&self, caller: &Caller, permission: Permission) -> Refusal {
        let (Some(known), Some(token)) = (&self.tokens, caller.token) else {
            return std::future::pending().await;
        };
        let mut changes = self.changes.subscribe();
        loop {
            match known.read().get(&token) {
                Some((_, now)) if now.tenant == caller.tenant => {
                    if let Err(refusal) = now.require(permission) {
                        return refusal;
                    }
                }
                _ => return unknown_token(),
            }
            // The sender is this one's own.
            let _ = changes.changed().await;
        }
    }

    /// Whose token this is; `None` when it is nobody's.
    pub(crate) fn caller(&self, presented: &[u8]) -> Option<Caller> {
        let Some(known) = &self.tokens else {
            let permissions = Permissions::ALL;
            return Some(Caller { tenant: DEFAULT_TENANT.into(), permissions, token: None });
        };
        let (id, secret) = split(presented)?;
        let known = known.read();
        let (hash, caller) = known.get(&id)?;
        hash.is_of(secret).then(|| caller.clone())
    }
}

fn known(records: Vec<TokenRecord>) -> TokensById {
    let entry = |TokenRecord { id, hash, tenant, permissions }| {
        (id, (hash, Caller { tenant: tenant.into(), permissions, token: Some(id) }))
    };
    records.into_iter().map(entry).collect()
}

/// Who a connection's last request came from.
#[derive(Debug, Default)]
pub(crate) struct LastCaller {
    verified: Mutex<Option<Verified>>,
    /// Where it is reported that the connection has authenticated.
    registration: Registration,
}

struct Verified {
    token: Box<[u8]>,
    /// Of the tokens that were in force.
    version: u64,
    /// The connection's own: threads that count references to one caller would wait for each other.
    caller: Arc<Caller>,
}

/// A token is a secret.
impl fmt::Debug for Verified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verified").field("caller", &self.caller).finish_non_exhaustive()
    }
}

impl LastCaller {
    pub(crate) fn of(registration: Registration) -> Self {
        LastCaller { verified: Mutex::default(), registration }
    }

    /// Who sends a request with this token, or why that isn't known.
    pub(crate) fn caller(&self, tokens: &Tokens, presented: Option<&[u8]>) -> Result<Arc<Caller>, Refusal> {
        let presented = match presented {
            _ if !tokens.are_required() => &b""[..],
            None => return Err(no_token()),
            Some(presented) => presented,
        };
        // Before the tokens are looked at: if they change meanwhile, the next request looks again.
        let version = tokens.version();
        let mut last = self.verified.lock();
        if let Some(verified) = &*last
            && verified.version == version
            && is_equal(&verified.token, presented)
        {
            return Ok(Arc::clone(&verified.caller));
        }
        let caller = Arc::new(tokens.caller(presented).ok_or_else(unknown_token)?);
        if let Some(token) = caller.token {
            self.registration.authenticated(token);
        }
        *last = Some(Verified { token: presented.into(), version, caller: Arc::clone(&caller) });
        Ok(caller)
    }

    /// The same for somebody who needs a permission; who needs none needs no token.
    pub(crate) fn permitted(
        &self,
        tokens: &Tokens,
        presented: Option<&[u8]>,
        needed: Option<Permission>,
    ) -> Result<Arc<Caller>, Refusal> {
        let Some(permission) = needed else {
            if self.registration.is_required() && presented.is_some() {
                // A valid token authenticates the connection, whatever it is sent with; another one is ignored.
                let _ = self.caller(tokens, presented);
            }
            return Ok(Arc::new(Caller::nobody()));
        };
        let caller = self.caller(tokens, presented)?;
        caller.require(permission)?;
        Ok(caller)
    }
}

/// Counts a request that was refused for its token, and logs it at most once a minute. Proxies and clients admit what
/// such a refusal answers, if their operator chose so: the log is where the operator learns of an expired token.
#[cold]
pub(crate) fn report_refused(app: &App, refusal: &Refusal) {
    static GATE: LogGate = LogGate::new();
    if !matches!(refusal.code, Code::Unauthorized | Code::Forbidden) {
        return;
    }
    COUNTERS.tokens_refused.add_one();
    if GATE.passes(app.clock.now().now) {
        let Refusal { message, fix, .. } = refusal;
        tracing::error!("a request was refused for its token: {message}; {fix}");
    }
}

/// The token of a request: in a header of its own, or as `Authorization: Bearer …`.
pub(crate) fn presented(headers: &HeaderMap) -> Option<&[u8]> {
    own_header(headers).or_else(|| only_value(headers, &AUTHORIZATION).and_then(bearer))
}

/// The token in a value of `Authorization`.
pub(crate) fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(SCHEME.len())?;
    scheme.eq_ignore_ascii_case(SCHEME).then_some(token.trim_ascii())
}

/// The token of a proxy that asks about a request whose `Authorization` is its caller's.
pub(crate) fn own_header(headers: &HeaderMap) -> Option<&[u8]> {
    only_value(headers, &TOKEN_HEADER)
}

fn only_value<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h [u8]> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => None,
        (Some(value), None) => Some(value.as_bytes()),
        // One of them may be a caller's own, smuggled past the proxy: neither is believed.
        (Some(_), Some(_)) => Some(b""),
    }
}

#[cold]
fn no_token() -> Refusal {
    let fix = "send `Authorization: Bearer TOKEN` (to /auth, `X-Tidegate-Token: TOKEN`); `tidegate token new` makes one";
    Refusal::new(Code::Unauthorized, "the request has no token", fix)
}

#[cold]
fn unknown_token() -> Refusal {
    let message = "the token is not known: it is mistyped, or was revoked";
    let fix = "send the whole token, as `tidegate token new` printed it; `tidegate token list` shows all tokens' ids";
    Refusal::new(Code::Unauthorized, message, fix)
}

#[cold]
fn lacks(permission: Permission) -> Refusal {
    let word = permission.word();
    let message = format!("the token lacks the permission `{word}`");
    Refusal::new(
        Code::Forbidden,
        message,
        format!("use one that has it: `tidegate token new --permissions {word}`"),
    )
}

#[cold]
fn not_an_operator() -> Refusal {
    let message = "this request concerns all tenants, but the token belongs to one tenant";
    Refusal::new(Code::Forbidden, message, "use a token of tenant `default`")
}

#[cfg(test)]
mod tests;
