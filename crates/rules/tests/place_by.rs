//! `place_by`: the keys of one request are kept together, and stay apart from each other.

mod reading;

use reading::{NOW, ask, at, limited, parse, rules, source};
use tidegate_core::{FleetSecret, KeyId};
use tidegate_rules::{Attributes, Matches, RuleSet};

const RULES: &str = "rules:
  - { name: per-user, key: [user], rate: 5/s }
  - { name: per-org, key: [org], limit: 5 per 1h }
  - { name: both, key: [org, user], limit: 9 per month }
overrides:
  - { rule: per-user, user: vip, rate: 7/s }
  - { rule: per-org, org: free-for-all, unlimited: true }
";

fn placed() -> RuleSet {
    rules(&format!("namespace: api\nplace_by: org\n{RULES}"))
}

fn unplaced() -> RuleSet {
    rules(&format!("namespace: api\n{RULES}"))
}

fn keys_of(set: &RuleSet, tenant: &str, namespace: &str, attributes: &[(&str, &str)]) -> Vec<KeyId> {
    let mut out = Matches::new();
    set.matches(tenant, namespace, Attributes(attributes), at(NOW), &mut out);
    out.iter().filter_map(tidegate_rules::Match::key).collect()
}

fn keys(set: &RuleSet, attributes: &[(&str, &str)]) -> Vec<KeyId> {
    keys_of(set, "default", "api", attributes)
}

/// The place that all keys share.
fn place(keys: &[KeyId]) -> u32 {
    assert!(keys.iter().all(|key| key.place() == keys[0].place()), "{keys:?}");
    keys[0].place()
}

#[test]
fn the_keys_of_a_request_share_a_place_and_nothing_else() {
    let keys = keys(&placed(), &[("user", "42"), ("org", "acme")]);
    assert_eq!(keys.len(), 3);
    place(&keys);
    for (index, key) in keys.iter().enumerate() {
        assert!(!keys[index + 1..].contains(key), "{keys:?}");
    }
}

#[test]
fn all_requests_of_an_org_meet_in_one_place_and_orgs_spread() {
    let set = placed();
    let of = |user: &str, org: &str| place(&keys(&set, &[("user", user), ("org", org)]));
    assert_eq!(of("1", "acme"), of("2", "acme"));
    let places: std::collections::BTreeSet<u32> =
        (0..100).map(|org| of("1", &format!("org-{org}"))).collect();
    assert_eq!(places.len(), 100);
}

#[test]
fn only_the_place_differs_from_a_key_that_is_not_placed() {
    let attributes = [("user", "42"), ("org", "acme")];
    let (with, without) = (keys(&placed(), &attributes), keys(&unplaced(), &attributes));
    assert_ne!(with, without);
    let back: Vec<KeyId> = with.iter().zip(&without).map(|(key, own)| key.placed(own.place())).collect();
    assert_eq!(back, without);
}

#[test]
fn a_request_without_the_attribute_keeps_its_keys_own_places() {
    let attributes = [("user", "42")];
    assert_eq!(keys(&placed(), &attributes), keys(&unplaced(), &attributes));
    assert_eq!(limited(&placed(), &attributes).0, limited(&unplaced(), &attributes).0);
}

#[test]
fn an_empty_value_is_a_value_with_a_place() {
    let attributes = [("user", "42"), ("org", "")];
    place(&keys(&placed(), &attributes));
    assert_ne!(keys(&placed(), &attributes), keys(&unplaced(), &attributes));
}

#[test]
fn overrides_are_found_as_without_it() {
    for attributes in [[("user", "vip"), ("org", "acme")], [("user", "42"), ("org", "free-for-all")]] {
        assert_eq!(ask(&placed(), &attributes), ask(&unplaced(), &attributes));
    }
    let keys = keys(&placed(), &[("user", "42"), ("org", "free-for-all")]);
    assert_eq!(keys.len(), 3, "an unlimited caller's key is placed too");
    place(&keys);
}

