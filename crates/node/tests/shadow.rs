//! What shadow rules would have denied is told once for each request, whichever way it was decided: by itself, after an
//! ask, by a hold, by its class. In the report of callers, in the counts by rule, and in the log alike.

use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use tidegate_core::origin_cell::NodeId;
use tidegate_core::{Cost, FleetSecret, KeyId, Moment, Nanos};
use tidegate_decisions::why::Audience;
use tidegate_decisions::{Log, LogOptions};
use tidegate_node::journal::Journal;
use tidegate_node::journal::log_query::LogQuery;
use tidegate_node::region::{AskOutcomes, Effects, OutgoingExchange, RegionOptions};
use tidegate_node::{
    Answer, DecideOutcome, DecisionPath, Engine, EngineOptions, PendingDecision, Purpose, Request, Subject,
};
use tidegate_origin::{OriginStore, ShardId};
use tidegate_rules::{Attributes, RuleSet, Source};

const NOW: Moment = Moment::at(Nanos::from_secs(1_800_000_000));
const RULES: &str = "namespace: api
rules:
  - { name: real, key: [user], limit: 1000 per 1h, accuracy: exact }
  - { name: watched, key: [user], limit: 2 per 1h, class: abuse, shadow: true }
---
namespace: elsewhere
rules:
  - { name: watched-alone, key: [user], limit: 2 per 1h, shadow: true }
";

/// A node with its log, in a region with nobody else but those who share its store.
struct Node {
    engine: Engine,
    journal: Arc<Journal>,
    log: Option<Log>,
    directory: PathBuf,
}

