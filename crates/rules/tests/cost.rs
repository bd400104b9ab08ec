//! What one check costs at most: the most expensive sets that are accepted, asked by the worst requests.

use std::fmt::Write as _;
use std::time::{Duration, Instant};
use tidegate_core::{FleetSecret, Nanos};
use tidegate_rules::{Attributes, MatchResult, Matches, RuleSet, Source};

const VALUE_BYTES_MAX: usize = 16 << 10;
const RUNS: usize = 20;
const BOUND: Duration = Duration::from_millis(1);

fn parse(text: String) -> Result<RuleSet, String> {
    let source = Source { name: "rules.yaml".to_owned(), text: text.into_bytes() };
    RuleSet::parse(&[source], &FleetSecret::BUILT_IN).map_err(|errors| errors.to_string())
}

/// The largest set of this kind that is accepted, up to a number.
fn largest(kind: &str, most: usize, text: impl Fn(usize) -> String) -> RuleSet {
    let (mut accepted, mut refused) = (1, most + 1);
    let mut set = parse(text(1)).unwrap_or_else(|errors| panic!("{kind}: {errors}"));
    while accepted + 1 < refused {
        // The first look is at the most: what needs no bound is told apart from what has one.
        let count = if refused == most + 1 { most } else { accepted.midpoint(refused) };
        match parse(text(count)) {
            Ok(larger) => (accepted, set) = (count, larger),
            Err(errors) => {
                assert!(errors.contains("may take over 1 ms"), "{kind}: {errors}");
                refused = count;
            }
        }
    }
    println!("{kind}: {accepted}");
    set
}

/// The least of several runs: the machine does other things too.
#[expect(clippy::disallowed_methods, reason = "it measures time")]
fn least(set: &RuleSet, attributes: &[(&str, &str)]) -> Duration {
    let mut out = Matches::new();
    let run = |_| {
        let begun = Instant::now();
        let matched = set.matches("default", "api", Attributes(attributes), Nanos::from_secs(1), &mut out);
        let took = begun.elapsed();
        assert_ne!(matched, MatchResult::UnknownNamespace);
        took
    };
    (0..RUNS).map(run).min().unwrap()
}

fn check(kind: &str, most: usize, text: impl Fn(usize) -> String, attributes: &[(&str, &str)]) {
    let took = least(&largest(kind, most, text), attributes);
    println!("{kind}: {took:?}");
    assert!(took < BOUND, "{kind}: one check took {took:?}");
}

fn rules(lines: impl Iterator<Item = String>) -> String {
    lines.fold("namespace: api\nrules:\n".to_owned(), |mut text, line| {
        let _ = writeln!(text, "- {{ {line}, limit: 1 per 1m }}");
        text
    })
}

fn conditions(count: usize, values: usize, pattern: impl Fn(usize) -> String) -> String {
    let list = |from: usize| {
        let upto = (from + values).min(count);
        (from..upto).map(|n| format!("'{}'", pattern(n))).collect::<Vec<_>>().join(", ")
    };
    let starts = (0..count).step_by(values);
    rules(starts.map(|from| format!("name: r{from}, key: [], when: {{ a: [{}] }}", list(from))))
}

#[test]
fn no_accepted_conditions_cost_over_a_millisecond() {
    let alike = "a".repeat(490);
    let long = "a".repeat(VALUE_BYTES_MAX);
    let at = [("a", long.as_str())];
    check("exact, one each", 40_000, |count| conditions(count, 1, |n| format!("v{n}")), &at);
    check("exact, alike", 60_000, |count| conditions(count, 4, |n| format!("{alike}{n}")), &at);
    check("start and end", 40_000, |count| conditions(count, 1000, |n| format!("a*{n}")), &at);
    check("long ends", 40_000, |count| conditions(count, 1000, |n| format!("a*{n}{alike}")), &at);
    check("absent pieces", 200, |count| conditions(count, 100, |n| format!("*b{n}*")), &at);
    check("a long piece", 200, |count| conditions(count, 100, |n| format!("*{alike}b{n}*")), &at);
    check("many pieces", 200, |count| conditions(count, 100, |n| format!("*{}b{n}", "a*".repeat(240))), &at);
    check("pairs", 200, |count| conditions(count, 100, |n| format!("*{}ab{n}*", "aa*".repeat(160))), &at);
    let networks = |count| conditions(count, 1000, |n| format!("2001:db8:{n:x}::/48"));
    check("networks", 60_000, networks, &[("a", "2001:db9::1")]);
}

#[test]
fn many_attributes_dont_make_conditions_dearer() {
    let names: Vec<String> = (0..64).map(|n| format!("{}{n:02}", "a".repeat(40))).collect();
    let attributes: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "x")).collect();
    let rule = |n: usize| {
        let when: Vec<String> = names[48..].iter().map(|name| format!("{name}: x*")).collect();
        format!("name: r{n}, key: [absent], when: {{ {} }}", when.join(", "))
    };
    check("attributes", 4000, |count| rules((0..count).map(rule)), &attributes);
}

fn overrides(lines: impl Iterator<Item = String>) -> String {
    let rules = "namespace: api\nrules:\n- { name: r, key: [a, b], limit: 1 per 1m }\noverrides:\n";
    lines.fold(rules.to_owned(), |mut text, line| {
        let _ = writeln!(text, "- {{ rule: r, {line}, limit: 2 }}");
        text
    })
}

#[test]
fn no_accepted_overrides_cost_over_a_millisecond() {
    let long = "a".repeat(VALUE_BYTES_MAX);
    let at = [("a", long.as_str()), ("b", long.as_str())];
    let set = |pattern: fn(usize) -> String| {
        move |count: usize| overrides((0..count).map(move |n| format!("a: '{}'", pattern(n))))
    };
    check("starts", 20_000, set(|n| format!("{n}*")), &at);
    check("ends that begin alike", 20_000, set(|n| format!("aaaaaaaaaaaa*{n}")), &at);
    check("lengths", 500, set(|n| format!("{}*", "a".repeat(n))), &at);
    check(
        "other lengths",
        120_000,
        set(|n| format!("{}b*{}", "a".repeat(n % 250), "a".repeat(n / 250))),
        &at,
    );
    check("insides", 200, set(|n| format!("*{}b{n}*", "a".repeat(400))), &at);
    check("insides that begin alike", 200, set(|n| format!("aaaa*{}b{n}*", "a*".repeat(200))), &at);
    let pairs = |count: usize| overrides((0..count).map(|n| format!("a: 'aaaa*', b: 'a*{n}'")));
    check("pairs", 20_000, pairs, &at);
}

#[test]
fn no_accepted_domain_costs_over_a_millisecond() {
    let long = "a".repeat(VALUE_BYTES_MAX);
    let domain = |count: usize, line: fn(usize) -> String| {
        (0..count).fold("domain: api\ndescriptors:\n".to_owned(), |mut text, n| {
            let limit = "rate_limit: { unit: minute, requests_per_unit: 1 }";
            let _ = writeln!(text, "- {{ {}, {limit} }}", line(n));
            text
        })
    };
    let at = [("k", long.as_str())];
    check("values", 20_000, |count| domain(count, |n| format!("key: k, value: 'a*{n}'")), &at);
    check("inside values", 200, |count| domain(count, |n| format!("key: k, value: '*b{n}*'")), &at);
    check("keys", 2000, |count| domain(count, |n| format!("key: 'k*{n}'")), &at);
}
