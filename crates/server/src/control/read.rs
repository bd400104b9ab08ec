//! What callers ask for: bodies become asks, every field named when it is wrong.

use super::answer::{ControlRequest, ControlResponse};
use super::problem::Problem;
use super::write;
use serde_json::{Map, Value};
use std::sync::Arc;
use tidegate_control::plane::json::{ChangeJson, EntryJson, mode_of, override_name};
use tidegate_control::plane::{CHANGES_MAX, OverrideRetention, OverrideTarget, Push, PushChange, Replace};
use tidegate_core::FleetSecret;
use tidegate_rules::envoy::Windows;
use tidegate_rules::{DocumentName, PushedRules, RuleChange, Source};
use tidegate_world::{AUTHOR_CHARS_MAX, REASON_CHARS_MAX};

/// The files of one push.
const FILES_MAX: usize = 1000;
/// Versions in one request of a restore.
const RESTORED_MAX: usize = 10_000;

/// The fields of a body, taken one by one: what is left over isn't known.
struct Fields(Map<String, Value>);

impl Fields {
    fn read(body: &[u8]) -> Result<Self, Problem> {
        match serde_json::from_slice(body) {
            Ok(Value::Object(fields)) => Ok(Fields(fields)),
            Ok(_) => Err(wrong("body", "must be an object", "send one JSON object")),
            Err(error) => {
                let message = format!("the body is not valid JSON: {error}");
                Err(Problem::bad_request("invalid_json", "body", message, "correct it there"))
            }
        }
    }

    fn text(&mut self, name: &str) -> Result<Option<String>, Problem> {
        match self.0.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(wrong(name, "must be a string", "put it in quotes")),
        }
    }

    fn required(&mut self, name: &str) -> Result<String, Problem> {
        self.text(name)?.ok_or_else(|| {
            Problem::bad_request("missing_field", name, format!("`{name}` is missing"), "give it")
        })
    }

    fn number(&mut self, name: &str) -> Result<Option<u64>, Problem> {
        match self.0.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => value
                .as_u64()
                .map(Some)
                .ok_or_else(|| wrong(name, "must be a whole number from 0 on", "give digits, such as 7")),
        }
    }

    fn flag(&mut self, name: &str) -> Result<bool, Problem> {
        Ok(self.optional_flag(name)?.unwrap_or(false))
    }

    fn optional_flag(&mut self, name: &str) -> Result<Option<bool>, Problem> {
        match self.0.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(_) => Err(wrong(name, "must be true or false", "give one of the two, without quotes")),
        }
    }

    fn end(self) -> Result<(), Problem> {
        let Some((name, _)) = self.0.into_iter().next() else { return Ok(()) };
        let name: String = name.chars().take(40).collect();
        let message = format!("there is no field `{name}`");
        Err(Problem::bad_request("unknown_field", &name, message, "leave it out"))
    }
}

fn wrong(field: &str, message: &str, fix: &str) -> Problem {
    Problem::bad_request("wrong_type", field, format!("`{field}` {message}"), fix)
}

/// Who, why, upon which version, and whether for good.
struct Terms {
    if_version: Option<u64>,
    author: String,
    reason: String,
    is_dry: bool,
}

impl Terms {
    fn read(fields: &mut Fields, request: &ControlRequest<'_>) -> Result<Self, Problem> {
        let (author, reason) = (fields.text("author")?, fields.text("reason")?);
        Terms::of(
            request,
            fields.number("if_version")?,
            author.as_deref(),
            reason.as_deref(),
            fields.flag("dry_run")?,
        )
    }

    fn of(
        asked: &ControlRequest<'_>,
        if_version: Option<u64>,
        author: Option<&str>,
        reason: Option<&str>,
        is_dry: bool,
    ) -> Result<Self, Problem> {
        // Callers choose their own words. What the server knows comes last, where no words of theirs can stand.
        let tenant = asked.caller.tenant();
        let author = match (author, asked.caller.token()) {
            (Some(author), Some(token)) => format!("{author}, token {token}, tenant {tenant}"),
            (None, Some(token)) => format!("token {token}, tenant {tenant}"),
            (Some(author), None) => author.to_owned(),
            (None, None) => format!("tenant {tenant}"),
        };
        let reason = reason.unwrap_or_default().to_owned();
        for (name, text, chars_max) in
            [("author", &author, AUTHOR_CHARS_MAX), ("reason", &reason, REASON_CHARS_MAX)]
        {
            if text.chars().count() > chars_max || text.chars().any(char::is_control) {
                let message = format!("`{name}` is too long, or has control characters in it");
                let fix = format!("use one line of at most {chars_max} characters");
                return Err(Problem::bad_request("invalid_text", name, message, fix));
            }
        }
        Ok(Terms { if_version, author, reason, is_dry })
    }

    async fn carry_out(
        self,
        asked: &ControlRequest<'_>,
        change: PushChange,
    ) -> Result<ControlResponse, Problem> {
        let Terms { if_version, author, reason, is_dry } = self;
        let tenant = asked.tenant().map(Arc::from);
        let push = Push { change, if_version, author, reason, tenant };
        let plane = asked.plane;
        let outcome = if is_dry { plane.preview(&push).await? } else { plane.push(push).await? };
        Ok(ControlResponse::Json(write::outcome(&outcome, is_dry)))
    }
}