impl Node {
    fn new(test: &str, number: u64) -> Self {
        let name = format!("tidegate-shadow-{test}-{number}-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&directory);
        let secret = FleetSecret::BUILT_IN;
        let source = Source { name: "rules.yaml".into(), text: RULES.as_bytes().to_vec() };
        let rules = RuleSet::parse(&[source], &secret).unwrap_or_else(|errors| panic!("{errors}"));
        let region = RegionOptions { node: NodeId(number), fresh_for: Nanos::from_secs(5), seed: number };
        let engine = Engine::sharing(EngineOptions { secret, keys_max: 1000 }, region, rules);
        let journal = Journal::new(1, directory.clone());
        engine.set_journal(journal.clone());
        let (region, node) = ("here".into(), "one".into());
        let options = LogOptions { directory: directory.clone(), cap_bytes: 16 << 20, region, node };
        Node { engine, journal, log: Some(Log::open(options).unwrap()), directory }
    }

    /// Decides a request of alice's; `None` as the store: nobody answers.
    fn check(&self, namespace: &str, mut store: Option<&mut OriginStore>) -> (bool, DecisionPath) {
        let rules = self.engine.rules();
        let attributes = [("user", "alice")];
        let mut decided = self.engine.decide(&rules, &request(namespace, &attributes), NOW).unwrap();
        loop {
            let asking = match decided {
                DecideOutcome::Answer(Answer { allowed, path, .. }) => return (allowed, path),
                DecideOutcome::Ask(asking) => asking,
            };
            let heard = store.as_deref_mut().map(|store| self.ask(store, &asking)).unwrap_or_default();
            decided = self.engine.resume_or_ask(*asking, &heard, NOW);
        }
    }

    fn ask(&self, store: &mut OriginStore, asking: &PendingDecision<'_>) -> AskOutcomes {
        let sharing = self.engine.shared().unwrap();
        let (heard, hear) = mpsc::channel();
        let wake = Box::new(move |outcomes| heard.send(outcomes).unwrap());
        let (id, effects) = sharing.region.ask(&sharing.table, asking.asks(), NOW, &route, wake);
        let asked = effects.asked_keys.clone();
        let mut calls = wake_all(effects);
        calls.extend(wake_all(sharing.region.send_asks(&sharing.table, &asked, NOW, &route)));
        while let Some(call) = calls.pop() {
            let answer = store.exchange(&call.exchange, NOW.now);
            calls.extend(wake_all(sharing.region.replied(&sharing.table, call, Ok(answer), NOW, &route)));
        }
        sharing.region.complete(id);
        hear.try_recv().unwrap()
    }

    /// How many denials of alice's each of the three tells of a rule.
    #[track_caller]
    fn assert_told(&mut self, rule: &str, denials: u64) {
        let report = self.engine.shadows().report(None);
        let of_rule = report.iter().find(|of_rule| of_rule.rule == rule);
        let reported = of_rule.map_or(0, |of_rule| of_rule.denials);
        let named = of_rule.map_or(0, |of_rule| {
            assert_eq!(of_rule.callers[0].identifier, "alice");
            of_rule.callers[0].denials
        });
        let series = self.engine.stats().rules().into_iter().find(|series| &*series.labels.rule == rule);
        let counted: u64 = series.map_or(0, |series| {
            let would_deny = series.decisions.iter().filter(|(outcome, _, _)| *outcome == "would_deny");
            would_deny.map(|(_, _, count)| count).sum()
        });
        self.log.as_mut().unwrap().write(self.journal.recorder(), NOW.now).unwrap();
        let (rule, identifier) = (Some(rule.into()), Some("alice".into()));
        let asked = LogQuery { rule, identifier, ..LogQuery::default() };
        let logged = asked.answer(&self.directory, &FleetSecret::BUILT_IN, Audience::Operator).unwrap();
        let is_logged = logged.contains("\"outcome\":\"would_deny\"");
        assert_eq!(
            (reported, named, counted, is_logged),
            (denials, denials, denials, denials > 0),
            "{logged}"
        );
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.log = None;
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn request<'a>(namespace: &'a str, attributes: &'a [(&'a str, &'a str)]) -> Request<'a> {
    let subject = Subject::Rules { namespace, attributes: Attributes(attributes), cost: Cost::ONE };
    Request { tenant: "default", purpose: Purpose::Check, subject }
}

fn route(_: KeyId) -> ShardId {
    ShardId(1)
}

fn wake_all(effects: Effects) -> Vec<OutgoingExchange> {
    for (wake, outcomes) in effects.finished {
        wake(outcomes);
    }
    effects.send
}

#[test]
fn a_node_that_asked_its_region_tells_of_it() {
    let (mut here, mut elsewhere, mut store) =
        (Node::new("one", 1), Node::new("one", 2), OriginStore::default());
    for _ in 0..2 {
        assert!(here.check("elsewhere", Some(&mut store)).0);
    }
    // What the other node admitted is in the store: the first request here asks, and hears no.
    let (allowed, path) = elsewhere.check("elsewhere", Some(&mut store));
    assert!(allowed && matches!(path, DecisionPath::Asked(_)), "{path:?}");
    elsewhere.assert_told("watched-alone", 1);
    // From here on it knows by itself.
    assert_eq!(elsewhere.check("elsewhere", Some(&mut store)), (true, DecisionPath::Local));
    elsewhere.assert_told("watched-alone", 2);
    here.assert_told("watched-alone", 0);
}

/// The other limit of the request is granted, and asks every time; the shadow's hold is refused.
#[test]
fn each_refused_hold_of_a_request_is_reported_once() {
    let (mut here, mut store) = (Node::new("several", 1), OriginStore::default());
    for number in 0..5 {
        let (allowed, path) = here.check("api", Some(&mut store));
        assert!(allowed && matches!(path, DecisionPath::Asked(_)), "{number}: {path:?}");
    }
    here.assert_told("watched", 3);
    here.assert_told("real", 0);
}

#[test]
fn what_nobody_could_be_asked_about_is_told_by_its_class() {
    let mut here = Node::new("class", 1);
    for _ in 0..3 {
        assert_eq!(
            here.check("api", None),
            (true, DecisionPath::Unverified),
            "of class paid, and the shadow denies nothing"
        );
    }
    here.assert_told("watched", 3);
}

/// What was granted to it was spent by another before it went on: it asks again, and is told of once.
#[test]
fn a_request_that_asks_twice_is_told_of_once() {
    let (mut here, mut store) = (Node::new("twice", 1), OriginStore::default());
    for _ in 0..2 {
        here.check("api", Some(&mut store));
    }
    {
        let rules = here.engine.rules();
        let attributes = [("user", "alice")];
        let decide = || match here.engine.decide(&rules, &request("api", &attributes), NOW).unwrap() {
            DecideOutcome::Ask(asking) => asking,
            DecideOutcome::Answer(answer) => panic!("an exact limit asks: {answer:?}"),
        };
        let (slow, fast) = (decide(), decide());
        let heard = here.ask(&mut store, &slow);
        assert!(here.engine.resume(*fast, &heard, NOW).allowed, "with what the other was granted");
        assert!(here.engine.resume(*slow, &heard, NOW).allowed);
    }
    here.assert_told("watched", 2);
}

#[test]
fn what_is_reported_had_passed_and_is_no_denial() {
    let mut here = Node::new("report", 1);
    let rules = here.engine.rules();
    let attributes = [("user", "alice")];
    for _ in 0..5 {
        let report = Request { purpose: Purpose::Report, ..request("elsewhere", &attributes) };
        assert!(here.engine.decide(&rules, &report, NOW).unwrap().answer().is_some());
    }
    drop(rules);
    here.assert_told("watched-alone", 0);
}
