//! Connections: pipelined, half-closed, and ended by a shutdown.

use crate::client::post_bytes;
use crate::node::{NO_RULES, Node};
use serde_json::json;
use std::time::Duration;

fn limit_body(identifier: &str) -> String {
    json!({"namespace": "n", "identifier": identifier, "limit": 1000, "duration_ms": 1000}).to_string()
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let node = Node::start().await;
    let mut client = node.client().await;
    let requests: Vec<u8> = (0..200)
        .flat_map(|index| post_bytes("/v1/limit", limit_body(&format!("i{index}")).as_bytes()))
        .collect();
    client.send(&requests).await;
    for index in 0..200 {
        let reply = client.reply().await;
        assert_eq!(reply.json()["limits"][0]["identifier"], format!("i{index}"));
    }
}

#[tokio::test]
async fn an_answer_does_not_wait_for_the_rest_of_the_next_request() {
    let node = Node::start().await;
    let mut client = node.client().await;
    let first = post_bytes("/v1/limit", limit_body("first").as_bytes());
    let second = post_bytes("/v1/limit", limit_body("second").as_bytes());
    client.send(&[&first, &second[..30]].concat()).await;
    assert_eq!(client.reply().await.json()["limits"][0]["identifier"], "first");
    client.send(&second[30..]).await;
    assert_eq!(client.reply().await.json()["limits"][0]["identifier"], "second");
}

#[tokio::test]
async fn a_client_that_closes_its_half_still_gets_its_answer() {
    let node = Node::start().await;
    let mut client = node.client().await;
    client.send(&post_bytes("/v1/limit", limit_body("i").as_bytes())).await;
    client.close_write().await;
    assert_eq!(client.reply().await.status, 200);
    assert!(client.is_closed().await);
}

#[tokio::test]
async fn a_body_may_come_in_chunks() {
    let node = Node::start().await;
    let mut client = node.client().await;
    client.send(b"POST /v1/limit HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n").await;
    for piece in limit_body("i").as_bytes().chunks(7) {
        client.send(format!("{:x}\r\n", piece.len()).as_bytes()).await;
        client.send(piece).await;
        client.send(b"\r\n").await;
    }
    client.send(b"0\r\n\r\n").await;
    assert_eq!(client.reply().await.status, 200);
}

/// Sends all of a request but its body, and waits until the server has begun to answer it.
async fn begin_request(client: &mut crate::client::Client, body: &str) {
    let head = format!(
        "POST /v1/limit HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    client.send(head.as_bytes()).await;
    assert_eq!(client.head().await.expect("the server asks for the body").status, 100);
}

#[tokio::test]
async fn a_shutdown_ends_idle_connections_and_answers_what_is_in_flight() {
    let node = Node::start().await;
    let (mut idle, mut used, mut busy) = (node.client().await, node.client().await, node.client().await);
    assert_eq!(used.get("/healthz").await.status, 200);
    let body = limit_body("i");
    begin_request(&mut busy, &body).await;
    node.stop.send(true).unwrap();
    assert!(used.is_closed().await, "a connection between requests ends at once");
    assert!(idle.is_closed().await, "a connection before its first request ends at once");
    busy.send(body.as_bytes()).await;
    let reply = busy.reply().await;
    assert_eq!((reply.status, &reply.json()["allowed"]), (200, &json!(true)));
    assert!(busy.is_closed().await);
    for listener in node.listeners {
        listener.await.unwrap();
    }
}

#[tokio::test]
async fn a_shutdown_cuts_what_is_still_busy_after_the_drain() {
    let node = Node::with_drain(NO_RULES, Duration::ZERO).await;
    let mut busy = node.client().await;
    begin_request(&mut busy, &limit_body("i")).await;
    node.stop.send(true).unwrap();
    for listener in node.listeners {
        listener.await.unwrap();
    }
    assert!(busy.is_closed().await);
}
