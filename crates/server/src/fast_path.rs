//! Plain HTTP/1.1: small, whole requests for a decision, as nearly every caller sends them. All else is hyper's.
//!
//! A decision costs less than what a general server does around it, so the usual case goes beneath that: read,
//! decide, append the answer. At the first thing that it doesn't know (a mistake, a header with a meaning of its
//! own, a long body, another endpoint) the connection is handed over with nothing of that request taken: what
//! hyper answers is the only answer to it. Must never accept what hyper would refuse.

mod read;
mod write;

use crate::App;
use crate::access::{self, LastCaller, Permission};
use crate::budget::Registration;
use crate::buffers::{OUTPUT_BYTES_SOFT_MAX, STEP_BYTES};
use crate::counters::COUNTERS;
use crate::decide::{self, PendingAsk, PendingCall, TryDecision};
use crate::forward_auth;
use crate::pipeline::{self, Finishing, NextStep, PassEnd, PassResult};
use crate::progress::Patience;
use crate::refusal::Refusal;
use crate::trace::{self, TraceContext, TraceParent};
use hyper::StatusCode;
use read::{FastCall, FastRequest, ReadProgress, read};
use std::pin::pin;
use tidegate_node::{VersionedRules, journal};
use write::Head;

/// The fast path of one connection, and what it remembers between requests.
#[derive(Debug, Default)]
pub(crate) struct FastPath {
    last_caller: LastCaller,
    /// The listener shuts down: the next answer is the last.
    closes: bool,
}

impl FastPath {
    pub(crate) fn new(registration: Registration) -> Self {
        FastPath { last_caller: LastCaller::of(registration), closes: false }
    }

    fn head<'a>(&self, app: &App, status: StatusCode, plain: &'a FastRequest<'_>) -> Head<'a> {
        Head { status, id: &plain.id, closes: self.closes, now: app.clock.now().now, trace: None }
    }

    /// The trace that a request belongs to.
    #[inline]
    fn parent(plain: &FastRequest<'_>) -> Option<TraceParent> {
        plain.trace.0.and_then(TraceParent::read)
    }

    #[inline]
    fn answer_at_once<'a>(
        &self,
        app: &App,
        rules: &'a VersionedRules,
        plain: &FastRequest<'a>,
        output: &mut Vec<u8>,
    ) -> Result<TryDecision<(), PendingAnswer<'a>>, Refusal> {
        match FastPath::parent(plain) {
            None => self.try_answer(app, rules, plain, output),
            Some(parent) => journal::traced(parent.trace, || self.try_answer(app, rules, plain, output)),
        }
    }

    /// Answers a request if nobody has to be asked. When it has to ask, or is refused, nothing was changed.
    #[inline]
    fn try_answer<'a>(
        &self,
        app: &App,
        rules: &'a VersionedRules,
        plain: &FastRequest<'a>,
        output: &mut Vec<u8>,
    ) -> Result<TryDecision<(), PendingAnswer<'a>>, Refusal> {
        let caller = self.last_caller.permitted(&app.tokens, plain.token, Some(Permission::Check))?;
        match &plain.wanted {
            FastCall::Decision { call, body } => {
                match decide::try_decide(app, &caller, rules, (*call, body), plain.id.as_str())? {
                    TryDecision::Answered(reply) => {
                        write::reply(output, &self.head(app, StatusCode::OK, plain), &reply);
                        Ok(TryDecision::Answered(()))
                    }
                    TryDecision::MustAsk(pending) => Ok(TryDecision::MustAsk(PendingAnswer::Call(pending))),
                }
            }
            FastCall::ForwardAuth { query, headers } => {
                let asked = forward_auth::AuthRequest::read(app, query, headers)?;
                decide::name_request(app, plain.id.as_str());
                let tried = decide::try_engine(app, rules, &asked.request(&caller), |decided| {
                    let status = forward_auth::status(decided);
                    write::forward_auth(output, &self.head(app, status, plain), decided);
                })?;
                Ok(match tried {
                    TryDecision::Answered(()) => TryDecision::Answered(()),
                    TryDecision::MustAsk(pending) => {
                        TryDecision::MustAsk(PendingAnswer::ForwardAuth(pending))
                    }
                })
            }
        }
    }

    async fn finish_request(
        &self,
        app: &App,
        pending: Box<PendingRequest<'_>>,
        output: &mut Vec<u8>,
    ) -> usize {
        let PendingRequest { plain, answer } = *pending;
        if let Err(refusal) = self.finish_answer(app, &plain, answer, output).await {
            COUNTERS.requests_refused.add_one();
            access::report_refused(app, &refusal);
            let status = match plain.wanted {
                FastCall::ForwardAuth { .. } => forward_auth::refusal_status(app, &refusal),
                FastCall::Decision { .. } => refusal.code.status(),
            };
            write::refusal(output, &self.head(app, status, &plain), &refusal);
        }
        plain.length
    }

    async fn finish_answer(
        &self,
        app: &App,
        plain: &FastRequest<'_>,
        answer: PendingAnswer<'_>,
        output: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let context =
            FastPath::parent(plain).map(|parent| TraceContext::new(parent, plain.trace.1.into_iter()));
        match answer {
            PendingAnswer::Call(pending) => {
                let deciding = pin!(pending.finish(app, plain.id.as_str()));
                let (reply, context) = trace::during(context, deciding).await;
                let head = self.head(app, StatusCode::OK, plain);
                write::reply(output, &Head { trace: context.as_deref(), ..head }, &reply?);
            }
            PendingAnswer::ForwardAuth(pending) => {
                let deciding = pin!(pending.finish(app));
                let (decided, context) = trace::during(context, deciding).await;
                let head = self.head(app, forward_auth::status(&decided), plain);
                write::forward_auth(output, &Head { trace: context.as_deref(), ..head }, &decided);
            }
        }
        Ok(())
    }
}

