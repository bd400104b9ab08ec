//! One connection to a server of rules: gRPC over h2, messages in and out.
//!
//! Decides nothing. Whatever is taken off the wire has a bound, and nothing is queued for a server that takes
//! nothing: what isn't sent now is sent when it is next due.

use super::FOLLOW_PATH;
use super::endpoint::Endpoint;
use super::frame::{FrameError, framed, take_first};
use super::message::{FollowerMessage, MESSAGE_BYTES_MAX};
use bytes::{Bytes, BytesMut};
use h2::{RecvStream, SendStream, client};
use http::{HeaderMap, HeaderValue, Request, Response, Version, header};
use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use tokio::task::JoinHandle;

/// What the server may send before it hears that there is room for more.
const WINDOW_BYTES: u32 = 1 << 20;
/// Taken at once before it is looked at.
const READ_BYTES_MAX: usize = 1 << 20;

pub(super) struct Link {
    send: SendStream<Bytes>,
    receive: RecvStream,
    buffer: BytesMut,
    has_ended: bool,
    _connection: Connection,
}

/// The task that moves the bytes. It ends with the link.
struct Connection(JoinHandle<()>);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Link {
    /// Within whatever deadline the caller sets: from nothing to the server's headers.
    /// `authorization` is `Bearer …`.
    pub(super) async fn open(
        endpoint: &Endpoint,
        authorization: Option<&HeaderValue>,
    ) -> Result<Self, String> {
        let stream = endpoint.connect().await?;
        let (sender, connection) = client::Builder::new()
            .initial_window_size(WINDOW_BYTES)
            .initial_connection_window_size(2 * WINDOW_BYTES)
            .handshake::<_, Bytes>(stream)
            .await
            .map_err(|error| format!("what answers there doesn't speak gRPC: {error}"))?;
        let connection = Connection(tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "the connection to a server of rules ended");
            }
        }));
        let mut sender = sender.ready().await.map_err(|error| error.to_string())?;
        let (response, send) = sender
            .send_request(request(endpoint, authorization)?, false)
            .map_err(|error| error.to_string())?;
        let response = response.await.map_err(|error| error.to_string())?;
        refused(&response)?;
        let receive = response.into_body();
        Ok(Link { send, receive, buffer: BytesMut::new(), has_ended: false, _connection: connection })
    }

    /// Whether it was sent: not when the server takes too little.
    pub(super) fn send(&mut self, up: &FollowerMessage) -> bool {
        let bytes = framed(|out| up.encode(out));
        self.send.reserve_capacity(bytes.len());
        if self.send.capacity() < bytes.len() {
            return false;
        }
        self.send.send_data(bytes.into(), false).is_ok()
    }

    /// The messages that have come, at least one; why there will be no more.
    pub(super) async fn next(&mut self) -> Result<Vec<Bytes>, String> {
        loop {
            let mut messages = Vec::new();
            while let Some(message) = take_first(&mut self.buffer, MESSAGE_BYTES_MAX).map_err(nonsense)? {
                messages.push(message);
            }
            if !messages.is_empty() {
                return Ok(messages);
            }
            if self.has_ended {
                return Err(self.end().await);
            }
            poll_fn(|cx| self.poll_read(cx)).await?;
        }
    }

    /// Takes what is there, something at least; a message may be longer than what is taken at once.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), String>> {
        let mut taken = 0;
        while taken < READ_BYTES_MAX {
            let data = match self.receive.poll_data(cx) {
                Poll::Pending if taken > 0 => break,
                data => ready!(data),
            };
            match data {
                Some(Ok(bytes)) => {
                    taken += bytes.len();
                    self.buffer.extend_from_slice(&bytes);
                    // A stream that has ended needs no room.
                    let _ = self.receive.flow_control().release_capacity(bytes.len());
                }
                Some(Err(error)) => return Poll::Ready(Err(format!("the connection broke: {error}"))),
                None => {
                    self.has_ended = true;
                    break;
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    async fn end(&mut self) -> String {
        match self.receive.trailers().await {
            Ok(Some(trailers)) => {
                message_of(&trailers).unwrap_or_else(|| "the server ended the stream".to_owned())
            }
            Ok(None) | Err(_) => "the server ended the stream".to_owned(),
        }
    }
}

fn request(endpoint: &Endpoint, authorization: Option<&HeaderValue>) -> Result<Request<()>, String> {
    let (scheme, authority) = (endpoint.scheme(), endpoint.authority());
    let mut request = Request::post(format!("{scheme}://{authority}{FOLLOW_PATH}"))
        .version(Version::HTTP_2)
        .header(header::CONTENT_TYPE, "application/grpc")
        .header(header::TE, "trailers")
        .body(())
        .map_err(|error| error.to_string())?;
    if let Some(authorization) = authorization {
        request.headers_mut().insert(header::AUTHORIZATION, authorization.clone());
    }
    Ok(request)
}

/// A server that refuses says so in its headers.
fn refused<T>(response: &Response<T>) -> Result<(), String> {
    if !response.status().is_success() {
        return Err(format!("what answers there doesn't serve rules: HTTP {}", response.status()));
    }
    match message_of(response.headers()) {
        Some(problem) => Err(problem),
        None => Ok(()),
    }
}

/// Returns gRPC's code and message of a failure.
fn message_of(headers: &HeaderMap) -> Option<String> {
    let code = headers.get("grpc-status")?.to_str().ok()?;
    if code == "0" {
        return None;
    }
    let message = headers.get("grpc-message").map_or(&b""[..], HeaderValue::as_bytes);
    Some(match percent_decoded(message) {
        message if message.is_empty() => format!("the server refused (gRPC code {code})"),
        message => message,
    })
}

fn percent_decoded(bytes: &[u8]) -> String {
    let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(&byte) = bytes.get(at) {
        let hex = bytes.get(at + 1..at + 3).and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()).filter(|_| byte == b'%') {
            Some(decoded) => {
                out.push(decoded);
                at += 3;
            }
            None => {
                out.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn nonsense(error: FrameError) -> String {
    match error {
        FrameError::Compressed => "the server compresses, which isn't spoken here".to_owned(),
        FrameError::TooLong { bytes } => {
            format!("the server announced a message of {bytes} bytes, more than {MESSAGE_BYTES_MAX}")
        }
    }
}
