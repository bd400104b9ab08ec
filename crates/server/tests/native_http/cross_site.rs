//! What a browser sends for a page of another site is refused, and changes nothing.

use crate::client::{Client, Reply};
use crate::node::Node;
use std::net::SocketAddr;

const LIMIT: &str = r#"{"namespace":"n","identifier":"i","limit":5,"duration_ms":60000}"#;

/// One request with headers of its own, on a connection of its own.
async fn send(address: SocketAddr, line: &str, headers: &str, body: &str) -> Reply {
    let mut client = Client::connect(address).await;
    let head = format!("{line} HTTP/1.1\r\n{headers}Content-Length: {}\r\n\r\n", body.len());
    client.send((head + body).as_bytes()).await;
    client.reply().await
}

fn assert_refused(reply: &Reply, headers: &str) {
    assert_eq!(reply.status, 403, "{headers}: {}", reply.text());
    let error = &reply.json()["error"];
    assert_eq!(error["code"], "cross_site", "{headers}");
    assert!(error["fix"].as_str().is_some_and(|fix| fix.len() > 5), "{headers}");
}

#[tokio::test]
async fn another_sites_page_can_neither_spend_nor_reset() {
    let node = Node::start().await;
    node.answer("/v1/limit", LIMIT).await;
    let port = node.api.port();
    for headers in [
        format!("Host: 127.0.0.1:{port}\r\nOrigin: https://evil.example\r\n"),
        format!("Host: 127.0.0.1:{port}\r\nOrigin: http://127.0.0.1:3000\r\n"),
        format!("Host: 127.0.0.1:{port}\r\nOrigin: null\r\n"),
        format!("Host: 127.0.0.1:{port}\r\nSec-Fetch-Site: cross-site\r\n"),
    ] {
        for line in ["POST /v1/limit", "POST /v1/reset", "OPTIONS /v1/reset", "GET /healthz"] {
            assert_refused(&send(node.api, line, &headers, LIMIT).await, &headers);
        }
        for line in ["GET /v1/state", "GET /healthz"] {
            assert_refused(&send(node.admin, line, &headers, "").await, &headers);
        }
    }
    let answer = node.answer("/v1/limit", LIMIT).await;
    assert_eq!(answer["limits"][0]["remaining"], 3, "nothing was spent or reset meanwhile");
}

#[tokio::test]
async fn a_name_that_was_pointed_here_cant_read_the_admin_pages() {
    let node = Node::start().await;
    for host in ["evil.example", "evil.example:9090", "localhost.evil.example", ""] {
        let headers = format!("Host: {host}\r\n");
        for path in ["/", "/v1/state", "/v1/rules", "/healthz", "/nowhere"] {
            assert_refused(&send(node.admin, &format!("GET {path}"), &headers, "").await, &headers);
        }
    }
    for host in ["127.0.0.1", "127.0.0.1:9090", "[::1]:9090", "localhost", "localhost:9090"] {
        let reply = send(node.admin, "GET /v1/state", &format!("Host: {host}\r\n"), "").await;
        assert_eq!(reply.status, 200, "{host}");
    }
}

/// `Host` and `Origin` of a page whose site points its own name here are the same name.
#[tokio::test]
async fn a_name_that_was_pointed_here_cant_change_what_others_rely_on() {
    let node = Node::start().await;
    node.answer("/v1/limit", LIMIT).await;
    let set = r#"{"namespace":"n","identifier":"*","limit":0,"duration":60000}"#;
    for headers in
        ["Host: evil.example:8080\r\nOrigin: http://evil.example:8080\r\n", "Host: evil.example\r\n"]
    {
        for (line, body) in [
            ("POST /v1/reset", LIMIT),
            ("POST /v1/report", LIMIT),
            ("POST /v2/ratelimit.setOverride", set),
            ("POST /v2/ratelimit.listOverrides", r#"{"namespace":"n"}"#),
        ] {
            let reply = send(node.api, line, headers, body).await;
            assert_eq!(reply.status, 403, "{line} {headers}: {}", reply.text());
        }
    }
    let rebound = "Host: evil.example:8080\r\nOrigin: http://evil.example:8080\r\n";
    for line in ["POST /v1/limit", "POST /v1/check", "GET /healthz"] {
        assert_refused(&send(node.api, line, rebound, LIMIT).await, rebound);
    }
    let answer = node.answer("/v1/limit", LIMIT).await;
    assert_eq!(answer["limits"][0]["remaining"], 3, "nothing was spent, reset or overridden meanwhile");
}

#[tokio::test]
async fn a_proxy_forwards_a_browsers_host_and_origin_to_forward_auth() {
    let node = Node::start().await;
    for headers in [
        "Host: shop.example\r\nOrigin: https://shop.example\r\n",
        "Host: shop.example\r\nOrigin: https://partner.example\r\nSec-Fetch-Site: cross-site\r\n",
    ] {
        let reply = send(node.api, "GET /auth?namespace=n", headers, "").await;
        assert_ne!(reply.status, 403, "{headers}");
    }
}

#[tokio::test]
async fn its_own_pages_and_whoever_has_no_origin_are_served() {
    let node = Node::start().await;
    for headers in [
        "Host: limits.internal:8080\r\n",
        "Host: 127.0.0.1:8080\r\nOrigin: http://127.0.0.1:8080\r\nSec-Fetch-Site: same-origin\r\n",
        "Host: 127.0.0.1:8080\r\nSec-Fetch-Site: none\r\n",
    ] {
        assert_eq!(send(node.api, "POST /v1/limit", headers, LIMIT).await.status, 200, "{headers}");
    }
    // A probe of HTTP/1.0 has no Host.
    let mut probe = Client::connect(node.admin).await;
    probe.send(b"GET /healthz HTTP/1.0\r\n\r\n").await;
    assert_eq!(probe.reply().await.status, 200);
}
