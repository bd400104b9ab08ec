//! Numbers, lengths of time, limits and rates as people write them: `1_000_000 per month`, `100/10s`.
//!
//! Nothing is guessed: where a spelling could mean two things (`per h`: any hour, or the clock's?), the
//! error offers both.

use crate::error::{Refusal, quoted};
use tidegate_core::limit::NUMBER_MAX;
use tidegate_core::{CalendarUnit, Limit, Nanos, Period, Rate};

const LIMIT_FIX: &str = "write it as `10 per 1m`, or `1000 per month` for the calendar's";
const RATE_FIX: &str = "write it as `100/s` or `100 per 10s`";
const NUMBER_FIX: &str = "write a whole number from 0 to 9007199254740992 (2^53), such as 100 or 1_000_000";

/// The time over which a limit counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Window {
    Rolling(Period),
    Calendar(CalendarUnit),
}

/// `10 per 1m`, or only `10`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LimitText {
    pub(crate) limit: Limit,
    pub(crate) window: Option<Window>,
}

/// A whole number up to 2^53; underscores may stand between digits.
pub(crate) fn number(text: &str) -> Result<u64, Refusal> {
    let refusal = |what: &str| Refusal::new(format!("{} {what}", quoted(text)), NUMBER_FIX);
    let well_formed =
        text.split('_').all(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()));
    if !well_formed {
        return Err(refusal("isn't a whole number"));
    }
    let digits: String = text.split('_').collect();
    digits.parse().ok().filter(|number| *number <= NUMBER_MAX).ok_or_else(|| refusal("is too large"))
}

pub(crate) fn limit(text: &str) -> Result<LimitText, Refusal> {
    let text = text.trim();
    let Some((count, length)) = split_at_per(text) else {
        if text.contains('/') && rate(text).is_ok() {
            let fix = format!("write `rate: {text}`, or a limit such as `10 per 1m`");
            return Err(Refusal::new(format!("{} is a rate", quoted(text)), fix));
        }
        return match number(text) {
            Ok(number) => Ok(LimitText { limit: checked_limit(number)?, window: None }),
            Err(refusal) if looks_numeric(text) => Err(refusal),
            Err(_) => Err(Refusal::new(format!("{} isn't a limit", quoted(text)), LIMIT_FIX)),
        };
    };
    if !looks_numeric(count) {
        return Err(Refusal::new(format!("{} isn't a limit", quoted(text)), LIMIT_FIX));
    }
    Ok(LimitText { limit: checked_limit(number(count)?)?, window: Some(window(length)?) })
}

fn checked_limit(number: u64) -> Result<Limit, Refusal> {
    Limit::new(number).map_err(|error| Refusal::new(error.to_string(), NUMBER_FIX))
}

/// Told apart so that `-5` is called a bad number and `ten` a bad limit.
fn looks_numeric(text: &str) -> bool {
    let text = text.trim_start_matches(['-', '+', '.']);
    text.starts_with(|c: char| c.is_ascii_digit())
        || matches!(text, "nan" | "NaN" | "NAN" | "inf" | "Inf" | "INF")
}

/// `10 per 1m` at the word `per`, both sides trimmed.
fn split_at_per(text: &str) -> Option<(&str, &str)> {
    let (count, rest) = text.split_once(char::is_whitespace)?;
    let length = rest.trim_start().strip_prefix("per")?;
    length.starts_with(char::is_whitespace).then(|| (count, length.trim()))
}

fn window(text: &str) -> Result<Window, Refusal> {
    let Length { count, unit, spelling } = length(text, LIMIT_FIX)?;
    let unclear = |fix: &str| Err(Refusal::new(format!("`per {text}` could mean two things"), fix));
    match (count, unit, spelling) {
        (None, Unit::Hour, Spelling::Letter) => {
            unclear("write `per 1h` for any 60 minutes, `per hour` for the clock's hour")
        }
        (None, Unit::Day, Spelling::Letter) => {
            unclear("write `per 1d` for any 24 hours, `per day` for the calendar's")
        }
        (None, Unit::Week, Spelling::Letter) => {
            unclear("write `per 1w` for any 7 days, `per week` for the calendar's")
        }
        (None, Unit::Hour, _) => Ok(Window::Calendar(CalendarUnit::Hour)),
        (None, Unit::Day, _) => Ok(Window::Calendar(CalendarUnit::Day)),
        (None, Unit::Week, _) => Ok(Window::Calendar(CalendarUnit::Week)),
        (None, Unit::Month, _) => Ok(Window::Calendar(CalendarUnit::Month)),
        (Some(_), Unit::Month, _) => {
            unclear("write `per month` for the calendar's, or days such as `per 30d`")
        }
        (count, unit, _) => {
            let length = Nanos::new(count.unwrap_or(1).saturating_mul(unit.nanos()));
            let period = Period::new(length).map_err(|error| {
                let fix = "write a period from `1s` to `366d`, or use `rate` for shorter ones";
                Refusal::new(format!("`per {text}`: {error}"), fix)
            })?;
            Ok(Window::Rolling(period))
        }
    }
}

