//! Wrong calls: a rate limit request that can't be judged is denied, any other call gets its code. The connection
//! goes on after every one of them.

use crate::envoy::client::{Client, SHOULD_RATE_LIMIT, framed};
use crate::envoy::proto::{Ask, Descriptor, Response, field};
use crate::support::{Directory, Node, rules_of};
use http::Request;

const NOT_FOUND: u32 = 5;
const UNIMPLEMENTED: u32 = 12;
/// `overall_code: OVER_LIMIT`, and nothing else.
const OVER_LIMIT: [u8; 2] = [8, 2];

fn node() -> (Directory, Node) {
    let directory = Directory::new();
    directory.write("rules.yaml", rules_of(1000));
    let node = Node::start(&directory, &[]);
    (directory, node)
}

fn with_limit(unit: u8) -> Vec<u8> {
    let descriptors = vec![Descriptor { entries: &[("user", "1")], limit: Some((1, unit)), hits: None }];
    Ask { domain: "api", descriptors, hits: 0 }.encoded()
}

#[test]
fn a_request_that_cannot_be_judged_is_denied_with_a_reason() {
    let (directory, node) = node();
    let client = Client::connect(&node.grpc);
    let long = "x".repeat((16 << 10) + 1);
    let many: Vec<&[(&str, &str)]> = vec![&[("user", "1")]; 101];
    let wide = vec![("user", "1"); 65];
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (framed(&Ask::of("", &[&[("user", "1")]]).encoded()), "domain must not be empty"),
        (framed(&Ask::of("api", &[]).encoded()), "descriptor list must not be empty"),
        (framed(&Ask::of("api", &[&[]]).encoded()), "descriptors[0].entries"),
        (framed(&Ask::of("api", &[&[("", "1")]]).encoded()), "name"),
        (framed(&Ask::of("api", &[&[("user", &long)]]).encoded()), "16384"),
        (framed(&Ask::of(&long, &[&[("user", "1")]]).encoded()), "128"),
        (framed(&Ask::of("api", &many).encoded()), "100"),
        (framed(&Ask::of("api", &[&wide]).encoded()), "64"),
        (framed(&with_limit(0)), "descriptors[0].limit.unit"),
        (framed(&with_limit(8)), "descriptors[0].limit.unit"),
        (framed(&field(1, b"\xff\xfe")), "UTF-8"),
        (framed(&[0x0a, 0x7f, 1]), "protobuf"),
        (framed(&[0xff; 40]), "protobuf"),
        (Vec::new(), "one message"),
        (vec![0, 0, 0, 0, 9, 1], "one message"),
        ([framed(b""), framed(b"")].concat(), "one message"),
        (vec![0, 0, 16, 0, 1, 0], "1024 KiB"),
    ];
    for (body, reason) in cases {
        let reply = client.send(SHOULD_RATE_LIMIT, &[&body]);
        assert_eq!((reply.http, reply.code), (200, Some(0)), "{reason}: {reply:?}");
        assert_eq!(reply.body, framed(&OVER_LIMIT), "{reason}: {reply:?}");
        assert!(reply.message.contains(reason), "{reason}: {reply:?}");
    }
    let log = directory.read("stderr");
    assert_eq!(log.matches("can't be judged").count(), 1, "once a minute: {log}");
    let fine = client.ask(&Ask::of("api", &[&[("user", "1")]]));
    assert_eq!(fine.statuses[0].remaining, 999, "nothing was charged before");
}

#[test]
fn a_compressed_message_and_a_refund_are_not_implemented() {
    let (_directory, node) = node();
    let client = Client::connect(&node.grpc);
    let reply = client.send(SHOULD_RATE_LIMIT, &[&[1, 0, 0, 0, 1, 0]]);
    assert_eq!(reply.code, Some(UNIMPLEMENTED), "{reply:?}");
    assert!(reply.message.contains("compressed"), "{reply:?}");
    // A descriptor with `is_negative_hits`, Envoy's way to give hits back.
    let entry = field(1, &[field(1, b"user"), field(2, b"9")].concat());
    let refund = [field(1, b"api"), field(2, &[entry, vec![0x20, 1]].concat())].concat();
    let reply = client.send(SHOULD_RATE_LIMIT, &[&framed(&refund)]);
    assert_eq!(reply.code, Some(UNIMPLEMENTED), "{reply:?}");
    assert!(reply.message.contains("refund"), "{reply:?}");
    let after = client.ask(&Ask::of("api", &[&[("user", "9")]]));
    assert_eq!(after.statuses[0].remaining, 999, "a refund was charged");
}

