//! Times as people type them, in UTC: `03:47` is the last time that it was that late.

use super::{Typed, WhyError};
use jiff::Timestamp;
use jiff::civil::{DateTime, Time};
use jiff::tz::TimeZone;
use tidegate_core::Nanos;
use tidegate_decisions::why::utc;

const DAY: Nanos = Nanos::from_secs(86_400);
/// What `--at` covers: people's clocks differ, and a minute is sixty seconds long.
const BEFORE: Nanos = Nanos::from_secs(60);
const AFTER: Nanos = Nanos::from_secs(120);

impl Typed {
    /// From when until when.
    pub(super) fn range(&self, now: Nanos) -> Result<(Nanos, Nanos), WhyError> {
        let read = |text: &Option<String>| text.as_deref().map(|text| instant(text, now)).transpose();
        let (at, since, until) = (read(&self.at)?, read(&self.since)?, read(&self.until)?);
        let around = at.map_or((Nanos::ZERO, Nanos::MAX), |at| (at.minus(BEFORE), at.plus(AFTER)));
        let (since, until) = (since.unwrap_or(around.0), until.unwrap_or(around.1));
        if since > until {
            return Err(WhyError::Backwards { since: utc(since), until: utc(until) });
        }
        Ok((since, until))
    }
}

fn instant(text: &str, now: Nanos) -> Result<Nanos, WhyError> {
    let wrong = || WhyError::Time(text.chars().take(80).collect());
    ago(text, now).or_else(|| of_day(text, now)).or_else(|| dated(text)).ok_or_else(wrong)
}

/// `10m`, and as people say it: `10min`, `10 minutes ago`, `now`.
fn ago(text: &str, now: Nanos) -> Option<Nanos> {
    let text = text.trim().trim_end_matches("ago").trim_end();
    if text == "now" {
        return Some(now);
    }
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (count, unit) = text.split_at(digits);
    let seconds = match unit.trim_start() {
        "s" | "sec" | "secs" | "second" | "seconds" => 1,
        "m" | "min" | "mins" | "minute" | "minutes" => 60,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3600,
        "d" | "day" | "days" => 86_400,
        _ => return None,
    };
    let count: u64 = count.parse().ok()?;
    Some(now.minus(Nanos::from_secs(count.saturating_mul(seconds))))
}

/// `03:47`, and as people say it: `3:47`.
fn of_day(text: &str, now: Nanos) -> Option<Nanos> {
    let text = text.trim_end_matches('Z');
    let is_short = text.find(':') == Some(1);
    let text = if is_short { format!("0{text}") } else { text.to_owned() };
    let time: Time = text.parse().ok().filter(|_| text.contains(':') && !text.contains(['T', '-']))?;
    let since_midnight = time.duration_since(Time::midnight());
    let since_midnight = Nanos::new(u64::try_from(since_midnight.as_nanos()).ok()?);
    let midnight = Nanos::new(now.get() / DAY.get() * DAY.get());
    let today = midnight.plus(since_midnight);
    Some(if today > now { today.minus(DAY) } else { today })
}

fn dated(text: &str) -> Option<Nanos> {
    let in_utc = |at: DateTime| TimeZone::UTC.to_timestamp(at).ok();
    let timestamp: Timestamp =
        text.parse().ok().or_else(|| text.trim_end_matches('Z').parse().ok().and_then(in_utc))?;
    u64::try_from(timestamp.as_nanosecond()).ok().map(Nanos::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_people_type_them() {
        // 2026-11-16T18:00:00Z
        let now = Nanos::from_secs(1_794_852_000);
        let at = |hour: u64, minute: u64| Nanos::from_secs(1_794_787_200 + hour * 3600 + minute * 60);
        for (text, expected) in [
            ("03:47", at(3, 47)),
            ("3:47", at(3, 47)),
            ("03:47Z", at(3, 47)),
            ("03:47:30", at(3, 47).plus(Nanos::from_secs(30))),
            ("19:00", at(19, 0).minus(DAY)),
            ("10m", at(17, 50)),
            ("2h", at(16, 0)),
            ("10min", at(17, 50)),
            ("10 minutes ago", at(17, 50)),
            ("1 hour ago", at(17, 0)),
            ("now", at(18, 0)),
            ("2026-11-16T03:47:00Z", at(3, 47)),
            ("2026-11-16T03:47Z", at(3, 47)),
            ("2026-11-16 03:47", at(3, 47)),
            ("2026-11-16", at(0, 0)),
            ("2026-11-16T04:47:00+01:00", at(3, 47)),
        ] {
            assert_eq!(instant(text, now).unwrap(), expected, "{text}");
        }
        for wrong in ["", "soon", "ago", "min", "25:00", "10x", "3:4", "2026-13-01T00:00:00Z"] {
            assert!(instant(wrong, now).is_err(), "{wrong}");
        }
        let typed = Typed { at: Some("03:47".into()), since: None, until: None };
        assert_eq!(typed.range(now).unwrap(), (at(3, 46), at(3, 49)));
        let typed = |since: &str, until: &str| Typed {
            at: None,
            since: Some(since.into()),
            until: Some(until.into()),
        };
        assert_eq!(typed("2h", "1h").range(now).unwrap(), (at(16, 0), at(17, 0)));
        let error = typed("1h", "2h").range(now).unwrap_err().to_string();
        assert!(error.contains("from 2026-11-16T17:00:00.000Z until 2026-11-16T16:00:00.000Z"), "{error}");
    }
}
