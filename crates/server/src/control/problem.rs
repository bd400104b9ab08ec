//! Why a control plane didn't do what it was asked: the same object as a node's refusals, with what else there is.

use crate::refusal::Refusal;
use hyper::StatusCode;
use serde_json::{Map, Value, json};
use tidegate_control::plane::json::JsonError;
use tidegate_control::plane::{Conflict, Line, PlaneError};
use tidegate_rules::{RuleError, RuleErrors};
use tidegate_world::Summary;

#[derive(Debug)]
pub(super) struct Problem {
    pub(super) status: StatusCode,
    code: &'static str,
    message: String,
    field: Option<String>,
    fix: String,
    more: Map<String, Value>,
}

impl Problem {
    pub(super) fn bad_request(
        code: &'static str,
        field: &str,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Problem { field: Some(field.to_owned()), ..Problem::of(StatusCode::BAD_REQUEST, code, message, fix) }
    }

    fn of(
        status: StatusCode,
        code: &'static str,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        let (message, fix) = (message.into(), fix.into());
        Problem { status, code, message, field: None, fix, more: Map::new() }
    }

    pub(super) fn to_json(&self) -> Vec<u8> {
        let Problem { code, message, field, fix, more, .. } = self;
        let mut error = json!({ "code": code, "message": message, "field": field, "fix": fix });
        if let Value::Object(fields) = &mut error {
            fields.extend(more.clone());
        }
        super::write::document(&json!({ "error": error }))
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let Refusal { code, message, field, fix } = refusal;
        Problem { field, ..Problem::of(code.status(), code.word(), message, fix) }
    }
}

impl From<JsonError> for Problem {
    fn from(error: JsonError) -> Self {
        Problem::bad_request("out_of_range", error.field, error.message, error.fix)
    }
}

impl From<PlaneError> for Problem {
    fn from(error: PlaneError) -> Self {
        let message = error.to_string();
        match error {
            PlaneError::Invalid(errors) => invalid(&errors),
            PlaneError::Refused { message, fix } => {
                Problem::of(StatusCode::BAD_REQUEST, "invalid_rules", message, fix)
            }
            PlaneError::Forbidden { tenant } => {
                let message = format!("the rules of tenant {tenant} aren't this token's");
                let fix = "write `tenant:` with the token's own, or use a token of tenant `default`";
                Problem::of(StatusCode::FORBIDDEN, "forbidden", message, fix)
            }
            PlaneError::FleetIsForbidden => {
                let message = "what the fleet has in common is for tenant `default` to change";
                Problem::of(StatusCode::FORBIDDEN, "forbidden", message, "use a token of tenant `default`")
            }
            PlaneError::Conflict(conflict) => conflicting(&conflict, message),
            PlaneError::Unknown(_) => Problem::of(
                StatusCode::NOT_FOUND,
                "not_found",
                message,
                "`tidegate rules get` shows what there is",
            ),
            PlaneError::Busy => {
                Problem::of(StatusCode::SERVICE_UNAVAILABLE, "busy", message, "try again in a moment")
            }
            PlaneError::NotReady(_) | PlaneError::Store(_) | PlaneError::Damaged(_) => {
                let fix = "see that the database of control.store answers; /readyz says when it does";
                Problem::of(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", message, fix)
            }
        }
    }
}

fn invalid(errors: &RuleErrors) -> Problem {
    let one = |error: &RuleError| {
        let RuleError { file, line, column, field, message, fix } = error;
        json!({ "file": &**file, "line": line, "column": column, "field": field, "message": message, "fix": fix })
    };
    let all: Vec<Value> = errors.iter().map(one).collect();
    let mut more = Map::new();
    more.insert("errors".to_owned(), all.into());
    more.insert("errors_total".to_owned(), errors.total().into());
    let (message, field, fix) = match errors.iter().next() {
        Some(first) => {
            let message = format!("{}:{}:{}: {}", first.file, first.line, first.column, first.message);
            (message, Some(first.field.clone()), first.fix.clone())
        }
        None => (errors.to_string(), None, String::new()),
    };
    Problem { field, more, ..Problem::of(StatusCode::BAD_REQUEST, "invalid_rules", message, fix) }
}

fn conflicting(conflict: &Conflict, message: String) -> Problem {
    let fix = "look at what changed (`tidegate rules diff`), and push again upon it";
    let mut more = Map::new();
    more.insert("if_version".to_owned(), conflict.expected.into());
    more.insert("version".to_owned(), conflict.head.into());
    more.insert("lines".to_owned(), conflict.lines.iter().map(line).collect());
    more.insert("history".to_owned(), conflict.entries.iter().map(summary).collect());
    Problem { more, ..Problem::of(StatusCode::CONFLICT, "conflict", message, fix) }
}

pub(super) fn line(line: &Line) -> Value {
    json!({ "sign": line.sign.symbol(), "text": line.text })
}

pub(super) fn summary(summary: &Summary) -> Value {
    let Summary { version, at, author, reason, changes } = summary;
    json!({
        "version": version,
        "at_us": at.get() / 1000,
        "author": author,
        "reason": reason,
        "changes": changes,
    })
}
