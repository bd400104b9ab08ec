//! A tower layer: requests that a limiter denies get 429 and never reach the service; all others carry what is
//! left of their limit in headers.
//!
//! A request that the limiter can't judge is denied too: otherwise a caller who sends what a node refuses, such as an
//! over-long header, would be unlimited. A refused token is the operator's mistake and not the caller's, so
//! [`OnFailure`] decides then, as when the node can't be reached.

use crate::answer::CheckResponse;
use crate::client::{Client, ClientError, OnFailure};
use http::header::{HeaderName, HeaderValue, RETRY_AFTER};
use http::{HeaderMap, Request, Response, StatusCode};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tower_layer::Layer;
use tower_service::Service;

const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");

/// A check to be made: the namespace, the attributes that name the caller, and the cost.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckRequest {
    pub namespace: String,
    pub attributes: Vec<(&'static str, String)>,
    pub cost: u64,
}

impl CheckRequest {
    /// One unit of the rules of a namespace.
    pub fn new(namespace: impl Into<String>) -> Self {
        CheckRequest { namespace: namespace.into(), attributes: Vec::new(), cost: 1 }
    }

    #[must_use]
    pub fn attribute(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.attributes.push((name, value.into()));
        self
    }
}

/// Something that can be asked about a request.
pub trait Limiter: Send + Sync + 'static {
    /// An error means that the question was wrong.
    fn ask(&self, limit: &CheckRequest) -> impl Future<Output = Result<CheckResponse, ClientError>> + Send;

    /// Returns whether a request passes when the limiter refuses the token.
    fn when_refused(&self) -> OnFailure {
        OnFailure::Allow
    }
}

impl Limiter for Client {
    async fn ask(&self, limit: &CheckRequest) -> Result<CheckResponse, ClientError> {
        let attributes: Vec<(&str, &str)> =
            limit.attributes.iter().map(|(name, value)| (*name, value.as_str())).collect();
        self.check(&limit.namespace, &attributes, limit.cost).await
    }

    fn when_refused(&self) -> OnFailure {
        self.chosen_on_failure()
    }
}

/// `limit_of` says whom a request is charged to; `None` lets it pass without a question.
#[derive(Debug)]
pub struct LimitLayer<L, F> {
    limiter: Arc<L>,
    limit_of: F,
}

impl<L, F> LimitLayer<L, F> {
    pub fn new(limiter: L, limit_of: F) -> Self {
        LimitLayer { limiter: Arc::new(limiter), limit_of }
    }
}

impl<L, F: Clone> Clone for LimitLayer<L, F> {
    fn clone(&self) -> Self {
        LimitLayer { limiter: self.limiter.clone(), limit_of: self.limit_of.clone() }
    }
}

impl<L, F: Clone, S> Layer<S> for LimitLayer<L, F> {
    type Service = LimitService<L, F, S>;

    fn layer(&self, inner: S) -> Self::Service {
        LimitService { limiter: self.limiter.clone(), limit_of: self.limit_of.clone(), inner }
    }
}

#[derive(Debug)]
pub struct LimitService<L, F, S> {
    limiter: Arc<L>,
    limit_of: F,
    inner: S,
}

impl<L, F: Clone, S: Clone> Clone for LimitService<L, F, S> {
    fn clone(&self) -> Self {
        let LimitService { limiter, limit_of, inner } = self;
        LimitService { limiter: limiter.clone(), limit_of: limit_of.clone(), inner: inner.clone() }
    }
}

impl<L, F, S, Sent, Received> Service<Request<Sent>> for LimitService<L, F, S>
where
    L: Limiter,
    F: Fn(&Request<Sent>) -> Option<CheckRequest>,
    S: Service<Request<Sent>, Response = Response<Received>> + Clone + Send + 'static,
    S::Future: Send,
    Sent: Send + 'static,
    Received: Default,
{
    type Response = Response<Received>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Sent>) -> Self::Future {
        let limit = (self.limit_of)(&request);
        let limiter = self.limiter.clone();
        // The one that is ready goes; its copy may not be.
        let copy = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, copy);
        Box::pin(async move {
            let Some(limit) = limit else { return inner.call(request).await };
            let answer = limiter.ask(&limit).await.unwrap_or_else(|error| {
                let allows = error.is_about_token() && limiter.when_refused() == OnFailure::Allow;
                CheckResponse::of_failure(allows)
            });
            let mut response = if answer.allowed {
                inner.call(request).await?
            } else {
                let mut denied = Response::new(Received::default());
                *denied.status_mut() = StatusCode::TOO_MANY_REQUESTS;
                denied
            };
            add_headers(response.headers_mut(), &answer);
            Ok(response)
        })
    }
}

fn add_headers(headers: &mut HeaderMap, answer: &CheckResponse) {
    if let Some(strictest) = answer.strictest() {
        headers.insert(LIMIT, HeaderValue::from(strictest.limit.unwrap_or(0)));
        headers.insert(REMAINING, HeaderValue::from(strictest.remaining.unwrap_or(0)));
    }
    if let Some(wait) = answer.retry_after() {
        // Rounded up: whoever waits so long has waited long enough.
        let seconds = u64::try_from(wait.as_millis().div_ceil(1000)).unwrap_or(u64::MAX);
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
}