pub(super) async fn push(asked: &ControlRequest<'_>, body: &[u8]) -> Result<ControlResponse, Problem> {
    let mut fields = Fields::read(body)?;
    let terms = Terms::read(&mut fields, asked)?;
    let replace = match fields.text("replace")?.as_deref() {
        None | Some("named") => Replace::Named,
        Some("all") => Replace::All,
        Some(_) => {
            return Err(Problem::bad_request(
                "unknown_value",
                "replace",
                "isn't known",
                "use `named` or `all`",
            ));
        }
    };
    // Commands of earlier releases send `keep_overrides: false` and mean a push that prunes.
    let keeps = fields.optional_flag("keep_overrides")?;
    let prunes = fields.optional_flag("prune_overrides")?;
    let overrides = match (keeps, prunes) {
        (Some(true), Some(true)) => {
            let message = "contradicts `keep_overrides`";
            return Err(Problem::bad_request(
                "unknown_value",
                "prune_overrides",
                message,
                "give one of them",
            ));
        }
        (_, Some(true)) | (Some(false), None) => OverrideRetention::Pruned,
        _ => OverrideRetention::Kept,
    };
    let sources = sources(fields.0.remove("files"))?;
    fields.end()?;
    let pushed = PushedRules::read(&sources, &FleetSecret::BUILT_IN, Windows::Fixed)
        .map_err(tidegate_control::plane::PlaneError::Invalid)?;
    terms.carry_out(asked, PushChange::Files { pushed, replace, overrides }).await
}

/// `[{ "name": "rules.yaml", "text": "…" }]`
fn sources(files: Option<Value>) -> Result<Vec<Source>, Problem> {
    let Some(Value::Array(files)) = files else {
        return Err(wrong(
            "files",
            "must be a list",
            r#"send [{"name":"rules.yaml","text":"namespace: api\n…"}]"#,
        ));
    };
    if !(1..=FILES_MAX).contains(&files.len()) {
        let message = format!("{} files are too few or too many", files.len());
        return Err(Problem::bad_request("too_many", "files", message, format!("send 1 to {FILES_MAX}")));
    }
    let source = |file: Value| {
        let Value::Object(file) = file else {
            return Err(wrong("files", "must have objects in it", "give each a `name` and a `text`"));
        };
        let mut file = Fields(file);
        let (name, text) = (file.required("name")?, file.required("text")?);
        file.end()?;
        Ok(Source { name: name.chars().take(256).collect(), text: text.into_bytes() })
    };
    files.into_iter().map(source).collect()
}

/// The namespace of a body that is about one of its rules.
fn document(fields: &mut Fields, asked: &ControlRequest<'_>) -> Result<DocumentName, Problem> {
    let tenant = fields.text("tenant")?.unwrap_or_else(|| asked.caller.tenant().to_owned());
    let namespace = fields.required("namespace")?;
    Ok(DocumentName { tenant: tenant.into(), namespace: namespace.into() })
}

/// An entry as in the `overrides` of a rules file: JSON is YAML.
fn entry(value: &Value) -> Source {
    Source { name: "override".to_owned(), text: value.to_string().into_bytes() }
}

fn required_entry(fields: &mut Fields, example: &str) -> Result<Value, Problem> {
    match fields.0.remove("override") {
        Some(value @ Value::Object(_)) => Ok(value),
        _ => Err(wrong("override", "must be an object", example)),
    }
}

