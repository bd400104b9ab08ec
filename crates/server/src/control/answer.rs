//! One request to a control plane: who sends it, what it is about, and the answer.

use super::problem::Problem;
use super::query::Query;
use super::{ControlApp, openapi, own, read, why, write};
use crate::access::{self, Caller, LastCaller, Permission};
use crate::cross_site::Guard;
use crate::progress::Progress;
use crate::refusal::{Code, Refusal, excerpt};
use crate::request_id::RequestId;
use crate::respond::{self, HttpResponse};
use crate::trace::{self, TraceContext};
use crate::wire::nearest;
use crate::{body, cross_site};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Method, Request, StatusCode};
use std::sync::Arc;
use tidegate_control::plane::ControlPlane;
use tidegate_node::spans;

/// Of what may hold all rules, or many overrides.
const BODY_BYTES_MAX: usize = 16 << 20;
/// Where the next page of lines begins.
const NEXT: HeaderName = HeaderName::from_static("x-tidegate-next");

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Endpoint {
    Front,
    OpenApi,
    Healthy,
    Ready,
    Metrics,
    State,
    Nodes,
    Why,
    Rules,
    Push,
    History,
    Version(u64),
    Watch,
    Export,
    Import,
    Backup,
    Restore,
    RollBack,
    Mode,
    Reset,
    Overrides,
    SetOverride,
    RemoveOverride,
}

pub(super) const PATHS: [&str; 19] = [
    "/v1/rules",
    "/v1/rules/history",
    "/v1/rules/watch",
    "/v1/rules/export",
    "/v1/rules/import",
    "/v1/rules/backup",
    "/v1/rules/restore",
    "/v1/rules/rollback",
    "/v1/rules/mode",
    "/v1/rules/reset",
    "/v1/overrides",
    "/v1/state",
    "/v1/nodes",
    "/v1/why",
    "/metrics",
    "/healthz",
    "/readyz",
    "/openapi.json",
    "/",
];

/// What was made for a caller.
pub(super) enum ControlResponse {
    Json(Vec<u8>),
    Text(String),
    /// JSON lines, and where the next page begins.
    Lines(Vec<u8>, Option<String>),
    Unready(Vec<u8>),
}

/// A request to the control plane's API, without its body.
pub(super) struct ControlRequest<'a> {
    pub(super) plane: &'a ControlPlane,
    pub(super) caller: &'a Caller,
    pub(super) query: Option<&'a str>,
}

impl ControlRequest<'_> {
    pub(super) fn query(&self, known: &[&str]) -> Result<Query, Problem> {
        Query::read(self.query, known)
    }

    /// Whose rules the caller may see and change; `None` for everybody's.
    pub(super) fn tenant(&self) -> Option<&str> {
        (!self.caller.is_operator()).then(|| self.caller.tenant())
    }
}

pub(super) async fn answer(
    app: &ControlApp,
    progress: &Progress,
    last_caller: &LastCaller,
    request: Request<Incoming>,
) -> HttpResponse {
    let (head, incoming) = request.into_parts();
    let id = RequestId::of(&head.headers);
    let path = head.uri.path();
    let permitted = cross_site::refuse(Guard::Host, &app.tokens, &head.headers)
        .and_then(|()| endpoint(&head.method, path))
        .and_then(|endpoint| {
            let presented = access::presented(&head.headers);
            // Needs no token, and says more to an operator.
            if endpoint == Endpoint::Ready
                && let Ok(caller) = last_caller.caller(&app.tokens, presented)
            {
                return Ok((endpoint, caller));
            }
            Ok((endpoint, last_caller.permitted(&app.tokens, presented, endpoint.permission())?))
        });
    let mut span = None;
    let made = match permitted {
        Ok((endpoint, caller)) => {
            let context = TraceContext::of(&head.headers);
            let begun = app.clock.as_ref().filter(|_| endpoint.takes_body());
            span = begun.map(|clock| TraceContext::change(context.as_deref(), clock));
            let made = made(app, endpoint, &caller, head.uri.query(), incoming);
            let made = match endpoint.permission().filter(|_| endpoint.waits()) {
                // Rules may change long after the token was verified.
                Some(permission) => tokio::select! {
                    biased;
                    refusal = app.tokens.until_revoked(&caller, permission) => Err(refusal.into()),
                    made = made => made,
                },
                None => made.await,
            };
            if let (Some(span), Some(clock)) = (&mut span, &app.clock) {
                span.ended = clock.now().now;
                span.is_error = made.is_err();
                span.attributes =
                    vec![("http.request.method", head.method.to_string()), ("url.path", path.to_owned())];
                spans::record(span.clone());
            }
            made
        }
        Err(refusal) => {
            progress.linger();
            Err(refusal.into())
        }
    };
    let mut response = match made {
        Ok(ControlResponse::Json(body)) => respond::json(StatusCode::OK, body, id),
        Ok(ControlResponse::Unready(body)) => respond::json(StatusCode::SERVICE_UNAVAILABLE, body, id),
        Ok(ControlResponse::Text(text)) => respond::text(text, id),
        Ok(ControlResponse::Lines(lines, next)) => {
            let mut response = respond::json_lines(lines, id);
            if let Some(next) = next.and_then(|next| HeaderValue::from_str(&next).ok()) {
                response.headers_mut().insert(NEXT, next);
            }
            response
        }
        Err(problem) => {
            if problem.status == StatusCode::PAYLOAD_TOO_LARGE {
                progress.linger();
            }
            refused(&problem, path, id)
        }
    };
    if let Some(told) = span.and_then(|span| HeaderValue::from_str(&trace::header_value(span.trace)).ok()) {
        response.headers_mut().insert(trace::PARENT, told);
    }
    response
}

