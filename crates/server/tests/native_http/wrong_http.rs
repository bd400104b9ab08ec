//! Wrong HTTP around the body: methods, paths, heads and framing.

use crate::client::{Client, Reply, post_bytes};
use crate::node::Node;
use std::time::Duration;

/// What is sent as it is, and the status and code of the answer.
fn table() -> Vec<(Vec<u8>, u16, &'static str)> {
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: t\r\n\r\n").into_bytes();
    let with_header = |header: &str| {
        format!("POST /v1/limit HTTP/1.1\r\nHost: t\r\n{header}\r\nContent-Length: 0\r\n\r\n").into_bytes()
    };
    let headers: String = (0..70).map(|index| format!("x-{index}: 1\r\n")).collect();
    vec![
        (get("/v1/check"), 405, "wrong_method"),
        (get("/v1/limit"), 405, "wrong_method"),
        (get("/v1/reset"), 405, "wrong_method"),
        (b"OPTIONS /v1/limit HTTP/1.1\r\nHost: t\r\n\r\n".to_vec(), 405, "wrong_method"),
        (b"DELETE /healthz HTTP/1.1\r\nHost: t\r\n\r\n".to_vec(), 405, "wrong_method"),
        (b"BREW /v1/limit HTTP/1.1\r\nHost: t\r\n\r\n".to_vec(), 405, "wrong_method"),
        (post_bytes("/", b"{}"), 405, "wrong_method"),
        (get("/nowhere"), 404, "unknown_path"),
        (get("/v1"), 404, "unknown_path"),
        (get("/v1/state"), 404, "unknown_path"),
        (get("/v1/limit/"), 404, "unknown_path"),
        (get("/v1/%6cimit"), 404, "unknown_path"),
        (post_bytes("/v1/limits", b"{}"), 404, "unknown_path"),
        (post_bytes("/V1/LIMIT", b"{}"), 404, "unknown_path"),
        (post_bytes("/../../etc/passwd", b"{}"), 404, "unknown_path"),
        (get(&format!("/{}", "x".repeat(8000))), 404, "unknown_path"),
        (b"OPTIONS * HTTP/1.1\r\nHost: t\r\n\r\n".to_vec(), 404, "unknown_path"),
        (b"CONNECT a:80 HTTP/1.1\r\nHost: t\r\n\r\n".to_vec(), 404, "unknown_path"),
        (b"nonsense\r\n\r\n".to_vec(), 400, "malformed_http"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a TLS greeting".to_vec(), 400, "malformed_http"),
        (b"GET / HTTP/9.9\r\n\r\n".to_vec(), 400, "malformed_http"),
        (b"GET /a b HTTP/1.1\r\n\r\n".to_vec(), 400, "malformed_http"),
        (with_header("no colon"), 400, "malformed_http"),
        (with_header("Content-Length: -5"), 400, "malformed_http"),
        (with_header("Content-Length: five"), 400, "malformed_http"),
        (with_header("x: \0"), 400, "malformed_http"),
        (with_header(&format!("x: {}", "y".repeat(17 << 10))), 431, "header_too_large"),
        (with_header(&format!("x: {}", "y".repeat(1 << 20))), 431, "header_too_large"),
        (with_header(headers.trim_end()), 431, "header_too_large"),
        (get(&format!("/{}", "x".repeat(17 << 10))), 431, "header_too_large"),
        (
            b"POST /v1/limit HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n".to_vec(),
            400,
            "body_incomplete",
        ),
        (b"POST /v1/limit HTTP/1.1\r\nHost: t\r\n\r\n".to_vec(), 400, "empty_body"),
        (
            b"POST /v1/limit HTTP/1.1\r\nHost: t\r\nContent-Length: 99999999999\r\n\r\n{}".to_vec(),
            413,
            "body_too_large",
        ),
        (oversized_chunks(), 413, "body_too_large"),
    ]
}

fn oversized_chunks() -> Vec<u8> {
    let mut bytes = b"POST /v1/limit HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for _ in 0..40 {
        bytes.extend_from_slice(b"10000\r\n");
        bytes.resize(bytes.len() + 0x10000, b' ');
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"0\r\n\r\n");
    bytes
}

async fn reply_in_time(node: &Node, bytes: &[u8]) -> Reply {
    for _ in 0..3 {
        let mut client = node.client().await;
        let exchange = async {
            client.send(bytes).await;
            client.reply().await
        };
        if let Ok(reply) = tokio::time::timeout(Duration::from_millis(50), exchange).await {
            return reply;
        }
    }
    panic!(
        "no answer within 50 ms, three times: {}",
        String::from_utf8_lossy(&bytes[..bytes.len().min(200)])
    );
}

#[tokio::test]
async fn wrong_http_is_refused_in_json_too() {
    let node = Node::start().await;
    for (bytes, status, code) in table() {
        let reply = reply_in_time(&node, &bytes).await;
        let shown = format!("{}: {}", String::from_utf8_lossy(&bytes[..bytes.len().min(200)]), reply.text());
        assert_eq!(reply.status, status, "{shown}");
        let error = &reply.json()["error"];
        assert_eq!(error["code"], code, "{shown}");
        assert!(error["message"].as_str().is_some_and(|message| message.len() > 10), "{shown}");
        assert!(error["fix"].as_str().is_some_and(|fix| fix.len() > 5), "{shown}");
    }
    assert_eq!(node.key_count().await, 0);
}

#[tokio::test]
async fn a_wrong_method_is_told_the_right_ones() {
    let node = Node::start().await;
    let mut client = node.client().await;
    assert_eq!(client.get("/v1/check").await.header("allow"), Some("POST"));
    assert_eq!(client.post("/healthz", b"{}").await.header("allow"), Some("GET, HEAD"));
    let mut admin = Client::connect(node.admin).await;
    assert_eq!(admin.post("/v1/rules", b"{}").await.header("allow"), Some("GET, HEAD"));
}

#[tokio::test]
async fn too_long_a_first_line_is_told_so() {
    let node = Node::start().await;
    let error = node.client().await.get(&format!("/{}", "x".repeat(17 << 10))).await.json()["error"].clone();
    assert!(error["message"].as_str().unwrap().contains("a longer first line"), "{error}");
}

#[tokio::test]
async fn an_unknown_path_is_told_the_known_ones() {
    let node = Node::start().await;
    let error = node.client().await.get("/v1/chek").await.json()["error"].clone();
    assert!(error["message"].as_str().unwrap().contains("/v1/limit-many"), "{error}");
    assert_eq!(error["fix"], "did you mean `/v1/check`?");
    let error = node.client().await.get("/check").await.json()["error"].clone();
    assert_eq!(error["fix"], "did you mean `/v1/check`?");
    let error = node.get_admin("/v1/stat").await.json()["error"].clone();
    assert!(error["message"].as_str().unwrap().contains("/v1/state"), "{error}");
}

#[tokio::test]
async fn a_refused_body_leaves_the_connection_usable() {
    let node = Node::start().await;
    let mut client = node.client().await;
    for _ in 0..3 {
        assert_eq!(client.post("/v1/limit", b"{").await.status, 400);
    }
    assert_eq!(client.get("/healthz").await.status, 200);
}
