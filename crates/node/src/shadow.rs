//! Whom shadow rules would have denied: for each of them the callers with the most denials.
//!
//! Space-Saving: as many callers as there is room for, and when another one comes, it takes the place of the one with
//! the fewest denials, and its count as what it may have too many. Asked only when a shadow rule would have denied:
//! what passes pays nothing for it.

use crate::request::{LimitAnswer, LimitSource, Request, Subject};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tidegate_core::Role;
use tidegate_rules::{Attributes, Rule};

/// Rules that are remembered; those that come later are only counted.
const RULES_MAX: usize = 1000;
/// Callers of each.
const CALLERS_MAX: usize = 256;
/// Of an identifier that is remembered, in characters.
const IDENTIFIER_CHARS_MAX: usize = 256;

/// A caller that would have been denied.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShadowedCaller {
    pub identifier: String,
    pub denials: u64,
    /// By how many of them the count may be too high.
    pub at_most_too_many: u64,
}

/// What a shadow rule would have done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShadowedRule {
    pub tenant: String,
    pub namespace: String,
    pub rule: String,
    pub denials: u64,
    /// The most denied first.
    pub callers: Vec<ShadowedCaller>,
}

#[derive(Debug, Default)]
struct RuleDenials {
    denials: u64,
    callers: Vec<ShadowedCaller>,
    /// Where each caller is.
    places: HashMap<String, usize>,
}

impl RuleDenials {
    fn add(&mut self, identifier: String) {
        self.denials += 1;
        if let Some(place) = self.places.get(&identifier) {
            self.callers[*place].denials += 1;
            return;
        }
        let mut caller = ShadowedCaller { identifier: identifier.clone(), denials: 1, at_most_too_many: 0 };
        if self.callers.len() < CALLERS_MAX {
            self.places.insert(identifier, self.callers.len());
            self.callers.push(caller);
            return;
        }
        let fewest = self.callers.iter().enumerate().min_by_key(|(_, caller)| caller.denials);
        let Some((place, fewest)) = fewest else { return };
        caller.at_most_too_many = fewest.denials;
        caller.denials += fewest.denials;
        self.places.remove(&fewest.identifier);
        self.places.insert(identifier, place);
        self.callers[place] = caller;
    }
}

type RuleName = (String, String, String);

/// What shadow rules would have denied: by rule, with the callers that they would have denied most.
#[derive(Debug, Default)]
pub struct ShadowReport(Mutex<HashMap<RuleName, RuleDenials>>);

impl ShadowReport {
    /// Remembers what shadow rules said about a request, where they would have denied it.
    #[inline]
    pub(crate) fn record(&self, request: &Request<'_>, limits: &[LimitAnswer<'_>]) {
        if limits.iter().any(would_deny) {
            self.record_denials(request, limits.iter().filter(|limit| would_deny(limit)));
        }
    }

    #[cold]
    fn record_denials<'a>(&self, request: &Request<'_>, denials: impl Iterator<Item = &'a LimitAnswer<'a>>) {
        for limit in denials {
            if let Some((rule, identifier)) = shown(request, limit) {
                self.add(rule, &identifier);
            }
        }
    }

    /// The same of a request that waited.
    pub(crate) fn record_waited(&self, watched: &ShadowIdentifiers, limits: &[LimitAnswer<'_>]) {
        for (index, identifier) in &watched.0 {
            if let Some(limit) = limits.get(*index).filter(|limit| would_deny(limit))
                && let LimitSource::Rule(rule) = limit.source
            {
                self.add(rule, identifier);
            }
        }
    }

    fn add(&self, rule: &Rule, identifier: &str) {
        let name = (rule.tenant.to_string(), rule.namespace.to_string(), rule.name.to_string());
        let identifier = identifier.chars().take(IDENTIFIER_CHARS_MAX).collect();
        let mut rules = self.rules();
        if rules.len() < RULES_MAX || rules.contains_key(&name) {
            rules.entry(name).or_default().add(identifier);
        }
    }

    fn rules(&self) -> MutexGuard<'_, HashMap<RuleName, RuleDenials>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Since the process started; of one tenant, or of all.
    pub fn report(&self, tenant: Option<&str>) -> Vec<ShadowedRule> {
        let mut report: Vec<ShadowedRule> = self
            .rules()
            .iter()
            .filter(|((of, _, _), _)| tenant.is_none_or(|tenant| tenant == of))
            .map(|((tenant, namespace, rule), of_rule)| ShadowedRule {
                tenant: tenant.clone(),
                namespace: namespace.clone(),
                rule: rule.clone(),
                denials: of_rule.denials,
                callers: of_rule.callers.clone(),
            })
            .collect();
        report.sort_by(|a, b| (&a.tenant, &a.namespace, &a.rule).cmp(&(&b.tenant, &b.namespace, &b.rule)));
        for rule in &mut report {
            rule.callers.sort_by_key(|caller| std::cmp::Reverse(caller.denials));
        }
        report
    }
}

/// Whom the shadow rules of a request are about that waits: when it goes on, its attributes aren't at hand. Empty, and
/// without an allocation, where it has none.
#[derive(Debug, Default)]
pub(crate) struct ShadowIdentifiers(SmallVec<[(usize, String); 1]>);

impl ShadowIdentifiers {
    pub(crate) fn of(request: &Request<'_>, limits: &[LimitAnswer<'_>]) -> Self {
        let shadows = limits.iter().enumerate().filter(|(_, limit)| limit.role == Role::Shadow);
        ShadowIdentifiers(
            shadows.filter_map(|(index, limit)| Some((index, shown(request, limit)?.1))).collect(),
        )
    }
}

fn would_deny(limit: &LimitAnswer<'_>) -> bool {
    limit.role == Role::Shadow && !limit.is_allowed()
}

/// A limit's rule and caller; `None` for one that the request gives itself.
fn shown<'r>(request: &Request<'_>, limit: &LimitAnswer<'r>) -> Option<(&'r Rule, String)> {
    let LimitSource::Rule(rule) = limit.source else { return None };
    Some((rule, rule.shown_identifier(attributes(request, limit.descriptor)?)))
}

fn attributes<'a>(request: &Request<'a>, descriptor: u8) -> Option<Attributes<'a>> {
    match request.subject {
        Subject::Rules { attributes, .. } => Some(attributes),
        Subject::Descriptors { descriptors, .. } => {
            descriptors.get(usize::from(descriptor)).map(|descriptor| descriptor.attributes)
        }
        Subject::Limits(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_denied_stay_and_counts_are_never_too_low() {
        let mut of_rule = RuleDenials::default();
        for round in 0..100 {
            for heavy in 0..20 {
                of_rule.add(format!("heavy-{heavy}"));
            }
            for light in 0..10 {
                of_rule.add(format!("light-{round}-{light}"));
            }
        }
        assert_eq!(of_rule.denials, 3000);
        assert!(of_rule.callers.len() == CALLERS_MAX && of_rule.places.len() == CALLERS_MAX);
        for heavy in 0..20 {
            let place = of_rule.places[&format!("heavy-{heavy}")];
            let caller = &of_rule.callers[place];
            assert!(caller.denials >= 100 && caller.denials - caller.at_most_too_many <= 100, "{caller:?}");
        }
    }
}
