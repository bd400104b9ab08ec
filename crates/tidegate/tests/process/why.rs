//! `tidegate why`: a denial is found again, of a running node and in its files, and says what it was.

use crate::support::{CHECK, Directory, Node, SOON, parse, poll, request, request_with, rules_of, run};
use rustix::process::Signal;
use serde_json::Value;
use std::io::{Read, Write};

/// Asks the node, or whatever else the arguments name; its answer and the exit code.
fn why(directory: &Directory, arguments: &[&str]) -> (Option<i32>, Value) {
    let finished = run(directory, &[&["why", "--json"], arguments].concat(), &[]);
    let answer = serde_json::from_str(&finished.stdout);
    (finished.code, answer.unwrap_or_else(|_| panic!("{}{}", finished.stdout, finished.stderr)))
}

fn denied(answer: &Value) -> &[Value] {
    answer["decisions"].as_array().expect("decisions")
}

#[test]
fn a_denial_is_found_by_caller_rule_and_request_and_after_a_kill_in_the_files() {
    let directory = Directory::new();
    directory.write("rules.yaml", rules_of(3));
    let mut node = Node::start(&directory, &["--node", "n1"]);
    assert_eq!(node.allowed(3, CHECK), 3);
    let said = request_with(&node.http, "POST /v1/check", "X-Request-Id: complaint-1\r\n", CHECK);
    assert_eq!(parse(&said).1["allowed"], false);
    let admin = format!("http://{}", node.admin);
    let of_node = |more: &[&str]| why(&directory, &[&["--admin", &admin], more].concat());
    let (code, answer) = of_node(&["--identifier", "42"]);
    assert_eq!((code, denied(&answer).len()), (Some(0), 1), "{answer}");
    let decision = &denied(&answer)[0];
    for (field, expected) in [
        ("outcome", "denied"),
        ("cause", "limit_used"),
        ("rule", "per-user"),
        ("namespace", "api"),
        ("path", "local"),
        ("node", "n1"),
    ] {
        assert_eq!(decision[field], expected, "{decision}");
    }
    assert_eq!(
        (&decision["limit"], &decision["seen"]["own"], &decision["rule_version"]),
        (&3.into(), &3.into(), &1.into())
    );
    assert!(decision["retry_after_ms"].as_u64().is_some_and(|wait| wait > 0), "{decision}");
    for found in [["--rule", "per-user"], ["--request-id", "complaint-1"], ["--since", "1m"], ["--at", "5s"]]
    {
        assert_eq!(denied(&of_node(&found).1).len(), 1, "{found:?}");
    }
    for not_found in [["--identifier", "43"], ["--rule", "per-org"], ["--request-id", "x"], ["--until", "1m"]]
    {
        assert_eq!(of_node(&not_found).0, Some(1), "{not_found:?}");
    }
    node.process.signal(Signal::KILL);
    node.process.exit_code(SOON);
    let (code, of_files) = why(&directory, &["--identifier", "42", "--log", "data/decisions"]);
    assert_eq!((code, denied(&of_files)), (Some(0), denied(&answer)));
    let words = run(&directory, &["why", "--identifier", "42", "--log", "data/decisions"], &[]).stdout;
    assert!(words.contains("3 of its limit of 3 was in use (3 admitted by this node)"), "{words}");
}

#[test]
fn of_several_nodes_one_that_is_down_costs_its_own_answer_only() {
    let directory = Directory::new();
    directory.write("rules.yaml", rules_of(1));
    let node = Node::start(&directory, &[]);
    assert_eq!(node.allowed(2, CHECK), 1);
    // Nobody listens there.
    let (up, down) = (format!("http://{}", node.admin), "http://127.0.0.1:1");
    for order in [[&up, down], [down, &up]] {
        let (code, answer) = why(&directory, &["--admin", order[0], "--admin", order[1]]);
        assert_eq!((code, denied(&answer).len()), (Some(0), 1), "{answer}");
        let nodes = &answer["nodes"];
        assert_eq!((&nodes["asked"], &nodes["answered"]), (&2.into(), &1.into()), "{answer}");
        assert_eq!(nodes["problems"][0]["node"], down, "{answer}");
    }
    let words = run(&directory, &["why", "--admin", &up, "--admin", down], &[]).stdout;
    assert!(words.contains("Only 1 of 2 nodes answered.\n  http://127.0.0.1:1: "), "{words}");
    let finished = run(&directory, &["why", "--admin", down], &[]);
    assert_eq!(finished.code, Some(2), "{}", finished.stdout);
    assert!(finished.stderr.contains("is it running there?"), "{}", finished.stderr);
}

