//! The engine of a node.

pub mod clock;
