//! Which of the things that happened around a decision was its cause.
//!
//! What can be computed is: a changed rule is the cause where the request would have passed before the change, a shard
//! where it is the one that had to be asked. What happened at about the time and can't have mattered stays beside the
//! decision, for people, and is never named as its cause.

use super::Cause;
use crate::event::{Event, EventKind};
use crate::name::RuleName;
use crate::record::{Record, RecordOutcome, RecordPath};
use tidegate_core::Nanos;

/// How soon after a call that failed a shard is known to be away, at the latest: a breaker takes a few calls, a heartbeat
/// a second.
const FOUND_AWAY_WITHIN: Nanos = Nanos::from_secs(5);
/// A clock that was set by little is felt for as long.
const STEP_FELT_MIN: Nanos = Nanos::from_secs(60);

/// Changes that a decision may still have felt, of its own rule and of the clock; the last first.
pub(super) fn recent<'f>(events: &'f [Event], record: &Record, rule: Option<&RuleName>) -> Vec<&'f Event> {
    let memory = rule.map_or(Nanos::from_secs(60), |rule| rule.algorithm.memory());
    let subject = rule.map(RuleName::subject);
    let is_felt = |event: &&Event| {
        let felt_for = match event.kind {
            EventKind::Rules => {
                let is_known = u64::try_from(event.value).is_ok_and(|version| version <= record.rule_version);
                (is_known && Some(&event.subject) == subject.as_ref()).then_some(memory)
            }
            // By then the clock would have got there by itself.
            EventKind::ClockStep => {
                Some(memory.min(Nanos::from_millis(event.value.unsigned_abs()).max(STEP_FELT_MIN)))
            }
            _ => None,
        };
        felt_for.is_some_and(|felt_for| event.at <= record.at && event.at.plus(felt_for) >= record.at)
    };
    events.iter().rev().filter(is_felt).collect()
}

/// Whether a record's shard couldn't be asked: it was away, or was found to be upon calls like this one.
pub(super) fn is_away(events: &[Event], unwell: &[Event], record: &Record, shard: Option<&str>) -> bool {
    let is_its_own = |event: &Event| match event.kind {
        EventKind::Breaker => shard.is_none_or(|shard| shard == event.subject),
        EventKind::SyncLag => true,
        _ => false,
    };
    let until = record.at.plus(FOUND_AWAY_WITHIN);
    let opens = |event: &&Event| event.is_unwell && event.at > record.at && event.at <= until;
    unwell.iter().any(is_its_own) || events.iter().filter(opens).any(is_its_own)
}

/// The cause, and the event that it is about.
pub(super) fn cause<'f>(record: &Record, is_away: bool, recent: &[&'f Event]) -> (Cause, Option<&'f Event>) {
    let cause = match (record.outcome, record.path) {
        (RecordOutcome::Admitted, _) => Cause::Admitted,
        (_, RecordPath::Missing) => Cause::AttributeMissing,
        _ if record.limit == 0 => Cause::Blocked,
        _ if record.cost > record.limit => Cause::CostAboveLimit,
        (_, RecordPath::Unverified) if is_away => Cause::StoreAway,
        (_, RecordPath::Unverified) => Cause::Unverified,
        (_, RecordPath::Quota) => Cause::RegionsPart,
        _ => return changed(record, recent),
    };
    (cause, None)
}

