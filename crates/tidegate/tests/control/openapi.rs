//! The control plane's OpenAPI document against the control plane and the broker that serve it.

use crate::scene::Server;
use crate::support::request;
use crate::{RULES, ready};
use std::path::Path;
use tidegate_testkit::schemathesis;

/// Whether these take something is a matter of rules, callers and versions, which no schema describes.
const MEANINGFUL: &str = "^/v1/(rules|overrides|rules/(import|restore|rollback|reset))$";
/// Those, and what waits, which is asked for below.
const OTHERS: &str = "^/v1/(rules|overrides|rules/(watch|import|restore|rollback|reset))$";

fn check(server: &Server, arguments: &[&str]) {
    let hooks = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/process");
    let document = format!("{}/openapi.json", server.url());
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let found = schemathesis(&document, &server.url(), &hooks, directory, arguments);
    found.unwrap_or_else(|found| panic!("{found}"));
}

#[test]
fn every_answer_is_as_the_document_says() {
    let server = ready(Server::control());
    let version = server.push(RULES);
    let (status, watched) = request(&server.address, "GET", "/v1/rules/watch?after=0", "");
    assert_eq!((status, watched["entries"][0]["version"].as_u64()), (200, Some(version)));
    check(&server, &["--exclude-path-regex", OTHERS]);
    check(&server, &["--include-path-regex", MEANINGFUL, "--exclude-checks", "positive_data_acceptance"]);
    assert_eq!(request(&server.address, "GET", "/readyz", "").0, 200, "it lived through all of it");
}

#[test]
fn a_broker_serves_the_same_document() {
    let control = ready(Server::control());
    let broker = Server::broker(&[&control]);
    let [described, handed_on] = [&control, &broker].map(|server| server.get("/openapi.json"));
    assert_eq!(described["info"]["title"], "Tidegate control plane");
    assert_eq!(described, handed_on);
}
