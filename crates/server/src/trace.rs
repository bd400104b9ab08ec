//! W3C trace context: which trace a request belongs to, by its `traceparent` and `tracestate`.
//!
//! A decision that asks nobody only notes the trace beside what it logs. A request that has to ask gets a span, where
//! spans are sent on and the caller's trace is sampled; the answer's `traceparent` names it then. A header that isn't
//! valid is as good as none, as the standard says.

use crate::App;
use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::pin;
use tidegate_decisions::Trace;
use tidegate_node::clock::Clock;
use tidegate_node::journal;
use tidegate_node::spans::{self, Span, SpanKind};

pub(crate) const PARENT: HeaderName = HeaderName::from_static("traceparent");
const STATE: HeaderName = HeaderName::from_static("tracestate");
/// `00-` 32 digits `-` 16 digits `-` 2 digits.
const PARENT_LENGTH: usize = 55;
/// In bytes, all headers together.
const STATE_LENGTH_MAX: usize = 512;
const SAMPLED: u8 = 1;

/// What a valid `traceparent` says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TraceParent {
    pub(crate) trace: Trace,
    is_sampled: bool,
}

impl TraceParent {
    /// `None` when it isn't valid. What a later version adds is skipped.
    pub(crate) fn read(text: &[u8]) -> Option<Self> {
        let (head, rest) = text.split_at_checked(PARENT_LENGTH)?;
        let [a, b, b'-', ids @ ..] = head else { return None };
        let version = hex(&[*a, *b])?;
        let is_whole = match version {
            0 => rest.is_empty(),
            0xff => false,
            _ => rest.is_empty() || rest.starts_with(b"-"),
        };
        let (trace, ids) = ids.split_at_checked(32)?;
        let (high, low) = (hex(&trace[..16])?, hex(&trace[16..])?);
        let [b'-', ids @ ..] = ids else { return None };
        let (span, flags) = ids.split_at_checked(16)?;
        let (span, [b'-', flags @ ..]) = (hex(span)?, flags) else { return None };
        let flags = u8::try_from(hex(flags)?).ok()?;
        let is_valid = is_whole && (high, low) != (0, 0) && span != 0;
        let trace = Trace { high, low, span };
        is_valid.then_some(TraceParent { trace, is_sampled: flags & SAMPLED != 0 })
    }

    /// One that comes twice is none.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let mut parents = headers.get_all(PARENT).iter();
        let parent = parents.next()?;
        if parents.next().is_some() { None } else { TraceParent::read(parent.as_bytes()) }
    }
}

/// Lowercase digits only.
fn hex(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0, |number: u64, digit| {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(number << 4 | u64::from(digit))
    })
}

/// A trace that a request may leave a span in.
#[derive(Debug)]
pub(crate) struct TraceContext {
    parent: TraceParent,
    state: String,
    /// The span that was made.
    own: Option<Trace>,
}

impl TraceContext {
    /// What is too long isn't handed on, nor is what isn't visible ASCII.
    pub(crate) fn new<'s>(parent: TraceParent, states: impl Iterator<Item = &'s [u8]>) -> Box<Self> {
        let states: Vec<&[u8]> = states.collect();
        let state = String::from_utf8(states.join(&b","[..])).unwrap_or_default();
        let is_fit =
            state.len() <= STATE_LENGTH_MAX && state.bytes().all(|b| b == b' ' || b.is_ascii_graphic());
        let state = if is_fit { state } else { String::new() };
        Box::new(TraceContext { parent, state, own: None })
    }

    pub(crate) fn of(headers: &HeaderMap) -> Option<Box<Self>> {
        let parent = TraceParent::of(headers)?;
        Some(TraceContext::new(parent, headers.get_all(STATE).iter().map(HeaderValue::as_bytes)))
    }

    /// Returns the answer's `traceparent`, if a span was made.
    pub(crate) fn response_header(&self) -> Option<String> {
        self.own.map(header_value)
    }

    /// A span of a change of the rules: in the caller's trace if there is one, else the first of its own.
    pub(crate) fn change(context: Option<&Self>, clock: &Clock) -> Span {
        let (name, started) = ("change the rules", clock.now().now);
        match context {
            None => Span::root(name, SpanKind::Server, started),
            Some(context) => {
                let span = Span::child(context.parent.trace, name, SpanKind::Server, started);
                Span { state: context.state.clone(), ..span }
            }
        }
    }

    pub(crate) fn header(&self) -> Option<HeaderValue> {
        HeaderValue::from_str(&self.response_header()?).ok()
    }
}

