//! Regions that agree through a real database: real processes, each region with a Redis of its own.
//!
//! Every test has servers and nodes of its own, on ports of its own. Nothing here waits without a deadline. What
//! is a matter of logic is tested in `crates/node/tests/world`, with a clock that the test moves.

mod agreement;
mod loss;
mod outage;
mod quotas;
mod regions;
mod secret;
mod strangers;
mod tls;

#[allow(dead_code, reason = "the tests of one region use the rest of it")]
#[path = "../region/fleet.rs"]
mod fleet;
#[allow(dead_code, reason = "the tests of one process use the rest of it")]
#[path = "../process/support.rs"]
mod support;
