//! A question about the log, as people ask it: by a caller's name, a rule, a time or a request, and its answer.
//!
//! The same for a running node and for files alone: a caller's keys are computed from what the log itself says of each
//! rule, and the fleet's secret.

use std::fmt::Write as _;
use std::path::Path;
use tidegate_core::{FleetSecret, Nanos};
use tidegate_decisions::why::{Audience, Explanation};
use tidegate_decisions::{KeyForm, KeyHash, Query, ReadError, RequestTag, RuleName, Wanted, read};
use tidegate_rules::{Attributes, KeyPart, caller_key};

/// Between the parts of an identifier, as answers show it.
const BETWEEN_PARTS: &str = ", ";

/// What is asked for; what isn't given is any.
#[derive(Clone, Debug)]
pub struct Asked {
    pub tenant: Option<String>,
    pub namespace: Option<String>,
    pub rule: Option<String>,
    /// As answers show it: the values of the rule's key, with a comma and a space between several.
    pub identifier: Option<String>,
    pub request_id: Option<String>,
    pub since: Nanos,
    pub until: Nanos,
    pub admissions: bool,
    pub records_max: usize,
}

impl Default for Asked {
    fn default() -> Self {
        Asked {
            tenant: None,
            namespace: None,
            rule: None,
            identifier: None,
            request_id: None,
            since: Nanos::ZERO,
            until: Nanos::MAX,
            admissions: false,
            records_max: 20,
        }
    }
}

impl Asked {
    /// Reads the log, which may take a second, and says what it means, as JSON.
    pub fn answer(
        &self,
        directory: &Path,
        secret: &FleetSecret,
        audience: Audience,
    ) -> Result<String, ReadError> {
        let wanted = |name: &RuleName| self.wanted(name, secret);
        let found = read(
            directory,
            &Query {
                wanted: &wanted,
                request: self.request_id.as_deref().map(RequestTag::of),
                since: self.since,
                until: self.until,
                admissions: self.admissions,
                records_max: self.records_max,
            },
        )?;
        Ok(Explanation::new(&found, audience).to_json())
    }

    /// As it is asked over HTTP: the query of `/v1/why`.
    pub fn query(&self) -> String {
        let texts = [
            ("tenant", &self.tenant),
            ("namespace", &self.namespace),
            ("rule", &self.rule),
            ("identifier", &self.identifier),
            ("request_id", &self.request_id),
        ];
        let mut query = format!("limit={}&admissions={}", self.records_max, self.admissions);
        for (name, value) in texts {
            if let Some(value) = value {
                let _ = write!(query, "&{name}=");
                encode(&mut query, value);
            }
        }
        let millis = |instant: Nanos| instant.get() / Nanos::PER_MILLI;
        let _ = write!(query, "&since_ms={}&until_ms={}", millis(self.since), millis(self.until));
        query
    }

    fn wanted(&self, name: &RuleName, secret: &FleetSecret) -> Wanted {
        let fits = |asked: &Option<String>, of: &str| asked.as_deref().is_none_or(|asked| asked == of);
        if !fits(&self.tenant, &name.tenant)
            || !fits(&self.namespace, &name.namespace)
            || !fits(&self.rule, &name.rule)
        {
            return Wanted::Nothing;
        }
        let Some(identifier) = &self.identifier else { return Wanted::All };
        key_of(name, identifier, secret).map_or(Wanted::Nothing, Wanted::Key)
    }
}

/// A text within a query.
fn encode(out: &mut String, text: &str) {
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            other => {
                let _ = write!(out, "%{other:02X}");
            }
        }
    }
}

/// The key of a caller by a rule; `None` when the rule's callers aren't called like that.
fn key_of(name: &RuleName, identifier: &str, secret: &FleetSecret) -> Option<KeyHash> {
    let prefix = name.prefix(secret);
    let key = match &name.key {
        KeyForm::Identifier => prefix.key(identifier),
        KeyForm::Entries => {
            let entries: Option<Vec<(&str, &str)>> =
                identifier.split(BETWEEN_PARTS).map(|entry| entry.split_once('=')).collect();
            prefix.key_of_parts(entries?.into_iter().flat_map(|(name, value)| [name, value]))
        }
        KeyForm::Attributes(parts) => {
            let parts: Vec<KeyPart> = parts.iter().map(|part| key_part(part)).collect();
            let values: Vec<&str> = match parts.as_slice() {
                [_] => vec![identifier],
                _ => identifier.split(BETWEEN_PARTS).collect(),
            };
            let attributes: Vec<(&str, &str)> =
                parts.iter().map(|part| &*part.attribute).zip(values.iter().copied()).collect();
            (values.len() == parts.len()).then(|| caller_key(&prefix, &parts, Attributes(&attributes)))??
        }
    };
    Some(KeyHash::of(key))
}

/// `user`, or `ip/64`.
fn key_part(text: &str) -> KeyPart {
    let grouped = text.rsplit_once('/').and_then(|(name, length)| Some((name, length.parse().ok()?)));
    let (attribute, group_prefix) = grouped.map_or((text, None), |(name, length)| (name, Some(length)));
    KeyPart { attribute: attribute.into(), group_prefix }
}
