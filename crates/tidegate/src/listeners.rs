//! The sockets that a node listens on, bound before anything else starts.
//!
//! A second node on the same machine is the likeliest reason for failure: the error says what to change.

use crate::failure::Failure;
use crate::open_files::ConnectionShares;
use crate::settings::Settings;
use std::fs::Permissions;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidegate_server::{BalancePolicy, BalancedListener, Listener, ListeningSocket, ServerTls, Surface};
use tokio::net::{TcpSocket, UnixSocket};
use tokio::runtime::Runtime;

/// Connections that wait to be accepted: room for a fleet that reconnects at once.
const BACKLOG: u32 = 1024;

#[derive(Debug)]
pub(crate) struct Listeners {
    /// `None` of these four: off.
    pub(crate) http: Option<TcpListener>,
    pub(crate) grpc: Option<TcpListener>,
    pub(crate) resp: Option<TcpListener>,
    pub(crate) admin: Option<TcpListener>,
    pub(crate) unix: Option<UnixListeners>,
    /// For what comes over TCP.
    tls: Option<Arc<ServerTls>>,
    shares: ConnectionShares,
}

/// Two sockets in the file system, removed when the node ends.
#[derive(Debug)]
pub(crate) struct UnixListeners {
    http_and_grpc: UnixListener,
    resp: UnixListener,
    /// Dropped last.
    paths: [SocketPath; 2],
}

impl Listeners {
    pub(crate) fn bind(
        runtime: &Runtime,
        settings: &Settings,
        tls: Option<Arc<ServerTls>>,
        shares: ConnectionShares,
    ) -> Result<Self, Failure> {
        let _context = runtime.enter();
        let bind = |key, address: Option<SocketAddr>| {
            let bound = address.map(|address| {
                try_bind(address).map_err(|source| Failure::Listen {
                    key,
                    address,
                    fix: remedy_at_node(key, address, &source, settings),
                    source,
                })
            });
            bound.transpose()
        };
        Ok(Listeners {
            http: bind("listen.http", settings.listen_http)?,
            grpc: bind("listen.grpc", settings.listen_grpc)?,
            resp: bind("listen.resp", settings.listen_resp)?,
            admin: bind("listen.admin", settings.listen_admin)?,
            unix: UnixListeners::bind_by(settings)?,
            tls,
            shares,
        })
    }

    /// `http` or `https`.
    pub(crate) fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// Where callers ask over HTTP; `None` where they can't.
    pub(crate) fn http_url(&self) -> Option<String> {
        let address = self.http.as_ref()?.local_addr().ok()?;
        Some(format!("{}://{address}", self.scheme()))
    }

    /// One of these once more. Wants a runtime with sockets.
    fn tcp(&self, listener: &TcpListener) -> io::Result<ListeningSocket> {
        let listener = tokio::net::TcpListener::from_std(listener.try_clone()?)?;
        Ok(match &self.tls {
            Some(tls) => ListeningSocket::Tls(listener, Arc::clone(tls)),
            None => ListeningSocket::Tcp(listener),
        })
    }

    /// What operators use: one thread serves it. Wants a runtime with sockets.
    pub(crate) fn for_operators(&self) -> io::Result<Vec<(Listener, Surface)>> {
        let listener = |admin| Ok((Listener::alone(self.tcp(admin)?, self.shares.admin), Surface::Admin));
        self.admin.iter().map(listener).collect()
    }

    /// What of TCP callers use.
    fn of_callers(&self) -> impl Iterator<Item = (&TcpListener, Surface, BalancePolicy)> {
        let all = [
            (&self.http, Surface::Api, BalancePolicy::Evenly),
            (&self.grpc, Surface::Grpc, BalancePolicy::Evenly),
            (&self.resp, Surface::Resp, BalancePolicy::Together),
        ];
        all.into_iter().filter_map(|(listener, surface, deal)| Some((listener.as_ref()?, surface, deal)))
    }

    /// What callers use, once more for another thread, with its turn at each. Wants a runtime with sockets.
    pub(crate) fn for_callers(&self, turns: Vec<BalancedListener>) -> io::Result<Vec<(Listener, Surface)>> {
        let unix = |listener: &UnixListener| {
            tokio::net::UnixListener::from_std(listener.try_clone()?).map(ListeningSocket::Unix)
        };
        let tcp = self.of_callers().map(|(listener, surface, _)| Ok((self.tcp(listener)?, surface)));
        let mut sockets = tcp.collect::<io::Result<Vec<_>>>()?;
        if let Some(pair) = &self.unix {
            sockets.push((unix(&pair.http_and_grpc)?, Surface::ApiAndGrpc));
            sockets.push((unix(&pair.resp)?, Surface::Resp));
        }
        let listener = |((socket, surface), turn)| (Listener::new(socket, turn), surface);
        Ok(sockets.into_iter().zip(turns).map(listener).collect())
    }

