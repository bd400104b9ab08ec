//! `GET /v1/why`: what the decision log has about callers, of the caller's tenant; of all for operators.
//!
//! Reads files, so it is done on a thread of its own, and by two at a time: nobody who decides waits for it. A broker
//! asks the same of every node that follows it, over the stream that rules come by.

use crate::App;
use crate::access::Caller;
use crate::control::decoded;
use crate::for_caller;
use crate::refusal::{Code, Refusal, excerpt};
use hyper::body::Bytes;
use std::path::Path as FilePath;
use std::sync::Arc;
use std::time::Duration;
use tidegate_control::stream::{ANSWER_BYTES_MAX, Asker, NodeAnswer, Question, QuestionHandler};
use tidegate_core::Nanos;
use tidegate_decisions::RECORDS_MAX;
use tidegate_decisions::why::Audience;
use tidegate_node::journal::log_query::LogQuery;
use tokio::sync::Semaphore;

static ROOM: Semaphore = Semaphore::const_new(2);

const KNOWN: [&str; 9] = [
    "tenant",
    "namespace",
    "rule",
    "identifier",
    "request_id",
    "since_ms",
    "until_ms",
    "admissions",
    "limit",
];
/// However long somebody would wait.
const WITHIN_MS_MAX: u64 = 10_000;
const TEXT_CHARS_MAX: usize = 4096;
/// The largest integer that JavaScript holds.
const MILLIS_MAX: u64 = (1 << 53) - 1;

pub(crate) async fn answer(app: &App, caller: &Caller, query: Option<&str>) -> Result<Vec<u8>, Refusal> {
    let (asked, audience) = asked_by(caller, query)?;
    look_up(app, asked, audience).await
}

/// What a caller may ask: a tenant about itself.
pub(crate) fn asked_by(caller: &Caller, query: Option<&str>) -> Result<(LogQuery, Audience), Refusal> {
    let mut asked = read(query.unwrap_or_default())?;
    if caller.is_operator() {
        return Ok((asked, Audience::Operator));
    }
    asked.tenant = Some(caller.tenant().to_owned());
    Ok((asked, Audience::Tenant))
}

/// Answers what a broker or a control plane asks this node.
pub fn answers_questions(app: Arc<App>) -> QuestionHandler {
    Arc::new(move |question: Question| {
        let app = app.clone();
        Box::pin(for_caller::marked(async move {
            let within = Duration::from_millis(question.within_ms.min(WITHIN_MS_MAX));
            let result = match tokio::time::timeout(within, answer_for(&app, &question)).await {
                Ok(result) => result.map(Bytes::from).map_err(|refusal| refusal.message),
                Err(_) => return Vec::new(),
            };
            vec![NodeAnswer { node: app.node.as_str().into(), region: app.region.as_str().into(), result }]
        }))
    })
}

/// As much as an answer may hold.
async fn answer_for(app: &App, question: &Question) -> Result<Vec<u8>, Refusal> {
    let asked = read(&question.query)?;
    let audience = match question.asker {
        Asker::Operator => Audience::Operator,
        Asker::Tenant => Audience::Tenant,
    };
    if audience == Audience::Tenant && asked.tenant.is_none() {
        return Err(unavailable("a tenant's question doesn't say whose it is", "update the broker"));
    }
    let mut records_max = asked.records_max;
    loop {
        let said = look_up(app, LogQuery { records_max, ..asked.clone() }, audience).await?;
        if said.len() <= ANSWER_BYTES_MAX || records_max == 1 {
            return Ok(said);
        }
        records_max = (records_max / 2).max(1);
    }
}

async fn look_up(app: &App, asked: LogQuery, audience: Audience) -> Result<Vec<u8>, Refusal> {
    let journal = app.engine.journal().cloned().filter(|journal| journal.directory().is_some());
    let Some(journal) = journal else {
        return Err(unavailable("this node keeps no decision log", "set log.decisions to a directory"));
    };
    let Ok(_room) = ROOM.try_acquire() else {
        return Err(unavailable("the log is being read for two others", "try again in a second"));
    };
    let secret = *app.engine.secret();
    let reading = for_caller::spawn_blocking(move || {
        journal.write_now();
        // It was looked at above.
        asked.answer(journal.directory().unwrap_or(FilePath::new("")), &secret, audience)
    });
    match reading.await {
        Ok(Ok(json)) => Ok(json.into_bytes()),
        Ok(Err(error)) => {
            tracing::warn!(%error, "a question about the decision log can't be answered");
            Err(unavailable("the log can't be read", "look for the reason in this node's log"))
        }
        Err(_) => Err(unavailable("the log can't be read now", "try again")),
    }
}