fn refused(problem: &Problem, path: &str, id: RequestId) -> HttpResponse {
    let mut response = respond::json(problem.status, problem.to_json(), id);
    let headers = response.headers_mut();
    match problem.status {
        StatusCode::METHOD_NOT_ALLOWED => {
            headers.insert(ALLOW, HeaderValue::from_static(methods(path)));
        }
        StatusCode::UNAUTHORIZED => {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        _ => {}
    }
    response
}

async fn made(
    app: &ControlApp,
    endpoint: Endpoint,
    caller: &Arc<Caller>,
    query: Option<&str>,
    incoming: Incoming,
) -> Result<ControlResponse, Problem> {
    if endpoint == Endpoint::Why {
        return why::answer(app, caller, query).await;
    }
    if let Some(made) = made_anywhere(app, endpoint, caller)? {
        return Ok(made);
    }
    let Some(plane) = &app.plane else { return Err(broker()) };
    let asked = ControlRequest { plane, caller, query };
    let body = match endpoint.takes_body() {
        true => body::read_up_to(incoming, BODY_BYTES_MAX).await?,
        false => Bytes::new(),
    };
    match endpoint {
        Endpoint::Front
        | Endpoint::OpenApi
        | Endpoint::Healthy
        | Endpoint::Ready
        | Endpoint::Metrics
        | Endpoint::State
        | Endpoint::Nodes
        | Endpoint::Why => unreachable!("answered above"),
        Endpoint::Rules => write::rules(&asked).await,
        Endpoint::History => write::history(&asked).await,
        Endpoint::Version(version) => write::version(&asked, version).await,
        Endpoint::Watch => write::watch(&asked).await,
        Endpoint::Export => write::export(&asked).await,
        Endpoint::Backup => write::backup(&asked).await,
        Endpoint::Overrides => write::overrides(&asked).await,
        Endpoint::Push => read::push(&asked, &body).await,
        Endpoint::Import => read::import(&asked, &body).await,
        Endpoint::Restore => read::restore(&asked, &body).await,
        Endpoint::RollBack => read::roll_back(&asked, &body).await,
        Endpoint::Mode => read::mode(&asked, &body).await,
        Endpoint::Reset => read::reset(&asked, &body).await,
        Endpoint::SetOverride => read::set_override(&asked, &body).await,
        Endpoint::RemoveOverride => read::remove_override(&asked, &body).await,
    }
}

/// What brokers answer too.
fn made_anywhere(
    app: &ControlApp,
    endpoint: Endpoint,
    caller: &Caller,
) -> Result<Option<ControlResponse>, Problem> {
    Ok(Some(match endpoint {
        Endpoint::Front => ControlResponse::Text(FRONT.to_owned()),
        Endpoint::OpenApi => ControlResponse::Json(openapi::DOCUMENT.into()),
        Endpoint::Healthy => ControlResponse::Text("ok\n".to_owned()),
        Endpoint::Ready => own::ready(app, !app.tokens.are_required() || own::is_operator(caller)),
        Endpoint::Metrics => {
            caller.require_operator()?;
            ControlResponse::Text(crate::metrics::control_text(app))
        }
        Endpoint::State if !caller.is_operator() => ControlResponse::Json(own::state_for_tenant(app, caller)),
        Endpoint::State => ControlResponse::Json(own::state(app)),
        Endpoint::Nodes => {
            caller.require_operator()?;
            ControlResponse::Json(own::nodes(app))
        }
        _ => return Ok(None),
    }))
}

#[cold]
fn broker() -> Problem {
    let message = "this is a broker: it hands rules on, and has none of its own";
    Refusal::new(Code::UnknownPath, message, "ask the control plane that it follows; /v1/state names it")
        .into()
}

impl Endpoint {
    const fn permission(self) -> Option<Permission> {
        match self {
            Endpoint::Front | Endpoint::OpenApi | Endpoint::Healthy | Endpoint::Ready => None,
            endpoint if endpoint.takes_body() => Some(Permission::Admin),
            _ => Some(Permission::Read),
        }
    }

    /// Whether its answer may come long after its token was verified.
    const fn waits(self) -> bool {
        matches!(self, Endpoint::Watch | Endpoint::Why)
    }

    const fn takes_body(self) -> bool {
        matches!(
            self,
            Endpoint::Push
                | Endpoint::Import
                | Endpoint::Restore
                | Endpoint::RollBack
                | Endpoint::Mode
                | Endpoint::Reset
                | Endpoint::SetOverride
                | Endpoint::RemoveOverride
        )
    }
}

/// All that is at a path, by method.
fn at(path: &str) -> Option<Vec<(Method, Endpoint)>> {
    let get = |endpoint| vec![(Method::GET, endpoint), (Method::HEAD, endpoint)];
    let post = |endpoint| vec![(Method::POST, endpoint)];
    Some(match path {
        "/" => get(Endpoint::Front),
        "/openapi.json" => get(Endpoint::OpenApi),
        "/healthz" => get(Endpoint::Healthy),
        "/readyz" => get(Endpoint::Ready),
        "/metrics" => get(Endpoint::Metrics),
        "/v1/state" => get(Endpoint::State),
        "/v1/nodes" => get(Endpoint::Nodes),
        "/v1/why" => get(Endpoint::Why),
        "/v1/rules" => [get(Endpoint::Rules), post(Endpoint::Push)].concat(),
        "/v1/rules/history" => get(Endpoint::History),
        "/v1/rules/watch" => get(Endpoint::Watch),
        "/v1/rules/export" => get(Endpoint::Export),
        "/v1/rules/backup" => get(Endpoint::Backup),
        "/v1/rules/import" => post(Endpoint::Import),
        "/v1/rules/restore" => post(Endpoint::Restore),
        "/v1/rules/rollback" => post(Endpoint::RollBack),
        "/v1/rules/mode" => post(Endpoint::Mode),
        "/v1/rules/reset" => post(Endpoint::Reset),
        "/v1/overrides" => [
            get(Endpoint::Overrides),
            vec![(Method::PUT, Endpoint::SetOverride), (Method::DELETE, Endpoint::RemoveOverride)],
        ]
        .concat(),
        path => get(Endpoint::Version(path.strip_prefix("/v1/rules/")?.parse().ok()?)),
    })
}

pub(super) fn endpoint(method: &Method, path: &str) -> Result<Endpoint, Refusal> {
    let Some(endpoints) = at(path) else { return Err(unknown_path(path)) };
    let found = endpoints.into_iter().find(|(other, _)| other == method);
    found.map(|(_, endpoint)| endpoint).ok_or_else(|| {
        let message = format!("`{}` doesn't take {}", excerpt(path), excerpt(method.as_str()));
        Refusal::new(Code::WrongMethod, message, format!("use {}", methods(path)))
    })
}

fn methods(path: &str) -> &'static str {
    match path {
        "/v1/rules" => "GET, HEAD, POST",
        "/v1/overrides" => "GET, HEAD, PUT, DELETE",
        path if at(path).is_some_and(|all| all.iter().any(|(method, _)| *method == Method::POST)) => "POST",
        _ => "GET, HEAD",
    }
}

#[cold]
fn unknown_path(path: &str) -> Refusal {
    let message = format!("there is nothing at `{}`; known paths: {}", excerpt(path), PATHS.join(", "));
    let fix = match nearest(path, PATHS.iter().copied()) {
        Some(candidate) => format!("did you mean `{candidate}`?"),
        None => "use one of the known paths".to_owned(),
    };
    Refusal::new(Code::UnknownPath, message, fix)
}

/// What a person sees who opens the address in a browser.
const FRONT: &str = concat!(
    "This is the control plane of Tidegate ",
    env!("CARGO_PKG_VERSION"),
    ", a rate limiter. `tidegate rules --help` says how to use it.\n\n",
    "  /v1/rules          the rules, and their version\n",
    "  /v1/rules/history  who changed them, when and why\n",
    "  /v1/nodes          which node runs which version\n",
    "  /v1/why            why callers were denied, from all nodes\n",
    "  /v1/state          this process\n",
    "  /metrics           for Prometheus\n",
    "  /readyz            whether it has reached its store\n",
    "  /openapi.json      everything that it answers\n",
);
