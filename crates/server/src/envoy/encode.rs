//! `RateLimitResponse` as protobuf.

use crate::envoy::protobuf::{put_bytes, put_message, put_number};
use crate::envoy::verdict::{Status, Verdict};

/// The protocol's codes.
const OK: u64 = 1;
const OVER_LIMIT: u64 = 2;

/// Appends a denial that no limit caused: it has no statuses.
pub(crate) fn encode_denial(out: &mut Vec<u8>) {
    put_number(out, 1, OVER_LIMIT);
}

/// Appends the message.
pub(crate) fn encode(verdict: &Verdict<'_>, out: &mut Vec<u8>) {
    put_number(out, 1, if verdict.allowed { OK } else { OVER_LIMIT });
    for status in &verdict.statuses {
        put_message(out, 2, |out| put_status(out, status));
    }
    verdict.each_header(|header, value| {
        put_message(out, 3, |out| {
            put_bytes(out, 1, header.text().as_bytes());
            put_bytes(out, 2, value);
        });
    });
}

fn put_status(out: &mut Vec<u8>, status: &Status<'_>) {
    put_number(out, 1, if status.is_over { OVER_LIMIT } else { OK });
    if let Some(limit) = &status.limit {
        put_message(out, 2, |out| {
            put_number(out, 1, at_most_u32(limit.requests));
            put_number(out, 2, limit.unit().number());
            put_bytes(out, 3, limit.name.as_bytes());
        });
    }
    put_number(out, 3, at_most_u32(status.remaining));
    if status.limit.is_some() {
        put_message(out, 4, |out| put_number(out, 1, status.reset_seconds));
    }
}

/// The protocol's numbers are narrower than ours.
pub(crate) fn at_most_u32(number: u64) -> u64 {
    number.min(u64::from(u32::MAX))
}
