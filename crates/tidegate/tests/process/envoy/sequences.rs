//! What envoyproxy/ratelimit's own tests expect of a series of calls, where native rules can say it.

use crate::envoy::client::Client;
use crate::envoy::proto::{Ask, Descriptor, Response};
use crate::support::{Directory, Node, request};

const RULES: &str = r#"
namespace: basic
rules:
  - { name: first, key: [first], limit: 50 per 1s }
  - { name: week, key: [week], limit: 20 per 7d }
  - { name: year, key: [year], limit: 10 per 365d }
  - { name: watched, key: [watched], limit: 3 per 365d, shadow: true }
  - { name: files, key: [], when: { path: "files/*" }, limit: 10 per 365d }
  - { name: bucket, key: [bucket], rate: 100/s, burst: 200 }
  - { name: wide, key: [both], limit: 100 per day }
  - { name: narrow, key: [both], limit: 5 per 1w }
overrides:
  - { rule: bucket, bucket: slow, rate: 1/s, burst: 60 }
  - { rule: bucket, bucket: free, unlimited: true }
"#;

fn node() -> (Directory, Node) {
    let directory = Directory::new();
    directory.write("rules.yaml", RULES);
    let node = Node::start(&directory, &[]);
    (directory, node)
}

/// Whether each of so many calls is over, and what each of their statuses has left.
fn series(client: &Client, ask: &Ask<'_>, calls: usize) -> Vec<(bool, Vec<u64>)> {
    let seen = |response: Response| {
        (response.is_over, response.statuses.iter().map(|status| status.remaining).collect())
    };
    (0..calls).map(|_| seen(client.ask(ask))).collect()
}

#[test]
fn a_limit_counts_down_and_then_is_over() {
    let (_directory, node) = node();
    let client = Client::connect(&node.grpc);
    let first = client.ask(&Ask::of("basic", &[&[("first", "a")]]));
    assert_eq!((first.is_over, first.statuses[0].remaining), (false, 49));
    assert_eq!(first.statuses[0].limit, Some(("first".to_owned(), 50, 1)));

    let week = series(&client, &Ask::of("basic", &[&[("week", "a")]]), 25);
    for (index, seen) in week.iter().enumerate() {
        let left = 19_u64.saturating_sub(index as u64);
        assert_eq!(*seen, (index >= 20, vec![left]), "call {}", index + 1);
    }
}

/// Theirs would charge the week on; a denied request consumes nothing here.
#[test]
fn of_two_descriptors_the_stricter_decides_and_the_other_stays() {
    let (_directory, node) = node();
    let client = Client::connect(&node.grpc);
    let ask = Ask::of("basic", &[&[("week", "b")], &[("year", "b")]]);
    for (index, seen) in series(&client, &ask, 15).iter().enumerate() {
        let used = (index as u64 + 1).min(10);
        assert_eq!(*seen, (index >= 10, vec![20 - used, 10 - used]), "call {}", index + 1);
    }
    let denied = client.ask(&ask);
    assert_eq!([denied.statuses[0].is_over, denied.statuses[1].is_over], [false, true]);
    assert_eq!(denied.header("x-ratelimit-limit"), Some("10"));
    assert_eq!(denied.header("x-ratelimit-remaining"), Some("0"));
    assert_eq!(denied.header("ratelimit-policy"), Some("\"year\";q=10;w=31536000"));
    let seconds = |name| denied.header(name).unwrap().parse::<u64>().unwrap();
    assert!((1..=63_072_000).contains(&seconds("x-ratelimit-reset")));
    assert!((1..=63_072_000).contains(&seconds("retry-after")));
    assert_eq!(denied.header("ratelimit").map(|text| text.starts_with("\"year\";r=0;t=")), Some(true));
}

#[test]
fn a_shared_threshold_and_a_shadow_rule() {
    let (_directory, node) = node();
    let client = Client::connect(&node.grpc);
    let first = series(&client, &Ask::of("basic", &[&[("path", "files/a.pdf")]]), 10);
    assert!(first.iter().all(|(is_over, _)| !is_over));
    assert!(client.ask(&Ask::of("basic", &[&[("path", "files/b.csv")]])).is_over);
    assert!(!client.ask(&Ask::of("basic", &[&[("path", "other")]])).is_over);

    let shadow = series(&client, &Ask::of("basic", &[&[("watched", "a")]]), 6);
    assert_eq!(shadow.iter().map(|(_, left)| left[0]).collect::<Vec<_>>(), [2, 1, 0, 0, 0, 0]);
    assert!(shadow.iter().all(|(is_over, _)| !is_over));
}

