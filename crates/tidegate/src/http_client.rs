//! One HTTP/1.1 request to a node or a control plane, for `tidegate check` and its like.
//!
//! Every step has a deadline and every answer a bound: a command must never hang on what it talks to. No
//! redirects, no pooling.

use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
const REPLY_TIMEOUT: Duration = Duration::from_secs(2);
const ANSWER_BYTES_MAX: u64 = 1024 * 1024;

/// `http://host:port` or `https://host:port`, nothing more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Url {
    pub(crate) scheme: Scheme,
    host: String,
    port: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    Http,
    Https,
}

/// Options of a request to a node: its token, and TLS if the URL says so.
pub(crate) struct RequestOptions<'a> {
    pub(crate) token: Option<&'a str>,
    pub(crate) tls: Option<TlsConnector>,
}

/// What is sent, and how long and how large the answer may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message<'a> {
    pub(crate) method: &'static str,
    /// With what follows its `?`.
    pub(crate) path: &'a str,
    pub(crate) body: &'a [u8],
    pub(crate) answer_within: Duration,
    pub(crate) answer_bytes_max: u64,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
    /// Where the next page begins, of what comes in pages.
    pub(crate) next: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpError {
    #[error("can't connect: {0}")]
    Connect(io::Error),
    #[error("can't connect within {} s", CONNECT_TIMEOUT.as_secs())]
    ConnectTimeout,
    #[error("TLS: {0}")]
    Tls(io::Error),
    #[error("the connection broke: {0}")]
    Broken(io::Error),
    #[error("no answer within {} s", .0.as_secs())]
    AnswerTimeout(Duration),
    #[error("what answered there doesn't speak HTTP as a node does")]
    NotHttp,
}

