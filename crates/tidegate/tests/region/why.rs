//! A store that is away: what it cost callers is found again, with its cause.

use crate::fleet::{Member, wait_for};
use crate::support::{SOON, poll, request};
use tidegate_testkit::Redis;

const RULES: &str =
    "namespace: api\nrules:\n  - { name: logins, key: [user], limit: 100 per 365d, class: abuse }\n";

#[test]
fn a_denial_while_the_store_is_away_names_it() {
    let redis = wait_for(Redis::start());
    let directory = crate::support::Directory::new();
    directory.write("rules.yaml", RULES);
    let address = redis.address().to_string();
    let member = Member::start_in(directory, &["--origin-url", &format!("redis://{address}")]);
    member.wait_joined();
    let answer = |user: usize| {
        let body = format!(r#"{{"namespace":"api","attributes":{{"user":"{user}"}}}}"#);
        request(&member.node.http, "POST", "/v1/check", &body).1
    };
    let check = |user: usize| answer(user)["allowed"] == true;
    redis.kill();
    let mut users = 0..;
    poll("an open breaker", SOON, || {
        users.next().map(check);
        (member.is_open(&address) == Some(true)).then_some(())
    });
    let denied = answer(1_000_000);
    assert_eq!(
        (&denied["allowed"], &denied["reason"]),
        (&false.into(), &"store unavailable".into()),
        "{denied}"
    );
    let decision = poll("the cause", SOON, || {
        let (_, answer) = request(&member.node.admin, "GET", "/v1/why?identifier=1000000", "");
        let decisions = answer["decisions"].as_array()?;
        decisions.iter().find(|decision| decision["cause"] == "store_away").cloned()
    });
    assert_eq!((&decision["path"], &decision["shard"]), (&"unverified".into(), &address.as_str().into()));
    assert_eq!(decision["unwell"][0]["subject"], address.as_str(), "{decision}");
    // Nobody could know when it would have passed.
    assert!(decision["would_pass_at"].is_null(), "{decision}");
    let sentence = decision["sentence"].as_str().unwrap();
    assert!(!sentence.contains("It would have passed"), "{sentence}");
}

/// No breaker has opened yet: that takes calls, and nobody called.
#[test]
fn the_first_denial_of_a_quiet_node_names_the_store_that_is_away() {
    let redis = wait_for(Redis::start());
    let directory = crate::support::Directory::new();
    directory.write("rules.yaml", RULES);
    let address = redis.address().to_string();
    let member = Member::start_in(directory, &["--origin-url", &format!("redis://{address}")]);
    member.wait_joined();
    redis.kill();
    poll("a store that is away", SOON, || {
        (member.origin()["shards"][0]["data"] == "unavailable").then_some(())
    });
    let body = r#"{"namespace":"api","attributes":{"user":"the only one"}}"#;
    let denied = request(&member.node.http, "POST", "/v1/check", body).1;
    assert_eq!(denied["reason"], "store unavailable", "{denied}");
    assert_eq!(member.is_open(&address), Some(false), "one call opens no breaker");
    let sentence = poll("the cause", SOON, || {
        let (_, answer) = request(&member.node.admin, "GET", "/v1/why?rule=logins", "");
        let decision = answer["decisions"].as_array()?.first()?;
        (decision["cause"] == "store_away").then(|| decision["sentence"].as_str().unwrap().to_owned())
    });
    assert!(sentence.contains("because their store was unavailable"), "{sentence}");
}
