//! Rules of a control plane: a set from its rules file, and from a set and what a push changed the next.
//!
//! A delta applies whole or not at all. A changed caller costs microseconds whatever the size of the set; a changed
//! document is read again, and only that one.

use super::{Namespace, RuleSet, Rules};
use crate::bounds::{RULES_MAX, SOURCES_BYTES_MAX, WARNINGS_MAX};
use crate::bytes::DecodeError;
use crate::change::{Delta, DocumentName, RuleChange};
use crate::envoy::{EnvoyOptions, EnvoyRules, Windows, is_envoy};
use crate::error::{RuleErrors, Warning};
use crate::overrides::Overrides;
use crate::parse::{self, Hashing};
use crate::rule::Rule;
use crate::snapshot::{DOCUMENTS_MAX, LookupSeed, Snapshot};
use crate::source::Source;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use tidegate_core::FleetSecret;

/// How rules are read that didn't come from a node's own files.
#[derive(Clone, Copy, Debug)]
pub struct RuleOptions<'a> {
    pub secret: &'a FleetSecret,
    /// Of documents of envoyproxy/ratelimit.
    pub windows: Windows,
}

impl<'a> RuleOptions<'a> {
    pub fn new(secret: &'a FleetSecret) -> Self {
        RuleOptions { secret, windows: Windows::Fixed }
    }
}