#[test]
fn hits_of_the_request_count_one_at_least_and_those_of_a_descriptor_may_peek() {
    let (_directory, node) = node();
    let client = Client::connect(&node.grpc);
    let entries = [("year", "c")];
    let left = |hits, own: Option<u8>| {
        let descriptors = vec![Descriptor { entries: &entries, hits: own, limit: None }];
        let response = client.ask(&Ask { domain: "basic", descriptors, hits });
        (response.is_over, response.statuses[0].remaining)
    };
    assert_eq!(left(0, None), (false, 9), "0 is the default, and counts 1");
    assert_eq!(left(2, None), (false, 7));
    assert_eq!(left(5, Some(0)), (false, 7), "0 of a descriptor peeks");
    assert_eq!(left(5, Some(3)), (false, 4));
    assert_eq!(left(5, None), (true, 4), "more than is left is denied, and takes nothing");
    assert_eq!(left(4, None), (false, 0));
    assert_eq!(left(0, Some(0)), (false, 0));
}

#[test]
fn a_limit_in_the_descriptor_wins_where_the_domain_is_known() {
    let (_directory, node) = node();
    let client = Client::connect(&node.grpc);
    let ask = |domain: &'static str, limit| {
        let descriptors = vec![Descriptor { entries: &[("year", "d")], limit: Some(limit), hits: None }];
        client.ask(&Ask { domain, descriptors, hits: 0 })
    };
    let day = ask("basic", (30, 4));
    assert_eq!(
        (day.statuses[0].limit.clone(), day.statuses[0].remaining),
        (Some(("override".into(), 30, 4)), 29)
    );
    assert!((1..=86_400).contains(&day.statuses[0].reset_seconds));
    assert!(ask("basic", (0, 7)).is_over, "0 blocks");
    assert!(!ask("nowhere", (0, 4)).is_over);
    let rule = client.ask(&Ask::of("basic", &[&[("year", "d")]]));
    assert_eq!(rule.statuses[0].remaining, 9, "the rule's own count wasn't touched");
}

#[test]
fn a_status_tells_the_strictest_rule_in_the_nearest_unit() {
    let (_directory, node) = node();
    let client = Client::connect(&node.grpc);
    let limit = |entry: (&'static str, &'static str)| {
        let response = client.ask(&Ask::of("basic", &[&[entry]]));
        (response.statuses[0].limit.clone(), response.statuses[0].remaining)
    };
    assert_eq!(limit(("both", "a")), (Some(("narrow".to_owned(), 5, 7)), 4));
    assert_eq!(limit(("bucket", "a")), (Some(("bucket".to_owned(), 200, 1)), 199));
    assert_eq!(limit(("bucket", "slow")), (Some(("bucket".to_owned(), 60, 2)), 59));
    assert_eq!(limit(("bucket", "free")), (None, u64::from(u32::MAX)));
    assert_eq!(limit(("nothing", "a")), (None, 0));
}

#[test]
fn json_says_the_same() {
    let (_directory, node) = node();
    let ask = |body: &str| request(&node.http, "POST", "/json", body);
    let body =
        r#"{"domain":"basic","descriptors":[{"entries":[{"key":"year","value":"e"}]}],"hitsAddend":10}"#;
    let (status, answer) = ask(body);
    assert_eq!((status, &answer["overallCode"]), (200, &"OK".into()), "{answer}");
    assert_eq!(answer["statuses"][0]["currentLimit"]["unit"], "YEAR");
    let (status, answer) = ask(body);
    assert_eq!((status, &answer["statuses"][0]["code"]), (429, &"OVER_LIMIT".into()), "{answer}");
    assert_eq!(answer["responseHeadersToAdd"][0]["key"], "X-RateLimit-Limit");
    for wrong in
        ["", "}", "{}", r#"{"domain":"basic"}"#, "[]", "null", r#"{"domain":"basic","descriptors":[{}]}"#]
    {
        assert_eq!(ask(wrong).0, 400, "{wrong}");
    }
}

#[test]
fn a_unix_socket_serves_both_http_and_grpc() {
    let directory = Directory::new();
    directory.write("rules.yaml", RULES);
    let path = directory.path("node.sock");
    let _node = Node::start(&directory, &["--listen-unix", path.to_str().unwrap()]);
    let client = Client::connect_unix(&path);
    assert_eq!(client.ask(&Ask::of("basic", &[&[("year", "f")]])).statuses[0].remaining, 9);
    let mut stream = std::os::unix::net::UnixStream::connect(&path).unwrap();
    let head = "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    std::io::Write::write_all(&mut stream, head.as_bytes()).unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut stream, &mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
}
