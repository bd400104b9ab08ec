//! Numbers, lengths of time, limits and rates as people write them: `1_000_000 per month`, `100/10s`.
//!
//! Nothing is guessed: where a spelling could mean two things (`per h` or `/hour`: any hour, or the clock's?), the
//! error has both texts to write.

use crate::error::{Refusal, quoted};
use tidegate_core::limit::NUMBER_MAX;
use tidegate_core::{CalendarUnit, Limit, Nanos, Period, Rate};

const LIMIT_FIX: &str = "write it as `10 per 1m` or `10/min`, or `1000 per month` for the calendar's";
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

/// A whole number up to 2^53; underscores or commas may stand between digits. `10k`, `2M` and `1 million` are numbers
/// too.
pub(crate) fn number(text: &str) -> Result<u64, Refusal> {
    let refusal = |what: &str| Refusal::new(format!("{} {what}", quoted(text)), NUMBER_FIX);
    let (digits, times) = magnitude(text);
    let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let is_grouped = |text: &str| {
        let mut groups = text.split(',');
        let first = groups.next().unwrap_or_default();
        is_digits(first) && first.len() <= 3 && groups.all(|group| is_digits(group) && group.len() == 3)
    };
    if !digits.split('_').all(is_digits) && !is_grouped(digits) {
        return Err(refusal("isn't a whole number"));
    }
    let plain: String = digits.chars().filter(char::is_ascii_digit).collect();
    let number: Option<u64> = plain.parse().ok().and_then(|number: u64| number.checked_mul(times));
    number.filter(|number| *number <= NUMBER_MAX).ok_or_else(|| refusal("is too large"))
}

/// The digits of a number, and by how much they are to be multiplied.
fn magnitude(text: &str) -> (&str, u64) {
    let words = [("thousand", 1_000), ("million", 1_000_000), ("billion", 1_000_000_000)];
    let letters = [("k", 1_000), ("K", 1_000), ("M", 1_000_000)];
    for (word, times) in words {
        if let Some(digits) = text.strip_suffix(word).filter(|digits| digits.ends_with(char::is_whitespace)) {
            return (digits.trim_end(), times);
        }
    }
    for (letter, times) in letters {
        if let Some(digits) =
            text.strip_suffix(letter).filter(|digits| digits.ends_with(|c: char| c.is_ascii_digit()))
        {
            return (digits, times);
        }
    }
    (text, 1)
}

pub(crate) fn limit(text: &str) -> Result<LimitText, Refusal> {
    let text = text.trim();
    let Some((count, between, length)) = split(text) else {
        return match number(text) {
            Ok(number) => Ok(LimitText { limit: checked_limit(number)?, window: None }),
            Err(refusal) if looks_numeric(text) && !has_words(text) => Err(refusal),
            Err(_) => Err(Refusal::new(format!("{} isn't a limit", quoted(text)), LIMIT_FIX)),
        };
    };
    if !looks_numeric(count) {
        return Err(Refusal::new(format!("{} isn't a limit", quoted(text)), LIMIT_FIX));
    }
    let limit = checked_limit(number(count).map_err(|refusal| {
        let same = |text: &str| limit(text).map(drop);
        without_noun(count, between, length, same).unwrap_or(refusal)
    })?)?;
    Ok(LimitText { limit, window: Some(window(count, between, length)?) })
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

/// `10 requests`, `10rpm`: more than a number.
fn has_words(text: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphabetic();
    text.contains(char::is_whitespace)
        || (text.starts_with(|c: char| c.is_ascii_digit()) && text.contains(is_word))
}

/// The text to write instead of `10 requests per minute` or `10 req/s`: the same without what is counted. `read` says
/// whether that would be understood.
fn without_noun(
    count: &str,
    between: Between,
    length: &str,
    read: impl Fn(&str) -> Result<(), Refusal>,
) -> Option<Refusal> {
    let (digits, noun) = count.split_once(char::is_whitespace)?;
    let is_noun = number(digits).is_ok() && noun.trim().bytes().all(|b| b.is_ascii_alphabetic());
    let instead = match between {
        Between::Slash => format!("{digits}/{length}"),
        Between::Word => format!("{digits} per {length}"),
    };
    let fix = match read(&instead) {
        Ok(()) => format!("write `{instead}`"),
        Err(refusal) => refusal.fix,
    };
    is_noun.then(|| Refusal::new(format!("{} isn't a number", quoted(count)), fix))
}

/// The text to write instead of `0.5/s`: `1 per 2s`, the same rate in whole numbers.
fn in_whole_numbers(count: &str, length_text: &str) -> Option<Refusal> {
    const DECIMALS_MAX: usize = 6;
    let (whole, decimals) = count.split_once('.')?;
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !is_digits(whole) || !is_digits(decimals) || decimals.len() > DECIMALS_MAX {
        return None;
    }
    let scaled: u64 = format!("{whole}{decimals}").parse().ok().filter(|scaled| *scaled > 0)?;
    let Length { count: units, unit, .. } = length(length_text, RATE_FIX).ok()?;
    let units = units.unwrap_or(1).checked_mul(10_u64.pow(u32::try_from(decimals.len()).ok()?))?;
    let (mut divisor, mut rest) = (scaled, units);
    while rest > 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    let instead = format!("{} per {}{}", scaled / divisor, units / divisor, unit.letter()?);
    rate(&instead).ok()?;
    let message = format!("{} isn't a whole number", quoted(count));
    Some(Refusal::new(message, format!("write whole numbers over a longer time: `{instead}`")))
}

/// What stands between a count and a length of time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Between {
    /// `per`, also `every` and `each`.
    Word,
    Slash,
}

