//! The Redis protocol on nodes that share a store: a command that has to ask holds up those after it, and the
//! limit is one.

use crate::fleet::{Member, PATIENT, fleet, wait_for};
use crate::support::connect;
use std::io::{Read, Write};
use tidegate_testkit::Redis;

/// Sends everything at once; what is answered until the node hangs up.
fn answer(member: &Member, commands: &str) -> String {
    let mut stream = connect(&member.node.resp);
    stream.write_all(format!("{commands}QUIT\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn admitted(answer: &str) -> usize {
    answer.matches("*5\r\n:0\r\n").count()
}

#[test]
fn pipelined_commands_that_ask_are_answered_in_order() {
    let redis = wait_for(Redis::start());
    let nodes = fleet(&redis.url(), 2, &PATIENT);
    // Every key is new to its node, so that each first command asks; a second of the same key doesn't.
    let commands: String = (0..40)
        .map(|number| {
            format!(
                "ECHO {number}\r\nCL.THROTTLE key-{number} 999 1 3600\r\nthrottle key-{number} 999 1 3600\r\n"
            )
        })
        .collect();
    let expected: String = (0..40)
        .map(|number: usize| {
            let first = "*5\r\n:0\r\n:1000\r\n:999\r\n:-1\r\n:3600\r\n";
            let second = "*5\r\n:0\r\n:1000\r\n:998\r\n:-1\r\n:7200\r\n";
            format!("${}\r\n{number}\r\n{first}{second}", number.to_string().len())
        })
        .collect();
    let answered = answer(&nodes[0], &commands);
    // The second is asked for an instant after the first, so that its seconds are the same.
    assert_eq!(answered, expected + "+OK\r\n");
}

#[test]
fn a_limit_is_one_over_both_nodes() {
    let redis = wait_for(Redis::start());
    let nodes = fleet(&redis.url(), 2, &PATIENT);
    let ten = "CL.THROTTLE one 19 1 31000000\r\n".repeat(10);
    let mut total = 0;
    for _ in 0..3 {
        total += nodes.iter().map(|node| admitted(&answer(node, &ten))).sum::<usize>();
    }
    // Bounded: before nodes tell each other, they admit at most a quarter of what is left.
    assert!((20..=25).contains(&total), "{total} of 20 were admitted");
}
