//! What operators watch: the metrics of real nodes, the documents and files that are about them, and promtool's opinion
//! of all of it.
//!
//! Every test has servers and nodes of its own, on ports of its own. Nothing here waits without a deadline.

mod exposed;
mod files;
mod pages;
mod scrape;
mod series;
mod table;

#[allow(dead_code, reason = "the tests of the rules use the rest of it")]
#[path = "../rules_control/scene.rs"]
mod scene;
#[allow(dead_code, reason = "the tests of one process use the rest of it")]
#[path = "../process/support.rs"]
mod support;

use std::future::Future;

/// Runs what testkit does to its end.
fn wait_for<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// A file of the repository.
fn read(path: &str) -> String {
    let path = repository(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn repository(path: &str) -> String {
    format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"))
}
