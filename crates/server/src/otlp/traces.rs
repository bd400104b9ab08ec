//! Spans as OTLP has them.

use super::json::{Resource, Signal, attribute, end_list};
use std::fmt::Write as _;
use tidegate_decisions::json_string;
use tidegate_node::spans::Span;

/// A whole message of spans.
pub fn traces(spans: &[Span], resource: &Resource) -> String {
    let signal = Signal { resources: "resourceSpans", scopes: "scopeSpans", items: "spans" };
    resource.around(signal, |out| spans.iter().for_each(|span| one(out, span)))
}

fn one(out: &mut String, span: &Span) {
    let (trace, own) = (span.trace.id_text(), span.trace.span_text());
    let _ = write!(out, "{{\"traceId\":\"{trace}\",\"spanId\":\"{own}\",");
    if span.parent != 0 {
        let _ = write!(out, "\"parentSpanId\":\"{:016x}\",", span.parent);
    }
    if !span.state.is_empty() {
        out.push_str("\"traceState\":");
        json_string(out, &span.state);
        out.push(',');
    }
    out.push_str("\"name\":");
    json_string(out, span.name);
    let _ = write!(
        out,
        ",\"kind\":{},\"startTimeUnixNano\":\"{}\",\"endTimeUnixNano\":\"{}\",\"attributes\":[",
        span.kind as u8,
        span.started.get(),
        span.ended.get()
    );
    for (key, value) in &span.attributes {
        attribute(out, key, value);
    }
    end_list(out);
    // 2 is an error; what is well says nothing.
    out.push_str(if span.is_error { ",\"status\":{\"code\":2}}," } else { "}," });
}
