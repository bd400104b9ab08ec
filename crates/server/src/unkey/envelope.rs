//! Unkey's envelope: `{"meta":{"requestId":…},"data":…}`, or `"error"` in the place of `"data"`.
//!
//! A refusal keeps what it says (what happened, where, what to do) and gets the title and the type that Unkey has
//! for such a thing, so that its clients throw the error that they have for it.

use super::overrides::Override;
use super::requests::LimitTarget;
use crate::json::write;
use crate::refusal::{Code, Refusal};
use crate::request_id::RequestId;
use hyper::StatusCode;
use tidegate_core::Nanos;

/// One limit, as Unkey's envelope reports it.
#[derive(Debug)]
pub(super) struct UnkeyEnvelope<'a> {
    pub(super) named: &'a LimitTarget<'a>,
    pub(super) limit: u64,
    pub(super) remaining: u64,
    pub(super) reset_ms: u64,
    pub(super) is_passed: bool,
    pub(super) override_id: Option<&'a str>,
}

pub(super) fn limit(request_id: &str, told: &[UnkeyEnvelope<'_>]) -> Vec<u8> {
    let mut out = open(request_id, "data", 128);
    for told in told {
        out.push(b'{');
        write_decision(&mut out, told, b",\"success\":");
    }
    close(out)
}

pub(super) fn multi_limit(request_id: &str, told: &[UnkeyEnvelope<'_>]) -> Vec<u8> {
    let mut out = open(request_id, "data", 192 * told.len());
    out.extend_from_slice(b"{\"passed\":");
    write::boolean(&mut out, told.iter().all(|told| told.is_passed));
    out.extend_from_slice(b",\"limits\":");
    list(&mut out, told, |out, told| {
        out.extend_from_slice(b"{\"namespace\":");
        write::string(out, &told.named.namespace);
        out.extend_from_slice(b",\"identifier\":");
        write::string(out, &told.named.identifier);
        out.push(b',');
        write_decision(out, told, b",\"passed\":");
    });
    out.push(b'}');
    close(out)
}

/// The rest of an object, whose brace is open.
fn write_decision(out: &mut Vec<u8>, told: &UnkeyEnvelope<'_>, verdict: &[u8]) {
    out.extend_from_slice(b"\"limit\":");
    write::number(out, told.limit);
    out.extend_from_slice(b",\"remaining\":");
    write::number(out, told.remaining);
    out.extend_from_slice(b",\"reset\":");
    write::number(out, told.reset_ms);
    out.extend_from_slice(verdict);
    write::boolean(out, told.is_passed);
    if let Some(id) = told.override_id {
        out.extend_from_slice(b",\"overrideId\":");
        write::string(out, id);
    }
    out.push(b'}');
}

/// Of an override that was set.
pub(super) fn override_id(request_id: &str, id: &str) -> Vec<u8> {
    let mut out = open(request_id, "data", 64);
    out.extend_from_slice(b"{\"overrideId\":");
    write::string(&mut out, id);
    out.push(b'}');
    close(out)
}

/// Of an override that was deleted.
pub(super) fn nothing(request_id: &str) -> Vec<u8> {
    let mut out = open(request_id, "data", 2);
    out.extend_from_slice(b"{}");
    close(out)
}

pub(super) fn one_override(request_id: &str, identifier: &str, found: &Override) -> Vec<u8> {
    let mut out = open(request_id, "data", 128);
    write_override(&mut out, (identifier, found));
    close(out)
}

/// The first so many; where there are more, the next page begins at the cursor.
pub(super) fn page<'a>(
    request_id: &str,
    mut all: impl Iterator<Item = (&'a str, &'a Override)>,
    count_max: usize,
) -> Vec<u8> {
    let mut out = open(request_id, "data", 128 * count_max);
    list(&mut out, all.by_ref().take(count_max), write_override);
    out.extend_from_slice(b",\"pagination\":{");
    let next = all.next();
    if let Some((identifier, _)) = next {
        out.extend_from_slice(b"\"cursor\":");
        write::string(&mut out, identifier);
        out.push(b',');
    }
    out.extend_from_slice(b"\"hasMore\":");
    write::boolean(&mut out, next.is_some());
    out.push(b'}');
    close(out)
}

fn write_override(out: &mut Vec<u8>, (identifier, found): (&str, &Override)) {
    let (limit, period) = found.numbers();
    out.extend_from_slice(b"{\"overrideId\":");
    write::string(out, found.id());
    out.extend_from_slice(b",\"identifier\":");
    write::string(out, identifier);
    out.extend_from_slice(b",\"limit\":");
    write::number(out, limit.get());
    out.extend_from_slice(b",\"duration\":");
    write::number(out, period.get() / Nanos::PER_MILLI);
    out.push(b'}');
}

/// What was refused at a path of Unkey's.
#[cold]
pub(crate) fn refusal_json(refusal: &Refusal, request_id: &RequestId) -> Vec<u8> {
    let status = refusal.code.status();
    let mut out = open(request_id.as_str(), "error", 256 + refusal.message.len() + refusal.fix.len());
    out.extend_from_slice(b"{\"title\":");
    write::string(&mut out, status.canonical_reason().unwrap_or("Error"));
    out.extend_from_slice(b",\"detail\":");
    write::string(&mut out, &format!("{}: {}", refusal.message, refusal.fix));
    out.extend_from_slice(b",\"status\":");
    write::number(&mut out, u64::from(status.as_u16()));
    out.extend_from_slice(b",\"type\":");
    write::string(&mut out, error_type(refusal.code));
    if status == StatusCode::BAD_REQUEST {
        out.extend_from_slice(b",\"errors\":[{\"location\":");
        write::string(&mut out, &location(refusal.field.as_deref()));
        out.extend_from_slice(b",\"message\":");
        write::string(&mut out, &refusal.message);
        out.extend_from_slice(b",\"fix\":");
        write::string(&mut out, &refusal.fix);
        out.extend_from_slice(b"}]");
    }
    out.push(b'}');
    close(out)
}

/// The page of Unkey's that is about such an error: programs tell errors apart by it.
fn error_type(code: Code) -> &'static str {
    match (code, code.status()) {
        (Code::UnknownOverride, _) => "https://unkey.com/docs/errors/unkey/data/ratelimit_override_not_found",
        (Code::BodyTooLarge, _) => "https://unkey.com/docs/errors/user/bad_request/request_body_too_large",
        (Code::BodyIncomplete, _) => "https://unkey.com/docs/errors/user/bad_request/request_body_unreadable",
        (_, StatusCode::UNAUTHORIZED) => "https://unkey.com/docs/errors/unkey/authentication/key_not_found",
        (_, StatusCode::FORBIDDEN) => "https://unkey.com/docs/errors/unkey/authorization/forbidden",
        (_, StatusCode::SERVICE_UNAVAILABLE) => {
            "https://unkey.com/docs/errors/unkey/application/service_unavailable"
        }
        _ => "https://unkey.com/docs/errors/unkey/application/invalid_input",
    }
}

