//! How connections to a database server are protected when its URL doesn't say.
//!
//! A server on another machine proves with its certificate that it is the one that the URL names. One that offers no
//! TLS at all is used in the open, with a warning: a URL that must not allow this names `VERIFY_IDENTITY` or
//! `verify-full`, because whoever can change what goes over the network can hide that the server offers TLS.

use super::link::Failure;
use sqlx::ConnectOptions;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What sqlx says of a server that offers no TLS where the mode demands it.
const NOT_OFFERED: &str = "server does not support TLS";
/// How rustls begins what it says of a certificate that it refuses.
const UNVERIFIED: &str = "invalid peer certificate";

/// A server's address, and whether its URL names a TLS mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ServerAddress<'a> {
    pub(super) host: &'a str,
    pub(super) is_socket: bool,
    pub(super) names_mode: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Protection {
    /// The mode that the URL names. Without one, and on this machine: TLS if the server offers it, not verified.
    AsWritten,
    /// TLS with a verified certificate and host name; none at all if the server offers none.
    Verified,
}

impl Protection {
    pub(super) fn of(place: ServerAddress<'_>) -> Self {
        let is_here = place.is_socket || is_loopback(place.host);
        if place.names_mode || is_here { Protection::AsWritten } else { Protection::Verified }
    }
}

fn is_loopback(host: &str) -> bool {
    let address = host.parse::<IpAddr>();
    host.eq_ignore_ascii_case("localhost")
        || address.is_ok_and(|address| address.to_canonical().is_loopback())
}

/// A server, and how to speak to it.
#[derive(Clone, Debug)]
pub(super) struct Server<O> {
    options: O,
    /// For a server that offers no TLS; `None` where that is an error, or allowed by the options themselves.
    open: Option<Open<O>>,
    remedies: Remedies,
}

/// What an operator does about it, in the words of the server's kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Remedies {
    pub(super) unverified: &'static str,
    pub(super) not_offered: &'static str,
}

#[derive(Clone, Debug)]
struct Open<O> {
    options: O,
    /// A server without TLS is warned of once, and again when it has offered TLS in between.
    has_warned: Arc<AtomicBool>,
}

impl<O: ConnectOptions<Connection: Sized>> Server<O> {
    pub(super) fn as_written(options: O, remedies: Remedies) -> Self {
        Server { options, open: None, remedies }
    }

    /// The options demand a verified certificate; those of `open` don't use TLS.
    pub(super) fn verified(options: O, open: O, remedies: Remedies) -> Self {
        Server { options, open: Some(Open { options: open, has_warned: Arc::default() }), remedies }
    }

    pub(super) async fn connect(&self) -> Result<O::Connection, Failure> {
        let error = match self.options.connect().await {
            Ok(connection) => {
                if let Some(open) = &self.open {
                    open.has_warned.store(false, Ordering::Relaxed);
                }
                return Ok(connection);
            }
            Err(error) => error,
        };
        match &self.open {
            Some(open) if is_not_offered(&error) => {
                if !open.has_warned.swap(true, Ordering::Relaxed) {
                    tracing::warn!(
                        fix = self.remedies.not_offered,
                        "the database offers no TLS: logins and counts can be read and changed on the way"
                    );
                }
                Ok(open.options.connect().await?)
            }
            _ if is_unverified(&error) => Err(Failure::Lost(format!(
                "the database's certificate can't be verified ({error}); {}",
                self.remedies.unverified
            ))),
            _ => Err(error.into()),
        }
    }
}

fn is_not_offered(error: &sqlx::Error) -> bool {
    matches!(error, sqlx::Error::Tls(cause) if cause.to_string() == NOT_OFFERED)
}

fn is_unverified(error: &sqlx::Error) -> bool {
    matches!(error, sqlx::Error::Io(_) | sqlx::Error::Tls(_)) && error.to_string().contains(UNVERIFIED)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn protection(host: &str) -> Protection {
        Protection::of(ServerAddress { host, is_socket: false, names_mode: false })
    }

    #[test]
    fn servers_on_other_machines_are_verified_unless_the_url_names_a_mode() {
        for host in ["db", "db.example.com", "10.0.0.7", "0.0.0.0", "fd00::7", "localhost.example.com", "::"]
        {
            assert_eq!(protection(host), Protection::Verified, "{host}");
            let place = ServerAddress { host, is_socket: false, names_mode: true };
            assert_eq!(Protection::of(place), Protection::AsWritten, "{host}");
            let place = ServerAddress { host, is_socket: true, names_mode: false };
            assert_eq!(Protection::of(place), Protection::AsWritten, "{host}");
        }
        for host in ["localhost", "LocalHost", "127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(protection(host), Protection::AsWritten, "{host}");
        }
    }

    #[test]
    fn only_a_server_without_tls_is_used_in_the_open() {
        assert!(is_not_offered(&sqlx::Error::Tls(NOT_OFFERED.into())));
        for error in ["invalid peer certificate: UnknownIssuer", "handshake failure"] {
            assert!(!is_not_offered(&sqlx::Error::Tls(error.into())));
            assert!(!is_not_offered(&std::io::Error::other(error).into()));
        }
        assert!(is_unverified(&std::io::Error::other("invalid peer certificate: UnknownIssuer").into()));
        assert!(!is_unverified(&std::io::Error::other("connection refused").into()));
    }
}
