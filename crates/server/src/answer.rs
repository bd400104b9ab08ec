//! An answer of the engine, as JSON.
//!
//! Times are rounded up: whoever waits as long as it says has waited long enough.

use crate::json::write;
use std::borrow::Cow;
use tidegate_core::ask::AskReason;
use tidegate_core::{Decision, Nanos, Role, Verdict};
use tidegate_node::{Answer, DecisionPath, LimitAnswer, LimitOutcome, LimitSource, Reason, Subject};
use tidegate_rules::{Rule, identifier_text, shown};

pub(crate) fn to_json(answer: &Answer<'_>, subject: Subject<'_>, request_id: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(160 + 192 * answer.limits.len());
    out.extend_from_slice(b"{\"allowed\":");
    write::boolean(&mut out, answer.allowed);
    out.extend_from_slice(b",\"limits\":[");
    for (index, limit) in answer.limits.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_limit(&mut out, limit, subject);
    }
    out.extend_from_slice(b"],\"rule_version\":");
    write::number(&mut out, answer.rule_version);
    out.extend_from_slice(b",\"request_id\":");
    write::string(&mut out, request_id);
    out.extend_from_slice(b",\"path\":");
    write::string(&mut out, path_word(answer.path));
    if let Some(reason) = answer.reason {
        out.extend_from_slice(b",\"reason\":");
        write::string(&mut out, reason_words(reason));
    }
    out.extend_from_slice(b"}\n");
    out
}

fn write_limit(out: &mut Vec<u8>, limit: &LimitAnswer<'_>, subject: Subject<'_>) {
    let (name, identifier) = names(limit.source, subject);
    out.extend_from_slice(b"{\"name\":");
    write::string(out, name);
    out.extend_from_slice(b",\"identifier\":");
    write::string(out, &identifier);
    match limit.outcome {
        LimitOutcome::Decided(decision) => write_decision(out, &decision),
        LimitOutcome::Unlimited => out.extend_from_slice(
            b",\"limit\":null,\"remaining\":null,\"reset_ms\":null,\"retry_after_ms\":0,\"unlimited\":true",
        ),
        LimitOutcome::Missing { attribute, is_malformed } => {
            out.extend_from_slice(
                b",\"limit\":null,\"remaining\":null,\"reset_ms\":null,\"retry_after_ms\":null",
            );
            if !is_malformed {
                out.extend_from_slice(b",\"missing\":");
                write::string(out, attribute);
            }
        }
    }
    if let Some(attribute) = malformed(limit.source, subject) {
        out.extend_from_slice(b",\"malformed\":");
        write::string(out, attribute);
    }
    out.extend_from_slice(b",\"allowed\":");
    write::boolean(out, limit.is_allowed());
    out.extend_from_slice(b",\"shadow\":");
    write::boolean(out, limit.role == Role::Shadow);
    out.push(b'}');
}

fn write_decision(out: &mut Vec<u8>, decision: &Decision) {
    out.extend_from_slice(b",\"limit\":");
    write::number(out, decision.limit);
    out.extend_from_slice(b",\"remaining\":");
    write::number(out, decision.remaining);
    out.extend_from_slice(b",\"reset_ms\":");
    write::number(out, decision.reset.as_millis_ceil());
    out.extend_from_slice(b",\"retry_after_ms\":");
    let retry_after = match decision.verdict {
        Verdict::Admit => Some(0),
        Verdict::Deny { retry_after } => retry_after.map(Nanos::as_millis_ceil),
    };
    write::optional_number(out, retry_after);
}

/// The limit's name, empty for one given in the request, and whom it limits.
fn names<'a>(origin: LimitSource<'a>, subject: Subject<'a>) -> (&'a str, Cow<'a, str>) {
    match (origin, subject) {
        (LimitSource::Given { index }, Subject::Limits(limits)) => ("", shown(limits[index].identifier)),
        (LimitSource::Rule(rule), Subject::Rules { attributes, .. }) => {
            (&rule.name, rule_identifier(rule, attributes))
        }
        // The engine answers each kind of subject with its own kind of origin, and descriptors are answered
        // in Envoy's words.
        (_, Subject::Descriptors { .. })
        | (LimitSource::Given { .. }, Subject::Rules { .. })
        | (LimitSource::Rule(_), Subject::Limits(_)) => ("", Cow::Borrowed("")),
    }
}

/// The attribute whose value should be an address and isn't, where the rule looks at one.
fn malformed<'a>(origin: LimitSource<'a>, subject: Subject<'_>) -> Option<&'a str> {
    match (origin, subject) {
        (LimitSource::Rule(rule), Subject::Rules { attributes, .. }) if !rule.takes_values_as_written() => {
            rule.malformed(attributes)
        }
        _ => None,
    }
}

/// Built only for keys of several parts, and where values aren't shown as they are written.
fn rule_identifier<'a>(rule: &Rule, attributes: tidegate_rules::Attributes<'a>) -> Cow<'a, str> {
    match &*rule.key {
        [part] if rule.takes_values_as_written() => shown(attributes.get(&part.attribute).unwrap_or("?")),
        _ => Cow::Owned(identifier_text(rule, attributes)),
    }
}

pub(crate) const fn path_word(path: DecisionPath) -> &'static str {
    match path {
        DecisionPath::Local => "local",
        DecisionPath::Asked(AskReason::Cold) => "cold",
        DecisionPath::Asked(AskReason::Stale) => "stale",
        DecisionPath::Asked(AskReason::Strict) => "strict",
        DecisionPath::Asked(AskReason::Credit) => "credit",
        DecisionPath::Asked(AskReason::Exact) => "exact",
        DecisionPath::Quota => "quota",
        DecisionPath::Unverified => "unverified",
    }
}

const fn reason_words(reason: Reason) -> &'static str {
    match reason {
        Reason::NoRuleMatches => "no rule matches",
        Reason::UnknownNamespace => "unknown namespace",
        Reason::NamespaceOff => "namespace is off",
        Reason::StoreUnavailable => "store unavailable",
        Reason::TableFull => "counter table full",
    }
}

/// After how many whole seconds a denied request would pass; `None` when it was allowed or no wait helps.
pub(crate) fn retry_after_seconds(answer: &Answer<'_>) -> Option<u64> {
    retry_after(answer).map(|wait| wait.get().div_ceil(Nanos::PER_SECOND))
}

/// How long a denied request has to wait until it would pass; `None` when it was allowed or no wait helps.
pub(crate) fn retry_after(answer: &Answer<'_>) -> Option<Nanos> {
    if answer.allowed {
        return None;
    }
    let waits = |role| {
        let denying = answer.limits.iter().filter(move |limit| limit.role == role && !limit.is_allowed());
        denying.map(|limit| match limit.outcome {
            LimitOutcome::Decided(Decision { verdict: Verdict::Deny { retry_after }, .. }) => retry_after,
            _ => None,
        })
    };
    let mut longest = Nanos::ZERO;
    for wait in waits(Role::Enforced) {
        longest = longest.max(wait?);
    }
    let mut quotas = answer.limits.iter().filter(|limit| limit.role == Role::Quota).peekable();
    if quotas.peek().is_some() && quotas.all(|quota| !quota.is_allowed()) {
        // One of them is enough.
        longest = longest.max(waits(Role::Quota).flatten().min()?);
    }
    Some(longest)
}
