//! A descriptor's `rate_limit`: what it allows, and what it is called.

use super::unit::EnvoyUnit;
use crate::rule::Rule;

#[derive(Debug)]
pub struct EnvoyLimit {
    /// The limit in the engine's terms. Its `key` names the descriptor's keys, and its `when` is empty: that it
    /// applies is what the tree found out. Where all is allowed, its numbers mean nothing.
    pub rule: Rule,
    pub allowance: Allowance,
    /// What others may replace it by.
    pub name: Option<Box<str>>,
    /// Names of limits that don't count in a request that meets this one.
    pub replaces: Box<[Box<str>]>,
    /// Counted and reported, never denied.
    pub shadow: bool,
    /// Denies only together with every other limit of the request that has it.
    pub quota: bool,
    /// Metrics have the values of all entries, whatever matched them.
    pub detailed_metric: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Allowance {
    Unlimited,
    Limited { requests_per_unit: u32, unit: EnvoyUnit },
}
