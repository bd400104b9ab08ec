//! Forward-auth as a proxy sees it.

use crate::client::Reply;
use crate::node::Node;

const RULES: &str = r#"
namespace: api
rules:
  - { name: per-user, key: [user], limit: 2 per 1m }
  - { name: per-ip, key: [ip], rate: 5/s, burst: 5 }
  - { name: trial, key: [user], limit: 1 per 1m, shadow: true }
"#;

async fn ask(node: &Node, target: &str, headers: &[&str]) -> Reply {
    let mut client = node.client().await;
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    client.send(format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n").as_bytes()).await;
    client.reply().await
}

#[tokio::test]
async fn passes_with_204_and_denies_with_429() {
    let node = Node::with_rules(RULES).await;
    for remaining in ["1", "0"] {
        let reply = ask(&node, "/auth?namespace=api", &["X-Tidegate-User: 42"]).await;
        assert_eq!((reply.status, reply.text().as_str()), (204, ""));
        assert_eq!(reply.header("x-ratelimit-limit"), Some("2"));
        assert_eq!(reply.header("x-ratelimit-remaining"), Some(remaining));
        assert_eq!(reply.header("retry-after"), None);
        assert!(reply.header("x-request-id").is_some());
    }
    let reply = ask(&node, "/auth?namespace=api", &["X-Tidegate-User: 42"]).await;
    assert_eq!(reply.status, 429);
    let (reset, retry) = (reply.header("x-ratelimit-reset").unwrap(), reply.header("retry-after").unwrap());
    assert_eq!(reply.header("ratelimit"), Some(format!("\"per-user\";r=0;t={reset}").as_str()));
    assert_eq!(reply.header("ratelimit-policy"), Some("\"per-user\";q=2;w=60"));
    // Whoever waits so long passes.
    node.advance_ms(1000 * retry.parse::<u64>().unwrap());
    let reply = ask(&node, "/auth?namespace=api", &["X-Tidegate-User: 42"]).await;
    assert_eq!(reply.status, 204);
}

#[tokio::test]
async fn the_strictest_limit_comes_first_and_a_shadow_is_not_told() {
    let node = Node::with_rules(RULES).await;
    let headers = ["X-Tidegate-User: 7", "X-Tidegate-Ip: 192.0.2.1"];
    let reply = ask(&node, "/auth?namespace=api", &headers).await;
    assert_eq!(reply.header("ratelimit-policy"), Some("\"per-user\";q=2;w=60, \"per-ip\";q=5"));
    assert_eq!(reply.header("x-ratelimit-limit"), Some("2"));
}

#[tokio::test]
async fn namespace_and_cost_come_from_query_or_headers_and_attributes_from_mapped_headers_too() {
    let node = Node::with_rules(RULES).await;
    let reply = ask(&node, "/auth?namespace=api&cost=2", &["X-Tidegate-User: 1"]).await;
    assert_eq!((reply.status, reply.header("x-ratelimit-remaining")), (204, Some("0")));
    let headers = ["X-Tidegate-Namespace: api", "X-Tidegate-Cost: 0", "X-Tidegate-User: 2"];
    let reply = ask(&node, "/auth?namespace=other", &headers).await;
    assert_eq!((reply.status, reply.header("x-ratelimit-remaining")), (204, Some("2")));
    // The node's setting maps `user` to X-User; what the proxy says itself wins.
    let reply = ask(&node, "/auth?namespace=api", &["X-User: 3"]).await;
    assert_eq!(reply.header("x-ratelimit-remaining"), Some("1"));
    let reply = ask(&node, "/auth?namespace=api", &["X-User: 3", "X-Tidegate-User: 4"]).await;
    assert_eq!(reply.header("x-ratelimit-remaining"), Some("1"));
}

#[tokio::test]
async fn what_no_rule_limits_passes_without_headers() {
    let node = Node::with_rules(RULES).await;
    for (target, headers) in
        [("/auth?namespace=unknown", &["X-Tidegate-User: 1"][..]), ("/auth?namespace=api", &[])]
    {
        let reply = ask(&node, target, headers).await;
        assert_eq!((reply.status, reply.header("x-ratelimit-limit")), (204, None));
    }
}

#[tokio::test]
async fn wrong_questions_are_400_and_charge_nothing() {
    let node = Node::with_rules(RULES).await;
    let long = format!("X-Tidegate-User: {}", "x".repeat(513));
    let wrong: [(&str, &[&str], &str); 8] = [
        ("/auth", &[], "namespace"),
        ("/auth?namespace=", &[], "namespace"),
        ("/auth?namespace=api&user=1", &[], "X-Tidegate-<name>"),
        ("/auth?namespace=api&cost=-1", &["X-Tidegate-User: 1"], "whole number"),
        ("/auth?namespace=api&cost=1.5", &["X-Tidegate-User: 1"], "whole number"),
        ("/auth?namespace=api", &["X-Tidegate-User: 1", "X-Tidegate-User: 2"], "comes twice"),
        ("/auth?namespace=api", &["X-User: 1", "X-User: 2"], "comes twice"),
        ("/auth?namespace=api", &[&long], "512"),
    ];
    for (target, headers, part) in wrong {
        let reply = ask(&node, target, headers).await;
        assert_eq!(reply.status, 400, "{target} {headers:?}");
        assert!(reply.text().contains(part), "{target} {headers:?}: {}", reply.text());
    }
    assert_eq!(node.key_count().await, 0);
}
