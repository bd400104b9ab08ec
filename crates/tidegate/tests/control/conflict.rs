//! Two control planes over one database.

use crate::scene::Server;
use crate::support::{Directory, request};
use crate::{RULES, done, ready, tidegate};
use serde_json::{Value, json};
use tidegate_testkit::{MariaDb, Postgres};

fn push(server: &Server, version: u64, limit: u64) -> (u16, Value) {
    let text = RULES.replace("100 per 1m", &format!("{limit} per 1m"));
    let body =
        json!({ "files": [{ "name": "rules.yaml", "text": text }], "if_version": version, "author": "me" });
    request(&server.address, "POST", "/v1/rules", &body.to_string())
}

/// One wins, the other gets a conflict with the diff; round after round.
fn compete(one: &Server, two: &Server) {
    assert_eq!(push(one, 0, 1).0, 200);
    for version in 1..=10 {
        let (first, second) = std::thread::scope(|scope| {
            let first = scope.spawn(|| push(one, version, 2 * version + 10));
            let second = scope.spawn(|| push(two, version, 2 * version + 11));
            (first.join().unwrap(), second.join().unwrap())
        });
        let (won, lost) = if first.0 == 200 { (first, second) } else { (second, first) };
        assert_eq!((won.0, lost.0), (200, 409), "{} {}", won.1, lost.1);
        assert_eq!(won.1["version"], version + 1);
        let error = &lost.1["error"];
        assert_eq!((&error["code"], &error["version"]), (&json!("conflict"), &json!(version + 1)), "{error}");
        assert_eq!(error["lines"], won.1["lines"], "what it lost to");
        assert_eq!(error["history"][0]["author"], "me");
        assert!(error["fix"].as_str().unwrap().contains("push again"), "{error}");
    }
    for server in [one, two] {
        let history = server.get("/v1/rules/history?limit=100");
        let versions: Vec<u64> = history["history"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| entry["version"].as_u64().unwrap())
            .collect();
        assert_eq!(versions, (1..=11).rev().collect::<Vec<_>>(), "no gap and no double");
    }
}

#[test]
fn of_two_pushes_at_once_one_wins_and_the_other_sees_the_diff_on_sqlite() {
    let shared = Directory::new();
    let url = format!("sqlite:{}", shared.path("rules.db").display());
    let [one, two] = [(); 2].map(|()| ready(Server::with_store(&url)));
    compete(&one, &two);
    let directory = Directory::new();
    directory.write("rules.yaml", RULES);
    let late = tidegate(&directory, &two, &["rules", "push", "rules.yaml", "--yes", "--if-version", "10"]);
    assert_eq!(late.code, Some(1), "{}", late.stderr);
    for words in ["the rules are at version 11, not 10", "since version 10 this has changed", "counts stay"] {
        assert!(late.stderr.contains(words), "{words}: {}", late.stderr);
    }
    done(&directory, &two, &["rules", "push", "rules.yaml", "--yes", "--if-version", "11"]);
}

#[test]
fn the_same_on_mariadb() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let database = runtime.block_on(MariaDb::shared());
    database.create_database("rules_conflict");
    let [one, two] = [(); 2].map(|()| ready(Server::with_store(&database.url("rules_conflict"))));
    compete(&one, &two);
}

#[test]
fn the_same_on_postgresql() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let database = runtime.block_on(Postgres::shared());
    database.create_database("rules_conflict");
    let [one, two] = [(); 2].map(|()| ready(Server::with_store(&database.url("rules_conflict"))));
    compete(&one, &two);
}
