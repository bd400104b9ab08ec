//! The families of metrics as OTLP has them: counters as monotonic sums since the process began, gauges, histograms.

use super::json::{Resource, Signal, attribute, end_list};
use crate::App;
use crate::metrics::{Family, Kind, Sample, Value, families};
use std::fmt::Write as _;
use tidegate_core::Nanos;
use tidegate_decisions::json_string;

/// Sums that go on from the start of the process.
const CUMULATIVE: u8 = 2;

/// Everything that this node counts, as a whole message. `started`: when the counts began.
pub fn metrics(app: &App, resource: &Resource, started: Nanos) -> String {
    let now = app.clock.now().now;
    let signal = Signal { resources: "resourceMetrics", scopes: "scopeMetrics", items: "metrics" };
    resource.around(signal, |out| {
        for family in families(app).iter().filter(|family| !family.samples.is_empty()) {
            one(out, family, started, now);
        }
    })
}

fn one(out: &mut String, family: &Family, started: Nanos, now: Nanos) {
    out.push_str("{\"name\":");
    json_string(out, &family.name);
    out.push_str(",\"description\":");
    json_string(out, family.help);
    let kind = match family.kind {
        Kind::Counter => {
            format!("\"sum\":{{\"aggregationTemporality\":{CUMULATIVE},\"isMonotonic\":true,")
        }
        Kind::Gauge => "\"gauge\":{".to_owned(),
        Kind::Histogram => format!("\"histogram\":{{\"aggregationTemporality\":{CUMULATIVE},"),
    };
    let _ = write!(out, ",{kind}\"dataPoints\":[");
    for sample in &family.samples {
        point(out, family.kind, sample, started, now);
    }
    end_list(out);
    out.push_str("}},");
}

fn point(out: &mut String, kind: Kind, sample: &Sample, started: Nanos, now: Nanos) {
    out.push_str("{\"attributes\":[");
    for (name, value) in &sample.labels {
        attribute(out, name, value);
    }
    end_list(out);
    if kind != Kind::Gauge {
        let _ = write!(out, ",\"startTimeUnixNano\":\"{}\"", started.get());
    }
    let _ = write!(out, ",\"timeUnixNano\":\"{}\"", now.get());
    match &sample.value {
        Value::Whole(number) => {
            let _ = write!(out, ",\"asInt\":\"{}\"", i64::try_from(*number).unwrap_or(i64::MAX));
        }
        Value::Real(number) => {
            let _ = write!(out, ",\"asDouble\":{number:?}");
        }
        Value::Histogram(measured) => {
            let count: u64 = measured.counts.iter().sum();
            let _ = write!(out, ",\"count\":\"{count}\",\"sum\":{:?},\"bucketCounts\":[", measured.sum);
            for count in &measured.counts {
                let _ = write!(out, "\"{count}\",");
            }
            end_list(out);
            out.push_str(",\"explicitBounds\":[");
            for bound in measured.bounds {
                let _ = write!(out, "{bound:?},");
            }
            end_list(out);
        }
    }
    out.push_str("},");
}
