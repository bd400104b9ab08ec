//! How a call ends: gRPC's codes, in trailers.

use crate::refusal::{Code, Refusal};
use crate::trace;
use h2::SendStream;
use h2::server::SendResponse;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{HeaderMap, Response, StatusCode};

const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
/// Metadata of an answer that denies a request because it can't be judged.
const DENIAL_REASON: HeaderName = HeaderName::from_static("tidegate-error");
const OK: HeaderValue = HeaderValue::from_static("0");

/// The codes that are given here, by their numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum GrpcCode {
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    NotFound = 5,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    FailedPrecondition = 9,
    Unimplemented = 12,
    Unavailable = 14,
    Unauthenticated = 16,
}

/// A call that failed, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Failure {
    pub(super) code: GrpcCode,
    pub(super) message: String,
}

impl Failure {
    pub(super) fn new(code: GrpcCode, message: impl Into<String>) -> Self {
        Failure { code, message: message.into() }
    }
}

impl From<Refusal> for Failure {
    #[cold]
    fn from(refusal: Refusal) -> Self {
        let code = match refusal.code {
            Code::BodyTooLarge => GrpcCode::ResourceExhausted,
            Code::OriginUnavailable => GrpcCode::Unavailable,
            Code::Unauthorized => GrpcCode::Unauthenticated,
            Code::Forbidden => GrpcCode::PermissionDenied,
            Code::Unsupported => GrpcCode::Unimplemented,
            _ => GrpcCode::InvalidArgument,
        };
        let place = refusal.field.map(|field| format!(" (at `{field}`)")).unwrap_or_default();
        Failure::new(code, format!("{}{place}; {}", refusal.message, refusal.fix))
    }
}

fn head() -> Response<()> {
    let mut response = Response::new(());
    response.headers_mut().insert(CONTENT_TYPE, GRPC);
    response
}

/// Begins an answer of messages; `None` when the client has gone.
pub(super) fn begin(respond: &mut SendResponse<Bytes>) -> Option<SendStream<Bytes>> {
    respond.send_response(head(), false).ok()
}

/// Ends an answer well. Who has gone needs no trailers.
pub(super) fn end(stream: &mut SendStream<Bytes>) {
    let mut trailers = HeaderMap::with_capacity(1);
    trailers.insert(GRPC_STATUS, OK);
    let _ = stream.send_trailers(trailers);
}

/// Ends an answer that had begun.
pub(super) fn end_with(stream: &mut SendStream<Bytes>, failure: &Failure) {
    let mut trailers = HeaderMap::with_capacity(2);
    add_failure(&mut trailers, failure);
    let _ = stream.send_trailers(trailers);
}

/// The same, with the span that was made for it.
pub(super) fn send_traced_message(
    respond: &mut SendResponse<Bytes>,
    framed: Vec<u8>,
    trace: Option<HeaderValue>,
) {
    send_with(respond, framed, trace.map(|trace| (trace::PARENT, trace)));
}

fn send_with(respond: &mut SendResponse<Bytes>, framed: Vec<u8>, header: Option<(HeaderName, HeaderValue)>) {
    let mut response = head();
    if let Some((name, value)) = header {
        response.headers_mut().insert(name, value);
    }
    if let Ok(mut stream) = respond.send_response(response, false)
        && stream.send_data(Bytes::from(framed), false).is_ok()
    {
        end(&mut stream);
    }
}

/// An answer that is one message.
pub(super) fn send_message(respond: &mut SendResponse<Bytes>, framed: Vec<u8>) {
    if let Some(mut stream) = begin(respond)
        && stream.send_data(Bytes::from(framed), false).is_ok()
    {
        end(&mut stream);
    }
}

/// Sends a message that denies, with the reason where programs that debug a client see it and browsers don't.
#[cold]
pub(super) fn send_denial(respond: &mut SendResponse<Bytes>, framed: Vec<u8>, reason: &Failure) {
    let reason = HeaderValue::from_bytes(&percent_encoded(&reason.message)).ok();
    send_with(respond, framed, reason.map(|reason| (DENIAL_REASON, reason)));
}

/// An answer that is nothing but its end.
#[cold]
pub(super) fn send_failure(respond: &mut SendResponse<Bytes>, failure: &Failure) {
    let mut response = head();
    add_failure(response.headers_mut(), failure);
    let _ = respond.send_response(response, true);
}

/// Who doesn't speak gRPC is told so in HTTP.
#[cold]
pub(super) fn send_http(respond: &mut SendResponse<Bytes>, status: StatusCode) {
    let mut response = Response::new(());
    *response.status_mut() = status;
    let _ = respond.send_response(response, true);
}

fn add_failure(headers: &mut HeaderMap, failure: &Failure) {
    headers.insert(GRPC_STATUS, HeaderValue::from(failure.code as u16));
    if let Ok(message) = HeaderValue::from_bytes(&percent_encoded(&failure.message)) {
        headers.insert(GRPC_MESSAGE, message);
    }
}

/// As gRPC wants messages: visible ASCII and spaces as they are, but for `%`.
fn percent_encoded(text: &str) -> Vec<u8> {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let mut out = Vec::with_capacity(text.len() + 16);
    for byte in text.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => out.push(byte),
            _ => out.extend_from_slice(&[b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_percent_encoded() {
        assert_eq!(percent_encoded("50 % of `é`\n"), b"50 %25 of `%C3%A9`%0A");
    }

    #[test]
    fn a_refusal_is_an_invalid_argument_with_place_and_remedy() {
        let refusal = Refusal::of_field(Code::MissingField, "domain", "it is empty", "name it");
        let failure = Failure::from(refusal);
        assert_eq!(failure, Failure::new(GrpcCode::InvalidArgument, "it is empty (at `domain`); name it"));
        let large = Failure::from(Refusal::new(Code::BodyTooLarge, "", ""));
        assert_eq!(large.code, GrpcCode::ResourceExhausted);
    }
}
