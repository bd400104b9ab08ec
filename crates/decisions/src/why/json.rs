//! The same for programs: what `GET /v1/why` answers and `tidegate why --json` prints.

use super::{Audience, ExplainedDecision, Explanation, Nearest};
use crate::event::{Event, EventKind};
use crate::json::{names, record_fields, text};
use crate::why::words::utc;
use std::fmt::Write as _;

impl Explanation<'_> {
    /// `nearest`: the callers that come next to one who was looked for in vain.
    pub fn to_json(&self, nearest: &[Nearest]) -> String {
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
        out.push_str("],\"nearest\":[");
        for (index, near) in nearest.iter().enumerate() {
            comma(&mut out, index);
            out.push('{');
            names(&mut out, Some(&near.rule));
            text(&mut out, "key", &near.key.text());
            if let Some(name) = &near.name {
                text(&mut out, "caller", name);
            }
            text(&mut out, "last", &utc(near.last));
            let _ = write!(out, "\"denials\":{}}}", near.denials);
        }
        let _ = writeln!(out, "],\"is_cut\":{},\"damaged\":{}}}", self.is_cut, self.damaged);
        out
    }
}

fn decision(out: &mut String, explained: &ExplainedDecision<'_>, audience: Audience) {
    let record = explained.record;
    out.push('{');
    text(out, "at", &utc(record.at));
    text(out, "outcome", record.outcome.name());
    text(out, "cause", explained.cause.name());
    record_fields(out, record, explained.rule);
    if let Some(name) = explained.caller.and_then(|caller| caller.name.as_ref()) {
        text(out, "caller", name);
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

fn comma(out: &mut String, index: usize) {
    if index > 0 {
        out.push(',');
    }
}
