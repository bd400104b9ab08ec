//! Which requests are plain.

use crate::access;
use crate::cross_site;
use crate::request_id::RequestId;
use crate::route::Call;
use httparse::{EMPTY_HEADER, Header, Request, Status};
use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};

/// More than any plain caller sends; hyper's bound is higher.
const HEADERS_MAX: usize = 32;

/// What the bytes received so far are.
#[expect(clippy::large_enum_variant, reason = "made on the hot path, without allocating")]
pub(super) enum ReadProgress<'a> {
    Plain(FastRequest<'a>),
    /// It may become one.
    Incomplete,
    Other,
}

/// A request that the fast path answers.
pub(super) struct FastRequest<'a> {
    pub(super) wanted: FastCall<'a>,
    pub(super) id: RequestId,
    pub(super) token: Option<&'a [u8]>,
    /// `traceparent` and `tracestate`, as they came.
    pub(super) trace: (Option<&'a [u8]>, Option<&'a [u8]>),
    /// Of the whole request.
    pub(super) length: usize,
}

/// The endpoint that a request calls, with its input.
pub(super) enum FastCall<'a> {
    Decision { call: Call, body: &'a [u8] },
    ForwardAuth { query: &'a str, headers: HeaderMap },
}

/// Reads a request from the bytes received so far. `checks_host`: whether a report's `Host` must be one that no name
/// server answers for.
pub(super) fn read(input: &[u8], checks_host: bool) -> ReadProgress<'_> {
    if input.is_empty() {
        return ReadProgress::Incomplete;
    }
    let mut headers = [EMPTY_HEADER; HEADERS_MAX];
    let mut request = Request::new(&mut headers);
    match request.parse(input) {
        Ok(Status::Complete(head_length)) => whole(&request, input, head_length, checks_host),
        Ok(Status::Partial) => ReadProgress::Incomplete,
        Err(_) => ReadProgress::Other,
    }
}

fn whole<'a>(
    request: &Request<'_, 'a>,
    input: &'a [u8],
    head_length: usize,
    checks_host: bool,
) -> ReadProgress<'a> {
    let (Some(1), Some(method), Some(path)) = (request.version, request.method, request.path) else {
        return ReadProgress::Other;
    };
    let Some(noted) = FastHeaders::of(request.headers) else { return ReadProgress::Other };
    let id = RequestId::of_bytes(noted.id);
    let trace = (noted.trace_parent, noted.trace_state);
    let call = match path {
        "/v1/limit" => Call::Limit,
        "/v1/check" => Call::Check,
        "/v1/limit-many" => Call::LimitMany,
        // Refused by whoever is handed it.
        "/v1/report" if checks_host && !is_to_an_address(request.headers) => return ReadProgress::Other,
        "/v1/report" => Call::Report,
        _ => {
            let (None, "GET", Some(query)) = (noted.body_length, method, auth_query(path)) else {
                return ReadProgress::Other;
            };
            let Some(headers) = owned(request.headers) else { return ReadProgress::Other };
            let wanted = FastCall::ForwardAuth { query, headers };
            return ReadProgress::Plain(FastRequest {
                wanted,
                id,
                token: noted.own_token,
                trace,
                length: head_length,
            });
        }
    };
    let (Some(body_length), "POST") = (noted.body_length, method) else { return ReadProgress::Other };
    let length = head_length + body_length;
    let Some(body) = input.get(head_length..length) else { return ReadProgress::Incomplete };
    let token = noted.own_token.or_else(|| noted.authorization.and_then(access::bearer));
    ReadProgress::Plain(FastRequest { wanted: FastCall::Decision { call, body }, id, token, trace, length })
}

fn is_to_an_address(headers: &[Header<'_>]) -> bool {
    let mut hosts = headers.iter().filter(|header| header.name.eq_ignore_ascii_case("host"));
    hosts.all(|host| cross_site::is_unforgeable(host.value))
}

fn auth_query(path: &str) -> Option<&str> {
    let rest = path.strip_prefix("/auth")?;
    if rest.is_empty() { Some("") } else { rest.strip_prefix('?') }
}

/// The headers that matter to a request on the fast path.
#[derive(Default)]
struct FastHeaders<'a> {
    body_length: Option<usize>,
    id: Option<&'a [u8]>,
    own_token: Option<&'a [u8]>,
    authorization: Option<&'a [u8]>,
    trace_parent: Option<&'a [u8]>,
    trace_state: Option<&'a [u8]>,
}

