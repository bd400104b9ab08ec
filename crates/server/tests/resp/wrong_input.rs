//! What is wrong is said as Redis says it; what can't be understood is said once, and the connection closed.

use crate::node::{Node, command};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

#[tokio::test]
async fn wrong_commands_are_errors_and_the_connection_goes_on() {
    let node = Node::start().await;
    let mut client = node.client().await;
    let long = "x".repeat(200);
    let long_quoted = "x".repeat(128);
    for (words, expected) in [
        (&["FOO", "a", "b"][..], "-ERR unknown command 'FOO', with args beginning with: 'a' 'b' "),
        (&["FOO"], "-ERR unknown command 'FOO', with args beginning with: "),
        (&["GET\r\n", "a\nb"], "-ERR unknown command 'GET  ', with args beginning with: 'a b' "),
        (
            &["FOO", &long, "b"],
            &format!("-ERR unknown command 'FOO', with args beginning with: '{long_quoted}' "),
        ),
        (&[&long], &format!("-ERR unknown command '{long_quoted}', with args beginning with: ")),
        (&[""], "-ERR unknown command '', with args beginning with: "),
        (&["PING", "a", "b"], "-ERR wrong number of arguments for 'ping' command"),
        (&["ECHO"], "-ERR wrong number of arguments for 'echo' command"),
        (&["AUTH"], "-ERR wrong number of arguments for 'auth' command"),
        (&["CL.THROTTLE"], "-ERR wrong number of arguments for 'cl.throttle' command"),
        (&["Throttle", "k"], "-ERR wrong number of arguments for 'throttle' command"),
        (&["CL.THROTTLE", "k", "1", "x", "1"], "-ERR value is not an integer or out of range"),
        (
            &["CL.THROTTLE", "k", "1", "0", "1"],
            "-ERR zero rates are not supported; count and period are at least 1",
        ),
        (&["CL.THROTTLE", "", "1", "1", "1"], "-ERR a key has 1 to 16384 bytes"),
        (
            &["CL.THROTTLE", "k", "1", "1", "1", "-1"],
            "-ERR quantity is a whole number from 0 to 2^53; 0 only looks",
        ),
    ] {
        client.send(command(words)).await;
        client.expect(&format!("{expected}\r\n")).await;
    }
    client.send(b"*5\r\n$11\r\nCL.THROTTLE\r\n$2\r\n\xff\xfe\r\n$1\r\n1\r\n$1\r\n1\r\n$1\r\n1\r\n").await;
    client.expect("-ERR a key is UTF-8 text; send other bytes encoded, as hex or base64\r\n").await;
    client.send("PING\r\n").await;
    client.expect("+PONG\r\n").await;
    assert_eq!(node.app.engine.key_count(), 0);
}

#[tokio::test]
async fn what_cant_be_understood_is_said_once_and_closes() {
    let node = Node::start().await;
    for (input, error) in [
        ("*1\r\n$70000\r\n", "invalid bulk length"),
        ("*1\r\n:1\r\n", "expected '$', got ':'"),
        ("*100\r\n", "invalid multibulk length"),
        ("ECHO \"a\r\n", "unbalanced quotes in request"),
    ] {
        let mut client = node.client().await;
        client.send(format!("PING\r\n{input}PING\r\nPING\r\n")).await;
        assert_eq!(client.rest().await, format!("+PONG\r\n-ERR Protocol error: {error}\r\n"), "{input}");
    }
    let mut client = node.client().await;
    client.send(format!("*64\r\n{}", format!("$65000\r\n{}\r\n", "x".repeat(65_000)).repeat(3))).await;
    assert_eq!(client.rest().await, "-ERR Protocol error: a command has at most 131072 bytes\r\n");
    let mut client = node.client().await;
    client.send("x".repeat(100_000)).await;
    assert_eq!(client.rest().await, "-ERR Protocol error: too big inline request\r\n");
}

#[tokio::test]
async fn a_browser_is_hung_up_on() {
    let node = Node::start().await;
    let http = "POST / HTTP/1.1\r\nHost: 127.0.0.1:6380\r\n\r\nCL.THROTTLE k 1 1 1\r\n";
    assert_eq!(node.answer_to(http.as_bytes()).await, "");
    let get = node.answer_to(http.replacen("POST", "GET", 1).as_bytes()).await;
    assert_eq!(get.matches("ERR").count(), 1, "{get}");
    assert_eq!(node.app.engine.key_count(), 0);
}

/// Pieces of commands in any order, and bytes of any kind.
fn garbage() -> impl Strategy<Value = Vec<u8>> {
    let pieces = prop_oneof![
        Just(b"*6\r\n$11\r\nCL.THROTTLE\r\n$1\r\nk\r\n".to_vec()),
        Just(b"$1\r\n1\r\n".to_vec()),
        Just(b"$19\r\n9223372036854775807\r\n".to_vec()),
        Just(b"CL.THROTTLE k 1 1 1\r\n".to_vec()),
        Just(b"HELLO 3\r\n".to_vec()),
        Just(b"*1\r\n$4\r\nINFO\r\n".to_vec()),
        Just(b"CLIENT LIST\n".to_vec()),
        proptest::collection::vec(any::<u8>(), 0..20),
    ];
    proptest::collection::vec(pieces, 0..20).prop_map(|pieces| pieces.concat())
}

#[test]
fn no_bytes_end_the_node() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let node = runtime.block_on(Node::start());
    let mut runner = TestRunner::new(Config { cases: 500, ..Config::default() });
    let outcome = runner.run(&garbage(), |bytes| {
        runtime.block_on(node.answer_to(&bytes));
        let alive = runtime.block_on(node.answer_to(b"PING\r\n"));
        prop_assert_eq!(alive, "+PONG\r\n");
        Ok(())
    });
    outcome.unwrap();
}
