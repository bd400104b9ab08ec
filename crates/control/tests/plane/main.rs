//! The control plane over a store in memory: what is refused, what is logged, and what everybody hears.
//!
//! Time is paused: nothing here waits for a clock.

mod changes;
mod history;
mod round_trip;
mod several;
mod support;
mod tenants;
