//! Connections from their first byte to their last: ends in order, slowness, idleness.

use crate::node::{Node, command, five};
use std::time::Duration;

#[tokio::test]
async fn an_idle_connection_ends_with_the_listener() {
    let node = Node::start().await;
    let mut idle = node.client().await;
    idle.send("PING\r\n").await;
    idle.expect("+PONG\r\n").await;
    node.stop.send_replace(true);
    assert_eq!(idle.rest().await, "");
    node.listener.await.unwrap();
}

#[tokio::test]
async fn a_command_that_has_begun_is_answered_after_the_signal() {
    let node = Node::start().await;
    let mut client = node.client().await;
    let sent = command(&["CL.THROTTLE", "k", "15", "30", "60"]);
    client.send(format!("PING\r\n{}", &sent[..20])).await;
    client.expect("+PONG\r\n").await;
    node.stop.send_replace(true);
    // Nobody is accepted any more: the listener has seen it.
    while tokio::net::TcpStream::connect(node.address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    client.send(&sent[20..]).await;
    assert_eq!(client.rest().await, five([0, 16, 15, -1, 2]));
    node.listener.await.unwrap();
}

#[tokio::test]
async fn what_was_sent_before_the_signal_is_answered() {
    let node = Node::start().await;
    let mut client = node.client().await;
    client.send("PING\r\n").await;
    client.expect("+PONG\r\n").await;
    client.send("PING\r\nPING\r\n").await;
    node.stop.send_replace(true);
    assert_eq!(client.rest().await, "+PONG\r\n+PONG\r\n");
}

/// With tokio's time paused, half a minute is over as soon as nothing else is to do.
#[tokio::test(start_paused = true)]
async fn half_a_command_has_half_a_minute_and_an_idle_client_ten() {
    let node = Node::start().await;
    for (sent, at_least, at_most) in [("*1\r\n$4\r\nPI", 30, 50), ("*0\r\n", 600, 620)] {
        let mut client = node.client().await;
        client.send(sent).await;
        let begun = tokio::time::Instant::now();
        let mut answer = Vec::new();
        tokio::io::AsyncReadExt::read_to_end(&mut client.0, &mut answer).await.unwrap();
        let took = begun.elapsed();
        assert!(took >= Duration::from_secs(at_least - 10), "{sent:?}: closed after {took:?}");
        assert!(took <= Duration::from_secs(at_most), "{sent:?}: closed after {took:?}");
    }
}
