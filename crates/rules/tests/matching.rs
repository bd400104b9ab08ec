//! Which rules a request meets: conditions, keys, modes, tenants, several documents.

mod reading;

use reading::{ask, at, limited, matched, parse, rules, said, source};
use tidegate_core::{FleetSecret, Nanos, Period, Spec};
use tidegate_rules::{Attributes, MatchResult, Matches, RuleSet};

fn when(condition: &str) -> RuleSet {
    rules(&format!("namespace: api\nrules:\n  - {{ name: r, key: [], limit: 1 per 1m, when: {condition} }}"))
}

#[test]
fn conditions_compare_exactly_by_pattern_by_list_and_by_network() {
    for (condition, value, expected) in [
        ("{ a: x }", "x", true),
        ("{ a: x }", "X", false),
        ("{ a: x }", "xx", false),
        ("{ a: '' }", "", true),
        ("{ a: 42 }", "42", true),
        ("{ a: 42 }", "42.0", false),
        ("{ a: 007 }", "007", true),
        ("{ a: true }", "true", true),
        ("{ a: off }", "off", true),
        ("{ a: 'null' }", "null", true),
        ("{ a: 'x*' }", "xyz", true),
        ("{ a: '*' }", "", true),
        ("{ a: [x, 'y*', 10.0.0.0/8, 1] }", "x", true),
        ("{ a: [x, 'y*', 10.0.0.0/8, 1] }", "yes", true),
        ("{ a: [x, 'y*', 10.0.0.0/8, 1] }", "10.1.2.3", true),
        ("{ a: [x, 'y*', 10.0.0.0/8, 1] }", "1", true),
        ("{ a: [x, 'y*', 10.0.0.0/8, 1] }", "11.1.2.3", false),
        ("{ a: '10.0.0.0/8' }", "::ffff:10.9.9.9", true),
        ("{ a: '10.0.0.0/8' }", "not an address", true),
        ("{ a: '10.0.0.0/8' }", "10.0.0.0/8", true),
        ("{ a: '2001:db8::/32' }", "2001:db8::1", true),
        ("{ a: /v1/users/7 }", "/v1/users/7", true),
        ("{ a: 1/2 }", "1/2", true),
    ] {
        let hits = ask(&when(condition), &[("a", value)]).len();
        assert_eq!(hits == 1, expected, "{condition} on {value:?}");
    }
}

#[test]
fn all_conditions_must_hold() {
    let set = when("{ a: x, b: [y, z] }");
    assert_eq!(ask(&set, &[("a", "x"), ("b", "z")]).len(), 1);
    assert_eq!(ask(&set, &[("a", "x"), ("b", "w")]).len(), 0);
    assert_eq!(ask(&set, &[("a", "x")]).len(), 0);
}

#[test]
fn a_thousand_values_are_searched_and_all_found() {
    let values: Vec<String> = (0..1000).map(|n| format!("v{n}")).collect();
    let set = when(&format!("{{ a: [{}] }}", values.join(", ")));
    assert!(values.iter().all(|value| ask(&set, &[("a", value)]).len() == 1));
    assert!(ask(&set, &[("a", "v1000")]).is_empty());
}

#[test]
fn a_missing_attribute_skips_the_rule_or_denies() {
    let text = "namespace: api\nrules:\n  - { name: skips, key: [user], limit: 1 per 1m }\n  \
                - { name: denies, key: [user], when: { tier: gold }, limit: 1 per 1m, on_missing: deny }";
    let set = rules(text);
    assert_eq!(ask(&set, &[("user", "u"), ("tier", "gold")]), ["skips 1", "denies 1"]);
    assert_eq!(ask(&set, &[("tier", "gold")]), ["denies missing user"]);
    assert_eq!(ask(&set, &[("user", "u")]), ["skips 1", "denies missing tier"]);
    assert_eq!(
        ask(&set, &[("tier", "silver")]),
        [""; 0],
        "a condition that fails outweighs a missing attribute"
    );
    assert_eq!(
        ask(&set, &[("user", ""), ("tier", "gold")]),
        ["skips 1", "denies 1"],
        "an empty value is a value"
    );
}

#[test]
fn an_empty_key_is_one_counter_for_all() {
    let set = when("{}");
    assert_eq!(limited(&set, &[("user", "a")]), limited(&set, &[("user", "b")]));
}

