//! Rules files, taken apart into what a control plane keeps: the text of each namespace without its overrides, the
//! overrides by name, and the fleet's mode.
//!
//! A text stays as it was written, comments included, wherever its overrides can be cut out of it by lines. What is
//! left is read again and compared: never does a text mean something else than what was pushed.

mod cut;
mod written;

pub use written::with_overrides;

use crate::bounds::{ENVOY_NESTING_MAX, NAMESPACE_COST_MAX, NESTING_MAX};
use crate::change::{DocumentName, OverrideName};
use crate::envoy::{Windows, is_envoy};
use crate::error::{Problems, RuleErrors};
use crate::overrides::{Override, PartMatch};
use crate::parse::tree::{Node, Value};
use crate::parse::{self, Cost, DEFAULT_TENANT, Listing, OVERRIDE_FIX, OVERRIDE_MESSAGE, read_files};
use crate::rule::Mode;
use crate::set::RuleSet;
use crate::source::Source;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use tidegate_core::FleetSecret;

/// What isn't part of a namespace's text.
const APART: [&str; 2] = ["overrides", "fleet_mode"];

/// What rules files say.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PushedRules {
    pub documents: BTreeMap<DocumentName, Arc<str>>,
    pub overrides: Vec<(OverrideName, Override)>,
    /// `None` when no file gives it.
    pub fleet_mode: Option<Mode>,
}

impl PushedRules {
    /// Takes files apart that are valid by themselves, or says everything that is wrong with them.
    pub fn read(sources: &[Source], secret: &FleetSecret, windows: Windows) -> Result<Self, RuleErrors> {
        let mut listing = Listing::default();
        let set = RuleSet::parse_listing(sources, secret, windows, Some(&mut listing))?;
        let mut pushed = PushedRules { overrides: listing.overrides, ..PushedRules::default() };
        for source in sources {
            pushed.take(source, set.fleet_mode());
        }
        Ok(pushed)
    }

    fn take(&mut self, source: &Source, fleet_mode: Mode) {
        let is_theirs = is_envoy(source);
        let nesting = if is_theirs { ENVOY_NESTING_MAX } else { NESTING_MAX };
        let (files, _) = read_files(&[source], nesting, &mut Problems::default());
        let text = std::str::from_utf8(&source.text).unwrap_or_default();
        for node in files.iter().flat_map(|(_, documents)| documents) {
            if !is_theirs && field(node, "fleet_mode").is_some() {
                self.fleet_mode = Some(fleet_mode);
            }
            let namespace = field(node, if is_theirs { "domain" } else { "namespace" });
            let Some(namespace) = namespace else { continue };
            let tenant = field(node, "tenant").filter(|_| !is_theirs).unwrap_or(DEFAULT_TENANT);
            let name = DocumentName { tenant: tenant.into(), namespace: namespace.into() };
            let cut = cut::without(text, node, if is_theirs { &[] } else { &APART }, nesting);
            self.documents
                .entry(name)
                .and_modify(|before| *before = format!("{before}---\n{cut}").into())
                .or_insert_with(|| cut.into());
        }
    }
}

fn field<'n>(node: &'n Node<'_>, name: &str) -> Option<&'n str> {
    let Value::Map(entries) = &node.value else { return None };
    match &entries.iter().find(|entry| entry.key == name)?.node.value {
        Value::Scalar(text) => Some(text),
        _ => None,
    }
}

impl RuleSet {
    /// Refuses overrides with which one request of a namespace may take over a millisecond. `before` are those that it
    /// has: one that has too many already may replace and remove them.
    pub fn check_patterns<'n>(
        &self,
        document: &DocumentName,
        before: impl Iterator<Item = &'n OverrideName>,
        added: impl Iterator<Item = &'n OverrideName>,
    ) -> Result<(), RuleErrors> {
        let Some(namespace) = self.namespace(&document.tenant, &document.namespace) else { return Ok(()) };
        let positions: HashMap<&str, usize> =
            namespace.rules.iter().map(|rule| &*rule.name).zip(0..).collect();
        let mut cost = Cost::of_rules(namespace.rules.iter());
        let mut take = |name: &OverrideName| {
            if let Some(position) = positions.get(&*name.rule).filter(|_| !name.is_exact()) {
                let parts: Vec<PartMatch> = name.parts.iter().map(|part| PartMatch::of_text(part)).collect();
                cost.take_override(*position, &parts);
            }
            cost.total()
        };
        let had = before.map(&mut take).last().unwrap_or(0);
        let has = added.map(take).last().unwrap_or(0);
        if has > had && has > NAMESPACE_COST_MAX {
            return Err(RuleErrors::of_set(OVERRIDE_MESSAGE.to_owned(), OVERRIDE_FIX));
        }
        Ok(())
    }

    /// One override, written as an entry of `overrides`, for a namespace of this set.
    pub fn read_override(
        &self,
        document: &DocumentName,
        entry: &Source,
    ) -> Option<Result<(OverrideName, Override), RuleErrors>> {
        Some(parse::read_entry(self.namespace(&document.tenant, &document.namespace)?, entry))
    }

    /// Whom an entry of `overrides` names, without what changes for them: `{ rule: per-user, user: "acme-*" }`.
    pub fn read_override_name(
        &self,
        document: &DocumentName,
        entry: &Source,
    ) -> Option<Result<OverrideName, RuleErrors>> {
        Some(parse::read_name(self.namespace(&document.tenant, &document.namespace)?, entry))
    }
}
