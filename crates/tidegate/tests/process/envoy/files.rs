//! A file of envoyproxy/ratelimit, read as it is and asked over gRPC and as JSON: its matching and its sequences.

use crate::envoy::client::Client;
use crate::envoy::proto::{Ask, Descriptor, Response};
use crate::support::{Directory, Node, request};
use std::time::{SystemTime, UNIX_EPOCH};

const FILE: &str = r#"
domain: theirs
descriptors:
  - key: key1
    value: value1
    descriptors:
      - { key: subkey1, rate_limit: { unit: second, requests_per_unit: 5 } }
      - { key: subkey1, value: subvalue1, rate_limit: { unit: second, requests_per_unit: 10 } }
  - { key: key2, rate_limit: { unit: minute, requests_per_unit: 20 } }
  - { key: key2, value: value2, rate_limit: { unit: minute, requests_per_unit: 30 } }
  - { key: key2, value: value3 }
  - { key: key4, rate_limit: { unit: day, requests_per_unit: 1, name: four } }
  - key: key5
    value: value5
    descriptors:
      - { key: subkey5, value: subvalue5, rate_limit: { unit: day, requests_per_unit: 15 } }
  - { key: key6, rate_limit: { unlimited: true } }
  - { key: wild, value: "foo*", rate_limit: { unit: day, requests_per_unit: 1, name: foo } }
  - { key: wild, value: "bar*b", rate_limit: { unit: day, requests_per_unit: 1, name: bar } }
  - { key: many, value: "foo*bar*baz", rate_limit: { unit: day, requests_per_unit: 1, name: baz } }
  - { key: exact, value: "test*", rate_limit: { unit: day, requests_per_unit: 1, name: first } }
  - { key: exact, value: "tes*", rate_limit: { unit: day, requests_per_unit: 1, name: second } }
  - { key: exact, value: test1, rate_limit: { unit: day, requests_per_unit: 1, name: exact } }
  - { key: second, rate_limit: { unit: second, requests_per_unit: 50 } }
  - { key: minute, rate_limit: { unit: minute, requests_per_unit: 20 } }
  - { key: hour, rate_limit: { unit: hour, requests_per_unit: 10 } }
  - key: path
    value: "files/*"
    share_threshold: true
    rate_limit: { unit: hour, requests_per_unit: 10 }
  - { key: banned, value: bob, rate_limit: { unit: minute, requests_per_unit: 0, name: banned } }
  - { key: amnesty, rate_limit: { unit: minute, requests_per_unit: 2, replaces: [{ name: banned }] } }
  - { key: pardon, rate_limit: { unlimited: true, replaces: [{ name: banned }] } }
  - { key: watched, shadow_mode: true, rate_limit: { unit: minute, requests_per_unit: 3 } }
  - { key: base, quota_mode: true, rate_limit: { unit: day, requests_per_unit: 2 } }
  - { key: extra, quota_mode: true, rate_limit: { unit: day, requests_per_unit: 3 } }
"#;

type Entries<'a> = &'a [(&'a str, &'a str)];

fn node_with(arguments: &[&str]) -> (Directory, Node) {
    let directory = Directory::new();
    directory.write("theirs.yaml", FILE);
    let node = Node::start(&directory, &[&["--rules-file", "theirs.yaml"], arguments].concat());
    (directory, node)
}

fn started() -> (Directory, Node, Client) {
    let (directory, node) = node_with(&[]);
    let client = Client::connect(&node.grpc);
    (directory, node, client)
}

#[expect(
    clippy::disallowed_methods,
    reason = "windows are cut by the wall clock, and no test may straddle a turn"
)]
fn window(seconds: u64) -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() / seconds
}

/// What came of an attempt that no turn of a window fell into. Each attempt has a caller of its own.
fn within_a_window<T>(seconds: u64, attempt: impl Fn(&str) -> T) -> T {
    (0..10)
        .find_map(|number| {
            let begun = window(seconds);
            let outcome = attempt(&format!("caller-{number}"));
            (window(seconds) == begun).then_some(outcome)
        })
        .expect("an attempt takes less than a window")
}

fn over(responses: &[Response]) -> Vec<bool> {
    responses.iter().map(|response| response.is_over).collect()
}

