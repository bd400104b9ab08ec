//! The sockets that a node listens on, bound before anything else starts.
//!
//! A second node on the same machine is the likeliest reason for failure: the error says what to change.

use crate::failure::Failure;
use crate::settings::Settings;
use std::io;
use std::net::{SocketAddr, TcpListener};
use tokio::net::TcpSocket;
use tokio::runtime::Runtime;

/// Connections that wait to be accepted: room for a fleet that reconnects at once.
const BACKLOG: u32 = 1024;

#[derive(Debug)]
pub(crate) struct Listeners {
    pub(crate) http: TcpListener,
    pub(crate) admin: TcpListener,
}

impl Listeners {
    pub(crate) fn bind(runtime: &Runtime, settings: &Settings) -> Result<Self, Failure> {
        let _context = runtime.enter();
        Ok(Listeners {
            http: bind("listen.http", settings.listen_http)?,
            admin: bind("listen.admin", settings.listen_admin)?,
        })
    }
}

/// As many open files as the system lets us have: each connection is one, and the usual 1,024 are few.
pub(crate) fn raise_open_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "can't raise the limit on open files; there may be room for few connections");
    }
}

fn bind(key: &'static str, address: SocketAddr) -> Result<TcpListener, Failure> {
    try_bind(address).map_err(|source| Failure::Listen {
        key,
        address,
        fix: remedy(key, address, &source),
        source,
    })
}

/// Not blocking, as runtimes want it.
fn try_bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A restarted node takes its address back from connections that linger.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)?.into_std()
}

fn remedy(key: &str, address: SocketAddr, error: &io::Error) -> String {
    let mut other = address;
    let flag = key.replace('.', "-");
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            other.set_port(address.port().checked_add(1).unwrap_or(0));
            format!("another process has it: stop that one, or choose another address: --{flag} {other}")
        }
        io::ErrorKind::PermissionDenied => {
            other.set_port(address.port().saturating_add(8000));
            format!("ports below 1024 need a privilege: choose another: --{flag} {other}")
        }
        _ => format!("choose an address of this machine: --{flag} 127.0.0.1:0"),
    }
}
