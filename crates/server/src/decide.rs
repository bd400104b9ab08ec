//! The five calls: a body in, an answer of the engine out.
//!
//! The rules in force are taken once per request. Nearly always nobody waits: only a request that must ask its
//! region does, for some milliseconds at most.

use crate::App;
use crate::access::Caller;
use crate::answer::{path_word, retry_after, to_json};
use crate::json::write;
use crate::latency::{time, time_asked};
use crate::refusal::Refusal;
use crate::route::Call;
use crate::trace;
use crate::wire::{Body, Form, PreparedCall, Use};
use tidegate_core::{Moment, Nanos};
use tidegate_decisions::RequestTag;
use tidegate_node::journal;
use tidegate_node::{
    Answer, DecideOutcome, PendingDecision, Purpose, Request, RequestError, Subject, VersionedRules,
};

#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub body: Vec<u8>,
    /// Of a denial that a wait helps: after this the same request would pass, and the reply isn't true any more.
    pub retry_after: Option<Nanos>,
}

impl Call {
    const fn form(self) -> Form {
        match self {
            Call::Check => Form::Check,
            Call::Limit => Form::Limit,
            Call::LimitMany => Form::LimitMany,
            Call::Report | Call::Reset => Form::Any,
        }
    }

    const fn purpose(self) -> Purpose {
        match self {
            Call::Report => Purpose::Report,
            Call::Check | Call::Limit | Call::LimitMany | Call::Reset => Purpose::Check,
        }
    }
}

/// A decision made without waiting, or what is needed to finish it.
pub(crate) enum TryDecision<T, P> {
    Answered(T),
    /// The region has to be asked first. Nothing was charged.
    MustAsk(P),
}

/// A request that the engine understood, and that has to ask its region. Dropped, it changes nothing.
#[derive(Debug)]
pub(crate) struct PendingAsk<'r> {
    asking: Box<PendingDecision<'r>>,
    began: Moment,
}

/// A call whose body was read, and that has to ask its region.
#[derive(Debug)]
pub(crate) struct PendingCall<'a> {
    call: Call,
    body: Body<'a>,
    ask: PendingAsk<'a>,
}

/// Decides a call that isn't a reset, without waiting.
#[inline]
pub(crate) fn try_decide<'a>(
    app: &App,
    caller: &Caller,
    rules: &'a VersionedRules,
    (call, body): (Call, &'a [u8]),
    request_id: &str,
) -> Result<TryDecision<Reply, PendingCall<'a>>, Refusal> {
    let body = Body::read(body, call.form())?;
    let tried = {
        let prepared = PreparedCall::new(&body, call.form(), Use::Decide)?;
        let (tenant, subject) = (caller.tenant(), prepared.subject());
        let request = Request { tenant, purpose: call.purpose(), subject };
        name_request(app, request_id);
        try_engine(app, rules, &request, |answer| reply(call, answer, subject, request_id))?
    };
    Ok(match tried {
        TryDecision::Answered(reply) => TryDecision::Answered(reply),
        TryDecision::MustAsk(ask) => TryDecision::MustAsk(PendingCall { call, body, ask }),
    })
}

/// Decides a call; asks the region first if that must be.
pub(crate) async fn decide(
    app: &App,
    caller: &Caller,
    call: Call,
    body: &[u8],
    request_id: &str,
) -> Result<Reply, Refusal> {
    if call == Call::Reset {
        return Box::pin(reset(app, caller, body)).await;
    }
    let rules = app.engine.rules();
    match try_decide(app, caller, &rules, (call, body), request_id)? {
        TryDecision::Answered(reply) => Ok(reply),
        // Boxed: it is large, and nearly nobody waits.
        TryDecision::MustAsk(pending) => Box::pin(pending.finish(app, request_id)).await,
    }
}

async fn reset(app: &App, caller: &Caller, body: &[u8]) -> Result<Reply, Refusal> {
    let body = Body::read(body, Call::Reset.form())?;
    let prepared = PreparedCall::new(&body, Call::Reset.form(), Use::Reset)?;
    let (tenant, subject) = (caller.tenant(), prepared.subject());
    let request = Request { tenant, purpose: Call::Reset.purpose(), subject };
    let rules = app.engine.rules();
    let keys = app.engine.keys(&rules, &request, app.clock.now())?;
    let count = match &app.sharing {
        Some(region) => region.reset(&keys, None).await.map_err(|error| Refusal::origin(&error))?,
        None => app.engine.reset(&keys),
    };
    Ok(Reply { body: reset_json(count), retry_after: None })
}