    /// For each of so many threads its turns at what callers use, in the order of [`Listeners::for_callers`].
    pub(crate) fn turns(&self, threads: usize) -> Vec<Vec<BalancedListener>> {
        // On the Unix sockets HTTP and gRPC, and RESP.
        let of_unix =
            [BalancePolicy::Evenly, BalancePolicy::Together].into_iter().filter(|_| self.unix.is_some());
        let mut turns: Vec<Vec<BalancedListener>> = (0..threads).map(|_| Vec::new()).collect();
        for deal in self.of_callers().map(|(_, _, deal)| deal).chain(of_unix) {
            for (thread, turn) in
                turns.iter_mut().zip(BalancedListener::of_threads(threads, deal, self.shares.callers))
            {
                thread.push(turn);
            }
        }
        turns
    }
}

impl UnixListeners {
    fn bind_by(settings: &Settings) -> Result<Option<Self>, Failure> {
        let Some(path) = &settings.listen_unix else { return Ok(None) };
        let mut resp_path = path.as_os_str().to_owned();
        resp_path.push(".resp");
        let (http_and_grpc, first) = bind_path(path.clone(), settings.listen_unix_mode)?;
        let (resp, second) = bind_path(resp_path.into(), settings.listen_unix_mode)?;
        Ok(Some(UnixListeners { http_and_grpc, resp, paths: [first, second] }))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.paths[0].0
    }
}

/// A socket's file, which nobody needs once its listener is gone.
#[derive(Debug)]
struct SocketPath(PathBuf);

impl Drop for SocketPath {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn bind_path(path: PathBuf, mode: Option<u32>) -> Result<(UnixListener, SocketPath), Failure> {
    try_bind_path(&path, mode)
        .map(|listener| (listener, SocketPath(path.clone())))
        .map_err(|source| Failure::ListenUnix { fix: unix_remedy(&source), path, source })
}

/// Takes the place of a socket that a node left behind which didn't end in order.
fn try_bind_path(path: &Path, mode: Option<u32>) -> io::Result<UnixListener> {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    if is_socket
        && UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
    {
        std::fs::remove_file(path)?;
    }
    let socket = UnixSocket::new_stream()?;
    socket.bind(path)?;
    if let Some(mode) = mode {
        // Before it listens: nobody gets in by the mode that the umask left.
        std::fs::set_permissions(path, Permissions::from_mode(mode))?;
    }
    socket.listen(BACKLOG)?.into_std()
}

fn unix_remedy(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            "if a process listens there, choose another path; otherwise, remove the file that is there".into()
        }
        io::ErrorKind::NotFound => "make its directory first".into(),
        io::ErrorKind::PermissionDenied => "choose a directory that this user may write to".into(),
        _ => "choose a path of at most 100 bytes in a directory of this machine".into(),
    }
}

/// Wants a runtime with sockets.
pub(crate) fn bind(key: &'static str, address: SocketAddr) -> Result<TcpListener, Failure> {
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

/// Of a node whose four listeners may all be in the way of another node's.
fn remedy_at_node(key: &str, address: SocketAddr, error: &io::Error, settings: &Settings) -> String {
    let of_node: Vec<SocketAddr> = settings.tcp_listeners().into_iter().map(|(_, address)| address).collect();
    match free_base(&of_node).filter(|_| error.kind() == io::ErrorKind::AddrInUse) {
        Some(base) => format!(
            "another process has it: stop that one, or use four ports that are free now: --port-base {base}"
        ),
        None => remedy(key, address, error),
    }
}

/// The first of four ports in a row on which all listeners can be bound, now.
fn free_base(addresses: &[SocketAddr]) -> Option<u16> {
    const BASES: std::ops::RangeInclusive<u16> = 8100..=64_000;
    let is_free = |base: &u16| {
        addresses
            .iter()
            .zip(*base..)
            .all(|(address, port)| try_bind(SocketAddr::new(address.ip(), port)).is_ok())
    };
    BASES.step_by(100).find(is_free)
}

fn remedy(key: &str, address: SocketAddr, error: &io::Error) -> String {
    let flag = key.replace('.', "-");
    let free = |from: u16| {
        let ports = (from..=u16::MAX).take(200).map(|port| SocketAddr::new(address.ip(), port));
        ports.into_iter().find(|other| try_bind(*other).is_ok())
    };
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            let other = free(address.port().saturating_add(1)).unwrap_or(SocketAddr::new(address.ip(), 0));
            format!(
                "another process has it: stop that one, or choose a port that is free now: --{flag} {other}"
            )
        }
        io::ErrorKind::PermissionDenied => {
            let other = free(address.port().saturating_add(8000)).unwrap_or(SocketAddr::new(address.ip(), 0));
            format!("ports below 1024 need a privilege: choose another: --{flag} {other}")
        }
        _ => format!("choose an address of this machine: --{flag} 127.0.0.1:0"),
    }
}
