//! Which limit a descriptor meets: the matching scenarios of the peer, and where ours is meant to differ.

use crate::reading::{TREE, ask, domain, parse, parse_as, rules, said, source};
use tidegate_core::KeyId;
use tidegate_rules::Policy;
use tidegate_rules::envoy::{EnvoyRules, EnvoyUnit, RequestLimit, Windows, drop_replaced};

fn key(rules: &EnvoyRules, entries: &[(&str, &str)]) -> KeyId {
    rules.find("test-domain", entries, None).expect("a limit").key
}

#[test]
fn a_descriptor_meets_the_limit_where_it_ends() {
    let rules = rules(TREE);
    for (entries, expected) in [
        (&[][..], "none"),
        (&[("key1", "something")], "none"),
        (&[("key1", "value1")], "none"),
        (&[("key1", "value1"), ("subkey1", "any")], "5/second"),
        (&[("key1", "value1"), ("subkey1", "subvalue1")], "10/second"),
        (&[("key1", "value2"), ("subkey1", "subvalue1")], "none"),
        (&[("key2", "any")], "20/minute"),
        (&[("key2", "")], "20/minute"),
        (&[("key2", "value2")], "30/minute"),
        (&[("key2", "value3")], "none"),
        (&[("key2", "value2"), ("subkey", "subvalue")], "none"),
        (&[("key4", "any")], "1/day named key4_rate_limit"),
        (&[("key5", "value5")], "15/day"),
        (&[("key5", "value5"), ("subkey5", "wrong")], "none"),
        (&[("key5", "value5"), ("subkey5", "subvalue5")], "25/day"),
        (&[("key5", "value5"), ("subkey5", "subvalue5"), ("more", "x")], "none"),
        (&[("subkey5", "subvalue5"), ("key5", "value5")], "none"),
        (&[("key6", "any")], "unlimited"),
        (&[("nothing", "any")], "none"),
    ] {
        assert_eq!(ask(&rules, entries), expected, "{entries:?}");
    }
    assert!(rules.find("unknown", &[("key2", "any")], None).is_none());
    assert_eq!((rules.limit_count(), rules.domain_names().collect::<Vec<_>>()), (8, vec!["test-domain"]));
    assert!(rules.warnings().is_empty());
}

#[test]
fn a_limit_of_the_request_wins_in_a_known_domain() {
    let rules = rules(TREE);
    let given = RequestLimit::new(10, EnvoyUnit::Day, 1);
    for entries in [&[("key1", "value1")][..], &[("key2", "value2")], &[("key6", "x")], &[("nothing", "x")]] {
        let found = rules.find("test-domain", entries, given);
        assert_eq!(said(found.as_ref()), "given 10 per 86400 s", "{entries:?}");
    }
    assert!(rules.find("unknown", &[("key2", "any")], given).is_none());
    // The same unit is the same counter, whoever says how much of it; another unit is another one.
    let entries = [("key5", "value5")];
    let given_key =
        |unit| rules.find("test-domain", &entries, RequestLimit::new(1, unit, 1)).expect("a limit").key;
    assert_eq!(given_key(EnvoyUnit::Day), key(&rules, &entries));
    assert_ne!(given_key(EnvoyUnit::Hour), key(&rules, &entries));
}

#[test]
fn a_limit_of_several_units_has_a_window_and_a_counter_of_its_own() {
    let rules = rules(TREE);
    let entries = [("key5", "value5")];
    let find = |unit, multiplier| {
        rules.find("test-domain", &entries, RequestLimit::new(10, unit, multiplier)).expect("a limit")
    };
    let two_days = find(EnvoyUnit::Day, 2);
    assert_eq!(said(Some(&two_days)), "given 10 per 172800 s");
    let keys = [two_days.key, find(EnvoyUnit::Day, 1).key, find(EnvoyUnit::Day, 3).key];
    assert!(keys[0] != keys[1] && keys[0] != keys[2] && keys[1] != keys[2]);
    assert_eq!(RequestLimit::new(10, EnvoyUnit::Year, 2), None, "longer than a window may be");
    assert_eq!(RequestLimit::new(10, EnvoyUnit::Second, 0), None, "no window");
}

