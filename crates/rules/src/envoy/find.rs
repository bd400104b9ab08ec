//! Matching: the one limit that a descriptor of a request meets, and the counter that it is counted in.
//!
//! The hot path: compiles nothing, and allocates nothing for up to four entries, unless a file has a `*` in a
//! key.

use super::descriptor::{Descriptor, MetBy};
use super::domain::{Domain, EnvoyRules};
use super::limit::{Allowance, EnvoyLimit};
use super::unit::RequestLimit;
use crate::matching::{Effect, Match};
use crate::policy::Policy;
use smallvec::SmallVec;
use tidegate_core::{KeyId, Nanos, Role};

const ENTRIES_INLINE: usize = 4;

/// What a descriptor of a request met.
#[derive(Clone, Debug)]
pub struct EnvoyMatch<'s, 'e> {
    /// The file's; `None` for a limit that the request gave.
    pub limit: Option<&'s EnvoyLimit>,
    /// What to decide by; `None` when it is unlimited.
    pub policy: Option<Policy>,
    /// Of the counter. The same entries have the same counter, whether the file or the request limits them, but a
    /// unit of another length has another one.
    pub key: KeyId,
    pub(crate) domain: &'s str,
    pub(crate) steps: Steps<'s, 'e>,
}

pub(crate) type Steps<'s, 'e> = SmallVec<[Step<'s, 'e>; ENTRIES_INLINE]>;

/// An entry of the request, and how it was met.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step<'s, 'e> {
    pub(crate) entry: (&'e str, &'e str),
    /// `None` for a limit that the request gave.
    pub(crate) met: Option<(&'s Descriptor, MetBy)>,
}

impl Step<'_, '_> {
    /// The pattern, where all values that match it share a counter; else the entry's own value.
    pub(crate) fn counted_value(&self) -> &str {
        match self.met {
            Some((descriptor, MetBy::Wildcard)) if descriptor.shared => descriptor.shared_value(),
            _ => self.entry.1,
        }
    }
}

impl EnvoyRules {
    /// The limit for a descriptor, if there is one: none for a domain that no file has, for entries that lead
    /// nowhere, and for those that lead to a descriptor without a limit of its own.
    pub fn find<'s, 'e>(
        &'s self,
        domain: &str,
        entries: &[(&'e str, &'e str)],
        given: Option<RequestLimit>,
    ) -> Option<EnvoyMatch<'s, 'e>> {
        let domain = self.domain(domain)?;
        if let Some(given) = given {
            return Some(self.given(domain, entries, given));
        }
        let steps = descend(domain, entries)?;
        let (last, _) = steps.last()?.met?;
        let limit = last.limit.as_ref()?;
        let policy = match limit.allowance {
            Allowance::Limited { .. } => Some(limit.rule.policy.clone()),
            Allowance::Unlimited => None,
        };
        let key = limit.rule.prefix.key_of_parts(parts(&steps));
        Some(EnvoyMatch { limit: Some(limit), policy, key, domain: &domain.name, steps })
    }

    fn given<'s, 'e>(
        &self,
        domain: &'s Domain,
        entries: &[(&'e str, &'e str)],
        given: RequestLimit,
    ) -> EnvoyMatch<'s, 'e> {
        let steps: Steps<'s, 'e> = entries.iter().map(|entry| Step { entry: *entry, met: None }).collect();
        let policy = self.windows().window(given.requests_per_unit, given.period);
        let prefix = domain.prefixes.of(given.unit);
        let key = if given.period == given.unit.period() {
            prefix.key_of_parts(parts(&steps))
        } else {
            // The prefix is the unit's, so a window of several units names its length. Entries are pairs: with an odd
            // number of parts the key is no other descriptor's.
            let length = format!("\u{1}window {}", given.period.get());
            prefix.key_of_parts(parts(&steps).chain([&*length]))
        };
        EnvoyMatch { limit: None, policy: Some(policy), key, domain: &domain.name, steps }
    }
}

/// One step for every entry; `None` when one of them leads nowhere.
fn descend<'s, 'e>(domain: &'s Domain, entries: &[(&'e str, &'e str)]) -> Option<Steps<'s, 'e>> {
    let mut level = &domain.top;
    let mut steps = Steps::new();
    for &(key, value) in entries {
        let met = level.find(key, value)?;
        steps.push(Step { entry: (key, value), met: Some(met) });
        level = &met.0.below;
    }
    Some(steps)
}

fn parts<'a>(steps: &'a [Step<'_, '_>]) -> impl Iterator<Item = &'a str> {
    steps.iter().flat_map(|step| [step.entry.0, step.counted_value()])
}

impl<'s> EnvoyMatch<'s, '_> {
    /// What the counter is of: each entry's key, and its value or the pattern whose values share a counter.
    pub fn parts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.steps.iter().map(|step| (step.entry.0, step.counted_value()))
    }

    pub fn is_unlimited(&self) -> bool {
        self.policy.is_none()
    }

    pub fn name(&self) -> Option<&'s str> {
        self.limit.and_then(|limit| limit.name.as_deref())
    }

    /// A limit that the request gave is never in the shadow, as there.
    pub fn is_shadow(&self) -> bool {
        self.limit.is_some_and(|limit| limit.shadow)
    }

    pub fn is_quota(&self) -> bool {
        self.limit.is_some_and(|limit| limit.quota)
    }

    /// The same as rules of ours are matched; `None` for a limit that the request gave, which has no rule.
    pub fn as_rule(&self, now: Nanos) -> Option<Match<'s>> {
        let rule = &self.limit?.rule;
        let role = match (self.is_shadow(), self.is_quota() && !self.is_unlimited()) {
            (true, _) => Role::Shadow,
            (false, true) => Role::Quota,
            (false, false) => Role::Enforced,
        };
        let effect = match &self.policy {
            Some(policy) => Effect::Limited { key: self.key, spec: policy.spec(now) },
            None => Effect::Unlimited { key: self.key },
        };
        Some(Match { rule, role, hot: false, malformed: false, effect })
    }
}
