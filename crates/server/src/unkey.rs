//! Unkey's rate limit API, `POST /v2/ratelimit.*`: its clients work with only the base URL changed.
//!
//! Converts, and keeps the overrides that its callers set: here, or where there is one at the control plane. A limit is the engine's own, of the namespace that the
//! caller names, so `/v1/limit` and `/v1/reset` reach the same counts. Must never answer in another form than
//! Unkey's envelope: its clients can't read one.

mod decide;
mod envelope;
mod fleet;
mod journal;
mod namespace;
mod overrides;
mod requests;

pub(crate) use envelope::refusal_json;
pub use overrides::Overrides;

use crate::App;
use crate::access::{self, Caller, Permission};
use crate::decide::Reply;
use crate::refusal::{Code, Refusal, excerpt};
use crate::request_id::RequestId;
use crate::respond::{self, HttpResponse};
use crate::{body, idempotency};
use hyper::StatusCode;
use hyper::body::Incoming;
use hyper::http::request::Parts;
use overrides::{Change, Override};
use requests::{LimitTarget, OverrideListing, OverrideSetting};
use std::collections::BTreeMap;
use std::ops::Bound;

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
    let asker = Asker { tenant, token: access::presented(&head.headers), request_id: id.as_str() };
    let replying = reply(app, operation, asker, &body);
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

/// Who asks, and by which request.
#[derive(Clone, Copy)]
struct Asker<'a> {
    tenant: &'a str,
    /// For the control plane, which decides itself what its bearer may do.
    token: Option<&'a [u8]>,
    request_id: &'a str,
}

async fn reply(app: &App, operation: Operation, asker: Asker<'_>, body: &[u8]) -> Result<Reply, Refusal> {
    let Asker { tenant, request_id, .. } = asker;
    let body = match operation {
        Operation::Limit => return decide::limit(app, tenant, body, request_id).await,
        Operation::MultiLimit => return decide::multi_limit(app, tenant, body, request_id).await,
        Operation::SetOverride => Box::pin(set_override(app, asker, body)).await?,
        Operation::GetOverride => Box::pin(get_override(app, asker, body)).await?,
        Operation::ListOverrides => Box::pin(list_overrides(app, asker, body)).await?,
        Operation::DeleteOverride => Box::pin(delete_override(app, asker, body)).await?,
    };
    Ok(Reply { body, retry_after: None })
}

/// What fuzzing calls: a body of an operation; what changes overrides is read, and not done.
#[cfg(feature = "fuzz")]
pub(crate) async fn fuzz(app: &App, operation: u8, body: &[u8]) -> Result<Option<Vec<u8>>, Refusal> {
    let asker = Asker { tenant: "default", token: None, request_id: "id" };
    Ok(match operation % 6 {
        0 => Some(decide::limit(app, "default", body, "id").await?.body),
        1 => Some(decide::multi_limit(app, "default", body, "id").await?.body),
        2 => Some(get_override(app, asker, body).await?),
        3 => Some(list_overrides(app, asker, body).await?),
        4 => OverrideSetting::read(body).map(|_| None)?,
        _ => journal::fuzz(body).map(|()| None)?,
    })
}

async fn set_override(app: &App, asker: Asker<'_>, body: &[u8]) -> Result<Vec<u8>, Refusal> {
    let setting = OverrideSetting::read(body)?;
    if fleet::is_stored_there(app) {
        let id = fleet::set(app, asker.tenant, asker.token, &setting).await?;
        return Ok(envelope::override_id(asker.request_id, &id));
    }
    let OverrideSetting { named, limit, period } = setting;
    let to = Some(Override::new(limit, period));
    let set = app.overrides.change(Change::new(asker.tenant, &named, to)).await?;
    let id = set.as_ref().map_or("", Override::id);
    Ok(envelope::override_id(asker.request_id, id))
}

async fn get_override(app: &App, asker: Asker<'_>, body: &[u8]) -> Result<Vec<u8>, Refusal> {
    let named = LimitTarget::read(body)?;
    let unknown = || unknown_override(&named.namespace, &named.identifier);
    if fleet::is_stored_there(app) {
        let all = fleets_and_own(app, asker, &named.namespace).await?;
        let by_text = all.get_key_value(&*named.identifier);
        let found = by_text.or_else(|| all.iter().find(|(_, found)| found.id() == named.identifier));
        let (identifier, found) = found.ok_or_else(unknown)?;
        return Ok(envelope::one_override(asker.request_id, identifier, found));
    }
    let in_force = app.overrides.in_force();
    let namespace = in_force.namespace(asker.tenant, &named.namespace);
    let found = namespace.and_then(|namespace| namespace.named(&named.identifier));
    let (identifier, found) = found.ok_or_else(unknown)?;
    Ok(envelope::one_override(asker.request_id, identifier, found))
}

async fn list_overrides(app: &App, asker: Asker<'_>, body: &[u8]) -> Result<Vec<u8>, Refusal> {
    let OverrideListing { namespace, cursor, count_max } = OverrideListing::read(body)?;
    let from = cursor.as_deref().unwrap_or("");
    if fleet::is_stored_there(app) {
        let all = fleets_and_own(app, asker, &namespace).await?;
        let all = all.range::<str, _>((Bound::Included(from), Bound::Unbounded));
        let all = all.map(|(identifier, found)| (identifier.as_str(), found));
        return Ok(envelope::page(asker.request_id, all, count_max));
    }
    let in_force = app.overrides.in_force();
    let all = in_force.namespace(asker.tenant, &namespace).map(|namespace| namespace.from(from));
    Ok(envelope::page(asker.request_id, all.into_iter().flatten(), count_max))
}

async fn delete_override(app: &App, asker: Asker<'_>, body: &[u8]) -> Result<Vec<u8>, Refusal> {
    let named = LimitTarget::read(body)?;
    let was_fleets =
        fleet::is_stored_there(app) && fleet::remove(app, asker.tenant, asker.token, &named).await?;
    // One that this node kept by itself goes too.
    match app.overrides.change(Change::new(asker.tenant, &named, None)).await {
        Err(refusal) if !(was_fleets && refusal.code == Code::UnknownOverride) => Err(refusal),
        _ => Ok(envelope::nothing(asker.request_id)),
    }
}

/// The fleet's overrides of a namespace, and those that this node kept by itself before there was a control plane.
async fn fleets_and_own(
    app: &App,
    asker: Asker<'_>,
    namespace: &str,
) -> Result<BTreeMap<String, Override>, Refusal> {
    let mut all = fleet::all(app, asker.tenant, asker.token, namespace).await?;
    let in_force = app.overrides.in_force();
    let own = in_force.namespace(asker.tenant, namespace).map(|namespace| namespace.from(""));
    for (identifier, found) in own.into_iter().flatten() {
        all.entry(identifier.to_owned()).or_insert_with(|| found.clone());
    }
    Ok(all)
}

#[cold]
fn unknown_override(namespace: &str, identifier: &str) -> Refusal {
    let message = format!("namespace `{}` has no override for `{}`", excerpt(namespace), excerpt(identifier));
    let fix = "give the identifier as it was set, with its wildcards; listOverrides shows them";
    Refusal::of_field(Code::UnknownOverride, "identifier", message, fix)
}
