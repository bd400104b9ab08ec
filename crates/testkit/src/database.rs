//! A database server of a test's own: its directory, its process, and the client program that talks to it.
//!
//! What MariaDB and PostgreSQL have in common. Servers keep their data over a restart, and don't wait for the
//! disk. They run as another user where ours is root and they refuse to be.

mod mariadb;
mod postgres;

pub use mariadb::MariaDb;
pub use postgres::Postgres;

use crate::directory::Directory;
use crate::process::{Process, guarded};
use crate::wait::attempt;
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The same on every Linux.
const TICKS_PER_SECOND: u64 = 100;
const LOG: &str = "log";
/// A busy machine needs most of it.
const READY_TIMEOUT: Duration = Duration::from_secs(30);
const PROBE_TIMEOUT: Duration = Duration::from_millis(500);

/// How to start a server, and how to see that it answers.
#[derive(Debug)]
struct Plan {
    program: PathBuf,
    arguments: Vec<OsString>,
    user: Option<User>,
    /// What is sent to it, and the first byte of what it answers when it is ready, at the place given.
    greeting: Vec<u8>,
    expected: (usize, u8),
}

/// Whom a server runs as.
#[derive(Clone, Debug)]
struct User {
    name: String,
    user_id: u32,
    group_id: u32,
}

#[derive(Debug)]
struct DatabaseServer {
    // Dropped before the directory in which it works.
    process: Mutex<Process>,
    plan: Plan,
    port: u16,
    directory: Directory,
}

impl DatabaseServer {
    async fn start(directory: Directory, port: u16, plan: Plan) -> Result<Self, String> {
        let process = Mutex::new(spawn(&directory, &plan)?);
        let server = DatabaseServer { process, plan, port, directory };
        server.wait_ready().await?;
        Ok(server)
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    /// Kills it when it runs, and starts it again on the same port with the same data.
    async fn restart(&self) {
        self.kill();
        *self.process() = spawn(&self.directory, &self.plan).unwrap_or_else(|problem| panic!("{problem}"));
        self.wait_ready().await.unwrap_or_else(|problem| panic!("{problem}"));
    }

    async fn wait_ready(&self) -> Result<(), String> {
        let ready = attempt(READY_TIMEOUT, || async {
            if let Some(status) = self.process().exit_status() {
                // The children of a killed one may hold its memory for a moment.
                *self.process() = spawn(&self.directory, &self.plan)?;
                return Err(format!("it ended with {status}"));
            }
            self.probe().await
        });
        ready.await.map_err(|problem| {
            let (program, log) = (self.plan.program.display(), self.directory.tail(LOG));
            format!("{program} isn't ready: {problem}; its log ends with:\n{log}")
        })
    }

    async fn probe(&self) -> Result<(), String> {
        let probe = tokio::time::timeout(PROBE_TIMEOUT, async {
            let mut stream = TcpStream::connect(self.address()).await?;
            stream.write_all(&self.plan.greeting).await?;
            let mut answer = vec![0; self.plan.expected.0 + 1];
            stream.read_exact(&mut answer).await?;
            Ok::<_, std::io::Error>(answer)
        });
        let answer = probe.await.map_err(|_| "no answer".to_owned())?.map_err(|error| error.to_string())?;
        let is_ready = answer.last() == Some(&self.plan.expected.1);
        if is_ready { Ok(()) } else { Err(format!("it said {answer:?}")) }
    }

    fn kill(&self) {
        let children = self.children();
        self.process().kill();
        // Some outlive their parent when they are stopped.
        signal(&children, Signal::KILL);
    }

    fn stop(&self) {
        self.process().stop();
        signal(&self.children(), Signal::STOP);
    }

    fn resume(&self) {
        signal(&self.children(), Signal::CONT);
        self.process().resume();
    }

    /// PostgreSQL has a process for each connection.
    fn children(&self) -> Vec<Pid> {
        let id = self.process().id();
        let text = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
        text.split_whitespace().filter_map(|id| Pid::from_raw(id.parse().ok()?)).collect()
    }

    /// User and system time of all its processes so far.
    fn processor_time(&self) -> Duration {
        let of = |id: u32| {
            let text = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
            // Behind the name, which may have spaces in it.
            let rest = text.rsplit_once(')').map_or("", |(_, rest)| rest);
            rest.split_whitespace()
                .skip(11)
                .take(2)
                .filter_map(|ticks| ticks.parse::<u64>().ok())
                .sum::<u64>()
        };
        let children =
            self.children().into_iter().filter_map(|id| u32::try_from(id.as_raw_nonzero().get()).ok());
        let ticks: u64 = children.chain([self.process().id()]).map(of).sum();
        Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND)
    }

