//! One request: route it, read it, answer it.

use crate::access::{self, Caller, LastCaller};
use crate::cross_site::Guard;
use crate::envoy::JsonRequest;
use crate::progress::Progress;
use crate::refusal::{Code, Refusal};
use crate::request_id::RequestId;
use crate::respond::{self, HttpResponse};
use crate::route::{Call, Endpoint, Page, endpoint};
use crate::trace::{self, TraceContext};
use crate::{
    App, Surface, admin, body, control_relay, cross_site, dashboard, decide, envoy, forward_auth, history,
    idempotency, metrics, openapi, unkey, why,
};
use hyper::body::{Body, Incoming};
use hyper::header::HOST;
use hyper::http::request::Parts;
use hyper::{HeaderMap, Request, StatusCode};
use std::pin::pin;
use std::sync::Arc;

/// About what comes with a request's head.
const FIRST_READ_BYTES: u64 = 4 << 10;

/// Answers whatever comes; what is wrong with a request becomes a refusal.
pub(crate) async fn answer(
    app: &App,
    (surface, is_unix): (Surface, bool),
    progress: &Progress,
    last_caller: &LastCaller,
    request: Request<Incoming>,
) -> HttpResponse {
    let (head, incoming) = request.into_parts();
    let id = RequestId::of(&head.headers);
    let path = head.uri.path();
    // More than the first read brings.
    let is_long = incoming.size_hint().upper().is_none_or(|bytes| bytes > FIRST_READ_BYTES);
    let routed = endpoint(surface, &head.method, path);
    let checked = cross_site::refuse(guard(surface, is_unix, &routed), &app.tokens, &head.headers);
    let routed = checked.and(routed);
    let permitted =
        routed.and_then(|endpoint| Ok((endpoint, caller(app, last_caller, endpoint, &head.headers)?)));
    let context = TraceContext::of(&head.headers);
    let mut answering = pin!(async {
        match permitted {
            Ok((Endpoint::Decision(call), caller)) => {
                decision(app, &caller, call, &head, incoming, &id).await
            }
            Ok((Endpoint::ForwardAuth, caller)) => {
                forward_auth::answer(app, &caller, &head, id.clone()).await
            }
            // Boxed: hyper keeps room for the largest, for every connection and from its beginning.
            Ok((Endpoint::Envoy, caller)) => Box::pin(envoy_json(app, &caller, incoming, &id)).await,
            Ok((Endpoint::Unkey(operation), caller)) => {
                Box::pin(unkey::answer(app, &caller, operation, &head, incoming, &id)).await
            }
            Ok((Endpoint::Page(Page::Why), caller)) => {
                let answered = Box::pin(why::answer(app, &caller, head.uri.query())).await;
                answered.map(|body| respond::json(StatusCode::OK, body, id.clone()))
            }
            Ok((Endpoint::Control(relayed), _)) => {
                Box::pin(control_relay::answer(app, relayed, &head, incoming, &id)).await
            }
            Ok((Endpoint::Dashboard(file), _)) => Ok(dashboard::answer(file, id.clone())),
            Ok((Endpoint::Page(Page::AdminFront), _)) if dashboard::is_wanted(&head.headers) => {
                Ok(dashboard::answer(dashboard::PAGE, id.clone()))
            }
            Ok((Endpoint::Page(Page::History), caller)) => history::answer(app, &caller, head.uri.query())
                .map(|body| respond::json(StatusCode::OK, body, id.clone())),
            Ok((Endpoint::Page(page), caller)) => show(app, &caller, page, &head.headers, &id),
            Err(refusal) => Err(refusal),
        }
    });
    // Boxed, and apart: nearly nobody has a trace.
    let (outcome, context) = match context {
        None => (answering.as_mut().await, None),
        context => Box::pin(trace::during(context, answering)).await,
    };
    let mut response = outcome.unwrap_or_else(|refusal| {
        access::report_refused(app, &refusal);
        let is_unread = matches!(refusal.code, Code::Unauthorized | Code::Forbidden) && is_long;
        if refusal.code == Code::BodyTooLarge || is_unread {
            // The caller is still sending: closing on it at once could destroy the answer on its way.
            progress.linger();
        }
        respond::refusal(&refusal, path, id.clone())
    });
    if let Some(told) = context.and_then(|context| context.header()) {
        response.headers_mut().insert(trace::PARENT, told);
    }
    response
}

