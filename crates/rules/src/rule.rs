//! A rule: a template that makes one limit per caller.
//!
//! Made only by reading a rules file, so one that exists is valid and belongs to a set.

use crate::attributes::Attributes;
use crate::condition::Conditions;
use crate::form::{Forms, Value};
use crate::identifier::{Identifier, KeyPart};
use crate::overrides::Lookup;
use crate::policy::Policy;
use crate::series::SeriesSlot;
use crate::shown::shown;
use std::fmt;
use std::sync::Arc;
use tidegate_core::{Accuracy, Charge, Class, KeyId, KeyPrefix};

/// Whether a namespace's, or the fleet's, rules deny.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Mode {
    #[default]
    Enforce,
    /// Counted and reported, never denied.
    Shadow,
    /// As if there were no rules.
    Off,
}

/// Over what a limit counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    Region,
    World,
}

/// What a rule does with a request that lacks an attribute of its `key` or `when`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnMissing {
    #[default]
    Skip,
    Deny,
}

/// Which of a rule's decisions are written to the decision log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogSampling {
    /// All of them, or none.
    pub denials: bool,
    /// One in so many requests that pass; 0: none.
    pub admissions_one_in: u32,
}

impl LogSampling {
    pub(crate) const ONE_IN_MAX: u32 = 1_000_000;
}

impl Default for LogSampling {
    fn default() -> Self {
        LogSampling { denials: true, admissions_one_in: 1000 }
    }
}

/// The rule's place in its file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Declaration {
    pub file: Arc<str>,
    pub line: u32,
}

impl fmt::Display for Declaration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

#[derive(Debug)]
pub struct Rule {
    pub name: Arc<str>,
    pub tenant: Arc<str>,
    pub namespace: Arc<str>,
    pub description: Option<Box<str>>,
    /// The attributes that name a caller, in order; none: one counter for all.
    pub key: Box<[KeyPart]>,
    pub policy: Policy,
    pub class: Class,
    pub accuracy: Accuracy,
    /// `None`: world where a world store is configured, region elsewhere.
    pub scope: Option<Scope>,
    /// Counted and reported, never denied.
    pub shadow: bool,
    pub on_missing: OnMissing,
    pub charge: Charge,
    pub log: LogSampling,
    pub declared: Declaration,
    /// The part of the identity that all callers share.
    pub prefix: KeyPrefix,
    /// Stands in for callers that get no entry in a full table. No caller has it.
    pub overflow_key: KeyId,
    /// Where its decisions are counted.
    pub series: SeriesSlot,
    pub(crate) when: Conditions,
    /// Of its namespace.
    pub(crate) forms: Arc<Forms>,
    /// `None`: it can't have overrides.
    pub(crate) lookup: Option<Lookup>,
}

impl Rule {
    /// Who a request is limited as, for people: the values of the key's attributes.
    pub fn shown_identifier(&self, attributes: Attributes<'_>) -> String {
        self.forms.with(attributes, |values| {
            let mut identifier = Identifier::new();
            // What is missing isn't shown: such a request isn't limited by this rule.
            let _ = identifier.fill(&self.key, values);
            identifier.parts().iter().map(|part| shown(part.as_str())).collect::<Vec<_>>().join(", ")
        })
    }

    /// Whether the rule takes the values of a request as they are written.
    pub fn takes_values_as_written(&self) -> bool {
        self.forms.0.is_empty()
    }

    /// The first attribute of the rule's `when` or `key` that should be an address and isn't, in a request that the
    /// rule applies to. For those who describe decisions.
    pub fn malformed(&self, attributes: Attributes<'_>) -> Option<&str> {
        self.forms.with(attributes, |values| {
            let conditions = self.when.0.iter().map(|condition| &*condition.attribute);
            let mut named = conditions.chain(self.key.iter().map(|part| &*part.attribute));
            named.find(|attribute| matches!(values.get(attribute), Some(Value::Malformed(_))))
        })
    }

    /// Whether a malformed value denies: whoever guards against abuse, or wants its attributes, wants true ones.
    pub(crate) fn denies_malformed(&self) -> bool {
        self.class == Class::Abuse || self.on_missing == OnMissing::Deny
    }
}