#[test]
fn keys_depend_on_the_parts_in_order_and_on_nothing_else() {
    let set = rules("namespace: api\nrules: [{ name: r, key: [a, b], limit: 1 per 1m }]");
    let key = |attributes: &[(&str, &str)]| limited(&set, attributes).0;
    assert_eq!(key(&[("a", "1"), ("b", "2")]), key(&[("b", "2"), ("c", "3"), ("a", "1")]));
    assert_ne!(key(&[("a", "1"), ("b", "2")]), key(&[("a", "2"), ("b", "1")]));
    assert_ne!(key(&[("a", "1"), ("b", "")]), key(&[("a", ""), ("b", "1")]));
    let changed = rules("namespace: api\nrules: [{ name: r, key: [a, b], limit: 999 per 1m, class: free }]");
    assert_eq!(limited(&changed, &[("a", "1"), ("b", "2")]).0, key(&[("a", "1"), ("b", "2")]));
}

#[test]
fn the_overflow_key_is_no_callers() {
    for parts in ["[]", "[a]", "[a, b]", "[a, b, c, d, e, f, g, h]"] {
        let set = rules(&format!("namespace: api\nrules: [{{ name: r, key: {parts}, limit: 1 per 1m }}]"));
        let overflow = set.rules().next().unwrap().overflow_key.get();
        for value in ["", "overflow"] {
            let attributes = ["a", "b", "c", "d", "e", "f", "g", "h"].map(|name| (name, value));
            assert_ne!(limited(&set, &attributes).0, overflow, "{parts} {value}");
        }
    }
}

#[test]
fn ipv6_addresses_of_a_prefix_are_one_caller() {
    let set = rules("namespace: api\nrules: [{ name: r, key: [ip/64], limit: 1 per 1m, on_missing: deny }]");
    let key = |ip: &str| limited(&set, &[("ip", ip)]).0;
    assert_eq!(key("2001:db8:1:2::1"), key("2001:0db8:0001:0002:ffff:ffff:ffff:ffff"));
    assert_ne!(key("2001:db8:1:2::1"), key("2001:db8:1:3::1"));
    assert_eq!(key("192.0.2.1"), key("::ffff:192.0.2.1"));
    assert_ne!(key("192.0.2.1"), key("192.0.2.2"));
    assert_eq!(ask(&set, &[("ip", "localhost")]), ["r malformed ip"], "no address isn't like no attribute");
    let shown = |ip| tidegate_rules::identifier_text(set.rules().next().unwrap(), Attributes(&[("ip", ip)]));
    assert_eq!(
        (shown("2001:db8:1:2::1"), shown("192.0.2.1")),
        ("2001:db8:1:2::/64".into(), "192.0.2.1".into())
    );
}

#[test]
fn an_override_of_a_grouped_address_is_grouped_alike() {
    let set = rules(
        "namespace: api\nrules: [{ name: r, key: [ip/64], limit: 1 per 1m }]\noverrides:\n  \
         - { rule: r, ip: '2001:db8:1:2::99', limit: 5 }\n  - { rule: r, ip: '2001:db8:1:3::/64', limit: 6 }\n  \
         - { rule: r, ip: '::ffff:192.0.2.1', limit: 7 }\n  - { rule: r, ip: '192.0.*', limit: 8 }",
    );
    assert_eq!(ask(&set, &[("ip", "2001:db8:1:2::1")]), ["r 5"]);
    assert_eq!(ask(&set, &[("ip", "2001:db8:1:3::1")]), ["r 6"]);
    assert_eq!(ask(&set, &[("ip", "192.0.2.1")]), ["r 7"]);
    assert_eq!(ask(&set, &[("ip", "192.0.2.2")]), ["r 8"]);
    assert_eq!(ask(&set, &[("ip", "198.51.100.1")]), ["r 1"]);
}

#[test]
fn a_shadowed_or_switched_off_namespace_or_fleet_denies_nothing() {
    let rule = "rules: [{ name: r, key: [], limit: 1 per 1m }]";
    let set = |head: &str| rules(&format!("namespace: api\n{head}\n{rule}"));
    assert_eq!(ask(&set("mode: enforce"), &[]), ["r 1"]);
    assert_eq!(ask(&set("mode: shadow"), &[]), ["r 1 shadow"]);
    assert_eq!(ask(&set("fleet_mode: shadow"), &[]), ["r 1 shadow"]);
    for head in
        ["mode: off", "fleet_mode: off", "mode: off\nfleet_mode: shadow", "mode: shadow\nfleet_mode: off"]
    {
        assert_eq!(matched(&set(head), "default", "api", &[]), MatchResult::Off, "{head}");
        assert_eq!(ask(&set(head), &[]), [""; 0]);
    }
}

