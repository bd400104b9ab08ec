//! What an engine leaves in its journal: every denial with its kind, admissions as a sample, and changes of its rules.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use tidegate_core::{Cost, FleetSecret, Moment, Nanos};
use tidegate_decisions::why::Audience;
use tidegate_decisions::{EventKind, Log, LogOptions, Query, RECORDS_MAX, RequestTag, RuleFilter, read};
use tidegate_node::journal::health::HealthMonitor;
use tidegate_node::journal::log_query::LogQuery;
use tidegate_node::journal::{Journal, name_next_request};
use tidegate_node::{Engine, EngineOptions, Purpose, Request, Subject};
use tidegate_rules::{Attributes, LogSampling, RuleSet, Source};

const NOW: Nanos = Nanos::from_secs(1_800_000_000);
const RULES: &str = "namespace: api
rules:
  - { name: per-user, key: [user], limit: 2 per 1m }
  - { name: per-ip, key: [ip/64], limit: 100 per 1m }
  - { name: watched, key: [user], limit: 1 per 1m, shadow: true }
---
namespace: orgs
rules:
  - { name: per-org, key: [org], limit: 5 per 1m, on_missing: deny }
";

const ALL: Query<'static> = Query {
    callers: None,
    wanted: &|_| RuleFilter::All,
    request: None,
    since: Nanos::ZERO,
    until: Nanos::MAX,
    admissions: false,
    records_max: RECORDS_MAX,
};

struct RecordedLog {
    engine: Engine,
    journal: Arc<Journal>,
    log: Option<Log>,
    directory: PathBuf,
}

fn rules(text: &str) -> RuleSet {
    let source = Source { name: "rules.yaml".into(), text: text.as_bytes().to_vec() };
    RuleSet::parse(&[source], &FleetSecret::BUILT_IN).unwrap()
}

