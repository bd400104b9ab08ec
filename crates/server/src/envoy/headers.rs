//! The headers that tell a client of Envoy's, or of `/json`, how it stands.
//!
//! `RateLimit` and `RateLimit-Policy` as in draft-ietf-httpapi-ratelimit-headers-10. All of them are about the
//! one limit that is strictest, and true at the moment of the decision only: others may use the same limit.

use crate::envoy::verdict::Verdict;
use crate::json::write;
use tidegate_core::Nanos;

/// Gives each header's name and value to `take`.
pub(crate) fn each(verdict: &Verdict<'_>, mut take: impl FnMut(&'static str, &[u8])) {
    let mut value = Vec::with_capacity(64);
    let mut number = |name, number| {
        value.clear();
        write::number(&mut value, number);
        take(name, &value);
    };
    if let Some((status, limit)) = verdict.strictest() {
        number("X-RateLimit-Limit", limit.requests);
        number("X-RateLimit-Remaining", status.remaining);
        number("X-RateLimit-Reset", status.reset_seconds);
    }
    if let Some(seconds) = verdict.retry_after_seconds {
        number("Retry-After", seconds);
    }
    if let Some((status, limit)) = verdict.strictest() {
        value.clear();
        quoted(&mut value, limit.name);
        let name_length = value.len();
        parameter(&mut value, b";r=", status.remaining);
        parameter(&mut value, b";t=", status.reset_seconds);
        take("RateLimit", &value);
        value.truncate(name_length);
        parameter(&mut value, b";q=", limit.requests);
        parameter(&mut value, b";w=", limit.period.get().div_ceil(Nanos::PER_SECOND));
        take("RateLimit-Policy", &value);
    }
}

fn parameter(out: &mut Vec<u8>, name: &[u8], number: u64) {
    out.extend_from_slice(name);
    // The largest integer of a structured field.
    write::number(out, number.min(999_999_999_999_999));
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
    use crate::envoy::verdict::{CurrentLimit, Status};
    use smallvec::smallvec;

    fn text(verdict: &Verdict<'_>) -> Vec<String> {
        let mut lines = Vec::new();
        each(verdict, |name, value| lines.push(format!("{name}: {}", String::from_utf8_lossy(value))));
        lines
    }

    fn status(name: &str, remaining: u64, is_over: bool) -> Status<'_> {
        let limit = Some(CurrentLimit { name, requests: 10, period: Nanos::from_secs(60) });
        Status { is_over, limit, remaining, reset_seconds: 7 }
    }

    #[test]
    fn headers_are_of_the_strictest_limit() {
        let statuses =
            smallvec![status("wide", 5, false), status("näh \"er", 2, true), status("low", 1, false)];
        let verdict = Verdict { allowed: false, statuses, retry_after_seconds: Some(3) };
        assert_eq!(
            text(&verdict),
            [
                "X-RateLimit-Limit: 10",
                "X-RateLimit-Remaining: 2",
                "X-RateLimit-Reset: 7",
                "Retry-After: 3",
                "RateLimit: \"n%C3%A4h \\\"er\";r=2;t=7",
                "RateLimit-Policy: \"n%C3%A4h \\\"er\";q=10;w=60",
            ]
        );
    }

    #[test]
    fn without_a_limit_there_is_nothing_to_tell() {
        let verdict = Verdict { allowed: true, statuses: smallvec![], retry_after_seconds: None };
        assert!(text(&verdict).is_empty());
    }
}
