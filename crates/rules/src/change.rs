//! Changes of the rules: what a control plane logs, sends and takes back.
//!
//! Rules are few and are changed a namespace at a time, as the text that people wrote; overrides are millions and
//! are changed one at a time. A [`Delta`] is what one push changed: all of it applies, or none.

mod format;

use crate::bounds::KEY_PARTS_MAX;
use crate::bytes::{DecodeError, check_name, check_part};
use crate::overrides::Override;
use crate::rule::Mode;
use std::fmt;
use std::sync::Arc;

pub(crate) use format::claimed_version;
pub use format::{DELTA_BYTES_MAX, DELTA_CHANGES_MAX, DeltaError};

/// Which override: of which rule, for which caller. No two of a set have the same.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OverrideName {
    pub tenant: Arc<str>,
    pub namespace: Arc<str>,
    pub rule: Arc<str>,
    /// For each part of the rule's `key` the text to match, `*` patterns as they were written. Addresses of a
    /// grouped part are given as their group.
    pub parts: Box<[Box<str>]>,
}

impl OverrideName {
    /// Whether it names one caller, not a pattern of them.
    pub fn is_exact(&self) -> bool {
        self.parts.iter().all(|part| !part.contains('*'))
    }

    /// Whether every text is one that a rules file could have.
    pub fn check(&self) -> Result<(), DecodeError> {
        [&self.tenant, &self.namespace, &self.rule].into_iter().try_for_each(|name| check_name(name))?;
        if self.parts.len() > KEY_PARTS_MAX {
            return Err(DecodeError("a caller has too many parts"));
        }
        self.parts.iter().try_for_each(|part| check_part(part))
    }
}

/// `acme/api/per-user [alice, /search]`, for people.
impl fmt::Display for OverrideName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{} [{}]", self.tenant, self.namespace, self.rule, self.parts.join(", "))
    }
}

/// Which document: the rules of a namespace (or a domain of envoyproxy/ratelimit).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DocumentName {
    pub tenant: Arc<str>,
    pub namespace: Arc<str>,
}

impl DocumentName {
    pub fn check(&self) -> Result<(), DecodeError> {
        check_name(&self.tenant)?;
        check_name(&self.namespace)
    }
}

impl fmt::Display for DocumentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.tenant, self.namespace)
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RuleChange {
    /// The namespace's rules as the YAML of a rules file, without overrides; `None` when it is gone.
    Document {
        name: DocumentName,
        text: Option<Arc<str>>,
    },
    /// `None` when it is gone.
    Override {
        name: OverrideName,
        value: Option<Override>,
    },
    FleetMode(Mode),
    /// The caller starts afresh: its key moves on to this epoch, where it is below it.
    Reset {
        name: OverrideName,
        epoch: u32,
    },
}

/// What one push changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delta {
    /// That the rules have once it is applied: one more than before.
    pub version: u64,
    pub changes: Vec<RuleChange>,
}
