//! A question about the log, as people ask it: by a caller's name, a rule, a time or a request, and its answer.
//!
//! The same for a running node and for files alone: a caller's keys are computed from what the log itself says of each
//! rule, and the fleet's secret. Callers are also found by any one value of their keys, by its tag.

use std::fmt::Write as _;
use std::path::Path;
use tidegate_core::{FleetSecret, KeyPrefix, Nanos};
use tidegate_decisions::why::{Audience, Explanation, Nearest};
use tidegate_decisions::{
    KeyForm, KeyHash, LogReadError, PartTags, Query, QueryResult, RECORDS_MAX, RequestTag, RuleFilter,
    RuleName, WantedCallers, WantedValue, read,
};
use tidegate_rules::{Attributes, KeyPart, address_values, caller_key, suggest};

/// Between the entries of a descriptor, as lists show it.
const BETWEEN_PARTS: &str = ", ";

/// A query of the decision log. A field that isn't given matches everything.
#[derive(Clone, Debug)]
pub struct LogQuery {
    pub tenant: Option<String>,
    pub namespace: Option<String>,
    pub rule: Option<String>,
    /// As any output shows it, or one value of the rule's key: see [`readings`] and [`wanted_callers`].
    pub identifier: Option<String>,
    pub request_id: Option<String>,
    pub since: Nanos,
    pub until: Nanos,
    pub admissions: bool,
    pub records_max: usize,
}

