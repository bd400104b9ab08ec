//! A set of domains, as of one reading of its files. Never changes, like a [`crate::RuleSet`].

use super::descriptor::Level;
use super::read;
use super::unit::{EnvoyUnit, Windows};
use crate::error::{RuleErrors, Warning};
use crate::parse::tree::SourcePosition;
use crate::source::Source;
use std::sync::Arc;
use tidegate_core::{FleetSecret, KeyPrefix};

/// Stands for a rule's name in the keys of all limits of a domain, since a descriptor alone names its caller. No
/// rule's name has a control character.
const MARK: &str = "\u{1}envoy";

#[derive(Clone, Copy, Debug)]
pub struct EnvoyOptions<'a> {
    pub secret: &'a FleetSecret,
    /// Whose domains they are.
    pub tenant: &'a str,
    pub windows: Windows,
}

#[derive(Debug, Default)]
pub struct EnvoyRules {
    /// By name.
    domains: Vec<Domain>,
    tenant: Box<str>,
    windows: Windows,
    limits: usize,
    warnings: Vec<Warning>,
}

#[derive(Debug)]
pub(crate) struct Domain {
    pub(crate) name: Arc<str>,
    pub(crate) prefixes: Prefixes,
    pub(crate) top: Level,
    pub(crate) file: Arc<str>,
    pub(crate) place: SourcePosition,
}

/// What the keys of a domain's limits begin with, for each unit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prefixes([KeyPrefix; EnvoyUnit::ALL.len()]);

impl Prefixes {
    pub(crate) fn new(options: &EnvoyOptions<'_>, domain: &str) -> Self {
        Prefixes(EnvoyUnit::ALL.map(|unit| {
            let policy = options.windows.policy(0, unit);
            KeyPrefix::new(options.secret, options.tenant, domain, MARK, policy.shape())
        }))
    }

    pub(crate) fn of(&self, unit: EnvoyUnit) -> &KeyPrefix {
        &self.0[unit.index()]
    }
}

impl EnvoyRules {
    /// Reads a set, or says everything that is wrong with it.
    pub fn parse(sources: &[Source], options: &EnvoyOptions<'_>) -> Result<Self, RuleErrors> {
        Self::parse_all(&sources.iter().collect::<Vec<_>>(), options)
    }

    pub(crate) fn parse_all(sources: &[&Source], options: &EnvoyOptions<'_>) -> Result<Self, RuleErrors> {
        let (mut domains, limits, warnings) = read::read_domains(sources, options)?;
        domains.sort_by(|a, b| a.name.cmp(&b.name));
        let tenant = options.tenant.into();
        Ok(EnvoyRules { domains, tenant, windows: options.windows, limits, warnings })
    }

    pub(crate) fn domain(&self, name: &str) -> Option<&Domain> {
        let found = self.domains.binary_search_by(|domain| (*domain.name).cmp(name));
        found.ok().map(|position| &self.domains[position])
    }

    pub fn has_domain(&self, name: &str) -> bool {
        self.domain(name).is_some()
    }

    pub(crate) fn domains(&self) -> &[Domain] {
        &self.domains
    }

    /// In the order of the alphabet.
    pub fn domain_names(&self) -> impl Iterator<Item = &str> {
        self.domains.iter().map(|domain| &*domain.name)
    }

    /// Whose domains they are.
    pub fn tenant(&self) -> &str {
        &self.tenant
    }

    pub fn windows(&self) -> Windows {
        self.windows
    }

    /// How many descriptors have a `rate_limit`.
    pub fn limit_count(&self) -> usize {
        self.limits
    }

    /// What is valid and most likely not meant.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }
}