/// Why rules of a control plane were refused. Those in force stay.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ApplyError {
    #[error("version {delta} doesn't follow version {set}, which is in force; ask for what is between them")]
    Gap { set: u64, delta: u64 },
    #[error("the rules of {name} are refused:\n{errors}")]
    Document { name: DocumentName, errors: RuleErrors },
    #[error("the document {name} {problem}")]
    NotADocument { name: DocumentName, problem: &'static str },
    #[error("the documents contradict each other:\n{0}")]
    Contradiction(RuleErrors),
    #[error("the rules are too large: {0}")]
    TooLarge(&'static str),
    #[error("a change isn't valid: {0}")]
    Malformed(#[from] DecodeError),
}

impl ApplyError {
    /// What is wrong, with its places where it has any.
    pub fn into_errors(self) -> RuleErrors {
        match self {
            ApplyError::Document { errors, .. } | ApplyError::Contradiction(errors) => errors,
            other => RuleErrors::of_set(other.to_string(), "push less, or in other documents"),
        }
    }
}

/// What is known of the documents of a set.
#[derive(Clone, Default, Debug)]
pub(super) struct Documents {
    read: BTreeMap<DocumentName, Document>,
}

#[derive(Clone, Debug)]
struct Document {
    bytes: usize,
    warnings: Vec<Warning>,
    /// Of envoyproxy/ratelimit: all of these are read together.
    domain: Option<Arc<str>>,
}

fn check_names(delta: &Delta) -> Result<(), DecodeError> {
    delta.changes.iter().try_for_each(|change| match change {
        RuleChange::Override { name, .. } | RuleChange::Reset { name, .. } => name.check(),
        RuleChange::Document { .. } | RuleChange::FleetMode(_) => Ok(()),
    })
}

impl RuleSet {
    /// The rules of a file, which stays mapped for as long as any set looks callers up in it.
    pub fn from_snapshot(snapshot: &Arc<Snapshot>, options: RuleOptions<'_>) -> Result<Self, ApplyError> {
        let mut rules = Rules::default();
        for (name, text) in snapshot.documents() {
            rules.set_document(name, Some(&text.into()), options, snapshot.seed())?;
        }
        rules.settle(options)?;
        let lookups = rules.namespaces.iter().flat_map(|namespace| &namespace.rules);
        let present: HashSet<u128> =
            lookups.filter_map(|rule| Some(rule.lookup.as_ref()?.names_hash)).collect();
        Ok(RuleSet {
            rules: Arc::new(rules),
            overrides: Overrides::of_snapshot(snapshot, |names_hash| present.contains(&names_hash)),
            fleet_mode: snapshot.fleet_mode(),
            version: snapshot.version(),
        })
    }

    /// The set after a push. Resets aren't rules: whoever counts sees to them.
    pub fn apply(&self, delta: &Delta, options: RuleOptions<'_>) -> Result<Self, ApplyError> {
        if self.version.checked_add(1) != Some(delta.version) {
            return Err(ApplyError::Gap { set: self.version, delta: delta.version });
        }
        check_names(delta)?;
        let mut set = self.clone();
        set.change_documents(delta, options)?;
        set.change_callers(delta);
        if !set.overrides.is_bounded() {
            return Err(ApplyError::TooLarge(
                "there are more than 100000000 overrides, or 1000000 with patterns",
            ));
        }
        Ok(set)
    }

    /// The set after several pushes, and why it isn't after all of them. What they change in common is copied once.
    pub fn apply_all(&self, deltas: &[Delta], options: RuleOptions<'_>) -> (Self, Result<(), ApplyError>) {
        let mut set = self.clone();
        for delta in deltas {
            if let Err(error) = set.advance(delta, options) {
                return (set, Err(error));
            }
        }
        (set, Ok(()))
    }

    /// As [`RuleSet::apply`], in place where nothing of it can be refused once it has begun.
    fn advance(&mut self, delta: &Delta, options: RuleOptions<'_>) -> Result<(), ApplyError> {
        let has_documents = delta.changes.iter().any(|change| matches!(change, RuleChange::Document { .. }));
        let follows = self.version.checked_add(1) == Some(delta.version);
        if has_documents || !follows || !self.overrides.has_room_for(delta.changes.len()) {
            *self = self.apply(delta, options)?;
            return Ok(());
        }
        check_names(delta)?;
        self.change_callers(delta);
        Ok(())
    }

    /// Everything but documents; the names were checked.
    fn change_callers(&mut self, delta: &Delta) {
        self.version = delta.version;
        for change in &delta.changes {
            match change {
                RuleChange::Override { name, value } => {
                    let rules = &self.rules;
                    let is_present = || rules.has(&name.tenant, &name.namespace, &name.rule);
                    self.overrides.change(name, *value, delta.version, is_present);
                }
                RuleChange::FleetMode(mode) => self.fleet_mode = *mode,
                RuleChange::Document { .. } | RuleChange::Reset { .. } => {}
            }
        }
    }

    /// The same rules over a newer file of theirs, which has what was changed up to its version. `None` for a file
    /// of other rules, of a later version than the set's, or of an earlier one than the file that it goes by.
    pub fn rebase(&self, snapshot: &Arc<Snapshot>) -> Option<Self> {
        let versions = self.overrides.file_version()..=self.version;
        if snapshot.seed() != self.overrides.seed() || !versions.contains(&snapshot.version()) {
            return None;
        }
        let mut set = self.clone();
        set.overrides.rebase(snapshot);
        Some(set)
    }

    /// How many callers were changed since the file was written that the set looks others up in: what a new file
    /// would save.
    pub fn changed_callers(&self) -> usize {
        self.overrides.changed_count()
    }

    fn change_documents(&mut self, delta: &Delta, options: RuleOptions<'_>) -> Result<(), ApplyError> {
        let seed = self.overrides.seed();
        if !delta.changes.iter().any(|change| matches!(change, RuleChange::Document { .. })) {
            return Ok(());
        }
        // Those of files are in the order of the files.
        Arc::make_mut(&mut self.rules).namespaces.sort_by(|a, b| a.full_name().cmp(&b.full_name()));
        for change in &delta.changes {
            let RuleChange::Document { name, text } = change else { continue };
            name.check()?;
            let before = self.rules.shared(name).cloned();
            Arc::make_mut(&mut self.rules).set_document(name.clone(), text.as_ref(), options, seed)?;
            // First all that were, then all that are.
            before
                .iter()
                .flat_map(|namespace| &namespace.rules)
                .for_each(|rule| self.overrides.set_present(rule, false));
            let after = self.rules.shared(name).cloned();
            after
                .iter()
                .flat_map(|namespace| &namespace.rules)
                .for_each(|rule| self.overrides.set_present(rule, true));
        }
        Arc::make_mut(&mut self.rules).settle(options)
    }
}

impl Rules {
    fn shared(&self, name: &DocumentName) -> Option<&Arc<Namespace>> {
        self.position(name).ok().and_then(|position| self.namespaces.get(position))
    }

    /// Where a document's namespace is, or belongs: a control plane's are in the order of their names.
    fn position(&self, name: &DocumentName) -> Result<usize, usize> {
        self.namespaces
            .binary_search_by(|namespace| namespace.full_name().cmp(&(&*name.tenant, &*name.namespace)))
    }

    fn has(&self, tenant: &str, namespace: &str, rule: &str) -> bool {
        let namespace = self.namespace(tenant, namespace);
        namespace.is_some_and(|namespace| namespace.rules.iter().any(|other: &Rule| *other.name == *rule))
    }

    /// Reads a document in the place of the one with its name. [`Rules::settle`] must follow.
    fn set_document(
        &mut self,
        name: DocumentName,
        text: Option<&Arc<str>>,
        options: RuleOptions<'_>,
        seed: LookupSeed,
    ) -> Result<(), ApplyError> {
        if let Ok(position) = self.position(&name) {
            self.namespaces.remove(position);
        }
        self.documents.read.remove(&name);
        let Some(text) = text else { return Ok(()) };
        let source = Source { name: name.to_string(), text: text.as_bytes().to_vec() };
        let mut document = Document { bytes: text.len(), warnings: Vec::new(), domain: None };
        if is_envoy(&source) {
            document.domain = Some(text.clone());
        } else {
            let (namespace, warnings) =
                read_namespace(&name, &source, Hashing { secret: options.secret, seed })?;
            document.warnings = warnings;
            let position = self.position(&name).unwrap_or_else(|position| position);
            self.namespaces.insert(position, Arc::new(namespace));
        }
        self.documents.read.insert(name, document);
        Ok(())
    }

    /// Puts things in order after documents were changed, and refuses what holds of each but not of all.
    fn settle(&mut self, options: RuleOptions<'_>) -> Result<(), ApplyError> {
        let documents = &self.documents.read;
        let bytes = documents.values().map(|document| document.bytes).sum::<usize>();
        if bytes > SOURCES_BYTES_MAX || documents.len() as u64 > DOCUMENTS_MAX {
            return Err(ApplyError::TooLarge(
                "their documents are more than 100000, or have more than 64 MiB",
            ));
        }
        if self.namespaces.iter().map(|namespace| namespace.rules.len()).sum::<usize>() > RULES_MAX {
            return Err(ApplyError::TooLarge("there are more than 100000; use overrides for single callers"));
        }
        self.envoy = Arc::new(read_domains(documents, options)?);
        let warnings =
            documents.values().flat_map(|document| &document.warnings).chain(self.envoy.warnings());
        self.warnings = warnings.take(WARNINGS_MAX).cloned().collect();
        self.index();
        self.refuse_shared_names(|_| 0).map_err(ApplyError::Contradiction)
    }
}

fn read_namespace(
    name: &DocumentName,
    source: &Source,
    hashing: Hashing<'_>,
) -> Result<(Namespace, Vec<Warning>), ApplyError> {
    let refused = |problem| ApplyError::NotADocument { name: name.clone(), problem };
    let mut read = parse::assemble(&[source], hashing)
        .map_err(|errors| ApplyError::Document { name: name.clone(), errors })?;
    if !read.overrides.is_empty() {
        return Err(refused("has overrides; send each as a change of its own"));
    }
    if read.fleet_mode.is_some() {
        return Err(refused("sets the fleet's mode; send that as a change of its own"));
    }
    match (read.namespaces.pop(), read.namespaces.is_empty()) {
        (Some(namespace), true) if namespace.full_name() == (&*name.tenant, &*name.namespace) => {
            Ok((namespace, read.warnings))
        }
        _ => Err(refused(
            "is about another namespace than it is named for, or about several; send one for each",
        )),
    }
}

/// All domains together, as they are of one tenant.
fn read_domains(
    documents: &BTreeMap<DocumentName, Document>,
    options: RuleOptions<'_>,
) -> Result<EnvoyRules, ApplyError> {
    let mut sources = Vec::new();
    for (name, document) in documents {
        let Some(text) = &document.domain else { continue };
        if *name.tenant != *parse::DEFAULT_TENANT {
            let problem = "is a file of envoyproxy/ratelimit, which only the tenant `default` can have";
            return Err(ApplyError::NotADocument { name: name.clone(), problem });
        }
        sources.push((name, Source { name: name.to_string(), text: text.as_bytes().to_vec() }));
    }
    let (secret, windows) = (options.secret, options.windows);
    let envoy_options = EnvoyOptions { secret, tenant: parse::DEFAULT_TENANT, windows };
    let texts: Vec<&Source> = sources.iter().map(|(_, source)| source).collect();
    let domains = EnvoyRules::parse_all(&texts, &envoy_options).map_err(ApplyError::Contradiction)?;
    for (name, source) in &sources {
        let mut of_file = domains.domains().iter().filter(|domain| *domain.file == *source.name);
        let is_it =
            of_file.next().is_some_and(|domain| domain.name == name.namespace) && of_file.next().is_none();
        if !is_it {
            let problem = "is about another domain than it is named for, or about several; send one for each";
            return Err(ApplyError::NotADocument { name: (*name).clone(), problem });
        }
    }
    Ok(domains)
}
