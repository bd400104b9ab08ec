//! Makes one connection: TCP or a Unix socket, TLS, login, and what the purpose of the connection asks for.
//!
//! Only tasks in the background come here. An attempt never outlasts the connect timeout, and its errors say
//! what a person would look into; they never hold a password.

use super::address::Address;
use super::options::RedisOptions;
use super::script::{HEARTBEAT_SCRIPT, RESET_SCRIPT, RESETS_SCRIPT, SYNC_SCRIPT};
use super::stream::{Bytes, Traffic, Watched};
use super::tls::{TlsSetup, server_name};
use super::url::Credentials;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Pipeline, RedisConnectionInfo, ServerErrorKind, Value};
use socket2::{SockRef, TcpKeepalive};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpStream, UnixStream};
use tokio::time::Instant;

const NAME: &str = "tidegate";
/// A peer that vanished without a word is noticed after `10 + 3 × 5` seconds, also when nobody asks it anything.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(10);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(5);
const KEEPALIVE_RETRIES: u32 = 3;
/// Many small calls leave in one write.
const WRITE_BUFFER_BYTES: usize = 64 << 10;

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

/// Carries bytes between the calls and the server; the connection lives as long as it is polled.
pub(super) type Driver = Pin<Box<dyn Future<Output = ()> + Send>>;

pub(super) struct Connected {
    pub(super) connection: MultiplexedConnection,
    pub(super) driver: Driver,
    pub(super) traffic: Arc<Traffic>,
}

impl Dialer {
    /// A connection that is ready for its purpose, or why there is none.
    pub(super) async fn connect(&self, address: &Address, purpose: Purpose) -> Result<Connected, String> {
        let deadline = Instant::now() + self.options.connect_timeout();
        let stream = self.open(address, deadline).await?;
        let login = self.login(stream, purpose);
        let connected = tokio::time::timeout_at(deadline, login).await;
        connected.unwrap_or_else(|_| Err(self.no_answer("the server's first answers")))
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

    async fn login(&self, stream: Box<dyn Bytes>, purpose: Purpose) -> Result<Connected, String> {
        let traffic = Arc::new(Traffic::default());
        let stream = Watched::new(stream, traffic.clone());
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(None)
            .set_connection_timeout(None)
            .set_pipeline_buffer_size(self.options.calls_in_flight_max.max(1))
            .set_write_backpressure_boundary(WRITE_BUFFER_BYTES);
        let identity = self.identity(purpose);
        let made = MultiplexedConnection::new_with_config(&identity, stream, config).await;
        let (mut connection, driver) = made.map_err(|error| error.to_string())?;
        let mut driver: Driver = Box::pin(driver);
        tokio::select! {
            prepared = prepare(&mut connection, purpose) => prepared?,
            () = &mut driver => return Err("the server closed the connection".to_owned()),
        }
        Ok(Connected { connection, driver, traffic })
    }

    fn identity(&self, purpose: Purpose) -> RedisConnectionInfo {
        let info = RedisConnectionInfo::default().set_skip_set_lib_name();
        let (credentials, database) = match purpose {
            Purpose::Sentinel => (&self.sentinel_credentials, 0),
            Purpose::Scripts | Purpose::Master | Purpose::Question => (&self.credentials, self.database),
        };
        let info = info.set_db(i64::from(database));
        match credentials {
            Credentials { user: None, password: None } => info,
            Credentials { user: None, password: Some(password) } => info.set_password(password.reveal()),
            // A user without a password logs in with an empty one.
            Credentials { user: Some(user), password } => info
                .set_username(user)
                .set_password(password.as_ref().map_or("", |password| password.reveal())),
        }
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

async fn prepare(connection: &mut MultiplexedConnection, purpose: Purpose) -> Result<(), String> {
    let mut commands = Pipeline::new();
    commands.cmd("CLIENT").arg("SETNAME").arg(NAME);
    if matches!(purpose, Purpose::Scripts | Purpose::Master) {
        for text in [SYNC_SCRIPT, HEARTBEAT_SCRIPT, RESET_SCRIPT, RESETS_SCRIPT] {
            commands.cmd("SCRIPT").arg("LOAD").arg(text);
        }
    }
    if purpose == Purpose::Master {
        commands.cmd("ROLE");
    }
    let count = commands.len();
    let answers = connection.send_packed_commands(&commands, 0, count).await;
    check(&answers.map_err(|error| error.to_string())?, purpose)
}

fn check(answers: &[Value], purpose: Purpose) -> Result<(), String> {
    for answer in answers {
        match answer {
            // A user who may not name connections or load scripts ahead can do without.
            Value::ServerError(error) if error.kind() == Some(ServerErrorKind::NoPerm) => {}
            Value::ServerError(error) if is_unknown_command(error) => {}
            Value::ServerError(error) => return Err(said(error)),
            _ => {}
        }
    }
    match answers.last() {
        Some(Value::Array(role)) if purpose == Purpose::Master => match role.first() {
            Some(Value::BulkString(role)) if role == b"master" => Ok(()),
            _ => Err("the sentinels call it the master, but it isn't (yet)".to_owned()),
        },
        _ => Ok(()),
    }
}

/// Sentinels and proxies know fewer commands. What matters is noticed by its own calls.
fn is_unknown_command(error: &redis::ServerError) -> bool {
    error.details().is_some_and(|details| details.starts_with("unknown command"))
}

/// What a server's error says, as the server worded it.
pub(super) fn said(error: &redis::ServerError) -> String {
    match error.details() {
        Some(details) => format!("{} {details}", error.code()),
        None => error.code().to_owned(),
    }
}
