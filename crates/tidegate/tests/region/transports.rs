//! Every way to a Redis: TLS, a user and a password, a Unix socket, an old version. No password is ever told.

use crate::fleet::{Algorithm, Limit, Member, PATIENT, fleet, wait_for};
use crate::load::drain;
use crate::support::{Directory, SOON, poll, run};
use tidegate_testkit::{Redis, RedisBinary};

const PASSWORD: &str = "correct-horse-battery";

/// Two nodes agree there, by every algorithm.
fn two_nodes_agree(url: &str) -> Vec<Member> {
    let nodes = fleet(url, 2, &[&PATIENT[..], &["--log-level", "trace"]].concat());
    for algorithm in [Algorithm::Sliding, Algorithm::Fixed, Algorithm::Gcra] {
        let limit = Limit::strict("reached", 20).algorithm(algorithm);
        let turns: u64 = (0..5).map(|turn| u64::from(nodes[turn % 2].ask(&limit).is_allowed())).sum();
        assert_eq!(turns + drain(&nodes, &limit), 20, "{algorithm:?}");
    }
    nodes
}

#[test]
fn nodes_agree_over_tls() {
    let redis = wait_for(Redis::options().tls().start());
    let authority = redis.authority_path();
    two_nodes_agree(&format!("{}?ca={}", redis.url(), authority.display()));
}

#[test]
fn a_server_that_cannot_be_verified_is_not_trusted() {
    let redis = wait_for(Redis::options().tls().start());
    let node = Member::start(&redis.url(), &[]);
    node.wait_logged("not connected");
    let answer = node.ask(&Limit::new("alone", 10));
    assert!(answer.is_allowed() && answer.is_unverified(), "{}", answer.body);
}

#[test]
fn nodes_agree_through_a_unix_socket() {
    let redis = wait_for(Redis::start());
    two_nodes_agree(&format!("redis+unix://{}", redis.unix_path().display()));
}

#[test]
fn nodes_agree_through_redis_6_2() {
    let redis = wait_for(Redis::options().binary(RedisBinary::V6_2).start());
    two_nodes_agree(&redis.url());
}

#[test]
fn nodes_agree_with_a_user_and_a_password_that_are_never_told() {
    let redis = wait_for(Redis::options().user("tide", PASSWORD).start());
    let url = format!("redis://tide:{PASSWORD}@{}", redis.address());
    let nodes = two_nodes_agree(&url);
    for node in &nodes {
        assert!(node.node.banner.contains("tide:***@"), "{}", node.node.banner);
        assert_untold(&format!("{}{}{}", node.node.banner, node.log(), node.node.state()));
    }
    let printed = run(&Directory::new(), &["serve", "--print-config", "--origin-url", &url], &[]);
    assert_eq!(printed.code, Some(0), "{}", printed.stderr);
    assert_untold(&(printed.stdout + &printed.stderr));
}

#[test]
fn a_wrong_password_is_told_of_and_not_told() {
    let redis = wait_for(Redis::options().password("another").start());
    let address = redis.address().to_string();
    let url = format!("redis://:{PASSWORD}@{address}");
    let node = Member::start(&url, &["--log-level", "trace"]);
    node.wait_logged("authentication failed");
    let limit = Limit::new("alone", 1000).exact();
    poll("an open breaker", SOON, || {
        assert!(node.ask(&limit).is_allowed());
        (node.is_open(&address) == Some(true)).then_some(())
    });
    assert_untold(&format!("{}{}{}", node.node.banner, node.log(), node.node.state()));
}

fn assert_untold(text: &str) {
    assert!(!text.contains(PASSWORD), "{text}");
}
