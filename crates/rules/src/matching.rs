//! Matching: which rules a request meets, with which key and which numbers.
//!
//! The hot path: takes no lock of its own, compiles nothing and, for up to 16 matching rules, allocates
//! nothing.

use crate::attributes::Attributes;
use crate::bounds::FEW_ATTRIBUTES;
use crate::condition::ConditionMatch;
use crate::form::Values;
use crate::identifier::Identifier;
use crate::overrides::{Override, OverrideEffect};
use crate::place::KeyPlacement;
use crate::policy::Policy;
use crate::rule::{Mode, OnMissing, Rule};
use crate::set::{Namespace, RuleSet};
use smallvec::SmallVec;
use tidegate_core::batch::{ITEMS_INLINE, ITEMS_MAX};
use tidegate_core::{Burst, KeyId, Limit, Nanos, Role, Spec};

/// A rule that a request meets.
#[derive(Clone, Copy, Debug)]
pub struct Match<'s> {
    pub rule: &'s Rule,
    pub role: Role,
    /// Declared hot by an override.
    pub hot: bool,
    /// Some value of the request that the rule looks at should be an address and isn't.
    pub malformed: bool,
    pub effect: Effect<'s>,
}

/// What the rule says of the request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect<'s> {
    /// Decide by this; overrides are in it.
    Limited { key: KeyId, spec: Spec },
    /// An override lifts the limit.
    Unlimited { key: KeyId },
    /// The rule wants this attribute, and denies a request without it, or with a value that should be an address and
    /// isn't (unless the role is shadow).
    MissingDenied { attribute: &'s str, is_malformed: bool },
}

impl Effect<'_> {
    fn placed(self, place: KeyPlacement) -> Self {
        match self {
            Effect::Limited { key, spec } => Effect::Limited { key: place.of(key), spec },
            Effect::Unlimited { key } => Effect::Unlimited { key: place.of(key) },
            Effect::MissingDenied { .. } => self,
        }
    }
}

impl Match<'_> {
    /// The caller's key; a request that lacks an attribute has none.
    pub fn key(&self) -> Option<KeyId> {
        match self.effect {
            Effect::Limited { key, .. } | Effect::Unlimited { key } => Some(key),
            Effect::MissingDenied { .. } => None,
        }
    }
}

pub type Matches<'s> = SmallVec<[Match<'s>; ITEMS_INLINE]>;

/// What came of it as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MatchResult {
    /// At least one rule applies.
    Rules,
    /// The namespace has rules; none is for this request.
    NoRule,
    /// Nobody wrote rules for this tenant and namespace.
    UnknownNamespace,
    /// The namespace's or the fleet's mode is `off`.
    Off,
    /// More rules apply than one request may name ([`ITEMS_MAX`]); only the first of them were given out.
    TooMany,
}

