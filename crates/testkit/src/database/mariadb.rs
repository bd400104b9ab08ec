//! A MariaDB server.

use super::{DatabaseServer, Plan, SharedServer, find, is_root, output, rows, shared};
use crate::certificates::{self, AUTHORITY, CERTIFICATE, KEY};
use crate::directory::Directory;
use crate::server::on_free_port;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Weak};
use std::time::Duration;

const SOCKET: &str = "db.sock";
/// Committed is what the operating system has: it outlives the process, not the machine.
const SETTINGS: [&str; 12] = [
    "--bind-address=127.0.0.1",
    "--skip-grant-tables",
    "--skip-log-bin",
    "--skip-name-resolve",
    "--innodb-flush-log-at-trx-commit=2",
    "--innodb-doublewrite=0",
    "--innodb-buffer-pool-size=256M",
    "--innodb-log-file-size=64M",
    "--max-connections=300",
    "--thread-cache-size=32",
    "--character-set-server=utf8mb4",
    "--pid-file=db.pid",
];

/// Dropping it kills it. Everybody may log in.
#[derive(Debug)]
pub struct MariaDb(DatabaseServer);

impl MariaDb {
    /// On a free port.
    pub async fn start() -> Self {
        MariaDb::start_as(false).await
    }

    /// The same; it speaks TLS to whoever wants it to.
    pub async fn start_with_tls() -> Self {
        MariaDb::start_as(true).await
    }

    async fn start_as(speaks_tls: bool) -> Self {
        on_free_port(|port| async move {
            let directory = Directory::new();
            let data = data(&directory);
            let mut install = Command::new(find("mariadb-install-db"));
            install.args(["--no-defaults", "--skip-test-db", "--auth-root-authentication-method=normal"]);
            install.arg(format!("--datadir={}", data.display()));
            let user = is_root().then_some("--user=root");
            install.args(user);
            output(install);
            let mut arguments: Vec<OsString> = vec!["--no-defaults".into()];
            arguments.extend(SETTINGS.iter().map(Into::into));
            arguments.extend(user.map(Into::into));
            arguments.push(format!("--datadir={}", data.display()).into());
            arguments.push(format!("--socket={}", directory.path(SOCKET).display()).into());
            arguments.push(format!("--port={port}").into());
            if speaks_tls {
                arguments.extend(tls(&directory));
            }
            let plan = Plan {
                program: find("mariadbd"),
                arguments,
                user: None,
                // It speaks first: three bytes of length, a number, and the version of the protocol.
                greeting: Vec::new(),
                expected: (4, 10),
            };
            DatabaseServer::start(directory, port, plan).await.map(MariaDb)
        })
        .await
    }

    /// One for all tests that run at the same time; gone with the last of them.
    pub async fn shared() -> Arc<Self> {
        static SHARED: SharedServer<MariaDb> = SharedServer::const_new(Weak::new());
        shared(&SHARED, MariaDb::start()).await
    }

    pub fn address(&self) -> SocketAddr {
        self.0.address()
    }

    pub fn url(&self, database: &str) -> String {
        format!("mysql://root@{}/{database}", self.address())
    }

    /// Whose word a client has to take for it, where it speaks TLS.
    pub fn authority(&self) -> PathBuf {
        self.0.directory.path(AUTHORITY)
    }

    /// A new, empty one.
    pub fn create_database(&self, name: &str) {
        self.query("", &format!("CREATE DATABASE {name} CHARACTER SET utf8mb4"));
    }

    /// Runs statements; their rows.
    pub fn query(&self, database: &str, statements: &str) -> Vec<Vec<String>> {
        let mut client = Command::new(find("mariadb"));
        let socket = self.0.directory.path(SOCKET);
        client.args(["--no-defaults", "--batch", "--skip-column-names", "--skip-ssl", "--user=root"]);
        client.arg(format!("--socket={}", socket.display())).arg(format!("--execute={statements}"));
        client.args(Some(database).filter(|database| !database.is_empty()));
        rows(&output(client))
    }

    pub fn process_id(&self) -> u32 {
        self.0.process().id()
    }

    /// What it has cost so far: user and system time of all its processes, but for those that have ended.
    pub fn processor_time(&self) -> Duration {
        self.0.processor_time()
    }

    /// SIGKILL.
    pub fn kill(&self) {
        self.0.kill();
    }

    /// SIGSTOP: connections stay open, new ones are accepted by the kernel, and nobody answers.
    pub fn stop(&self) {
        self.0.stop();
    }

    /// SIGCONT.
    pub fn resume(&self) {
        self.0.resume();
    }

    /// The same port and the same data.
    pub async fn restart(&self) {
        self.0.restart().await;
    }
}

/// With certificates of its own.
fn tls(directory: &Directory) -> Vec<OsString> {
    certificates::write(directory);
    let file = |setting: &str, name| format!("--{setting}={}", directory.path(name).display()).into();
    let files = [file("ssl-ca", AUTHORITY), file("ssl-cert", CERTIFICATE), file("ssl-key", KEY)];
    files.into()
}

fn data(directory: &Directory) -> PathBuf {
    directory.path("data")
}
