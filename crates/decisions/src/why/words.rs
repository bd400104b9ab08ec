//! A decision in words that a support engineer can paste.

use super::{Cause, ExplainedDecision};
use crate::caller::Caller;
use crate::record::{KeyHash, RecordOutcome, RecordPath};
use std::fmt::Write as _;
use tidegate_core::Nanos;

/// An instant as `2026-11-16T18:17:04.123Z`.
pub fn utc(instant: Nanos) -> String {
    let millis = instant.get() / Nanos::PER_MILLI;
    let (days, of_day) = (millis / 86_400_000, millis % 86_400_000);
    // Days since the first of March of year 0: leap days are at the end of such years. (Howard Hinnant)
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (of_day / 3_600_000, of_day / 60_000 % 60, of_day / 1000 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", of_day % 1000)
}

/// A length of time for people.
fn length(length: Nanos) -> String {
    let millis = length.as_millis_ceil();
    match millis {
        0..10_000 => format!("{millis} ms"),
        10_000..600_000 => format!("{} s", millis.div_ceil(1000)),
        600_000..36_000_000 => format!("{} min", millis.div_ceil(60_000)),
        36_000_000..172_800_000 => format!("{} h", millis.div_ceil(3_600_000)),
        // Whole days would be off by up to one of them.
        _ => {
            let hours = millis.div_ceil(3_600_000);
            format!("{} d {} h", hours / 24, hours % 24)
        }
    }
}

impl ExplainedDecision<'_> {
    /// One plain paragraph. Names no server.
    pub fn sentence(&self) -> String {
        let record = self.record;
        let mut text = format!("At {} ", utc(record.at));
        let verb = match record.outcome {
            RecordOutcome::Admitted => "admitted",
            RecordOutcome::Denied => "denied",
            RecordOutcome::WouldDeny => "would have denied (it only shadows)",
        };
        let _ = write!(text, "{} {verb} a request of cost {}{}: ", self.whose(), record.cost, self.from());
        if self.cause != Cause::AttributeMissing {
            text.push_str(&self.counts());
        }
        self.write_cause(&mut text);
        if record.outcome != RecordOutcome::Admitted {
            self.write_wait(&mut text);
        }
        if record.more > 0 {
            let _ = write!(text, " {} more like it followed until {}.", record.more, utc(record.last));
        }
        text
    }

    fn whose(&self) -> String {
        let version = self.record.rule_version;
        match self.rule {
            Some(name) if name.rule.is_empty() => {
                format!("the limit that the request itself gave in namespace {}", name.namespace)
            }
            Some(name) => format!("rule {} of {} (rules version {version})", name.rule, name.namespace),
            None => format!("a rule whose name is lost (rules version {version})"),
        }
    }

    /// ` from alice,/search`; by the key's hash where the log has no names.
    fn from(&self) -> String {
        match self.caller {
            Some(Caller { name: Some(name), .. }) => format!(" from {name}"),
            _ if self.record.key == KeyHash::default() => String::new(),
            _ => format!(" from caller {}", self.record.key.short_text()),
        }
    }

    fn counts(&self) -> String {
        let (record, seen) = (self.record, self.record.counts);
        let mut text = format!("{} of its limit of {} was in use", seen.total(), record.limit);
        let parts = [
            (seen.own, "admitted by this node"),
            (seen.others, "by the other nodes of its region"),
            (seen.world, "by other regions"),
            (seen.previous, "carried over from the window before"),
        ];
        let said: Vec<String> = parts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, whose)| format!("{count} {whose}"))
            .collect();
        if !said.is_empty() {
            let _ = write!(text, " ({})", said.join(", "));
        }
        text.push('.');
        text
    }

    fn write_cause(&self, text: &mut String) {
        let record = self.record;
        let changed = self.changed.map(|event| (length(record.at.minus(event.at)), event));
        match self.cause {
            Cause::AttributeMissing => text.push_str("it lacked an attribute that the rule requires."),
            Cause::Blocked => text.push_str(" The limit is 0: the caller is blocked."),
            Cause::CostAboveLimit => text.push_str(" The request costs more than the limit ever allows."),
            Cause::StoreAway => text.push_str(
                " The region's counts couldn't be checked, because their store was unavailable; what the rule's class \
                 says for that case was done.",
            ),
            Cause::Unverified => text.push_str(
                " It couldn't be checked: no room in the node's table of counters, or no answer in time; what the \
                 rule's class says for that case was done.",
            ),
            Cause::RegionsPart => text.push_str(" This region's part of the limit was in use."),
            Cause::RuleChanged => {
                if let Some((ago, event)) = changed {
                    let _ = write!(
                        text,
                        " The rule had been changed {ago} before, with rules version {}: {}.",
                        event.value, event.text
                    );
                }
            }
            Cause::ClockStep => {
                if let Some((ago, event)) = changed {
                    let _ = write!(
                        text,
                        " The wall clock had been set by {} ms, {ago} before; a step never refills a limit.",
                        event.value
                    );
                }
            }
            Cause::Admitted | Cause::LimitUsed => {}
        }
        text.push_str(path_words(record.path));
    }

    fn write_wait(&self, text: &mut String) {
        let record = self.record;
        let _ = match record.retry_after {
            Some(_) if record.path == RecordPath::Unverified => write!(
                text,
                " When it would have passed isn't known: the counts weren't checked, and `retry_after` was only a hint."
            ),
            Some(wait) => {
                let at = utc(record.at.plus(wait));
                write!(
                    text,
                    " It would have passed {} later, at {at}, if nobody else had come.",
                    length(wait)
                )
            }
            None => write!(text, " No wait would have helped."),
        };
    }
}

fn path_words(path: RecordPath) -> &'static str {
    match path {
        RecordPath::Local => " Decided on what the node knew, without asking anybody.",
        RecordPath::Cold => " The region was asked first: the node didn't know this caller.",
        RecordPath::Stale => " The region was asked first: what the node knew was too old.",
        RecordPath::Strict => " The region was asked first: the caller had been denied shortly before.",
        RecordPath::Credit => " The region was asked first: little of the limit was left.",
        RecordPath::Exact => " The region was asked first, as the rule wants for every request.",
        RecordPath::Lease => " Decided on what the node had drawn ahead.",
        RecordPath::Quota | RecordPath::Unverified | RecordPath::Missing => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_shown_in_utc() {
        for (seconds, shown) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399, "2000-02-28T23:59:59.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (1_763_230_020, "2025-11-15T18:07:00.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(utc(Nanos::from_secs(seconds)), shown);
        }
        assert_eq!(utc(Nanos::from_millis(1_763_230_020_007)), "2025-11-15T18:07:00.007Z");
    }
}
