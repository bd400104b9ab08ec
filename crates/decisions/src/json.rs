//! Records and events as JSON, for everybody who writes some: `why`, and those who ship lines elsewhere.
//!
//! By hand, into one string: field by field, with no tree of values in between.

use crate::event::Event;
use crate::name::{Algorithm, RuleName};
use crate::record::{Record, Trace};
use crate::why::utc;
use std::fmt::Write as _;

/// What a record says by itself, from its rule's names on; ends with a comma.
pub(crate) fn record_fields(out: &mut String, record: &Record, rule: Option<&RuleName>) {
    names(out, rule);
    if let Some(rule) = rule {
        text(out, "algorithm", &algorithm(&rule.algorithm));
    }
    for (name, number) in
        [("rule_version", record.rule_version), ("limit", record.limit), ("cost", record.cost)]
    {
        let _ = write!(out, "\"{name}\":{number},");
    }
    let seen = record.counts;
    let _ = write!(
        out,
        "\"seen\":{{\"own\":{},\"others\":{},\"world\":{},\"previous\":{},\"total\":{}}},",
        seen.own,
        seen.others,
        seen.world,
        seen.previous,
        seen.total()
    );
    text(out, "path", record.path.name());
    text(out, "key", &record.key.text());
    if record.request.0 != 0 {
        text(out, "request", &format!("{:016x}", record.request.0));
    }
    if record.trace != Trace::NONE {
        text(out, "trace", &record.trace.id_text());
        text(out, "span", &record.trace.span_text());
    }
    if let Some(wait) = record.retry_after {
        let _ = write!(out, "\"retry_after_ms\":{},", wait.as_millis_ceil());
        // What wasn't checked promises nothing.
        if record.path != crate::record::RecordPath::Unverified {
            text(out, "would_pass_at", &utc(record.at.plus(wait)));
        }
    }
    if record.more > 0 {
        let _ = write!(out, "\"more\":{},", record.more);
        text(out, "last", &utc(record.last));
    }
}

/// What an event says by itself; ends with a comma.
pub(crate) fn event_fields(out: &mut String, event: &Event) {
    text(out, "what", event.kind.name());
    text(out, "subject", &event.subject);
    text(out, "text", &event.text);
    let _ = write!(out, "\"value\":{},\"is_unwell\":{},", event.value, event.is_unwell);
}

pub(crate) fn names(out: &mut String, rule: Option<&RuleName>) {
    if let Some(rule) = rule {
        text(out, "tenant", &rule.tenant);
        text(out, "namespace", &rule.namespace);
        text(out, "rule", &rule.rule);
    }
}

fn algorithm(algorithm: &Algorithm) -> String {
    match algorithm {
        Algorithm::Gcra => "gcra".to_owned(),
        Algorithm::Sliding(period) => format!("sliding {} ms", period.length().as_millis_ceil()),
        Algorithm::Fixed(period) => format!("fixed {} ms", period.length().as_millis_ceil()),
        Algorithm::Calendar { unit, time_zone } => format!("calendar {unit:?} {time_zone}").to_lowercase(),
    }
}

/// `"name":"value",`
pub(crate) fn text(out: &mut String, name: &str, value: &str) {
    let _ = write!(out, "\"{name}\":");
    string(out, value);
    out.push(',');
}

/// In quotes.
pub fn string(out: &mut String, value: &str) {
    out.push('"');
    for character in value.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            control if control < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(control));
            }
            other => out.push(other),
        }
    }
    out.push('"');
}
