//! A rule set: all rules of a node, as of one reading of their files, or of one version of a control plane's.
//!
//! Never changes. A reload, or a delta, makes another and swaps it in whole, so a request sees one set from first to
//! last. Sets share what they have in common.

mod apply;

pub use apply::{ApplyError, RuleOptions};

use crate::envoy::{EnvoyOptions, EnvoyRules, Windows, is_envoy};
use crate::error::{Problems, RuleError, RuleErrors, Warning, quoted};
use crate::form::Forms;
use crate::overrides::Overrides;
use crate::parse::{self, Assembled, Hashing};
use crate::place::PlaceBy;
use crate::rule::{Mode, Rule};
use crate::snapshot::LookupSeed;
use crate::source::Source;
use apply::Documents;
use std::sync::Arc;
use tidegate_core::identity::Shape;
use tidegate_core::sip::SipState;
use tidegate_core::{FleetSecret, KeyPrefix};

/// The rules of one tenant's namespace.
#[derive(Debug)]
pub struct Namespace {
    pub tenant: Arc<str>,
    pub name: Arc<str>,
    pub mode: Mode,
    /// `None`: every key has a place of its own.
    pub place_by: Option<PlaceBy>,
    /// What the values of attributes are.
    pub(crate) forms: Arc<Forms>,
    /// The attributes that its rules look at, sorted.
    pub(crate) attributes: Box<[Box<str>]>,
    /// In the order of the files.
    pub rules: Vec<Rule>,
}

impl Namespace {
    fn full_name(&self) -> (&str, &str) {
        (&self.tenant, &self.name)
    }
}

/// The number of namespaces, rules and overrides of a set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RuleSetSize {
    pub namespaces: usize,
    pub rules: usize,
    pub overrides: usize,
    /// Overrides of rules that aren't there: they don't count above, and apply when their rule comes back.
    pub dangling: usize,
}

/// All but the overrides: what a change of single callers leaves alone.
#[derive(Clone, Debug, Default)]
struct Rules {
    namespaces: Vec<Arc<Namespace>>,
    /// Positions by tenant and name: bisection needs no joined key and beats hashing two texts.
    by_name: Vec<usize>,
    /// Domains of files of envoyproxy/ratelimit.
    envoy: Arc<EnvoyRules>,
    fingerprint: u64,
    warnings: Vec<Warning>,
    /// Of a control plane.
    documents: Documents,
}

#[derive(Clone, Debug)]
pub struct RuleSet {
    rules: Arc<Rules>,
    overrides: Overrides,
    fleet_mode: Mode,
    version: u64,
}

impl Default for RuleSet {
    fn default() -> Self {
        RuleSet {
            rules: Arc::default(),
            overrides: Overrides::none(LookupSeed::random()),
            fleet_mode: Mode::default(),
            version: 0,
        }
    }
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
        let hashing = Hashing { secret, seed: seed_of(secret) };
        let read =
            (parse::assemble_listing(&ours, hashing, listing), EnvoyRules::parse_all(&theirs, &options));
        let (ours, envoy) = match read {
            (Ok(ours), Ok(theirs)) => (ours, theirs),
            (Err(errors), Ok(_)) | (Ok(_), Err(errors)) => return Err(errors),
            (Err(errors), Err(others)) => return Err(errors.and(others, file_order)),
        };
        let Assembled { namespaces, overrides, fleet_mode, mut warnings } = ours;
        warnings.extend_from_slice(envoy.warnings());
        let mut rules = Rules {
            namespaces: namespaces.into_iter().map(Arc::new).collect(),
            by_name: Vec::new(),
            envoy: Arc::new(envoy),
            fingerprint: fingerprint(sources),
            warnings,
            documents: Documents::default(),
        };
        rules.index();
        rules.refuse_shared_names(file_order)?;
        let overrides = overrides.seal(hashing.seed);
        Ok(RuleSet {
            rules: Arc::new(rules),
            overrides,
            fleet_mode: fleet_mode.unwrap_or_default(),
            version: 0,
        })
    }

    /// The domains of files of envoyproxy/ratelimit.
    pub fn envoy(&self) -> &EnvoyRules {
        &self.rules.envoy
    }

    #[inline]
    pub fn namespace(&self, tenant: &str, namespace: &str) -> Option<&Namespace> {
        self.rules.namespace(tenant, namespace)
    }

    /// In the order of the files; of a control plane's, in the order of their names.
    pub fn namespaces(&self) -> &[Arc<Namespace>] {
        &self.rules.namespaces
    }

    /// Without the limits of [`RuleSet::envoy`].
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.rules.namespaces.iter().flat_map(|namespace| &namespace.rules)
    }

    #[inline]
    pub(crate) fn overrides(&self) -> &Overrides {
        &self.overrides
    }

    /// Whether any caller of one of its rules has an override.
    pub fn has_overrides(&self, rule: &Rule) -> bool {
        self.overrides.has_any(rule)
    }

    /// Of `fleet_mode`; `enforce` when no file gives it.
    pub fn fleet_mode(&self) -> Mode {
        self.fleet_mode
    }

    /// Of the control plane that the rules are from; 0 for those of files.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// What is valid and most likely not meant.
    pub fn warnings(&self) -> &[Warning] {
        &self.rules.warnings
    }

    pub fn counts(&self) -> RuleSetSize {
        let dangling = self.overrides.dangling();
        RuleSetSize {
            namespaces: self.rules.namespaces.len() + self.envoy().domains().len(),
            rules: self.rules().count() + self.envoy().limit_count(),
            overrides: self.overrides.len() - dangling,
            dangling,
        }
    }

    /// Equal for equal files (whatever their names and places), on all nodes; 0 for the empty set, and the version
    /// for rules of a control plane.
    pub fn fingerprint(&self) -> u64 {
        if self.version > 0 { self.version } else { self.rules.fingerprint }
    }
}

/// Rules files have no seed of their own: nobody can guess one that comes from the fleet's secret.
fn seed_of(secret: &FleetSecret) -> LookupSeed {
    let hash = KeyPrefix::new(secret, "", "", "\0overrides", Shape::Gcra).hash_of_parts([]);
    LookupSeed::new(hash.to_le_bytes())
}

impl Rules {
    /// To be called when the namespaces have changed.
    fn index(&mut self) {
        self.by_name = (0..self.namespaces.len()).collect();
        let namespaces = &self.namespaces;
        self.by_name.sort_by_key(|position| namespaces[*position].full_name());
    }

    #[inline]
    fn namespace(&self, tenant: &str, namespace: &str) -> Option<&Namespace> {
        let full_name = |position: &usize| self.namespaces[*position].full_name();
        let found =
            self.by_name.binary_search_by(|position| full_name(position).cmp(&(tenant, namespace))).ok()?;
        Some(&self.namespaces[self.by_name[found]])
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
