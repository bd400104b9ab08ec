//! From a request to an answer: find the limits, decide them together, say what each said.
//!
//! The hot path: it allocates nothing for up to 16 limits, takes no lock but the table's, and makes no
//! system call. What can't get an entry in the full table is decided by its class, and counted.

mod callers;
mod journaled;
mod resets;
mod resume;
mod single;
mod upkeep;

use crate::denial_predictor::DenialPredictor;
use crate::journal::{self, Journal};
use crate::plan::Plan;
use crate::quota::Quotas;
use crate::region::{AskItem, RegionOptions};
use crate::request::{Answer, DecisionPath, Purpose, Reason, Request, RequestError};
use crate::rule_counts::RuleOutcome;
use crate::shadow::{ShadowIdentifiers, ShadowReport};
use crate::sharing::Sharing;
use crate::stats::{Refusal, Stats};
use crate::top::{self, Top};
use crate::unknown_namespaces;
use crate::world::{Reach, WorldNode};
use arc_swap::{ArcSwap, Guard};
pub use resets::ResetKey;
pub use single::Tally;
use smallvec::SmallVec;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tidegate_core::state::State;
use tidegate_core::{
    Class, Cost, Decisions, FleetSecret, LocalState, Moment, Nanos, Room, Table, TenantTag, Undecided,
    Verdict,
};
use tidegate_decisions::{RequestTag, Trace};
use tidegate_rules::RuleSet;

/// A caller denied because the table is full is told to come back after this.
const RETRY_WHEN_FULL: Nanos = Nanos::from_secs(1);
#[derive(Debug, Clone, Copy)]
pub struct EngineOptions {
    pub secret: FleetSecret,
    /// The cap of the counter table.
    pub keys_max: usize,
}

#[derive(Debug)]
pub struct Engine {
    secret: FleetSecret,
    keys_max: usize,
    counters: Counters,
    rules: ArcSwap<VersionedRules>,
    /// Held while rules are replaced, so that versions come in order.
    last_version: Mutex<u64>,
    stats: Stats,
    shadows: ShadowReport,
    top: Top,
    denial_predictor: DenialPredictor,
    journal: OnceLock<Arc<Journal>>,
}

/// Where the counts are.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one per process, and a lone node's table is reached at once")]
enum Counters {
    Alone(Table<LocalState>),
    Shared(Box<Sharing>),
}

/// A decision, or what has to be asked before there is one.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "an answer is made on the hot path, without allocating")]
pub enum DecideOutcome<'r> {
    Answer(Answer<'r>),
    Ask(Box<PendingDecision<'r>>),
}

impl<'r> DecideOutcome<'r> {
    /// The answer, where nobody has to be asked.
    pub fn answer(self) -> Option<Answer<'r>> {
        match self {
            DecideOutcome::Answer(answer) => Some(answer),
            DecideOutcome::Ask(_) => None,
        }
    }
}

/// A request that would pass, and the limits that must ask before it does.
#[derive(Debug)]
pub struct PendingDecision<'r> {
    plan: Plan<'r>,
    asks: SmallVec<[AskItem; 4]>,
    /// For each ask, the index of its item in the plan.
    items: SmallVec<[usize; 4]>,
    context: AskContext,
    trace: Trace,
}

/// The context that a waiting request needs for its answer, and for what is recorded of it afterwards.
#[derive(Debug)]
struct AskContext {
    reason: Option<Reason>,
    rule_version: u64,
    request: RequestTag,
    watched: ShadowIdentifiers,
}

impl PendingDecision<'_> {
    pub fn asks(&self) -> &[AskItem] {
        &self.asks
    }
}

/// A rule set and the number it is known by: its control plane's version; for rules of files 1 at the start, and one
/// more at each change.
#[derive(Debug)]
pub struct VersionedRules {
    pub set: RuleSet,
    pub version: u64,
}

/// The rules that a request is decided by; the answer borrows from them.
pub type RulesInForce = Guard<Arc<VersionedRules>>;

impl Engine {
    /// A node that is alone: it decides by itself, and tells nobody.
    pub fn new(options: EngineOptions, rules: RuleSet) -> Self {
        Self::with_counters(options, Counters::Alone(Table::new(options.keys_max)), rules)
    }

    /// A node that shares its counts with the other nodes of its region.
    pub fn sharing(options: EngineOptions, region: RegionOptions, rules: RuleSet) -> Self {
        let sharing = Sharing::new(options.keys_max, region, false);
        Self::with_counters(options, Counters::Shared(Box::new(sharing)), rules)
    }

    /// The same in a region that shares its counts with other regions.
    pub fn sharing_with_world(options: EngineOptions, region: RegionOptions, rules: RuleSet) -> Self {
        let sharing = Sharing::new(options.keys_max, region, true);
        Self::with_counters(options, Counters::Shared(Box::new(sharing)), rules)
    }