impl<'a> FastHeaders<'a> {
    /// `None` when one of them isn't plain, or comes twice.
    fn of(headers: &[Header<'a>]) -> Option<Self> {
        let mut noted = FastHeaders::default();
        for header in headers {
            let is = |name: &str| header.name.eq_ignore_ascii_case(name);
            // By length first: most headers are none of these.
            match header.name.len() {
                2 if is("te") => return None,
                6 if is("expect") || is("origin") => return None,
                7 if is("upgrade") || is("trailer") => return None,
                10 if is("connection") && !header.value.eq_ignore_ascii_case(b"keep-alive") => return None,
                10 if is("tracestate") => once(&mut noted.trace_state, header.value)?,
                11 if is("traceparent") => once(&mut noted.trace_parent, header.value)?,
                12 if is("x-request-id") => once(&mut noted.id, header.value)?,
                13 if is("authorization") => once(&mut noted.authorization, header.value)?,
                14 if is("content-length") => once(&mut noted.body_length, number(header.value)?)?,
                14 if is("sec-fetch-site") => return None,
                15 if is("idempotency-key") => return None,
                16 if is("x-tidegate-token") => once(&mut noted.own_token, header.value)?,
                17 if is("transfer-encoding") => return None,
                _ => {}
            }
        }
        Some(noted)
    }
}

fn once<T>(place: &mut Option<T>, value: T) -> Option<()> {
    if place.replace(value).is_none() { Some(()) } else { None }
}

/// Five digits at most: longer bodies aren't plain.
fn number(value: &[u8]) -> Option<usize> {
    let is_number = (1..=5).contains(&value.len()) && value.iter().all(u8::is_ascii_digit);
    let digits = value.iter().map(|digit| usize::from(digit - b'0'));
    is_number.then(|| digits.fold(0, |number, digit| number * 10 + digit))
}

fn owned(headers: &[Header<'_>]) -> Option<HeaderMap> {
    let mut map = HeaderMap::with_capacity(headers.len());
    for Header { name, value } in headers {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        map.append(name, HeaderValue::from_bytes(value).ok()?);
    }
    Some(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn post(headers: &str, body: &str) -> String {
        format!("POST /v1/limit HTTP/1.1\r\nhost: x\r\n{headers}\r\n\r\n{body}")
    }

    #[test]
    fn a_whole_request_is_plain_and_what_follows_is_left() {
        let text = post("Content-Length: 2\r\nX-Request-Id: abc\r\nAuthorization: bearer  t ", "{}GET /");
        let ReadProgress::Plain(plain) = read(text.as_bytes(), true) else { panic!("{text}") };
        assert_eq!((plain.id.as_str(), plain.token, plain.length), ("abc", Some(&b"t"[..]), text.len() - 5));
        assert!(matches!(plain.wanted, FastCall::Decision { call: Call::Limit, body: b"{}" }));
    }

    #[test]
    fn every_part_of_one_is_waited_for() {
        let text = post("content-length: 2", "{}");
        for length in 0..text.len() {
            assert!(matches!(read(&text.as_bytes()[..length], true), ReadProgress::Incomplete), "{length}");
        }
    }

    #[test]
    fn what_has_a_meaning_of_its_own_is_for_somebody_else() {
        for headers in [
            "content-length: 2\r\ntransfer-encoding: chunked",
            "content-length: 2\r\ncontent-length: 2",
            "content-length: +2",
            "content-length: 2, 2",
            "content-length: 100000",
            "content-length: 2\r\nexpect: 100-continue",
            "content-length: 2\r\nconnection: close",
            "content-length: 2\r\nconnection: keep-alive, upgrade",
            "content-length: 2\r\norigin: http://x",
            "content-length: 2\r\nsec-fetch-site: cross-site",
            "content-length: 2\r\nidempotency-key: 1",
            "content-length: 2\r\nauthorization: Bearer a\r\nauthorization: Bearer b",
            "content-length: 2\r\nx-tidegate-token: a\r\nx-tidegate-token: b",
            "x: y",
            "content-length: 2\r\n folded",
            "content length: 2",
        ] {
            assert!(matches!(read(post(headers, "{}").as_bytes(), true), ReadProgress::Other), "{headers}");
        }
        for text in [
            "GET / HTTP/1.1\r\n\r\n",
            "GET /v1/limit HTTP/1.1\r\n\r\n",
            "POST /v1/reset HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}",
            "POST /v1/limit HTTP/1.0\r\ncontent-length: 2\r\n\r\n{}",
            "POST /v1/limit?x HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}",
            "POST http://x/v1/limit HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}",
            "GET /authentic HTTP/1.1\r\n\r\n",
            "GET /auth HTTP/1.1\r\ncontent-length: 0\r\n\r\n",
            "\u{1}",
        ] {
            assert!(matches!(read(text.as_bytes(), true), ReadProgress::Other), "{text}");
        }
    }

    #[test]
    fn forward_auth_has_its_query_and_headers() {
        let text = "GET /auth?namespace=a HTTP/1.1\r\nX-Tidegate-User: u\r\nX-Tidegate-Token: t\r\n\r\n";
        let ReadProgress::Plain(FastRequest {
            wanted: FastCall::ForwardAuth { query, headers }, token, ..
        }) = read(text.as_bytes(), true)
        else {
            panic!("{text}")
        };
        assert_eq!((query, token, headers.len()), ("namespace=a", Some(&b"t"[..]), 2));
    }
}
