//! Plain HTTP/1.1: small, whole requests for a decision, as nearly every caller sends them. All else is hyper's.
//!
//! A decision costs less than what a general server does around it, so the usual case goes beneath that: read,
//! decide, append the answer. At the first thing that it doesn't know (a mistake, a header with a meaning of its
//! own, a long body, another endpoint) the connection is handed over with nothing of that request taken: what
//! hyper answers is the only answer to it. Must never accept what hyper would refuse.

mod read;
mod write;

use crate::App;
use crate::access::{self, Caller, LastCaller, Permission};
use crate::budget::Registration;
use crate::buffers::{OUTPUT_BYTES_SOFT_MAX, STEP_BYTES};
use crate::counters::COUNTERS;
use crate::decide;
use crate::forward_auth;
use crate::pipeline::{self, Answered, Then};
use crate::progress::Patience;
use crate::refusal::Refusal;
use crate::trace::{self, TraceContext, TraceParent};
use hyper::StatusCode;
use read::{Plain, Seen, Wanted, see};
use std::pin::pin;
use tidegate_node::journal;
use write::Head;

/// What a connection remembers.
#[derive(Debug, Default)]
pub(crate) struct PlainHttp {
    last_caller: LastCaller,
    /// The listener shuts down: the next answer is the last.
    closes: bool,
}

impl PlainHttp {
    pub(crate) fn new(registration: Registration) -> Self {
        PlainHttp { last_caller: LastCaller::of(registration), closes: false }
    }

    fn head<'a>(&self, app: &App, status: StatusCode, plain: &'a Plain<'_>) -> Head<'a> {
        Head { status, id: &plain.id, closes: self.closes, now: app.clock.now().now, trace: None }
    }

    /// The trace that a request belongs to.
    #[inline]
    fn parent(plain: &Plain<'_>) -> Option<TraceParent> {
        plain.trace.0.and_then(TraceParent::read)
    }

    #[inline]
    fn answer_at_once(&self, app: &App, plain: &Plain<'_>, output: &mut Vec<u8>) -> Result<bool, Refusal> {
        match PlainHttp::parent(plain) {
            None => self.try_answer(app, plain, output),
            Some(parent) => journal::traced(parent.trace, || self.try_answer(app, plain, output)),
        }
    }

    /// Whether it is answered. If not, somebody must be asked; then, and when it is refused, nothing was changed.
    #[inline]
    fn try_answer(&self, app: &App, plain: &Plain<'_>, output: &mut Vec<u8>) -> Result<bool, Refusal> {
        let caller = self.last_caller.permitted(&app.tokens, plain.token, Some(Permission::Check))?;
        let answered = match &plain.wanted {
            Wanted::Decision { call, body } => {
                decide::try_decide(app, &caller, *call, body, plain.id.as_str())?.map(|reply| {
                    write::reply(output, &self.head(app, StatusCode::OK, plain), &reply);
                })
            }
            Wanted::ForwardAuth { query, headers } => {
                let asked = forward_auth::Asked::read(app, query, headers)?;
                decide::name_request(app, plain.id.as_str());
                decide::try_engine(app, &asked.request(&caller), |decided| {
                    let status = forward_auth::status(decided);
                    write::forward_auth(output, &self.head(app, status, plain), decided);
                })?
            }
        };
        Ok(answered.is_some())
    }

    async fn answer_slowly(
        &self,
        app: &App,
        caller: &Caller,
        plain: &Plain<'_>,
        output: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let context =
            PlainHttp::parent(plain).map(|parent| TraceContext::new(parent, plain.trace.1.into_iter()));
        match &plain.wanted {
            Wanted::Decision { call, body } => {
                let deciding = pin!(decide::decide(app, caller, *call, body, plain.id.as_str()));
                let (reply, context) = trace::during(context, deciding).await;
                let head = self.head(app, StatusCode::OK, plain);
                write::reply(output, &Head { trace: context.as_deref(), ..head }, &reply?);
            }
            Wanted::ForwardAuth { query, headers } => {
                let asked = forward_auth::Asked::read(app, query, headers)?;
                let rules = app.engine.rules();
                decide::name_request(app, plain.id.as_str());
                let request = asked.request(caller);
                let deciding = pin!(decide::ask_engine(app, &rules, &request));
                let (decided, context) = trace::during(context, deciding).await;
                let decided = decided?;
                let head = self.head(app, forward_auth::status(&decided), plain);
                write::forward_auth(output, &Head { trace: context.as_deref(), ..head }, &decided);
            }
        }
        Ok(())
    }
}

impl pipeline::Session for PlainHttp {
    const PATIENCE: Patience = Patience::HTTP;

    fn answer(&mut self, app: &App, input: &[u8], output: &mut Vec<u8>) -> Answered {
        let (mut consumed, checks_host) = (0, !app.tokens.are_required());
        while output.len() < OUTPUT_BYTES_SOFT_MAX {
            let rest = &input[consumed..];
            let then = match see(rest, checks_host) {
                Seen::Incomplete if rest.len() < STEP_BYTES => Then::Read,
                Seen::Incomplete | Seen::Other => Then::HandOver,
                Seen::Plain(plain) => match self.answer_at_once(app, &plain, output) {
                    Ok(true) => {
                        consumed += plain.length;
                        if !self.closes {
                            continue;
                        }
                        Then::End
                    }
                    Ok(false) => Then::Ask,
                    Err(_) => Then::HandOver,
                },
            };
            return Answered { consumed, then };
        }
        Answered { consumed, then: Then::Write }
    }

    async fn ask(&mut self, app: &App, input: &[u8], output: &mut Vec<u8>) -> usize {
        let Seen::Plain(plain) = see(input, !app.tokens.are_required()) else {
            unreachable!("the pass that asks has seen it")
        };
        let caller = self.last_caller.permitted(&app.tokens, plain.token, Some(Permission::Check));
        let answered = match caller {
            Ok(caller) => self.answer_slowly(app, &caller, &plain, output).await,
            Err(refusal) => Err(refusal),
        };
        if let Err(refusal) = answered {
            COUNTERS.requests_refused.add_one();
            access::report_refused(app, &refusal);
            let status = match plain.wanted {
                Wanted::ForwardAuth { .. } => forward_auth::refusal_status(app, &refusal),
                Wanted::Decision { .. } => refusal.code.status(),
            };
            write::refusal(output, &self.head(app, status, &plain), &refusal);
        }
        plain.length
    }

    fn stop(&mut self) {
        self.closes = true;
    }
}

/// What fuzzing calls: any bytes as what a client sent. Every answer must be well-formed, and as long as it says.
#[cfg(feature = "fuzz")]
pub(crate) fn fuzz(app: &App, mut input: &[u8]) {
    use pipeline::Session as _;
    let mut session = PlainHttp::default();
    loop {
        let mut output = Vec::new();
        let Answered { consumed, then } = session.answer(app, input, &mut output);
        input = &input[consumed..];
        let mut answers = output.as_slice();
        while !answers.is_empty() {
            let mut headers = [httparse::EMPTY_HEADER; 32];
            let mut answer = httparse::Response::new(&mut headers);
            let Ok(httparse::Status::Complete(head)) = answer.parse(answers) else { panic!("no answer") };
            let length = answer.headers.iter().find(|header| header.name == "content-length");
            let length = length.and_then(|header| std::str::from_utf8(header.value).ok()?.parse().ok());
            answers = &answers[head + length.unwrap_or(0)..];
        }
        match then {
            Then::Write => assert!(consumed > 0, "a pass that answers something has read something"),
            _ => return,
        }
    }
}
