//! GCRA over the Redis protocol: `CL.THROTTLE`, as any Redis client would send it.

use crate::client::OnFailure;
use crate::endpoint::{Endpoint, Stream};
use parking_lot::Mutex;
use std::fmt::Write;
use std::future::poll_fn;
use std::io;
use std::path::PathBuf;
use std::task::Poll;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadBuf};

const DEADLINE: Duration = Duration::from_millis(50);
const IDLE_MAX: usize = 64;
/// Five integers and what is between them.
const REPLY_BYTES_MAX: usize = 256;

/// What redis-cell says about a request, and whether it was said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ThrottleReply {
    pub allowed: bool,
    pub limit: u64,
    pub remaining: u64,
    /// `None` when it was allowed, or when no wait helps.
    pub retry_after: Option<Duration>,
    /// Until the whole limit is back.
    pub reset_after: Duration,
    /// Nobody could be asked in time: `allowed` is what was chosen for that case.
    pub is_failure: bool,
}

/// A connection for each check under way; those that are idle are used again.
#[derive(Debug)]
pub struct RedisClient {
    endpoint: Endpoint,
    token: Option<Token>,
    deadline: Duration,
    on_failure: OnFailure,
    idle: Mutex<Vec<Idle>>,
}

/// Never shown.
struct Token(String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

struct Idle(Stream);

impl std::fmt::Debug for Idle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Idle")
    }
}

impl RedisClient {
    /// A node at `host:port` (`listen.resp`).
    pub fn tcp(address: impl Into<String>) -> Self {
        RedisClient::new(Endpoint::Tcp(address.into()))
    }

    /// A node at `host:port` that speaks TLS (`tls.certificate`).
    #[cfg(feature = "tls")]
    pub fn tls(address: impl Into<String>, tls: &crate::Tls) -> Result<Self, crate::TlsError> {
        Ok(RedisClient::new(Endpoint::tls(address.into(), tls)?))
    }

    /// A node at a Unix socket: `listen.unix` with `.resp` after it.
    pub fn unix(path: impl Into<PathBuf>) -> Self {
        RedisClient::new(Endpoint::Unix(path.into()))
    }

    fn new(endpoint: Endpoint) -> Self {
        let idle = Mutex::new(Vec::new());
        RedisClient { endpoint, token: None, deadline: DEADLINE, on_failure: OnFailure::default(), idle }
    }

    /// Presents a token (`tidegate token new`) on every connection, by `AUTH`.
    #[must_use]
    pub fn token(self, token: impl Into<String>) -> Self {
        RedisClient { token: Some(Token(token.into())), ..self }
    }

    /// The longest that a check takes, connecting included: 50 ms unless it is set.
    #[must_use]
    pub fn deadline(self, deadline: Duration) -> Self {
        RedisClient { deadline, ..self }
    }

    /// What the answer is when the node can't be asked in time: allowed, unless it is set.
    #[must_use]
    pub fn on_failure(self, on_failure: OnFailure) -> Self {
        RedisClient { on_failure, ..self }
    }

    /// `CL.THROTTLE key max_burst count period quantity`: `count` per `period` seconds, and `max_burst` more at
    /// once. An error is the node's: what was asked is wrong.
    pub async fn throttle(
        &self,
        key: &str,
        max_burst: u64,
        (count, period_s): (u64, u64),
        quantity: u64,
    ) -> Result<ThrottleReply, String> {
        let mut command = String::with_capacity(128 + key.len());
        let numbers = [max_burst, count, period_s, quantity].map(|number| number.to_string());
        // Writing to a string doesn't fail.
        let _ = write!(command, "*6\r\n$11\r\nCL.THROTTLE\r\n${}\r\n{key}\r\n", key.len());
        for number in &numbers {
            let _ = write!(command, "${}\r\n{number}\r\n", number.len());
        }
        match tokio::time::timeout(self.deadline, self.exchange(command.as_bytes())).await {
            Ok(Ok(reply)) => parse(&reply).unwrap_or_else(|| Ok(self.failed())),
            Ok(Err(_)) | Err(_) => Ok(self.failed()),
        }
    }

    fn failed(&self) -> ThrottleReply {
        ThrottleReply {
            allowed: self.on_failure == OnFailure::Allow,
            limit: 0,
            remaining: 0,
            retry_after: None,
            reset_after: Duration::ZERO,
            is_failure: true,
        }
    }

