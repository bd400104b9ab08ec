//! Responses: a body, its type, and the request's id.

use crate::counters::COUNTERS;
use crate::rate_headers::Header;
use crate::refusal::{Code, Refusal};
use crate::request_id::{self, RequestId};
use crate::route::allowed_methods;
use crate::unkey;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Response, StatusCode};

pub(crate) type HttpResponse = Response<Full<Bytes>>;

const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const JSON_LINES: HeaderValue = HeaderValue::from_static("application/x-ndjson");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

pub(crate) fn json(status: StatusCode, body: Vec<u8>, id: RequestId) -> HttpResponse {
    response(status, JSON, body, id)
}

/// One JSON value to a line.
pub(crate) fn json_lines(body: Vec<u8>, id: RequestId) -> HttpResponse {
    response(StatusCode::OK, JSON_LINES, body, id)
}

pub(crate) fn text(body: impl Into<Vec<u8>>, id: RequestId) -> HttpResponse {
    response(StatusCode::OK, TEXT, body.into(), id)
}

fn response(status: StatusCode, content_type: HeaderValue, body: Vec<u8>, id: RequestId) -> HttpResponse {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, content_type);
    headers.insert(request_id::HEADER, id.into_header());
    response
}

/// Tells that an answer was given before, to a request of the same idempotency key.
pub(crate) fn add_replayed(response: &mut HttpResponse) {
    response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
}

/// Adds a header about limits, whose value is ours, and so is valid.
pub(crate) fn add_header(response: &mut HttpResponse, header: Header, value: &[u8]) {
    if let Ok(value) = HeaderValue::from_bytes(value) {
        response.headers_mut().insert(header.name(), value);
    }
}

#[cold]
pub(crate) fn refusal(refusal: &Refusal, path: &str, id: RequestId) -> HttpResponse {
    COUNTERS.requests_refused.add_one();
    let body = if unkey::owns(path) { unkey::refusal_json(refusal, &id) } else { refusal.to_json() };
    let mut response = json(refusal.code.status(), body, id);
    match refusal.code {
        Code::WrongMethod => {
            response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed_methods(path)));
        }
        Code::Unauthorized => {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        _ => {}
    }
    response
}