    fn with_counters(options: EngineOptions, counters: Counters, rules: RuleSet) -> Self {
        Engine {
            secret: options.secret,
            keys_max: options.keys_max,
            counters,
            last_version: Mutex::new(rules.version().max(1)),
            rules: ArcSwap::from_pointee(VersionedRules { version: rules.version().max(1), set: rules }),
            stats: Stats::default(),
            shadows: ShadowReport::default(),
            top: Top::default(),
            denial_predictor: DenialPredictor::default(),
            journal: OnceLock::new(),
        }
    }

    pub fn rules(&self) -> RulesInForce {
        self.rules.load()
    }

    /// Puts other rules in force. Counts stay: a changed number applies to what was already admitted.
    pub fn replace_rules(&self, set: RuleSet) -> u64 {
        let mut version = self.last_version.lock().unwrap_or_else(PoisonError::into_inner);
        *version = if set.version() > 0 { set.version() } else { *version + 1 };
        self.rules.store(Arc::new(VersionedRules { set, version: *version }));
        *version
    }

    pub fn secret(&self) -> &FleetSecret {
        &self.secret
    }

    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Whom shadow rules would have denied.
    pub fn shadows(&self) -> &ShadowReport {
        &self.shadows
    }

    pub fn key_count(&self) -> usize {
        match &self.counters {
            Counters::Alone(table) => table.len(),
            Counters::Shared(sharing) => sharing.table.len(),
        }
    }

    /// How many keys the counter table has room for.
    pub fn keys_max(&self) -> usize {
        self.keys_max
    }

    /// Live keys that had to leave a full table.
    pub fn evicted(&self) -> u64 {
        match &self.counters {
            Counters::Alone(table) => table.evicted(),
            Counters::Shared(sharing) => sharing.table.evicted(),
        }
    }

    /// The counts of a node that is alone; `None` when it shares them.
    pub fn lone_table(&self) -> Option<&Table<LocalState>> {
        match &self.counters {
            Counters::Alone(table) => Some(table),
            Counters::Shared(_) => None,
        }
    }

    /// What is shared with the region; `None` when the node is alone.
    pub fn shared(&self) -> Option<&Sharing> {
        match &self.counters {
            Counters::Alone(_) => None,
            Counters::Shared(sharing) => Some(sharing),
        }
    }

    /// What this node does for the world tier; `None` where there is none.
    pub fn world(&self) -> Option<&WorldNode> {
        self.shared().and_then(|sharing| sharing.region.world())
    }

    /// The parts of limits that are enforced here; `None` where there is no world.
    pub fn quotas(&self) -> Option<&Quotas> {
        self.shared().and_then(|sharing| sharing.quotas.as_deref())
    }

    fn reach(&self) -> Reach {
        self.world().map_or(Reach::REGION, WorldNode::reach)
    }

