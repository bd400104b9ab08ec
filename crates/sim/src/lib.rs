//! A region: many real engines, one real store, and a simulated network, clock and bad luck
//! between them. And many regions with the world store between them (`world.rs`).
//!
//! A second driver of the node's logic, beside `crates/node/src/region_driver.rs`: it does what that one does,
//! but on simulated time, and knows the truth, so that every step is compared with it. Everything follows from
//! a seed: it must never read a clock, or depend on the order of a hash map or of threads (which only large fleets
//! have, one for each region: `world/ahead.rs`).

mod alone;
pub mod arrivals;
pub mod chaos;
mod checks;
pub mod coverage;
mod fault;
pub mod file;
pub mod fired;
pub mod fleet;
pub mod ledger;
mod line;
pub mod load;
mod network;
mod node;
mod oracle;
mod origin;
mod queue;
mod random;
pub mod ruled;
pub mod scenario;
pub mod seeds;
mod simulation;
pub mod spread;
pub mod streams;
pub mod swarm;
mod trace;
mod truth;
pub mod world;

pub use alone::admitted_alone;
pub use fault::Fault;
pub use ledger::{Admission, KeyLedger};
pub use network::{Latency, NetworkOptions, Odds};
pub use random::Random;
pub use scenario::{Arrival, KeyPlan, LimitUse, Scenario, Template};
pub use simulation::{ExchangeNote, RequestResult, Simulation};
pub use trace::AnswerPath;
pub use world::WorldSimulation;

use tidegate_core::Nanos;

/// When a scenario's traffic usually begins: the start of a cell for every period that divides an hour.
pub const START: Nanos = Nanos::from_secs(1_800_000_000);
/// Nodes boot so long before that: they know of each other when traffic comes.
pub const BOOTED_BEFORE: Nanos = Nanos::from_secs(2);
