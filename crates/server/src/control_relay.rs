//! The few of a control plane's endpoints that the dashboard needs, handed on with the caller's own token, so that the
//! page has one origin.
//!
//! Decides nothing, keeps nothing, and adds nothing to what the caller may do: whatever is refused is refused there.
//! Only the endpoints named here, each with a deadline and a bound; a control plane that hangs costs nobody but who asked.

use crate::App;
use crate::access::{self, Permission};
use crate::body;
use crate::refusal::{Code, Refusal};
use crate::request_id::RequestId;
use crate::respond::{self, HttpResponse};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use std::time::Duration;
use tidegate_control::stream::Endpoint;
use tokio::sync::Semaphore;
use tokio::time::timeout;

const CONNECT_WITHIN: Duration = Duration::from_secs(2);
/// Less than a caller's own patience: whoever waits is told.
const ANSWER_WITHIN: Duration = Duration::from_secs(6);
const ANSWER_BYTES_MAX: usize = 4 << 20;
/// At one time, for all callers.
static ROOM: Semaphore = Semaphore::const_new(8);

/// What is handed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Relayed {
    Rules,
    /// Also as a dry run, which shows what it would mean.
    Push,
    History,
    Nodes,
}

impl Relayed {
    pub(crate) fn at(path: &str, method: &Method) -> Option<Self> {
        Some(match path {
            "/v1/control/rules" if method == Method::POST => Relayed::Push,
            "/v1/control/rules" => Relayed::Rules,
            "/v1/control/history" => Relayed::History,
            "/v1/control/nodes" => Relayed::Nodes,
            _ => return None,
        })
    }

    pub(crate) const fn permission(self) -> Permission {
        match self {
            Relayed::Rules | Relayed::History | Relayed::Nodes => Permission::Read,
            Relayed::Push => Permission::Admin,
        }
    }

    pub(crate) const fn method(self) -> Method {
        match self {
            Relayed::Rules | Relayed::History | Relayed::Nodes => Method::GET,
            Relayed::Push => Method::POST,
        }
    }

    const fn path(self) -> &'static str {
        match self {
            Relayed::Rules | Relayed::Push => "/v1/rules",
            Relayed::History => "/v1/rules/history",
            Relayed::Nodes => "/v1/nodes",
        }
    }
}

/// What a control plane answered.
struct Answered {
    status: StatusCode,
    body: Bytes,
}

impl Answered {
    /// Every control plane has what is asked for here.
    fn is_of_a_broker(&self) -> bool {
        let code = Code::UnknownPath.word().as_bytes();
        self.status == StatusCode::NOT_FOUND && self.body.windows(code.len()).any(|window| window == code)
    }
}

pub(crate) async fn answer(
    app: &App,
    relayed: Relayed,
    head: &Parts,
    incoming: Incoming,
    id: &RequestId,
) -> Result<HttpResponse, Refusal> {
    let Some(view) = &app.following else { return Err(no_control_plane()) };
    let body = body::read(incoming).await?;
    let Ok(_room) = ROOM.try_acquire() else { return Err(busy()) };
    let token = access::presented(&head.headers);
    let servers = view.servers().as_slice();
    // The one that is followed first; a broker has no rules of its own, but another of them may.
    let first = view.status().0.server.min(servers.len().saturating_sub(1));
    let mut problem = no_control_plane();
    for server in servers[first..].iter().chain(&servers[..first]) {
        let sent = async { send(server, relayed, token, body.clone()).await };
        match timeout(ANSWER_WITHIN, sent).await {
            Ok(Ok(answered)) if answered.is_of_a_broker() => problem = broker(server),
            Ok(Ok(answered)) => {
                return Ok(respond::json(answered.status, answered.body.to_vec(), id.clone()));
            }
            // It may have been made: trying another could make it twice.
            Ok(Err(Failed::Unanswered(reason))) => return Err(away(server, &reason)),
            Ok(Err(Failed::Unreached(reason))) => problem = away(server, &reason),
            Err(_) => return Err(away(server, "no answer in time")),
        }
    }
    Err(problem)
}

enum Failed {
    /// Nothing was sent.
    Unreached(String),
    Unanswered(String),
}

async fn send(
    server: &Endpoint,
    relayed: Relayed,
    token: Option<&[u8]>,
    body: Bytes,
) -> Result<Answered, Failed> {
    let unanswered = |error: hyper::Error| Failed::Unanswered(error.to_string());
    let stream = timeout(CONNECT_WITHIN, server.connect_for_http()).await;
    let stream =
        stream.unwrap_or_else(|_| Err("no connection in time".to_owned())).map_err(Failed::Unreached)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(unanswered)?;
    let request = request(server, relayed, token, body).map_err(Failed::Unreached)?;
    let exchange = async {
        let response = sender.send_request(request).await.map_err(unanswered)?;
        let status = response.status();
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| Failed::Unanswered(error.to_string()))?.to_bytes();
        Ok(Answered { status, body })
    };
    // The connection does the work, and ends with what was asked for.
    tokio::select! {
        answered = exchange => answered,
        Err(error) = connection => Err(unanswered(error)),
    }
}

fn request(
    server: &Endpoint,
    relayed: Relayed,
    token: Option<&[u8]>,
    body: Bytes,
) -> Result<Request<Full<Bytes>>, String> {
    let unfit = |_| "the request can't be written".to_owned();
    let mut request = Request::builder()
        .method(relayed.method())
        .uri(relayed.path())
        .header(HOST, server.authority())
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(body))
        .map_err(unfit)?;
    if let Some(token) = token {
        let mut value = HeaderValue::from_bytes(&[b"Bearer ", token].concat())
            .map_err(|_| "the token has characters that no header takes".to_owned())?;
        value.set_sensitive(true);
        request.headers_mut().insert(AUTHORIZATION, value);
    }
    Ok(request)
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