impl RecordedLog {
    fn new(test: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("tidegate-journal-{test}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&directory);
        let options = EngineOptions { secret: FleetSecret::BUILT_IN, keys_max: 100_000 };
        let engine = Engine::new(options, rules(RULES));
        let journal = Journal::new(1, directory.clone());
        engine.set_journal(journal.clone());
        let (region, node) = ("here".into(), "one".into());
        let log = Log::open(LogOptions { directory: directory.clone(), cap_bytes: 16 << 20, region, node });
        RecordedLog { engine, journal, log: Some(log.unwrap()), directory }
    }

    fn ask(&self, namespace: &str, attributes: &[(&str, &str)], purpose: Purpose) -> bool {
        let subject = Subject::Rules { namespace, attributes: Attributes(attributes), cost: Cost::ONE };
        let request = Request { tenant: "default", purpose, subject };
        let rules = self.engine.rules();
        let decided = self.engine.decide(&rules, &request, Moment::at(NOW)).unwrap();
        decided.answer().unwrap().allowed
    }

    fn check(&self, attributes: &[(&str, &str)]) -> bool {
        self.ask("api", attributes, Purpose::Check)
    }

    fn why(&mut self, asked: &LogQuery) -> String {
        self.log.as_mut().unwrap().write(self.journal.recorder(), NOW).unwrap();
        asked.answer(&self.directory, &FleetSecret::BUILT_IN, Audience::Operator).unwrap()
    }

    fn of(&mut self, rule: &str, identifier: &str) -> String {
        let (rule, identifier) = (Some(rule.into()), Some(identifier.into()));
        self.why(&LogQuery { rule, identifier, ..LogQuery::default() })
    }
}

impl Drop for RecordedLog {
    fn drop(&mut self) {
        self.log = None;
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn count(json: &str, words: &str) -> usize {
    json.matches(words).count()
}

#[test]
fn denials_are_kept_by_caller_with_what_was_seen_and_the_request() {
    let mut kept = RecordedLog::new("denials");
    for _ in 0..2 {
        assert!(kept.check(&[("user", "42")]));
    }
    name_next_request(RequestTag::of("mine"));
    assert!(!kept.check(&[("user", "42")]));
    let json = kept.of("per-user", "42");
    assert_eq!(count(&json, "\"outcome\":\"denied\""), 1, "{json}");
    assert!(
        json.contains("\"seen\":{\"own\":2,\"others\":0,\"world\":0,\"previous\":0,\"total\":2}"),
        "{json}"
    );
    assert_eq!(count(&kept.of("per-user", "43"), "outcome"), 0);
    let request_id = Some("mine".into());
    let by_request = kept.why(&LogQuery { request_id, ..LogQuery::default() });
    assert_eq!(count(&by_request, "\"rule\":\"per-user\""), 1, "{by_request}");
}

#[test]
fn shadow_rules_missing_attributes_and_groups_of_addresses_are_kept_as_such() {
    let mut kept = RecordedLog::new("kinds");
    for _ in 0..2 {
        assert!(kept.check(&[("user", "42")]));
    }
    assert!(kept.of("watched", "42").contains("\"outcome\":\"would_deny\""));
    assert!(!kept.ask("orgs", &[], Purpose::Check));
    let missing = kept.why(&LogQuery { rule: Some("per-org".into()), ..LogQuery::default() });
    assert!(missing.contains("\"cause\":\"attribute_missing\""), "{missing}");
    for _ in 0..101 {
        kept.check(&[("ip", "2001:db8::1")]);
    }
    assert_eq!(
        count(&kept.of("per-ip", "2001:db8::ffff"), "\"outcome\":\"denied\""),
        1,
        "one group of addresses"
    );
}

/// Of a caller that gives nothing there is no key by which to count: it is counted by rule.
#[test]
fn requests_that_lack_an_attribute_are_counted_by_the_rule_that_wants_it() {
    let mut kept = RecordedLog::new("missing");
    kept.engine.replace_rules(rules(
        "namespace: orgs
rules:
  - { name: per-org, key: [org], limit: 5 per 1m, on_missing: deny }
  - { name: per-team, key: [team], limit: 5 per 1m, on_missing: deny }
",
    ));
    for _ in 0..100 {
        assert!(!kept.ask("orgs", &[("team", "t")], Purpose::Check));
    }
    for _ in 0..30 {
        assert!(!kept.ask("orgs", &[("org", "o")], Purpose::Check));
    }
    kept.log.as_mut().unwrap().write(kept.journal.recorder(), NOW).unwrap();
    let found = read(&kept.directory, &ALL).unwrap();
    let mut denied = HashMap::new();
    for record in found.records.iter().map(|found| &found.record) {
        *denied.entry(&*found.rules[&record.rule].rule).or_insert(0) += 1 + record.more;
    }
    assert_eq!(denied, HashMap::from([("per-org", 100), ("per-team", 30)]));
}

#[test]
fn one_admission_in_a_thousand_is_kept_and_no_report() {
    let mut kept = RecordedLog::new("sample");
    for number in 0..2 * LogSampling::default().admissions_one_in {
        assert!(kept.check(&[("user", &number.to_string())]));
    }
    for _ in 0..5 {
        kept.ask("api", &[("user", "reported")], Purpose::Report);
    }
    let rule = Some(String::from("per-user"));
    let json = kept.why(&LogQuery { rule, admissions: true, ..LogQuery::default() });
    assert_eq!(
        (count(&json, "\"admitted\""), count(&json, "\"denied\"")),
        (4, 0),
        "outcome and cause: {json}"
    );
}

#[test]
fn a_rule_says_what_is_logged_of_it() {
    let mut kept = RecordedLog::new("own");
    kept.engine.replace_rules(rules(
        "namespace: api
rules:
  - { name: quiet, key: [user], limit: 1 per 1m, log: { denials: none, admissions: none } }
  - { name: loud, key: [org], limit: 9000 per 1m, log: { admissions: all } }
  - { name: some, key: [ip], limit: 9000 per 1m, log: { admissions: 1 in 10 } }
---
namespace: orgs
rules:
  - { name: per-org, key: [org], limit: 5 per 1m, on_missing: deny, log: { denials: none } }
",
    ));
    assert!(kept.check(&[("user", "42")]));
    assert!(!kept.check(&[("user", "42")]), "denied, whether it is logged or not");
    assert!(!kept.ask("orgs", &[], Purpose::Check));
    for _ in 0..100 {
        assert!(kept.check(&[("org", "o")]));
    }
    for _ in 0..4000 {
        assert!(kept.check(&[("ip", "10.0.0.1")]));
    }
    let mut logged = |rule: &str| {
        let rule = Some(rule.into());
        let json = kept.why(&LogQuery { rule, admissions: true, records_max: 1000, ..LogQuery::default() });
        count(&json, "\"outcome\"")
    };
    assert_eq!((logged("quiet"), logged("per-org"), logged("loud")), (0, 0, 100));
    let some = logged("some");
    assert!((250..600).contains(&some), "one in ten of 4000, by chance: {some}");
}

#[test]
fn changed_rules_are_events_dated_before_they_could_be_felt() {
    let kept = RecordedLog::new("events");
    let (mut health, started) = HealthMonitor::new(&kept.engine, NOW);
    assert_eq!(started.kind, EventKind::Started);
    let later = NOW.plus(Nanos::from_secs(1));
    assert!(health.poll(&kept.engine, None, None, later).is_empty(), "nothing changed");
    kept.engine.replace_rules(rules(&RULES.replace("limit: 2 per", "limit: 1 per")));
    let events = health.poll(&kept.engine, None, None, later.plus(Nanos::from_secs(1)));
    let told: Vec<(&str, &str, i64)> =
        events.iter().map(|event| (&*event.subject, &*event.text, event.value)).collect();
    assert_eq!(told, [("", "", 2), ("default/api/per-user", "2 per 60 s became 1 per 60 s", 2)]);
    assert!(events.iter().all(|event| event.at == later), "dated to the look before");
}
