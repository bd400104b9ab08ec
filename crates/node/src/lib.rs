//! The engine of a node: what turns a request into decisions, and what runs behind them.
//!
//! The hot path is a plain call with the moment as an argument. The drivers and `snapshot.rs` alone own timers
//! and files; `clock.rs` alone reads the time.

pub mod clock;
mod denial_predictor;
pub mod driver;
pub mod engine;
pub mod files;
pub mod histogram;
pub mod hot;
pub mod journal;
pub mod known_nodes;
mod plan;
pub mod quota;
pub mod region;
pub mod region_driver;
pub mod request;
pub mod rule_counts;
pub mod rules_driver;
pub mod shadow;
pub mod sharing;
pub mod snapshot;
pub mod spans;
pub mod stats;
pub mod top;
pub mod unknown_namespaces;
pub mod world;
pub mod world_driver;

pub use engine::{
    DecideOutcome, Engine, EngineOptions, PendingDecision, ResetKey, RulesInForce, Tally, VersionedRules,
};
pub use request::{
    Answer, DecisionPath, Descriptor, GivenLimit, GivenPolicy, LimitAnswer, LimitOutcome, LimitSource,
    Purpose, Reason, Request, RequestError, Subject,
};
