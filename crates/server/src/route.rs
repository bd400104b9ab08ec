//! Which endpoint a path names, on which surface, and by which methods.

use crate::Surface;
use crate::access::Permission;
use crate::control_relay::RelayBody;
use crate::cross_site::Guard;
use crate::dashboard;
use crate::refusal::{Code, Refusal, excerpt};
use crate::unkey::Operation;
use crate::wire::nearest;
use hyper::Method;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Endpoint {
    Decision(Call),
    ForwardAuth,
    /// Envoy's rate limit request as JSON.
    Envoy,
    Unkey(Operation),
    Page(Page),
    /// One of the dashboard's files.
    Dashboard(dashboard::File),
    /// Handed on to the control plane.
    Control(RelayBody),
}

impl Endpoint {
    /// Which headers tell that a page of another site sent a request to it.
    pub(crate) const fn guard(self, surface: Surface) -> Guard {
        match self {
            Endpoint::ForwardAuth => Guard::Forwarded,
            Endpoint::Decision(Call::Reset | Call::Report) => Guard::Host,
            Endpoint::Unkey(operation) if operation.is_of_overrides() => Guard::Host,
            _ => match surface {
                Surface::Admin => Guard::Host,
                Surface::Api | Surface::ApiAndGrpc | Surface::Grpc | Surface::Resp => Guard::Origin,
            },
        }
    }

    /// What a caller needs for it; `None` for what anybody may see.
    pub(crate) fn permission(self) -> Option<Permission> {
        match self {
            Endpoint::Decision(Call::Reset) => Some(Permission::Admin),
            Endpoint::Decision(_) | Endpoint::ForwardAuth | Endpoint::Envoy => Some(Permission::Check),
            Endpoint::Unkey(operation) => Some(operation.permission()),
            Endpoint::Control(relayed) => Some(relayed.permission()),
            // The page has no data in it, and asks for a token itself.
            Endpoint::Dashboard(_) => None,
            Endpoint::Page(Page::Front | Page::AdminFront | Page::Healthy | Page::Ready | Page::OpenApi) => {
                None
            }
            Endpoint::Page(
                Page::State
                | Page::Rules
                | Page::Shadow
                | Page::Top
                | Page::Why
                | Page::History
                | Page::Metrics,
            ) => Some(Permission::Read),
        }
    }
}

/// What is sent to the engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Call {
    Check,
    Limit,
    LimitMany,
    Report,
    Reset,
}

/// What is only shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Page {
    Front,
    AdminFront,
    Healthy,
    Ready,
    State,
    Rules,
    Shadow,
    Top,
    Why,
    History,
    Metrics,
    OpenApi,
}

pub(crate) const API_PATHS: [&str; 17] = [
    "/v1/check",
    "/v1/limit",
    "/v1/limit-many",
    "/v1/report",
    "/v1/reset",
    "/auth",
    "/json",
    "/v2/ratelimit.limit",
    "/v2/ratelimit.multiLimit",
    "/v2/ratelimit.setOverride",
    "/v2/ratelimit.getOverride",
    "/v2/ratelimit.listOverrides",
    "/v2/ratelimit.deleteOverride",
    "/openapi.json",
    "/healthz",
    "/readyz",
    "/",
];
pub(crate) const ADMIN_PATHS: [&str; 17] = [
    "/metrics",
    "/v1/state",
    "/v1/rules",
    "/v1/shadow",
    "/v1/top",
    "/v1/why",
    "/v1/history",
    "/v1/control/rules",
    "/v1/control/history",
    "/v1/control/version",
    "/v1/control/rollback",
    "/v1/control/nodes",
    "/v1/control/overrides",
    "/openapi.json",
    "/healthz",
    "/readyz",
    "/",
];