fn guard(surface: Surface, is_unix: bool, routed: &Result<Endpoint, Refusal>) -> Guard {
    let guard = match routed {
        Ok(endpoint) => endpoint.guard(surface),
        Err(_) if surface == Surface::Admin => Guard::Host,
        Err(_) => Guard::Origin,
    };
    match guard {
        // No browser gets to a Unix socket: whoever does chooses any name for it.
        Guard::Host if is_unix => Guard::Origin,
        guard => guard,
    }
}

/// Who asks for an endpoint, if they may.
fn caller(
    app: &App,
    last_caller: &LastCaller,
    endpoint: Endpoint,
    headers: &HeaderMap,
) -> Result<Arc<Caller>, Refusal> {
    let presented = match endpoint {
        Endpoint::ForwardAuth => access::own_header(headers),
        _ => access::presented(headers),
    };
    last_caller.permitted(&app.tokens, presented, endpoint.permission())
}

async fn decision(
    app: &App,
    caller: &Caller,
    call: Call,
    head: &Parts,
    incoming: Incoming,
    id: &RequestId,
) -> Result<HttpResponse, Refusal> {
    let body = body::read(incoming).await?;
    let deciding = decide::decide(app, caller, call, &body, id.as_str());
    let (decided, is_repeated) = match idempotency::key(&head.headers)? {
        None => (deciding.await?, false),
        Some(key) => {
            let (name, request) = ((caller.tenant(), key), (head.uri.path(), &*body));
            Box::pin(app.idempotency.answer(name, request, app.clock.now().now, deciding)).await?
        }
    };
    let mut response = respond::json(StatusCode::OK, decided.body, id.clone());
    if is_repeated {
        respond::add_replayed(&mut response);
    }
    Ok(response)
}

/// Envoy's rate limit service as JSON: 200 or 429.
async fn envoy_json(
    app: &App,
    caller: &Caller,
    incoming: Incoming,
    id: &RequestId,
) -> Result<HttpResponse, Refusal> {
    let body = body::read(incoming).await?;
    let request = JsonRequest::read(&body)?;
    envoy::decide(app, caller, &request.asked(), |verdict| {
        let status = if verdict.allowed { StatusCode::OK } else { StatusCode::TOO_MANY_REQUESTS };
        let mut response = respond::json(status, envoy::to_json(verdict), id.clone());
        verdict.each_header(|header, value| respond::add_header(&mut response, header, value));
        response
    })
    .await
}

fn show(
    app: &App,
    caller: &Caller,
    page: Page,
    headers: &HeaderMap,
    id: &RequestId,
) -> Result<HttpResponse, Refusal> {
    let json = |body| respond::json(StatusCode::OK, body, id.clone());
    Ok(match page {
        Page::Front => respond::text(front(headers), id.clone()),
        Page::AdminFront => respond::text(ADMIN_FRONT, id.clone()),
        Page::Healthy => respond::text("ok\n", id.clone()),
        Page::Ready => {
            let (is_ready, body) = admin::ready(app);
            let status = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
            respond::json(status, body, id.clone())
        }
        Page::State => json(admin::state(app, caller)),
        Page::Rules => json(admin::rules(app, caller)),
        Page::Shadow => json(admin::shadow(app, caller)),
        Page::Top => json(admin::top(app, caller)),
        Page::Why | Page::History => unreachable!("they have questions, and are answered elsewhere"),
        Page::OpenApi => json(openapi::DOCUMENT.into()),
        Page::Metrics => {
            caller.require_operator()?;
            respond::text(metrics::text(app), id.clone())
        }
    })
}

/// What a person sees who opens the operators' address in a browser.
const ADMIN_FRONT: &str = concat!(
    "This is Tidegate ",
    env!("CARGO_PKG_VERSION"),
    ", a rate limiter. A browser shows the dashboard here. Operators also find:\n\n",
    "  /metrics   what it has counted, for Prometheus\n",
    "  /v1/state  this node and what it has counted\n",
    "  /v1/rules  the rules in force and what they mean\n",
    "  /v1/shadow whom shadow rules would have denied\n",
    "  /v1/top    who comes most often, and who is denied most\n",
    "  /v1/why    why callers were denied: ?identifier=, ?rule=, ?request_id=, ...\n",
    "  /v1/history the last fifteen minutes, second by second; a day with ?range=24h\n",
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
         \"rate_per_s\":0.1,\"burst\":5}}'\n\n\
         Five pass at once. The sixth says \"allowed\":false, and when to come back: one is free every ten seconds.\n\
         Everything that it answers: http://{host}/openapi.json\n",
        env!("CARGO_PKG_VERSION"),
    )
}
