//! Rules of a control plane in real processes: control plane, brokers and nodes, on ports of their own.
//!
//! Nothing here waits without a deadline. What is a matter of logic is tested in `crates/control/src/stream`, with a
//! clock that the test moves; the targets are measured by `cargo bench -p tidegate --bench rules`.

mod changes;
mod outage;
mod peers;
mod reach;
mod refusals;
mod require;
mod resets;
#[allow(dead_code, reason = "the tests of the control plane use the rest of it")]
mod scene;
mod unkey;
mod why;

#[allow(dead_code, reason = "the tests of one process use the rest of it")]
#[path = "../process/support.rs"]
mod support;