/// The limit was in use: because of a change?
fn changed<'f>(record: &Record, recent: &[&'f Event]) -> (Cause, Option<&'f Event>) {
    let rules: Vec<(&'f Event, CallerEffect)> = felt_changes(record, recent);
    if let Some((event, _)) = rules.iter().find(|(_, felt)| *felt == CallerEffect::Yes) {
        return (Cause::RuleChanged, Some(event));
    }
    let is_candidate = |event: &&&'f Event| {
        let maybe = |(rules, felt): &(&Event, CallerEffect)| {
            std::ptr::eq(*rules, **event) && *felt == CallerEffect::Perhaps
        };
        event.kind == EventKind::ClockStep || rules.iter().any(maybe)
    };
    // The nearest one.
    match recent.iter().find(is_candidate) {
        Some(event) if event.kind == EventKind::ClockStep => (Cause::ClockStep, Some(event)),
        Some(event) => (Cause::RuleChanged, Some(event)),
        None => (Cause::LimitUsed, None),
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CallerEffect {
    /// It would have passed before the change.
    Yes,
    No,
    /// That can't be computed from what is known.
    Perhaps,
}

/// Of each change of its rule, whether the decision felt it.
fn felt_changes<'f>(record: &Record, recent: &[&'f Event]) -> Vec<(&'f Event, CallerEffect)> {
    let changes: Vec<(&'f Event, Change)> = recent
        .iter()
        .filter(|event| event.kind == EventKind::Rules)
        .map(|event| (*event, Change::read(&event.text)))
        .collect();
    // What is in force is another number than the rule's: an override's.
    let in_force = changes.first().and_then(|(_, change)| change.now);
    if in_force.is_some_and(|limit| limit != record.limit) {
        return Vec::new();
    }
    changes.into_iter().map(|(event, change)| (event, change.felt_by(record))).collect()
}

/// What an event says of a rule, as [`change_words`] wrote it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Change {
    /// The most that a caller could have in use, where it is comparable with what came after it.
    before: Option<u64>,
    now: Option<u64>,
    is_new: bool,
}

const NEW: &str = "it is new: ";
const BECAME: &str = " became ";
const BURSTS: &str = " with bursts of ";

/// A change of a rule in words, of limits as people write them: `10 per 60 s`, or `10 per 1 s with bursts of 20`.
/// Without a limit before, the rule is new.
pub fn change_words(before: Option<&str>, now: &str) -> String {
    match before {
        Some(before) => format!("{before}{BECAME}{now}"),
        None => format!("{NEW}{now}"),
    }
}

impl Change {
    fn read(text: &str) -> Self {
        if let Some(now) = text.strip_prefix(NEW) {
            return Change { before: None, now: most(now).map(|(most, _)| most), is_new: true };
        }
        let parts = text.split_once(BECAME).and_then(|(before, now)| Some((most(before)?, most(now)?)));
        let Some(((before, of), (now, now_of))) = parts else {
            return Change { before: None, now: None, is_new: false };
        };
        Change { before: (of == now_of).then_some(before), now: Some(now), is_new: false }
    }

    fn felt_by(self, record: &Record) -> CallerEffect {
        match self.before {
            _ if self.is_new => CallerEffect::Yes,
            Some(before) if record.counts.total().saturating_add(record.cost) <= before => CallerEffect::Yes,
            Some(_) => CallerEffect::No,
            None => CallerEffect::Perhaps,
        }
    }
}

/// The most that a caller can have in use, and what it must share with another limit to be comparable: the length of
/// a window, or a rate.
fn most(limit: &str) -> Option<(u64, &str)> {
    if let Some((rate, burst)) = limit.split_once(BURSTS) {
        return Some((burst.parse().ok()?, rate));
    }
    let (count, window) = limit.split_once(" per ")?;
    Some((count.parse().ok()?, window))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_read_as_they_are_written() {
        let of = |before: Option<&str>, now: &str| {
            let Change { before, now, is_new } = Change::read(&change_words(before, now));
            (before, now, is_new)
        };
        assert_eq!(of(Some("10 per 60 s"), "2 per 60 s"), (Some(10), Some(2), false));
        assert_eq!(of(Some("10 per 60 s"), "10 per 3600 s"), (None, Some(10), false));
        assert_eq!(of(Some("10 per month in utc"), "5 per month in utc"), (Some(10), Some(5), false));
        let rate = "100 per 1 s with bursts of 20";
        assert_eq!(of(Some(rate), "100 per 1 s with bursts of 5"), (Some(20), Some(5), false));
        assert_eq!(of(Some(rate), "10 per 1 s with bursts of 20"), (None, Some(20), false));
        assert_eq!(of(None, rate), (None, Some(20), true));
        assert_eq!(of(Some("many"), "few"), (None, None, false));
    }
}