/// A `traceparent` of ours.
pub(crate) fn header_value(own: Trace) -> String {
    format!("00-{}-{}-01", own.id_text(), own.span_text())
}

thread_local! {
    /// Of the request whose future is being polled.
    static CONTEXT: RefCell<Option<Box<TraceContext>>> = const { RefCell::new(None) };
}

/// Does something as part of a trace, and gives back what became of the context.
pub(crate) async fn during<T>(
    context: Option<Box<TraceContext>>,
    work: impl Future<Output = T>,
) -> (T, Option<Box<TraceContext>>) {
    let mut work = pin!(work);
    let Some(mut context) = context else { return (work.await, None) };
    let trace = context.parent.trace;
    let mut held = Some(context);
    let done = poll_fn(|cx| {
        let before = CONTEXT.replace(held.take());
        let polled = journal::traced(trace, || work.as_mut().poll(cx));
        held = CONTEXT.replace(before);
        polled
    })
    .await;
    context = match held {
        Some(context) => context,
        None => unreachable!("it is taken back after each poll"),
    };
    (done, Some(context))
}

/// A span of the request that is at hand, if its trace wants one.
pub(crate) fn begin(app: &App, name: &'static str) -> Option<Box<Span>> {
    if !spans::is_recording() {
        return None;
    }
    CONTEXT.with_borrow_mut(|context| {
        let context = context.as_mut().filter(|context| context.parent.is_sampled)?;
        let started = app.clock.now().now;
        let mut span = Span::child(context.parent.trace, name, SpanKind::Server, started);
        span.state.clone_from(&context.state);
        context.own = Some(span.trace);
        Some(Box::new(span))
    })
}

pub(crate) fn end(
    app: &App,
    span: Option<Box<Span>>,
    attributes: impl FnOnce() -> Vec<(&'static str, String)>,
) {
    if let Some(mut span) = span {
        span.ended = app.clock.now().now;
        span.attributes = attributes();
        spans::record(*span);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALID: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn read(text: &str) -> Option<TraceParent> {
        TraceParent::read(text.as_bytes())
    }

    #[test]
    fn a_valid_parent_is_read() {
        let trace =
            Trace { high: 0x4bf9_2f35_77b3_4da6, low: 0xa3ce_929d_0e0e_4736, span: 0x00f0_67aa_0ba9_02b7 };
        assert_eq!(read(VALID), Some(TraceParent { trace, is_sampled: true }));
        let unsampled = VALID.replace("-01", "-00");
        assert_eq!(read(&unsampled), Some(TraceParent { trace, is_sampled: false }));
        let other_flags = VALID.replace("-01", "-03");
        assert!(read(&other_flags).is_some_and(|parent| parent.is_sampled));
        assert_eq!(format!("00-{}-{}-01", trace.id_text(), trace.span_text()), VALID);
    }

    #[test]
    fn later_versions_may_say_more() {
        assert!(read(&VALID.replacen("00", "cc", 1)).is_some());
        assert!(read(&format!("{}-what-the-future-will-be", VALID.replacen("00", "cc", 1))).is_some());
        assert_eq!(read(&format!("{}.what", VALID.replacen("00", "cc", 1))), None);
    }

    #[test]
    fn what_isnt_valid_is_none() {
        let zero_trace = VALID.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32));
        let zero_span = VALID.replace("00f067aa0ba902b7", &"0".repeat(16));
        for text in [
            "",
            "00",
            &VALID[..54],
            &format!("{VALID}-extra"),
            &VALID.replacen("00", "ff", 1),
            &VALID.to_uppercase(),
            &VALID.replace('-', "_"),
            &VALID.replace("4bf9", "4bg9"),
            &zero_trace,
            &zero_span,
        ] {
            assert_eq!(read(text), None, "{text}");
        }
        let twice: HeaderMap = [VALID, VALID]
            .iter()
            .map(|text| (PARENT, HeaderValue::from_static(text)))
            .fold(HeaderMap::new(), |mut map, (name, value)| {
                map.append(name, value);
                map
            });
        assert_eq!(TraceParent::of(&twice), None);
    }

    #[test]
    fn states_are_put_together_and_bounded() {
        let parent = read(VALID).unwrap();
        let state = |states: &[&str]| {
            TraceContext::new(parent, states.iter().map(|state| state.as_bytes())).state.clone()
        };
        assert_eq!(state(&["a=1", "b=2"]), "a=1,b=2");
        assert_eq!(state(&[&"x".repeat(513)]), "");
        assert_eq!(state(&["a=\u{7f}"]), "");
    }
}
