//! Wrong files: each is refused whole, with the place, what is wrong, and what to do.

use crate::reading::{parse, source};

/// A descriptor of these fields, on line 3.
fn descriptor(fields: &str) -> String {
    format!("domain: d\ndescriptors:\n  - {{ {fields} }}\n")
}

/// A limit of these fields, in a descriptor that is right.
fn limit(fields: &str) -> String {
    descriptor(&format!("key: k, rate_limit: {{ {fields} }}"))
}

fn nested(levels: usize) -> String {
    let mut text = "domain: d\n".to_owned();
    for level in 0..levels {
        let indent = "  ".repeat(level);
        text += &format!("{indent}descriptors:\n{indent}- key: k\n");
    }
    text
}

/// The file, and the whole of its first error after the file's name.
fn cases() -> Vec<(String, &'static str)> {
    vec![
        ("descriptors: []\n".into(), "1:1: domain: a domain can't be empty; write `domain: edge`, the one that Envoy's filter is configured with"),
        ("domain: ''\n".into(), "1:9: domain: a domain can't be empty; write `domain: edge`, the one that Envoy's filter is configured with"),
        ("descriptors: []\ndomain:\n".into(), "2:7: domain: a domain can't be empty; write `domain: edge`, the one that Envoy's filter is configured with"),
        ("domain: [a]\n".into(), "1:9: domain: expected a single value, found a list; give one value, in quotes if it is empty"),
        (format!("domain: {}\n", "d".repeat(129)), "1:9: domain: \"dddddddddddddddddddddddddddddddddddddddd\"… (129 bytes) is too long; use at most 128 characters"),
        ("domain: d\n---\ndomain: d\n".into(), "3:9: domain: the domain \"d\" exists already, at config.yaml:1; put all descriptors of a domain into one document"),
        ("domain: d\ndomain: e\n".into(), "2:1: domain: \"domain\" is given twice, first on line 1; keep one of the two"),
        ("- domain: d\n".into(), "1:1: document: expected fields, found a list; write it as `domain: edge` with `descriptors:` below it"),
        ("".into(), "1:1: document: there is nothing in it; write at least `domain: edge`"),
        ("# nothing\n---\n".into(), "1:1: document: there is nothing in it; write at least `domain: edge`"),
        ("domain: d\nratelimits: []\n".into(), "2:1: ratelimits: unknown field \"ratelimits\"; did you mean `rate_limit`?"),
        ("0.25: d\n".into(), "1:1: 0.25: unknown field \"0.25\"; use one of: domain, descriptors"),
        ("domain: d\ndescriptors: 7\n".into(), "2:14: descriptors: expected a list, found a single value; write it as `- ` entries, such as `- key: user` with `rate_limit:` below it"),
        ("domain: d\ndescriptors:\n  - a\n  - b\n".into(), "3:5: descriptors[0]: expected fields, found a single value; write it as `- key: user` with `rate_limit:` below it"),
        ("domain: d\ndescriptors:\n  - value: v\n".into(), "3:5: descriptors[0].key: a descriptor's key can't be empty; add `key: user`, the key of an entry that Envoy sends"),
        ("domain: d\ndescriptors:\n  - key: ''\n".into(), "3:10: descriptors[0].key: a descriptor's key can't be empty; add `key: user`, the key of an entry that Envoy sends"),
        ("domain: d\ndescriptors:\n  - key: k\n  - key: k\n".into(), "4:5: descriptors[1]: the key \"k\" is given twice, first on line 3; keep one of the two"),
        ("domain: d\ndescriptors:\n  - key: k\n    descriptors:\n      - { key: a, value: b }\n      - { value: b, key: a }\n".into(), "6:9: descriptors[0].descriptors[1]: the key \"a\" with value \"b\" is given twice, first on line 5; keep one of the two"),
        (descriptor("key: k, ratelimit: { unit: day }"), "3:15: descriptors[0].ratelimit: unknown field \"ratelimit\"; did you mean `rate_limit`?"),
        (descriptor("key: [k]"), "3:12: descriptors[0].key: expected a single value, found a list; give one value, in quotes if it is empty"),
        (descriptor("key: k, value: { a: b }"), "3:22: descriptors[0].value: expected a single value, found a map; give one value, in quotes if it is empty"),
        (descriptor("key: k, rate_limit: 10"), "3:27: descriptors[0].rate_limit: expected fields, found a single value; write it as `{ unit: minute, requests_per_unit: 100 }`"),
        (descriptor("key: k, shadow_mode: maybe"), "3:28: descriptors[0].shadow_mode: \"maybe\" is neither true nor false; write `true` or `false`"),
        (descriptor("key: k, value: v, share_threshold: true"), "3:42: descriptors[0].share_threshold: `share_threshold` needs a `*` in the value, found \"v\"; write the value as a pattern, such as \"files/*\", or remove `share_threshold`"),
        (descriptor("key: k, metadata: text"), "3:25: descriptors[0].metadata: expected a map, found a single value; write it as `{ name: value }`, or remove it"),
        (limit("requests_per_unit: 1"), "3:27: descriptors[0].rate_limit.unit: `unit` is missing; use one of: second, minute, hour, day, week, month, year"),
        (limit("unit: minutes, requests_per_unit: 1"), "3:35: descriptors[0].rate_limit.unit: \"minutes\" isn't a unit; did you mean `minute`?"),
        (limit("unit: unknown, requests_per_unit: 1"), "3:35: descriptors[0].rate_limit.unit: \"unknown\" isn't a unit; use one of: second, minute, hour, day, week, month, year"),
        (limit("unlimited: true, unit: day"), "3:52: descriptors[0].rate_limit.unit: a limit has no `unit` when it is `unlimited`; remove one of the two"),
        (limit("unit: day, requests_per_unit: -1"), "3:59: descriptors[0].rate_limit.requests_per_unit: \"-1\" isn't a whole number; write a whole number from 0 to 4294967295 (2^32 - 1), such as 100"),
        (limit("unit: day, requests_per_unit: 1.5"), "3:59: descriptors[0].rate_limit.requests_per_unit: \"1.5\" isn't a whole number; write a whole number from 0 to 4294967295 (2^32 - 1), such as 100"),
        (limit("unit: day, requests_per_unit: 4294967296"), "3:59: descriptors[0].rate_limit.requests_per_unit: \"4294967296\" is too large; write a whole number from 0 to 4294967295 (2^32 - 1), such as 100"),
        (limit("unit: day, requests_per_unit: 010"), "3:59: descriptors[0].rate_limit.requests_per_unit: \"010\" means an octal number there; write it without the leading 0, in decimal"),
        (limit("unit: day, requests_per_units: 1"), "3:40: descriptors[0].rate_limit.requests_per_units: unknown field \"requests_per_units\"; did you mean `requests_per_unit`?"),
        (limit("unit: day, requests_per_unit: 1, replaces: [{ name: }]"), "3:79: descriptors[0].rate_limit.replaces[0].name: the limit to replace has no name; add `name:` with the name of another limit"),
        (limit("unit: day, requests_per_unit: 1, replaces: [{}]"), "3:73: descriptors[0].rate_limit.replaces[0].name: the limit to replace has no name; add `name:` with the name of another limit"),
        (limit("unit: day, requests_per_unit: 1, name: me, replaces: [{ name: me }]"), "3:91: descriptors[0].rate_limit.replaces[0].name: a limit can't replace itself; name another limit, or remove it"),
        (limit("unit: day, requests_per_unit: 1, replaces: [me]"), "3:73: descriptors[0].rate_limit.replaces[0]: expected fields, found a single value; write it as `- name: banned`"),
        ("domain: d\ndescriptors: &all\n  - key: k\n    descriptors: *all\n".into(), "4:18: descriptors[0].descriptors: YAML aliases aren't allowed in rules; write the value out, or put a pattern in quotes: \"*\""),
        ("domain: d\n\tdescriptors: []\n".into(), "2:1: domain: this isn't valid YAML: while scanning a plain scalar, found a tab; indent with spaces, not tabs"),
    ]
}

