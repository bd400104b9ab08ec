//! Where a server listens, as its operator writes it: what a shard is told apart by.
//!
//! A name is resolved anew at each connect, so that a name which moves is followed. It is never resolved here.

use std::fmt;
use std::path::PathBuf;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Address {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

impl Address {
    pub(super) fn tcp(host: &str, port: u16) -> Self {
        Address::Tcp { host: host.to_owned(), port }
    }

    /// From `host:port` as servers write it in redirections: IPv6 hosts have no brackets there, and no host
    /// (or `?`) means the one that was asked.
    pub(super) fn from_redirection(text: &str, asked: &Address) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let port = port.parse().ok().filter(|port| *port != 0)?;
        Address::reported(host, port, asked)
    }

    /// From a host and port that the server `asked` reported about itself or another.
    pub(super) fn reported(host: &str, port: u16, asked: &Address) -> Option<Self> {
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        match (host, asked) {
            ("" | "?", Address::Tcp { host, .. }) => Some(Address::tcp(host, port)),
            ("" | "?", Address::Unix(_)) => None,
            _ => Some(Address::tcp(host, port)),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp { host, port } if host.contains(':') => write!(formatter, "[{host}]:{port}"),
            Address::Tcp { host, port } => write!(formatter, "{host}:{port}"),
            Address::Unix(path) => write!(formatter, "{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirections_name_hosts_as_servers_write_them() {
        let asked = Address::tcp("10.0.0.1", 7000);
        let read = |text| Address::from_redirection(text, &asked).map(|address| address.to_string());
        assert_eq!(read("10.0.0.2:7001").as_deref(), Some("10.0.0.2:7001"));
        assert_eq!(read("redis-2.example:7001").as_deref(), Some("redis-2.example:7001"));
        assert_eq!(read("::1:7001").as_deref(), Some("[::1]:7001"));
        assert_eq!(read("[::1]:7001").as_deref(), Some("[::1]:7001"));
        assert_eq!(read(":7001").as_deref(), Some("10.0.0.1:7001"));
        assert_eq!(read("?:7001").as_deref(), Some("10.0.0.1:7001"));
        for wrong in ["", "10.0.0.2", "10.0.0.2:", "10.0.0.2:0", "10.0.0.2:70000", "10.0.0.2:x"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_unix_socket_has_no_host_to_stand_in() {
        assert_eq!(Address::reported("", 7000, &Address::Unix("/run/redis.sock".into())), None);
    }
}