#[test]
fn a_namespace_may_be_spread_over_documents_and_files() {
    let first = "namespace: api\noverrides: [{ rule: late, user: u, limit: 9 }]\n---\n---\nfleet_mode: shadow\n---\n\
                 tenant: acme\nnamespace: api\nrules: [{ name: theirs, key: [], limit: 3 per 1m }]";
    let second = "namespace: api\nmode: enforce\nrules: [{ name: late, key: [user], limit: 1 per 1m }]";
    let third =
        "namespace: api\nrules: [{ name: later, key: [user], limit: 2 per 1m }]\n---\nfleet_mode: shadow";
    let sources = [source("a.yaml", first), source("b.yaml", second), source("c.yaml", third)];
    let set = RuleSet::parse(&sources, &FleetSecret::BUILT_IN).unwrap();
    assert_eq!(ask(&set, &[("user", "u")]), ["late 9 shadow", "later 2 shadow"]);
    assert_eq!(ask(&set, &[("user", "v")]), ["late 1 shadow", "later 2 shadow"]);
    assert_eq!(matched(&set, "acme", "api", &[]), MatchResult::Rules);
    assert_eq!(set.counts().namespaces, 2);
}

#[test]
fn files_without_rules_are_an_empty_set() {
    for text in [
        "namespace: api\n",
        "namespace: api\nrules:\n",
        "---\n---\nnamespace: api\n",
        "\u{feff}namespace: api",
    ] {
        assert_eq!(rules(text).counts().rules, 0, "{text:?}");
    }
    assert_eq!(matched(&RuleSet::empty(), "default", "api", &[]), MatchResult::UnknownNamespace);
    assert!(RuleSet::parse(&[], &FleetSecret::BUILT_IN).is_ok());
}

#[test]
fn a_byte_order_mark_and_windows_line_ends_are_read() {
    let set =
        rules("\u{feff}namespace: api\r\nrules:\r\n  - name: r\r\n    key: []\r\n    limit: 1 per 1m\r\n");
    assert_eq!(ask(&set, &[]), ["r 1"]);
}

#[test]
fn an_override_ends_by_itself_and_the_next_best_takes_over() {
    let set = rules(
        "namespace: api\nrules: [{ name: r, key: [user], limit: 1 per 1m }]\noverrides:\n  \
         - { rule: r, user: u, limit: 5, until: 2026-01-01T00:00:00Z }\n  \
         - { rule: r, user: u, limit: 6, until: 2026-02-01T01:00:00+01:00 }\n  \
         - { rule: r, user: 'u*', limit: 7, until: 2026-03-01T00:00:00Z }\n  - { rule: r, user: '*', limit: 8 }",
    );
    let user = [("user", "u")];
    for (instant, expected) in [
        ("2025-12-31T23:59:59.999999999Z", "r 5"),
        ("2026-01-01T00:00:00Z", "r 6"),
        ("2026-01-31T23:59:59.999999999Z", "r 6"),
        ("2026-02-01T00:00:00Z", "r 7"),
        ("2026-03-01T00:00:00Z", "r 8"),
    ] {
        assert_eq!(said(&set, "api", &user, at(instant)), [expected], "{instant}");
    }
}

#[test]
fn an_override_changes_the_number_and_keeps_algorithm_and_period() {
    let set = rules(
        "namespace: api\nrules:\n  - { name: r, key: [user], limit: 1 per 60s, algorithm: fixed }\noverrides:\n  \
         - { rule: r, user: a, limit: 2 per 1m }\n  - { rule: r, user: b, limit: 3 per minute, hot: true }\n  \
         - { rule: r, user: '*', limit: 4 }",
    );
    let period = Period::new(Nanos::from_secs(60)).unwrap();
    for (user, expected) in [("a", 2), ("b", 3), ("c", 4)] {
        let limit = tidegate_core::Limit::new(expected).unwrap();
        assert_eq!(limited(&set, &[("user", user)]).1, Spec::Fixed { limit, period });
    }
}

