//! One request: route it, read it, answer it.

use crate::envoy::JsonRequest;
use crate::progress::Progress;
use crate::refusal::{Code, Refusal};
use crate::request_id::RequestId;
use crate::respond::{self, HttpResponse};
use crate::route::{Call, Endpoint, Page, endpoint};
use crate::{App, Surface, admin, body, cross_site, decide, envoy, forward_auth, idempotency, metrics};
use hyper::body::Incoming;
use hyper::header::HOST;
use hyper::http::request::Parts;
use hyper::{HeaderMap, Request, StatusCode};

/// Answers whatever comes; what is wrong with a request becomes a refusal.
pub(crate) async fn answer(
    app: &App,
    surface: Surface,
    progress: &Progress,
    request: Request<Incoming>,
) -> HttpResponse {
    let (head, incoming) = request.into_parts();
    let id = RequestId::of(&head.headers);
    let path = head.uri.path();
    let permitted = cross_site::refuse(surface, &head.headers);
    let outcome = match permitted.and_then(|()| endpoint(surface, &head.method, path)) {
        Ok(Endpoint::Decision(call)) => decision(app, call, &head, incoming, &id).await,
        Ok(Endpoint::ForwardAuth) => forward_auth::answer(app, &head, id.clone()).await,
        Ok(Endpoint::Envoy) => envoy_json(app, incoming, &id).await,
        Ok(Endpoint::Page(page)) => Ok(show(app, page, &head.headers, &id)),
        Err(refusal) => Err(refusal),
    };
    outcome.unwrap_or_else(|refusal| {
        if refusal.code == Code::BodyTooLarge {
            // The caller is still sending: closing on it at once could destroy the answer on its way.
            progress.linger();
        }
        respond::refusal(&refusal, path, id)
    })
}

async fn decision(
    app: &App,
    call: Call,
    head: &Parts,
    incoming: Incoming,
    id: &RequestId,
) -> Result<HttpResponse, Refusal> {
    let body = body::read(incoming).await?;
    // What may wait is boxed: it is large, and nearly nobody waits.
    let slowly = || Box::pin(decide::decide(app, call, &body, id.as_str()));
    let (decided, is_repeated) = match idempotency::key(&head.headers)? {
        None => match decide::try_decide(app, call, &body, id.as_str())? {
            Some(decided) => (decided, false),
            None => (slowly().await?, false),
        },
        Some(key) => {
            let (caller, request) = ((app.tenant.as_str(), key), (head.uri.path(), &*body));
            Box::pin(app.idempotency.answer(caller, request, app.clock.now().now, slowly())).await?
        }
    };
    let mut response = respond::json(StatusCode::OK, decided.body, id.clone());
    if is_repeated {
        respond::add_replayed(&mut response);
    }
    if let Some(seconds) = decided.retry_after_seconds {
        respond::add_retry_after(&mut response, seconds);
    }
    Ok(response)
}

/// Envoy's rate limit service as JSON: 200 or 429.
async fn envoy_json(app: &App, incoming: Incoming, id: &RequestId) -> Result<HttpResponse, Refusal> {
    let body = body::read(incoming).await?;
    let request = JsonRequest::read(&body)?;
    envoy::decide(app, &request.asked(), |verdict| {
        let status = if verdict.allowed { StatusCode::OK } else { StatusCode::TOO_MANY_REQUESTS };
        let mut response = respond::json(status, envoy::to_json(verdict), id.clone());
        envoy::each_header(verdict, |name, value| respond::add_header(&mut response, name, value));
        response
    })
    .await
}

fn show(app: &App, page: Page, headers: &HeaderMap, id: &RequestId) -> HttpResponse {
    let json = |body| respond::json(StatusCode::OK, body, id.clone());
    match page {
        Page::Front => respond::text(front(headers), id.clone()),
        Page::AdminFront => respond::text(ADMIN_FRONT, id.clone()),
        Page::Healthy => respond::text("ok\n", id.clone()),
        Page::Ready => json(admin::ready(app)),
        Page::State => json(admin::state(app)),
        Page::Rules => json(admin::rules(app)),
        Page::Metrics => respond::text(metrics::text(app), id.clone()),
    }
}

/// What a person sees who opens the operators' address in a browser.
const ADMIN_FRONT: &str = concat!(
    "This is Tidegate ",
    env!("CARGO_PKG_VERSION"),
    ", a rate limiter. Operators find here:\n\n",
    "  /metrics   what it has counted, for Prometheus\n",
    "  /v1/state  this node and what it has counted\n",
    "  /v1/rules  the rules in force and what they mean\n",
    "  /healthz   whether it is alive\n",
    "  /readyz    whether it is ready for requests\n",
);

/// What a person sees who opens the callers' address in a browser.
fn front(headers: &HeaderMap) -> String {
    let is_plain =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b':' | b'-' | b'[' | b']');
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let host =
        host.filter(|host| host.len() <= 255 && host.bytes().all(is_plain)).unwrap_or("127.0.0.1:8080");
    format!(
        "This is Tidegate {}, a rate limiter. It is running. Try it:\n\n  \
         curl -s http://{host}/v1/limit -d '{{\"namespace\":\"demo\",\"identifier\":\"me\",\
         \"limit\":5,\"duration_ms\":60000}}'\n\n\
         The sixth time within a minute it says \"allowed\":false, and when to come back.\n",
        env!("CARGO_PKG_VERSION"),
    )
}
