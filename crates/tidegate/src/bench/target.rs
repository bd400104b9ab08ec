//! Whom the load is for: a protocol and an address, exactly as the user says.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// A path of a Unix socket has at most 107 bytes; a host's name 253.
const TARGET_BYTES_MAX: usize = 512;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Protocol {
    Http,
    Grpc,
    Resp,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum TargetAddress {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Target {
    pub(crate) protocol: Protocol,
    address: TargetAddress,
    /// As it was typed.
    pub(crate) text: String,
    /// What HTTP calls the host.
    pub(crate) authority: String,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TargetError {
    #[error(
        "{0:?} isn't a target; write http://HOST:PORT, grpc://HOST:PORT or redis://HOST:PORT, or for a Unix socket \
         http+unix:PATH, grpc+unix:PATH or redis+unix:PATH"
    )]
    Form(String),
    #[error("{target:?}: the name {name} has no address: {problem}; check it, or write an address")]
    Name { target: String, name: String, problem: String },
}

impl Target {
    pub(crate) fn parse(text: &str) -> Result<Self, TargetError> {
        let wrong = || TargetError::Form(text.to_owned());
        let (scheme, rest) = text.split_once(':').ok_or_else(wrong)?;
        if text.len() > TARGET_BYTES_MAX {
            return Err(wrong());
        }
        let (name, is_unix) = match scheme.strip_suffix("+unix") {
            Some(name) => (name, true),
            None => (scheme, false),
        };
        let protocol = match name {
            "http" => Protocol::Http,
            "grpc" => Protocol::Grpc,
            "redis" | "resp" => Protocol::Resp,
            _ => return Err(wrong()),
        };
        let (place, authority) = if is_unix {
            let path = rest.strip_prefix("//").unwrap_or(rest);
            (TargetAddress::Unix(PathBuf::from(path)), "localhost".to_owned())
        } else {
            let rest = rest.strip_prefix("//").ok_or_else(wrong)?;
            let authority = rest.strip_suffix('/').unwrap_or(rest);
            (TargetAddress::Tcp(resolve(text, authority).ok_or_else(wrong)??), authority.to_owned())
        };
        if authority.is_empty() || place == TargetAddress::Unix(PathBuf::new()) {
            return Err(wrong());
        }
        Ok(Target { protocol, address: place, text: text.to_owned(), authority })
    }

    /// Connects within two seconds; doesn't block from then on.
    pub(crate) fn connect(&self) -> io::Result<Socket> {
        match &self.address {
            TargetAddress::Tcp(address) => {
                let stream = TcpStream::connect_timeout(address, CONNECT_TIMEOUT)?;
                stream.set_nodelay(true)?;
                stream.set_nonblocking(true)?;
                Ok(Socket::Tcp(stream))
            }
            TargetAddress::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_nonblocking(true)?;
                Ok(Socket::Unix(stream))
            }
        }
    }
}

/// `None` when it isn't `host:port`.
fn resolve(target: &str, authority: &str) -> Option<Result<SocketAddr, TargetError>> {
    let (host, port) = authority.rsplit_once(':')?;
    port.parse::<u16>().ok()?;
    let is_host = |c: char| c.is_ascii_alphanumeric() || "-._:%[]".contains(c);
    if host.is_empty() || !host.chars().all(is_host) {
        return None;
    }
    let problem = match authority.to_socket_addrs() {
        Ok(mut addresses) => match addresses.next() {
            Some(address) => return Some(Ok(address)),
            None => "it resolves to nothing".to_owned(),
        },
        Err(error) => error.to_string(),
    };
    Some(Err(TargetError::Name { target: target.to_owned(), name: host.to_owned(), problem }))
}

#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.read(buffer),
            Socket::Unix(stream) => stream.read(buffer),
        }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.write(bytes),
            Socket::Unix(stream) => stream.write(bytes),
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Socket::Tcp(stream) => stream.as_fd(),
            Socket::Unix(stream) => stream.as_fd(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocols_and_addresses_are_told() {
        let target = Target::parse("grpc://127.0.0.1:8081/").unwrap();
        assert_eq!((target.protocol, target.authority.as_str()), (Protocol::Grpc, "127.0.0.1:8081"));
        assert_eq!(target.address, TargetAddress::Tcp("127.0.0.1:8081".parse().unwrap()));
        let target = Target::parse("redis+unix:/run/t.resp").unwrap();
        assert_eq!(
            (target.protocol, target.address),
            (Protocol::Resp, TargetAddress::Unix("/run/t.resp".into()))
        );
        assert_eq!(Target::parse("http://[::1]:80").unwrap().authority, "[::1]:80");
    }

    #[test]
    fn what_isnt_a_target_is_refused() {
        for text in [
            "",
            "127.0.0.1:80",
            "https://h:1",
            "http:127.0.0.1:1",
            "http://h",
            "http://:80",
            "http://127.0.0.1:99999",
            "http://127.0.0.1:80/path",
            "http+unix:",
        ] {
            assert!(matches!(Target::parse(text), Err(TargetError::Form(_))), "{text}");
        }
    }
}