#[test]
fn every_wrong_file_is_refused_with_its_place_and_a_remedy() {
    let cases = cases();
    assert!(cases.len() >= 25);
    let mut wrong = Vec::new();
    for (text, expected) in cases {
        let errors = match parse(&[source("config.yaml", &text)]) {
            Ok(_) => panic!("this was accepted:\n{text}"),
            Err(errors) => errors,
        };
        let first = errors.iter().next().expect("an error").to_string();
        if first != format!("config.yaml:{expected}") {
            wrong.push(format!("{first}\n  expected {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn descriptors_are_at_most_16_levels_deep() {
    assert!(parse(&[source("config.yaml", nested(16))]).is_ok());
    let errors = parse(&[source("config.yaml", nested(17))]).unwrap_err();
    let error = errors.iter().next().expect("an error");
    assert_eq!((error.line, error.column), (35, 35));
    assert_eq!(error.message, "descriptors are nested more than 16 levels deep");
    let far_too_deep = parse(&[source("config.yaml", nested(1000))]).unwrap_err();
    assert!(far_too_deep.to_string().contains("nest at most 64 levels"), "{far_too_deep}");
}

#[test]
fn all_mistakes_are_told_together_in_the_order_of_the_files() {
    let one = "domain: a\ndescriptors:\n  - { value: x }\n  - { key: k, rate_limit: { unit: eon, requests_per_unit: x } }\n";
    let two = "domain: a\ndescriptors: x\n";
    let errors = parse(&[source("z.yaml", one), source("a.yaml", two)]).unwrap_err();
    let places: Vec<String> = errors.iter().map(|e| format!("{}:{} {}", e.file, e.line, e.field)).collect();
    let expected = [
        "z.yaml:3 descriptors[0].key",
        "z.yaml:4 descriptors[1].rate_limit.unit",
        "z.yaml:4 descriptors[1].rate_limit.requests_per_unit",
        "a.yaml:1 domain",
        "a.yaml:2 descriptors",
    ];
    assert_eq!(places, expected);
}

#[test]
fn what_does_nothing_is_read_and_warned_of() {
    let warnings = |text: String| -> Vec<String> {
        let rules = parse(&[source("config.yaml", &text)]).unwrap_or_else(|errors| panic!("{errors}"));
        rules.warnings().iter().map(ToString::to_string).collect()
    };
    assert_eq!(
        warnings(limit("unit: day, requests_per_unit: 1, shadow_mode: true")),
        [
            "config.yaml:3:75: descriptors[0].rate_limit.shadow_mode: does nothing here; it belongs beside the `rate_limit`"
        ]
    );
    assert_eq!(
        warnings(descriptor("key: k, name: n, metadata: { a: [1, { b: c }] }")),
        [
            "config.yaml:3:21: descriptors[0].name: does nothing here; it belongs into the `rate_limit`",
            "config.yaml:3:34: descriptors[0].metadata: is read and not passed on: answers carry no metadata yet",
        ]
    );
    assert_eq!(
        warnings(limit("unit: day")),
        [
            "config.yaml:3:27: descriptors[0].rate_limit: `requests_per_unit` is missing, and so 0: it blocks every caller that it matches"
        ]
    );
    assert_eq!(
        warnings(limit("unlimited: true, requests_per_unit: 5, replaces: [{ name: nobody }]")),
        [
            "config.yaml:3:65: descriptors[0].rate_limit.requests_per_unit: does nothing: the limit is `unlimited`",
            "config.yaml:3:79: descriptors[0].rate_limit.replaces[0]: replaces nothing: no limit of this domain is named \"nobody\"",
        ]
    );
}
