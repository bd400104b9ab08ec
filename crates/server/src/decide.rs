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
use crate::wire::{Body, Form, Prepared, Use};
use tidegate_core::Nanos;
use tidegate_decisions::RequestTag;
use tidegate_node::journal;
use tidegate_node::{Answer, Decided, Purpose, Request, RequestError, Subject, VersionedRules};

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

/// Decides without waiting; `None` when somebody has to be asked first: nothing was changed then.
///
/// Apart from [`decide`], because what that keeps while it waits is moved about with its future.
pub(crate) fn try_decide(
    app: &App,
    caller: &Caller,
    call: Call,
    body: &[u8],
    request_id: &str,
) -> Result<Option<Reply>, Refusal> {
    if call == Call::Reset {
        return Ok(None);
    }
    let body = Body::read(body, call.form())?;
    let prepared = Prepared::new(&body, call.form(), Use::Decide)?;
    let request = Request { tenant: caller.tenant(), purpose: call.purpose(), subject: prepared.subject() };
    name_request(app, request_id);
    Ok(try_engine(app, &request, |answer| reply(call, answer, request.subject, request_id))?)
}

pub(crate) async fn decide(
    app: &App,
    caller: &Caller,
    call: Call,
    body: &[u8],
    request_id: &str,
) -> Result<Reply, Refusal> {
    let body = Body::read(body, call.form())?;
    let needed_for = if call == Call::Reset { Use::Reset } else { Use::Decide };
    let prepared = Prepared::new(&body, call.form(), needed_for)?;
    let request = Request { tenant: caller.tenant(), purpose: call.purpose(), subject: prepared.subject() };
    let rules = app.engine.rules();
    if call == Call::Reset {
        let keys = app.engine.keys(&rules, &request, app.clock.now())?;
        let count = match &app.sharing {
            Some(region) => region.reset(&keys, None).await.map_err(|error| Refusal::origin(&error))?,
            None => app.engine.reset(&keys),
        };
        return Ok(Reply { body: reset_json(count), retry_after: None });
    }
    name_request(app, request_id);
    let answer = ask_engine(app, &rules, &request).await?;
    Ok(reply(call, &answer, request.subject, request_id))
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

/// Decides, and hands the answer to `tell` where it is, as it is large; `None` when the region has to be asked
/// first.
pub(crate) fn try_engine<T>(
    app: &App,
    request: &Request<'_>,
    tell: impl FnOnce(&Answer<'_>) -> T,
) -> Result<Option<T>, RequestError> {
    let (rules, began) = (app.engine.rules(), app.clock.now());
    match &app.engine.decide(&rules, request, began)? {
        Decided::Answer(answer) => {
            time(app, began);
            if let Some(region) = &app.sharing {
                region.publish_urgent();
            }
            Ok(Some(tell(answer)))
        }
        Decided::Ask(_) => Ok(None),
    }
}

/// Decides; asks the region first if that must be.
pub(crate) async fn ask_engine<'r>(
    app: &App,
    rules: &'r VersionedRules,
    request: &Request<'_>,
) -> Result<Answer<'r>, RequestError> {
    let began = app.clock.now();
    let answer = match (app.engine.decide(rules, request, began)?, &app.sharing) {
        (Decided::Answer(answer), region) => {
            time(app, began);
            if let Some(region) = region {
                region.publish_urgent();
            }
            return Ok(answer);
        }
        // Boxed: it is large, and whoever may have to wait would be as large.
        (Decided::Ask(asking), Some(region)) => {
            let span = trace::begin(app, "ask the region");
            let answer = Box::pin(region.ask(asking)).await;
            trace::end(app, span, || traced(&answer));
            answer
        }
        // Without a driver nobody answers.
        (Decided::Ask(asking), None) => app.engine.resume(*asking, &[], app.clock.now()),
    };
    time_asked(app, began);
    Ok(answer)
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
