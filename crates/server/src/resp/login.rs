//! Who a connection is: by `AUTH`, by `HELLO 3 AUTH`, or by itself where no tokens are required.
//!
//! Verified once, and again whenever the tokens change: a revoked one must not live on in a connection that was
//! open before.

use super::{reply, throttle};
use crate::App;
use crate::access::{Caller, Permission};
use crate::budget::Registration;
use crate::counters::COUNTERS;
use crate::token::TOKEN_BYTES_MAX;
use std::fmt;
use tidegate_core::{Decision, Item, KeyPrefix, Moment};

/// As Redis words them.
pub(crate) const NO_AUTH: &[u8] = b"NOAUTH Authentication required.";
pub(crate) const WRONG_PASS: &[u8] = b"WRONGPASS invalid username-password pair or user is disabled.";
pub(crate) const HELLO_NO_AUTH: &[u8] = b"NOAUTH HELLO must be called with the client already authenticated, \
otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP \
protocol version at the same time";

pub(crate) struct Login {
    token: Box<[u8]>,
    /// Of the tokens that were in force when it was verified.
    version: u64,
    caller: Option<Caller>,
    /// What the keys of its throttle commands have in common; `None` when it may send none.
    keys: Option<KeyPrefix>,
    /// Where it is reported that the connection has authenticated.
    registration: Registration,
}

/// A token is a secret.
impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("caller", &self.caller).finish_non_exhaustive()
    }
}

impl Login {
    /// Nobody, or everybody where no tokens are required.
    pub(crate) fn new(app: &App, registration: Registration) -> Self {
        Login::verified(app, b"", registration)
    }

    /// Gives up the token.
    pub(crate) fn log_out(&mut self, app: &App) {
        self.registration.logged_out();
        *self = Login::verified(app, b"", self.registration.clone());
    }

    fn verified(app: &App, token: &[u8], registration: Registration) -> Self {
        // Before the tokens are looked at: if they change meanwhile, the next pass looks again.
        let version = app.tokens.version();
        let caller = app.tokens.caller(token);
        if let Some(token) = caller.as_ref().and_then(Caller::token) {
            registration.authenticated(token);
        }
        let keys = caller.as_ref().filter(|caller| caller.may(Permission::Check));
        let keys = keys.map(|caller| app.engine.gcra_keys(caller.tenant(), throttle::NAMESPACE));
        Login { token: token.into(), version, caller, keys, registration }
    }

    /// Looks again when the tokens have changed.
    #[inline]
    pub(crate) fn renew(&mut self, app: &App) {
        if self.version != app.tokens.version() {
            *self = Login::verified(app, &self.token, self.registration.clone());
        }
    }

    /// Records a denial in the journal.
    #[inline]
    pub(crate) fn record_denial(&self, app: &App, item: &Item, decision: &Decision, moment: Moment) {
        if let (Some(caller), Some(keys)) = (&self.caller, &self.keys) {
            app.engine.record_single((caller.tenant(), throttle::NAMESPACE, keys), item, decision, moment);
        }
    }

    /// Whether the token is known. A wrong one changes nothing, as in Redis.
    pub(crate) fn log_in(&mut self, app: &App, token: &[u8]) -> bool {
        if !app.tokens.are_required() {
            return true;
        }
        if token.len() > TOKEN_BYTES_MAX {
            return false;
        }
        let login = Login::verified(app, token, self.registration.clone());
        let is_known = login.is_known();
        if is_known {
            *self = login;
        } else {
            COUNTERS.tokens_refused.add_one();
        }
        is_known
    }

    pub(crate) fn is_known(&self) -> bool {
        self.caller.is_some()
    }

    pub(crate) fn is_operator(&self) -> bool {
        self.caller.as_ref().is_some_and(Caller::is_operator)
    }

    pub(crate) fn tenant(&self) -> &str {
        self.caller.as_ref().map_or("", Caller::tenant)
    }

    /// The keys of a throttle command, if it may send one.
    #[inline]
    pub(crate) fn keys(&self) -> Option<&KeyPrefix> {
        self.keys.as_ref()
    }

    /// Says why it may not.
    #[cold]
    pub(crate) fn refuse(&self, out: &mut Vec<u8>, command: &[u8]) {
        COUNTERS.resp_commands_refused.add_one();
        COUNTERS.tokens_refused.add_one();
        if !self.is_known() {
            return reply::error(out, NO_AUTH);
        }
        let command = command.to_ascii_lowercase();
        reply::error(
            out,
            &[b"NOPERM this token has no permission to run the '", &*command, b"' command"].concat(),
        );
    }
}