fn unavailable(message: &str, fix: &str) -> Refusal {
    Refusal::new(Code::LogUnavailable, message, fix)
}

fn read(query: &str) -> Result<LogQuery, Refusal> {
    let mut asked = LogQuery::default();
    let mut seen = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let Some(value) = decoded(value).filter(|value| value.chars().count() <= TEXT_CHARS_MAX) else {
            let fix = "write every other character as % and two digits";
            return Err(Refusal::of_field(Code::InvalidText, name, "it isn't percent-encoded UTF-8", fix));
        };
        if !KNOWN.contains(&name) || seen.contains(&name) {
            let message = format!("`{}` isn't known here, or is given twice", excerpt(name));
            return Err(Refusal::of_field(
                Code::UnknownField,
                name,
                message,
                format!("known: {}", KNOWN.join(", ")),
            ));
        }
        seen.push(name);
        match name {
            "tenant" => asked.tenant = Some(value),
            "namespace" => asked.namespace = Some(value),
            "rule" => asked.rule = Some(value),
            "identifier" => asked.identifier = Some(value),
            "request_id" => asked.request_id = Some(value),
            "since_ms" => asked.since = Nanos::from_millis(number(name, &value)?),
            "until_ms" => asked.until = Nanos::from_millis(number(name, &value)?),
            "admissions" => asked.admissions = flag(name, &value)?,
            _ => asked.records_max = records_max(name, &value)?,
        }
    }
    Ok(asked)
}

fn number(name: &str, text: &str) -> Result<u64, Refusal> {
    let fix = "give milliseconds since 1970, such as 1763230020000";
    let refused = |code, message| Refusal::of_field(code, name, message, fix);
    let number = text.parse().map_err(|_| refused(Code::NotAnInteger, "isn't a whole number"))?;
    if number <= MILLIS_MAX { Ok(number) } else { Err(refused(Code::OutOfRange, "is too far in the future")) }
}

fn flag(name: &str, text: &str) -> Result<bool, Refusal> {
    match text {
        "" | "true" => Ok(true),
        "false" => Ok(false),
        _ => {
            Err(Refusal::of_field(Code::WrongType, name, "is neither true nor false", "give one of the two"))
        }
    }
}

fn records_max(name: &str, text: &str) -> Result<usize, Refusal> {
    let fix = format!("give a number from 1 to {RECORDS_MAX}");
    let parsed = text.parse().ok().filter(|limit| (1..=RECORDS_MAX).contains(limit));
    parsed.ok_or_else(|| Refusal::of_field(Code::OutOfRange, name, "isn't a number of decisions", fix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_read_from_its_query() {
        let asked = read("identifier=a%2C+b&rule=per-user&since_ms=1000&limit=5&admissions").unwrap();
        assert_eq!(asked.identifier.as_deref(), Some("a, b"));
        assert_eq!((asked.rule.as_deref(), asked.records_max, asked.admissions), (Some("per-user"), 5, true));
        assert_eq!((asked.since, asked.until), (Nanos::from_secs(1), Nanos::MAX));
    }

    #[test]
    fn a_wrong_question_is_told_what_is_wrong() {
        for (query, code) in [
            ("identifer=1", Code::UnknownField),
            ("rule=a&rule=b", Code::UnknownField),
            ("identifier=%ff", Code::InvalidText),
            ("since_ms=now", Code::NotAnInteger),
            ("until_ms=9007199254740992", Code::OutOfRange),
            ("limit=0", Code::OutOfRange),
            ("limit=1001", Code::OutOfRange),
            ("admissions=yes", Code::WrongType),
        ] {
            assert_eq!(read(query).unwrap_err().code, code, "{query}");
        }
    }
}