pub(crate) fn endpoint(surface: Surface, method: &Method, path: &str) -> Result<Endpoint, Refusal> {
    let endpoint = match (surface, path) {
        (Surface::Api, "/v1/limit") => Endpoint::Decision(Call::Limit),
        (Surface::Api, "/v1/check") => Endpoint::Decision(Call::Check),
        (Surface::Api, "/v1/limit-many") => Endpoint::Decision(Call::LimitMany),
        (Surface::Api, "/v1/report") => Endpoint::Decision(Call::Report),
        (Surface::Api, "/v1/reset") => Endpoint::Decision(Call::Reset),
        (Surface::Api, "/auth") => Endpoint::ForwardAuth,
        (Surface::Api, "/json") => Endpoint::Envoy,
        (Surface::Api, "/") => Endpoint::Page(Page::Front),
        (_, "/openapi.json") => Endpoint::Page(Page::OpenApi),
        (_, "/healthz") => Endpoint::Page(Page::Healthy),
        (_, "/readyz") => Endpoint::Page(Page::Ready),
        (Surface::Admin, "/") => Endpoint::Page(Page::AdminFront),
        (Surface::Admin, "/v1/state") => Endpoint::Page(Page::State),
        (Surface::Admin, "/v1/rules") => Endpoint::Page(Page::Rules),
        (Surface::Admin, "/v1/shadow") => Endpoint::Page(Page::Shadow),
        (Surface::Admin, "/v1/top") => Endpoint::Page(Page::Top),
        (Surface::Admin, "/v1/why") => Endpoint::Page(Page::Why),
        (Surface::Admin, "/v1/history") => Endpoint::Page(Page::History),
        (Surface::Admin, "/metrics") => Endpoint::Page(Page::Metrics),
        (Surface::Api, path) if let Some(operation) = Operation::at(path) => Endpoint::Unkey(operation),
        (Surface::Admin, path) if let Some(file) = dashboard::file(path) => Endpoint::Dashboard(file),
        (Surface::Admin, path) if let Some(relayed) = RelayBody::at(path, method) => {
            Endpoint::Control(relayed)
        }
        _ => return Err(unknown_path(surface, path)),
    };
    let fits = match endpoint {
        Endpoint::Decision(_) | Endpoint::Envoy | Endpoint::Unkey(_) => method == Method::POST,
        Endpoint::ForwardAuth => [Method::GET, Method::HEAD, Method::POST].contains(method),
        Endpoint::Control(relayed) => *method == relayed.method(),
        Endpoint::Page(_) | Endpoint::Dashboard(_) => method == Method::GET || method == Method::HEAD,
    };
    if fits { Ok(endpoint) } else { Err(wrong_method(endpoint, method, path)) }
}

/// The methods of the endpoint at a path, for the `Allow` header.
pub(crate) fn allowed_methods(path: &str) -> &'static str {
    match endpoint(Surface::Api, &Method::POST, path) {
        Ok(Endpoint::Decision(_) | Endpoint::Envoy | Endpoint::Unkey(_)) => "POST",
        Ok(Endpoint::ForwardAuth) => "GET, HEAD, POST",
        _ => match RelayBody::at(path, &Method::GET) {
            Some(relayed) => relayed.methods(),
            None => "GET, HEAD",
        },
    }
}

#[cold]
fn unknown_path(surface: Surface, path: &str) -> Refusal {
    let (known, others): (&[&str], &[&str]) = match surface {
        Surface::Api | Surface::ApiAndGrpc | Surface::Grpc | Surface::Resp => (&API_PATHS, &ADMIN_PATHS),
        Surface::Admin => (&ADMIN_PATHS, &API_PATHS),
    };
    // The most likely mistake by far is the other listener's port.
    if others.contains(&path) {
        let (this, other) = match surface {
            Surface::Admin => ("listen.admin", "listen.http (port 8080 unless it is set)"),
            _ => ("listen.http", "listen.admin (port 9090 unless it is set)"),
        };
        let message = format!("there is nothing at `{path}` on this listener, {this}");
        return Refusal::new(Code::UnknownPath, message, format!("ask the node's other listener, {other}"));
    }
    let message = format!("there is nothing at `{}`; known paths: {}", excerpt(path), known.join(", "));
    // `/check` for `/v1/check`.
    let longer = known.iter().copied().find(|candidate| path.len() > 1 && candidate.ends_with(path));
    let fix = match longer.or_else(|| nearest(path, known.iter().copied())) {
        Some(candidate) => format!("did you mean `{candidate}`?"),
        None => "use one of the known paths".to_owned(),
    };
    Refusal::new(Code::UnknownPath, message, fix)
}

#[cold]
fn wrong_method(endpoint: Endpoint, method: &Method, path: &str) -> Refusal {
    let wanted = match endpoint {
        Endpoint::Decision(_) | Endpoint::Envoy | Endpoint::Unkey(_) => "POST with a JSON body",
        Endpoint::ForwardAuth => "GET or POST",
        Endpoint::Control(relayed) => relayed.methods(),
        Endpoint::Page(_) | Endpoint::Dashboard(_) => "GET",
    };
    let message = format!("`{path}` doesn't take {}", excerpt(method.as_str()));
    Refusal::new(Code::WrongMethod, message, format!("use {wanted}"))
}
