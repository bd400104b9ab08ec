//! What a response says about the limits that it was decided by: `X-RateLimit-*`, and `RateLimit` and
//! `RateLimit-Policy` of the IETF's draft 10 (draft-ietf-httpapi-ratelimit-headers-10).
//!
//! True at the moment of the decision only, and approximate where nodes share a limit: `remaining` is what this
//! node knows of.

use crate::json::write;
use hyper::header::{HeaderName, RETRY_AFTER};

/// The largest integer of a structured field.
const INTEGER_MAX: u64 = 999_999_999_999_999;

/// The values of the rate limit headers, for one limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RateLimitHeaders<'a> {
    pub name: &'a str,
    pub limit: u64,
    pub remaining: u64,
    pub reset_seconds: u64,
    /// In how long as much as the limit is admitted again, where that can be said.
    pub window_seconds: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Header {
    Limit,
    Remaining,
    Reset,
    RetryAfter,
    Status,
    Policy,
}

impl Header {
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Header::Limit => "X-RateLimit-Limit",
            Header::Remaining => "X-RateLimit-Remaining",
            Header::Reset => "X-RateLimit-Reset",
            Header::RetryAfter => "Retry-After",
            Header::Status => "RateLimit",
            Header::Policy => "RateLimit-Policy",
        }
    }

    pub(crate) const fn name(self) -> HeaderName {
        match self {
            Header::Limit => HeaderName::from_static("x-ratelimit-limit"),
            Header::Remaining => HeaderName::from_static("x-ratelimit-remaining"),
            Header::Reset => HeaderName::from_static("x-ratelimit-reset"),
            Header::RetryAfter => RETRY_AFTER,
            Header::Status => HeaderName::from_static("ratelimit"),
            Header::Policy => HeaderName::from_static("ratelimit-policy"),
        }
    }
}

/// Gives each header and its value to `take`. The strictest limit comes first.
pub(crate) fn each(
    told: &[RateLimitHeaders<'_>],
    retry_after_seconds: Option<u64>,
    mut take: impl FnMut(Header, &[u8]),
) {
    let mut value = Vec::with_capacity(64);
    let mut number = |header, number| {
        value.clear();
        write::number(&mut value, number);
        take(header, &value);
    };
    if let Some(strictest) = told.first() {
        number(Header::Limit, strictest.limit);
        number(Header::Remaining, strictest.remaining);
        number(Header::Reset, strictest.reset_seconds);
    }
    if let Some(seconds) = retry_after_seconds {
        number(Header::RetryAfter, seconds);
    }
    if told.is_empty() {
        return;
    }
    list(&mut value, told, |out, told| {
        parameter(out, b";r=", told.remaining);
        parameter(out, b";t=", told.reset_seconds);
    });
    take(Header::Status, &value);
    list(&mut value, told, |out, told| {
        parameter(out, b";q=", told.limit);
        if let Some(seconds) = told.window_seconds {
            parameter(out, b";w=", seconds);
        }
    });
    take(Header::Policy, &value);
}

/// A structured field's list of names, each with its parameters.
fn list(
    out: &mut Vec<u8>,
    told: &[RateLimitHeaders<'_>],
    parameters: impl Fn(&mut Vec<u8>, &RateLimitHeaders<'_>),
) {
    out.clear();
    for told in told {
        if !out.is_empty() {
            out.extend_from_slice(b", ");
        }
        quoted(out, told.name);
        parameters(out, told);
    }
}

fn parameter(out: &mut Vec<u8>, name: &[u8], number: u64) {
    out.extend_from_slice(name);
    write::number(out, number.min(INTEGER_MAX));
}

/// A structured field's string: visible ASCII. What isn't is percent-encoded.
fn quoted(out: &mut Vec<u8>, text: &str) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    out.push(b'"');
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b' '..=b'~' => out.push(byte),
            _ => {
                out.extend_from_slice(&[b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
            }
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(told: &[RateLimitHeaders<'_>], retry_after_seconds: Option<u64>) -> Vec<String> {
        let mut lines = Vec::new();
        each(told, retry_after_seconds, |header, value| {
            assert!(header.name().as_str().eq_ignore_ascii_case(header.text()));
            lines.push(format!("{}: {}", header.text(), String::from_utf8_lossy(value)));
        });
        lines
    }

    #[test]
    fn numbers_are_of_the_strictest_limit_and_the_lists_of_all() {
        let strict = RateLimitHeaders {
            name: "näh \"er",
            limit: 10,
            remaining: 2,
            reset_seconds: 7,
            window_seconds: Some(60),
        };
        let wide = RateLimitHeaders {
            name: "wide",
            limit: u64::MAX,
            remaining: 5,
            reset_seconds: 9,
            window_seconds: None,
        };
        assert_eq!(
            lines(&[strict, wide], Some(3)),
            [
                "X-RateLimit-Limit: 10",
                "X-RateLimit-Remaining: 2",
                "X-RateLimit-Reset: 7",
                "Retry-After: 3",
                "RateLimit: \"n%C3%A4h \\\"er\";r=2;t=7, \"wide\";r=5;t=9",
                "RateLimit-Policy: \"n%C3%A4h \\\"er\";q=10;w=60, \"wide\";q=999999999999999",
            ]
        );
    }

    #[test]
    fn without_a_limit_there_is_nothing_to_tell() {
        assert!(lines(&[], None).is_empty());
        assert_eq!(lines(&[], Some(1)), ["Retry-After: 1"]);
    }
}
