//! What a test may want of a server, and the configuration that this makes.

use super::Redis;
use crate::binary::RedisBinary;
use crate::certificates::{self, AUTHORITY, CERTIFICATE, KEY};
use crate::directory::Directory;
use crate::server::{Credentials, Plan, SOCKET, Server, on_free_port};
use std::fmt::Write;
use std::net::{Ipv4Addr, SocketAddr};

/// A hash tag whose keys lie in slot 0, where a standalone server has its record.
const TAG_OF_SLOT_0: &str = "3560";

/// Options of a server that isn't started yet.
#[derive(Clone, Default, Debug)]
pub struct RedisServerOptions {
    binary: RedisBinary,
    port: Option<u16>,
    security: Security,
    credentials: Option<Credentials>,
    arguments: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum Security {
    #[default]
    Plain,
    Tls,
}

impl RedisServerOptions {
    #[must_use]
    pub fn binary(mut self, binary: RedisBinary) -> Self {
        self.binary = binary;
        self
    }

    /// Instead of a free one.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// TLS only, with a certificate of an authority of its own: [`Redis::authority_path`]. Not with 6.2.
    #[must_use]
    pub fn tls(mut self) -> Self {
        self.security = Security::Tls;
        self
    }

    /// `requirepass`: the default user has to present it.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.credentials = Some(Credentials { user: None, password: password.to_owned() });
        self
    }

    /// An ACL user that may do everything. The default user may do nothing then.
    #[must_use]
    pub fn user(mut self, user: &str, password: &str) -> Self {
        self.credentials = Some(Credentials { user: Some(user.to_owned()), password: password.to_owned() });
        self
    }

    /// Any setting, e.g. `("maxmemory", "10mb")`. It wins over ours.
    #[must_use]
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.arguments.extend([format!("--{name}"), value.to_owned()]);
        self
    }

    /// A server that answers. Panics with the end of its log when there is none within ten seconds.
    pub async fn start(self) -> Redis {
        let redis = match self.port {
            Some(port) => self.start_on(port).await.unwrap_or_else(|problem| panic!("{problem}")),
            None => on_free_port(|port| self.start_on(port)).await,
        };
        // A cluster's nodes have no slots yet.
        if !self.arguments.iter().any(|argument| argument == "--cluster-enabled") {
            redis.mark_as_new(TAG_OF_SLOT_0).await;
        }
        redis
    }

    async fn start_on(&self, port: u16) -> Result<Redis, String> {
        let directory = Directory::new();
        if self.security == Security::Tls {
            certificates::write(&directory);
        }
        let plan = Plan {
            binary: self.binary.path()?,
            configuration: self.configuration(&directory, port)?,
            arguments: self.arguments.clone(),
            credentials: self.credentials.clone(),
        };
        let server = Server::start(directory, plan).await?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        Ok(Redis { server, address, security: self.security })
    }

    fn configuration(&self, directory: &Directory, port: u16) -> Result<String, String> {
        let mut text = base_configuration(directory);
        // A replica is served at once, and from memory.
        text += "save \"\"\nappendonly no\nrepl-diskless-sync yes\nrepl-diskless-sync-delay 0\n";
        if self.binary.major_version()? >= 7 {
            // Older servers have DEBUG enabled, and refuse the setting.
            text += "enable-debug-command local\n";
        }
        text += &match self.security {
            Security::Plain => format!("port {port}\n"),
            Security::Tls => tls_configuration(directory, port),
        };
        match &self.credentials {
            None => {}
            Some(Credentials { user: None, password }) => {
                let _ = writeln!(text, "requirepass {}", quoted(password));
            }
            Some(Credentials { user: Some(user), password }) => {
                let password = quoted(&format!(">{password}"));
                let _ = writeln!(text, "user default off\nuser {user} on {password} ~* &* +@all");
            }
        }
        Ok(text)
    }
}

/// What every server of ours has, sentinels too.
pub(crate) fn base_configuration(directory: &Directory) -> String {
    let socket = directory.path(SOCKET);
    let (folder, socket) = (directory.root().display(), socket.display());
    format!("bind 127.0.0.1\nprotected-mode no\ndaemonize no\ndir \"{folder}\"\nunixsocket \"{socket}\"\n")
}

fn tls_configuration(directory: &Directory, port: u16) -> String {
    let mut text = format!("port 0\ntls-port {port}\ntls-auth-clients no\n");
    let files = [("tls-ca-cert-file", AUTHORITY), ("tls-cert-file", CERTIFICATE), ("tls-key-file", KEY)];
    for (setting, name) in files {
        let _ = writeln!(text, "{setting} \"{}\"", directory.path(name).display());
    }
    text
}

/// A value as a configuration file has it.
fn quoted(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}
