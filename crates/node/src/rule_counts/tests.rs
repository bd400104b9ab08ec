//! Names are of the process, so that every test has rules of names of its own.

use super::*;
use tidegate_core::{FleetSecret, Nanos, Verdict};
use tidegate_rules::{RuleSet, Source};

fn rules(namespace: &str, names: impl IntoIterator<Item = String>) -> RuleSet {
    let rules: String = names
        .into_iter()
        .map(|name| format!("  - {{ name: {name}, key: [user], limit: 10 per 1m }}\n"))
        .collect();
    let text = format!("namespace: {namespace}\nrules:\n{rules}");
    let source = Source { name: "rules.yaml".to_owned(), text: text.into_bytes() };
    RuleSet::parse(&[source], &FleetSecret::new([7; 16])).unwrap_or_else(|errors| panic!("{errors}"))
}

fn limit_answer(rule: &Rule, remaining: u64, role: Role) -> LimitAnswer<'_> {
    let verdict = if remaining > 10 { Verdict::Deny { retry_after: None } } else { Verdict::Admit };
    let remaining = if remaining > 10 { 0 } else { remaining };
    let decision = Decision { verdict, limit: 10, remaining, reset: Nanos::ZERO };
    LimitAnswer {
        source: LimitSource::Rule(rule),
        role,
        descriptor: 0,
        outcome: LimitOutcome::Decided(decision),
    }
}

/// More than the limit: denied.
const OVER: u64 = 11;

#[test]
fn counts_stay_with_a_rules_name_when_the_set_is_another() {
    let counts = RuleCounts::default();
    for _ in 0..2 {
        // The second set has its rules in other places, and other objects for them.
        let set = rules("carried", ["first", "second"].map(str::to_owned));
        let rule = set.rules().last().unwrap();
        counts.count(RuleOutcome::Admitted, DecisionPath::Local, &[limit_answer(rule, 5, Role::Enforced)]);
        assert!(rule.series.get().is_some());
    }
    let series = counts.series();
    assert_eq!(series.len(), 1, "a rule that decided nothing has none: {series:?}");
    assert_eq!((&*series[0].labels.namespace, &*series[0].labels.rule), ("carried", "second"));
    assert_eq!(series[0].decisions, [("allowed", "local", 2)]);
}

#[test]
fn outcomes_and_paths_are_told_apart() {
    let counts = RuleCounts::default();
    let set = rules("outcomes", ["only".to_owned()]);
    let rule = set.rules().next().unwrap();
    let answers = [limit_answer(rule, 1, Role::Enforced), limit_answer(rule, 2, Role::Enforced)];
    counts.count(RuleOutcome::Admitted, DecisionPath::Asked(AskReason::Credit), &answers);
    let answers = [limit_answer(rule, OVER, Role::Enforced), limit_answer(rule, OVER, Role::Shadow)];
    counts.count(RuleOutcome::Denied, DecisionPath::Local, &answers);
    counts.count(RuleOutcome::Reported, DecisionPath::Local, &[limit_answer(rule, OVER, Role::Enforced)]);
    let missing = LimitAnswer {
        outcome: LimitOutcome::Missing { attribute: "user", is_malformed: false },
        ..answers[0]
    };
    let lifted = LimitAnswer { outcome: LimitOutcome::Unlimited, ..answers[0] };
    counts.count(RuleOutcome::Denied, DecisionPath::Local, &[missing, lifted]);
    let series = counts.series();
    assert_eq!(
        series[0].decisions,
        [
            ("denied", "local", 1),
            ("would_deny", "local", 1),
            ("allowed", "credit", 2),
            ("unlimited", "local", 1),
            ("denied", "missing", 1),
            ("reported", "local", 1),
        ]
    );
    assert_eq!(series[0].near_limit, 1, "two of ten are a fifth, one is less");
    assert_eq!(counts.requests(), [1, 2, 1]);
}

#[test]
fn threads_count_apart_and_are_added_up() {
    let counts = RuleCounts::default();
    std::thread::scope(|scope| {
        for _ in 0..2 * STRIPES {
            scope.spawn(|| (0..1000).for_each(|_| counts.count_given(3, 1, 2)));
        }
    });
    let all = 2 * STRIPES as u64 * 1000;
    let series = counts.series();
    assert_eq!(series[0].decisions, [("allowed", "local", 3 * all), ("denied", "local", 2 * all)]);
    assert_eq!((&*series[0].labels.rule, series[0].near_limit), ("given", all));
    assert_eq!(counts.requests(), [3 * all, 2 * all, 0]);
}

/// In a list of names of its own: that of the process is for the other tests.
#[test]
fn rules_beyond_the_bound_are_one() {
    let mut names = Names { places: BTreeMap::new(), labels: Vec::new() };
    let labels = |number: usize| {
        let [tenant, namespace] = ["t", "n"].map(Into::into);
        RuleLabels { tenant, namespace, rule: number.to_string().into() }
    };
    let places: Vec<usize> =
        (0..RULES_MAX + 50).map(|number| names.place(labels(number)).get() as usize).collect();
    assert_eq!((places[0], places[RULES_MAX - 1]), (2, RULES_MAX + 1));
    assert!(places[RULES_MAX..].iter().all(|place| *place == 1), "the rest are `other`");
    assert_eq!(names.place(labels(7)).get() as usize, 9, "and who was there first stays");
    let counts = RuleCounts::default();
    counts.stripe().add(RULES_MAX + 1, 0, 1);
    assert!(counts.sums(RULES_MAX + 1).is_some(), "the last place has counters");
}
