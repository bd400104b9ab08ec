//! The limits of one request, from what names them to what they said.
//!
//! Allocates nothing for up to 16 limits.

mod names;

pub(crate) use names::{identifier_of, name_of};

use crate::quota::{DemandSample, Quotas};
use crate::region::HotLimit;
use crate::request::{
    DecisionPath, Descriptor, GivenLimit, LimitAnswer, LimitOutcome, LimitSource, Reason, Request,
    RequestError, Subject,
};
use crate::world::{Reach, WorldNode, is_counted};
use smallvec::SmallVec;
use tidegate_core::batch::{ITEMS_INLINE, ITEMS_MAX};
use tidegate_core::{
    Accuracy, Charge, Class, Cost, Decision, Decisions, FleetSecret, Item, KeyId, KeyPrefix, Moment, Nanos,
    Role, Spec, Verdict,
};
use tidegate_rules::envoy::{EnvoyMatch, RequestLimit, Windows, drop_replaced};
use tidegate_rules::{Effect, LogSampling, MatchResult, Matches, Mode, Namespace, RuleSet, Scope};

/// An identifier of more parts than any rule's key has: no caller can have it.
pub(crate) const OVERFLOW_PARTS: [&str; 9] = [""; 9];

/// The limits of a request, side by side: what the table decides, and what the answer says.
#[derive(Debug)]
pub(crate) struct Plan<'r> {
    pub(crate) items: SmallVec<[Item; ITEMS_INLINE]>,
    /// For each item: its answer's index, and what to do when the table is full.
    pub(crate) targets: SmallVec<[Target; ITEMS_INLINE]>,
    pub(crate) answers: SmallVec<[LimitAnswer<'r>; ITEMS_INLINE]>,
    pub(crate) path: DecisionPath,
    /// The local limits that stand in for those of class `free` which couldn't ask.
    pub(crate) fallbacks: SmallVec<[Item; 2]>,
    /// The whole limits of those that are shared by quotas, in the order of their targets.
    quotas: SmallVec<[Spec; 2]>,
    /// Some of the limits count over the world.
    pub(crate) has_world: bool,
    /// Some of the rules say themselves what is logged of them.
    pub(crate) has_own_log: bool,
    /// How many of the rules look at a value that should be an address and isn't.
    pub(crate) malformed: u32,
    reach: Reach,
    /// Why a limit couldn't be checked, where one couldn't.
    unverified: Option<Reason>,
    /// Answers that are denials whatever the table says.
    denied: SmallVec<[(usize, Verdict); 2]>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    answer: usize,
    pub(crate) class: Class,
    pub(crate) overflow_key: KeyId,
    /// Its counts are the world's.
    pub(crate) is_world: bool,
    /// A part of it is enforced here.
    is_quota: bool,
    /// Declared hot by an override.
    pub(crate) is_hot: bool,
}

/// One of a request's limits, for those who look at which come often.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlannedLimit {
    pub(crate) limit: HotLimit,
    pub(crate) is_declared_hot: bool,
}

impl Target {
    /// Whether the answer of this index is its.
    pub(crate) fn is_of(&self, answer: usize) -> bool {
        self.answer == answer
    }
}

