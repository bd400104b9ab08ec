//! What records mean: the cause of a decision, what was unwell when it was made, and one sentence to hand on.
//!
//! Everything is derived from what the log has; nothing is guessed beyond it. A tenant is shown its own decisions, and
//! nothing of which servers there are.

mod cause;
mod json;
mod words;

use crate::event::{Event, Standing};
use crate::name::RuleName;
use crate::read::{Found, Writer};
use crate::record::{Record, RuleCount};

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
pub struct Explained<'f> {
    pub record: &'f Record,
    pub rule: Option<&'f RuleName>,
    pub shard: Option<&'f str>,
    pub writer: Option<&'f Writer>,
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
    pub decisions: Vec<Explained<'f>>,
    pub counted: Vec<(&'f RuleCount, Option<&'f RuleName>)>,
    pub is_cut: bool,
    pub damaged: usize,
    audience: Audience,
}

impl<'f> Explanation<'f> {
    pub fn new(found: &'f Found, audience: Audience) -> Self {
        let decisions = found.records.iter().map(|of| {
            let record = &of.record;
            let rule = found.rules.get(&record.rule);
            let unwell = Standing::at(&found.events, record.at).events().to_vec();
            let recent = cause::recent(&found.events, record, rule);
            let shard = found.shards.get(&record.shard).map(String::as_str);
            let is_away = cause::is_away(&found.events, &unwell, record, shard);
            let (cause, changed) = cause::cause(record, is_away, &recent);
            let writer = found.writers.get(of.writer);
            Explained { record, rule, shard, writer, cause, changed, unwell, recent }
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
