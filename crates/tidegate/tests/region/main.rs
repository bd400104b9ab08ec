//! Nodes that agree through a real Redis, and don't care when it dies: real processes on both sides.
//!
//! Every test has servers and nodes of its own, on ports of its own. Nothing here waits without a deadline, and
//! nothing depends on how fast the machine is but where a test says so, generously. Counts are exact where the
//! design says that they are.

mod agreement;
mod alone;
mod clocks;
mod cluster;
mod ending;
mod fleet;
mod forgetting;
mod free_in_outage;
mod incident;
mod load;
mod lowered;
mod membership;
mod moving;
mod outage;
mod owners;
mod poison;
mod reasons;
mod recovery;
mod refusing;
mod resp;
mod secret;
mod several_limits;
mod slots;
mod store;
mod telemetry;
mod transports;

#[allow(dead_code, reason = "the tests of one process use the rest of it")]
#[path = "../process/support.rs"]
mod support;
mod why;
