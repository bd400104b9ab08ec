//! Makes one connection: TCP or a Unix socket, TLS, login, and what the purpose of the connection asks for.
//!
//! Only tasks in the background come here. An attempt never outlasts the connect timeout, and its errors say
//! what a person would look into; they never hold a password.

use super::address::Address;
use super::connection::{Bytes, CallFailure, Connection, Driver, connection};
use super::options::RedisOptions;
use super::script::{HEARTBEAT_SCRIPT, RESET_SCRIPT, RESETS_SCRIPT, SYNC_SCRIPT};
use super::tls::{TlsSetup, server_name};
use super::url::{Credentials, RedisUrl, Topology};
use super::wire::{Commands, ServerError, Value};
use socket2::{SockRef, TcpKeepalive};
use std::future::Future;
use std::time::Duration;
use tokio::net::{TcpStream, UnixStream};
use tokio::time::Instant;

const NAME: &str = "tidegate";
/// A peer that vanished without a word is noticed after `10 + 3 × 5` seconds, also when nobody asks it anything.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(10);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(5);
const KEEPALIVE_RETRIES: u32 = 3;

/// What a connection is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Purpose {
    /// Calls of scripts.
    Scripts,
    /// Calls of scripts, at the server that sentinels call the master.
    Master,
    /// Asking about the topology.
    Question,
    /// Asking a sentinel.
    Sentinel,
}

/// How to connect to any server of one origin.
#[derive(Debug)]
pub(super) struct Dialer {
    pub(super) credentials: Credentials,
    pub(super) sentinel_credentials: Credentials,
    pub(super) database: u32,
    pub(super) tls: Option<TlsSetup>,
    pub(super) options: RedisOptions,
}

pub(super) struct Connected {
    pub(super) connection: Connection,
    pub(super) driver: Driver,
}

impl Dialer {
    pub(super) fn new(url: &RedisUrl, options: RedisOptions) -> Self {
        let sentinel_credentials = match &url.topology {
            Topology::Sentinel { credentials, .. } => credentials.clone(),
            Topology::Standalone(_) | Topology::Cluster(_) => Credentials::default(),
        };
        Dialer {
            credentials: url.credentials.clone(),
            sentinel_credentials,
            database: url.database,
            tls: url.tls.clone().map(TlsSetup::new),
            options,
        }
    }

    /// A connection that is ready for its purpose, or why there is none.
    pub(super) async fn connect(&self, address: &Address, purpose: Purpose) -> Result<Connected, String> {
        let deadline = Instant::now() + self.options.connect_timeout();
        let stream = self.open(address, deadline).await?;
        self.login(stream, purpose, deadline).await
    }

    async fn open(&self, address: &Address, deadline: Instant) -> Result<Box<dyn Bytes>, String> {
        let no_connection = || self.no_answer("a connection");
        let (host, port) = match address {
            Address::Unix(path) => {
                return Ok(Box::new(in_time(deadline, UnixStream::connect(path), no_connection).await?));
            }
            Address::Tcp { host, port } => (host.as_str(), *port),
        };
        let stream = in_time(deadline, TcpStream::connect((host, port)), no_connection).await?;
        prepare_socket(&stream).map_err(|error| error.to_string())?;
        let Some(tls) = &self.tls else { return Ok(Box::new(stream)) };
        let begun = tls.connector().await?.connect(server_name(host)?, stream);
        let secured =
            in_time(deadline, begun, || self.no_answer("an answer; does the server speak TLS?")).await;
        Ok(Box::new(secured.map_err(|problem| format!("TLS: {problem}"))?))
    }

    fn no_answer(&self, to_what: &str) -> String {
        format!("{} ms have passed without {to_what}", self.options.connect_timeout_ms)
    }

    /// Who we are, and then what the purpose asks for: a server cuts off a stranger who sends it a long text.
    async fn login(
        &self,
        stream: Box<dyn Bytes>,
        purpose: Purpose,
        deadline: Instant,
    ) -> Result<Connected, String> {
        let (connection, mut driver) = connection(stream);
        let greeted = async {
            match self.identity(purpose) {
                nobody if nobody.len() == 0 => welcomed(&connection.send(&ping(), deadline).await?)?,
                identity => greeted(&connection.send(&identity, deadline).await?)?,
            }
            prepared(&connection.send(&preparation(purpose), deadline).await?, purpose)
        };
        let outcome = tokio::select! {
            outcome = greeted => outcome,
            () = &mut driver => Err(CallFailure::Lost("the server closed the connection".to_owned())),
        };
        match outcome {
            Ok(()) => Ok(Connected { connection, driver }),
            Err(CallFailure::TimeIsOver) => Err(self.no_answer("the server's first answers")),
            Err(CallFailure::Lost(problem) | CallFailure::Nonsense(problem)) => Err(problem),
        }
    }

