//! `GET /v1/why`: what the decision log has about callers, of the caller's tenant; of all for operators.
//!
//! Reads files, so it is done on a thread of its own, and by two at a time: nobody who decides waits for it.

use crate::App;
use crate::access::Caller;
use crate::control::decoded;
use crate::refusal::{Code, Refusal, excerpt};
use tidegate_core::Nanos;
use tidegate_decisions::RECORDS_MAX;
use tidegate_decisions::why::Audience;
use tidegate_node::journal::asked::Asked;
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
const TEXT_CHARS_MAX: usize = 4096;
/// The largest integer that JavaScript holds.
const MILLIS_MAX: u64 = (1 << 53) - 1;

pub(crate) async fn answer(app: &App, caller: &Caller, query: Option<&str>) -> Result<Vec<u8>, Refusal> {
    let mut asked = read(query.unwrap_or_default())?;
    let audience = if caller.is_operator() { Audience::Operator } else { Audience::Tenant };
    if audience == Audience::Tenant {
        asked.tenant = Some(caller.tenant().to_owned());
    }
    let Some(journal) = app.engine.journal().cloned() else {
        return Err(unavailable("this node keeps no decision log", "set log.decisions to a directory"));
    };
    let Ok(_room) = ROOM.try_acquire() else {
        return Err(unavailable("the log is being read for two others", "try again in a second"));
    };
    let secret = *app.engine.secret();
    let reading = tokio::task::spawn_blocking(move || {
        journal.write_now();
        asked.answer(journal.directory(), &secret, audience)
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

fn read(query: &str) -> Result<Asked, Refusal> {
    let mut asked = Asked::default();
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