#[test]
fn an_overrides_rate_brings_its_own_burst_and_a_burst_keeps_the_rate() {
    let set = rules(
        "namespace: api\nrules: [{ name: r, key: [user], rate: 100/s, burst: 500 }]\noverrides:\n  \
         - { rule: r, user: a, rate: 10/s }\n  - { rule: r, user: b, burst: 7 }\n  \
         - { rule: r, user: c, rate: 10/s, burst: 7 }\n  - { rule: r, user: d, limit: 0 }",
    );
    let said: Vec<_> = ["a", "b", "c", "d"].map(|user| limited(&set, &[("user", user)]).1).into();
    let gcra = |rate: u64, burst: u64| Spec::Gcra {
        rate: tidegate_core::Rate::new(rate, Nanos::from_secs(1)).unwrap(),
        burst: tidegate_core::Burst::new(burst).unwrap(),
    };
    assert_eq!(said, [gcra(10, 10), gcra(100, 7), gcra(10, 7), gcra(100, 0)]);
}

#[test]
fn more_rules_than_a_request_may_name_are_told() {
    let rule = |n: usize| format!("  - {{ name: r{n}, key: [], when: {{ a: '*' }}, limit: 1 per 1m }}\n");
    let set = rules(&format!("namespace: api\nrules:\n{}", (0..101).map(rule).collect::<String>()));
    let mut out = Matches::new();
    let attributes = Attributes(&[("a", "b")]);
    let outcome = set.matches("default", "api", attributes, at(reading::NOW), &mut out);
    assert_eq!((outcome, out.len()), (MatchResult::TooMany, 100));
}

#[test]
fn the_fingerprint_follows_the_text_and_not_the_files_names() {
    let print = |name: &str, text: &str| {
        RuleSet::parse(&[source(name, text)], &FleetSecret::BUILT_IN).unwrap().fingerprint()
    };
    assert_eq!(print("a", "namespace: api"), print("b", "namespace: api"));
    assert_ne!(print("a", "namespace: api"), print("a", "namespace: apj"));
}

#[test]
fn what_is_most_likely_not_meant_is_warned_of() {
    let set = rules(
        "namespace: api\nrules:\n  - { name: a, key: [user], rate: 100/s, burst: 5 }\n  \
         - { name: b, key: [user], limit: 10 per 10s, scope: world }\n  - { name: c, key: [user], limit: 0 per 1m }\n  \
         - { name: d, key: [user], when: { user: 'x*' }, limit: 1 per 1m }\noverrides:\n  \
         - { rule: b, user: u, limit: 1 }\n  - { rule: b, user: u, limit: 2 }\n  - { rule: d, user: y, limit: 2 }",
    );
    let warnings: Vec<String> = set.warnings().iter().map(ToString::to_string).collect();
    for (place, text) in [
        ("rules.yaml:3:", "less than one second"),
        ("rules.yaml:4:", "use quotas"),
        ("rules.yaml:5:", "blocks every caller"),
        ("rules.yaml:9:", "never applies: an earlier override"),
        ("rules.yaml:10:", "never applies: the rule's `when`"),
    ] {
        assert!(
            warnings.iter().any(|w| w.starts_with(place) && w.contains(text)),
            "{place} {text}: {warnings:#?}"
        );
    }
    assert_eq!(warnings.len(), 5);
}

#[test]
fn every_error_of_a_set_is_told_at_once_with_its_place() {
    let text = "namespace: api\nrules:\n  - name: a\n    key: [user]\n    limit: ten per minute\n    class: piad\n  \
                - name: b\n    key: [user]\n    limits: 3 per 1m\noverrides:\n  - { rule: c, limit: 0 }\n  - { rule: a, limit: 1 }\n";
    let errors: Vec<String> = parse(text).unwrap_err().iter().map(ToString::to_string).collect();
    assert_eq!(
        errors,
        [
            "rules.yaml:5:12: rules[0].limit: \"ten per minute\" isn't a limit; \
             write it as `10 per 1m` or `10/min`, or `1000 per month` for the calendar's",
            "rules.yaml:6:12: rules[0].class: \"piad\" isn't known here; did you mean `paid`? (paid, free, abuse)",
            "rules.yaml:7:5: rules[1].limit: a rule needs `limit` or `rate`; add `limit: 10 per 1m` or `rate: 100/s`",
            "rules.yaml:9:5: rules[1].limits: unknown field \"limits\"; did you mean `limit`?",
            "rules.yaml:11:13: overrides[0].rule: namespace \"api\" has no rule \"c\"; name a rule of the same namespace",
        ]
    );
}