/// `100/s`, `100/10s`, `100 per 10s`, `90 per minute`.
pub(crate) fn rate(text: &str) -> Result<Rate, Refusal> {
    let text = text.trim();
    let split = text.split_once('/').map(|(count, length)| (count.trim_end(), length.trim_start()));
    let Some((count, length_text)) = split.or_else(|| split_at_per(text)) else {
        return Err(Refusal::new(format!("{} isn't a rate", quoted(text)), RATE_FIX));
    };
    if !looks_numeric(count) {
        return Err(Refusal::new(format!("{} isn't a rate", quoted(text)), RATE_FIX));
    }
    let count = number(count)?;
    let Length { count: units, unit, .. } = length(length_text, RATE_FIX)?;
    if unit == Unit::Month {
        let fix = "write days, such as `1000/30d`, or a `limit` per month";
        return Err(Refusal::new("a month has no fixed length, so it makes no rate", fix));
    }
    if count == 0 {
        return Err(Refusal::new(
            "a rate of 0 never admits anything",
            "to block, write `limit: 0 per 1m` (in an override: `limit: 0`)",
        ));
    }
    let period = Nanos::new(units.unwrap_or(1).saturating_mul(unit.nanos()));
    Rate::new(count, period).map_err(|error| Refusal::new(format!("{}: {error}", quoted(text)), RATE_FIX))
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Unit {
    Millisecond,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Year,
}

impl Unit {
    fn nanos(self) -> u64 {
        let seconds = |count: u64| count * Nanos::PER_SECOND;
        match self {
            Unit::Millisecond => Nanos::PER_MILLI,
            Unit::Second => seconds(1),
            Unit::Minute => seconds(60),
            Unit::Hour => seconds(3600),
            Unit::Day => seconds(86_400),
            Unit::Week => seconds(7 * 86_400),
            // Refused before its length is asked for; a month has none.
            Unit::Month => seconds(30 * 86_400),
            Unit::Year => seconds(365 * 86_400),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Spelling {
    Letter,
    Word,
    Plural,
}

struct Length {
    count: Option<u64>,
    unit: Unit,
    spelling: Spelling,
}

/// `10s`, `10 seconds`, `minute`. A plural needs its number.
fn length(text: &str, fix: &str) -> Result<Length, Refusal> {
    let digits = text.bytes().take_while(|b| b.is_ascii_digit() || *b == b'_').count();
    let (count, word) = text.split_at(digits);
    let refusal = || {
        let message = format!("{} isn't a length of time", quoted(text));
        Refusal::new(message, format!("{fix}; units are ms, s, m, h, d, w, month and year"))
    };
    let count = if count.is_empty() { None } else { Some(number(count)?) };
    let (unit, spelling) = unit(word.trim_start()).ok_or_else(refusal)?;
    if count == Some(0) || (count.is_none() && spelling == Spelling::Plural) {
        return Err(refusal());
    }
    Ok(Length { count, unit, spelling })
}

fn unit(word: &str) -> Option<(Unit, Spelling)> {
    let (singular, spelling) = match word.strip_suffix('s') {
        Some(singular) if singular.len() > 1 => (singular, Spelling::Plural),
        _ => (word, Spelling::Word),
    };
    let unit = match singular {
        "ms" => return Some((Unit::Millisecond, Spelling::Letter)),
        "s" => return Some((Unit::Second, Spelling::Letter)),
        "m" => return Some((Unit::Minute, Spelling::Letter)),
        "h" => return Some((Unit::Hour, Spelling::Letter)),
        "d" => return Some((Unit::Day, Spelling::Letter)),
        "w" => return Some((Unit::Week, Spelling::Letter)),
        "second" => Unit::Second,
        "minute" => Unit::Minute,
        "hour" => Unit::Hour,
        "day" => Unit::Day,
        "week" => Unit::Week,
        "month" => Unit::Month,
        "year" => Unit::Year,
        _ => return None,
    };
    Some((unit, spelling))
}

#[cfg(test)]
mod tests;
