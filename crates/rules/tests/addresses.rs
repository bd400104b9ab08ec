//! Addresses in requests: every spelling of one is one caller, and what isn't an address escapes no rule.

mod reading;

use reading::{NOW, ask, at, limited, rules};
use tidegate_rules::{Attributes, Effect, Matches, RuleSet, identifier_text};

const MALFORMED: [&str; 7] =
    ["6.6.6.6, 7.7.7.7", "garbage", "", "1.2.3.4:99999", "[::1", "malformed", "1.2.3.4 "];

fn key(set: &RuleSet, ip: &str) -> u128 {
    limited(set, &[("ip", ip)]).0
}

#[test]
fn spellings_of_an_address_are_one_caller_with_and_without_a_prefix() {
    for part in ["ip", "ip/64", "ip/128"] {
        let set = rules(&format!("namespace: api\nrules: [{{ name: r, key: [{part}], limit: 1 per 1m }}]"));
        for spelling in ["1.2.3.4:5000", "::ffff:1.2.3.4", "[::ffff:1.2.3.4]:80"] {
            assert_eq!(key(&set, spelling), key(&set, "1.2.3.4"), "{part} {spelling}");
        }
        for spelling in ["::0001", "0:0:0:0:0:0:0:1", "[::1]", "[::1]:443", "::1%lo", "[::1%25lo]:443"] {
            assert_eq!(key(&set, spelling), key(&set, "::1"), "{part} {spelling}");
        }
        assert_ne!(key(&set, "1.2.3.4"), key(&set, "1.2.3.5"));
    }
}

#[test]
fn an_address_as_it_is_mostly_written_keeps_its_counter() {
    let text = |name| format!("namespace: api\nrules: [{{ name: r, key: [{name}], limit: 1 per 1m }}]");
    let (typed, untyped) = (rules(&text("ip")), rules(&text("client")));
    for address in ["1.2.3.4", "2001:db8::1"] {
        assert_eq!(limited(&typed, &[("ip", address)]).0, limited(&untyped, &[("client", address)]).0);
    }
}

#[test]
fn malformed_values_share_one_counter() {
    for part in ["ip", "ip/64"] {
        let set = rules(&format!("namespace: api\nrules: [{{ name: r, key: [{part}], limit: 1 per 1m }}]"));
        let shared = key(&set, "garbage");
        for value in MALFORMED {
            assert_eq!(key(&set, value), shared, "{part} {value}");
            let mut out = Matches::new();
            set.matches("default", "api", Attributes(&[("ip", value)]), at(NOW), &mut out);
            assert!(out[0].malformed, "{value}");
            assert_eq!(out[0].rule.malformed(Attributes(&[("ip", value)])), Some("ip"));
            assert_eq!(identifier_text(out[0].rule, Attributes(&[("ip", value)])), "malformed");
        }
        assert_ne!(key(&set, "1.2.3.4"), shared);
        assert!(ask(&set, &[]).is_empty(), "absent isn't malformed");
    }
}

#[test]
fn a_malformed_value_is_denied_by_class_abuse_and_where_the_attribute_is_wanted() {
    for options in ["class: abuse", "on_missing: deny"] {
        for fields in ["key: [ip/64]", "key: [ip]", "key: [], when: { ip: [0.0.0.0/0, '::/0'] }"] {
            let set = rules(&format!(
                "namespace: api\nrules: [{{ name: r, {fields}, limit: 0 per 1m, {options} }}]"
            ));
            for value in MALFORMED {
                assert_eq!(ask(&set, &[("ip", value)]), ["r malformed ip"], "{options} {fields} {value}");
            }
            assert_eq!(ask(&set, &[("ip", "1.2.3.4:5000")]), ["r 0"]);
        }
    }
}

#[test]
fn a_malformed_value_doesnt_escape_a_condition_on_networks() {
    let set = rules(
        "namespace: api\nrules:\n\
         - { name: outside, key: [user], when: { ip: [203.0.113.0/24] }, limit: 5 per 1m }\n\
         - { name: plan, key: [user], when: { ip: [203.0.113.0/24], plan: free }, limit: 6 per 1m }",
    );
    let asked = |ip, plan| ask(&set, &[("user", "a"), ("plan", plan), ("ip", ip)]);
    assert_eq!(asked("203.0.113.9:80", "free"), ["outside 5", "plan 6"]);
    assert!(asked("198.51.100.1:80", "free").is_empty());
    assert_eq!(asked("203.0.113.9, 10.0.0.1", "free"), ["outside 5", "plan 6"]);
    assert_eq!(asked("garbage", "paid"), ["outside 5"], "what is there and differs outweighs it");
}

