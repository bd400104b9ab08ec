//! Policies and conditions in plain words, for `rules check` and for messages.
//!
//! For people only: nothing parses this text, and it may change.

use crate::condition::Condition;
use crate::identifier::KeyPart;
use crate::policy::Policy;
use tidegate_core::{CalendarUnit, Nanos, Period, Rate};

/// Windows shorter than this are shared between regions by quotas.
const SHORT_WINDOW: Nanos = Nanos::from_secs(60);

pub(crate) fn is_short_window(policy: &Policy) -> bool {
    match policy {
        Policy::Sliding { period, .. } | Policy::Fixed { period, .. } => period.length() < SHORT_WINDOW,
        Policy::Calendar { .. } | Policy::Gcra { .. } => false,
    }
}

/// The length of a window that people could take for another kind, and whether it is the clock's.
pub(crate) fn length_and_kind(policy: &Policy) -> Option<(u64, bool)> {
    match policy {
        Policy::Sliding { period, .. } | Policy::Fixed { period, .. } => {
            let length = period.length();
            let seconds = length.get() / Nanos::PER_SECOND;
            let is_whole = Nanos::from_secs(seconds) == length;
            (is_whole && [3600, 86_400, 7 * 86_400].contains(&seconds)).then_some((seconds, false))
        }
        Policy::Calendar { calendar, .. } => match calendar.unit() {
            CalendarUnit::Hour => Some((3600, true)),
            CalendarUnit::Day => Some((86_400, true)),
            CalendarUnit::Week => Some((7 * 86_400, true)),
            CalendarUnit::Month => None,
        },
        Policy::Gcra { .. } => None,
    }
}

pub(crate) fn policy(policy: &Policy) -> String {
    match policy {
        // It weighs the window before by how much of that still overlaps: near a turn more of them may pass.
        Policy::Sliding { limit, .. } => format!("about {} {}", number(limit.get()), window(policy)),
        Policy::Fixed { limit, .. } | Policy::Calendar { limit, .. } => {
            format!("at most {} {}", number(limit.get()), window(policy))
        }
        Policy::Gcra { rate: pace, burst } if burst.get() == 1 => {
            format!("{} on average, burst 1: one at a time", rate(*pace))
        }
        Policy::Gcra { rate: pace, burst } => {
            format!("{} on average, at most {} at once", rate(*pace), number(burst.get()))
        }
    }
}

/// `over a sliding 1 minute`, `per calendar month in Europe/Paris, from the 1st`.
pub(crate) fn window(policy: &Policy) -> String {
    match policy {
        Policy::Sliding { period, .. } => format!("over a sliding {}", period_length(*period)),
        Policy::Fixed { period, .. } => {
            format!("in each {} since 1970 in UTC (fixed windows)", period_length(*period))
        }
        Policy::Calendar { calendar, .. } => {
            let (unit, resets) = match calendar.unit() {
                CalendarUnit::Hour => ("hour", "resets at :00"),
                CalendarUnit::Day => ("day", "resets at 00:00"),
                CalendarUnit::Week => ("week", "resets on Monday at 00:00"),
                CalendarUnit::Month => ("month", "resets on the 1st"),
            };
            format!("per calendar {unit} in {} ({resets})", calendar.time_zone())
        }
        Policy::Gcra { .. } => "at a rate".to_owned(),
    }
}

/// Per the shortest unit that gives a whole number; else the time between two.
pub fn rate(rate: Rate) -> String {
    let (interval, count) =
        (u128::from(rate.interval_numerator_ns()), u128::from(rate.interval_denominator()));
    let units = [("second", 1), ("minute", 60), ("hour", 3600), ("day", 86_400)];
    for (unit, seconds) in units {
        let admitted = count * u128::from(Nanos::PER_SECOND) * seconds;
        if admitted % interval == 0 {
            return format!("{} per {unit}", number(u64::try_from(admitted / interval).unwrap_or(u64::MAX)));
        }
    }
    format!(
        "{} per {}",
        number(rate.interval_denominator()),
        length(Nanos::new(rate.interval_numerator_ns()))
    )
}

fn period_length(period: Period) -> String {
    length(period.length())
}

/// In the largest unit that gives a whole number.
fn length(length: Nanos) -> String {
    let units = [
        ("week", 7 * 86_400 * Nanos::PER_SECOND),
        ("day", 86_400 * Nanos::PER_SECOND),
        ("hour", 3600 * Nanos::PER_SECOND),
        ("minute", 60 * Nanos::PER_SECOND),
        ("second", Nanos::PER_SECOND),
        ("ms", Nanos::PER_MILLI),
    ];
    match units.into_iter().find(|(_, nanos)| length.get().is_multiple_of(*nanos)) {
        Some(("ms", nanos)) => format!("{} ms", length.get() / nanos),
        Some((unit, nanos)) if length.get() == nanos => format!("1 {unit}"),
        Some((unit, nanos)) => format!("{} {unit}s", length.get() / nanos),
        None => format!("{} ns", length.get()),
    }
}

/// With `_` between thousands, as the file may have it.
fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push('_');
        }
        text.push(digit);
    }
    text
}

pub(crate) fn key(parts: &[KeyPart]) -> String {
    if parts.is_empty() {
        return "for all callers together".to_owned();
    }
    let part = |part: &KeyPart| match part.group_prefix {
        None => part.attribute.to_string(),
        Some(length) => format!("{} (IPv6 by /{length})", part.attribute),
    };
    format!("for each {}", parts.iter().map(part).collect::<Vec<_>>().join(" and "))
}

pub(crate) fn condition(condition: &Condition) -> String {
    const SHOWN_MAX: usize = 5;
    let mut values: Vec<String> = condition.values.texts().take(SHOWN_MAX).collect();
    let more = condition.values.texts().count() - values.len();
    if more > 0 {
        values.push(format!("{more} more"));
    }
    format!("{} is {}", condition.attribute, values.join(" or "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_lengths_read_as_people_say_them() {
        let said = |count, millis| rate(Rate::new(count, Nanos::from_millis(millis)).unwrap());
        assert_eq!(said(100, 1000), "100 per second");
        assert_eq!(said(100, 10_000), "10 per second");
        assert_eq!(said(90, 60_000), "90 per minute");
        assert_eq!(said(1_000_000, 1000), "1_000_000 per second");
        assert_eq!(said(1, 7 * 86_400_000), "1 per 1 week");
        assert_eq!(length(Nanos::from_secs(5400)), "90 minutes");
        assert_eq!(length(Nanos::from_secs(86_400)), "1 day");
        assert_eq!(number(1_000_000), "1_000_000");
        assert_eq!(number(999), "999");
    }
}