/// Such as `body.limit`, or `body[2].limit` in a list.
fn location(field: Option<&str>) -> String {
    match field {
        None => "body".to_owned(),
        Some(field) if field == crate::idempotency::HEADER => format!("header.{field}"),
        Some(field) if field.starts_with('[') => format!("body{field}"),
        Some(field) => format!("body.{field}"),
    }
}

fn open(request_id: &str, name: &str, capacity: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(64 + request_id.len() + capacity);
    out.extend_from_slice(b"{\"meta\":{\"requestId\":");
    write::string(&mut out, request_id);
    out.extend_from_slice(b"},\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
    out
}

fn close(mut out: Vec<u8>) -> Vec<u8> {
    out.extend_from_slice(b"}\n");
    out
}

fn list<T>(out: &mut Vec<u8>, all: impl IntoIterator<Item = T>, mut write: impl FnMut(&mut Vec<u8>, T)) {
    out.push(b'[');
    for (index, one) in all.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write(out, one);
    }
    out.push(b']');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_in_the_body_is_told_as_unkey_tells_it() {
        assert_eq!(location(None), "body");
        assert_eq!(location(Some("limit")), "body.limit");
        assert_eq!(location(Some("[2].limit")), "body[2].limit");
        assert_eq!(location(Some("idempotency-key")), "header.idempotency-key");
    }
}
