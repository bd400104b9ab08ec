//! What records mean: the cause of a decision, what was unwell when it was made, and one sentence to hand on.
//!
//! Everything is derived from what the log has; nothing is guessed beyond it. A tenant is shown its own decisions, and
//! nothing of which servers there are.

mod cause;
mod json;
mod words;

use crate::caller::Caller;
use crate::event::{ActiveEvents, Event};
use crate::name::RuleName;
use crate::read::{QueryRecord, QueryResult, Writer};
use crate::record::{KeyHash, Record, RecordOutcome, RuleCount, RuleId};
use std::collections::HashMap;
use tidegate_core::Nanos;

pub use cause::change_words;
pub use words::utc;

/// Who asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Audience {
    Operator,
    Tenant,
}

/// Why it came out as it did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// It passed.
    Admitted,
    /// It lacked an attribute that the rule requires.
    AttributeMissing,
    /// The limit is 0.
    Blocked,
    /// It costs more than the limit ever allows.
    CostAboveLimit,
    /// The region's store couldn't be asked, and the rule's class denies or allows little then.
    StoreAway,
    /// No room for the caller in the counter table, or no answer, with a store that is well.
    Unverified,
    /// The limit was changed not long before.
    RuleChanged,
    /// The wall clock was set not long before.
    ClockStep,
    /// This region's part of the limit was in use.
    RegionsPart,
    /// The limit was in use.
    LimitUsed,
}

impl Cause {
    pub fn name(self) -> &'static str {
        match self {
            Cause::Admitted => "admitted",
            Cause::AttributeMissing => "attribute_missing",
            Cause::Blocked => "blocked",
            Cause::CostAboveLimit => "cost_above_limit",
            Cause::StoreAway => "store_away",
            Cause::Unverified => "unverified",
            Cause::RuleChanged => "rule_changed",
            Cause::ClockStep => "clock_step",
            Cause::RegionsPart => "regions_part",
            Cause::LimitUsed => "limit_used",
        }
    }
}

/// One decision, with all that is known about it.
#[derive(Debug)]
pub struct ExplainedDecision<'f> {
    pub record: &'f Record,
    pub rule: Option<&'f RuleName>,
    pub shard: Option<&'f str>,
    pub writer: Option<&'f Writer>,
    /// Whose request it was, where the log has callers.
    pub caller: Option<&'f Caller>,
    pub cause: Cause,
    /// The change that is the cause, where one is.
    changed: Option<&'f Event>,
    /// What was unwell then.
    pub unwell: Vec<Event>,
    /// What had changed shortly before, the last first.
    pub recent: Vec<&'f Event>,
}

#[derive(Debug)]
pub struct Explanation<'f> {
    pub decisions: Vec<ExplainedDecision<'f>>,
    pub counted: Vec<(&'f RuleCount, Option<&'f RuleName>)>,
    pub is_cut: bool,
    pub damaged: usize,
    audience: Audience,
}

impl<'f> Explanation<'f> {
    pub fn new(found: &'f QueryResult, audience: Audience) -> Self {
        let decisions = found.records.iter().map(|of| {
            let record = &of.record;
            let rule = found.rules.get(&record.rule);
            let unwell = ActiveEvents::at(&found.events, record.at).events().to_vec();
            let recent = cause::recent(&found.events, record, rule);
            let shard = found.shards.get(&record.shard).map(String::as_str);
            let is_away = cause::is_away(&found.events, &unwell, record, shard);
            let (cause, changed) = cause::cause(record, is_away, &recent);
            let writer = found.writers.get(of.writer);
            let caller = found.callers.get(&record.key);
            ExplainedDecision { record, rule, shard, writer, caller, cause, changed, unwell, recent }
        });
        Explanation {
            decisions: decisions.collect(),
            counted: found.counts.iter().map(|count| (count, found.rules.get(&count.rule))).collect(),
            is_cut: found.is_cut,
            damaged: found.damaged,
            audience,
        }
    }
}

/// A caller that was denied, shown where the one that was asked for wasn't.
#[derive(Clone, Debug)]
pub struct Nearest {
    pub rule: RuleName,
    pub key: KeyHash,
    pub name: Option<String>,
    pub denials: u64,
    pub last: Nanos,
}

impl Nearest {
    /// Returns the callers of what was found, each with its denials, those with most of them first.
    pub fn of(found: &QueryResult) -> Vec<Nearest> {
        let mut by_caller: HashMap<(RuleId, KeyHash), Nearest> = HashMap::new();
        for QueryRecord { record, .. } in &found.records {
            let Some(rule) = found.rules.get(&record.rule) else { continue };
            if record.outcome != RecordOutcome::Denied {
                continue;
            }
            let near = by_caller.entry((record.rule, record.key)).or_insert_with(|| Nearest {
                rule: rule.clone(),
                key: record.key,
                name: found.callers.get(&record.key).and_then(|caller| caller.name.clone()),
                denials: 0,
                last: record.last,
            });
            near.denials += 1 + u64::from(record.more);
            near.last = near.last.max(record.last);
        }
        let mut all: Vec<Nearest> = by_caller.into_values().collect();
        all.sort_by_key(|near| (std::cmp::Reverse((near.denials, near.last)), near.key.text()));
        all
    }
}