    fn process(&self) -> MutexGuard<'_, Process> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where a server that several tests have is known; gone with the last of them.
type SharedServer<S> = tokio::sync::Mutex<Weak<S>>;

async fn shared<S>(known: &SharedServer<S>, start: impl Future<Output = S>) -> Arc<S> {
    let mut known = known.lock().await;
    if let Some(server) = known.upgrade() {
        return server;
    }
    let server = Arc::new(start.await);
    *known = Arc::downgrade(&server);
    server
}

fn signal(children: &[Pid], signal: Signal) {
    for child in children {
        // Fails only when it has ended already.
        let _ = kill_process(*child, signal);
    }
}

fn spawn(directory: &Directory, plan: &Plan) -> Result<Process, String> {
    let log = OpenOptions::new().create(true).append(true).open(directory.path(LOG));
    let log = log.map_err(|error| format!("can't write the log: {error}"))?;
    let errors = log.try_clone().map_err(|error| format!("can't write the log: {error}"))?;
    let mut command = run_as(plan.user.as_ref(), &plan.program);
    command.args(&plan.arguments).current_dir(directory.root());
    command.stdin(Stdio::null()).stdout(log).stderr(errors);
    Process::spawn(command).map_err(|error| format!("can't run {}: {error}", plan.program.display()))
}

/// A guarded command, as somebody else when there is somebody.
fn run_as(user: Option<&User>, program: &Path) -> Command {
    let Some(User { user_id, group_id, .. }) = user else { return guarded(program) };
    let mut command = guarded("setpriv");
    command.args(["--clear-groups", "--pdeathsig", "KILL"]);
    command.arg(format!("--reuid={user_id}")).arg(format!("--regid={group_id}")).arg(program);
    command
}

/// Runs a program to its end; what it printed.
fn output(mut command: Command) -> String {
    let shown = format!("{command:?}");
    let output = command.stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("can't run {shown}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let problem = || format!("{}\n{}", text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{shown} ended with {}\n{}", output.status, problem());
    text(&output.stdout)
}

/// The rows that a client program printed, one a line, columns between tabs.
fn rows(printed: &str) -> Vec<Vec<String>> {
    printed.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

/// Where a server's program is: on the path, or where Debian puts what isn't meant for everybody.
fn find(program: &str) -> PathBuf {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = path.split(':').map(PathBuf::from).collect();
    folders.push(PathBuf::from("/usr/sbin"));
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut versions: Vec<PathBuf> = versions.map(|entry| entry.path().join("bin")).collect();
    versions.sort();
    folders.extend(versions.into_iter().rev());
    let found = folders.into_iter().map(|folder| folder.join(program)).find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("there is no {program}; `cargo xtask test` installs what tests need"))
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The first of these users that the system has.
fn user_of(names: &[&str]) -> User {
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let user = |name: &&str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut numbers = line.split(':').skip(2).map(str::parse);
        Some(User {
            name: (*name).to_owned(),
            user_id: numbers.next()?.ok()?,
            group_id: numbers.next()?.ok()?,
        })
    };
    names.iter().find_map(user).unwrap_or_else(|| panic!("the system has none of the users {names:?}"))
}