impl Url {
    /// `None` for anything that isn't `[http://|https://]host[:port][/]`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (scheme, authority) = match (text.strip_prefix("https://"), text.strip_prefix("http://")) {
            (Some(authority), _) => (Scheme::Https, authority),
            (None, Some(authority)) => (Scheme::Http, authority),
            (None, None) => (Scheme::Http, text),
        };
        let authority = authority.strip_suffix('/').unwrap_or(authority);
        let (host, port) = match authority.rsplit_once(':') {
            // A colon within brackets is part of an IPv6 address.
            Some((host, port)) if !port.contains(']') => (host, port.parse().ok()?),
            _ if scheme == Scheme::Https => (authority, 443),
            _ => (authority, 80),
        };
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let is_host = |c: char| c.is_ascii_alphanumeric() || "-._:%".contains(c);
        (!host.is_empty() && host.chars().all(is_host)).then(|| Url { scheme, host: host.to_owned(), port })
    }

    fn authority(&self) -> String {
        let Url { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}

pub(crate) async fn post(
    url: &Url,
    path: &str,
    options: &RequestOptions<'_>,
    body: &str,
) -> Result<Response, HttpError> {
    let message = Message {
        method: "POST",
        path,
        body: body.as_bytes(),
        answer_within: REPLY_TIMEOUT,
        answer_bytes_max: ANSWER_BYTES_MAX,
    };
    send(url, options, message).await
}

pub(crate) async fn send(
    url: &Url,
    options: &RequestOptions<'_>,
    message: Message<'_>,
) -> Result<Response, HttpError> {
    Response::parse(&exchanged(url, options, message).await?).ok_or(HttpError::NotHttp)
}

/// All bytes of the answer.
async fn exchanged(
    url: &Url,
    manner: &RequestOptions<'_>,
    message: Message<'_>,
) -> Result<Vec<u8>, HttpError> {
    let connecting = TcpStream::connect((url.host.as_str(), url.port));
    let stream = timeout(CONNECT_TIMEOUT, connecting).await.map_err(|_| HttpError::ConnectTimeout)?;
    let (stream, head) = (stream.map_err(HttpError::Connect)?, head(url, manner.token, message));
    let answered = timeout(message.answer_within, async {
        match &manner.tls {
            None => exchange(stream, &head, message).await,
            Some(connector) => {
                let name = ServerName::try_from(url.host.clone()).map_err(|_| HttpError::NotHttp)?;
                exchange(connector.connect(name, stream).await.map_err(HttpError::Tls)?, &head, message).await
            }
        }
    });
    answered.await.map_err(|_| HttpError::AnswerTimeout(message.answer_within))?
}

/// The same, where only the status matters: the answer may come in any form.
pub(crate) async fn status(
    url: &Url,
    manner: &RequestOptions<'_>,
    message: Message<'_>,
) -> Result<u16, HttpError> {
    let bytes = exchanged(url, manner, message).await?;
    let line = bytes.strip_prefix(b"HTTP/1.").and_then(|rest| rest.get(2..5));
    let digits = line.and_then(|digits| std::str::from_utf8(digits).ok());
    digits.and_then(|digits| digits.parse().ok()).ok_or(HttpError::NotHttp)
}

/// The token is known to be fit for a header.
fn head(url: &Url, token: Option<&str>, message: Message<'_>) -> String {
    let authorization = token.map_or(String::new(), |token| format!("Authorization: Bearer {token}\r\n"));
    format!(
        "{} {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         {authorization}Connection: close\r\n\r\n",
        message.method,
        message.path,
        url.authority(),
        message.body.len(),
    )
}

async fn exchange(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    head: &str,
    message: Message<'_>,
) -> Result<Vec<u8>, HttpError> {
    stream.write_all(head.as_bytes()).await.map_err(HttpError::Broken)?;
    stream.write_all(message.body).await.map_err(HttpError::Broken)?;
    let mut bytes = Vec::new();
    stream.take(message.answer_bytes_max).read_to_end(&mut bytes).await.map_err(HttpError::Broken)?;
    Ok(bytes)
}

impl Response {
    /// `None` unless it is a whole response with a plain body.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let head_end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
        let head = std::str::from_utf8(&bytes[..head_end]).ok()?;
        let body = &bytes[head_end + 4..];
        let mut lines = head.split("\r\n");
        let status = lines.next()?.strip_prefix("HTTP/1.")?.get(2..5)?.parse().ok()?;
        let (mut length, mut next) = (body.len(), None);
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().ok()?;
            } else if name.eq_ignore_ascii_case("x-tidegate-next") {
                next = Some(value.trim().to_owned());
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                return None;
            }
        }
        Some(Response { status, body: body.get(..length)?.to_vec(), next })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_http_urls_are_taken() {
        let authority = |text| Url::parse(text).map(|url| url.authority());
        assert_eq!(authority("http://127.0.0.1:8080").as_deref(), Some("127.0.0.1:8080"));
        assert_eq!(authority("http://node-1/").as_deref(), Some("node-1:80"));
        assert_eq!(authority("http://[::1]:9/").as_deref(), Some("[::1]:9"));
        assert_eq!(authority("http://[::1]").as_deref(), Some("[::1]:80"));
        assert_eq!(authority("localhost:8080").as_deref(), Some("localhost:8080"));
        assert_eq!(authority("[::1]:9").as_deref(), Some("[::1]:9"));
        assert_eq!(authority("https://h").as_deref(), Some("h:443"));
        assert_eq!(Url::parse("https://[::1]:1/").map(|url| url.scheme), Some(Scheme::Https));
        let bad = [
            "",
            "ftp://h",
            "h:80/path",
            "u@h:80",
            ":80",
            "http://",
            "http://:80",
            "http://h:99999",
            "http://a b",
            "http://u@h",
        ];
        for text in bad.into_iter().chain(["http://h/path", "http://h:80\r\nX: y", "http://h:"]) {
            assert_eq!(Url::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_whole_answer_is_taken_and_a_broken_one_is_not() {
        let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
        assert_eq!(Response::parse(whole), Some(Response { status: 200, body: b"{}".to_vec(), next: None }));
        for length in 0..whole.len() {
            assert_eq!(Response::parse(&whole[..length]), None, "{length} bytes");
        }
        for odd in [
            "SSH-2.0-x\r\n\r\n",
            "HTTP/1.1 abc\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ] {
            assert_eq!(Response::parse(odd.as_bytes()), None, "{odd}");
        }
    }
}
