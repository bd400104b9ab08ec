//! From a request to an answer: find the limits, decide them together, say what each said.
//!
//! The hot path: it allocates nothing for up to 16 limits, takes no lock but the table's, and makes no
//! system call. What can't get an entry in the full table is decided by its class, and counted.

use crate::request::{
    Answer, GivenLimit, LimitAnswer, Origin, Path, Purpose, Reason, Request, RequestError, Said, Subject,
};
use crate::stats::{Refusal, Stats};
use arc_swap::{ArcSwap, Guard};
use smallvec::SmallVec;
use std::sync::{Arc, Mutex, PoisonError};
use tidegate_core::batch::{ITEMS_INLINE, Room};
use tidegate_core::{
    Charge, Class, Cost, Decision, Decisions, FleetSecret, Item, KeyId, KeyPrefix, LocalState, Moment, Nanos,
    Refused, Role, StepId, Table, Verdict,
};
use tidegate_rules::{Effect, Matched, Matches, RuleSet};

/// A caller denied because the table is full is told to come back after this.
const RETRY_WHEN_FULL: Nanos = Nanos::from_secs(1);
/// An identifier of more parts than any rule's key has: no caller can have it.
const OVERFLOW_PARTS: [&str; 9] = [""; 9];

#[derive(Debug, Clone, Copy)]
pub struct EngineOptions {
    pub secret: FleetSecret,
    /// The cap of the counter table.
    pub keys_max: usize,
}

#[derive(Debug)]
pub struct Engine {
    secret: FleetSecret,
    table: Table<LocalState>,
    rules: ArcSwap<VersionedRules>,
    /// Held while rules are replaced, so that versions come in order.
    last_version: Mutex<u64>,
    stats: Stats,
}

/// A rule set and the number it is known by: 1 at the start, one more at each change.
#[derive(Debug)]
pub struct VersionedRules {
    pub set: RuleSet,
    pub version: u64,
}

/// The rules that a request is decided by; the answer borrows from them.
pub type RulesInForce = Guard<Arc<VersionedRules>>;

/// The limits of a request, side by side: what the table decides, and what the answer says.
struct Plan<'r> {
    items: SmallVec<[Item; ITEMS_INLINE]>,
    /// For each item: its answer's index, and what to do when the table is full.
    targets: SmallVec<[Target; ITEMS_INLINE]>,
    answers: SmallVec<[LimitAnswer<'r>; ITEMS_INLINE]>,
    path: Path,
}

#[derive(Clone, Copy)]
struct Target {
    answer: usize,
    class: Class,
    overflow_key: KeyId,
}

impl Engine {
    pub fn new(options: EngineOptions, rules: RuleSet) -> Self {
        Engine {
            secret: options.secret,
            table: Table::new(options.keys_max),
            rules: ArcSwap::from_pointee(VersionedRules { set: rules, version: 1 }),
            last_version: Mutex::new(1),
            stats: Stats::default(),
        }
    }

    pub fn rules(&self) -> RulesInForce {
        self.rules.load()
    }

    /// Puts other rules in force. Counts stay: a changed number applies to what was already admitted.
    pub fn replace_rules(&self, set: RuleSet) -> u64 {
        let mut version = self.last_version.lock().unwrap_or_else(PoisonError::into_inner);
        *version += 1;
        self.rules.store(Arc::new(VersionedRules { set, version: *version }));
        *version
    }

    pub fn secret(&self) -> &FleetSecret {
        &self.secret
    }

    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    pub fn key_count(&self) -> usize {
        self.table.len()
    }

