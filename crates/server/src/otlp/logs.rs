//! Denials and events of the decision log, as log records.
//!
//! Made on the log's own thread and left in a bounded queue. Admissions stay in the log: there they are a sample for
//! who asks, here they would be noise. A caller is a hash here too.

use super::json::{Resource, Signal, attribute, end_list, number};
use crate::counters::COUNTERS;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::Arc;
use tidegate_core::Nanos;
use tidegate_decisions::{
    Event, LogRecordRef, Record, RecordOutcome, RuleCount, RuleName, Trace, json_string,
};
use tidegate_node::journal::writer::Shipper;

/// That wait to be sent.
const RECORDS_MAX: usize = 8192;
const INFO: (u8, &str) = (9, "INFO");
const WARN: (u8, &str) = (13, "WARN");

/// Records that wait to be sent, each as its JSON.
#[derive(Debug, Default)]
pub struct LogQueue(Mutex<VecDeque<String>>);

/// What is put into the queue, by the log's thread.
#[derive(Debug)]
pub struct LogRecords(Arc<LogQueue>);

impl LogQueue {
    pub fn records(self: &Arc<Self>) -> LogRecords {
        LogRecords(Arc::clone(self))
    }

    /// The oldest, at most so many.
    pub fn take(&self, most: usize) -> Vec<String> {
        let mut waiting = self.0.lock();
        let count = waiting.len().min(most);
        waiting.drain(..count).collect()
    }

    /// A whole message of them.
    pub fn message(records: &[String], resource: &Resource) -> String {
        let signal = Signal { resources: "resourceLogs", scopes: "scopeLogs", items: "logRecords" };
        resource.around(signal, |out| {
            for record in records {
                out.push_str(record);
                out.push(',');
            }
        })
    }
}

impl Shipper for LogRecords {
    fn ship(&mut self, told: &LogRecordRef<'_>) {
        let record = match told {
            LogRecordRef::Decision { record, .. } if record.outcome == RecordOutcome::Admitted => return,
            LogRecordRef::Decision { record, rule, shard } => decision(record, *rule, *shard),
            LogRecordRef::Count { count, rule } => counted(count, *rule),
            LogRecordRef::Event(event) => happened(event),
        };
        let mut waiting = self.0.0.lock();
        if waiting.len() < RECORDS_MAX {
            waiting.push_back(record);
        } else {
            COUNTERS.otlp_dropped.add_one();
        }
    }
}

/// A record up to its attributes.
fn begin(at: Nanos, (severity, word): (u8, &str), name: &str, body: &str) -> String {
    let mut out = String::with_capacity(512);
    let _ = write!(
        out,
        "{{\"timeUnixNano\":\"{0}\",\"observedTimeUnixNano\":\"{0}\",\"severityNumber\":{severity},\
         \"severityText\":\"{word}\",\"eventName\":\"{name}\",\"body\":{{\"stringValue\":",
        at.get()
    );
    json_string(&mut out, body);
    out.push_str("},\"attributes\":[");
    out
}

fn named(out: &mut String, rule: Option<&RuleName>) {
    if let Some(rule) = rule {
        attribute(out, "tidegate.tenant", &rule.tenant);
        attribute(out, "tidegate.namespace", &rule.namespace);
        attribute(out, "tidegate.rule", &rule.rule);
    }
}

fn decision(record: &Record, rule: Option<&RuleName>, shard: Option<&str>) -> String {
    let name = rule.map_or("", |rule| &rule.rule);
    let body = match record.more {
        0 => format!("{} by {name}", record.outcome.name()),
        more => format!("{} by {name}, and {more} more until the last", record.outcome.name()),
    };
    let mut out = begin(record.at, INFO, "tidegate.decision", &body);
    attribute(&mut out, "tidegate.outcome", record.outcome.name());
    named(&mut out, rule);
    attribute(&mut out, "tidegate.path", record.path.name());
    attribute(&mut out, "tidegate.key", &record.key.text());
    if record.request.0 != 0 {
        attribute(&mut out, "tidegate.request", &format!("{:016x}", record.request.0));
    }
    if let Some(shard) = shard {
        attribute(&mut out, "tidegate.shard", shard);
    }
    for (key, value) in [
        ("tidegate.rule_version", record.rule_version),
        ("tidegate.limit", record.limit),
        ("tidegate.cost", record.cost),
        ("tidegate.used", record.counts.total()),
        ("tidegate.more", u64::from(record.more)),
    ] {
        number(&mut out, key, value);
    }
    if let Some(wait) = record.retry_after {
        number(&mut out, "tidegate.retry_after_ms", wait.as_millis_ceil());
    }
    end_list(&mut out);
    if record.trace != Trace::NONE {
        let (trace, span) = (record.trace.id_text(), record.trace.span_text());
        let _ = write!(out, ",\"traceId\":\"{trace}\",\"spanId\":\"{span}\"");
    }
    out.push('}');
    out
}

fn counted(count: &RuleCount, rule: Option<&RuleName>) -> String {
    let name = rule.map_or("", |rule| &rule.rule);
    let body = format!("{} more denials by {name}: too many callers at once to log each", count.count);
    let mut out = begin(count.first, INFO, "tidegate.denials", &body);
    named(&mut out, rule);
    number(&mut out, "tidegate.denials", count.count);
    end_list(&mut out);
    out.push('}');
    out
}

fn happened(event: &Event) -> String {
    let severity = if event.is_unwell { WARN } else { INFO };
    let words = [event.kind.name(), &event.subject, &event.text];
    let body: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
    let mut out = begin(event.at, severity, "tidegate.event", &body.join(" "));
    attribute(&mut out, "tidegate.what", event.kind.name());
    attribute(&mut out, "tidegate.subject", &event.subject);
    attribute(&mut out, "tidegate.value", &event.value.to_string());
    end_list(&mut out);
    out.push('}');
    out
}
