//! A rule set: all rules of a node, as of one reading of their files.
//!
//! Never changes. A reload makes another and swaps it in whole, so a request sees one set from first to
//! last.

use crate::envoy::{EnvoyOptions, EnvoyRules, Windows, is_envoy};
use crate::error::{Problems, RuleError, RuleErrors, Warning, quoted};
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
    /// Domains of files of envoyproxy/ratelimit.
    envoy: EnvoyRules,
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
        Self::parse_as(sources, secret, Windows::Fixed)
    }

    /// The same, with windows of another kind in files of envoyproxy/ratelimit.
    pub fn parse_as(sources: &[Source], secret: &FleetSecret, windows: Windows) -> Result<Self, RuleErrors> {
        Self::parse_listing(sources, secret, windows, None)
    }

    pub(crate) fn parse_listing(
        sources: &[Source],
        secret: &FleetSecret,
        windows: Windows,
        listing: Option<&mut parse::Listing>,
    ) -> Result<Self, RuleErrors> {
        let (theirs, ours): (Vec<&Source>, Vec<&Source>) =
            sources.iter().partition(|source| is_envoy(source));
        let options = EnvoyOptions { secret, tenant: parse::DEFAULT_TENANT, windows };
        let file_order = |name: &str| sources.iter().position(|source| source.name == name);
        let file_order = |name: &str| file_order(name).unwrap_or(usize::MAX);
        let read = (parse::assemble_listing(&ours, secret, listing), EnvoyRules::parse_all(&theirs, &options));
        let ((namespaces, fleet_mode, mut warnings), envoy) = match read {
            (Ok(ours), Ok(theirs)) => (ours, theirs),
            (Err(errors), Ok(_)) | (Ok(_), Err(errors)) => return Err(errors),
            (Err(errors), Err(others)) => return Err(errors.and(others, file_order)),
        };
        warnings.extend_from_slice(envoy.warnings());
        let mut by_name: Vec<usize> = (0..namespaces.len()).collect();
        by_name.sort_by_key(|position| namespaces[*position].full_name());
        let fingerprint = fingerprint(sources);
        let set = RuleSet { namespaces, by_name, envoy, fleet_mode, fingerprint, warnings };
        set.refuse_shared_names(file_order)?;
        Ok(set)
    }

    /// A name that is both a namespace and a domain would leave open which of the two limits a request.
    fn refuse_shared_names(&self, file_order: impl Fn(&str) -> usize) -> Result<(), RuleErrors> {
        let mut problems = Problems::default();
        for domain in self.envoy.domains() {
            if self.namespace(self.envoy.tenant(), &domain.name).is_some() {
                problems.push(RuleError {
                    file: domain.file.clone(),
                    line: domain.place.line,
                    column: domain.place.column,
                    field: "domain".to_owned(),
                    message: format!("{} is a namespace of a rules file too", quoted(&domain.name)),
                    fix: "rename one of the two, or keep one of the files".to_owned(),
                });
            }
        }
        problems.finish(file_order).map(drop)
    }

    /// The domains of files of envoyproxy/ratelimit.
    pub fn envoy(&self) -> &EnvoyRules {
        &self.envoy
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

    /// Without the limits of [`RuleSet::envoy`].
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
        Counts {
            namespaces: self.namespaces.len() + self.envoy.domains().len(),
            rules: self.rules().count() + self.envoy.limit_count(),
            overrides,
        }
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