#[test]
fn a_message_in_pieces_is_one_message() {
    let (_directory, node) = node();
    let client = Client::connect(&node.grpc);
    let body = framed(&Ask::of("api", &[&[("user", "2")]]).encoded());
    let pieces: Vec<&[u8]> = body.chunks(3).chain([&[][..]]).collect();
    let reply = client.send(SHOULD_RATE_LIMIT, &pieces);
    assert_eq!(reply.code, Some(0), "{reply:?}");
    assert_eq!(Response::decoded(&reply.body[5..]).statuses[0].remaining, 999);
}

#[test]
fn the_largest_message_is_taken_and_a_larger_one_is_not() {
    let (_directory, node) = node();
    let client = Client::connect(&node.grpc);
    let valid = Ask::of("api", &[&[("user", "3")]]).encoded();
    // An unknown field fills the rest: protobuf skips it.
    let filled = |length: usize| {
        let padding = field(15, &vec![0; length - valid.len() - 4]);
        [valid.clone(), padding].concat()
    };
    let largest = filled(1 << 20);
    assert_eq!(largest.len(), 1 << 20);
    assert_eq!(client.send(SHOULD_RATE_LIMIT, &[&framed(&largest)]).code, Some(0));
    let reply = client.send(SHOULD_RATE_LIMIT, &[&framed(&filled((1 << 20) + 1))]);
    assert_eq!(reply.body, framed(&OVER_LIMIT), "{reply:?}");
}

#[test]
fn what_is_no_call_of_ours_is_told_so() {
    let (_directory, node) = node();
    let client = Client::connect(&node.grpc);
    for path in ["/envoy.service.ratelimit.v3.RateLimitService/Nothing", "/nothing", "/"] {
        assert_eq!(client.send(path, &[]).code, Some(UNIMPLEMENTED), "{path}");
    }
    let request = |method: &str, content_type: &str| {
        let request = Request::builder().method(method).uri(format!("http://node{SHOULD_RATE_LIMIT}"));
        client.exchange(request.header("content-type", content_type).body(()).unwrap(), &[]).http
    };
    assert_eq!(request("POST", "application/json"), 415);
    assert_eq!(request("POST", "application/grpc-web"), 415);
    assert_eq!(request("GET", "application/grpc"), 405);
    assert_eq!(request("POST", "application/grpc+proto"), 200);
}

#[test]
fn health_and_reflection_answer() {
    let (_directory, node) = node();
    let client = Client::connect(&node.grpc);
    let check = |service: &str| {
        let reply = client.send("/grpc.health.v1.Health/Check", &[&framed(&field(1, service.as_bytes()))]);
        (reply.code, reply.body)
    };
    let serving = framed(&[8, 1]);
    assert_eq!(check(""), (Some(0), serving.clone()));
    assert_eq!(check("envoy.service.ratelimit.v3.RateLimitService"), (Some(0), serving));
    assert_eq!(check("nothing"), (Some(NOT_FOUND), vec![]));
    for version in ["v1", "v1alpha"] {
        let path = format!("/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo");
        let symbol = field(4, b"envoy.service.ratelimit.v3.RateLimitService");
        let unknown = field(4, b"nothing.at.All");
        let asked = [framed(&field(7, b"")), framed(&symbol), framed(&unknown)].concat();
        let reply = client.send(&path, &[&asked]);
        assert_eq!(reply.code, Some(0), "{reply:?}");
        let text = String::from_utf8_lossy(&reply.body);
        for part in ["grpc.health.v1.Health", "ShouldRateLimit", "hits_addend", "no such file or symbol"] {
            assert!(text.contains(part), "{version}, {part}: {text}");
        }
    }
}
