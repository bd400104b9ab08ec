//! What decisions leave for those who ask later: every denial, and a sample of the admissions.
//!
//! On the hot path it costs an admission a few instructions, and a denial of a flood a look into a table of its
//! thread: whose it is, and what is to be shown of it, is put together only where it is kept. `journal/writer.rs` is the
//! thread that writes, `journal/health.rs` what it tells of the node itself.

mod callers;
pub mod health;
pub mod lines;
pub mod log_query;
mod selection;
pub mod writer;

pub use callers::CallerNames;
pub(crate) use selection::RecordSelection;

use crate::plan::{OVERFLOW_PARTS, Plan, Target};
use crate::request::{DecisionPath, LimitAnswer, LimitOutcome, LimitSource, Request, Subject};
use parking_lot::Mutex;
use std::cell::Cell;
use std::collections::HashMap;
use std::path::{Path as FilePath, PathBuf};
use std::sync::mpsc::Sender;
use std::sync::{Arc, OnceLock};
use tidegate_core::ask::AskReason;
use tidegate_core::identity::Shape;
use tidegate_core::{Decision, Item, KeyId, KeyPrefix, Moment, Nanos, Role, Spec, TierCounts, Verdict};
use tidegate_decisions::{
    self as decisions, Algorithm, Caller, DenialKind, Event, KeyForm, KeyHash, Record, RecordHeader,
    RecordOutcome, Recorder, RequestTag, RuleId, RuleName, ShardTag, Trace,
};
use tidegate_rules::{LogSampling, Rule};
use writer::WriterCommand;

/// Namespaces of limits that requests give themselves, which are remembered for requests that wait.
const GIVEN_MAX: usize = 4096;

thread_local! {
    /// The request that this thread decides next.
    static REQUEST: Cell<RequestTag> = const { Cell::new(RequestTag(0)) };
    /// And the trace that it belongs to, where its caller named one.
    static TRACE: Cell<Trace> = const { Cell::new(Trace::NONE) };
    /// Admissions until the next one is taken into the sample.
    static UNTIL_SAMPLE: Cell<u32> = const { Cell::new(0) };
    /// For samples of other sizes.
    static CHANCE: Cell<u64> = const { Cell::new(0x9e37_79b9_7f4a_7c15) };
}

/// Says of which request the next decision of this thread is. Beside the request, because most who make one have no
/// id for it: engines embedded in a program, simulations, clients of Redis.
#[inline]
pub fn name_next_request(tag: RequestTag) {
    REQUEST.set(tag);
}

/// Decides something as part of a trace. Only what is kept looks at it, so that whoever has no trace pays nothing.
#[inline]
pub fn traced<T>(trace: Trace, decide: impl FnOnce() -> T) -> T {
    if trace == Trace::NONE {
        return decide();
    }
    let before = TRACE.replace(trace);
    let decided = decide();
    TRACE.set(before);
    decided
}

/// For a request that has to wait.
pub(crate) fn present_trace() -> Trace {
    TRACE.get()
}

/// Whose turn it is now; nobody's from here on.
#[inline]
pub(crate) fn take_request() -> RequestTag {
    REQUEST.take()
}

type ShardOf = Box<dyn Fn(KeyId) -> String + Send + Sync>;

pub struct Journal {
    recorder: Recorder,
    /// `None`: nothing is kept here, only told elsewhere.
    directory: Option<PathBuf>,
    shard_of: OnceLock<ShardOf>,
    given: Mutex<HashMap<RuleId, RuleName>>,
    callers: OnceLock<CallerNames>,
    /// Of requests that wait: when they go on, their attributes aren't at hand.
    waiting: Mutex<HashMap<KeyHash, Caller>>,
    /// To the thread that writes.
    commands: OnceLock<Sender<WriterCommand>>,
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journal").field("directory", &self.directory).finish_non_exhaustive()
    }
}

/// A decision's circumstances.
pub(crate) struct Circumstances<'a> {
    pub(crate) rule_version: u64,
    pub(crate) moment: Moment,
    pub(crate) request: RequestTag,
    /// What the table knows of a key.
    pub(crate) tier_counts: &'a dyn Fn(&Item, &Decision) -> TierCounts,
}

impl Journal {
    /// For so many threads that decide. Where it is written, and read again, is the writer's business.
    pub fn new(threads: usize, directory: impl Into<Option<PathBuf>>) -> Arc<Self> {
        Arc::new(Journal {
            recorder: Recorder::new(threads),
            directory: directory.into(),
            shard_of: OnceLock::new(),
            given: Mutex::new(HashMap::new()),
            callers: OnceLock::new(),
            waiting: Mutex::new(HashMap::new()),
            commands: OnceLock::new(),
        })
    }

    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    pub fn directory(&self) -> Option<&FilePath> {
        self.directory.as_deref()
    }

