//! Regions that agree through a world store, driven by hand: real engines, real workers, stores in memory, and a
//! clock that the test moves. What goes wrong with counts between regions goes wrong here first.

mod counts;
mod failures;
mod regions;
