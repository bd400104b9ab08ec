//! What repeats, written once per segment: whose rule it is, and which address a shard has.
//!
//! A rule's entry has what a caller's key is made of, but for the fleet's secret: who has that can find a caller's
//! records in files alone.

use tidegate_core::CalendarUnit;
use tidegate_core::identity::Shape;
use tidegate_core::{FleetSecret, KeyPrefix, Nanos, Period};

/// The longest text of an entry, in bytes; what is longer is cut off.
pub(crate) const TEXT_MAX: usize = 512;
/// The most parts of a rule's key.
pub(crate) const PARTS_MAX: usize = 16;

/// What of an algorithm belongs to a key's identity, as it is kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Algorithm {
    Gcra,
    Sliding(Period),
    Fixed(Period),
    Calendar { unit: CalendarUnit, time_zone: String },
}

impl Algorithm {
    pub fn of(shape: Shape<'_>) -> Self {
        match shape {
            Shape::Gcra => Algorithm::Gcra,
            Shape::Sliding(period) => Algorithm::Sliding(period),
            Shape::Fixed(period) => Algorithm::Fixed(period),
            Shape::Calendar { unit, time_zone } => {
                Algorithm::Calendar { unit, time_zone: time_zone.to_owned() }
            }
        }
    }

    pub fn shape(&self) -> Shape<'_> {
        match self {
            Algorithm::Gcra => Shape::Gcra,
            Algorithm::Sliding(period) => Shape::Sliding(*period),
            Algorithm::Fixed(period) => Shape::Fixed(*period),
            Algorithm::Calendar { unit, time_zone } => Shape::Calendar { unit: *unit, time_zone },
        }
    }

    /// How long a changed number or clock may still be felt.
    pub(crate) fn memory(&self) -> Nanos {
        match self {
            Algorithm::Gcra => Nanos::from_secs(60),
            Algorithm::Sliding(period) | Algorithm::Fixed(period) => {
                period.length().plus(period.length()).max(Nanos::from_secs(60))
            }
            Algorithm::Calendar { .. } => Nanos::from_secs(31 * 86_400),
        }
    }
}

/// What a caller's key is made of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KeyForm {
    /// The values of these attributes, in order, as a rule's `key` names them: `user`, `ip/64`.
    Attributes(Vec<String>),
    /// The identifier that the request itself gives.
    Identifier,
    /// Names and values of the request's entries, in their order: Envoy's descriptors.
    Entries,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RuleName {
    pub tenant: String,
    pub namespace: String,
    /// Empty for limits that requests give themselves.
    pub rule: String,
    pub algorithm: Algorithm,
    pub key: KeyForm,
}

impl RuleName {
    /// The part of the identity that all callers share.
    pub fn prefix(&self, secret: &FleetSecret) -> KeyPrefix {
        KeyPrefix::new(secret, &self.tenant, &self.namespace, &self.rule, self.algorithm.shape())
    }

    /// Whether people call it, or its namespace, so: `per-user`, `api`, `api/per-user` or `default/api/per-user`.
    pub fn is_called(&self, name: &str) -> bool {
        let RuleName { tenant, namespace, rule, .. } = self;
        let whole = format!("{tenant}/{namespace}/{rule}");
        let whole = whole.trim_end_matches('/');
        (name == rule && !rule.is_empty())
            || name == namespace
            || name == whole
            || whole.strip_prefix(&format!("{tenant}/")) == Some(name)
    }

    /// By which events name it.
    pub fn subject(&self) -> String {
        rule_subject(&self.tenant, &self.namespace, &self.rule)
    }
}

/// A rule's name in an event.
pub fn rule_subject(tenant: &str, namespace: &str, rule: &str) -> String {
    format!("{tenant}/{namespace}/{rule}")
}
