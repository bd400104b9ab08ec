//! Many commands at once: answered in order, whatever is among them and however they arrive.

use crate::node::{Node, command, five};
use tokio::io::AsyncWriteExt;

#[tokio::test]
async fn replies_come_in_the_order_of_commands() {
    let node = Node::start().await;
    let mut sent = String::new();
    let mut expected = String::new();
    for round in 0..100 {
        sent += &command(&["CL.THROTTLE", &format!("k{}", round % 7), "99", "1", "1"]);
        expected += &five([0, 100, 99 - round / 7, -1, round / 7 + 1]);
        match round % 5 {
            1 => {
                sent += &command(&["ECHO", &round.to_string()]);
                expected += &format!("${}\r\n{round}\r\n", round.to_string().len());
            }
            2 => {
                sent += "CL.THROTTLE k 1\r\n";
                expected += "-ERR wrong number of arguments for 'cl.throttle' command\r\n";
            }
            3 => sent += "\r\n*0\r\n",
            _ => {}
        }
    }
    assert_eq!(node.answer_to(sent.as_bytes()).await, expected);
}

#[tokio::test]
async fn commands_that_arrive_byte_by_byte_are_answered_the_same() {
    let node = Node::start().await;
    let mut client = node.client().await;
    let sent = command(&["CL.THROTTLE", "k", "15", "30", "60"]).repeat(3) + "PING\r\n";
    for byte in sent.as_bytes() {
        client.send([*byte]).await;
        tokio::task::yield_now().await;
    }
    let replies = [[0, 16, 15, -1, 2], [0, 16, 14, -1, 4], [0, 16, 13, -1, 6]].map(five).concat();
    client.expect(&(replies + "+PONG\r\n")).await;
}

#[tokio::test]
async fn more_than_any_buffer_holds_is_answered_while_it_is_sent() {
    let node = Node::start().await;
    let client = node.client().await;
    let (mut reading, mut writing) = client.0.into_split();
    let echoed = "x".repeat(60_000);
    let rounds = 100;
    let sent =
        (command(&["ECHO", &echoed]) + &command(&["CL.THROTTLE", "k", "999", "1", "1"])).repeat(rounds);
    let sending = tokio::spawn(async move {
        writing.write_all(sent.as_bytes()).await.unwrap();
        writing.shutdown().await.unwrap();
    });
    let mut answer = Vec::new();
    tokio::io::AsyncReadExt::read_to_end(&mut reading, &mut answer).await.unwrap();
    sending.await.unwrap();
    let mut expected = String::new();
    for round in 1..=i64::try_from(rounds).unwrap() {
        expected += &format!("$60000\r\n{echoed}\r\n");
        expected += &five([0, 1000, 1000 - round, -1, round]);
    }
    assert!(answer == expected.as_bytes(), "{} bytes, not {}", answer.len(), expected.len());
}

#[tokio::test]
async fn a_full_table_is_decided_by_class_and_in_order() {
    let node = Node::with_keys(2).await;
    let sent: String =
        (0..50).map(|key| command(&["CL.THROTTLE", &format!("k{key}"), "1", "1", "60"])).collect();
    let answer = node.answer_to(format!("{sent}PING\r\n").as_bytes()).await;
    assert_eq!(answer.matches("*5\r\n:0\r\n").count(), 50, "what finds no room is admitted: {answer}");
    assert!(answer.ends_with("+PONG\r\n"));
    assert!(node.stat("keys_refused_admitted") > 0);
    assert_eq!(node.stat("requests_admitted"), 50);
}