#[test]
fn a_text_that_a_condition_names_isnt_malformed_for_it() {
    let set = rules(
        "namespace: api\nrules: [{ name: r, key: [], when: { ip: [unknown, 10.0.0.0/8] }, limit: 5 per 1m, class: abuse }]",
    );
    assert_eq!(ask(&set, &[("ip", "unknown")]), ["r 5"]);
    assert_eq!(ask(&set, &[("ip", "other")]), ["r malformed ip"]);
}

#[test]
fn an_attribute_that_rules_use_as_an_address_is_one_for_all_rules_of_the_namespace() {
    let set = rules(
        "namespace: api\nplace_by: client\nrules:\n- { name: a, key: [client], limit: 5 per 1m }\n\
         - { name: b, key: [], when: { client: 10.0.0.0/8 }, limit: 6 per 1m }",
    );
    let keys = |client: &str| {
        let mut out = Matches::new();
        set.matches("default", "api", Attributes(&[("client", client)]), at(NOW), &mut out);
        out.iter().filter_map(|found| found.key()).collect::<Vec<_>>()
    };
    assert_eq!(keys("10.0.0.1:1"), keys("10.0.0.1"));
    assert_eq!(keys("garbage"), keys("other garbage"), "one place, and one counter in it");
    assert!(matches!(keys("10.0.0.1").len(), 2));
}

#[test]
fn overrides_and_exact_conditions_see_the_canonical_address() {
    let set = rules(
        "namespace: api\nrules:\n- { name: r, key: [ip], limit: 1 per 1m }\n\
         - { name: one, key: [], when: { ip: '0:0::1' }, limit: 2 per 1m }\n\
         overrides:\n- { rule: r, ip: '0:0:0:0:0:0:0:1', limit: 9 }\n- { rule: r, ip: '10.*', limit: 8 }",
    );
    for spelling in ["::1", "[::0001]:80"] {
        assert_eq!(ask(&set, &[("ip", spelling)]), ["r 9", "one 2"], "{spelling}");
    }
    assert_eq!(ask(&set, &[("ip", "::ffff:10.0.0.1")]), ["r 8"]);
}

#[test]
fn an_attribute_called_ip_may_be_any_text_where_the_namespace_says_so() {
    let set =
        rules("namespace: api\nnormalize: { ip: text }\nrules: [{ name: r, key: [ip], limit: 1 per 1m }]");
    assert_ne!(key(&set, "a1b2"), key(&set, "c3d4"));
    assert!(set.warnings().is_empty(), "{:?}", set.warnings());
}

#[test]
fn an_address_key_that_skips_what_lacks_it_is_warned_of() {
    let warnings = |rule: &str| {
        let set = rules(&format!("namespace: api\nrules: [{{ name: r, limit: 1 per 1m, {rule} }}]"));
        set.warnings().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    for rule in ["key: [ip]", "key: [ip/64]", "key: [client/56]"] {
        let [warning] = &*warnings(rule) else { panic!("{rule}") };
        assert!(warning.starts_with("rules.yaml:2:9: rules[0]: a request without"), "{warning}");
        assert!(warning.contains("on_missing: deny"), "{warning}");
    }
    for rule in ["key: [user]", "key: [ip], on_missing: deny", "key: [ip/64], on_missing: skip"] {
        assert!(warnings(rule).is_empty(), "{rule}");
    }
}

#[test]
fn effects_of_malformed_values_name_the_attribute() {
    let set = rules("namespace: api\nrules: [{ name: r, key: [client/64], limit: 1 per 1m, class: abuse }]");
    let mut out = Matches::new();
    set.matches("default", "api", Attributes(&[("client", "x")]), at(NOW), &mut out);
    assert_eq!(out[0].effect, Effect::MissingDenied { attribute: "client", is_malformed: true });
}
