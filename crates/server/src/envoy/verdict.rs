//! An answer of the engine in Envoy's terms: one status for each descriptor.
//!
//! Of several limits of a descriptor its strictest one is told: one that denies before one that doesn't, then
//! the one with least left. A shadow rule is told only where nothing else limits, and never as over its limit.

use crate::answer::retry_after_seconds;
use crate::envoy::rate_limit_request::Descriptors;
use crate::rate_headers::{self, Header, RateLimitHeaders};
use smallvec::SmallVec;
use tidegate_core::{Nanos, Role};
use tidegate_node::{Answer, LimitAnswer, LimitOutcome, LimitSource};
use tidegate_rules::envoy::EnvoyUnit;
use tidegate_rules::{Policy, RuleSet};

/// What a limit is called that came with the request.
const GIVEN_NAME: &str = "override";

#[derive(Debug)]
pub(crate) struct Verdict<'r> {
    pub allowed: bool,
    pub statuses: SmallVec<[Status<'r>; 4]>,
    /// After how many seconds a denied request would pass, where waiting helps.
    pub retry_after_seconds: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Status<'r> {
    pub is_over: bool,
    pub limit: Option<CurrentLimit<'r>>,
    pub remaining: u64,
    pub reset_seconds: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CurrentLimit<'r> {
    pub name: &'r str,
    /// What is admitted at once, and in how long as much is admitted again.
    pub requests: u64,
    pub period: Nanos,
}

impl CurrentLimit<'_> {
    pub(crate) fn unit(&self) -> EnvoyUnit {
        EnvoyUnit::nearest(self.period)
    }
}

impl<'r> Verdict<'r> {
    /// By the rules that decided it.
    pub(crate) fn new(
        answer: &Answer<'r>,
        rules: &RuleSet,
        descriptors: &Descriptors<'_>,
        now: Nanos,
    ) -> Self {
        let mut statuses = SmallVec::new();
        let mut limits = answer.limits.iter().peekable();
        for index in 0..descriptors.len() {
            let mut strictest: Option<&LimitAnswer<'r>> = None;
            while let Some(limit) = limits.next_if(|limit| usize::from(limit.descriptor) == index) {
                if strictest.is_none_or(|known| rank(limit) < rank(known)) {
                    strictest = Some(limit);
                }
            }
            statuses.push(strictest.map_or(Status::NOTHING, |limit| status(limit, rules, descriptors, now)));
        }
        Verdict { allowed: answer.allowed, statuses, retry_after_seconds: retry_after_seconds(answer) }
    }

    /// Gives each header and its value to `take`; all are about the one limit that is strictest.
    pub(crate) fn each_header(&self, take: impl FnMut(Header, &[u8])) {
        let told = self.strictest().map(|(status, limit)| RateLimitHeaders {
            name: limit.name,
            limit: limit.requests,
            remaining: status.remaining,
            reset_seconds: status.reset_seconds,
            window_seconds: Some(limit.period.get().div_ceil(Nanos::PER_SECOND)),
        });
        rate_headers::each(told.as_slice(), self.retry_after_seconds, take);
    }

    /// The strictest status of all that have a limit: what the headers are about.
    fn strictest(&self) -> Option<(&Status<'r>, &CurrentLimit<'r>)> {
        let limited = self.statuses.iter().filter_map(|status| Some((status, status.limit.as_ref()?)));
        limited.min_by_key(|(status, _)| (!status.is_over, status.remaining))
    }
}

impl Status<'_> {
    /// No rule is for the descriptor.
    const NOTHING: Status<'static> = Status { is_over: false, limit: None, remaining: 0, reset_seconds: 0 };
}

/// The lower, the stricter.
fn rank(limit: &LimitAnswer<'_>) -> (bool, bool, u64) {
    let remaining = match limit.outcome {
        LimitOutcome::Decided(decision) => decision.remaining,
        LimitOutcome::Unlimited => u64::MAX,
        LimitOutcome::Missing { .. } => 0,
    };
    (limit.role == Role::Shadow, limit.is_allowed(), remaining)
}

fn status<'r>(
    limit: &LimitAnswer<'r>,
    rules: &RuleSet,
    descriptors: &Descriptors<'_>,
    now: Nanos,
) -> Status<'r> {
    let is_over = limit.is_over();
    match limit.outcome {
        LimitOutcome::Decided(decision) => Status {
            is_over,
            limit: current_limit(limit, rules, descriptors, decision.limit, now),
            remaining: decision.remaining,
            reset_seconds: decision.reset.minus(now).get().div_ceil(Nanos::PER_SECOND),
        },
        LimitOutcome::Unlimited => Status { remaining: u64::MAX, ..Status::NOTHING },
        LimitOutcome::Missing { .. } => Status { is_over, ..Status::NOTHING },
    }
}

fn current_limit<'r>(
    limit: &LimitAnswer<'r>,
    rules: &RuleSet,
    descriptors: &Descriptors<'_>,
    requests: u64,
    now: Nanos,
) -> Option<CurrentLimit<'r>> {
    let descriptor = descriptors.get(usize::from(limit.descriptor))?;
    let (name, period) = match limit.source {
        LimitSource::Given { .. } => (GIVEN_NAME, descriptor.limit?.period.length()),
        LimitSource::Rule(rule) => {
            let spec = match rule.policy {
                // The one kind whose overrides change more than the number that was decided by.
                Policy::Gcra { .. } if rules.has_overrides(rule) => {
                    rules.spec(rule, descriptor.attributes, now)
                }
                _ => None,
            };
            (&*rule.name, spec.unwrap_or_else(|| rule.policy.spec(now)).shown_period())
        }
    };
    Some(CurrentLimit { name, requests, period })
}

#[cfg(test)]
mod tests {
    use super::*;
    use smallvec::smallvec;

    fn status(name: &str, remaining: u64, is_over: bool) -> Status<'_> {
        let limit = Some(CurrentLimit { name, requests: 10, period: Nanos::from_secs(60) });
        Status { is_over, limit, remaining, reset_seconds: 7 }
    }

    #[test]
    fn headers_are_of_the_strictest_limit() {
        let statuses = smallvec![status("wide", 5, false), status("over", 2, true), status("low", 1, false)];
        let verdict = Verdict { allowed: false, statuses, retry_after_seconds: Some(3) };
        let mut lines = Vec::new();
        verdict
            .each_header(|header, value| lines.push((header, String::from_utf8_lossy(value).into_owned())));
        let line = |header: Header| &*lines.iter().find(|(of, _)| *of == header).unwrap().1;
        assert_eq!((line(Header::Remaining), line(Header::RetryAfter)), ("2", "3"));
        assert_eq!((line(Header::Status), line(Header::Policy)), ("\"over\";r=2;t=7", "\"over\";q=10;w=60"));
    }
}