    /// Decides a request. The rules are taken once, so that all of its limits are of one version.
    pub fn decide<'r>(
        &self,
        rules: &'r VersionedRules,
        request: &Request<'_>,
        moment: Moment,
    ) -> Result<Answer<'r>, RequestError> {
        request.validate()?;
        let mut plan = Plan::new();
        let reason = self.plan(&mut plan, rules, request, moment)?;
        self.decide_plan(&mut plan, request.purpose, moment);
        let allowed = !plan.is_denied();
        self.stats.decided(allowed);
        Ok(Answer { allowed, limits: plan.answers, path: plan.path, reason, rule_version: rules.version })
    }

    fn plan<'r>(
        &self,
        plan: &mut Plan<'r>,
        rules: &'r VersionedRules,
        request: &Request<'_>,
        moment: Moment,
    ) -> Result<Option<Reason>, RequestError> {
        match request.subject {
            Subject::Limits(limits) => {
                for (index, limit) in limits.iter().enumerate() {
                    plan.push_given(&self.secret, request.tenant, index, limit);
                }
                Ok(None)
            }
            Subject::Rules { namespace, attributes, cost } => {
                let mut matches = Matches::new();
                let matched =
                    rules.set.matches(request.tenant, namespace, attributes, moment.now, &mut matches);
                for found in &matches {
                    plan.push_rule(found, cost);
                }
                match matched {
                    Matched::Rules => Ok(None),
                    Matched::NoRule => Ok(Some(Reason::NoRuleMatches)),
                    Matched::UnknownNamespace => Ok(Some(Reason::UnknownNamespace)),
                    Matched::Off => Ok(Some(Reason::NamespaceOff)),
                    Matched::TooMany => Err(RequestError::TooManyRules),
                }
            }
        }
    }

    /// Decides the items together. When the table has no room for one, its class says how to go on.
    fn decide_plan(&self, plan: &mut Plan<'_>, purpose: Purpose, moment: Moment) {
        if purpose == Purpose::Report {
            plan.items.iter_mut().for_each(|item| item.charge = Charge::Always);
        } else if plan.is_denied() {
            plan.only_look();
        }
        let mut decisions = Decisions::new();
        while let Err(Refused { index }) = self.table.decide_all(&plan.items, moment, &mut decisions) {
            self.refuse(plan, index, moment);
        }
        plan.write(&decisions);
    }

    #[cold]
    fn refuse(&self, plan: &mut Plan<'_>, index: usize, moment: Moment) {
        let target = plan.targets[index];
        plan.path = Path::Unverified;
        let total = match target.class {
            Class::Free if plan.items[index].room == Room::Capped => {
                plan.items[index].key = target.overflow_key;
                plan.items[index].room = Room::Reserved;
                self.stats.refused(Refusal::Shared)
            }
            Class::Paid => {
                plan.say(index, Verdict::Admit, moment);
                self.stats.refused(Refusal::Admitted)
            }
            // Shared limits have run out of room too, where callers make them up.
            Class::Abuse | Class::Free => {
                plan.say(index, Verdict::Deny { retry_after: Some(RETRY_WHEN_FULL) }, moment);
                if plan.is_denied() {
                    plan.only_look();
                }
                self.stats.refused(Refusal::Denied)
            }
        };
        // At 1, 2, 4, 8 … refusals: told at once, and never a flood.
        if total.is_power_of_two() {
            tracing::warn!(
                refused = total,
                "the counter table is full; keys without room follow their class"
            );
        }
    }

    /// Starts the keys of a request afresh. Says how many there were.
    pub fn reset(
        &self,
        rules: &VersionedRules,
        request: &Request<'_>,
        moment: Moment,
    ) -> Result<usize, RequestError> {
        request.validate()?;
        let mut plan = Plan::new();
        self.plan(&mut plan, rules, request, moment)?;
        let fresh = |state: &mut LocalState| *state = LocalState::default();
        Ok(plan.items.iter().filter(|item| self.table.update(item.key, fresh)).count())
    }

    /// Drops what has expired in one shard of the table; called in turn for all of them.
    pub fn sweep(&self, shard: usize, moment: Moment) {
        let swept = self.table.sweep_shard(shard % self.table.shard_count(), moment);
        self.stats.swept(u64::try_from(swept).unwrap_or(0));
    }

    pub fn shard_count(&self) -> usize {
        self.table.shard_count()
    }

    /// Tells the table of a clock step, before the clock makes it.
    pub fn clock_stepped(&self, delta_ns: i64, lands_at: Nanos) -> StepId {
        self.stats.clock_stepped();
        self.table.clock_stepped(delta_ns, lands_at)
    }
}

impl<'r> Plan<'r> {
    fn new() -> Self {
        Plan { items: SmallVec::new(), targets: SmallVec::new(), answers: SmallVec::new(), path: Path::Local }
    }

    fn push_given(&mut self, secret: &FleetSecret, tenant: &str, index: usize, limit: &GivenLimit<'_>) {
        let prefix = KeyPrefix::new(secret, tenant, limit.namespace, "", limit.policy.shape());
        let item = Item::new(prefix.key(limit.identifier), limit.policy.spec(), limit.cost);
        let overflow_key = prefix.key_of_parts(OVERFLOW_PARTS);
        self.targets.push(Target { answer: self.answers.len(), class: limit.class, overflow_key });
        self.items.push(item);
        self.answers.push(undecided(Origin::Given { index }, Role::Enforced));
    }

    fn push_rule(&mut self, found: &tidegate_rules::Match<'r>, cost: Cost) {
        let rule = found.rule;
        let mut answer = undecided(Origin::Rule(rule), found.role);
        match found.effect {
            Effect::Limited { key, spec } => {
                let target =
                    Target { answer: self.answers.len(), class: rule.class, overflow_key: rule.overflow_key };
                self.targets.push(target);
                self.items.push(Item { charge: rule.charge, role: found.role, ..Item::new(key, spec, cost) });
            }
            Effect::Unlimited { .. } => answer.said = Said::Unlimited,
            Effect::MissingDenied { attribute } => answer.said = Said::Missing { attribute },
        }
        self.answers.push(answer);
    }

    fn is_denied(&self) -> bool {
        self.answers.iter().any(LimitAnswer::denies)
    }

    /// The request is denied whatever the table says: look at its limits for the answer, charge only what is
    /// charged always.
    fn only_look(&mut self) {
        for item in &mut self.items {
            if item.charge == Charge::IfAdmitted {
                item.charge = Charge::Never;
            }
        }
    }

    /// Answers for an item that gets no entry, and takes it out of what the table decides.
    fn say(&mut self, index: usize, verdict: Verdict, moment: Moment) {
        let limit = self.items[index].spec.shown_limit();
        let decision = Decision { verdict, limit, remaining: 0, reset: moment.now };
        self.answers[self.targets[index].answer].said = Said::Decided(decision);
        self.items.remove(index);
        self.targets.remove(index);
    }

    fn write(&mut self, decisions: &Decisions) {
        for (target, decision) in self.targets.iter().zip(decisions) {
            self.answers[target.answer].said = Said::Decided(*decision);
        }
    }
}

/// Stands in an answer until the table has decided it.
const fn undecided(origin: Origin<'_>, role: Role) -> LimitAnswer<'_> {
    LimitAnswer { origin, role, said: Said::Unlimited }
}
