//! What a node says of a database on another machine that offers no TLS, or that can't prove who it is.

use crate::fleet::{Member, PATIENT, wait_for};
use crate::regions::{JOINED_WITHIN, world_of};
use crate::support::{Directory, poll};
use std::net::SocketAddr;
use tidegate_testkit::MariaDb;

/// By an address of this machine that isn't loopback.
fn node(address: SocketAddr, name: &str) -> Member {
    let url = format!("mysql://root@0.0.0.0:{}/{name}", address.port());
    let arguments = ["--region", "here", "--world-url", &url, "--world-interval-ms", "1000"];
    Member::start_in(Directory::new(), &[&arguments[..], &PATIENT].concat())
}

#[test]
fn a_database_without_tls_is_warned_of_once() {
    let server = wait_for(MariaDb::shared());
    server.create_database("without_tls");
    let node = node(server.address(), "without_tls");
    poll("a region", JOINED_WITHIN, || (world_of(&node)["regions_sharing"] == 1).then_some(()));
    let log = node.log();
    assert_eq!(log.matches("the database offers no TLS").count(), 1, "{log}");
    assert!(log.contains("ssl-mode=VERIFY_IDENTITY"), "{log}");
}

#[test]
fn a_database_that_cannot_prove_who_it_is_is_not_used() {
    let server = wait_for(MariaDb::start_with_tls());
    server.create_database("unproven");
    let node = node(server.address(), "unproven");
    node.wait_logged("the database's certificate can't be verified");
    assert!(node.log().contains("ssl-ca=FILE"), "{}", node.log());
    assert_eq!(server.query("unproven", "SHOW TABLES"), [[""; 0]; 0], "nobody logged in");
}
