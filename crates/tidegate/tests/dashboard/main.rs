//! The dashboard in a real browser, Debian's Chromium, on a real node: what it shows, by clicking and by keyboard.
//!
//! The scripts beside this file drive it (playwright-core) and look for barriers (axe-core); each says "fine" or what
//! wasn't. Needs `chromium`, `node` and `npm`; `cargo xtask test` installs them.

#[allow(dead_code, reason = "the tests of the stream use the rest of it")]
#[path = "../rules_control/scene.rs"]
mod scene;
#[allow(dead_code, reason = "the tests of one process use the rest of it")]
#[path = "../process/support.rs"]
mod support;

use scene::{Follower, Server};
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use support::{CHECK, Directory, Node, request, request_with, rules_of, run};
use tidegate_testkit::{Redis, browser_for_node};

const RULES: &str = "namespace: api\nrules:\n  - name: per-user\n    key: [user]\n    limit: 100 per 1m\n";

/// A browser takes all of a small machine: one at a time.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs what testkit does to its end.
fn wait_for<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

fn script(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dashboard");
    ["browser.mjs", name].map(|name| std::fs::read_to_string(folder.join(name)).unwrap()).concat()
}

/// Runs a script on a node's page to its end.
fn browse(name: &str, node: &Node, more: &[&str]) {
    let admin = format!("http://{}", node.admin);
    let mut command = Command::new("node");
    // As text: packages are looked for where it runs, not where it is kept.
    command.args(["--input-type=module", "--eval", &script(name), "--", &admin]).args(more);
    let output = command.current_dir(browser_for_node().unwrap()).output().expect("node is installed");
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    println!("{complained}");
    assert_eq!(said, "fine\n", "{complained}");
}

#[test]
fn an_operator_sees_what_happens_and_why() {
    let _alone = alone();
    let directory = Directory::new();
    directory.write("rules.yaml", rules_of(5));
    let node = Node::start(&directory, &[]);
    browse("page.mjs", &node, &[&node.url()]);
}

#[test]
fn rules_are_changed_from_the_page() {
    let _alone = alone();
    let control = Server::control();
    let version = control.push(RULES);
    let follower = Follower::start(&[&control], &[]);
    follower.wait_version(version);
    browse("editor.mjs", &follower.node, &[&follower.node.url(), &control.url()]);
}

#[test]
fn the_page_asks_for_a_token_and_keeps_to_it() {
    let _alone = alone();
    let directory = Directory::new();
    let path = directory.path("tokens.toml").display().to_string();
    let make = |tenant: &str, permissions: &str| {
        let arguments =
            ["token", "new", "--auth-tokens", &path, "--tenant", tenant, "--permissions", permissions];
        run(&directory, &arguments, &[]).stdout.trim().to_owned()
    };
    let [reader, admin, tenant] =
        [("default", "read"), ("default", "admin"), ("acme", "read")].map(|(tenant, may)| make(tenant, may));
    let control = Server::with_tokens(&path);
    let body = serde_json::json!({ "files": [{ "name": "rules.yaml", "text": RULES }] }).to_string();
    support::poll("the first rules", support::SOON, || {
        let header = format!("Authorization: Bearer {admin}\r\n");
        request_with(&control.address, "POST /v1/rules", &header, &body)
            .starts_with("HTTP/1.1 200")
            .then_some(())
    });
    let flags = ["--auth-tokens", path.as_str(), "--rules-control", &control.url()];
    let node = Node::start_with(&directory, &flags, &[("TIDEGATE_TOKEN", reader.as_str())]);
    browse("token.mjs", &node, &[&reader, &admin, &tenant]);
}

#[test]
fn regions_their_lag_and_parts_of_limits_are_shown() {
    let _alone = alone();
    let world = Directory::new();
    let url = format!("sqlite:{}", world.path("world.db").display());
    let start = |name: &str| {
        let directory = Directory::new();
        let redis = wait_for(Redis::start());
        let flags = ["--region", name, "--world-url", &url, "--world-interval-ms", "1000"];
        let node = Node::start(&directory, &[&flags[..], &["--origin-url", &redis.url()]].concat());
        (node, directory, redis)
    };
    let (here, there) = (start("here"), start("there"));
    browse("world.mjs", &here.0, &[&here.0.url(), &there.0.url()]);
}

#[test]
fn a_store_that_dies_is_shown_as_unavailable() {
    let _alone = alone();
    let directory = Directory::new();
    directory.write("rules.yaml", rules_of(5));
    let redis = wait_for(Redis::start());
    let node = Node::start(&directory, &["--origin-url", &redis.url()]);
    browse("store.mjs", &node, &[&node.url(), &redis.url()]);
}

/// With `TIDEGATE_PICTURES`, a folder, they are left there: see `cargo xtask pictures`.
#[test]
fn the_pictures_of_the_docs_can_be_made() {
    const PICTURED: &str = "namespace: api
rules:
  - { name: per-user, key: [user], rate: 5/s, burst: 10 }
  - { name: search, key: [user], when: { endpoint: \"/search*\" }, limit: 60 per 1m, accuracy: exact }
  - { name: login, key: [user], when: { endpoint: /login }, limit: 20 per 1m, class: abuse }
  - { name: orders-trial, key: [user], when: { endpoint: /orders }, limit: 100 per 1m, shadow: true }
overrides:
  - { rule: per-user, user: \"acme-*\", rate: 50/s }
  - { rule: per-user, user: status-page, unlimited: true }
  - { rule: login, user: eve, limit: 0, until: 2099-01-01T00:00:00Z }
";
    let _alone = alone();
    let folder = std::env::var("TIDEGATE_PICTURES").ok();
    let seconds = if folder.is_some() { "90" } else { "3" };
    let unkept = Directory::new();
    let folder = folder.unwrap_or_else(|| unkept.path("").display().to_string());
    let control = Server::control();
    let version = control.push(PICTURED);
    let redis = wait_for(Redis::start());
    let flags = [
        "--origin-url",
        &redis.url(),
        "--node",
        "edge-1",
        "--region",
        "eu-west",
        "--log-identifiers",
        "plain",
    ];
    let follower = Follower::start(&[&control], &flags);
    follower.wait_version(version);
    browse("pictures.mjs", &follower.node, &[&follower.node.url(), &redis.url(), &folder, seconds]);
}

/// What the node holds, in KiB.
fn resident(node: &Node) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", node.process.0.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn an_hour_open_grows_neither_the_page_nor_the_node() {
    let _alone = alone();
    let directory = Directory::new();
    directory.write("rules.yaml", rules_of(5));
    let node = Node::start(&directory, &[]);
    node.allowed(20, CHECK);
    for _ in 0..200 {
        for path in ["/v1/state", "/v1/top", "/v1/history"] {
            assert_eq!(request(&node.admin, "GET", path, "").0, 200);
        }
    }
    let before = resident(&node);
    browse("growth.mjs", &node, &[]);
    let after = resident(&node);
    println!("the node held {before} KiB, and {after} KiB after an hour's looks");
    assert!(after <= before + 12 * 1024, "{before} KiB became {after} KiB");
}
