//! Forward-auth as a proxy sees it.

use crate::client::Reply;
use crate::node::Node;
use tidegate_server::ForwardAuth;

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
async fn namespace_and_cost_of_the_query_are_final() {
    let node = Node::with_rules(RULES).await;
    let hostile = ["X-Tidegate-User: 1", "X-Tidegate-Namespace: nope", "X-Tidegate-Cost: 0"];
    let reply = ask(&node, "/auth?namespace=api&cost=2", &hostile).await;
    assert_eq!((reply.status, reply.header("x-ratelimit-remaining")), (204, Some("0")));
    let reply = ask(&node, "/auth?namespace=api", &hostile).await;
    assert_eq!(reply.status, 429, "a cost of 0 in a header would only peek");
    // Where the query names none, a header counts only if the operator accepts it: this node's doesn't.
    let reply = ask(&node, "/auth", &["X-Tidegate-User: 2", "X-Tidegate-Namespace: api"]).await;
    assert_eq!(reply.status, 429);
    assert!(reply.text().contains("forward_auth.accept"), "{}", reply.text());
}

#[tokio::test]
async fn headers_name_namespace_and_cost_where_the_operator_accepts_them() {
    let accepted = ForwardAuth::parse_accepted("user, namespace, cost").unwrap();
    let node = Node::with_forward_auth(RULES, ForwardAuth { accepted, mapped: Vec::new() }).await;
    let headers = ["X-Tidegate-User: 1", "X-Tidegate-Namespace: api", "X-Tidegate-Cost: 2"];
    let reply = ask(&node, "/auth", &headers).await;
    assert_eq!((reply.status, reply.header("x-ratelimit-remaining")), (204, Some("0")));
}

#[tokio::test]
async fn only_attributes_that_the_operator_names_count() {
    let node = Node::with_rules(RULES).await;
    // The setting accepts user and ip; X-User is mapped to `user`, and the proxy's own header wins.
    let reply = ask(&node, "/auth?namespace=api", &["X-User: 3"]).await;
    assert_eq!(reply.header("x-ratelimit-remaining"), Some("1"));
    let reply = ask(&node, "/auth?namespace=api", &["X-User: 3", "X-Tidegate-User: 4"]).await;
    assert_eq!(reply.header("x-ratelimit-remaining"), Some("1"));
    // The query replaces the setting: an attribute that it doesn't name is a caller's.
    let headers = ["X-Tidegate-User: 5", "X-Tidegate-Ip: 192.0.2.1"];
    let reply = ask(&node, "/auth?namespace=api&attributes=ip", &headers).await;
    assert_eq!(reply.header("ratelimit-policy"), Some("\"per-ip\";q=5"));
    let reply = ask(&node, "/auth?namespace=api&attributes=", &headers).await;
    assert_eq!((reply.status, reply.header("ratelimit-policy")), (204, None), "no rule has no attribute");
}

#[tokio::test]
async fn a_node_that_accepts_no_attribute_denies_and_names_the_setting() {
    let node = Node::with_forward_auth(RULES, ForwardAuth::default()).await;
    let reply = ask(&node, "/auth?namespace=api", &["X-Tidegate-User: 1"]).await;
    assert_eq!(reply.status, 429);
    assert!(reply.text().contains("forward_auth.accept"), "{}", reply.text());
    let reply = ask(&node, "/auth?namespace=api&attributes=user", &["X-Tidegate-User: 1"]).await;
    assert_eq!((reply.status, reply.header("x-ratelimit-remaining")), (204, Some("1")));
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
async fn a_question_that_cannot_be_judged_is_denied_and_charges_nothing() {
    let node = Node::with_rules(RULES).await;
    let wrong: [(&str, &[&str], &str); 11] = [
        ("/auth", &[], "namespace"),
        ("/auth?namespace=", &[], "namespace"),
        ("/auth?namespace=api&user=1", &[], "X-Tidegate-<name>"),
        ("/auth?namespace=api&cost=-1", &["X-Tidegate-User: 1"], "whole number"),
        ("/auth?namespace=api&cost=1.5", &["X-Tidegate-User: 1"], "whole number"),
        ("/auth?namespace=api", &["X-Tidegate-User: 1", "X-Tidegate-User: 2"], "comes twice"),
        ("/auth?namespace=api", &["X-User: 1", "X-User: 2"], "comes twice"),
        ("/auth?namespace=api&namespace=nope", &["X-Tidegate-User: 1"], "twice"),
        ("/auth?namespace=api&attributes=User", &["X-Tidegate-User: 1"], "lower case"),
        ("/auth?namespace=api&attributes=cost", &["X-Tidegate-User: 1"], "lower case"),
        ("/auth?namespace=api&cost=bad", &["X-Tidegate-User: 1"], "whole number"),
    ];
    for (target, headers, part) in wrong {
        let reply = ask(&node, target, headers).await;
        assert_eq!(reply.status, 429, "{target} {headers:?}");
        assert!(reply.text().contains(part), "{target} {headers:?}: {}", reply.text());
    }
    assert_eq!(node.key_count().await, 0);
}

#[tokio::test]
async fn a_long_value_is_counted_like_any_other() {
    let node = Node::with_rules(RULES).await;
    let long = format!("X-Tidegate-User: {}", "x".repeat(9000));
    for status in [204, 204, 429] {
        assert_eq!(ask(&node, "/auth?namespace=api", &[&long]).await.status, status);
    }
}
