//! Where a process listens: the addresses of its listeners, and what is wrong with all of them together.

use super::error::SettingError;
use super::parse;
use super::{Role, SettingErrors, Settings, Sources};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

pub(super) const HTTP: SocketAddr = loopback(8080);
pub(super) const GRPC: SocketAddr = loopback(8081);
pub(super) const RESP: SocketAddr = loopback(6380);
pub(super) const ADMIN: SocketAddr = loopback(9090);

const fn loopback(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)
}

impl Settings {
    /// Sockets that callers use: up to three of TCP, and two in the file system.
    pub(crate) fn caller_sockets(&self) -> usize {
        let tcp = [self.listen_http, self.listen_grpc, self.listen_resp].iter().flatten().count();
        tcp + if self.listen_unix.is_some() { 2 } else { 0 }
    }

    /// A node that nobody can ask.
    pub(super) fn nowhere_to_ask(&self) -> Option<SettingError> {
        let for_callers = [self.listen_http, self.listen_grpc, self.listen_resp];
        if for_callers.iter().any(Option::is_some) || self.listen_unix.is_some() {
            return None;
        }
        let fix = "leave one of listen.http, listen.grpc and listen.resp on, or set listen.unix";
        self.refused("listen.http", "off", parse::Refusal::new("leaves callers no listener", fix))
    }

    /// Of this process.
    pub(crate) fn tcp_listeners(&self) -> Vec<(&'static str, SocketAddr)> {
        match self.role {
            Role::Node => [
                ("listen.http", self.listen_http),
                ("listen.grpc", self.listen_grpc),
                ("listen.resp", self.listen_resp),
                ("listen.admin", self.listen_admin),
            ]
            .into_iter()
            .filter_map(|(key, address)| Some((key, address?)))
            .collect(),
            Role::Control => vec![("control.listen", self.control_listen)],
        }
    }

    /// Addresses that others than this machine reach, where nobody is asked for a token.
    pub(super) fn exposed_addresses(&self) -> Vec<SettingError> {
        let is_exposed = |(_, address): &(&str, SocketAddr)| !address.ip().to_canonical().is_loopback();
        let exposed = self
            .tcp_listeners()
            .into_iter()
            .filter(|listener| self.auth_tokens.is_none() && is_exposed(listener));
        let refused = |(key, address): (&str, SocketAddr)| {
            let message = "isn't a loopback address, and there are no tokens: whoever reached it could spend and \
                           reset every limit";
            let fix =
                "listen on 127.0.0.1 or [::1], or name a token file by auth.tokens (`tidegate token new`)";
            self.refused(key, &address.to_string(), parse::Refusal::new(message, fix))
        };
        exposed.filter_map(refused).collect()
    }

    /// Two listeners on one address: said here, where both keys can be named.
    pub(super) fn shared_address(&self) -> Option<SettingError> {
        let listeners = self.tcp_listeners();
        let taken = |at: usize| {
            let (key, address) = listeners[at];
            let first = listeners[..at].iter().find(|(_, other)| *other == address && address.port() != 0)?;
            Some((first.0, key, address))
        };
        let (first, key, address) = (1..listeners.len()).find_map(taken)?;
        let refusal =
            parse::Refusal::new(format!("{first} has the same address"), "give them different ports");
        self.refused(key, &address.to_string(), refusal)
    }

    /// Where the node of these settings is asked. No other value is looked at: whoever asks a node needn't
    /// be allowed to read its secret.
    pub(crate) fn listen_http(sources: Sources) -> Result<SocketAddr, SettingErrors> {
        Ok(Self::only("listen.http", sources)?.listen_http.unwrap_or(HTTP))
    }

    /// Where the node of these settings shows its state. No other value is looked at.
    pub(crate) fn listen_admin(sources: Sources) -> Result<SocketAddr, SettingErrors> {
        Ok(Self::only("listen.admin", sources)?.listen_admin.unwrap_or(ADMIN))
    }

    /// Moves the listeners to the ports from `port_base` on.
    pub(super) fn move_listeners(&mut self) {
        let Some(base) = self.port_base else { return };
        let listeners =
            [&mut self.listen_http, &mut self.listen_grpc, &mut self.listen_resp, &mut self.listen_admin];
        for (listener, port) in listeners.into_iter().zip(base..) {
            listener.iter_mut().for_each(|address| address.set_port(port));
        }
    }
}