    async fn exchange(&self, command: &[u8]) -> io::Result<String> {
        let mut stream = match self.idle_stream().await {
            Some(stream) => stream,
            None => match self.connect().await? {
                Ok(stream) => stream,
                Err(refusal) => return Ok(refusal),
            },
        };
        // Once: whatever fails from here on, the node may have decided already.
        let reply = ask(&mut stream, command).await?;
        let mut idle = self.idle.lock();
        if idle.len() < IDLE_MAX {
            idle.push(Idle(stream));
        }
        Ok(reply)
    }

    async fn idle_stream(&self) -> Option<Stream> {
        loop {
            let Idle(mut stream) = self.idle.lock().pop()?;
            if is_silent(&mut stream).await {
                return Some(stream);
            }
        }
    }

    /// A new connection, or the node's refusal of the token.
    async fn connect(&self) -> io::Result<Result<Stream, String>> {
        let mut stream = self.endpoint.connect().await?;
        if let Some(Token(token)) = &self.token {
            let auth = format!("*2\r\n$4\r\nAUTH\r\n${}\r\n{token}\r\n", token.len());
            let reply = ask(&mut stream, auth.as_bytes()).await?;
            if reply.starts_with('-') {
                return Ok(Err(reply));
            }
        }
        Ok(Ok(stream))
    }
}

/// A node that ended, or that closed what was idle for long, is noticed here: it says nothing else unasked.
async fn is_silent(stream: &mut Stream) -> bool {
    let mut byte = [0; 1];
    let mut unasked = ReadBuf::new(&mut byte);
    poll_fn(|context| Poll::Ready(stream.as_mut().poll_read(context, &mut unasked).is_pending())).await
}

async fn ask(stream: &mut Stream, command: &[u8]) -> io::Result<String> {
    stream.write_all(command).await?;
    let mut reply = Vec::with_capacity(REPLY_BYTES_MAX);
    while !is_whole(&reply) {
        if reply.len() >= REPLY_BYTES_MAX || stream.read_buf(&mut reply).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    String::from_utf8(reply).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// An error is one line, five integers are six.
fn is_whole(reply: &[u8]) -> bool {
    let lines = reply.windows(2).filter(|pair| pair == b"\r\n").count();
    lines >= if reply.first() == Some(&b'*') { 6 } else { 1 }
}

/// `None` for what isn't an answer of redis-cell's kind.
fn parse(reply: &str) -> Option<Result<ThrottleReply, String>> {
    if let Some(error) = reply.strip_prefix('-') {
        return Some(Err(error.trim_end().to_owned()));
    }
    let mut lines = reply.strip_prefix("*5\r\n")?.split("\r\n");
    let mut number = || lines.next()?.strip_prefix(':')?.parse::<i64>().ok();
    let [limited, limit, remaining, retry_s, reset_s] =
        [number()?, number()?, number()?, number()?, number()?];
    let unsigned = |number: i64| u64::try_from(number).unwrap_or(0);
    Some(Ok(ThrottleReply {
        allowed: limited == 0,
        limit: unsigned(limit),
        remaining: unsigned(remaining),
        retry_after: u64::try_from(retry_s).ok().map(Duration::from_secs),
        reset_after: Duration::from_secs(unsigned(reset_s)),
        is_failure: false,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_of_redis_cell_are_understood() {
        let allowed = parse("*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n").unwrap().unwrap();
        assert!(allowed.allowed && allowed.retry_after.is_none());
        assert_eq!((allowed.limit, allowed.remaining, allowed.reset_after), (16, 15, Duration::from_secs(2)));
        let denied = parse("*5\r\n:1\r\n:16\r\n:0\r\n:2\r\n:32\r\n").unwrap().unwrap();
        assert_eq!((denied.allowed, denied.retry_after), (false, Some(Duration::from_secs(2))));
        assert_eq!(parse("-ERR no\r\n"), Some(Err("ERR no".to_owned())));
        assert_eq!(parse("*5\r\n:1\r\n:x\r\n"), None);
        assert_eq!(parse("+OK\r\n"), None);
    }

    #[test]
    fn a_reply_is_whole_when_its_last_line_ends() {
        assert!(is_whole(b"-ERR no\r\n") && !is_whole(b"-ERR no\r"));
        let reply = b"*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n";
        assert!(is_whole(reply) && !is_whole(&reply[..reply.len() - 1]));
    }
}