pub(super) async fn set_override(
    asked: &ControlRequest<'_>,
    body: &[u8],
) -> Result<ControlResponse, Problem> {
    let mut fields = Fields::read(body)?;
    let terms = Terms::read(&mut fields, asked)?;
    let document = document(&mut fields, asked)?;
    let value = required_entry(&mut fields, r#"send {"rule":"per-user","user":"acme","limit":1000}"#)?;
    fields.end()?;
    own(asked, &document)?;
    terms.carry_out(asked, PushChange::SetOverride { document, entry: entry(&value) }).await
}

pub(super) async fn remove_override(
    asked: &ControlRequest<'_>,
    body: &[u8],
) -> Result<ControlResponse, Problem> {
    let mut fields = Fields::read(body)?;
    let terms = Terms::read(&mut fields, asked)?;
    let document = document(&mut fields, asked)?;
    let value = required_entry(&mut fields, r#"send {"rule":"per-user","user":"acme"}"#)?;
    fields.end()?;
    own(asked, &document)?;
    let target = match (value.get("rule"), value.get("key")) {
        // By the parts of its name: the rule may be gone.
        (Some(Value::String(rule)), Some(Value::Array(key))) => {
            let key: Option<Vec<String>> = key.iter().map(|part| part.as_str().map(str::to_owned)).collect();
            let key = key.ok_or_else(|| wrong("key", "must have strings in it", "put each in quotes"))?;
            OverrideTarget::Name(override_name(&document.tenant, &document.namespace, rule, &key)?)
        }
        _ => OverrideTarget::Entry(entry(&value)),
    };
    terms.carry_out(asked, PushChange::RemoveOverride { document, target }).await
}

pub(super) async fn reset(asked: &ControlRequest<'_>, body: &[u8]) -> Result<ControlResponse, Problem> {
    let mut fields = Fields::read(body)?;
    let terms = Terms::read(&mut fields, asked)?;
    let document = document(&mut fields, asked)?;
    let value = required_entry(&mut fields, r#"send {"rule":"per-user","user":"acme"}"#)?;
    fields.end()?;
    own(asked, &document)?;
    terms.carry_out(asked, PushChange::Reset { document, entry: entry(&value) }).await
}

/// Before anything is said about what another tenant has.
fn own(asked: &ControlRequest<'_>, document: &DocumentName) -> Result<(), Problem> {
    match asked.tenant() {
        Some(tenant) if *document.tenant != *tenant => {
            let tenant = document.tenant.to_string();
            Err(tidegate_control::plane::PlaneError::Forbidden { tenant }.into())
        }
        _ => Ok(()),
    }
}

pub(super) async fn mode(asked: &ControlRequest<'_>, body: &[u8]) -> Result<ControlResponse, Problem> {
    let mut fields = Fields::read(body)?;
    let terms = Terms::read(&mut fields, asked)?;
    let mode = mode_of(&fields.required("mode")?)?;
    fields.end()?;
    terms.carry_out(asked, PushChange::FleetMode(mode)).await
}

pub(super) async fn roll_back(asked: &ControlRequest<'_>, body: &[u8]) -> Result<ControlResponse, Problem> {
    let mut fields = Fields::read(body)?;
    let terms = Terms::read(&mut fields, asked)?;
    let to = fields.number("version")?;
    fields.end()?;
    let to = to.ok_or_else(|| wrong("version", "must be a number", "give the version to go back to"))?;
    terms.carry_out(asked, PushChange::RollBack { to }).await
}

/// JSON lines of an export, all in one version.
pub(super) async fn import(asked: &ControlRequest<'_>, body: &[u8]) -> Result<ControlResponse, Problem> {
    let query = asked.query(&["author", "reason", "if_version", "dry_run"])?;
    let (if_version, is_dry) = (query.number("if_version")?, query.flag("dry_run")?);
    let terms = Terms::of(asked, if_version, query.get("author"), query.get("reason"), is_dry)?;
    let mut changes: Vec<RuleChange> = Vec::new();
    for (index, line) in lines(body)? {
        let json: ChangeJson = parsed(index, line)?;
        changes.push(json.change().map_err(|error| in_line(index, &error.to_string()))?);
        if changes.len() > CHANGES_MAX {
            let message = format!("more than {CHANGES_MAX} lines");
            return Err(Problem::bad_request("too_many", "body", message, "send fewer at a time"));
        }
    }
    terms.carry_out(asked, PushChange::Changes(changes)).await
}

/// JSON lines of a backup.
pub(super) async fn restore(asked: &ControlRequest<'_>, body: &[u8]) -> Result<ControlResponse, Problem> {
    asked.caller.require_operator()?;
    asked.query(&[])?;
    let mut entries: Vec<EntryJson> = Vec::new();
    for (index, line) in lines(body)? {
        entries.push(parsed(index, line)?);
        if entries.len() > RESTORED_MAX {
            let message = format!("more than {RESTORED_MAX} versions");
            return Err(Problem::bad_request("too_many", "body", message, "send fewer at a time"));
        }
    }
    let version = asked.plane.restore(entries).await?;
    Ok(ControlResponse::Json(write::document(&serde_json::json!({ "version": version }))))
}

/// With their numbers from 1, without empty ones and the heading.
fn lines(body: &[u8]) -> Result<impl Iterator<Item = (usize, &str)>, Problem> {
    if body.is_empty() {
        let fix = "send lines as `tidegate rules export` or `backup` prints them";
        return Err(Problem::bad_request("missing_field", "body", "the body is empty", fix));
    }
    let text = std::str::from_utf8(body).map_err(|error| {
        let message = format!("the body is not valid UTF-8 at byte {}", error.valid_up_to());
        Problem::bad_request("invalid_utf8", "body", message, "encode the body as UTF-8")
    })?;
    let is_said = |(_, line): &(usize, &str)| {
        !line.trim().is_empty()
            && !line.starts_with(write::EXPORT_HEADING)
            && !line.starts_with(write::BACKUP_HEADING)
    };
    Ok((1..).zip(text.lines()).filter(is_said))
}

fn parsed<T: serde::de::DeserializeOwned>(index: usize, line: &str) -> Result<T, Problem> {
    serde_json::from_str(line).map_err(|error| in_line(index, &error.to_string()))
}

fn in_line(index: usize, error: &str) -> Problem {
    let message = format!("line {index}: {error}");
    Problem::bad_request(
        "invalid_json",
        "body",
        message,
        "send lines as `tidegate rules export` or `backup` prints them",
    )
}
