//! One `redis-server` process: its directory, configuration and log, and the socket by which we ask it.
//!
//! Asks always go through a Unix socket: they work the same with TLS, and never reach a stranger who took the
//! TCP port.

use crate::client::RespClient;
use crate::directory::Directory;
use crate::port::free_port;
use crate::process::{Process, guarded};
use crate::reply::RespValue;
use crate::wait::{READY_TIMEOUT, attempt};
use std::fs::OpenOptions;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) const SOCKET: &str = "redis.sock";
const CONFIGURATION: &str = "redis.conf";
const LOG: &str = "log";

/// Two test processes can be given the same free port; three times in a row they aren't.
const ATTEMPTS_MAX: usize = 3;

/// How to start a server, the first time and again.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) binary: PathBuf,
    pub(crate) configuration: String,
    /// After the configuration file, and stronger.
    pub(crate) arguments: Vec<String>,
    pub(crate) credentials: Option<Credentials>,
}

#[derive(Clone, Debug)]
pub(crate) struct Credentials {
    /// The default user when there is none.
    pub(crate) user: Option<String>,
    pub(crate) password: String,
}

#[derive(Debug)]
pub(crate) struct Server {
    // Dropped before the directory in which it works.
    process: Mutex<Process>,
    plan: Plan,
    directory: Directory,
}

impl Server {
    /// A server that answers, or why it doesn't.
    pub(crate) async fn start(directory: Directory, plan: Plan) -> Result<Self, String> {
        directory.write(CONFIGURATION, &plan.configuration);
        let process = Mutex::new(spawn(&directory, &plan)?);
        let server = Server { process, plan, directory };
        server.wait_ready().await?;
        Ok(server)
    }

    /// Kills it when it runs, and starts it again on the same ports with what its directory holds.
    pub(crate) async fn restart(&self) -> Result<(), String> {
        self.process().kill();
        *self.process() = spawn(&self.directory, &self.plan)?;
        self.wait_ready().await
    }

    async fn wait_ready(&self) -> Result<(), String> {
        let ready = attempt(READY_TIMEOUT, || async {
            if let Some(status) = self.process().exit_status() {
                // No use in asking again.
                return Ok(Err(format!("it ended with {status}")));
            }
            match self.command(&["PING"]).await {
                Ok(RespValue::Simple(_)) => Ok(Ok(())),
                Ok(other) => Err(format!("{other:?}")),
                Err(error) => Err(error.to_string()),
            }
        });
        ready.await.and_then(|ended| ended).map_err(|problem| {
            format!(
                "{} isn't ready: {problem}; its log ends with:\n{}",
                self.plan.binary.display(),
                self.directory.tail(LOG)
            )
        })
    }

    /// A connection on which the credentials were presented.
    pub(crate) async fn client(&self) -> io::Result<RespClient> {
        let mut client = RespClient::connect_unix(&self.directory.path(SOCKET)).await?;
        if let Some(Credentials { user, password }) = &self.plan.credentials {
            let words: Vec<&str> = ["AUTH"].into_iter().chain(user.as_deref()).chain([&**password]).collect();
            if let RespValue::Error(problem) = client.command(&words).await? {
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, problem));
            }
        }
        Ok(client)
    }

    pub(crate) async fn command<A: AsRef<[u8]>>(&self, arguments: &[A]) -> io::Result<RespValue> {
        self.client().await?.command(arguments).await
    }

    pub(crate) fn directory(&self) -> &Directory {
        &self.directory
    }

    pub(crate) fn process(&self) -> MutexGuard<'_, Process> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts on a free port, and on another one when a stranger was faster. Panics when it can't.
pub(crate) async fn on_free_port<T, S>(start: impl Fn(u16) -> S) -> T
where
    S: Future<Output = Result<T, String>>,
{
    for _ in 1..ATTEMPTS_MAX {
        match start(free_port()).await {
            Err(problem) if problem.contains("Address already in use") => {}
            started => return started.unwrap_or_else(|problem| panic!("{problem}")),
        }
    }
    start(free_port()).await.unwrap_or_else(|problem| panic!("{problem}"))
}

fn spawn(directory: &Directory, plan: &Plan) -> Result<Process, String> {
    let log = OpenOptions::new().create(true).append(true).open(directory.path(LOG));
    let log = log.map_err(|error| format!("can't write the log: {error}"))?;
    let errors = log.try_clone().map_err(|error| format!("can't write the log: {error}"))?;
    let mut command = guarded(&plan.binary);
    command.arg(directory.path(CONFIGURATION)).args(&plan.arguments).current_dir(directory.root());
    command.stdin(Stdio::null()).stdout(log).stderr(errors);
    Process::spawn(command).map_err(|error| format!("can't run {}: {error}", plan.binary.display()))
}
