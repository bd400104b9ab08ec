//! Overrides of the whole fleet: where the rules come from a control plane, it keeps Unkey's overrides too, as overrides
//! of a rule, so that every node has them as soon as it has the rules.
//!
//! Those of Unkey's namespace `api` are in the namespace `unkey:api`, of its only rule, for the attribute `identifier`.
//! An override's burst is the limit, and what it takes to fill the burst again is the duration. What a node kept by
//! itself from before stays in force there, below these.

use super::overrides::Override;
use super::requests::{LimitTarget, OverrideSetting};
use crate::App;
use crate::control_relay::{Question, RelayAnswer, ask};
use crate::refusal::{Code, Refusal};
use hyper::body::Bytes;
use hyper::{Method, StatusCode};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;
use tidegate_control::plane::json::{ChangeJson, OverrideJson, RateJson};
use tidegate_core::limit::NUMBER_MAX;
use tidegate_core::sip::SipState;
use tidegate_core::{Limit, Nanos, Period};
use tidegate_node::engine::VersionedRules;
use tidegate_rules::{Attributes, OverrideEffect, RuleChange};

const RULE: &str = "unkey";
const ATTRIBUTE: &str = "identifier";
const NAMESPACE_START: &str = "unkey:";
/// A namespace of rules has at most 128, with what is put before it.
const NAMESPACE_CHARS_MAX: usize = 128 - NAMESPACE_START.len();
/// So many pages of a namespace are read for a list: 20,000 overrides.
const PAGES_MAX: usize = 40;
/// How long a change waits until this node has it too; others have it at about the same time.
const HERE_WITHIN: Duration = Duration::from_secs(1);
const POLL_EVERY: Duration = Duration::from_millis(2);

/// Returns whether overrides are stored by a control plane.
pub(super) fn is_stored_there(app: &App) -> bool {
    app.following.is_some()
}

/// Returns the override that applies to an identifier by the rules in force. `own` is the request's duration: what
/// operators set as a bare limit has none.
pub(super) fn applied(
    rules: &VersionedRules,
    tenant: &str,
    named: &LimitTarget<'_>,
    own: Period,
    now: Nanos,
) -> Option<Override> {
    let namespace = rules.set.namespace(tenant, &document_name(&named.namespace))?;
    let rule = namespace.rules.iter().find(|rule| *rule.name == *RULE)?;
    let attributes = [(ATTRIBUTE, &*named.identifier)];
    let (texts, found) = rules.set.named_override_of(rule, Attributes(&attributes), now)?;
    let (limit, period) = numbers(&found.change, own)?;
    Some(Override::with_id(&id_of(&named.namespace, texts.first()?), limit, period))
}

/// `None` for one that only marks its caller.
fn numbers(change: &OverrideEffect, own: Period) -> Option<(Limit, Period)> {
    match change {
        OverrideEffect::Keep => None,
        OverrideEffect::Unlimited => Some((Limit::new(NUMBER_MAX).ok()?, own)),
        OverrideEffect::Limit(limit) => Some((*limit, own)),
        OverrideEffect::Rate { rate, burst } => {
            let limit = Limit::new(burst.get()).ok()?;
            let intervals = u128::from(burst.get().max(1)) * u128::from(rate.interval_numerator_ns());
            let length = u64::try_from(intervals / u128::from(rate.interval_denominator())).ok()?;
            Some((limit, Period::new(Nanos::new(length)).unwrap_or(own)))
        }
    }
}

/// The rate that admits the limit once in the period; of a limit of 0, the one whose interval is the period.
fn rate_of(limit: Limit, period: Period) -> Result<RateJson, Refusal> {
    let (count, per_ns) = (limit.get().max(1), period.get());
    if count > per_ns {
        let message = "is more than one in a nanosecond, which the control plane can't keep";
        let fix = "use a smaller limit, or a longer duration";
        return Err(Refusal::of_field(Code::OutOfRange, "limit", message, fix));
    }
    Ok(RateJson { count, per_ns, burst: limit.get() })
}

/// Stays the same as long as the names do, on all nodes.
fn id_of(namespace: &str, identifier: &str) -> String {
    let mut state = SipState::new(b"tidegate unkey 1");
    for text in [namespace, identifier] {
        state.block(text.len() as u64);
        for chunk in text.as_bytes().chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            state.block(u64::from_le_bytes(word));
        }
    }
    format!("ovr_{:016x}", state.finish() >> 64)
}

