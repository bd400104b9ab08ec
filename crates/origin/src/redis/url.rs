//! The address of a region's Redis, as an operator writes it in `origin.url`.
//!
//! A url that exists is valid: nothing below checks it again. Neither the url, nor an error about it, nor its
//! debug output may ever show a password, or a piece of one.

mod parse;
#[cfg(test)]
mod tests;

use super::address::Address;
use std::fmt;
use std::path::PathBuf;

pub(super) const SERVER_PORT: u16 = 6379;
pub(super) const SENTINEL_PORT: u16 = 26379;

/// Which servers keep the counts, and how to log in there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RedisUrl {
    pub(super) topology: Topology,
    pub(super) credentials: Credentials,
    pub(super) database: u32,
    pub(super) tls: Option<Tls>,
}

/// How Redis is deployed, and at which addresses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Topology {
    Standalone(Address),
    /// Some of the cluster's servers; they tell of the others.
    Cluster(Vec<Address>),
    Sentinel {
        sentinels: Vec<Address>,
        master: String,
        credentials: Credentials,
    },
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Tls {
    /// The file with the certificate authorities to trust; the system's when there is none.
    pub(super) authorities: Option<PathBuf>,
}

#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Credentials {
    pub(super) user: Option<String>,
    pub(super) password: Option<Secret>,
}

#[derive(Clone, PartialEq, Eq)]
pub(super) struct Secret(String);

impl Secret {
    /// For the login alone.
    pub(super) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("***")
    }
}

/// What is wrong with which part of a url, and how to write it instead.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the {part} {problem}; {remedy}")]
pub struct UrlError {
    part: &'static str,
    problem: &'static str,
    remedy: String,
}

impl UrlError {
    /// What is wrong, without the remedy.
    pub fn message(&self) -> String {
        format!("the {} {}", self.part, self.problem)
    }

    pub fn fix(&self) -> &str {
        &self.remedy
    }
}

impl RedisUrl {
    /// Reads one of
    /// - `redis://[user[:password]@]host[:port][/database]`
    /// - `redis+cluster://[user[:password]@]host[:port],host[:port]…`
    /// - `redis+sentinel://[user[:password]@]host[:port],host[:port]…/master[/database]`, with
    ///   `?sentinel_user=…&sentinel_password=…` where the sentinels want a login of their own
    /// - `redis+unix://[user[:password]@]/path[?db=database]`, or `unix://…`
    ///
    /// `rediss` instead of `redis` means TLS, with `?ca=/path.pem` for a certificate authority of one's own.
    pub fn parse(text: &str) -> Result<RedisUrl, UrlError> {
        parse::url(text)
    }

    fn scheme(&self) -> &'static str {
        match (&self.topology, &self.tls) {
            (Topology::Standalone(Address::Unix(_)), _) => "redis+unix",
            (Topology::Standalone(Address::Tcp { .. }), None) => "redis",
            (Topology::Standalone(Address::Tcp { .. }), Some(_)) => "rediss",
            (Topology::Cluster(_), None) => "redis+cluster",
            (Topology::Cluster(_), Some(_)) => "rediss+cluster",
            (Topology::Sentinel { .. }, None) => "redis+sentinel",
            (Topology::Sentinel { .. }, Some(_)) => "rediss+sentinel",
        }
    }

    fn path(&self) -> String {
        let database = if self.database == 0 { String::new() } else { format!("/{}", self.database) };
        match &self.topology {
            Topology::Standalone(Address::Tcp { .. }) => database,
            Topology::Sentinel { master, .. } => format!("/{}{database}", encoded(master)),
            Topology::Standalone(Address::Unix(_)) | Topology::Cluster(_) => String::new(),
        }
    }

    fn parameters(&self) -> Vec<String> {
        let mut parameters = Vec::new();
        if let Some(path) = self.tls.as_ref().and_then(|tls| tls.authorities.as_ref()) {
            parameters.push(format!("ca={}", encoded(&path.to_string_lossy())));
        }
        if let (Topology::Standalone(Address::Unix(_)), 1..) = (&self.topology, self.database) {
            parameters.push(format!("db={}", self.database));
        }
        if let Topology::Sentinel { credentials: Credentials { user, password }, .. } = &self.topology {
            parameters.extend(user.as_ref().map(|user| format!("sentinel_user={}", encoded(user))));
            parameters.extend(password.as_ref().map(|_| "sentinel_password=***".to_owned()));
        }
        parameters
    }
}

/// The url again, with `***` for passwords.
impl fmt::Display for RedisUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}://", self.scheme())?;
        let Credentials { user, password } = &self.credentials;
        if user.is_some() || password.is_some() {
            let password = if password.is_some() { ":***" } else { "" };
            write!(formatter, "{}{password}@", encoded(user.as_deref().unwrap_or_default()))?;
        }
        match &self.topology {
            Topology::Standalone(Address::Unix(path)) => {
                formatter.write_str(&encoded(&path.to_string_lossy()))?;
            }
            Topology::Standalone(address) => write!(formatter, "{address}")?,
            Topology::Cluster(hosts) | Topology::Sentinel { sentinels: hosts, .. } => {
                let hosts: Vec<String> = hosts.iter().map(Address::to_string).collect();
                formatter.write_str(&hosts.join(","))?;
            }
        }
        formatter.write_str(&self.path())?;
        let parameters = self.parameters();
        if parameters.is_empty() { Ok(()) } else { write!(formatter, "?{}", parameters.join("&")) }
    }
}

/// Percent-encodes what would mean something else in a url.
fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                encoded.push(char::from(byte));
            }
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}
