//! The sample of the interface's contract, read as it is, means what the contract says.

mod reading;

use reading::{NOW, ask, at, limited, rules, said};
use tidegate_core::{Accuracy, Class};
use tidegate_core::{Burst, CalendarUnit, Charge, Limit, Nanos, Period, Rate, Spec};
use tidegate_rules::{Attributes, MatchResult, OnMissing, Policy, Rule, RuleSet, Scope};

fn sample() -> RuleSet {
    rules(include_str!("sample.yaml"))
}

fn rule<'s>(set: &'s RuleSet, name: &str) -> &'s Rule {
    set.rules().find(|rule| &*rule.name == name).unwrap()
}

#[test]
fn every_field_of_the_sample_is_understood() {
    let set = sample();
    let per_user = rule(&set, "per-user");
    let hundred = Rate::new(100, Nanos::from_secs(1)).unwrap();
    assert!(matches!(per_user.policy, Policy::Gcra { rate, burst } if rate == hundred && burst.get() == 200));
    assert_eq!((per_user.class, per_user.scope), (Class::Paid, Some(Scope::World)));
    assert_eq!((per_user.accuracy, per_user.on_missing), (Accuracy::Bounded, OnMissing::Skip));
    assert_eq!((&*per_user.tenant, &*per_user.namespace), ("default", "api"));

    let search = rule(&set, "search");
    let minute = Period::new(Nanos::from_secs(60)).unwrap();
    assert!(
        matches!(search.policy, Policy::Sliding { limit, period } if limit.get() == 10 && period == minute)
    );
    assert_eq!((search.accuracy, search.scope), (Accuracy::Exact, None));

    let monthly = rule(&set, "monthly");
    let Policy::Calendar { limit, calendar } = &monthly.policy else { panic!("{:?}", monthly.policy) };
    assert_eq!(
        (limit.get(), calendar.unit(), calendar.time_zone()),
        (1_000_000, CalendarUnit::Month, "Europe/Paris")
    );
    assert!(monthly.shadow && monthly.accuracy == Accuracy::Async);

    let tokens = rule(&set, "tokens");
    assert_eq!(tokens.charge, Charge::Always);
    assert_eq!((set.counts().rules, set.counts().overrides, set.counts().namespaces), (4, 4, 1));
    assert_eq!(tokens.declared.to_string(), "rules.yaml:20");
}

#[test]
fn the_samples_requests_meet_the_rules_that_they_should() {
    let set = sample();
    assert_eq!(ask(&set, &[("user", "42")]), ["per-user 200"]);
    assert_eq!(ask(&set, &[("user", "42"), ("endpoint", "/search/x")]), ["per-user 200", "search 10"]);
    assert_eq!(ask(&set, &[("user", "42"), ("endpoint", "/other")]), ["per-user 200"]);
    assert_eq!(ask(&set, &[("org", "o")]), ["monthly 1000000 shadow", "tokens 500000"]);
    assert_eq!(ask(&set, &[("user", "acme-1")]), ["per-user 1000"]);
    assert_eq!(ask(&set, &[("user", "status-page")]), ["per-user unlimited"]);
    assert_eq!(ask(&set, &[("user", "mallory")]), ["per-user 0"]);
    assert_eq!(ask(&set, &[("user", "incident-42")]), ["per-user 200 hot"]);
    assert_eq!(said(&set, "api", &[("user", "incident-42")], at("2026-12-01T00:00:00Z")), ["per-user 200"]);
    assert_eq!(ask(&set, &[]), [""; 0]);
    assert_eq!(reading::matched(&set, "default", "api", &[]), MatchResult::NoRule);
    assert_eq!(reading::matched(&set, "default", "web", &[]), MatchResult::UnknownNamespace);
    assert_eq!(reading::matched(&set, "acme", "api", &[]), MatchResult::UnknownNamespace);
}

#[test]
fn a_block_keeps_the_rate_and_a_calendar_spec_has_the_months_cell() {
    let set = sample();
    let rate = Rate::new(100, Nanos::from_secs(1)).unwrap();
    assert_eq!(limited(&set, &[("user", "mallory")]).1, Spec::Gcra { rate, burst: Burst::BLOCKED });
    let Spec::Calendar { limit, unit, cell } = rule(&set, "monthly").policy.spec(at(NOW)) else { panic!() };
    assert_eq!((limit, unit), (Limit::new(1_000_000).unwrap(), CalendarUnit::Month));
    assert_eq!(cell.start, at("2026-10-31T23:00:00Z"));
}

#[test]
fn its_description_says_it_in_plain_words() {
    let text = sample().describe(at("2027-01-01T00:00:00Z")).to_string();
    for line in [
        "namespace api, tenant default",
        "per-user: 100 per second on average, at most 200 at once, for each user; scope world; \
         overrides: 3 exact, 1 by pattern, 1 of them ended",
        "search: about 10 over a sliding 1 minute, for each user and endpoint, when endpoint is /search*; accuracy exact",
        "monthly: at most 1_000_000 per calendar month in Europe/Paris (resets on the 1st), for each org; accuracy async; shadow",
        "tokens: about 500_000 over a sliding 1 hour, for each org; charges denied requests too",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    assert!(!text.contains("warning"), "{text}");
}

#[test]
fn an_identifier_is_shown_with_its_parts_joined() {
    let set = sample();
    let attributes = [("endpoint", "/search"), ("user", "42")];
    let shown = |name| tidegate_rules::identifier_text(rule(&set, name), Attributes(&attributes));
    assert_eq!((shown("search"), shown("monthly")), ("42,/search".to_owned(), "?".to_owned()));
}
