//! Fleets as people describe them in a file: regions, nodes, keys, traffic, what goes wrong, and what is expected
//! of the figures. Run with the real engines beside a perfect limiter and beside a simpler one that the scenario
//! names, on the same requests.
//!
//! Reads no file and no clock: a text goes in, figures come out.

mod course;
mod figures;
mod known;
mod layered;
mod perfect;
pub mod plan;
mod quotas;
mod read;
mod rules;
mod run;
mod tally;
mod traffic;

pub use figures::{Figure, FigureVerdict};
pub use known::{KNOWN, known};
pub use plan::Plan;
pub use read::{PlanError, read};
pub use run::{FleetReport, Progress, Series, run};