fn calls(client: &Client, descriptors: &[Entries<'_>], count: usize) -> Vec<Response> {
    (0..count).map(|_| client.ask(&Ask::of("theirs", descriptors))).collect()
}

/// Requests and unit of the limit that entries meet.
fn limit(client: &Client, entries: Entries<'_>) -> Option<(u64, u64)> {
    let response = client.ask(&Ask::of("theirs", &[entries]));
    response.statuses[0].limit.clone().map(|(_, requests, unit)| (requests, unit))
}

#[test]
fn entries_meet_the_limit_that_they_meet_there() {
    let (_directory, _node, client) = started();
    let value1 = ("key1", "value1");
    let cases: [(Entries<'_>, Option<(u64, u64)>); 12] = [
        (&[("key1", "something")], None),
        (&[value1], None),
        (&[value1, ("subkey1", "any")], Some((5, 1))),
        (&[value1, ("subkey1", "subvalue1")], Some((10, 1))),
        (&[("key2", "any")], Some((20, 2))),
        (&[("key2", "value2")], Some((30, 2))),
        (&[("key2", "value3")], None),
        (&[("key2", "value2"), ("subkey", "x")], None),
        (&[("key5", "value5"), ("subkey5", "wrong")], None),
        (&[("key5", "value5"), ("subkey5", "subvalue5")], Some((15, 4))),
        (&[("key6", "x")], None),
        (&[("nothing", "x")], None),
    ];
    for (entries, expected) in cases {
        assert_eq!(limit(&client, entries), expected, "{entries:?}");
    }
    let unlimited = client.ask(&Ask::of("theirs", &[&[("key6", "x")]]));
    assert_eq!(unlimited.statuses[0].remaining, u64::from(u32::MAX));
    let named = client.ask(&Ask::of("theirs", &[&[("key4", "x")]]));
    assert_eq!(named.statuses[0].limit, Some(("four".to_owned(), 1, 4)));
}

#[test]
fn a_star_matches_anything_the_exact_value_wins_and_then_the_order_of_the_file() {
    let (_directory, _node, client) = started();
    let cases = [
        ("wild", "foo1", Some("foo")),
        ("wild", "xfoo", None),
        ("wild", "barab", Some("bar")),
        ("wild", "barb", Some("bar")),
        ("wild", "bara", None),
        ("wild", "xbarb", None),
        ("many", "foobarbaz", Some("baz")),
        ("many", "foo1bar2baz", Some("baz")),
        ("many", "foo123baz", None),
        ("exact", "test1", Some("exact")),
        ("exact", "test2", Some("first")),
        ("exact", "tesla", Some("second")),
    ];
    for (key, value, expected) in cases {
        let response = client.ask(&Ask::of("theirs", &[&[(key, value)]]));
        let name = response.statuses[0].limit.as_ref().map(|(name, _, _)| name.as_str());
        assert_eq!(name, expected, "{key} {value}");
    }
}

#[test]
fn a_limit_of_the_descriptor_wins_and_an_unknown_domain_has_none() {
    let (_directory, _node, client) = started();
    let ask = |domain, limit| {
        let descriptors = vec![Descriptor { entries: &[("key2", "own")], limit: Some(limit), hits: None }];
        client.ask(&Ask { domain, descriptors, hits: 0 }).statuses[0].clone()
    };
    let day = ask("theirs", (10, 4));
    assert_eq!((day.limit, day.remaining), (Some(("override".to_owned(), 10, 4)), 9));
    assert!(ask("theirs", (0, 4)).is_over, "0 blocks");
    let unknown = ask("nowhere", (0, 4));
    assert_eq!((unknown.is_over, unknown.limit), (false, None));
}

#[test]
fn limits_count_down_and_are_over_together() {
    let (_directory, _node, client) = started();
    let first = &calls(&client, &[&[("second", "a")]], 1)[0];
    assert_eq!((first.is_over, first.statuses[0].remaining), (false, 49));

    let minute = within_a_window(60, |caller| calls(&client, &[&[("minute", caller)]], 25));
    for (index, response) in minute.iter().enumerate() {
        let left = 19_u64.saturating_sub(index as u64);
        assert_eq!((response.is_over, response.statuses[0].remaining), (index >= 20, left), "{index}");
    }
    let both = within_a_window(60, |caller| {
        calls(&client, &[&[("minute", &format!("{caller}-2"))], &[("hour", &format!("{caller}-2"))]], 15)
    });
    assert_eq!(over(&both), [[false; 10].as_slice(), &[true; 5]].concat());
    // Theirs would have counted the five.
    assert_eq!(both[14].statuses.iter().map(|status| status.remaining).collect::<Vec<_>>(), [10, 0]);
}

#[test]
fn a_shared_threshold_counts_all_values_together() {
    let (_directory, _node, client) = started();
    let answers = within_a_window(3600, |caller| {
        // No caller of its own: the pattern is the caller.
        let (first, second) = (format!("files/{caller}.pdf"), "files/b.csv");
        let before = calls(&client, &[&[("path", &first)]], 10);
        (over(&before), client.ask(&Ask::of("theirs", &[&[("path", second)]])).is_over)
    });
    assert_eq!(answers, (vec![false; 10], true));
}

#[test]
fn a_replaced_ban_doesnt_ban() {
    let (_directory, _node, client) = started();
    let bob: Entries<'_> = &[("banned", "bob")];
    assert!(client.ask(&Ask::of("theirs", &[bob])).is_over);
    let answers = within_a_window(60, |caller| calls(&client, &[bob, &[("amnesty", caller)]], 3));
    assert_eq!(over(&answers), [false, false, true]);
    assert_eq!(answers[0].statuses[0].limit, None, "as if it hadn't been met");
    assert!(!client.ask(&Ask::of("theirs", &[bob, &[("pardon", "x")]])).is_over);
}

#[test]
fn a_shadow_never_limits() {
    let (_directory, _node, client) = started();
    let answers = within_a_window(60, |caller| calls(&client, &[&[("watched", caller)]], 5));
    assert_eq!(over(&answers), [false; 5]);
    let left: Vec<u64> = answers.iter().map(|response| response.statuses[0].remaining).collect();
    assert_eq!(left, [2, 1, 0, 0, 0]);
}

#[test]
fn quotas_deny_only_together() {
    let (_directory, _node, client) = started();
    let answers = within_a_window(86_400, |caller| {
        calls(&client, &[&[("base", caller)], &[("extra", caller)], &[("hour", caller)]], 5)
    });
    assert_eq!(over(&answers), [false, false, false, true, true]);
    let third: Vec<bool> = answers[2].statuses.iter().map(|status| status.is_over).collect();
    assert_eq!(third, [true, false, false], "one is used up, and told so");
    // A request that all quotas deny costs the other limit nothing.
    assert_eq!(answers[4].statuses[2].remaining, 7);
    assert!(answers[4].header("retry-after").is_some());
    let alone = within_a_window(86_400, |caller| calls(&client, &[&[("base", &format!("{caller}-2"))]], 3));
    assert_eq!(over(&alone), [false, false, true]);
}

#[test]
fn hits_of_the_request_count_one_at_least_and_those_of_a_descriptor_may_peek() {
    let (_directory, _node, client) = started();
    let left = within_a_window(3600, |caller| {
        [(0, None), (0, Some(0)), (3, None)].map(|(hits, own)| {
            let entries = [("hour", caller)];
            let descriptors = vec![Descriptor { entries: &entries, hits: own, limit: None }];
            client.ask(&Ask { domain: "theirs", descriptors, hits }).statuses[0].remaining
        })
    });
    assert_eq!(left, [9, 9, 6]);
}

#[test]
fn json_and_checks_meet_the_same_limits() {
    let (_directory, node, client) = started();
    let body = |value: &str, hits| {
        format!(
            r#"{{"domain":"theirs","descriptors":[{{"entries":[{{"key":"hour","value":"{value}"}}]}}],"hitsAddend":{hits}}}"#
        )
    };
    let statuses = within_a_window(3600, |caller| {
        let ask = |hits| request(&node.http, "POST", "/json", &body(caller, hits)).0;
        let check = format!(r#"{{"namespace":"theirs","attributes":{{"hour":"{caller}"}}}}"#);
        let grpc = client.ask(&Ask::of("theirs", &[&[("hour", caller)]])).statuses[0].remaining;
        let native = request(&node.http, "POST", "/v1/check", &check).1["limits"][0]["remaining"].clone();
        (grpc, native, ask(8), ask(1))
    });
    assert_eq!(statuses, (9, 8.into(), 200, 429));
    for wrong in ["", "}"] {
        assert_eq!(request(&node.http, "POST", "/json", wrong).0, 400, "{wrong}");
    }
}

/// A fixed window is new at its turn; of a sliding one something is left then.
#[test]
fn a_setting_makes_the_windows_sliding() {
    let reset = |arguments: &[&str]| {
        let (_directory, node) = node_with(arguments);
        let client = Client::connect(&node.grpc);
        let fifteen = Ask::of("theirs", &[&[("key5", "value5"), ("subkey5", "subvalue5")]]);
        client.ask(&Ask { hits: 15, ..fifteen }).statuses[0].reset_seconds
    };
    let [after_turn, sliding_after_turn] = within_a_window(86_400, |_| {
        ["fixed", "sliding"].map(|windows| {
            let until_turn = 86_400 - (window(1) % 86_400);
            reset(&["--rules-envoy-windows", windows]).saturating_sub(until_turn)
        })
    });
    assert_eq!(after_turn, 0);
    assert!(sliding_after_turn > 0);
}