#[test]
fn who_finds_nothing_is_told_where_it_was_looked_for() {
    let directory = Directory::new();
    let node = Node::start(&directory, &[]);
    let admin = format!("http://{}", node.admin);
    let said = |more: &[&str]| {
        let finished = run(&directory, &[&["why", "--admin", &admin], more].concat(), &[]);
        assert_eq!(finished.code, Some(1), "{}", finished.stderr);
        finished.stdout
    };
    let of_day = said(&["--identifier", "42", "--at", "3:47"]);
    assert!(of_day.contains("T03:46:00.000Z and ") && of_day.contains("T03:49:00.000Z (UTC)"), "{of_day}");
    assert!(of_day.contains("A caller is found by its whole identifier"), "{of_day}");
    assert!(said(&[]).starts_with("Nothing in the log fits. Of denials it has all"));
    let backwards = run(&directory, &["why", "--since", "1h", "--until", "2h"], &[]);
    assert_eq!(backwards.code, Some(2));
    assert!(backwards.stderr.contains("it ends before it begins"), "{}", backwards.stderr);
}

const CALLERS: &str = "\
namespace: api
rules:
  - { name: search, key: [user, endpoint], limit: 1 per 365d }
  - { name: per-net, key: [ip/64], limit: 1 per 365d }
  - { name: trial, key: [plan], limit: 1 per 365d, shadow: true }
";

