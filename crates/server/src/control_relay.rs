//! The few of a control plane's endpoints that the dashboard and Unkey's API need, handed on with the caller's own token,
//! so that the page has one origin.
//!
//! Decides nothing, keeps nothing, and adds nothing to what the caller may do: whatever is refused is refused there.
//! Only the endpoints named here, each with a deadline and a bound; a control plane that hangs costs nobody but who asked.

use crate::App;
use crate::access::{self, Permission};
use crate::body;
use crate::json::write;
use crate::refusal::{Code, Refusal};
use crate::request_id::RequestId;
use crate::respond::{self, HttpResponse};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use std::time::Duration;
use tidegate_control::stream::Endpoint;
use tokio::sync::Semaphore;
use tokio::time::timeout;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Less than a caller's own patience: whoever waits is told.
const REPLY_TIMEOUT: Duration = Duration::from_secs(6);
const ANSWER_BYTES_MAX: usize = 4 << 20;
/// Where a control plane says that the next page begins.
const NEXT: HeaderName = HeaderName::from_static("x-tidegate-next");
/// At one time, for all callers.
static ROOM: Semaphore = Semaphore::const_new(8);

/// What is handed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RelayBody {
    Rules,
    /// Also as a dry run, which shows what it would mean.
    Push,
    History,
    /// One version with all that it changed, `?version=`.
    Version,
    RollBack,
    Nodes,
    Overrides,
    SetOverride,
    RemoveOverride,
}

impl RelayBody {
    pub(crate) fn at(path: &str, method: &Method) -> Option<Self> {
        Some(match path.strip_prefix("/v1/control/")? {
            "rules" if method == Method::POST => RelayBody::Push,
            "rules" => RelayBody::Rules,
            "history" => RelayBody::History,
            "rollback" => RelayBody::RollBack,
            "nodes" => RelayBody::Nodes,
            "overrides" if method == Method::PUT => RelayBody::SetOverride,
            "overrides" if method == Method::DELETE => RelayBody::RemoveOverride,
            "overrides" => RelayBody::Overrides,
            "version" => RelayBody::Version,
            _ => return None,
        })
    }

    pub(crate) fn permission(self) -> Permission {
        if self.method() == Method::GET { Permission::Read } else { Permission::Admin }
    }

    pub(crate) const fn method(self) -> Method {
        match self {
            RelayBody::Rules
            | RelayBody::History
            | RelayBody::Version
            | RelayBody::Nodes
            | RelayBody::Overrides => Method::GET,
            RelayBody::Push | RelayBody::RollBack => Method::POST,
            RelayBody::SetOverride => Method::PUT,
            RelayBody::RemoveOverride => Method::DELETE,
        }
    }

    /// The methods of a path, for the `Allow` header.
    pub(crate) const fn methods(self) -> &'static str {
        match self {
            RelayBody::Rules | RelayBody::Push => "GET, POST",
            RelayBody::History | RelayBody::Version | RelayBody::Nodes => "GET",
            RelayBody::RollBack => "POST",
            RelayBody::Overrides | RelayBody::SetOverride | RelayBody::RemoveOverride => "GET, PUT, DELETE",
        }
    }

    /// Where the control plane has it.
    fn path(self, query: Option<&str>) -> Result<String, Refusal> {
        let path = match self {
            RelayBody::Rules | RelayBody::Push => "/v1/rules",
            RelayBody::History => "/v1/rules/history",
            RelayBody::Version => {
                let version = query.and_then(|query| query.strip_prefix("version=")?.parse::<u64>().ok());
                return version.map(|version| format!("/v1/rules/{version}")).ok_or_else(no_version);
            }
            RelayBody::RollBack => "/v1/rules/rollback",
            RelayBody::Nodes => "/v1/nodes",
            RelayBody::Overrides | RelayBody::SetOverride | RelayBody::RemoveOverride => "/v1/overrides",
        };
        Ok(query.map_or_else(|| path.to_owned(), |query| format!("{path}?{query}")))
    }
}

/// What is asked of a control plane, with the token of whoever wants it.
pub(crate) struct Question<'a> {
    pub(crate) method: Method,
    /// With its query.
    pub(crate) path: String,
    pub(crate) token: Option<&'a [u8]>,
    pub(crate) body: Bytes,
}

/// What a control plane answered.
pub(crate) struct RelayAnswer {
    pub(crate) status: StatusCode,
    pub(crate) body: Bytes,
    /// Where the next page of lines begins.
    pub(crate) next: Option<String>,
}

impl RelayAnswer {
    /// Every control plane has what is asked for here.
    fn is_of_a_broker(&self) -> bool {
        let code = Code::UnknownPath.word().as_bytes();
        self.status == StatusCode::NOT_FOUND && self.body.windows(code.len()).any(|window| window == code)
    }

