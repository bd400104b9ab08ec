//! Unkey's rate limit API, `POST /v2/ratelimit.*`: its clients work with only the base URL changed.
//!
//! Converts, and keeps the overrides that its callers set. A limit is the engine's own, of the namespace that the
//! caller names, so `/v1/limit` and `/v1/reset` reach the same counts. Must never answer in another form than
//! Unkey's envelope: its clients can't read one.

mod decide;
mod envelope;
mod journal;
mod namespace;
mod overrides;
mod requests;

pub(crate) use envelope::refusal_json;
pub use overrides::Overrides;

use crate::App;
use crate::access::{Caller, Permission};
use crate::decide::Reply;
use crate::refusal::{Code, Refusal, excerpt};
use crate::request_id::RequestId;
use crate::respond::{self, HttpResponse};
use crate::{body, idempotency};
use hyper::StatusCode;
use hyper::body::Incoming;
use hyper::http::request::Parts;
use overrides::{Change, Override};
use requests::{Listing, Named, Setting};

const PATH_START: &str = "/v2/ratelimit.";
/// Of everything of Unkey's, most of which isn't here.
const VERSION: &str = "/v2/";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Operation {
    Limit,
    MultiLimit,
    SetOverride,
    GetOverride,
    ListOverrides,
    DeleteOverride,
}

impl Operation {
    pub(crate) const fn permission(self) -> Permission {
        match self {
            Operation::Limit | Operation::MultiLimit => Permission::Check,
            Operation::GetOverride | Operation::ListOverrides => Permission::Read,
            Operation::SetOverride | Operation::DeleteOverride => Permission::Admin,
        }
    }

    pub(crate) const fn is_of_overrides(self) -> bool {
        !matches!(self, Operation::Limit | Operation::MultiLimit)
    }

    pub(crate) fn at(path: &str) -> Option<Self> {
        Some(match path.strip_prefix(PATH_START)? {
            "limit" => Operation::Limit,
            "multiLimit" => Operation::MultiLimit,
            "setOverride" => Operation::SetOverride,
            "getOverride" => Operation::GetOverride,
            "listOverrides" => Operation::ListOverrides,
            "deleteOverride" => Operation::DeleteOverride,
            _ => return None,
        })
    }
}

/// Whether whoever asks at this path expects Unkey's envelope, also for what is refused.
pub(crate) fn owns(path: &str) -> bool {
    path.starts_with(VERSION)
}

pub(crate) async fn answer(
    app: &App,
    caller: &Caller,
    operation: Operation,
    head: &Parts,
    incoming: Incoming,
    id: &RequestId,
) -> Result<HttpResponse, Refusal> {
    let tenant = caller.tenant();
    let body = body::read(incoming).await?;
    let replying = reply(app, operation, tenant, &body, id.as_str());
    let (reply, is_repeated) = match idempotency::key(&head.headers)? {
        None => (replying.await?, false),
        Some(key) => {
            let request = (head.uri.path(), &*body);
            app.idempotency.answer((tenant, key), request, app.clock.now().now, replying).await?
        }
    };
    let mut response = respond::json(StatusCode::OK, reply.body, id.clone());
    if is_repeated {
        respond::add_replayed(&mut response);
    }
    Ok(response)
}

async fn reply(
    app: &App,
    operation: Operation,
    tenant: &str,
    body: &[u8],
    request_id: &str,
) -> Result<Reply, Refusal> {
    let body = match operation {
        Operation::Limit => return decide::limit(app, tenant, body, request_id).await,
        Operation::MultiLimit => return decide::multi_limit(app, tenant, body, request_id).await,
        Operation::SetOverride => set_override(app, tenant, body, request_id).await?,
        Operation::GetOverride => get_override(app, tenant, body, request_id)?,
        Operation::ListOverrides => list_overrides(app, tenant, body, request_id)?,
        Operation::DeleteOverride => delete_override(app, tenant, body, request_id).await?,
    };
    Ok(Reply { body, retry_after: None })
}

/// What fuzzing calls: a body of an operation; what changes overrides is read, and not done.
#[cfg(feature = "fuzz")]
pub(crate) async fn fuzz(app: &App, operation: u8, body: &[u8]) -> Result<Option<Vec<u8>>, Refusal> {
    Ok(match operation % 6 {
        0 => Some(decide::limit(app, "default", body, "id").await?.body),
        1 => Some(decide::multi_limit(app, "default", body, "id").await?.body),
        2 => Some(get_override(app, "default", body, "id")?),
        3 => Some(list_overrides(app, "default", body, "id")?),
        4 => Setting::read(body).map(|_| None)?,
        _ => journal::fuzz(body).map(|()| None)?,
    })
}

async fn set_override(app: &App, tenant: &str, body: &[u8], request_id: &str) -> Result<Vec<u8>, Refusal> {
    let Setting { named, limit, period } = Setting::read(body)?;
    let to = Some(Override::new(limit, period));
    let set = app.overrides.change(Change::new(tenant, &named, to)).await?;
    let id = set.as_ref().map_or("", Override::id);
    Ok(envelope::override_id(request_id, id))
}

fn get_override(app: &App, tenant: &str, body: &[u8], request_id: &str) -> Result<Vec<u8>, Refusal> {
    let named = Named::read(body)?;
    let in_force = app.overrides.in_force();
    let namespace = in_force.namespace(tenant, &named.namespace);
    let found = namespace.and_then(|namespace| namespace.named(&named.identifier));
    let (identifier, found) = found.ok_or_else(|| unknown_override(&named.namespace, &named.identifier))?;
    Ok(envelope::one_override(request_id, identifier, found))
}

fn list_overrides(app: &App, tenant: &str, body: &[u8], request_id: &str) -> Result<Vec<u8>, Refusal> {
    let Listing { namespace, cursor, count_max } = Listing::read(body)?;
    let in_force = app.overrides.in_force();
    let from = cursor.as_deref().unwrap_or("");
    let all = in_force.namespace(tenant, &namespace).map(|namespace| namespace.from(from));
    Ok(envelope::page(request_id, all.into_iter().flatten(), count_max))
}

async fn delete_override(app: &App, tenant: &str, body: &[u8], request_id: &str) -> Result<Vec<u8>, Refusal> {
    let named = Named::read(body)?;
    app.overrides.change(Change::new(tenant, &named, None)).await?;
    Ok(envelope::nothing(request_id))
}

#[cold]
fn unknown_override(namespace: &str, identifier: &str) -> Refusal {
    let message = format!("namespace `{}` has no override for `{}`", excerpt(namespace), excerpt(identifier));
    let fix = "give the identifier as it was set, with its wildcards; listOverrides shows them";
    Refusal::of_field(Code::UnknownOverride, "identifier", message, fix)
}