#[test]
fn tenant_namespace_attribute_and_secret_each_make_other_places() {
    let text = |tenant: &str, namespace: &str, attribute: &str| {
        format!("tenant: {tenant}\nnamespace: {namespace}\nplace_by: {attribute}\n{RULES}")
    };
    let placed = |secret: &FleetSecret, tenant: &str, namespace: &str, attribute: &str| {
        let sources = [source("rules.yaml", text(tenant, namespace, attribute))];
        let set = RuleSet::parse(&sources, secret).unwrap();
        place(&keys_of(&set, tenant, namespace, &[("user", "x"), ("org", "x")]))
    };
    let other = FleetSecret::from_bytes(b"another fleet's secret");
    let places = [
        placed(&FleetSecret::BUILT_IN, "default", "api", "org"),
        placed(&FleetSecret::BUILT_IN, "acme", "api", "org"),
        placed(&FleetSecret::BUILT_IN, "default", "web", "org"),
        placed(&FleetSecret::BUILT_IN, "default", "api", "user"),
        placed(&other, "default", "api", "org"),
    ];
    for (index, place) in places.iter().enumerate() {
        assert!(!places[index + 1..].contains(place), "{places:?}");
    }
}

#[test]
fn it_may_stand_in_any_document_of_its_namespace() {
    let sources = [
        source("a.yaml", format!("namespace: api\n{RULES}")),
        source("b.yaml", "namespace: api\nplace_by: org\n---\nnamespace: api\nplace_by: org"),
    ];
    let set = RuleSet::parse(&sources, &FleetSecret::BUILT_IN).unwrap();
    let attributes = [("user", "42"), ("org", "acme")];
    assert_eq!(keys(&set, &attributes), keys(&placed(), &attributes));
}

#[test]
fn the_description_says_what_it_splits() {
    let text = placed().describe(at(NOW)).to_string();
    for line in [
        "namespace api, tenant default, keys placed by org\n",
        "per-user: 5 per second on average, at most 5 at once, for each user, apart for each org;",
        "per-org: about 5 over a sliding 1 hour, for each org;",
        "both: at most 9 per calendar month in UTC (resets on the 1st), for each org and user\n",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

#[test]
fn a_shared_limit_that_it_splits_is_warned_of() {
    let set = rules(
        "namespace: api\nrules:\n  - { name: all, key: [], limit: 5 per 1h }\n  \
         - { name: network, key: [ip/64], limit: 5 per 1h, on_missing: skip }\n  - { name: one, key: [ip], limit: 5 per 1h, on_missing: skip }\n  \
         - { name: user, key: [user], limit: 5 per 1h }\n---\nnamespace: api\nplace_by: ip",
    );
    let warnings: Vec<String> = set.warnings().iter().map(ToString::to_string).collect();
    let said = "`place_by: ip` makes this a limit for each single ip; \
                if it is to be shared, put the rule into a namespace of its own";
    assert_eq!(
        warnings,
        [format!("rules.yaml:3:5: rules[0]: {said}"), format!("rules.yaml:4:5: rules[1]: {said}")]
    );
}

#[test]
fn a_wrong_one_is_refused_with_its_place_and_remedy() {
    let name = "use 1 to 64 of letters, digits, `_`, `.` and `-`";
    let value = "give one value, in quotes if it is empty";
    let long = "o".repeat(65);
    for (text, place, remedy) in [
        ("place_by: ''", "2:11: place_by", name),
        ("place_by: ip/64", "2:11: place_by", name),
        ("place_by: größe", "2:11: place_by", name),
        ("place_by:", "2:9: place_by", value),
        ("place_by: { org: 1 }", "2:11: place_by", value),
        ("place_by: \"o\\0\"", "2:11: place_by", "remove it"),
        (&format!("place_by: {long}"), "2:11: place_by", "use at most 64 characters"),
        ("place_by: org\nplace_by: org", "3:1: place_by", "keep one"),
        ("placed_by: org", "2:1: placed_by", "did you mean `place_by`?"),
        (
            "place_by: org\n---\nnamespace: api\nplace_by: user",
            "5:11: place_by",
            "differs from what rules.yaml:2 says",
        ),
    ] {
        let errors = parse(format!("namespace: api\n{text}")).unwrap_err().to_string();
        assert!(errors.starts_with(&format!("rules.yaml:{place}: ")), "{text}: {errors}");
        assert!(errors.contains(remedy), "{text}: {errors}");
    }
}
