//! The pages for the one on call: their commands work on a node that has everything, and their metrics are there.

use crate::scene::{Follower, REACHED_WITHIN, Server};
use crate::scrape::Scrape;
use crate::support::{CHECK, poll, rules_of};
use crate::table::{mentioned, rows};
use crate::{read, repository, wait_for};
use std::path::Path;
use std::process::Command;
use tidegate_testkit::Redis;

fn pages() -> Vec<String> {
    let alerts = std::fs::read_dir(repository("docs/alerts")).unwrap();
    let mut pages: Vec<String> =
        alerts.map(|entry| format!("docs/alerts/{}", entry.unwrap().file_name().to_str().unwrap())).collect();
    pages.push("docs/metrics.md".to_owned());
    pages
}

/// A name may be the beginning of several: `tidegate_keys` for all that is told of keys.
#[test]
fn every_metric_that_a_page_names_is_there() {
    let rows = rows();
    for page in pages() {
        for name in mentioned(&read(&page)) {
            let name = name.trim_end_matches("_bucket");
            assert!(rows.keys().any(|known| known.starts_with(name)), "{page}: {name}");
        }
    }
}

#[test]
fn every_command_of_every_page_works() {
    let redis = wait_for(Redis::start());
    let control = Server::control();
    control.push(&rules_of(3));
    let (url, interval) = (redis.url(), ["--world-interval-ms", "1000"]);
    let world = ["--region", "eu", "--world-url", "sqlite:world.db", "--origin-timeout-ms", "1000"];
    let arguments = [&["--origin-url", &url], &world[..], &interval].concat();
    let follower = Follower::start(&[&control], &arguments);
    follower.wait_version(1);
    poll("a worker, and a request that asked", REACHED_WITHIN, || {
        follower.node.allowed(1, CHECK);
        let scrape = Scrape::of(&follower.node.admin);
        let asked = scrape.sum("tidegate_decisions_total", &[r#"path="cold""#]);
        (scrape.sum("tidegate_world_worker", &[]) == 1.0 && asked >= 1.0).then_some(())
    });
    let binary = Path::new(env!("CARGO_BIN_EXE_tidegate")).parent().unwrap();
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap());
    let mut commands = 0;
    for page in pages() {
        for block in read(&page).split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next()) {
            let line = block
                .replace("127.0.0.1:9090", &follower.node.admin)
                .replace("127.0.0.1:7070", &control.address)
                .replace("-p 6379", &format!("-p {}", redis.address().port()));
            let mut command = Command::new("bash");
            command.args(["-ec", &format!("set -o pipefail\n{line}")]).env("PATH", &path);
            command
                .env("TIDEGATE_LISTEN_ADMIN", &follower.node.admin)
                .current_dir(follower.directory.path(""));
            let output = command.output().expect("bash");
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && !output.stdout.is_empty(), "{page}: {line}{said}");
            commands += 1;
        }
    }
    assert!(commands > 15, "{commands}");
}
