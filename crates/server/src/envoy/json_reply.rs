//! `RateLimitResponse` as JSON, in proto3's mapping: what is 0 or empty is left out.

use crate::envoy::encode::at_most_u32;
use crate::envoy::verdict::{Status, Verdict};
use crate::json::write;

pub(crate) fn to_json(verdict: &Verdict<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(256 + 192 * verdict.statuses.len());
    out.extend_from_slice(b"{\"overallCode\":");
    write::string(&mut out, code(!verdict.allowed));
    out.extend_from_slice(b",\"statuses\":[");
    for (index, status) in verdict.statuses.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_status(&mut out, status);
    }
    out.push(b']');
    let mut between: &[u8] = b",\"responseHeadersToAdd\":[";
    verdict.each_header(|header, value| {
        out.extend_from_slice(between);
        between = b",";
        out.extend_from_slice(b"{\"key\":");
        write::string(&mut out, header.text());
        out.extend_from_slice(b",\"value\":");
        write::string(&mut out, &String::from_utf8_lossy(value));
        out.push(b'}');
    });
    out.extend_from_slice(if between == b"," { b"]}\n" } else { b"}\n" });
    out
}

fn write_status(out: &mut Vec<u8>, status: &Status<'_>) {
    out.extend_from_slice(b"{\"code\":");
    write::string(out, code(status.is_over));
    if let Some(limit) = &status.limit {
        out.extend_from_slice(b",\"currentLimit\":{\"name\":");
        write::string(out, limit.name);
        out.extend_from_slice(b",\"requestsPerUnit\":");
        write::number(out, at_most_u32(limit.requests));
        out.extend_from_slice(b",\"unit\":");
        write::string(out, limit.unit().enum_name());
        out.push(b'}');
    }
    if status.remaining > 0 {
        out.extend_from_slice(b",\"limitRemaining\":");
        write::number(out, at_most_u32(status.remaining));
    }
    if status.limit.is_some() {
        out.extend_from_slice(b",\"durationUntilReset\":\"");
        write::number(out, status.reset_seconds);
        out.extend_from_slice(b"s\"");
    }
    out.push(b'}');
}

const fn code(is_over: bool) -> &'static str {
    if is_over { "OVER_LIMIT" } else { "OK" }
}
