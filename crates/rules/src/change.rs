//! Changes of the rules: what a control plane logs, sends and takes back.
//!
//! Rules are few and are changed a namespace at a time, as the text that people wrote; overrides are millions and
//! are changed one at a time. A [`Delta`] is what one push changed: all of it applies, or none.

use crate::overrides::Override;
use crate::rule::Mode;
use std::sync::Arc;

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

/// Which document: the rules of a namespace (or a domain of envoyproxy/ratelimit).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DocumentName {
    pub tenant: Arc<str>,
    pub namespace: Arc<str>,
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
