//! The settings of the world tier: which store, when a region publishes, how often it looks.

use super::parse::Refusal;
use std::fmt;
use std::ops::RangeInclusive;
use tidegate_core::Nanos;
use tidegate_world::{PublishPolicy, PublishThreshold, WorldUrl};

pub(super) const INTERVAL_MS: RangeInclusive<u64> = 250..=60_000;
/// Thousandths: what is less isn't told apart.
const FLOOR: RangeInclusive<f64> = 0.001..=1.0;

#[derive(Debug, Clone)]
pub(crate) struct WorldSettings {
    /// `None`: this region is alone.
    pub(crate) url: Option<WorldUrl>,
    pub(super) policy: PolicyWord,
    pub(super) floor: f64,
    pub(super) interval: Nanos,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PolicyWord {
    Headroom,
    Floor,
}

impl Default for WorldSettings {
    fn default() -> Self {
        WorldSettings { url: None, policy: PolicyWord::Headroom, floor: 0.5, interval: Nanos::from_secs(5) }
    }
}

impl WorldSettings {
    pub(crate) fn policy(&self) -> PublishPolicy {
        let publish = match self.policy {
            PolicyWord::Headroom => PublishThreshold::Headroom,
            PolicyWord::Floor => PublishThreshold::Floor(self.floor),
        };
        PublishPolicy { publish, interval: self.interval }
    }

    /// Without a password.
    pub(crate) fn shown_url(&self) -> String {
        self.url.as_ref().map_or_else(|| "none:".to_owned(), ToString::to_string)
    }
}

impl fmt::Display for PolicyWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PolicyWord::Headroom => "headroom",
            PolicyWord::Floor => "floor",
        })
    }
}

pub(super) fn url(text: &str) -> Result<Option<WorldUrl>, Refusal> {
    if text == "none:" {
        return Ok(None);
    }
    // The error names the part that is wrong, and never a password.
    WorldUrl::parse(text).map(Some).map_err(|error| Refusal::new(error.message(), error.fix()))
}

/// Of what must be somewhere.
pub(super) fn store(text: &str) -> Result<WorldUrl, Refusal> {
    WorldUrl::parse(text).map_err(|error| Refusal::new(error.message(), error.fix()))
}

pub(super) fn policy(text: &str) -> Result<PolicyWord, Refusal> {
    match text {
        "headroom" => Ok(PolicyWord::Headroom),
        "floor" => Ok(PolicyWord::Floor),
        _ => Err(Refusal::new("isn't a policy", "write headroom or floor")),
    }
}

pub(super) fn floor(text: &str) -> Result<f64, Refusal> {
    let number = text.parse::<f64>().ok().filter(|number| FLOOR.contains(number));
    number
        .ok_or_else(|| Refusal::new("isn't a part of a limit", "write a number from 0.001 to 1, such as 0.5"))
}