fn document_name(namespace: &str) -> String {
    format!("{NAMESPACE_START}{namespace}")
}

fn checked_document_name(namespace: &str) -> Result<String, Refusal> {
    if namespace.chars().count() > NAMESPACE_CHARS_MAX {
        let message =
            format!("has more than {NAMESPACE_CHARS_MAX} characters, which the control plane can't keep");
        return Err(Refusal::of_field(Code::InvalidText, "namespace", message, "use a shorter namespace"));
    }
    Ok(document_name(namespace))
}

fn document_text(tenant: &str, namespace: &str) -> String {
    // A string of JSON is one of YAML.
    let quoted = |text: &str| Value::from(text).to_string();
    let mut text =
        String::from("# Overrides that callers of Unkey's API set. Keep the rule's name and key.\n");
    if tenant != "default" {
        let _ = writeln!(text, "tenant: {}", quoted(tenant));
    }
    let _ = writeln!(text, "namespace: {}", quoted(&document_name(namespace)));
    text.push_str("rules:\n  - name: unkey\n    key: [identifier]\n    rate: 1/s\n");
    text.push_str("    description: Limits of Unkey's API; an override's burst is its limit\n");
    text
}

/// The override of an identifier, to be kept or removed.
fn line(tenant: &str, named: &LimitTarget<'_>, rate: Option<RateJson>) -> Result<ChangeJson, Refusal> {
    Ok(ChangeJson::Override(OverrideJson {
        tenant: tenant.to_owned(),
        namespace: checked_document_name(&named.namespace)?,
        rule: RULE.to_owned(),
        key: vec![named.identifier.to_string()],
        rate,
        removed: rate.is_none(),
        ..OverrideJson::default()
    }))
}

/// Sets an override in the whole fleet; returns its id once this node has it.
pub(super) async fn set(
    app: &App,
    tenant: &str,
    token: Option<&[u8]>,
    OverrideSetting { named, limit, period }: &OverrideSetting<'_>,
) -> Result<String, Refusal> {
    let set = line(tenant, named, Some(rate_of(*limit, *period)?))?;
    let name = checked_document_name(&named.namespace)?;
    let mut lines = Vec::new();
    if app.engine.rules().set.namespace(tenant, &name).is_none() {
        let text = document_text(tenant, &named.namespace);
        lines.push(json!({ "document": { "tenant": tenant, "namespace": name, "text": text } }));
    }
    lines.push(json!(set));
    import(app, token, &lines, "set through Unkey's API").await?;
    Ok(id_of(&named.namespace, &named.identifier))
}

/// Removes an override from the whole fleet; returns whether it was there.
pub(super) async fn remove(
    app: &App,
    tenant: &str,
    token: Option<&[u8]>,
    named: &LimitTarget<'_>,
) -> Result<bool, Refusal> {
    if !all(app, tenant, token, &named.namespace).await?.contains_key(&*named.identifier) {
        return Ok(false);
    }
    import(app, token, &[json!(line(tenant, named, None)?)], "deleted through Unkey's API").await?;
    Ok(true)
}

/// Changes of one version. Returns once this node has it, or after a while.
async fn import(app: &App, token: Option<&[u8]>, lines: &[Value], reason: &str) -> Result<(), Refusal> {
    let body: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let path = format!("/v1/rules/import?reason={}", reason.replace(' ', "%20").replace('\'', "%27"));
    let answered = ask(app, &Question { method: Method::POST, path, token, body: Bytes::from(body) }).await?;
    let made: Value = parsed(&accepted(answered)?.body)?;
    let version = made["version"].as_u64().unwrap_or(0);
    let is_here = async {
        while app.engine.rules().set.version() < version {
            tokio::time::sleep(POLL_EVERY).await;
        }
    };
    if tokio::time::timeout(HERE_WITHIN, is_here).await.is_err() {
        tracing::warn!(version, "an override is stored, but this node doesn't have it yet");
    }
    Ok(())
}

