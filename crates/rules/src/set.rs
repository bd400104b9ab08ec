//! A rule set: all rules of a node, as of one reading of their files.
//!
//! Never changes. A reload makes another and swaps it in whole, so a request sees one set from first to
//! last.

use crate::error::{RuleErrors, Warning};
use crate::parse;
use crate::place::PlaceBy;
use crate::rule::{Mode, Rule};
use crate::source::Source;
use std::sync::Arc;
use tidegate_core::FleetSecret;
use tidegate_core::sip::SipState;

/// The rules of one tenant's namespace.
#[derive(Debug)]
pub struct Namespace {
    pub tenant: Arc<str>,
    pub name: Arc<str>,
    pub mode: Mode,
    /// `None`: every key has a place of its own.
    pub place_by: Option<PlaceBy>,
    /// In the order of the files.
    pub rules: Vec<Rule>,
}

impl Namespace {
    fn full_name(&self) -> (&str, &str) {
        (&self.tenant, &self.name)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    pub namespaces: usize,
    pub rules: usize,
    pub overrides: usize,
}

#[derive(Debug, Default)]
pub struct RuleSet {
    namespaces: Vec<Namespace>,
    /// Positions by tenant and name: bisection needs no joined key and beats hashing two texts.
    by_name: Vec<usize>,
    fleet_mode: Mode,
    fingerprint: u64,
    warnings: Vec<Warning>,
}

impl RuleSet {
    /// No rules: every request is allowed and says so.
    pub fn empty() -> Self {
        RuleSet::default()
    }

    /// Reads a set, or says everything that is wrong with it.
    pub fn parse(sources: &[Source], secret: &FleetSecret) -> Result<Self, RuleErrors> {
        let (namespaces, fleet_mode, warnings) = parse::assemble(sources, secret)?;
        let mut by_name: Vec<usize> = (0..namespaces.len()).collect();
        by_name.sort_by_key(|position| namespaces[*position].full_name());
        Ok(RuleSet { namespaces, by_name, fleet_mode, fingerprint: fingerprint(sources), warnings })
    }

    pub fn namespace(&self, tenant: &str, namespace: &str) -> Option<&Namespace> {
        let full_name = |position: &usize| self.namespaces[*position].full_name();
        let found =
            self.by_name.binary_search_by(|position| full_name(position).cmp(&(tenant, namespace))).ok()?;
        Some(&self.namespaces[self.by_name[found]])
    }

    /// In the order of the files.
    pub fn namespaces(&self) -> &[Namespace] {
        &self.namespaces
    }

    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.namespaces.iter().flat_map(|namespace| &namespace.rules)
    }

    /// Of `fleet_mode`; `enforce` when no file gives it.
    pub fn fleet_mode(&self) -> Mode {
        self.fleet_mode
    }

    /// What is valid and most likely not meant.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    pub fn counts(&self) -> Counts {
        let overrides =
            self.rules().map(Rule::override_counts).map(|(exact, patterns)| exact + patterns).sum();
        Counts { namespaces: self.namespaces.len(), rules: self.rules().count(), overrides }
    }

    /// Equal for equal files (whatever their names and places), on all nodes; 0 for the empty set.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }
}

fn fingerprint(sources: &[Source]) -> u64 {
    let mut state = SipState::new(b"tidegate rules 1");
    for source in sources {
        state.block(u64::try_from(source.text.len()).unwrap_or(u64::MAX));
        for chunk in source.text.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            state.block(u64::from_le_bytes(word));
        }
    }
    u64::try_from(state.finish() >> 64).unwrap_or(0)
}
