//! Each command, as an array and as a line, in both protocols.

use crate::node::{Node, command, five};
use tidegate_core::Nanos;

#[tokio::test]
async fn a_key_is_limited_as_redis_cell_limits_it() {
    let node = Node::start().await;
    let mut client = node.client().await;
    let throttle = command(&["CL.THROTTLE", "user123", "15", "30", "60"]);
    for taken in 1..=16 {
        client.send(&throttle).await;
        client.expect(&five([0, 16, 16 - taken, -1, 2 * taken])).await;
    }
    client.send(&throttle).await;
    client.expect(&five([1, 16, 0, 2, 32])).await;
    node.time.advance(Nanos::from_millis(1_500));
    client.send("throttle user123 15 30 60 1\r\n").await;
    client.expect(&five([1, 16, 0, 1, 31])).await;
    node.time.advance(Nanos::from_millis(500));
    client.send(command(&["cl.throttle", "user123", "15", "30", "60", "0"])).await;
    client.expect(&five([0, 16, 1, -1, 30])).await;
    client.send(&throttle).await;
    client.expect(&five([0, 16, 0, -1, 32])).await;
    client.send("PING\r\n").await;
    client.expect("+PONG\r\n").await;
    assert_eq!((node.stat("requests_admitted"), node.stat("requests_denied")), (18, 2));
}

#[tokio::test]
async fn what_clients_say_is_answered_as_redis_answers_it() {
    let node = Node::start().await;
    for (line, expected) in [
        ("PING", "+PONG\r\n"),
        ("ping hello", "$5\r\nhello\r\n"),
        ("ECHO 'a b'", "$3\r\na b\r\n"),
        ("AUTH secret", "+OK\r\n"),
        ("AUTH user secret", "+OK\r\n"),
        ("SELECT 0", "+OK\r\n"),
        ("SELECT 1", "-ERR DB index is out of range\r\n"),
        ("SELECT x", "-ERR value is not an integer or out of range\r\n"),
        ("COMMAND", "*0\r\n"),
        ("COMMAND DOCS", "*0\r\n"),
        ("COMMAND COUNT", ":14\r\n"),
        ("CONFIG GET save", "*2\r\n$4\r\nsave\r\n$0\r\n\r\n"),
        ("CONFIG GET appendonly", "*2\r\n$10\r\nappendonly\r\n$2\r\nno\r\n"),
        ("CONFIG GET maxmemory", "*0\r\n"),
        ("CONFIG SET save x", "-ERR unknown subcommand 'SET'. Try CONFIG HELP.\r\n"),
        ("CLIENT GETNAME", "$-1\r\n"),
        ("CLIENT SETNAME web-1", "+OK\r\n"),
        (
            "CLIENT SETNAME 'a b'",
            "-ERR Client names cannot contain spaces, newlines or special characters.\r\n",
        ),
        ("CLIENT SETINFO LIB-NAME redis-py", "+OK\r\n"),
        ("CLIENT NO-EVICT on", "+OK\r\n"),
        ("CLIENT NO-TOUCH on", "+OK\r\n"),
        ("CLIENT REPLY ON", "+OK\r\n"),
        ("CLIENT KILL x", "-ERR unknown subcommand 'KILL'. Try CLIENT HELP.\r\n"),
        ("RESET", "+RESET\r\n"),
        ("HELLO 4", "-NOPROTO unsupported protocol version\r\n"),
        ("HELLO x", "-ERR Protocol version is not an integer or out of range\r\n"),
        ("HELLO 3 SETNAME", "-ERR Syntax error in HELLO option 'SETNAME'\r\n"),
        ("QUIT", "+OK\r\n"),
    ] {
        assert_eq!(node.answer_to(format!("{line}\r\n").as_bytes()).await, expected, "{line}");
    }
}

#[tokio::test]
async fn a_client_has_a_name_a_number_and_a_protocol() {
    let node = Node::start().await;
    let mut client = node.client().await;
    client.send("HELLO 3 AUTH default secret SETNAME web-1\r\nCLIENT GETNAME\r\nCLIENT ID\r\nQUIT\r\n").await;
    let answer = client.rest().await;
    let id = answer.split("\r\n").filter_map(|line| line.strip_prefix(':')).nth(1).unwrap().to_owned();
    let hello = format!(
        "%7\r\n$6\r\nserver\r\n$8\r\ntidegate\r\n$7\r\nversion\r\n$5\r\n7.0.0\r\n$5\r\nproto\r\n:3\r\n\
         $2\r\nid\r\n:{id}\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n\
         $7\r\nmodules\r\n*0\r\n"
    );
    assert_eq!(answer, format!("{hello}$5\r\nweb-1\r\n:{id}\r\n+OK\r\n"));
    let mut other = node.client().await;
    other.send("HELLO 3\r\nCLIENT GETNAME\r\nCONFIG GET save\r\nRESET\r\nCLIENT GETNAME\r\nQUIT\r\n").await;
    let answer = other.rest().await;
    let answer = answer.split_once("*0\r\n").unwrap().1;
    assert_eq!(answer, "_\r\n%1\r\n$4\r\nsave\r\n$0\r\n\r\n+RESET\r\n$-1\r\n+OK\r\n");
}

#[tokio::test]
async fn info_tells_versions_and_counters() {
    let node = Node::start().await;
    let answer = node.answer_to(b"CL.THROTTLE k 1 1 1\r\nINFO\r\nINFO server\r\n").await;
    for line in ["redis_version:7.0.0", "tidegate_node:node-1", "role:master", "rule_version:1"] {
        assert_eq!(answer.matches(&format!("{line}\r\n")).count(), 2, "{line} in {answer}");
    }
    assert!(answer.contains("resp_commands_refused:"), "{answer}");
}

#[tokio::test]
async fn the_same_key_is_reached_over_http_as_namespace_resp() {
    let node = Node::start().await;
    assert_eq!(node.answer_to(b"CL.THROTTLE k 4 1 1 3\r\n").await, five([0, 5, 2, -1, 3]));
    let rules = node.app.engine.rules();
    let limit = tidegate_node::GivenLimit {
        namespace: "resp",
        identifier: "k",
        policy: tidegate_node::GivenPolicy::Gcra {
            rate: tidegate_core::Rate::new(1, Nanos::from_secs(1)).unwrap(),
            burst: tidegate_core::Burst::new(5).unwrap(),
        },
        cost: tidegate_core::Cost::PEEK,
        class: tidegate_core::Class::default(),
        accuracy: tidegate_core::Accuracy::default(),
        scope: None,
    };
    let request = tidegate_node::Request {
        tenant: "default",
        purpose: tidegate_node::Purpose::Check,
        subject: tidegate_node::Subject::Limits(&[limit]),
    };
    let answer = node.app.engine.decide(&rules, &request, node.app.clock.now()).unwrap().answer().unwrap();
    let tidegate_node::LimitOutcome::Decided(decision) = answer.limits[0].outcome else {
        panic!("{answer:?}")
    };
    assert_eq!(decision.remaining, 2);
}
