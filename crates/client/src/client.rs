//! The HTTP client: one request, one answer, within the deadline.
//!
//! Connections that are idle are kept, so a check is one write and one read. A connection that failed or was too
//! late is never used again: its answer may still come, and would be taken for another's.

use crate::answer::CheckResponse;
use crate::endpoint::Endpoint;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::json;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Longer than a node's own wait for its region.
const DEADLINE: Duration = Duration::from_millis(50);
/// Connections that are kept while nobody uses them.
const IDLE_MAX: usize = 64;
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// What an answer is when nobody could be asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnFailure {
    /// An outage of the limiter isn't one of the service.
    #[default]
    Allow,
    Deny,
}

/// What was asked is wrong: a node won't answer it the next time either.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the node refused the request ({status}): {message}")]
pub struct ClientError {
    pub status: u16,
    /// What the node said about it.
    pub message: String,
}

impl ClientError {
    /// Returns whether the node refused the token, not the question: it is missing, unknown, revoked, or lacks a
    /// permission.
    pub fn is_about_token(&self) -> bool {
        matches!(self.status, 401 | 403)
    }
}

#[derive(Debug)]
pub struct Client {
    endpoint: Endpoint,
    /// The `Host` header.
    host: String,
    authorization: Option<HeaderValue>,
    deadline: Duration,
    on_failure: OnFailure,
    refusals: AtomicU64,
    idle: Mutex<Vec<SendRequest<Full<Bytes>>>>,
}

/// Why there is no answer.
enum Failure {
    Refused(ClientError),
    /// For whatever reason: it is the same to the caller.
    Unreachable,
}

impl Client {
    /// A node at `host:port`.
    pub fn tcp(address: impl Into<String>) -> Self {
        let address = address.into();
        Client::new(Endpoint::Tcp(address.clone()), address)
    }

    /// A node at `host:port` that speaks TLS (`tls.certificate`).
    #[cfg(feature = "tls")]
    pub fn tls(address: impl Into<String>, tls: &crate::Tls) -> Result<Self, crate::TlsError> {
        let address = address.into();
        Ok(Client::new(Endpoint::tls(address.clone(), tls)?, address))
    }

    /// A node at a Unix socket (`listen.unix`).
    pub fn unix(path: impl Into<PathBuf>) -> Self {
        Client::new(Endpoint::Unix(path.into()), "localhost".to_owned())
    }

    fn new(endpoint: Endpoint, host: String) -> Self {
        let idle = Mutex::new(Vec::new());
        let on_failure = OnFailure::default();
        let refusals = AtomicU64::new(0);
        Client { endpoint, host, authorization: None, deadline: DEADLINE, on_failure, refusals, idle }
    }

    /// Presents a token (`tidegate token new`) with every request. The node refuses one that it doesn't know.
    #[must_use]
    pub fn token(self, token: &str) -> Self {
        let header = HeaderValue::try_from(format!("Bearer {token}"));
        // What isn't fit for a header isn't a token either: the node says so.
        let mut header = header.unwrap_or(HeaderValue::from_static("Bearer"));
        header.set_sensitive(true);
        Client { authorization: Some(header), ..self }
    }

    /// The longest that a check takes, connecting included: 50 ms unless it is set.
    #[must_use]
    pub fn deadline(self, deadline: Duration) -> Self {
        Client { deadline, ..self }
    }

    /// What the answer is when the node can't be asked in time: allowed, unless it is set.
    #[must_use]
    pub fn on_failure(self, on_failure: OnFailure) -> Self {
        Client { on_failure, ..self }
    }

    pub(crate) fn chosen_on_failure(&self) -> OnFailure {
        self.on_failure
    }

    /// Returns how many requests the node refused so far (400, 401, 403, 413): export it as a metric. An error is
    /// logged at the first, second, fourth, eighth refusal, and so on.
    pub fn refusals(&self) -> u64 {
        self.refusals.load(Ordering::Relaxed)
    }

    fn report_refusal(&self, error: &ClientError) {
        let count = self.refusals.fetch_add(1, Ordering::Relaxed) + 1;
        if count.is_power_of_two() {
            tracing::error!(
                status = error.status,
                count,
                "the rate limiter refuses requests: {}",
                error.message
            );
        }
    }

    /// Whether a request with these attributes passes the rules of a namespace. Charged if so; cost 0 only
    /// looks.
    pub async fn check(
        &self,
        namespace: &str,
        attributes: &[(&str, &str)],
        cost: u64,
    ) -> Result<CheckResponse, ClientError> {
        let attributes: serde_json::Map<_, _> =
            attributes.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
        self.ask("/v1/check", &json!({ "namespace": namespace, "attributes": attributes, "cost": cost }))
            .await
    }

    /// Whether a caller passes a limit that is given here: `limit` per `period`, sliding.
    pub async fn limit(
        &self,
        namespace: &str,
        identifier: &str,
        (limit, period): (u64, Duration),
        cost: u64,
    ) -> Result<CheckResponse, ClientError> {
        let duration_ms = u64::try_from(period.as_millis()).unwrap_or(u64::MAX);
        let body = json!({
            "namespace": namespace, "identifier": identifier, "limit": limit, "duration_ms": duration_ms,
            "cost": cost,
        });
        self.ask("/v1/limit", &body).await
    }

    async fn ask(&self, path: &str, body: &serde_json::Value) -> Result<CheckResponse, ClientError> {
        let body = Bytes::from(body.to_string());
        let asked = tokio::time::timeout(self.deadline, self.exchange(path, body));
        match asked.await.unwrap_or(Err(Failure::Unreachable)) {
            Ok(answer) => Ok(answer),
            Err(Failure::Refused(error)) => {
                self.report_refusal(&error);
                Err(error)
            }
            Err(Failure::Unreachable) => Ok(CheckResponse::of_failure(self.on_failure == OnFailure::Allow)),
        }
    }

    async fn exchange(&self, path: &str, body: Bytes) -> Result<CheckResponse, Failure> {
        let mut connection = self.connection().await?;
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(path)
            .header(HOST, &self.host)
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .map_err(|_| Failure::Unreachable)?;
        if let Some(authorization) = &self.authorization {
            request.headers_mut().insert(AUTHORIZATION, authorization.clone());
        }
        let response = connection.send_request(request).await.map_err(|_| Failure::Unreachable)?;
        let status = response.status();
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|_| Failure::Unreachable)?.to_bytes();
        self.return_idle(connection);
        if status.is_client_error() {
            let message = String::from_utf8_lossy(&body).trim().to_owned();
            return Err(Failure::Refused(ClientError { status: status.as_u16(), message }));
        }
        serde_json::from_slice(&body).map_err(|_| Failure::Unreachable)
    }

    /// An idle connection, or a new one.
    async fn connection(&self) -> Result<SendRequest<Full<Bytes>>, Failure> {
        loop {
            let Some(mut idle) = self.idle.lock().pop() else { break };
            // A node that ended, or that closed what was idle for long, is noticed here.
            if idle.ready().await.is_ok() {
                return Ok(idle);
            }
        }
        let stream = self.endpoint.connect().await.map_err(|_| Failure::Unreachable)?;
        let (sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|_| Failure::Unreachable)?;
        // Ends with the sender, or with the node.
        tokio::spawn(async move { drop(connection.await) });
        Ok(sender)
    }

    fn return_idle(&self, connection: SendRequest<Full<Bytes>>) {
        let mut idle = self.idle.lock();
        if idle.len() < IDLE_MAX {
            idle.push(connection);
        }
    }
}
