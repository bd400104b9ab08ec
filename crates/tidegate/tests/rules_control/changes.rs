//! A limit that is changed under load: what was admitted before still counts.

use crate::scene::{Follower, Server};
use crate::support::{CHECK, request};
use std::time::{Duration, Instant};

/// The short form of target 8, which `cargo bench --bench rules` measures.
#[test]
#[expect(clippy::disallowed_methods, reason = "another process can't be given a clock")]
fn a_changed_rate_is_admitted_soon_and_no_more() {
    let rules = |rate: u32| {
        format!(
            "namespace: api\nrules:\n  - {{ name: per-user, key: [user], rate: {rate}/s, burst: {rate} }}\n"
        )
    };
    let control = Server::control();
    let node = Follower::start(&[&control], &[]);
    node.wait_version(control.push(&rules(20)));
    let admitted_in = |length: Duration| {
        let (began, mut admitted) = (Instant::now(), 0);
        while began.elapsed() < length {
            admitted += u32::from(request(&node.node.http, "POST", "/v1/check", CHECK).1["allowed"] == true);
        }
        f64::from(admitted) / began.elapsed().as_secs_f64()
    };
    admitted_in(Duration::from_secs(2));
    for rate in [60, 10] {
        node.wait_version(control.push(&rules(rate)));
        // A raised burst is a little more to spend, once.
        admitted_in(Duration::from_secs(1));
        let admitted = admitted_in(Duration::from_secs(3));
        let ratio = admitted / f64::from(rate);
        assert!((0.8..=1.2).contains(&ratio), "{rate}/s: {admitted} a second were admitted");
    }
}
