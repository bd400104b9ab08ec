//! Answers to plain requests, as hyper would write them.

use crate::decide::Reply;
use crate::forward_auth;
use crate::json::write::number;
use crate::refusal::Refusal;
use crate::request_id::RequestId;
use crate::trace::TraceContext;
use hyper::StatusCode;
use std::cell::Cell;
use std::time::{Duration, UNIX_EPOCH};
use tidegate_core::Nanos;
use tidegate_node::Answer;

/// What every answer begins with.
pub(super) struct Head<'a> {
    pub(super) status: StatusCode,
    pub(super) id: &'a RequestId,
    pub(super) closes: bool,
    pub(super) now: Nanos,
    pub(super) trace: Option<&'a TraceContext>,
}

impl Head<'_> {
    fn begin(&self, output: &mut Vec<u8>) {
        output.extend_from_slice(b"HTTP/1.1 ");
        output.extend_from_slice(self.status.as_str().as_bytes());
        output.push(b' ');
        output.extend_from_slice(self.status.canonical_reason().unwrap_or("").as_bytes());
        output.extend_from_slice(b"\r\nx-request-id: ");
        output.extend_from_slice(self.id.as_str().as_bytes());
        if let Some(told) = self.trace.and_then(TraceContext::response_header) {
            output.extend_from_slice(b"\r\ntraceparent: ");
            output.extend_from_slice(told.as_bytes());
        }
        if self.closes {
            output.extend_from_slice(b"\r\nconnection: close");
        }
        output.extend_from_slice(b"\r\ndate: ");
        output.extend_from_slice(&date(self.now));
        output.extend_from_slice(b"\r\n");
    }

    fn json(&self, output: &mut Vec<u8>, body: &[u8]) {
        self.begin(output);
        output.extend_from_slice(b"content-type: application/json\r\ncontent-length: ");
        number(output, u64::try_from(body.len()).unwrap_or(u64::MAX));
        output.extend_from_slice(b"\r\n\r\n");
        output.extend_from_slice(body);
    }
}

pub(super) fn reply(output: &mut Vec<u8>, head: &Head<'_>, reply: &Reply) {
    head.json(output, &reply.body);
}

pub(super) fn refusal(output: &mut Vec<u8>, head: &Head<'_>, refusal: &Refusal) {
    head.json(output, &refusal.to_json());
}

/// Without a body: 204 has none by its meaning, any other status says so.
pub(super) fn forward_auth(output: &mut Vec<u8>, head: &Head<'_>, decided: &Answer<'_>) {
    head.begin(output);
    forward_auth::each_header(decided, head.now, |header, value| {
        output.extend_from_slice(header.name().as_str().as_bytes());
        output.extend_from_slice(b": ");
        output.extend_from_slice(value);
        output.extend_from_slice(b"\r\n");
    });
    if head.status != StatusCode::NO_CONTENT {
        output.extend_from_slice(b"content-length: 0\r\n");
    }
    output.extend_from_slice(b"\r\n");
}

type DateText = [u8; 29];

thread_local! {
    /// The second that was written last, and its text.
    static LAST_DATE: Cell<(u64, DateText)> = const { Cell::new((0, *b"Thu, 01 Jan 1970 00:00:00 GMT")) };
}

/// The value of the header `date`, which changes once a second.
fn date(now: Nanos) -> DateText {
    let seconds = now.get() / Nanos::PER_SECOND;
    let (last, text) = LAST_DATE.get();
    if last == seconds {
        return text;
    }
    let written = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds));
    // As long as every date of this form.
    let text = DateText::try_from(written.as_bytes()).unwrap_or(text);
    LAST_DATE.set((seconds, text));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_their_seconds() {
        for (seconds, text) in [
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (784_111_778, "Sun, 06 Nov 1994 08:49:38 GMT"),
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
        ] {
            assert_eq!(date(Nanos::from_secs(seconds)), text.as_bytes());
        }
    }
}
