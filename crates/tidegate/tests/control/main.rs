//! The control plane as its users meet it: real processes over a real database, and the commands that ask them.
//!
//! What a change means and who may make it is tested in `crates/control/tests/plane`, without processes; how rules
//! reach nodes in `tests/rules_control`.

mod backup;
mod commands;
mod conflict;
mod openapi;
mod page;
mod shadow;
mod tenants;
mod wrong_requests;

#[allow(dead_code, reason = "the tests of the stream use the rest of it")]
#[path = "../rules_control/scene.rs"]
mod scene;
#[allow(dead_code, reason = "the tests of one process use the rest of it")]
#[path = "../process/support.rs"]
mod support;

use scene::Server;
use std::process::{Command, Stdio};
use support::{Directory, Finished, SOON, poll, request};

pub(crate) const RULES: &str = "\
# Limits of the api
namespace: api
rules:
  - { name: per-user, key: [user], limit: 100 per 1m }
overrides:
  - { rule: per-user, user: 'acme-*', limit: 1000 }
  - { rule: per-user, user: mallory, limit: 0 }
";

/// A command to its end, in a directory, about this control plane.
pub(crate) fn tidegate(directory: &Directory, server: &Server, arguments: &[&str]) -> Finished {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.current_dir(directory.path("")).env_clear().env("USER", "alice").args(arguments);
    command.env("TIDEGATE_CONTROL_LISTEN", &server.address).stdin(Stdio::null());
    let output = command.output().expect("the binary");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    Finished { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// The same for what must work: what it printed.
pub(crate) fn done(directory: &Directory, server: &Server, arguments: &[&str]) -> String {
    let Finished { code, stdout, stderr } = tidegate(directory, server, arguments);
    assert_eq!(code, Some(0), "{arguments:?}: {stdout}{stderr}");
    stdout
}

/// A control plane that has reached its store.
pub(crate) fn ready(server: Server) -> Server {
    poll("the store", SOON, || (request(&server.address, "GET", "/readyz", "").0 == 200).then_some(()));
    server
}