#[test]
fn a_wildcard_stands_for_any_run_of_characters() {
    let limit = "rate_limit: { unit: minute, requests_per_unit";
    let rules = domain(&[
        &format!("key: wild, value: foo*, {limit}: 20 }}"),
        &format!("key: noWild, value: foo, {limit}: 20 }}"),
        &format!("key: midWild, value: bar*b, {limit}: 20 }}"),
        &format!("key: multiWild, value: foo*bar*baz, {limit}: 10 }}"),
        &format!("key: nestedWild, value: val1, descriptors: [{{ key: wild, value: goo*, {limit}: 20 }} }}]"),
    ]);
    for (key, value, matches) in [
        ("wild", "foo1", true),
        ("wild", "foo", true),
        ("wild", "bar", false),
        ("wild", "", false),
        ("noWild", "foo", true),
        ("noWild", "foo1", false),
        ("midWild", "barab", true),
        ("midWild", "barb", true),
        ("midWild", "bara", false),
        ("midWild", "xbarb", false),
        ("midWild", "bab", false),
        ("multiWild", "foobarbaz", true),
        ("multiWild", "foo1bar2baz", true),
        ("multiWild", "foo123baz", false),
        ("multiWild", "fooba", false),
    ] {
        assert_eq!(ask(&rules, &[(key, value)]) != "none", matches, "{key} {value}");
    }
    assert_eq!(ask(&rules, &[("nestedWild", "val1"), ("wild", "goober")]), "20/minute");
    assert_eq!(ask(&rules, &[("nestedWild", "val1"), ("wild", "other")]), "none");
}

#[test]
fn the_exact_value_comes_first_then_wildcards_as_written_then_the_key() {
    let limit = |n: u32| format!("rate_limit: {{ unit: minute, requests_per_unit: {n} }}");
    let rules = domain(&[
        &format!("key: file, {}", limit(1)),
        &format!("key: file, value: test*, {}", limit(2)),
        &format!("key: file, value: te*, {}", limit(3)),
        &format!("key: file, value: testing*, {}", limit(4)),
        &format!("key: file, value: test1, {}", limit(5)),
        "key: file, value: tea*",
        &format!("key: file, value: \"*\\u00e9\", {}", limit(6)),
    ]);
    for (value, expected) in [
        ("test1", "5/minute"),
        ("test12", "2/minute"),
        ("testing1", "2/minute"),
        ("tell", "3/minute"),
        ("tear", "3/minute"),
        ("caf\u{e9}", "6/minute"),
        ("other", "1/minute"),
        // The text of a pattern is a value like any other, and found before all patterns.
        ("testing*", "4/minute"),
    ] {
        assert_eq!(ask(&rules, &[("file", value)]), expected, "{value}");
    }
}

#[test]
fn a_wildcard_in_a_key_means_what_it_means_there() {
    let rules = domain(&[
        "key: \"head*\", rate_limit: { unit: hour, requests_per_unit: 1 }",
        "key: \"x*\", value: y, rate_limit: { unit: hour, requests_per_unit: 2 }",
    ]);
    assert_eq!(ask(&rules, &[("header", "any")]), "1/hour");
    assert_eq!(ask(&rules, &[("xa", "y")]), "2/hour");
    assert_eq!(ask(&rules, &[("xa", "z")]), "none");
    assert_eq!(ask(&rules, &[("body", "any")]), "none");
}

#[test]
fn keys_and_values_are_never_joined() {
    let rules = domain(&[
        "key: a_b, value: c, rate_limit: { unit: hour, requests_per_unit: 1 }",
        "key: a, value: b_c, rate_limit: { unit: hour, requests_per_unit: 2 }",
        "key: d, rate_limit: { unit: hour, requests_per_unit: 3 }",
        "key: d, descriptors: [{ key: e, rate_limit: { unit: hour, requests_per_unit: 4 } }], value: x",
    ]);
    assert_eq!(ask(&rules, &[("a_b", "c")]), "1/hour");
    assert_eq!(ask(&rules, &[("a", "b_c")]), "2/hour");
    assert_ne!(key(&rules, &[("a_b", "c")]), key(&rules, &[("a", "b_c")]));
    assert_ne!(key(&rules, &[("d", "1_")]), key(&rules, &[("d", "1")]));
    assert_ne!(key(&rules, &[("d", "x"), ("e", "y")]), key(&rules, &[("d", "x_e_y")]));
}

#[test]
fn values_share_a_counter_only_where_the_file_says_so() {
    let limit = "rate_limit: { unit: hour, requests_per_unit: 10 }";
    let rules = domain(&[
        &format!("key: files, value: files/*, share_threshold: true, {limit}"),
        &format!("key: apart, value: files/*, {limit}"),
        &format!("key: bare, {limit}"),
        &format!(
            "key: top, value: t*, share_threshold: true, descriptors: [{{ key: sub, value: s*, {limit} }}]"
        ),
    ]);
    let same = |a: &[(&str, &str)], b: &[(&str, &str)]| key(&rules, a) == key(&rules, b);
    assert!(same(&[("files", "files/a.pdf")], &[("files", "files/b.csv")]));
    assert!(!same(&[("apart", "files/a.pdf")], &[("apart", "files/b.csv")]));
    assert!(!same(&[("bare", "a")], &[("bare", "b")]));
    assert!(same(&[("top", "t1"), ("sub", "s1")], &[("top", "t2"), ("sub", "s1")]));
    assert!(!same(&[("top", "t1"), ("sub", "s1")], &[("top", "t1"), ("sub", "s2")]));
    let found = rules.find("test-domain", &[("top", "t1"), ("sub", "s1")], None).expect("a limit");
    assert_eq!(found.parts().collect::<Vec<_>>(), [("top", "t*"), ("sub", "s1")]);
}