    fn identity(&self, purpose: Purpose) -> Commands {
        let mut commands = Commands::default();
        let (credentials, database) = match purpose {
            Purpose::Sentinel => (&self.sentinel_credentials, 0),
            Purpose::Scripts | Purpose::Master | Purpose::Question => (&self.credentials, self.database),
        };
        // A user without a password logs in with an empty one.
        let password = credentials.password.as_ref().map_or("", |password| password.reveal());
        match &credentials.user {
            Some(user) => commands.add(&["AUTH", user, password]),
            None if credentials.password.is_some() => commands.add(&["AUTH", password]),
            None => {}
        }
        if database != 0 {
            commands.add(&["SELECT", &database.to_string()]);
        }
        commands
    }
}

/// What the work yields, or its error, or that it took too long.
async fn in_time<T>(
    deadline: Instant,
    work: impl Future<Output = std::io::Result<T>>,
    too_late: impl FnOnce() -> String,
) -> Result<T, String> {
    match tokio::time::timeout_at(deadline, work).await {
        Ok(outcome) => outcome.map_err(|error| error.to_string()),
        Err(_) => Err(too_late()),
    }
}

fn prepare_socket(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE_AFTER)
        .with_interval(KEEPALIVE_EVERY)
        .with_retries(KEEPALIVE_RETRIES);
    SockRef::from(stream).set_tcp_keepalive(&keepalive)
}

fn preparation(purpose: Purpose) -> Commands {
    let mut commands = Commands::default();
    commands.add(&["CLIENT", "SETNAME", NAME]);
    if matches!(purpose, Purpose::Scripts | Purpose::Master) {
        for text in [SYNC_SCRIPT, HEARTBEAT_SCRIPT, RESET_SCRIPT, RESETS_SCRIPT] {
            commands.add(&["SCRIPT", "LOAD", text]);
        }
    }
    if purpose == Purpose::Master {
        commands.add(&["ROLE"]);
    }
    commands
}

/// Asked where there is no login: a server that wants one says so, instead of closing the connection later.
fn ping() -> Commands {
    let mut commands = Commands::default();
    commands.add(&["PING"]);
    commands
}

fn welcomed(answers: &[Value]) -> Result<(), CallFailure> {
    match answers.first() {
        Some(Value::ServerError(error)) if error.code() == "NOAUTH" => {
            Err(CallFailure::Lost(error.to_string()))
        }
        _ => Ok(()),
    }
}

fn greeted(answers: &[Value]) -> Result<(), CallFailure> {
    let refused = answers.iter().find_map(|answer| match answer {
        // Old servers say ERR of a wrong password, but name AUTH.
        Value::ServerError(error) if error.code() == "WRONGPASS" || error.details().contains("AUTH") => {
            Some(CallFailure::Lost(format!("authentication failed: {error}")))
        }
        Value::ServerError(error) => Some(CallFailure::Lost(error.to_string())),
        _ => None,
    });
    refused.map_or(Ok(()), Err)
}

fn prepared(answers: &[Value], purpose: Purpose) -> Result<(), CallFailure> {
    for answer in answers {
        match answer {
            // A user who may not name connections or load scripts ahead can do without.
            Value::ServerError(error) if error.code() == "NOPERM" || is_unknown_command(error) => {}
            Value::ServerError(error) => return Err(CallFailure::Lost(error.to_string())),
            _ => {}
        }
    }
    match answers.last() {
        Some(Value::Array(role)) if purpose == Purpose::Master => match role.first() {
            Some(Value::BulkString(role)) if role == b"master" => Ok(()),
            _ => Err(CallFailure::Lost("the sentinels call it the master, but it isn't (yet)".to_owned())),
        },
        _ => Ok(()),
    }
}

/// Sentinels and proxies know fewer commands. What matters is noticed by its own calls.
fn is_unknown_command(error: &ServerError) -> bool {
    error.details().starts_with("unknown command")
}