impl Default for LogQuery {
    fn default() -> Self {
        LogQuery {
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

impl LogQuery {
    /// Reads the log, which may take a second, and says what it means, as JSON.
    pub fn answer(
        &self,
        directory: &Path,
        secret: &FleetSecret,
        audience: Audience,
    ) -> Result<String, LogReadError> {
        let found = self.find(directory, secret)?;
        let is_vain = found.records.is_empty() && found.counts.is_empty();
        let Some(identifier) = self.identifier.as_ref().filter(|_| is_vain) else {
            return Ok(Explanation::new(&found, audience).to_json(&[]));
        };
        let anybody = LogQuery { identifier: None, ..self.clone() };
        if self.request_id.is_none() && !identifier.contains(char::is_whitespace) {
            // People paste ids of requests too.
            let by_id = LogQuery { request_id: Some(identifier.clone()), ..anybody.clone() };
            let by_id = by_id.find(directory, secret)?;
            if !by_id.records.is_empty() {
                return Ok(Explanation::new(&by_id, audience).to_json(&[]));
            }
        }
        // `tidegate why per-user`: there is no such caller, and a rule or a namespace is called so.
        let name = || Some(identifier.clone());
        for of_name in
            [LogQuery { rule: name(), ..anybody.clone() }, LogQuery { namespace: name(), ..anybody.clone() }]
        {
            let is_free = (&self.rule, &self.namespace) == (&None, &None);
            let found = if is_free { of_name.find(directory, secret)? } else { break };
            if !found.records.is_empty() {
                return Ok(Explanation::new(&found, audience).to_json(&[]));
            }
        }
        let others =
            LogQuery { records_max: RECORDS_MAX, admissions: false, ..anybody }.find(directory, secret)?;
        Ok(Explanation::new(&found, audience).to_json(&nearest(identifier, &others)))
    }

    fn find(&self, directory: &Path, secret: &FleetSecret) -> Result<QueryResult, LogReadError> {
        let of_rule = |name: &RuleName| self.is_of_rule(name);
        let wanted = |name: &RuleName| self.wanted(name, secret);
        let callers =
            self.identifier.as_deref().map(|identifier| wanted_callers(identifier, secret, &of_rule));
        let request = self.request_id.as_deref().map(RequestTag::of);
        read(
            directory,
            &Query {
                wanted: &wanted,
                callers: callers.as_ref(),
                request,
                since: self.since,
                until: self.until,
                admissions: self.admissions,
                records_max: self.records_max,
            },
        )
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

    fn is_of_rule(&self, name: &RuleName) -> bool {
        let fits = |asked: &Option<String>, of: &str| asked.as_deref().is_none_or(|asked| asked == of);
        fits(&self.tenant, &name.tenant)
            && fits(&self.namespace, &name.namespace)
            && self
                .rule
                .as_deref()
                .is_none_or(|asked| asked == name.rule || (asked.contains('/') && name.is_called(asked)))
    }

    fn wanted(&self, name: &RuleName, secret: &FleetSecret) -> RuleFilter {
        if !self.is_of_rule(name) {
            return RuleFilter::Nothing;
        }
        let Some(identifier) = &self.identifier else { return RuleFilter::All };
        let prefix = name.prefix(secret);
        let keys =
            readings(identifier, name).into_iter().filter_map(|reading| key_of(name, &prefix, &reading));
        RuleFilter::Keys(keys.collect())
    }
}

/// The callers that come next to one that nothing is known of: by name where the log has names, else those that were
/// denied most.
fn nearest(identifier: &str, found: &QueryResult) -> Vec<Nearest> {
    const NEAREST_MAX: usize = 5;
    let mut all = Nearest::of(found);
    let asked = identifier.to_lowercase();
    let distance = |near: &Nearest| match &near.name {
        None => usize::MAX,
        Some(name) if name.to_lowercase().contains(&asked) => 0,
        Some(name) => {
            name.split(", ").map(|part| suggest::distance(identifier, part)).min().unwrap_or(usize::MAX)
        }
    };
    // Stable: of those that are equally near, those with most denials stay first.
    all.sort_by_key(distance);
    all.truncate(NEAREST_MAX);
    all
}

/// Without what people copy with it: quotes, brackets, the colon after it.
fn bare(text: &str) -> &str {
    let mut text = text.trim();
    for (open, close) in [('"', '"'), ('\'', '\''), ('`', '`'), ('[', ']')] {
        if let Some(inner) = text.strip_prefix(open).and_then(|rest| rest.strip_suffix(close)) {
            text = inner.trim();
        }
    }
    text
}

/// `user=alice endpoint=/search`, also with commas, and as YAML and JSON write it: `user: alice`, `{"user":"alice"}`.
/// `None` for anything else.
fn attributes_of(text: &str) -> Option<Vec<(&str, &str)>> {
    let inner = text.trim().strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    let mut words = inner.unwrap_or(text).split([',', ' ']).filter(|word| !word.is_empty());
    let mut pairs = Vec::new();
    while let Some(word) = words.next() {
        let (name, value) = word.split_once('=').or_else(|| word.split_once(':'))?;
        // `user: alice` is read as the attribute `user=alice`: the space after the colon separates two words.
        let value = if value.is_empty() && word.ends_with(':') { words.next()? } else { value };
        let name = bare(name);
        if name.is_empty() || name.contains(':') {
            return None;
        }
        pairs.push((name, bare(value)));
    }
    (!pairs.is_empty()).then_some(pairs)
}

/// Callers that a text may mean whatever else their keys have.
fn wanted_callers<'q>(
    text: &str,
    secret: &FleetSecret,
    of_rule: &'q dyn Fn(&RuleName) -> bool,
) -> WantedCallers<'q> {
    let tags = PartTags::new(secret);
    let tags_of = |value: &str| {
        let mut spellings = vec![value.to_owned(), value.to_lowercase()];
        spellings.extend(address_values(value));
        spellings.iter().map(|spelling| tags.tag(spelling)).collect::<Vec<_>>()
    };
    let text = bare(text);
    let mut values: Vec<WantedValue> = Vec::new();
    let mut attributes = Vec::new();
    let named = text.split_once(char::is_whitespace).map(|(name, rest)| (Some(name.to_owned()), bare(rest)));
    for (name, text) in [(None, text)].into_iter().chain(named) {
        values.extend(tags_of(text).into_iter().map(|tag| WantedValue { tag, of_rule: name.clone() }));
        if let (Some(pairs), true) = (attributes_of(text), attributes.is_empty()) {
            attributes = pairs.iter().map(|(name, value)| ((*name).to_owned(), tags_of(value))).collect();
        }
    }
    let hash = text.trim_start_matches("caller ").trim_start_matches('#');
    let is_hash = (16..=24).contains(&hash.len()) && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    let key = hash.get(..16).filter(|_| is_hash).and_then(|hash| u64::from_str_radix(hash, 16).ok());
    WantedCallers { of_rule, values, attributes, key }
}

/// The values of a rule's key that a text may mean, as any output shows them: `alice,/search`, `alice, /search`,
/// `alice /search`, `user=alice endpoint=/search`, each also behind the name of the rule.
fn readings(text: &str, rule: &RuleName) -> Vec<Vec<String>> {
    let text = bare(text);
    let named =
        text.split_once(char::is_whitespace).filter(|(name, _)| rule.is_called(name.trim_end_matches(':')));
    let mut readings = Vec::new();
    for text in [Some(text), named.map(|(_, rest)| bare(rest))].into_iter().flatten() {
        let owned = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>();
        match &rule.key {
            KeyForm::Identifier => readings.push(owned(&[text])),
            KeyForm::Entries => {
                let split = text.split(BETWEEN_PARTS).map(|entry| entry.split_once('='));
                let as_shown: Option<Vec<(&str, &str)>> = split.collect();
                for entries in [as_shown, attributes_of(text)].into_iter().flatten() {
                    readings.push(entries.iter().flat_map(|(name, value)| owned(&[name, value])).collect());
                }
            }
            KeyForm::Attributes(parts) => {
                readings.extend(split_at_commas(text, parts.len()).iter().map(|values| owned(values)));
                // `alice /search`: as two words of a command line come.
                let words: Vec<&str> = text.split_whitespace().collect();
                if words.len() > 1 && words.len() == parts.len() {
                    readings.push(owned(&words));
                }
                let pairs = attributes_of(text).unwrap_or_default();
                let value = |part: &String| {
                    let attribute = part.split('/').next().unwrap_or(part);
                    pairs.iter().find(|(name, _)| *name == attribute).map(|(_, value)| (*value).to_owned())
                };
                readings.extend(
                    parts.iter().map(value).collect::<Option<Vec<_>>>().filter(|_| !parts.is_empty()),
                );
            }
        }
    }
    readings
}

/// Every way to take a text for so many values with commas between them: values may have commas themselves.
fn split_at_commas(text: &str, count: usize) -> Vec<Vec<&str>> {
    const WAYS_MAX: usize = 64;
    let commas: Vec<usize> = text.match_indices(',').map(|(at, _)| at).collect();
    let mut ways: Vec<(Vec<&str>, usize)> = vec![(Vec::new(), 0)];
    if count == 0 {
        return Vec::new();
    }
    for _ in 1..count {
        let mut longer = Vec::new();
        for (values, from) in &ways {
            for comma in commas.iter().filter(|comma| **comma >= *from) {
                let value = &text[*from..*comma];
                longer.push(([&values[..], &[value]].concat(), comma + 1));
            }
        }
        longer.truncate(WAYS_MAX);
        ways = longer;
    }
    // Answers separate values by a comma, lists by a comma and a space.
    let whole = ways.into_iter().map(|(values, from)| [&values[..], &[&text[from..]]].concat());
    whole
        .flat_map(|values| {
            let trimmed: Vec<&str> = values.iter().map(|value| value.trim()).collect();
            if trimmed == values { vec![values] } else { vec![values, trimmed] }
        })
        .collect()
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

/// The key of a caller by the values of a rule's key; `None` when no caller of the rule has such values.
fn key_of(name: &RuleName, prefix: &KeyPrefix, values: &[String]) -> Option<KeyHash> {
    let key = match &name.key {
        KeyForm::Identifier => prefix.key(values.first()?),
        KeyForm::Entries => prefix.key_of_parts(values.iter().map(String::as_str)),
        KeyForm::Attributes(parts) => {
            let parts: Vec<KeyPart> = parts.iter().map(|part| key_part(part)).collect();
            let attributes: Vec<(&str, &str)> =
                parts.iter().map(|part| &*part.attribute).zip(values.iter().map(String::as_str)).collect();
            (values.len() == parts.len()).then(|| caller_key(prefix, &parts, Attributes(&attributes)))??
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

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_decisions::Algorithm;

    fn rule(key: KeyForm) -> RuleName {
        let [tenant, namespace, rule] = ["default", "api", "search"].map(str::to_owned);
        RuleName { tenant, namespace, rule, algorithm: Algorithm::Gcra, key }
    }

    #[test]
    fn a_caller_is_read_as_any_output_prints_it() {
        let rule = rule(KeyForm::Attributes(vec!["user".into(), "endpoint".into()]));
        let expected = vec!["alice".to_owned(), "/search".to_owned()];
        for text in [
            "alice,/search",
            "alice, /search",
            "\"alice,/search\"",
            "'alice, /search'",
            "[alice, /search]",
            "search alice,/search",
            "api/search alice, /search",
            "default/api/search alice, /search",
            "default/api/search [alice, /search]",
            "user=alice endpoint=/search",
            "user=alice,endpoint=/search",
            "endpoint=/search user=alice",
            "api user=alice endpoint=/search",
            "search user=alice, endpoint=/search",
            "alice /search",
            "search alice /search",
            "user: alice endpoint: /search",
            "user: alice, endpoint: /search",
            "{\"user\":\"alice\",\"endpoint\":\"/search\"}",
            "{\"endpoint\": \"/search\", \"user\": \"alice\"}",
        ] {
            assert!(readings(text, &rule).contains(&expected), "{text}: {:?}", readings(text, &rule));
        }
        for text in ["alice", "user=alice", "other alice,/search", ""] {
            assert!(!readings(text, &rule).contains(&expected), "{text}");
        }
    }

    #[test]
    fn values_may_have_commas_themselves() {
        let ways = split_at_commas("a,b,c", 2);
        assert!(ways.contains(&vec!["a", "b,c"]) && ways.contains(&vec!["a,b", "c"]), "{ways:?}");
        assert_eq!(split_at_commas("a,b", 1), [["a,b"]]);
        assert!(split_at_commas("a", 2).is_empty() && split_at_commas("a", 0).is_empty());
        assert!(split_at_commas(&",".repeat(1000), 8).len() <= 128);
    }
}