impl<'r> Plan<'r> {
    pub(crate) fn answer_of(&self, target: &Target) -> &LimitAnswer<'r> {
        &self.answers[target.answer]
    }

    pub(crate) fn new(reach: Reach) -> Self {
        Plan {
            items: SmallVec::new(),
            targets: SmallVec::new(),
            answers: SmallVec::new(),
            path: DecisionPath::Local,
            fallbacks: SmallVec::new(),
            quotas: SmallVec::new(),
            has_world: false,
            has_own_log: false,
            malformed: 0,
            reach,
            unverified: None,
            denied: SmallVec::new(),
        }
    }

    /// Has the answer say that a limit couldn't be checked, and why.
    pub(crate) fn set_unverified(&mut self, reason: Reason) {
        self.path = DecisionPath::Unverified;
        self.unverified = Some(reason);
    }

    /// Why a limit couldn't be checked, where one couldn't.
    pub(crate) fn unverified(&self) -> Option<Reason> {
        self.unverified
    }

    /// Finds the limits of a request.
    pub(crate) fn fill(
        &mut self,
        secret: &FleetSecret,
        rules: &'r RuleSet,
        request: &Request<'_>,
        moment: Moment,
    ) -> Result<Option<Reason>, RequestError> {
        match request.subject {
            Subject::Limits(limits) => {
                for (index, limit) in limits.iter().enumerate() {
                    self.push_given(secret, request.tenant, index, limit);
                }
                Ok(None)
            }
            Subject::Rules { namespace, attributes, cost } => {
                let mut matches = Matches::new();
                let matched = rules.matches(request.tenant, namespace, attributes, moment.now, &mut matches);
                for found in &matches {
                    self.push_rule(found, cost, 0);
                }
                reason(matched)
            }
            Subject::Descriptors { namespace, descriptors } => {
                self.fill_by_descriptors(secret, rules, (request.tenant, namespace), descriptors, moment)
            }
        }
    }

    fn fill_by_descriptors(
        &mut self,
        secret: &FleetSecret,
        rules: &'r RuleSet,
        (tenant, namespace): (&str, &str),
        descriptors: &[Descriptor<'_>],
        moment: Moment,
    ) -> Result<Option<Reason>, RequestError> {
        let Some(found_namespace) = rules.namespace(tenant, namespace) else {
            return Ok(self.fill_by_domain(rules, (tenant, namespace), descriptors, moment));
        };
        let Some(role) = role_in(rules.effective_mode(found_namespace)) else {
            return Ok(Some(Reason::NamespaceOff));
        };
        let mut matches = Matches::new();
        for (index, descriptor) in (0..=u8::MAX).zip(descriptors) {
            if let Some(window) = descriptor.limit {
                let (item, overflow_key) =
                    window_item(secret, found_namespace, descriptor, window, moment.now);
                self.push_window(Item { role, ..item }, overflow_key, index);
            } else {
                let matched =
                    rules.matches(tenant, namespace, descriptor.attributes, moment.now, &mut matches);
                reason(matched)?;
                for found in &matches {
                    self.push_rule(found, descriptor.cost, index);
                }
            }
            // The table takes so many at once, whichever descriptors they come from.
            if self.answers.len() > ITEMS_MAX {
                return Err(RequestError::TooManyRules);
            }
        }
        Ok(self.answers.is_empty().then_some(Reason::NoRuleMatches))
    }

    /// A domain of a file of envoyproxy/ratelimit: one limit at most for each descriptor, and what one of them
    /// replaces is as if it hadn't been met.
    fn fill_by_domain(
        &mut self,
        rules: &'r RuleSet,
        (tenant, domain): (&str, &str),
        descriptors: &[Descriptor<'_>],
        moment: Moment,
    ) -> Option<Reason> {
        let envoy = rules.envoy();
        if tenant != envoy.tenant() || !envoy.has_domain(domain) {
            return Some(Reason::UnknownNamespace);
        }
        let Some(role) = role_in(rules.fleet_mode()) else { return Some(Reason::NamespaceOff) };
        let mut found: SmallVec<[Option<EnvoyMatch<'r, '_>>; 4]> = descriptors
            .iter()
            .map(|descriptor| envoy.find(domain, descriptor.attributes.0, descriptor.limit))
            .collect();
        drop_replaced(&mut found);
        for ((index, descriptor), found) in (0..=u8::MAX).zip(descriptors).zip(&found) {
            let Some(found) = found else { continue };
            match (found.as_rule(moment.now), &found.policy) {
                (Some(mut rule), _) => {
                    if role == Role::Shadow {
                        rule.role = role;
                    }
                    self.push_rule(&rule, descriptor.cost, index);
                }
                (None, Some(policy)) => {
                    let item = Item {
                        role,
                        accuracy: Accuracy::Bounded,
                        ..Item::new(found.key, policy.spec(moment.now), descriptor.cost)
                    };
                    self.push_window(item, found.key, index);
                }
                (None, None) => {}
            }
        }
        self.answers.is_empty().then_some(Reason::NoRuleMatches)
    }

    pub(crate) fn push_given(
        &mut self,
        secret: &FleetSecret,
        tenant: &str,
        index: usize,
        limit: &GivenLimit<'_>,
    ) {
        let prefix = KeyPrefix::new(secret, tenant, limit.namespace, "", limit.policy.shape());
        let spec = limit.policy.spec();
        let (is_world, regions) = self.reached(limit.scope, limit.class, &spec);
        let item = Item {
            accuracy: limit.accuracy,
            class: limit.class,
            regions,
            ..Item::new(prefix.key(limit.identifier), spec, limit.cost)
        };
        let overflow_key = prefix.key_of_parts(OVERFLOW_PARTS);
        let is_quota = self.is_quota(limit.scope, &spec);
        let answer = self.answers.len();
        let (class, is_hot) = (limit.class, false);
        self.targets.push(Target { answer, class, overflow_key, is_world, is_quota, is_hot });
        self.items.push(item);
        self.answers.push(undecided(LimitSource::Given { index }, Role::Enforced, 0));
    }

    /// The limit that a descriptor gives itself.
    fn push_window(&mut self, item: Item, overflow_key: KeyId, index: u8) {
        let (is_world, _) = self.reached(None, Class::Paid, &item.spec);
        let is_quota = self.is_quota(None, &item.spec);
        let answer = self.answers.len();
        let (class, is_hot) = (Class::Paid, false);
        self.targets.push(Target { answer, class, overflow_key, is_world, is_quota, is_hot });
        self.items.push(item);
        self.answers.push(undecided(LimitSource::Given { index: usize::from(index) }, item.role, index));
    }

    pub(crate) fn push_rule(&mut self, found: &tidegate_rules::Match<'r>, cost: Cost, descriptor: u8) {
        let rule = found.rule;
        self.has_own_log |= rule.log != LogSampling::default();
        self.malformed += u32::from(found.malformed);
        let mut answer = undecided(LimitSource::Rule(rule), found.role, descriptor);
        match found.effect {
            Effect::Limited { key, spec } => {
                let (is_world, regions) = self.reached(rule.scope, rule.class, &spec);
                let (answer, overflow_key) = (self.answers.len(), rule.overflow_key);
                let is_quota = self.is_quota(rule.scope, &spec);
                let (class, is_hot) = (rule.class, found.hot);
                self.targets.push(Target { answer, class, overflow_key, is_world, is_quota, is_hot });
                self.items.push(Item {
                    charge: rule.charge,
                    role: found.role,
                    accuracy: rule.accuracy,
                    class: rule.class,
                    regions,
                    ..Item::new(key, spec, cost)
                });
            }
            Effect::Unlimited { .. } => answer.outcome = LimitOutcome::Unlimited,
            Effect::MissingDenied { attribute, is_malformed } => {
                answer.outcome = LimitOutcome::Missing { attribute, is_malformed };
            }
        }
        self.answers.push(answer);
    }

    /// Whether a limit counts over the world, and how many regions share its credit.
    #[inline]
    fn reached(&mut self, scope: Option<Scope>, class: Class, spec: &Spec) -> (bool, u32) {
        if !self.reach.has_world || scope == Some(Scope::Region) || !is_counted(spec) {
            return (false, 1);
        }
        self.has_world = true;
        (true, if class == Class::Abuse { self.reach.credit_regions } else { 1 })
    }

    /// Whether a limit of the world is shared by quotas; its whole is put down then.
    #[inline]
    fn is_quota(&mut self, scope: Option<Scope>, spec: &Spec) -> bool {
        let is_quota = self.reach.has_world && scope != Some(Scope::Region) && !is_counted(spec);
        if is_quota {
            self.quotas.push(*spec);
        }
        is_quota
    }

    #[inline]
    pub(crate) fn has_quotas(&self) -> bool {
        !self.quotas.is_empty()
    }

    /// Replaces each limit that regions share with the slice that is enforced here.
    pub(crate) fn apply_slices(&mut self, quotas: &Quotas, now: Nanos) {
        let shared = self.items.iter_mut().zip(&self.targets).filter(|(_, target)| target.is_quota);
        for ((item, target), whole) in shared.zip(&self.quotas) {
            item.spec = quotas.apply_slice(item.key, whole, target.class, now);
        }
    }

    /// Rewrites decisions of slices in terms of their whole limits, and counts the demand.
    pub(crate) fn show_whole_limits(&mut self, quotas: &Quotas, now: Nanos) {
        let shared = self.items.iter().zip(&self.targets).filter(|(_, target)| target.is_quota);
        for ((item, target), whole) in shared.zip(&self.quotas) {
            let is_abuse = target.class == Class::Abuse;
            let asked = DemandSample { key: item.key, whole, cost: item.cost.get(), is_abuse };
            let LimitOutcome::Decided(decision) = &mut self.answers[target.answer].outcome else { continue };
            if quotas.decided(&asked, decision, now) && self.path != DecisionPath::Unverified {
                self.path = DecisionPath::Quota;
            }
        }
    }

    /// Records the keys of world limits before an ask, while their names are at hand.
    #[cold]
    pub(crate) fn record_world_keys(&self, world: Option<&WorldNode>, request: &Request<'_>, now: Nanos) {
        self.record_world_keys_if(world, request, now, |_| true);
    }

    /// Records the keys of world limits that were charged without an ask: those that never ask, and those that are charged
    /// also when they are denied.
    pub(crate) fn record_unasked_world_keys(
        &self,
        world: Option<&WorldNode>,
        request: &Request<'_>,
        now: Nanos,
    ) {
        let is_charged = |item: &Item| item.accuracy == Accuracy::Async || item.charge == Charge::Always;
        self.record_world_keys_if(world, request, now, is_charged);
    }

    fn record_world_keys_if(
        &self,
        world: Option<&WorldNode>,
        request: &Request<'_>,
        now: Nanos,
        is_noted: impl Fn(&Item) -> bool,
    ) {
        let Some(world) = world else { return };
        for (item, target) in self.items.iter().zip(&self.targets) {
            if target.is_world && item.cost > Cost::PEEK && is_noted(item) {
                let answer = &self.answers[target.answer];
                world.record(item, now, || name_of(request, answer));
            }
        }
    }

    /// What the table decides, with what is answered of it.
    pub(crate) fn limits(&self) -> impl Iterator<Item = (PlannedLimit, &LimitAnswer<'r>)> {
        (0..self.items.len()).map(|index| (self.limit(index), self.answer_of(&self.targets[index])))
    }

    /// The same without a look at the targets; `None` where some answers are of no item.
    #[inline]
    pub(crate) fn decided(&self) -> Option<impl Iterator<Item = (&Item, &LimitAnswer<'r>)>> {
        // Items and answers are in one order, each item with an answer of its own.
        let (items, answers) = (self.items.as_slice(), self.answers.as_slice());
        (items.len() == answers.len()).then(|| items.iter().zip(answers))
    }

    /// One of the limits, as it is enforced here and as it is declared.
    pub(crate) fn limit(&self, index: usize) -> PlannedLimit {
        let target = &self.targets[index];
        let wholes = self.targets[..index].iter().filter(|target| target.is_quota).count();
        let whole = target.is_quota.then(|| self.quotas.get(wholes).copied()).flatten();
        PlannedLimit {
            limit: HotLimit { item: self.items[index], limit: whole },
            is_declared_hot: target.is_hot,
        }
    }

    pub(crate) fn is_denied(&self) -> bool {
        Role::deny(self.answers.iter().map(|answer| (answer.role, answer.is_allowed())))
    }

    /// It has passed already: charged whatever the limits say, and nobody is asked.
    pub(crate) fn report(&mut self) {
        for item in &mut self.items {
            (item.charge, item.accuracy) = (Charge::Always, Accuracy::Async);
        }
    }

    /// Makes the items of a denied request peeks. Items that are always charged stay so.
    pub(crate) fn only_peek(&mut self) {
        for item in &mut self.items {
            if item.charge == Charge::IfAdmitted {
                item.charge = Charge::Never;
            }
        }
    }

    /// Answers for an item that gets no entry, and removes it from what the table decides.
    pub(crate) fn answer(&mut self, index: usize, verdict: Verdict, moment: Moment) {
        let limit = self.items[index].spec.shown_limit();
        let decision = Decision { verdict, limit, remaining: 0, reset: moment.now };
        self.answers[self.targets[index].answer].outcome = LimitOutcome::Decided(decision);
        if self.items[index].role == Role::Quota && verdict == Verdict::Admit {
            // One quota is enough: the table, which no longer sees it, mustn't let the others deny.
            let quotas = self.items.iter_mut().filter(|item| item.role == Role::Quota);
            quotas.for_each(|item| item.role = Role::Shadow);
        }
        self.items.remove(index);
        if self.targets.remove(index).is_quota {
            let before = self.targets[..index].iter().filter(|target| target.is_quota).count();
            self.quotas.remove(before);
        }
    }

    /// The region refused an item, or nobody could be asked: whatever the local view says, it is denied. The
    /// view is still looked at, for the rest of the answer.
    pub(crate) fn deny(&mut self, index: usize, retry_after: Option<Nanos>, moment: Moment) {
        let verdict = Verdict::Deny { retry_after };
        let limit = self.items[index].spec.shown_limit();
        let answer = self.targets[index].answer;
        let decision = Decision { verdict, limit, remaining: 0, reset: moment.now };
        self.answers[answer].outcome = LimitOutcome::Decided(decision);
        if self.items[index].charge == Charge::IfAdmitted {
            self.items[index].charge = Charge::Never;
        }
        if self.items[index].role == Role::Quota {
            // The table, which may still see some of it left, mustn't count it among those that are.
            self.items[index].role = Role::Shadow;
        }
        self.denied.push((answer, verdict));
    }

    pub(crate) fn write(&mut self, decisions: &Decisions) {
        for (target, decision) in self.targets.iter().zip(decisions) {
            self.answers[target.answer].outcome = LimitOutcome::Decided(*decision);
        }
        for (answer, verdict) in self.denied.drain(..) {
            if let LimitOutcome::Decided(decision) = &mut self.answers[answer].outcome {
                decision.verdict = verdict;
            }
        }
    }
}

/// How limits of this mode count; `None` when they don't.
fn role_in(mode: Mode) -> Option<Role> {
    match mode {
        Mode::Off => None,
        Mode::Shadow => Some(Role::Shadow),
        Mode::Enforce => Some(Role::Enforced),
    }
}

/// A descriptor's own limit in a namespace of ours, and what stands in for it in a full table. Named by all of
/// its attributes, which are an even number of parts: no limit of another request, and no overflow, has such a
/// key.
fn window_item(
    secret: &FleetSecret,
    namespace: &Namespace,
    descriptor: &Descriptor<'_>,
    given: RequestLimit,
    now: Nanos,
) -> (Item, KeyId) {
    let policy = Windows::Fixed.window(given.requests_per_unit, given.period);
    let prefix = KeyPrefix::new(secret, &namespace.tenant, &namespace.name, "", policy.shape());
    let parts = descriptor.attributes.0.iter().flat_map(|(name, value)| [*name, *value]);
    let key = namespace.placed(prefix.key_of_parts(parts), descriptor.attributes);
    let item = Item { accuracy: Accuracy::Bounded, ..Item::new(key, policy.spec(now), descriptor.cost) };
    (item, prefix.key_of_parts(OVERFLOW_PARTS))
}

fn reason(matched: MatchResult) -> Result<Option<Reason>, RequestError> {
    match matched {
        MatchResult::Rules => Ok(None),
        MatchResult::NoRule => Ok(Some(Reason::NoRuleMatches)),
        MatchResult::UnknownNamespace => Ok(Some(Reason::UnknownNamespace)),
        MatchResult::Off => Ok(Some(Reason::NamespaceOff)),
        MatchResult::TooMany => Err(RequestError::TooManyRules),
    }
}

/// Stands in an answer until the table has decided it.
const fn undecided(source: LimitSource<'_>, role: Role, descriptor: u8) -> LimitAnswer<'_> {
    LimitAnswer { source, role, descriptor, outcome: LimitOutcome::Unlimited }
}
