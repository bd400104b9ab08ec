//! Overrides: other numbers for one caller, or for those whose names match a pattern.
//!
//! One override applies to a caller, never a mix of several: the exact one, else the pattern with the most
//! literal characters, else the one whose text comes first, else the one that was written first. One that
//! has ended doesn't count. An exact one is found by a hash of the caller, among what was changed lately and in the
//! rules file, so there may be millions of them; patterns are found by what is literal in them.

mod collected;
mod cow_map;
mod in_force;
mod index;
mod pattern_cost;
mod patterns;

pub(crate) use collected::Collected;
pub(crate) use in_force::{Lookup, Overrides};
pub(crate) use pattern_cost::PatternCost;

use crate::identifier::PartValue;
use crate::pattern::Pattern;
use tidegate_core::{Burst, Limit, Nanos, Rate};

/// What an override does to the limit of its rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OverrideEffect {
    /// The rule's own numbers: the override only marks.
    Keep,
    Unlimited,
    Limit(Limit),
    Rate {
        rate: Rate,
        burst: Burst,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Override {
    pub change: OverrideEffect,
    pub hot: bool,
    /// The first instant at which it no longer counts; [`Nanos::MAX`] when it never ends.
    pub until: Nanos,
}

impl Override {
    pub(crate) const NOTHING: Override =
        Override { change: OverrideEffect::Keep, hot: false, until: Nanos::ZERO };

    pub(crate) fn is_live(&self, now: Nanos) -> bool {
        now < self.until
    }
}

/// What an override asks of one part of the identifier.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum PartMatch {
    Anything,
    Exact(Box<str>),
    Pattern(Pattern),
}

impl PartMatch {
    /// As a text of an [`crate::OverrideName`] means it.
    pub(crate) fn of_text(text: &str) -> Self {
        match Pattern::new(text) {
            Some(_) if text == "*" => PartMatch::Anything,
            Some(pattern) => PartMatch::Pattern(pattern),
            None => PartMatch::Exact(text.into()),
        }
    }

    fn matches(&self, value: &PartValue<'_>) -> bool {
        match self {
            PartMatch::Anything => true,
            PartMatch::Exact(exact) => **exact == *value.as_str(),
            PartMatch::Pattern(pattern) => pattern.matches(value.as_str()),
        }
    }

    fn literal_chars(&self) -> usize {
        match self {
            PartMatch::Anything => 0,
            PartMatch::Exact(exact) => exact.chars().count(),
            PartMatch::Pattern(pattern) => pattern.literal_chars(),
        }
    }

    pub(crate) fn text(&self) -> &str {
        match self {
            PartMatch::Anything => "*",
            PartMatch::Exact(exact) => exact,
            PartMatch::Pattern(pattern) => pattern.text(),
        }
    }
}
