//! Unkey's overrides: set, found, listed, deleted, and in force from the next request on.

use crate::node::Node;
use crate::unkey::{check, data, error};
use serde_json::{Value, json};

fn setting(identifier: &str, limit: u64) -> Value {
    json!({"namespace": "api", "identifier": identifier, "limit": limit, "duration": 60_000})
}

fn named(identifier: &str) -> Value {
    json!({"namespace": "api", "identifier": identifier})
}

async fn set(node: &Node, identifier: &str, limit: u64) -> String {
    let answer = data(node, "setOverride", setting(identifier, limit)).await;
    assert_eq!(answer.as_object().unwrap().len(), 1, "{answer}");
    answer["overrideId"].as_str().unwrap().to_owned()
}

/// gubernator's scenario: 100, then 10, then 200, while it is in use.
#[tokio::test]
async fn a_changed_number_applies_to_what_was_already_admitted() {
    let node = Node::start().await;
    assert_eq!(data(&node, "limit", check("u", 100, 5)).await["remaining"], 95);
    let id = set(&node, "u", 10).await;
    let told = data(&node, "limit", check("u", 100, 1)).await;
    assert_eq!(
        (&told["limit"], &told["remaining"], &told["overrideId"]),
        (&json!(10), &json!(4), &json!(id))
    );
    assert_eq!(data(&node, "limit", check("u", 100, 5)).await["success"], false, "6 of 10 are used");
    assert_eq!(data(&node, "limit", check("u", 100, 4)).await["remaining"], 0);
    assert_eq!(set(&node, "u", 200).await, id, "set again, it keeps its id");
    let told = data(&node, "limit", check("u", 100, 1)).await;
    assert_eq!((&told["success"], &told["remaining"]), (&json!(true), &json!(189)));
    assert_eq!(data(&node, "deleteOverride", named("u")).await, json!({}));
    let told = data(&node, "limit", check("u", 100, 1)).await;
    assert_eq!((&told["limit"], &told["remaining"]), (&json!(100), &json!(88)));
    assert!(told.get("overrideId").is_none(), "{told}");
}

#[tokio::test]
async fn a_wildcard_applies_to_whom_it_fits_and_the_most_specific_one_wins() {
    let node = Node::start().await;
    let limits = [("*", 50), ("premium_*", 60), ("premium_eu_*", 70), ("premium_eu_7", 80)];
    for (identifier, limit) in limits {
        set(&node, identifier, limit).await;
    }
    for (identifier, limit) in
        [("anybody", 50), ("premium_us_1", 60), ("premium_eu_1", 70), ("premium_eu_7", 80)]
    {
        assert_eq!(data(&node, "limit", check(identifier, 1, 1)).await["limit"], limit, "{identifier}");
    }
    let both = data(&node, "multiLimit", json!([check("premium_us_2", 1, 9), check("x", 1, 9)])).await;
    assert_eq!((&both["passed"], &both["limits"][0]["remaining"]), (&json!(true), &json!(51)));
    assert!(both["limits"][1]["overrideId"].is_string(), "{both}");
}

#[tokio::test]
async fn zero_blocks_and_one_that_was_deleted_can_be_set_again() {
    let node = Node::start().await;
    let id = set(&node, "mallory", 0).await;
    let blocked = data(&node, "limit", check("mallory", 100, 1)).await;
    assert_eq!((&blocked["success"], &blocked["limit"]), (&json!(false), &json!(0)), "{blocked}");
    data(&node, "deleteOverride", named("mallory")).await;
    assert_eq!(data(&node, "limit", check("mallory", 100, 1)).await["success"], true);
    assert_ne!(set(&node, "mallory", 0).await, id);
    assert_eq!(data(&node, "limit", check("mallory", 100, 1)).await["success"], false);
}

#[tokio::test]
async fn an_override_with_another_duration_counts_for_itself() {
    let node = Node::start().await;
    data(&node, "limit", check("u", 5, 5)).await;
    let hour = json!({"namespace": "api", "identifier": "u", "limit": 5, "duration": 3_600_000});
    data(&node, "setOverride", hour).await;
    assert_eq!(data(&node, "limit", check("u", 5, 2)).await["remaining"], 3);
    data(&node, "deleteOverride", named("u")).await;
    assert_eq!(data(&node, "limit", check("u", 5, 1)).await["success"], false, "the minute is still used up");
}

#[tokio::test]
async fn one_is_got_by_its_identifier_or_its_id_and_what_is_unknown_is_not_found() {
    let node = Node::start().await;
    let id = set(&node, "vip_*", 7).await;
    let whole = json!({"overrideId": id, "identifier": "vip_*", "limit": 7, "duration": 60_000});
    assert_eq!(data(&node, "getOverride", named("vip_*")).await, whole);
    assert_eq!(data(&node, "getOverride", named(&id)).await, whole);
    for (operation, identifier) in [
        ("getOverride", "vip_1"),
        ("getOverride", "other"),
        ("deleteOverride", "vip_1"),
        ("deleteOverride", &id),
    ] {
        let missing = error(&node, operation, named(identifier)).await;
        assert_eq!((&missing["status"], &missing["title"]), (&json!(404), &json!("Not Found")));
        let kind = "https://unkey.com/docs/errors/unkey/data/ratelimit_override_not_found";
        assert_eq!(missing["type"], kind, "{operation} {identifier}");
    }
    let elsewhere = json!({"namespace": "other", "identifier": "vip_*"});
    assert_eq!(error(&node, "getOverride", elsewhere).await["status"], 404);
}

#[tokio::test]
async fn a_list_comes_in_pages() {
    let node = Node::start().await;
    for number in 0..25 {
        set(&node, &format!("u{number:02}"), number).await;
    }
    let mut names = Vec::new();
    let mut body = json!({"namespace": "api", "limit": 10});
    let mut sizes = Vec::new();
    loop {
        let reply = crate::unkey::post(&node, "listOverrides", &body).await.json();
        let page = reply["data"].as_array().unwrap();
        sizes.push(page.len());
        names.extend(page.iter().map(|one| one["identifier"].as_str().unwrap().to_owned()));
        let pagination = &reply["pagination"];
        assert_eq!(pagination["hasMore"].as_bool(), Some(pagination["cursor"].is_string()), "{reply}");
        if pagination["hasMore"] == false {
            break;
        }
        body["cursor"] = pagination["cursor"].clone();
    }
    assert_eq!(sizes, [10, 10, 5]);
    assert_eq!(names, (0..25).map(|number| format!("u{number:02}")).collect::<Vec<_>>());
    let none = data(&node, "listOverrides", json!({"namespace": "empty"})).await;
    assert_eq!(none, json!([]));
}

#[tokio::test]
async fn changes_that_come_together_are_all_made() {
    let node = Node::start().await;
    let names: Vec<String> = (0..40).map(|number| format!("u{number}")).collect();
    let setting = names.iter().map(|name| set(&node, name, 3));
    let mut tasks: Vec<_> = setting.map(Box::pin).collect();
    std::future::poll_fn(|context| {
        tasks.retain_mut(|task| std::future::Future::poll(task.as_mut(), context).is_pending());
        if tasks.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    for name in &names {
        assert_eq!(data(&node, "limit", check(name, 100, 1)).await["limit"], 3, "{name}");
    }
}