/// Every override of a namespace, as the control plane has it, by its text.
pub(super) async fn all(
    app: &App,
    tenant: &str,
    token: Option<&[u8]>,
    namespace: &str,
) -> Result<BTreeMap<String, Override>, Refusal> {
    let name = checked_document_name(namespace)?;
    let now = app.clock.now().now;
    let own = Period::new(Nanos::from_secs(60)).map_err(|error| unreadable(&error.to_string()))?;
    let mut found = BTreeMap::new();
    let mut after = None;
    for _ in 0..PAGES_MAX {
        let mut path = format!("/v1/overrides?tenant={}&namespace={}", encoded(tenant), encoded(&name));
        if let Some(after) = &after {
            let _ = write!(path, "&after={after}");
        }
        let answered = ask(app, &Question { method: Method::GET, path, token, body: Bytes::new() }).await?;
        let RelayAnswer { body, next, .. } = accepted(answered)?;
        for line in body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let change: ChangeJson = parsed(line)?;
            let change = change.change().map_err(|error| unreadable(&error.to_string()))?;
            let RuleChange::Override { name, value: Some(value) } = change else { continue };
            let (Some(identifier), true) = (name.parts.first(), *name.rule == *RULE && now < value.until)
            else {
                continue;
            };
            if let Some((limit, period)) = numbers(&value.change, own) {
                let set = Override::with_id(&id_of(namespace, identifier), limit, period);
                found.insert(identifier.to_string(), set);
            }
        }
        after = next;
        if after.is_none() {
            break;
        }
    }
    Ok(found)
}

fn parsed<T: serde::de::DeserializeOwned>(json: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(json).map_err(|error| unreadable(&error.to_string()))
}

/// What the control plane refuses is refused here in its words.
fn accepted(answered: RelayAnswer) -> Result<RelayAnswer, Refusal> {
    let code = match answered.status {
        StatusCode::OK => return Ok(answered),
        StatusCode::UNAUTHORIZED => Code::Unauthorized,
        StatusCode::FORBIDDEN => Code::Forbidden,
        StatusCode::BAD_REQUEST => Code::InvalidText,
        _ => Code::ControlUnavailable,
    };
    let said: Value = serde_json::from_slice(&answered.body).unwrap_or_default();
    let text = |name: &str, or: &str| said["error"][name].as_str().unwrap_or(or).to_owned();
    Err(Refusal::new(code, text("message", "the control plane refuses it"), text("fix", "look at its log")))
}

#[cold]
fn unreadable(problem: &str) -> Refusal {
    let message = format!("the control plane's answer can't be read: {problem}");
    Refusal::new(Code::ControlUnavailable, message, "run the same release on both")
}

fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            // Writing to a String can't fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn limit_and_duration_come_back_from_the_rate(
            limit in 0_u64..10_000_000_000, millis in 1_000_u64..366 * 86_400_000,
        ) {
            let limit = Limit::new(limit).unwrap();
            let period = Period::new(Nanos::from_millis(millis)).unwrap();
            prop_assume!(limit.get() <= period.get());
            let rate = rate_of(limit, period).unwrap();
            let json = OverrideJson { rate: Some(rate), namespace: "unkey:api".into(), tenant: "default".into(),
                rule: RULE.into(), key: vec!["u".into()], ..OverrideJson::default() };
            let change = ChangeJson::Override(json).change().unwrap();
            let RuleChange::Override { value: Some(value), .. } = change else { panic!("{change:?}") };
            let own = Period::new(Nanos::from_secs(1)).unwrap();
            prop_assert_eq!(numbers(&value.change, own), Some((limit, period)));
        }
    }

    #[test]
    fn a_document_is_valid_whatever_the_names_are() {
        for (tenant, namespace) in
            [("default", "api"), ("acme: #1", "a\"b\\c'\u{e9}: - {x}"), ("default", "<b>&")]
        {
            let text = document_text(tenant, namespace);
            let source = tidegate_rules::Source { name: "x".into(), text: text.clone().into_bytes() };
            let set = tidegate_rules::RuleSet::parse(&[source], &tidegate_core::FleetSecret::BUILT_IN);
            let set = set.unwrap_or_else(|errors| panic!("{text}: {errors}"));
            assert!(set.namespace(tenant, &document_name(namespace)).is_some(), "{text}");
        }
    }
}