#[test]
fn domains_of_several_files_and_documents_are_apart() {
    let one = "domain: a\ndescriptors: [{ key: k, rate_limit: { unit: week, requests_per_unit: 1 } }]\n";
    let two = "---\ndomain: b\ndescriptors: [{ key: k, rate_limit: { unit: year, requests_per_unit: 2 } }]\n\
               ---\ndomain: c\n---\n";
    let rules = parse(&[source("a.yaml", one), source("b.yaml", two)]).unwrap();
    let ask = |domain: &str| said(rules.find(domain, &[("k", "v")], None).as_ref());
    assert_eq!(["a", "b", "c", "d"].map(ask), ["1/week", "2/year", "none", "none"]);
}

#[test]
fn flags_are_read_and_a_limit_of_the_request_has_none() {
    let rules = domain(&[
        "key: s, shadow_mode: yes, rate_limit: { unit: month, requests_per_unit: 1_000 }",
        "key: q, quota_mode: true, shadow_mode: off, rate_limit: { unit: month, requests_per_unit: 4294967295 }",
    ]);
    assert_eq!(ask(&rules, &[("s", "x")]), "1000/month shadow");
    assert_eq!(ask(&rules, &[("q", "x")]), "4294967295/month quota");
    let given = RequestLimit::new(1, EnvoyUnit::Second, 1);
    let found = rules.find("test-domain", &[("s", "x")], given).expect("a limit");
    assert!(!found.is_shadow());
    let rule = rules
        .find("test-domain", &[("s", "x")], None)
        .and_then(|found| found.limit)
        .map(|limit| &limit.rule)
        .unwrap();
    assert_eq!(
        (&*rule.name, &*rule.namespace, rule.shadow, rule.declared.line),
        ("s", "test-domain", true, 3)
    );
}

#[test]
fn windows_are_fixed_unless_sliding_ones_are_asked_for() {
    let file = [source("a.yaml", TREE)];
    let policy = |windows| {
        let rules = parse_as(&file, windows).unwrap();
        let found = rules.find("test-domain", &[("key2", "x")], None).expect("a limit");
        (found.policy.expect("a policy"), found.key)
    };
    let (fixed, fixed_key) = policy(Windows::Fixed);
    let (sliding, sliding_key) = policy(Windows::Sliding);
    assert!(
        matches!(fixed, Policy::Fixed { limit, period } if limit.get() == 20 && period.get() == 60_000_000_000)
    );
    assert!(matches!(sliding, Policy::Sliding { limit, .. } if limit.get() == 20));
    assert_ne!(fixed_key, sliding_key);
}

#[test]
fn a_replaced_limit_is_as_if_it_wasnt_met() {
    let rules = domain(&[
        "key: a, rate_limit: { unit: minute, requests_per_unit: 1, name: a, replaces: [{ name: b }] }",
        "key: b, rate_limit: { unit: minute, requests_per_unit: 2, name: b, replaces: [{ name: c }] }",
        "key: c, rate_limit: { unit: minute, requests_per_unit: 3, name: c }",
        "key: free, rate_limit: { unlimited: true, name: d, replaces: [{ name: a }, { name: c }, { name: e }] }",
        "key: free2, rate_limit: { unlimited: true, name: e }",
        "key: plain, rate_limit: { unit: minute, requests_per_unit: 4 }",
    ]);
    let left = |keys: &[&str]| -> Vec<String> {
        let entries: Vec<[(&str, &str); 1]> = keys.iter().map(|key| [(*key, "x")]).collect();
        let mut matches: Vec<_> =
            entries.iter().map(|entries| rules.find("test-domain", entries, None)).collect();
        drop_replaced(&mut matches);
        matches.iter().map(|found| said(found.as_ref()).split(' ').next().unwrap().to_owned()).collect()
    };
    assert_eq!(left(&["c", "plain"]), ["3/minute", "4/minute"]);
    assert_eq!(left(&["c", "b"]), ["none", "2/minute"]);
    assert_eq!(left(&["a", "b", "c"]), ["1/minute", "none", "none"], "what is replaced still replaces");
    assert_eq!(left(&["free", "a", "c", "free2"]), ["unlimited", "none", "none", "unlimited"]);
    assert_eq!(left(&["nothing", "a"]), ["none", "1/minute"]);
}