impl PendingCall<'_> {
    /// Asks the region, and decides.
    pub(crate) async fn finish(self, app: &App, request_id: &str) -> Result<Reply, Refusal> {
        let PendingCall { call, body, ask } = self;
        let answer = ask.finish(app).await;
        // Made again from what was read: names for the answer.
        let prepared = PreparedCall::new(&body, call.form(), Use::Decide)?;
        Ok(reply(call, &answer, prepared.subject(), request_id))
    }
}

impl<'r> PendingAsk<'r> {
    /// Asks the region, and decides.
    pub(crate) async fn finish(self, app: &App) -> Answer<'r> {
        let PendingAsk { asking, began } = self;
        let answer = match &app.sharing {
            Some(region) => {
                let span = trace::begin(app, "ask the region");
                let answer = region.ask(asking).await;
                trace::end(app, span, || traced(&answer));
                answer
            }
            // Without a driver nobody answers.
            None => app.engine.resume(*asking, &[], app.clock.now()),
        };
        time_asked(app, began);
        answer
    }
}

fn reply(call: Call, answer: &Answer<'_>, subject: Subject<'_>, request_id: &str) -> Reply {
    let retry_after = match call.purpose() {
        Purpose::Check => retry_after(answer),
        // It has passed already: there is nothing to try again.
        Purpose::Report => None,
    };
    Reply { body: to_json(answer, subject, request_id), retry_after }
}

/// Says by which id the next decision of this thread can be found again. Right before it, with nothing to wait for
/// in between.
#[inline]
pub(crate) fn name_request(app: &App, id: &str) {
    if app.engine.journal().is_some() {
        journal::name_next_request(RequestTag::of(id));
    }
}

/// Decides without waiting, and hands the answer to `tell` where it is, as it is large.
#[inline]
pub(crate) fn try_engine<'r, T>(
    app: &App,
    rules: &'r VersionedRules,
    request: &Request<'_>,
    tell: impl FnOnce(&Answer<'r>) -> T,
) -> Result<TryDecision<T, PendingAsk<'r>>, RequestError> {
    let began = app.clock.now();
    match app.engine.decide(rules, request, began)? {
        DecideOutcome::Answer(ref answer) => {
            decided_at_once(app, began);
            Ok(TryDecision::Answered(tell(answer)))
        }
        DecideOutcome::Ask(asking) => Ok(TryDecision::MustAsk(PendingAsk { asking, began })),
    }
}

/// What follows a decision that nobody was asked for.
#[inline]
fn decided_at_once(app: &App, began: Moment) {
    time(app, began);
    if let Some(region) = &app.sharing {
        region.publish_urgent();
    }
}

/// Decides; asks the region first if that must be.
pub(crate) async fn ask_engine<'r>(
    app: &App,
    rules: &'r VersionedRules,
    request: &Request<'_>,
) -> Result<Answer<'r>, RequestError> {
    let began = app.clock.now();
    match app.engine.decide(rules, request, began)? {
        DecideOutcome::Answer(answer) => {
            decided_at_once(app, began);
            Ok(answer)
        }
        // Boxed: it is large, and whoever may have to wait would be as large.
        DecideOutcome::Ask(asking) => Ok(Box::pin(PendingAsk { asking, began }.finish(app)).await),
    }
}

/// What a span says of an answer.
fn traced(answer: &Answer<'_>) -> Vec<(&'static str, String)> {
    vec![
        ("tidegate.path", path_word(answer.path).to_owned()),
        ("tidegate.allowed", answer.allowed.to_string()),
    ]
}

fn reset_json(count: usize) -> Vec<u8> {
    let mut out = b"{\"reset\":".to_vec();
    write::number(&mut out, u64::try_from(count).unwrap_or(u64::MAX));
    out.extend_from_slice(b"}\n");
    out
}