/// `10 per 1m` at the word `per`, or `10/min` at the slash, both sides trimmed.
fn split(text: &str) -> Option<(&str, Between, &str)> {
    if let Some((count, length)) = text.split_once('/') {
        return Some((count.trim_end(), Between::Slash, length.trim_start()));
    }
    ["per", "every", "each"].into_iter().find_map(|word| {
        let at = text.match_indices(word).map(|(at, _)| at).find(|at| {
            let (before, after) = (&text[..*at], &text[at + word.len()..]);
            before.ends_with(char::is_whitespace)
                && (after.is_empty() || after.starts_with(char::is_whitespace))
        })?;
        Some((text[..at].trim_end(), Between::Word, text[at + word.len()..].trim_start()))
    })
}

fn window(limit: &str, between: Between, text: &str) -> Result<Window, Refusal> {
    let Length { count, unit, spelling } = length(text, LIMIT_FIX)?;
    let unclear = |fix: String| Err(Refusal::new(format!("{} could mean two things", quoted(text)), fix));
    // `per hour` has always been the clock's hour; what is short, or has a slash, says neither.
    let is_short = spelling == Spelling::Letter || between == Between::Slash;
    match (count, unit) {
        (None, Unit::Hour) if is_short => unclear(format!(
            "write `{limit} per 1h` for any 60 minutes, `{limit} per hour` for the clock's hour"
        )),
        (None, Unit::Day) if is_short => {
            unclear(format!("write `{limit} per 1d` for any 24 hours, `{limit} per day` for the calendar's"))
        }
        (None, Unit::Week) if is_short => {
            unclear(format!("write `{limit} per 1w` for any 7 days, `{limit} per week` for the calendar's"))
        }
        (None, Unit::Hour) => Ok(Window::Calendar(CalendarUnit::Hour)),
        (None, Unit::Day) => Ok(Window::Calendar(CalendarUnit::Day)),
        (None, Unit::Week) => Ok(Window::Calendar(CalendarUnit::Week)),
        (None, Unit::Month) => Ok(Window::Calendar(CalendarUnit::Month)),
        (Some(_), Unit::Month) => unclear(format!(
            "write `{limit} per month` for the calendar's, or days such as `{limit} per 30d`"
        )),
        (count, unit) => {
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
    let Some((count, between, length_text)) = split(text) else {
        return Err(Refusal::new(format!("{} isn't a rate", quoted(text)), RATE_FIX));
    };
    if !looks_numeric(count) {
        return Err(Refusal::new(format!("{} isn't a rate", quoted(text)), RATE_FIX));
    }
    let count = number(count).map_err(|refusal| {
        let same = |text: &str| rate(text).map(drop);
        let instead = without_noun(count, between, length_text, same);
        instead.or_else(|| in_whole_numbers(count, length_text)).unwrap_or(refusal)
    })?;
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

    /// As it may stand behind a number.
    fn letter(self) -> Option<&'static str> {
        match self {
            Unit::Millisecond => Some("ms"),
            Unit::Second => Some("s"),
            Unit::Minute => Some("m"),
            Unit::Hour => Some("h"),
            Unit::Day => Some("d"),
            Unit::Week => Some("w"),
            Unit::Month | Unit::Year => None,
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
        Refusal::new(
            message,
            format!(
                "{fix}; units are ms, s, m, h, d, w, month and year, or words such as sec, min, hour and day"
            ),
        )
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
    if singular == "hr" && spelling == Spelling::Word {
        return Some((Unit::Hour, Spelling::Letter));
    }
    let unit = match singular {
        "ms" => return Some((Unit::Millisecond, Spelling::Letter)),
        "s" => return Some((Unit::Second, Spelling::Letter)),
        "m" => return Some((Unit::Minute, Spelling::Letter)),
        "h" => return Some((Unit::Hour, Spelling::Letter)),
        "d" => return Some((Unit::Day, Spelling::Letter)),
        "w" => return Some((Unit::Week, Spelling::Letter)),
        "second" | "sec" => Unit::Second,
        "minute" | "min" => Unit::Minute,
        "hour" | "hr" => Unit::Hour,
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