impl RuleSet {
    /// Finds the rules for a request, in the order of their files. What `out` held before is dropped.
    pub fn matches<'s>(
        &'s self,
        tenant: &str,
        namespace: &str,
        attributes: Attributes<'_>,
        now: Nanos,
        out: &mut Matches<'s>,
    ) -> MatchResult {
        out.clear();
        let Some(namespace) = self.namespace(tenant, namespace) else {
            return self.match_domain(tenant, namespace, attributes, now, out);
        };
        let mode = self.effective_mode(namespace);
        if mode == Mode::Off {
            return MatchResult::Off;
        }
        if attributes.0.len() > FEW_ATTRIBUTES {
            let known = namespace.known(attributes);
            return self.match_known(namespace, mode, Attributes(&known), now, out);
        }
        self.match_known(namespace, mode, attributes, now, out)
    }

    #[inline]
    fn match_known<'s>(
        &'s self,
        namespace: &'s Namespace,
        mode: Mode,
        attributes: Attributes<'_>,
        now: Nanos,
        out: &mut Matches<'s>,
    ) -> MatchResult {
        namespace.forms.with(attributes, |values| self.match_rules(namespace, mode, values, now, out))
    }

    #[inline]
    fn match_rules<'s>(
        &'s self,
        namespace: &'s Namespace,
        mode: Mode,
        values: Values<'_>,
        now: Nanos,
        out: &mut Matches<'s>,
    ) -> MatchResult {
        let place = namespace.place_by.as_ref().and_then(|place_by| place_by.place(values));
        for rule in &namespace.rules {
            let Some(applied) = self.apply_rule(rule, values, now) else { continue };
            // Only now: overrides are found by the key that the rule's attributes alone give.
            let effect = place.map_or(applied.effect, |place| applied.effect.placed(place));
            if out.len() == ITEMS_MAX {
                return MatchResult::TooMany;
            }
            let shadow = rule.shadow || mode == Mode::Shadow;
            let role = if shadow { Role::Shadow } else { Role::Enforced };
            out.push(Match { rule, role, hot: applied.hot, malformed: applied.malformed, effect });
        }
        if out.is_empty() { MatchResult::NoRule } else { MatchResult::Rules }
    }

    /// A domain of a file of envoyproxy/ratelimit: the attributes, in their order, are one descriptor.
    fn match_domain<'s>(
        &'s self,
        tenant: &str,
        domain: &str,
        attributes: Attributes<'_>,
        now: Nanos,
        out: &mut Matches<'s>,
    ) -> MatchResult {
        if tenant != self.envoy().tenant() || !self.envoy().has_domain(domain) {
            return MatchResult::UnknownNamespace;
        }
        if self.fleet_mode() == Mode::Off {
            return MatchResult::Off;
        }
        let found = self.envoy().find(domain, attributes.0, None);
        let Some(mut found) = found.and_then(|found| found.as_rule(now)) else { return MatchResult::NoRule };
        if self.fleet_mode() == Mode::Shadow {
            found.role = Role::Shadow;
        }
        out.push(found);
        MatchResult::Rules
    }

    /// The laxer of the namespace's mode and the fleet's.
    pub fn effective_mode(&self, namespace: &Namespace) -> Mode {
        namespace.mode.max(self.fleet_mode())
    }
}

impl Namespace {
    /// Those of many attributes that the rules look at: every condition looks its own up among them.
    #[cold]
    fn known<'a>(&self, attributes: Attributes<'a>) -> SmallVec<[(&'a str, &'a str); 16]> {
        let is_known =
            |name: &str| self.attributes.binary_search_by(|candidate| (**candidate).cmp(name)).is_ok();
        attributes.0.iter().filter(|(name, _)| is_known(name)).copied().collect()
    }

    /// Where a key is kept that a request with these attributes names by itself.
    pub fn placed(&self, key: KeyId, attributes: Attributes<'_>) -> KeyId {
        let Some(place_by) = &self.place_by else { return key };
        let place = self.forms.with(attributes, |values| place_by.place(values));
        place.map_or(key, |place| place.of(key))
    }
}

impl RuleSet {
    /// What limits a request with these attributes by one of its rules, overrides included; `None` when nothing
    /// does. Decisions don't need it: it is for those who describe them.
    pub fn spec(&self, rule: &Rule, attributes: Attributes<'_>, now: Nanos) -> Option<Spec> {
        let applied = rule.forms.with(attributes, |values| self.apply_rule(rule, values, now))?;
        match applied.effect {
            Effect::Limited { spec, .. } => Some(spec),
            Effect::Unlimited { .. } | Effect::MissingDenied { .. } => None,
        }
    }

    /// The override for a caller of one of its rules, if there is one that hasn't ended.
    pub fn override_of(&self, rule: &Rule, attributes: Attributes<'_>, now: Nanos) -> Option<Override> {
        rule.forms.with(attributes, |values| {
            let mut identifier = Identifier::new();
            identifier.fill(&rule.key, values).ok()?;
            self.overrides().find(rule, &identifier, now)
        })
    }

