//! Whatever callers send, the number of series stays the same.

use crate::scrape::Scrape;
use crate::support::{Directory, Node, connect, request, rules_of};
use std::fmt::Write as _;
use std::io::{Read, Write};

const IDENTIFIERS: usize = 1_000_000;
const AT_ONCE: usize = 1_000;

#[test]
fn a_million_identifiers_leave_the_series_as_they_were() {
    let directory = Directory::new();
    directory.write("rules.yaml", rules_of(3));
    let node = Node::start(&directory, &["--memory-max-keys", "2000000"]);
    // Once what can come out of each kind of request.
    for user in ["a", "a", "a", "a"] {
        by_rules(&node, user);
    }
    throttle(&node, "a", 4);
    let before = Scrape::of(&node.admin);
    for first in (0..IDENTIFIERS).step_by(100 * AT_ONCE) {
        throttle(&node, &format!("caller-{first}"), 100 * AT_ONCE);
    }
    for number in 0..200 {
        by_rules(&node, &format!("user-{number}"));
        let body = format!(
            r#"{{"namespace":"made-up-{number}","identifier":"{number}","limit":9,"duration_ms":60000}}"#
        );
        request(&node.http, "POST", "/v1/limit", &body);
        let body = format!(r#"{{"namespace":"made-up-{number}","attributes":{{"user":"x"}}}}"#);
        request(&node.http, "POST", "/v1/check", &body);
    }
    let after = Scrape::of(&node.admin);
    assert_eq!(before.series(), after.series());
    assert!(after.sum("tidegate_keys", &[]) >= 1e6, "they were all there");
    assert!(after.sum("tidegate_decisions_total", &[r#"rule="given",outcome="allowed""#]) >= 1e6);
}

fn by_rules(node: &Node, user: &str) {
    let body = format!(r#"{{"namespace":"api","attributes":{{"user":"{user}"}}}}"#);
    request(&node.http, "POST", "/v1/check", &body);
}

/// So many commands, each of a key of its own; of one key where there are few.
fn throttle(node: &Node, name: &str, count: usize) {
    let mut stream = connect(&node.resp);
    for chunk in 0..count.div_ceil(AT_ONCE) {
        let mut commands = String::new();
        let commands_left = (count - chunk * AT_ONCE).min(AT_ONCE);
        for number in 0..commands_left {
            let key = if count < AT_ONCE { name.to_owned() } else { format!("{name}-{chunk}-{number}") };
            let length = key.len();
            // Two at once, and the next in an hour: nothing expires meanwhile.
            let _ = write!(
                commands,
                "*5\r\n$11\r\nCL.THROTTLE\r\n${length}\r\n{key}\r\n$1\r\n1\r\n$1\r\n1\r\n$4\r\n3600\r\n"
            );
        }
        stream.write_all(commands.as_bytes()).unwrap();
        read_replies(&mut stream, commands_left);
    }
}

/// A reply is a list of five numbers: six lines.
fn read_replies(stream: &mut impl Read, count: usize) {
    let (mut lines, mut buffer) = (0, [0; 64 * 1024]);
    while lines < 6 * count {
        let read = stream.read(&mut buffer).unwrap();
        assert!(read > 0, "the node closed the connection");
        lines += buffer[..read].iter().filter(|byte| **byte == b'\n').count();
    }
}
