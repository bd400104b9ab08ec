//! What a response says about the limits that it was decided by: `X-RateLimit-*`, and `RateLimit` and
//! `RateLimit-Policy` of the IETF's draft 10 (draft-ietf-httpapi-ratelimit-headers-10).
//!
//! Approximate where nodes share a limit: `remaining` is what this node knows of. Shadow limits aren't told.

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use std::fmt::Write;
use tidegate_core::{Decision, Nanos, Role, Spec};
use tidegate_node::{Answer, Origin, Said};
use tidegate_rules::Rule;

const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
const STATUS: HeaderName = HeaderName::from_static("ratelimit");
const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// A response names no more limits than this, the strictest first.
const LIMITS_MAX: usize = 8;

pub(crate) fn add(headers: &mut HeaderMap, answer: &Answer<'_>, now: Nanos) {
    let mut told: Vec<(Option<&Rule>, Decision)> = answer
        .limits
        .iter()
        .filter(|limit| limit.role != Role::Shadow)
        .filter_map(|limit| match (limit.said, limit.origin) {
            (Said::Decided(decision), Origin::Rule(rule)) => Some((Some(rule), decision)),
            (Said::Decided(decision), Origin::Given { .. }) => Some((None, decision)),
            (Said::Unlimited | Said::Missing { .. }, _) => None,
        })
        .collect();
    told.sort_by_key(|(_, decision)| (decision.is_admitted(), decision.remaining));
    told.truncate(LIMITS_MAX);
    let Some((_, strictest)) = told.first() else { return };
    headers.insert(LIMIT, HeaderValue::from(strictest.limit));
    headers.insert(REMAINING, HeaderValue::from(strictest.remaining));
    headers.insert(RESET, HeaderValue::from(seconds_until(strictest.reset, now)));
    let (mut status, mut policy) = (String::new(), String::new());
    for (rule, decision) in &told {
        let name = quoted(rule.map_or("default", |rule| &rule.name));
        let comma = if status.is_empty() { "" } else { ", " };
        let (remaining, reset) = (decision.remaining, seconds_until(decision.reset, now));
        // Writing to a string doesn't fail.
        let _ = write!(status, "{comma}{name};r={remaining};t={reset}");
        let _ = write!(policy, "{comma}{name};q={}", decision.limit);
        if let Some(seconds) = rule.and_then(|rule| window_seconds(rule, now)) {
            let _ = write!(policy, ";w={seconds}");
        }
    }
    for (name, text) in [(STATUS, status), (POLICY, policy)] {
        if let Ok(value) = HeaderValue::try_from(text) {
            headers.insert(name, value);
        }
    }
}

/// Rounded up: whoever waits so long has waited long enough.
fn seconds_until(instant: Nanos, now: Nanos) -> u64 {
    instant.minus(now).get().div_ceil(Nanos::PER_SECOND)
}

/// How long the window of a rule is, which no override changes; GCRA has none.
fn window_seconds(rule: &Rule, now: Nanos) -> Option<u64> {
    let length = match rule.policy.spec(now) {
        Spec::Sliding { period, .. } | Spec::Fixed { period, .. } => period.length(),
        Spec::Calendar { cell, .. } => cell.end.minus(cell.start),
        Spec::Gcra { .. } => return None,
    };
    Some(length.get().div_ceil(Nanos::PER_SECOND))
}

/// A string of a structured field, which is printable ASCII.
fn quoted(name: &str) -> String {
    let mut quoted = String::with_capacity(name.len() + 2);
    quoted.push('"');
    for character in name.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            ' '..='~' => quoted.push(character),
            _ => quoted.push('?'),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_strings_of_structured_fields() {
        assert_eq!(quoted("per-user"), "\"per-user\"");
        assert_eq!(quoted("a\"b\\c"), "\"a\\\"b\\\\c\"");
        assert_eq!(quoted("é\n"), "\"??\"");
    }

    #[test]
    fn a_part_of_a_second_is_a_second() {
        let now = Nanos::from_secs(100);
        assert_eq!(seconds_until(now, now), 0);
        assert_eq!(seconds_until(now.plus(Nanos::new(1)), now), 1);
        assert_eq!(seconds_until(now.plus(Nanos::from_secs(2)), now), 2);
        assert_eq!(seconds_until(Nanos::ZERO, now), 0);
    }
}
