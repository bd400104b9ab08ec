//! A PostgreSQL server.

use super::{DatabaseServer, Plan, SharedServer, User, find, is_root, output, rows, run_as, shared, user_of};
use crate::certificates::{self, AUTHORITY, CERTIFICATE, KEY};
use crate::directory::Directory;
use crate::server::on_free_port;
use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Committed is what the operating system has: it outlives the process, not the machine.
const SETTINGS: [&str; 8] = [
    "listen_addresses=127.0.0.1",
    "fsync=off",
    "synchronous_commit=on",
    "full_page_writes=off",
    "max_connections=300",
    "shared_buffers=128MB",
    "log_min_messages=warning",
    "deadlock_timeout=200ms",
];

/// Dropping it kills it. Everybody may log in.
#[derive(Debug)]
pub struct Postgres(DatabaseServer);

impl Postgres {
    /// On a free port.
    pub async fn start() -> Self {
        Postgres::start_as(false).await
    }

    /// The same; it speaks TLS to whoever wants it to.
    pub async fn start_with_tls() -> Self {
        Postgres::start_as(true).await
    }

    async fn start_as(speaks_tls: bool) -> Self {
        on_free_port(|port| async move {
            // It refuses to run as root.
            let user = is_root().then(|| user_of(&["postgres", "nobody"]));
            let directory = Directory::new();
            if let Some(User { name, user_id, group_id }) = &user {
                std::os::unix::fs::chown(directory.root(), Some(*user_id), Some(*group_id))
                    .map_err(|error| format!("can't give the directory to {name}: {error}"))?;
            }
            let data = directory.path("data");
            let mut init = run_as(user.as_ref(), &find("initdb"));
            init.args(["--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C"]);
            init.arg("--pgdata").arg(&data).current_dir(directory.root());
            output(init);
            let mut arguments: Vec<OsString> = vec!["-D".into(), data.into()];
            arguments.extend(SETTINGS.iter().flat_map(|setting| ["-c".into(), (*setting).into()]));
            arguments.extend(["-p".into(), port.to_string().into()]);
            arguments.extend(["-k".into(), directory.root().into()]);
            if speaks_tls {
                arguments.extend(tls(&directory, user.as_ref())?);
            }
            let plan = Plan {
                program: find("postgres"),
                arguments,
                user,
                greeting: startup_message(),
                expected: (0, b'R'),
            };
            DatabaseServer::start(directory, port, plan).await.map(Postgres)
        })
        .await
    }

    /// One for all tests that run at the same time; gone with the last of them.
    pub async fn shared() -> Arc<Self> {
        static SHARED: SharedServer<Postgres> = SharedServer::const_new(Weak::new());
        shared(&SHARED, Postgres::start()).await
    }

    pub fn address(&self) -> SocketAddr {
        self.0.address()
    }

    pub fn url(&self, database: &str) -> String {
        format!("postgres://postgres@{}/{database}", self.address())
    }

    /// Whose word a client has to take for it, where it speaks TLS.
    pub fn authority(&self) -> PathBuf {
        self.0.directory.path(AUTHORITY)
    }

    /// A new, empty one.
    pub fn create_database(&self, name: &str) {
        self.query("postgres", &format!("CREATE DATABASE {name}"));
    }

    /// Runs a statement; its rows.
    pub fn query(&self, database: &str, statement: &str) -> Vec<Vec<String>> {
        let mut client = Command::new(find("psql"));
        client.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--field-separator=\t"]);
        client.args(["--username=postgres", "--set=ON_ERROR_STOP=1", "--dbname", database]);
        client.arg("--host").arg(self.0.directory.root()).arg(format!("--port={}", self.address().port()));
        client.arg("--command").arg(statement);
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

    /// SIGSTOP, of all its processes: connections stay open, and nobody answers.
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

/// With certificates of its own. It has its key to itself, or doesn't start.
fn tls(directory: &Directory, user: Option<&User>) -> Result<Vec<OsString>, String> {
    certificates::write(directory);
    let key = directory.path(KEY);
    let (user_id, group_id) = (user.map(|user| user.user_id), user.map(|user| user.group_id));
    std::os::unix::fs::chown(&key, user_id, group_id)
        .and_then(|()| fs::set_permissions(&key, fs::Permissions::from_mode(0o600)))
        .map_err(|error| format!("can't give the key to the server: {error}"))?;
    let file = |setting: &str, name| format!("{setting}={}", directory.path(name).display()).into();
    let settings = ["ssl=on".into(), file("ssl_cert_file", CERTIFICATE), file("ssl_key_file", KEY)];
    Ok(settings.into_iter().flat_map(|setting: OsString| ["-c".into(), setting]).collect())
}

/// Protocol 3.0: a server that is ready lets `postgres` in, one that is still starting says an error.
fn startup_message() -> Vec<u8> {
    let mut message = 196_608_u32.to_be_bytes().to_vec();
    message.extend_from_slice(b"user\0postgres\0database\0postgres\0\0");
    let length = u32::try_from(message.len() + 4).unwrap_or(0);
    [length.to_be_bytes().to_vec(), message].concat()
}