/// A request that has to ask its region before it is answered.
pub(crate) struct PendingRequest<'a> {
    plain: FastRequest<'a>,
    answer: PendingAnswer<'a>,
}

#[expect(clippy::large_enum_variant, reason = "boxed as a whole")]
enum PendingAnswer<'a> {
    Call(PendingCall<'a>),
    ForwardAuth(PendingAsk<'a>),
}

impl pipeline::Session for FastPath {
    const PATIENCE: Patience = Patience::HTTP;

    // Boxed: it is large, and nearly nobody asks.
    type Pending<'a> = Box<PendingRequest<'a>>;

    fn answer<'a>(
        &mut self,
        app: &App,
        rules: &'a VersionedRules,
        input: &'a [u8],
        output: &mut Vec<u8>,
    ) -> PassResult<Self::Pending<'a>> {
        let (mut consumed, checks_host) = (0, !app.tokens.are_required());
        while output.len() < OUTPUT_BYTES_SOFT_MAX {
            let rest = &input[consumed..];
            let then = match read(rest, checks_host) {
                ReadProgress::Incomplete if rest.len() < STEP_BYTES => NextStep::Read,
                ReadProgress::Incomplete | ReadProgress::Other => NextStep::HandOver,
                ReadProgress::Plain(plain) => match self.answer_at_once(app, rules, &plain, output) {
                    Ok(TryDecision::Answered(())) => {
                        consumed += plain.length;
                        if !self.closes {
                            continue;
                        }
                        NextStep::End
                    }
                    Ok(TryDecision::MustAsk(answer)) => {
                        let pending = Box::new(PendingRequest { plain, answer });
                        return PassResult { consumed, then: PassEnd::Finish(pending) };
                    }
                    Err(_) => NextStep::HandOver,
                },
            };
            return PassResult { consumed, then: PassEnd::Then(then) };
        }
        PassResult { consumed, then: PassEnd::Then(NextStep::Write) }
    }

    fn finish<'a>(
        &'a mut self,
        app: &'a App,
        pending: Self::Pending<'a>,
        output: &'a mut Vec<u8>,
    ) -> Finishing<'a> {
        Box::pin(self.finish_request(app, pending, output))
    }

    fn stop(&mut self) {
        self.closes = true;
    }
}

/// What fuzzing calls: any bytes as what a client sent. Every answer must be well-formed, and as long as it says.
#[cfg(feature = "fuzz")]
pub(crate) fn fuzz(app: &App, mut input: &[u8]) {
    use pipeline::Session as _;
    let mut session = FastPath::default();
    loop {
        let mut output = Vec::new();
        let rules = app.engine.rules();
        let PassResult { consumed, then } = session.answer(app, &rules, input, &mut output);
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
            PassEnd::Then(NextStep::Write) => {
                assert!(consumed > 0, "a pass that answers something has read something");
            }
            _ => return,
        }
    }
}