    /// How a key's shard is called. Once, by who knows the shards.
    pub fn name_shards_by(&self, shard_of: ShardOf) {
        // A second one would say the same.
        let _ = self.shard_of.set(shard_of);
    }

    pub fn event(&self, event: Event) {
        self.recorder.event(event);
    }

    /// Remembers what limits are called that requests give themselves, and whose keys they are: when they go on, that
    /// isn't at hand.
    #[cold]
    pub(crate) fn remember(&self, request: &Request<'_>, plan: &Plan<'_>) {
        for (item, target) in plan.items.iter().zip(&plan.targets) {
            let answer = plan.answer_of(target);
            self.remember_caller(request, answer, item, RuleId::of_overflow(target.overflow_key));
            if !matches!(answer.source, LimitSource::Given { .. }) {
                continue;
            }
            let id = RuleId::of_overflow(target.overflow_key);
            let mut given = self.given.lock();
            if given.len() < GIVEN_MAX {
                given.entry(id).or_insert_with(|| given_name(request, answer, item));
            }
        }
    }

    /// What of a request is still to be put down, when its denials of a flood are counted: seldom anything.
    #[inline]
    pub(crate) fn fold(
        &self,
        plan: &Plan<'_>,
        has_denials: bool,
        rule_version: u64,
        now: Nanos,
    ) -> Option<RecordSelection> {
        if has_denials {
            self.fold_denials(plan, rule_version, now).map(|from| RecordSelection::Denials { from })
        } else if plan.has_own_log {
            Some(RecordSelection::ByRules)
        } else {
            is_sampled().then_some(RecordSelection::Sampled)
        }
    }

    /// The first item for which a count isn't enough.
    #[inline(never)]
    fn fold_denials(&self, plan: &Plan<'_>, rule_version: u64, now: Nanos) -> Option<usize> {
        let Some(decided) = plan.decided() else { return Some(0) };
        let path = path_of(plan.path);
        for (index, (item, answer)) in decided.enumerate() {
            if answer.is_allowed() || !log_of(answer).denials {
                continue;
            }
            let kind = DenialKind::of(rule_version, outcome_of(answer, false), path);
            if !self.recorder.fold(KeyHash::of(item.key), kind, now) {
                return Some(index);
            }
        }
        None
    }

    /// Puts down what limits said of a request. `request` is `None` where it waited.
    pub(crate) fn record_answers(
        &self,
        selection: RecordSelection,
        plan: &Plan<'_>,
        request: Option<&Request<'_>>,
        of: &Circumstances<'_>,
    ) {
        match selection {
            RecordSelection::Denials { from } => {
                let is_noted = |answer: &LimitAnswer<'_>| !answer.is_allowed() && log_of(answer).denials;
                self.record_items(from, plan, request, of, is_noted);
                if plan.decided().is_none() {
                    self.record_other_denials(plan, of);
                }
            }
            RecordSelection::ByRules => self.record_by_rules(plan, request, of),
            RecordSelection::Sampled => self.record_items(0, plan, request, of, |_| true),
        }
    }

    /// Records denials by limits that the table didn't decide.
    fn record_other_denials(&self, plan: &Plan<'_>, of: &Circumstances<'_>) {
        for (index, answer) in plan.answers.iter().enumerate() {
            let is_denied = !answer.is_allowed() && log_of(answer).denials;
            if is_denied && !plan.targets.iter().any(|target| target.is_of(index)) {
                self.record_keyless(answer, plan.path, of);
            }
        }
    }

    /// The others than those of such a rule go by their own sample.
    fn record_by_rules(&self, plan: &Plan<'_>, request: Option<&Request<'_>>, of: &Circumstances<'_>) {
        let (default, is_sampled) = (LogSampling::default().admissions_one_in, is_sampled());
        self.record_items(0, plan, request, of, |answer| match log_of(answer).admissions_one_in {
            one_in if one_in == default => is_sampled,
            one_in => is_drawn(one_in),
        });
    }

