//! The same for programs: what `GET /v1/why` answers and `tidegate why --json` prints.

use super::{Audience, Explained, Explanation};
use crate::event::{Event, EventKind};
use crate::name::{Algorithm, RuleName};
use crate::why::words::utc;
use std::fmt::Write as _;

impl Explanation<'_> {
    pub fn to_json(&self) -> String {
        let mut out = String::from("{\"decisions\":[");
        for (index, explained) in self.decisions.iter().enumerate() {
            comma(&mut out, index);
            decision(&mut out, explained, self.audience);
        }
        out.push_str("],\"counted\":[");
        for (index, (count, rule)) in self.counted.iter().enumerate() {
            comma(&mut out, index);
            out.push('{');
            names(&mut out, *rule);
            text(&mut out, "first", &utc(count.first));
            text(&mut out, "last", &utc(count.last));
            let _ = write!(out, "\"denials\":{}}}", count.count);
        }
        let _ = writeln!(out, "],\"is_cut\":{},\"damaged\":{}}}", self.is_cut, self.damaged);
        out
    }
}

fn decision(out: &mut String, explained: &Explained<'_>, audience: Audience) {
    let record = explained.record;
    out.push('{');
    text(out, "at", &utc(record.at));
    text(out, "outcome", record.outcome.name());
    text(out, "cause", explained.cause.name());
    names(out, explained.rule);
    if let Some(rule) = explained.rule {
        text(out, "algorithm", &algorithm(&rule.algorithm));
    }
    for (name, number) in
        [("rule_version", record.rule_version), ("limit", record.limit), ("cost", record.cost)]
    {
        let _ = write!(out, "\"{name}\":{number},");
    }
    let seen = record.seen;
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
    text(out, "key", &format!("{:016x}{:08x}", record.key.high, record.key.low));
    if record.request.0 != 0 {
        text(out, "request", &format!("{:016x}", record.request.0));
    }
    if let Some(wait) = record.retry_after {
        let _ = write!(out, "\"retry_after_ms\":{},", wait.as_millis_ceil());
        text(out, "would_pass_at", &utc(record.at.plus(wait)));
    }
    if record.more > 0 {
        let _ = write!(out, "\"more\":{},", record.more);
        text(out, "last", &utc(record.last));
    }
    if audience == Audience::Operator {
        if let Some(writer) = explained.writer {
            text(out, "region", &writer.region);
            text(out, "node", &writer.node);
        }
        if let Some(shard) = explained.shard {
            text(out, "shard", shard);
        }
    }
    events(out, "unwell", &explained.unwell.iter().collect::<Vec<_>>(), audience);
    events(out, "changed_before", &explained.recent, audience);
    text(out, "sentence", &explained.sentence());
    out.pop();
    out.push('}');
}

fn events(out: &mut String, name: &str, events: &[&Event], audience: Audience) {
    let _ = write!(out, "\"{name}\":[");
    for (index, event) in events.iter().enumerate() {
        comma(out, index);
        out.push('{');
        text(out, "since", &utc(event.at));
        text(out, "what", event.kind.name());
        // A rule's change is about the tenant's own rule; everything else names servers.
        if audience == Audience::Operator || event.kind == EventKind::Rules {
            text(out, "subject", &event.subject);
            text(out, "text", &event.text);
        }
        let _ = write!(out, "\"value\":{}}}", event.value);
    }
    out.push_str("],");
}

fn names(out: &mut String, rule: Option<&RuleName>) {
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

fn comma(out: &mut String, index: usize) {
    if index > 0 {
        out.push(',');
    }
}

/// `"name":"value",`
fn text(out: &mut String, name: &str, value: &str) {
    let _ = write!(out, "\"{name}\":\"");
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
    out.push_str("\",");
}
