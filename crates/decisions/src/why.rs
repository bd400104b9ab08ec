//! What records mean: the cause of a decision, what was unwell when it was made, and one sentence to hand on.
//!
//! Everything is derived from what the log has; nothing is guessed beyond it. A tenant is shown its own decisions, and
//! nothing of which servers there are.

mod json;
mod words;

use crate::event::{Event, EventKind, Standing};
use crate::name::RuleName;
use crate::read::{Found, Writer};
use crate::record::{Outcome, Path, Record, RuleCount};
use tidegate_core::Nanos;

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
            let recent = recent(&found.events, record, rule);
            let cause = cause(record, &unwell, &recent);
            let shard = found.shards.get(&record.shard).map(String::as_str);
            Explained { record, rule, shard, writer: found.writers.get(of.writer), cause, unwell, recent }
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

/// Changes that a decision may still have felt: of its own rule, and of the clock.
fn recent<'f>(events: &'f [Event], record: &Record, rule: Option<&RuleName>) -> Vec<&'f Event> {
    let memory = rule.map_or(Nanos::from_secs(60), |rule| rule.algorithm.memory());
    let subject = rule.map(RuleName::subject);
    let is_felt = |event: &&Event| {
        let is_about_it = match event.kind {
            EventKind::Rules => {
                let is_known = u64::try_from(event.value).is_ok_and(|version| version <= record.rule_version);
                is_known && Some(&event.subject) == subject.as_ref()
            }
            EventKind::ClockStep => true,
            _ => false,
        };
        is_about_it && event.at <= record.at && event.at.plus(memory) >= record.at
    };
    events.iter().rev().filter(is_felt).collect()
}

fn cause(record: &Record, unwell: &[Event], recent: &[&Event]) -> Cause {
    let is_away = |event: &Event| matches!(event.kind, EventKind::Breaker | EventKind::SyncLag);
    if record.outcome == Outcome::Admitted {
        return Cause::Admitted;
    }
    if record.path == Path::Missing {
        return Cause::AttributeMissing;
    }
    if record.limit == 0 {
        return Cause::Blocked;
    }
    if record.cost > record.limit {
        return Cause::CostAboveLimit;
    }
    match record.path {
        Path::Unverified if unwell.iter().any(is_away) => return Cause::StoreAway,
        Path::Unverified => return Cause::Unverified,
        Path::Quota => return Cause::RegionsPart,
        _ => {}
    }
    // The nearest change is the one that was felt.
    match recent.first().map(|event| event.kind) {
        Some(EventKind::Rules) => Cause::RuleChanged,
        Some(EventKind::ClockStep) => Cause::ClockStep,
        _ => Cause::LimitUsed,
    }
}