    /// Gives each of these tenants a part of the counter table that the others can't take. Before the first count,
    /// and then whenever the tenants change.
    pub fn share_among<'t>(&self, tenants: impl IntoIterator<Item = &'t str>) {
        let tags: Vec<TenantTag> =
            tenants.into_iter().map(|tenant| TenantTag::new(&self.secret, tenant)).collect();
        match &self.counters {
            Counters::Alone(table) => table.share_among(&tags),
            Counters::Shared(sharing) => sharing.share_among(&tags),
        }
    }

    /// Decides a request. The rules are taken once, so that all of its limits are of one version.
    pub fn decide<'r>(
        &self,
        rules: &'r VersionedRules,
        request: &Request<'_>,
        moment: Moment,
    ) -> Result<DecideOutcome<'r>, RequestError> {
        let tag = self.journal.get().map_or(RequestTag::default(), |_| journal::take_request());
        request.validate()?;
        let mut plan = Plan::new(self.reach());
        let reason = plan.fill(&self.secret, &rules.set, request, moment)?;
        if plan.malformed > 0 {
            self.stats.malformed(plan.malformed);
        }
        if reason == Some(Reason::UnknownNamespace) {
            unknown_namespaces::record(request, moment.now);
        }
        if request.purpose == Purpose::Report {
            plan.report();
        } else if plan.is_denied() {
            plan.only_peek();
        }
        if plan.has_quotas()
            && let Some(quotas) = self.quotas()
        {
            plan.apply_slices(quotas, moment.now);
        }
        let decided = match &self.counters {
            Counters::Alone(table) => self.decide_on(table, &mut plan, moment),
            Counters::Shared(sharing) => self.decide_on(&sharing.table, &mut plan, moment),
        };
        if let Some(stands_for) = top::sampled(moment.now) {
            self.top.record(request, &plan, stands_for, moment.now);
            if decided.is_ok() {
                self.denial_predictor.observe(&plan);
            }
        }
        match (decided, &self.counters) {
            (Err(MustAsk), Counters::Shared(sharing)) => {
                plan.record_world_keys(sharing.region.world(), request, moment.now);
                self.remember(request, &plan);
                let watched = ShadowIdentifiers::of(request, &plan.answers);
                let along = AskContext { reason, rule_version: rules.version, request: tag, watched };
                Ok(self.ask_first(sharing, plan, along, moment))
            }
            _ => {
                if plan.has_world {
                    // What is charged without an ask is noted here.
                    plan.record_unasked_world_keys(self.world(), request, moment.now);
                }
                self.record(&plan, Some(request), (rules.version, tag), moment);
                if request.purpose == Purpose::Check {
                    // What is reported had passed already: a limit that is switched on wouldn't deny it.
                    self.shadows.record(request, &plan.answers);
                }
                Ok(DecideOutcome::Answer(self.answer(plan, reason, request.purpose, rules.version)))
            }
        }
    }

    fn answer<'r>(
        &self,
        plan: Plan<'r>,
        reason: Option<Reason>,
        purpose: Purpose,
        rule_version: u64,
    ) -> Answer<'r> {
        let allowed = !plan.is_denied();
        let came_out = match (purpose, allowed) {
            (Purpose::Report, _) => RuleOutcome::Reported,
            (Purpose::Check, true) => RuleOutcome::Admitted,
            (Purpose::Check, false) => RuleOutcome::Denied,
        };
        self.stats.decided(came_out, plan.path, &plan.answers);
        let reason = plan.unverified().or(reason);
        Answer { allowed, limits: plan.answers, path: plan.path, reason, rule_version }
    }

    /// Finds out which limits must ask, and why.
    #[cold]
    fn ask_first<'r>(
        &self,
        sharing: &Sharing,
        mut plan: Plan<'r>,
        context: AskContext,
        moment: Moment,
    ) -> DecideOutcome<'r> {
        let reasons = sharing.table.reasons(&plan.items, moment);
        let (mut asks, mut items) = (SmallVec::new(), SmallVec::new());
        for (index, (item, reason)) in plan.items.iter().zip(&reasons).enumerate() {
            // A key that comes twice asks for both, if for either: one alone would find what the other needs.
            let same_key = || plan.items.iter().zip(&reasons).filter(|(other, _)| other.key == item.key);
            let either = || same_key().find_map(|(_, reason)| *reason).filter(|_| item.cost > Cost::PEEK);
            let Some(reason) = reason.or_else(either) else { continue };
            if plan.targets[index].is_hot || sharing.region.is_hot(item.key) {
                sharing.region.heat(plan.limit(index).limit, 0, moment.now);
            }
            asks.push(AskItem {
                key: item.key,
                spec: item.spec,
                cost: item.cost,
                accuracy: item.accuracy,
                class: item.class,
                role: item.role,
                regions: item.regions,
                reason,
            });
            items.push(index);
        }
        plan.path = asks.first().map_or(DecisionPath::Local, |ask: &AskItem| DecisionPath::Asked(ask.reason));
        let trace = journal::present_trace();
        DecideOutcome::Ask(Box::new(PendingDecision { plan, asks, items, context, trace }))
    }

    /// Decides the items together. When the table has no room for one, its class says how to go on.
    fn decide_on<S: State>(
        &self,
        table: &Table<S>,
        plan: &mut Plan<'_>,
        moment: Moment,
    ) -> Result<(), MustAsk> {
        let mut decisions = Decisions::new();
        loop {
            let suspect = self.denial_predictor.of(plan);
            match table.decide_all_predicting(&plan.items, suspect, moment, &mut decisions) {
                Ok(_) => break,
                Err(Undecided::NoRoom { index }) => self.refuse(plan, index, moment),
                Err(Undecided::MustAsk) => return Err(MustAsk),
            }
        }
        plan.write(&decisions);
        if plan.has_quotas()
            && let Some(quotas) = self.quotas()
        {
            plan.show_whole_limits(quotas, moment.now);
        }
        Ok(())
    }

    #[cold]
    fn refuse(&self, plan: &mut Plan<'_>, index: usize, moment: Moment) {
        let target = plan.targets[index];
        plan.set_unverified(Reason::TableFull);
        if plan.items[index].room == Room::Capped && self.key_count() < self.keys_max {
            self.warn_below_cap(moment);
        }
        let total = match target.class {
            Class::Free if plan.items[index].room == Room::Capped => {
                plan.items[index].key = target.overflow_key;
                plan.items[index].room = Room::Reserved;
                self.stats.refused(Refusal::Shared)
            }
            Class::Paid => {
                plan.answer(index, Verdict::Admit, moment);
                self.stats.refused(Refusal::Admitted)
            }
            // Shared limits have run out of room too, where callers make them up.
            Class::Abuse | Class::Free => {
                plan.answer(index, Verdict::Deny { retry_after: Some(RETRY_WHEN_FULL) }, moment);
                if plan.is_denied() {
                    plan.only_peek();
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
}

impl Engine {
    /// All shards of the table share its cap, so only what is kept for tenants within their share may be missing.
    fn warn_below_cap(&self, moment: Moment) {
        if let Some(refused) = self.stats.refused_below_cap(moment.now) {
            tracing::warn!(
                refused,
                keys = self.key_count(),
                keys_max = self.keys_max,
                fix = "see docs/alerts/table-refuses.md",
                "keys found no room in a counter table that isn't full"
            );
        }
    }
}

/// An admission needs the region's word first.
struct MustAsk;
