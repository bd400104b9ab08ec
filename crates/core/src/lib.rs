//! The pure heart of Tidegate: what a limit is, what it admits, and the table that holds the counts.
//!
//! Nothing here reads a clock, touches a file or a socket, spawns a thread or knows a wire format: time
//! and input are arguments, decisions are return values. `docs/algorithms.md` defines what is computed.

pub mod ask;
pub mod batch;
pub mod calendar;
pub mod counts;
pub mod decision;
pub mod demand;
pub mod exchange;
pub mod gcra;
pub mod gcra_sync;
pub mod heavy;
pub mod identity;
pub mod item;
pub mod limit;
pub mod local;
pub mod origin_cell;
mod packed;
pub mod shared;
pub mod sip;
pub mod slice;
pub mod state;
mod sync;
pub mod table;
pub mod tier_counts;
pub mod time;
pub mod window;
pub mod world;

pub use ask::{Accuracy, Class};
pub use batch::{Decisions, Outcome, Undecided};
pub use calendar::{Calendar, CalendarUnit};
pub use decision::{Decision, Verdict};
pub use identity::{FleetSecret, KeyId, KeyPrefix, StoredSecret, TenantTag};
pub use item::{Charge, Item, Role, Room};
pub use limit::{Burst, Cost, Limit, OutOfRange, Rate, Spec};
pub use local::LocalState;
pub use shared::{SharedState, is_leasable};
pub use slice::SliceSize;
pub use table::Table;
pub use tier_counts::TierCounts;
pub use time::{Cell, ClockStep, Moment, Nanos, Period, Sequence, StepId};
pub use world::{CellId, WorldPolicy, WorldView};