    /// The same, with the texts that it was set for, one for each part of the rule's `key`.
    pub fn named_override_of(
        &self,
        rule: &Rule,
        attributes: Attributes<'_>,
        now: Nanos,
    ) -> Option<(Vec<Box<str>>, Override)> {
        rule.forms.with(attributes, |values| {
            let mut identifier = Identifier::new();
            identifier.fill(&rule.key, values).ok()?;
            let (parts, applied) = self.overrides().find_named(rule, &identifier, now)?;
            let texts = match parts {
                Some(parts) => parts.iter().map(|part| part.text().into()).collect(),
                None => identifier.parts().iter().map(|value| value.as_str().into()).collect(),
            };
            Some((texts, applied))
        })
    }

    /// What a rule says of a request; `None` when it isn't for it.
    fn apply_rule<'s>(&self, rule: &'s Rule, values: Values<'_>, now: Nanos) -> Option<Applied<'s>> {
        let malformed = match rule.when.hold(values) {
            ConditionMatch::Yes => None,
            ConditionMatch::No => return None,
            ConditionMatch::Missing(attribute) => return rule.missing(attribute),
            // Whoever hides an address must not escape the rule: it applies.
            ConditionMatch::Malformed(attribute) => Some(attribute),
        };
        let mut identifier = Identifier::new();
        if let Err(attribute) = identifier.fill(&rule.key, values) {
            return rule.missing(attribute);
        }
        let malformed = malformed.or_else(|| identifier.malformed(&rule.key));
        if let Some(attribute) = malformed
            && rule.denies_malformed()
        {
            let effect = Effect::MissingDenied { attribute, is_malformed: true };
            return Some(Applied { effect, hot: false, malformed: true });
        }
        // First: while the processor waits for the table's line, it hashes the key.
        let applied = self.overrides().find(rule, &identifier, now);
        let key = identifier.key(&rule.prefix);
        let malformed = malformed.is_some();
        let (effect, hot) = match applied {
            None => (Effect::Limited { key, spec: rule.policy.spec(now) }, false),
            Some(Override { change: OverrideEffect::Unlimited, hot, .. }) => (Effect::Unlimited { key }, hot),
            Some(Override { change, hot, .. }) => {
                (Effect::Limited { key, spec: changed(&rule.policy, change, now) }, hot)
            }
        };
        Some(Applied { effect, hot, malformed })
    }
}

/// What a rule that is for a request says of it.
struct Applied<'s> {
    effect: Effect<'s>,
    /// The caller is declared hot.
    hot: bool,
    malformed: bool,
}

impl Rule {
    fn missing<'s>(&'s self, attribute: &'s str) -> Option<Applied<'s>> {
        match self.on_missing {
            OnMissing::Skip => None,
            OnMissing::Deny => {
                let effect = Effect::MissingDenied { attribute, is_malformed: false };
                Some(Applied { effect, hot: false, malformed: false })
            }
        }
    }
}

/// The rule's spec with an override's numbers.
fn changed(policy: &Policy, change: OverrideEffect, now: Nanos) -> Spec {
    match (policy.spec(now), change) {
        (Spec::Sliding { period, .. }, OverrideEffect::Limit(limit)) => Spec::Sliding { limit, period },
        (Spec::Fixed { period, .. }, OverrideEffect::Limit(limit)) => Spec::Fixed { limit, period },
        (Spec::Calendar { unit, cell, .. }, OverrideEffect::Limit(limit)) => {
            Spec::Calendar { limit, unit, cell }
        }
        // The only limit that a rate's override can have is 0, which blocks.
        (Spec::Gcra { rate, .. }, OverrideEffect::Limit(Limit::BLOCKED)) => {
            Spec::Gcra { rate, burst: Burst::BLOCKED }
        }
        (Spec::Gcra { .. }, OverrideEffect::Rate { rate, burst }) => Spec::Gcra { rate, burst },
        // Numbers of another kind are from before the rule was changed: they say nothing of it as it is.
        (
            spec,
            OverrideEffect::Keep
            | OverrideEffect::Unlimited
            | OverrideEffect::Limit(_)
            | OverrideEffect::Rate { .. },
        ) => spec,
    }
}