    fn record_items(
        &self,
        from: usize,
        plan: &Plan<'_>,
        request: Option<&Request<'_>>,
        of: &Circumstances<'_>,
        is_noted: impl Fn(&LimitAnswer<'_>) -> bool,
    ) {
        for (item, target) in plan.items.iter().zip(&plan.targets).skip(from) {
            if is_noted(plan.answer_of(target)) {
                self.record_item(item, target, plan, request, of);
            }
        }
    }

    fn record_item(
        &self,
        item: &Item,
        target: &Target,
        plan: &Plan<'_>,
        request: Option<&Request<'_>>,
        of: &Circumstances<'_>,
    ) {
        let answer = plan.answer_of(target);
        let LimitOutcome::Decided(decision) = &answer.outcome else { return };
        let header = RecordHeader {
            at: of.moment.now,
            key: KeyHash::of(item.key),
            rule: RuleId::of_overflow(target.overflow_key),
            rule_version: of.rule_version,
            outcome: outcome_of(answer, decision.is_admitted()),
            path: path_of(plan.path),
        };
        self.recorder.record(
            &header,
            || self.record(&header, item, decision, of),
            || self.name(request, answer, item, header.rule),
            || self.caller(request, answer, item, header.rule),
        );
    }

    /// Records a limit without a key: the table was full, or an attribute was missing.
    #[cold]
    fn record_keyless(&self, answer: &LimitAnswer<'_>, path: DecisionPath, of: &Circumstances<'_>) {
        let LimitSource::Rule(rule) = answer.source else { return };
        let (path, limit, retry_after) = match answer.outcome {
            LimitOutcome::Decided(Decision { verdict: Verdict::Deny { retry_after }, limit, .. }) => {
                (path_of(path), limit, retry_after)
            }
            _ => (decisions::RecordPath::Missing, 0, None),
        };
        let header = RecordHeader {
            at: of.moment.now,
            // Counted by rule: as nobody's, those of all rules would be one count.
            key: KeyHash::of(rule.overflow_key),
            rule: RuleId::of_overflow(rule.overflow_key),
            rule_version: of.rule_version,
            outcome: outcome_of(answer, false),
            path,
        };
        let nobodys = RecordHeader { key: KeyHash::default(), ..header };
        let record = || record_of(&nobodys, 1, limit, TierCounts::default(), of.request, retry_after);
        self.recorder.record(&header, record, || rule_name(rule), || None);
    }

    /// Records one limit of a request that was decided by itself.
    pub(crate) fn record_single(
        &self,
        (tenant, namespace, keys): (&str, &str, &KeyPrefix),
        item: &Item,
        decision: &Decision,
        of: &Circumstances<'_>,
    ) {
        let (key, at) = (KeyHash::of(item.key), of.moment.now);
        let (rule_version, outcome, path) =
            (of.rule_version, RecordOutcome::Denied, decisions::RecordPath::Local);
        if self.recorder.fold(key, DenialKind::of(rule_version, outcome, path), at) {
            return;
        }
        let rule = RuleId::of_overflow(keys.key_of_parts(OVERFLOW_PARTS));
        let header = RecordHeader { at, key, rule, rule_version, outcome, path };
        let name = || RuleName {
            tenant: tenant.to_owned(),
            namespace: namespace.to_owned(),
            rule: String::new(),
            algorithm: Algorithm::of(Shape::Gcra),
            key: KeyForm::Identifier,
        };
        self.recorder.record(&header, || self.record(&header, item, decision, of), name, || None);
    }

    fn record(
        &self,
        header: &RecordHeader,
        item: &Item,
        decision: &Decision,
        of: &Circumstances<'_>,
    ) -> Record {
        let retry_after = match decision.verdict {
            Verdict::Admit => None,
            Verdict::Deny { retry_after } => retry_after,
        };
        let counts = (of.tier_counts)(item, decision);
        let shard = self.shard_of.get().map_or(ShardTag::NONE, |name| self.recorder.shard(&name(item.key)));
        let record = record_of(header, item.cost.get(), decision.limit, counts, of.request, retry_after);
        Record { shard, ..record }
    }

    fn name(
        &self,
        request: Option<&Request<'_>>,
        answer: &LimitAnswer<'_>,
        item: &Item,
        id: RuleId,
    ) -> RuleName {
        match (answer.source, request) {
            (LimitSource::Rule(rule), _) => rule_name(rule),
            (LimitSource::Given { .. }, Some(request)) => given_name(request, answer, item),
            (LimitSource::Given { .. }, None) => {
                let known = self.given.lock().get(&id).cloned();
                known.unwrap_or_else(|| unnamed(Algorithm::of(shape_of(&item.spec))))
            }
        }
    }
}

/// Whether a request that passes is one of the sample.
#[inline]
fn is_sampled() -> bool {
    UNTIL_SAMPLE.with(|until| match until.get() {
        0 => {
            until.set(LogSampling::default().admissions_one_in - 1);
            true
        }
        left => {
            until.set(left - 1);
            false
        }
    })
}

/// Whether one in so many, by chance: a count over all rules would favour those that come in step with it.
fn is_drawn(one_in: u32) -> bool {
    CHANCE.with(|chance| {
        // Xorshift; which thread draws what is all the same.
        let mut drawn = chance.get();
        drawn ^= drawn << 13;
        drawn ^= drawn >> 7;
        drawn ^= drawn << 17;
        chance.set(drawn);
        one_in > 0 && (drawn >> 32).is_multiple_of(u64::from(one_in))
    })
}

/// What of a limit's decisions is wanted; of one that the request gives itself, what is usual.
fn log_of(answer: &LimitAnswer<'_>) -> LogSampling {
    match answer.source {
        LimitSource::Rule(rule) => rule.log,
        LimitSource::Given { .. } => LogSampling::default(),
    }
}

fn record_of(
    header: &RecordHeader,
    cost: u64,
    limit: u64,
    counts: TierCounts,
    request: RequestTag,
    retry_after: Option<Nanos>,
) -> Record {
    Record {
        at: header.at,
        key: header.key,
        rule: header.rule,
        rule_version: header.rule_version,
        outcome: header.outcome,
        path: header.path,
        shard: ShardTag::NONE,
        request,
        trace: TRACE.get(),
        cost,
        limit,
        counts,
        retry_after,
        more: 0,
        last: header.at,
    }
}

fn outcome_of(answer: &LimitAnswer<'_>, is_admitted: bool) -> RecordOutcome {
    match (is_admitted, answer.role) {
        (true, _) => RecordOutcome::Admitted,
        (false, Role::Shadow) => RecordOutcome::WouldDeny,
        (false, Role::Enforced | Role::Quota) => RecordOutcome::Denied,
    }
}

#[inline]
fn path_of(path: DecisionPath) -> decisions::RecordPath {
    if path == DecisionPath::Local { decisions::RecordPath::Local } else { path_beyond(path) }
}

/// Where more was to be looked at than what is here.
#[inline(never)]
fn path_beyond(path: DecisionPath) -> decisions::RecordPath {
    match path {
        DecisionPath::Local => decisions::RecordPath::Local,
        DecisionPath::Asked(AskReason::Cold) => decisions::RecordPath::Cold,
        DecisionPath::Asked(AskReason::Stale) => decisions::RecordPath::Stale,
        DecisionPath::Asked(AskReason::Strict) => decisions::RecordPath::Strict,
        DecisionPath::Asked(AskReason::Credit) => decisions::RecordPath::Credit,
        DecisionPath::Asked(AskReason::Exact) => decisions::RecordPath::Exact,
        DecisionPath::Quota => decisions::RecordPath::Quota,
        DecisionPath::Unverified => decisions::RecordPath::Unverified,
    }
}

fn rule_name(rule: &Rule) -> RuleName {
    RuleName {
        tenant: rule.tenant.to_string(),
        namespace: rule.namespace.to_string(),
        rule: rule.name.to_string(),
        algorithm: Algorithm::of(rule.policy.shape()),
        key: KeyForm::Attributes(rule.key.iter().map(ToString::to_string).collect()),
    }
}

fn given_name(request: &Request<'_>, answer: &LimitAnswer<'_>, item: &Item) -> RuleName {
    let algorithm = Algorithm::of(shape_of(&item.spec));
    let (namespace, key) = match (request.subject, answer.source) {
        (Subject::Limits(limits), LimitSource::Given { index }) => {
            (limits.get(index).map_or("", |limit| limit.namespace), KeyForm::Identifier)
        }
        (Subject::Rules { namespace, .. } | Subject::Descriptors { namespace, .. }, _) => {
            (namespace, KeyForm::Entries)
        }
        (Subject::Limits(_), LimitSource::Rule(_)) => ("", KeyForm::Identifier),
    };
    RuleName {
        tenant: request.tenant.to_owned(),
        namespace: namespace.to_owned(),
        rule: String::new(),
        algorithm,
        key,
    }
}

/// What of a limit that a request gives belongs to its keys. Calendars of requests are those of Envoy's units.
fn shape_of(spec: &Spec) -> Shape<'static> {
    match *spec {
        Spec::Sliding { period, .. } => Shape::Sliding(period),
        Spec::Fixed { period, .. } => Shape::Fixed(period),
        Spec::Calendar { unit, .. } => Shape::Calendar { unit, time_zone: "UTC" },
        Spec::Gcra { .. } => Shape::Gcra,
    }
}

fn unnamed(algorithm: Algorithm) -> RuleName {
    let [tenant, namespace, rule] = [const { String::new() }; 3];
    RuleName { tenant, namespace, rule, algorithm, key: KeyForm::Identifier }
}