fn deny(node: &Node, attributes: &str, times: u32) {
    let body = format!(r#"{{"namespace":"api","attributes":{{{attributes}}}}}"#);
    node.allowed(1 + times, &body);
}

#[test]
fn a_caller_is_found_however_it_is_written() {
    let directory = Directory::new();
    directory.write("rules.yaml", CALLERS);
    let node = Node::start(&directory, &[]);
    deny(&node, r#""user":"alice","endpoint":"/search""#, 1);
    deny(&node, r#""user":"bob","endpoint":"/a,b""#, 1);
    deny(&node, r#""ip":"2001:db8:0:1::7""#, 1);
    let admin = format!("http://{}", node.admin);
    let of = |who: &[&str]| {
        let (_, answer) = why(&directory, &[&["--admin", &admin], who].concat());
        denied(&answer).iter().map(|one| one["key"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let [alice] = &of(&["alice,/search"])[..] else { panic!("{:?}", of(&["alice,/search"])) };
    let hash = &alice[..16];
    let of_alice: [&[&str]; 26] = [
        &["--identifier", "alice,/search"],
        &["--identifier", "alice, /search"],
        &["--identifier", "alice"],
        &["--identifier", "/search"],
        &["--identifier", "\"alice,/search\""],
        &["--identifier", "[alice, /search]"],
        &["--identifier", "user=alice"],
        &["--identifier", "user=alice,endpoint=/search"],
        &["--identifier", "endpoint=/search user=alice"],
        &["--identifier", "default/api/search alice, /search"],
        &["--identifier", "search alice,/search"],
        &["--identifier", "search alice"],
        &["--identifier", alice],
        &["--identifier", hash],
        &["alice"],
        &["user=alice"],
        &["user=alice", "endpoint=/search"],
        &["api", "user=alice"],
        &["search", "alice,", "/search"],
        &["Alice", "--rule", "search", "--at", "5s"],
        &["alice", "/search"],
        &["search", "alice", "/search"],
        &["user:", "alice"],
        &["{\"user\":\"alice\"}"],
        &["alice", "--rule", "api/search", "--since", "10 minutes ago"],
        &["alice", "--at", "now"],
    ];
    for who in of_alice {
        assert_eq!(of(who), std::slice::from_ref(alice), "{who:?}");
    }
    for who in [&["bob,/a,b"][..], &["/a,b"], &["user=bob"], &["bob"]] {
        let found = of(who);
        assert!(found.len() == 1 && found[0] != *alice, "{who:?}: {found:?}");
    }
    for who in ["2001:db8:0:1::7", "2001:DB8:0:1::9", "2001:db8:0:1::/64", "ip=2001:db8:0:1::1"] {
        assert_eq!(of(&[who]).len(), 1, "{who}");
    }
    for (name, callers) in [("search", 2), ("default/api/search", 2), ("per-net", 1), ("api", 3)] {
        assert_eq!(of(&[name]).len(), callers, "all of {name}");
    }
    for nobody in ["carol", "endpoint=alice", "bob,/search", "per-net alice", "user=alice endpoint=/other"] {
        assert!(of(&[nobody]).is_empty(), "{nobody}");
    }
}

#[test]
fn denials_are_put_together_by_caller_and_those_of_shadow_rules_stand_apart() {
    let directory = Directory::new();
    directory.write("rules.yaml", CALLERS);
    let node = Node::start(&directory, &["--log-identifiers", "plain"]);
    deny(&node, r#""user":"alice","endpoint":"/search""#, 7);
    deny(&node, r#""plan":"free""#, 3);
    let admin = format!("http://{}", node.admin);
    let words = |who: &[&str]| run(&directory, &[&["why", "--admin", &admin], who].concat(), &[]).stdout;
    let all = words(&[]);
    assert_eq!(all.matches(" a request of cost 1 from ").count(), 2, "one paragraph for each caller: {all}");
    assert!(all.contains("from alice, /search: 1 of its limit of 1 was in use"), "{all}");
    assert!(all.contains("the same 7 times since"), "{all}");
    let (enforced, shadow) = all.split_once("Rules that only shadow would have denied:").expect("both");
    assert!(enforced.contains("rule search") && !enforced.contains("rule trial"), "{all}");
    assert!(shadow.contains("would have denied") && shadow.contains("rule trial"), "{all}");
    let vain = words(&["alicia"]);
    assert!(vain.starts_with("Nothing in the log fits"), "{vain}");
    let near = vain.split_once("These were denied then:\n").expect("the nearest").1;
    assert!(near.starts_with("  alice, /search  by rule search of api, 7 times, last at "), "{vain}");
}

#[test]
fn names_stay_out_of_the_log_unless_they_are_asked_for() {
    let directory = Directory::new();
    directory.write("rules.yaml", CALLERS);
    let node = Node::start(&directory, &[]);
    deny(&node, r#""user":"alice-the-first","endpoint":"/search""#, 2);
    let admin = format!("http://{}", node.admin);
    let words = |who: &[&str]| run(&directory, &[&["why", "--admin", &admin], who].concat(), &[]).stdout;
    let found = words(&["alice-the-first"]);
    assert!(found.contains(" from caller "), "{found}");
    let vain = words(&["somebody-else"]);
    assert!(
        vain.contains("These were denied then:\n  ") && vain.contains("log.identifiers = plain"),
        "{vain}"
    );
    let logged = std::fs::read_dir(directory.path("data/decisions")).unwrap();
    let has_name = |bytes: &[u8]| bytes.windows(5).any(|window| window == b"alice");
    assert!(logged.flatten().all(|entry| !has_name(&std::fs::read(entry.path()).unwrap())));
}

#[test]
fn admissions_are_a_sample_and_floods_are_counted() {
    let directory = Directory::new();
    directory.write("rules.yaml", rules_of(1));
    let node = Node::start(&directory, &[]);
    assert_eq!(node.allowed(200, CHECK), 1);
    let answer = poll("all of them", SOON, || {
        let (_, answer) = request(&node.admin, "GET", "/v1/why?identifier=42&limit=1000&admissions", "");
        let more = |decision: &Value| 1 + decision["more"].as_u64().unwrap_or(0);
        let denials = denied(&answer).iter().filter(|decision| decision["outcome"] == "denied").map(more);
        (denials.sum::<u64>() == 199).then_some(answer)
    });
    assert!(denied(&answer).len() < 100, "a flood isn't written one by one: {}", denied(&answer).len());
    assert!(denied(&answer).iter().any(|decision| decision["outcome"] == "admitted"), "each thread's first");
    let stats = node.state()["stats"].clone();
    assert!(stats["decisions_logged"].as_u64() > Some(0) && stats["decisions_log_lost"] == 0, "{stats}");
}

#[test]
fn a_limit_that_was_lowered_is_named_as_the_cause() {
    let directory = Directory::new();
    directory.write("rules.yaml", rules_of(10));
    let node = Node::start(&directory, &[]);
    assert_eq!(node.allowed(5, CHECK), 5);
    directory.write("rules.yaml", rules_of(2));
    poll("version 2", SOON, || (node.state()["rule_version"] == 2).then_some(()));
    assert_eq!(node.allowed(1, CHECK), 0);
    let decision = poll("the change", SOON, || {
        let (_, answer) = request(&node.admin, "GET", "/v1/why?identifier=42", "");
        denied(&answer).iter().find(|decision| decision["cause"] == "rule_changed").cloned()
    });
    let sentence = decision["sentence"].as_str().unwrap();
    assert!(
        sentence.contains("with rules version 2: 10 per 31536000 s became 2 per 31536000 s."),
        "{sentence}"
    );
    assert_eq!(decision["seen"]["own"], 5, "{decision}");
}

#[test]
fn limits_of_requests_and_of_the_redis_protocol_are_found_too() {
    let directory = Directory::new();
    let node = Node::start(&directory, &[]);
    let body = r#"{"namespace":"jobs","identifier":"me","limit":1,"duration_ms":31536000000}"#;
    for allowed in [true, false] {
        assert_eq!(request(&node.http, "POST", "/v1/limit", body).1["allowed"], allowed);
    }
    let mut redis = crate::support::connect(&node.resp);
    redis.write_all(b"CL.THROTTLE you 0 1 3600\r\nCL.THROTTLE you 0 1 3600\r\nQUIT\r\n").unwrap();
    redis.read_to_end(&mut Vec::new()).unwrap();
    for (query, namespace) in
        [("identifier=me", "jobs"), ("identifier=you", "resp"), ("namespace=resp", "resp")]
    {
        let (status, answer) = request(&node.admin, "GET", &format!("/v1/why?{query}"), "");
        assert_eq!((status, denied(&answer).len()), (200, 1), "{query}: {answer}");
        assert_eq!(denied(&answer)[0]["namespace"], namespace);
    }
}

#[test]
fn a_node_without_a_log_says_so_and_bad_questions_are_told_what_is_wrong() {
    let directory = Directory::new();
    let node = Node::start(&directory, &["--log-decisions", "none"]);
    let (status, answer) = request(&node.admin, "GET", "/v1/why", "");
    assert_eq!((status, &answer["error"]["code"]), (503, &"log_unavailable".into()), "{answer}");
    assert!(!directory.path("data/decisions").exists());
    let (status, answer) = request(&node.admin, "GET", "/v1/why?identifer=1", "");
    assert_eq!((status, &answer["error"]["code"]), (400, &"unknown_field".into()), "{answer}");
    let callers = format!("http://{}", node.http);
    for wrong in [&["--at", "soon"][..], &["--log", "nowhere"], &["--log", "data"], &["--admin", &callers]] {
        let finished = run(&directory, &[&["why"], wrong].concat(), &[]);
        assert_eq!(finished.code, Some(2), "{}", finished.stderr);
        assert!(finished.stderr.contains(wrong[1]), "{}", finished.stderr);
        assert!(!finished.stderr.contains("known paths"), "{}", finished.stderr);
    }
}