    /// Lines of JSON as one object, for pages.
    fn listed(&self) -> Vec<u8> {
        let mut out = b"{\"overrides\":[".to_vec();
        let lines = self.body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        for (index, line) in lines.enumerate() {
            if index > 0 {
                out.push(b',');
            }
            out.extend_from_slice(line);
        }
        out.extend_from_slice(b"],\"next\":");
        write::optional_string(&mut out, self.next.as_deref());
        out.extend_from_slice(b"}\n");
        out
    }
}

pub(crate) async fn answer(
    app: &App,
    relayed: RelayBody,
    head: &Parts,
    incoming: Incoming,
    id: &RequestId,
) -> Result<HttpResponse, Refusal> {
    let path = relayed.path(head.uri.query())?;
    let body = body::read(incoming).await?;
    let token = access::presented(&head.headers);
    let answered = ask(app, &Question { method: relayed.method(), path, token, body }).await?;
    let is_list = relayed == RelayBody::Overrides && answered.status == StatusCode::OK;
    let body = if is_list { answered.listed() } else { answered.body.to_vec() };
    Ok(respond::json(answered.status, body, id.clone()))
}

/// Asks the control plane that this node follows.
pub(crate) async fn ask(app: &App, question: &Question<'_>) -> Result<RelayAnswer, Refusal> {
    let Some(view) = &app.following else { return Err(no_control_plane()) };
    let Ok(_room) = ROOM.try_acquire() else { return Err(busy()) };
    let servers = view.servers().as_slice();
    // The one that is followed first; a broker has no rules of its own, but another of them may.
    let first = view.status().0.server.min(servers.len().saturating_sub(1));
    let mut problem = no_control_plane();
    for server in servers[first..].iter().chain(&servers[..first]) {
        match timeout(REPLY_TIMEOUT, send(server, question)).await {
            Ok(Ok(answered)) if answered.is_of_a_broker() => problem = broker(server),
            Ok(Ok(answered)) => return Ok(answered),
            // It may have been made: trying another could make it twice.
            Ok(Err(RelayError::Unanswered(reason))) => return Err(away(server, &reason)),
            Ok(Err(RelayError::Unreached(reason))) => problem = away(server, &reason),
            Err(_) => return Err(away(server, "no answer in time")),
        }
    }
    Err(problem)
}

enum RelayError {
    /// Nothing was sent.
    Unreached(String),
    Unanswered(String),
}

async fn send(server: &Endpoint, question: &Question<'_>) -> Result<RelayAnswer, RelayError> {
    let unanswered = |error: hyper::Error| RelayError::Unanswered(error.to_string());
    let stream = timeout(CONNECT_TIMEOUT, server.connect_for_http()).await;
    let stream =
        stream.unwrap_or_else(|_| Err("no connection in time".to_owned())).map_err(RelayError::Unreached)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(unanswered)?;
    let request = request(server, question).map_err(RelayError::Unreached)?;
    let exchange = async {
        let response = sender.send_request(request).await.map_err(unanswered)?;
        let status = response.status();
        let next = response.headers().get(NEXT).and_then(|next| next.to_str().ok()).map(str::to_owned);
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| RelayError::Unanswered(error.to_string()))?.to_bytes();
        Ok(RelayAnswer { status, body, next })
    };
    // The connection does the work, and ends with what was asked for.
    tokio::select! {
        answered = exchange => answered,
        Err(error) = connection => Err(unanswered(error)),
    }
}

fn request(server: &Endpoint, question: &Question<'_>) -> Result<Request<Full<Bytes>>, String> {
    let unfit = |_| "the request can't be written".to_owned();
    let mut request = Request::builder()
        .method(&question.method)
        .uri(&question.path)
        .header(HOST, server.authority())
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(question.body.clone()))
        .map_err(unfit)?;
    if let Some(token) = question.token {
        let mut value = HeaderValue::from_bytes(&[b"Bearer ", token].concat())
            .map_err(|_| "the token has characters that no header takes".to_owned())?;
        value.set_sensitive(true);
        request.headers_mut().insert(AUTHORIZATION, value);
    }
    Ok(request)
}

#[cold]
fn no_version() -> Refusal {
    let message = "`version` is missing, or isn't a whole number";
    Refusal::of_field(Code::MissingField, "version", message, "give one of the history, such as ?version=7")
}

#[cold]
fn no_control_plane() -> Refusal {
    let message = "this node's rules don't come from a control plane";
    Refusal::new(Code::NoControlPlane, message, "change its rules file; or set `rules.control`")
}

#[cold]
fn busy() -> Refusal {
    let message = "the control plane is being asked for eight others";
    Refusal::new(Code::ControlUnavailable, message, "try again in a second")
}

#[cold]
fn broker(server: &Endpoint) -> Refusal {
    let message = format!("{server} is a broker: it hands rules on, and has none of its own");
    let fix =
        "open the dashboard of a node that follows the control plane, or use `tidegate rules --control URL`";
    Refusal::new(Code::ControlUnavailable, message, fix)
}

#[cold]
fn away(server: &Endpoint, reason: &str) -> Refusal {
    let message = format!("the control plane at {server} can't be asked: {reason}");
    Refusal::new(Code::ControlUnavailable, message, "try again when it answers; rules in force stay in force")
}
