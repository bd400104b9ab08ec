//! How quantities are read, and what is refused.

use super::*;

fn rolling(limit: u64, seconds: u64) -> Result<LimitText, Refusal> {
    let period = Period::new(Nanos::from_secs(seconds)).unwrap();
    Ok(LimitText { limit: Limit::new(limit).unwrap(), window: Some(Window::Rolling(period)) })
}

fn calendar(limit: u64, unit: CalendarUnit) -> Result<LimitText, Refusal> {
    Ok(LimitText { limit: Limit::new(limit).unwrap(), window: Some(Window::Calendar(unit)) })
}

#[test]
fn a_limit_with_a_number_in_its_period_is_a_window_of_that_length() {
    for (text, count, seconds) in [
        ("10 per 1m", 10, 60),
        ("10 per 1 m", 10, 60),
        ("  10   per  90 seconds ", 10, 90),
        ("500_000 per 1h", 500_000, 3600),
        ("1 per 24h", 1, 86_400),
        ("1 per 2 weeks", 1, 14 * 86_400),
        ("1 per 1 day", 1, 86_400),
        ("7 per second", 7, 1),
        ("7 per minute", 7, 60),
        ("7 per s", 7, 1),
        ("7 per m", 7, 60),
        ("7 per year", 7, 365 * 86_400),
        ("7 per 1 year", 7, 365 * 86_400),
        ("0 per 1m", 0, 60),
        ("9007199254740992 per 366d", 1 << 53, 366 * 86_400),
        ("10/min", 10, 60),
        ("10/m", 10, 60),
        ("10 / 90s", 10, 90),
        ("100/s", 100, 1),
        ("100/sec", 100, 1),
        ("100 per sec", 100, 1),
        ("100 per 2 mins", 100, 120),
        ("5/1hr", 5, 3600),
        ("5 per 2 hrs", 5, 7200),
        ("5 every 30s", 5, 30),
        ("5 every minute", 5, 60),
        ("5 each 30 seconds", 5, 30),
        ("1k per 1m", 1000, 60),
        ("10K/min", 10_000, 60),
        ("2M per 1h", 2_000_000, 3600),
        ("1,000 per 1m", 1000, 60),
        ("10 thousand per 1d", 10_000, 86_400),
    ] {
        assert_eq!(limit(text), rolling(count, seconds), "{text}");
    }
}

#[test]
fn a_unit_without_a_number_is_the_calendars() {
    assert_eq!(limit("1_000_000 per month"), calendar(1_000_000, CalendarUnit::Month));
    assert_eq!(limit("1 million per month"), calendar(1_000_000, CalendarUnit::Month));
    assert_eq!(limit("1_000/month"), calendar(1000, CalendarUnit::Month));
    assert_eq!(limit("5 per hour"), calendar(5, CalendarUnit::Hour));
    assert_eq!(limit("5 per day"), calendar(5, CalendarUnit::Day));
    assert_eq!(limit("5 per week"), calendar(5, CalendarUnit::Week));
}

#[test]
fn a_bare_number_has_no_window() {
    assert_eq!(limit("0"), Ok(LimitText { limit: Limit::BLOCKED, window: None }));
}

#[test]
fn what_could_mean_two_things_is_refused_with_both_spellings() {
    for (text, fix) in [
        ("5 per h", "`5 per 1h`"),
        ("5 per hr", "`5 per hour`"),
        ("5/hr", "`5 per 1h`"),
        ("5/hour", "`5 per hour`"),
        ("5/day", "`5 per 1d`"),
        ("1k/week", "`1k per week`"),
        ("5 per d", "`5 per day`"),
        ("5 per w", "`5 per week`"),
        ("5 per 1 month", "`5 per 30d`"),
        ("5 per 2 months", "`5 per month`"),
    ] {
        let refusal = limit(text).unwrap_err();
        assert!(refusal.fix.contains(fix), "{text}: {refusal:?}");
    }
}

#[test]
fn what_is_no_limit_is_refused() {
    for text in [
        "",
        "ten per minute",
        "-5 per 1m",
        "1.5 per 1m",
        "NaN per 1m",
        "1e308 per 1m",
        "10 per",
        "10 per -1m",
        "10 per 0s",
        "10 per 500ms",
        "10 per 367d",
        "10 per 1x",
        "10 per minutes",
        "10 1m",
        "per 1m",
        "1__0 per 1m",
        "_1 per 1m",
        "1_ per 1m",
        "9007199254740993 per 1m",
        "18446744073709551616 per 1m",
        "1.5k per 1m",
        "k per 1m",
        "1kk per 1m",
        "1,00 per 1m",
        "1000,000 per 1m",
        "million per 1m",
        "9007199254741M per 1m",
        "10 Per 1m",
        "0x10 per 1m",
        "10per1m",
        "10 per 1m 1s",
        "١٠ per 1m",
        "10 per 99999999999999999999s",
        "10 per 9007199254740992w",
    ] {
        assert!(limit(text).is_err(), "{text}");
    }
}

#[test]
fn a_rate_is_a_number_over_a_length_of_time() {
    for (text, count, millis) in [
        ("100/s", 100, 1000),
        ("90/m", 90, 60_000),
        ("5/h", 5, 3_600_000),
        ("1/d", 1, 86_400_000),
        ("100 per 10s", 100, 10_000),
        ("100/10s", 100, 10_000),
        ("100 / 10 s", 100, 10_000),
        ("1_000/second", 1000, 1000),
        ("5 per hour", 5, 3_600_000),
        ("3/500ms", 3, 500),
        ("1/ms", 1, 1),
        ("1/year", 1, 365 * 86_400_000),
        ("100/sec", 100, 1000),
        ("100 per sec", 100, 1000),
        ("5/hr", 5, 3_600_000),
        ("10 per min", 10, 60_000),
        ("5 every 30s", 5, 30_000),
        ("1k/s", 1000, 1000),
    ] {
        assert_eq!(rate(text), Ok(Rate::new(count, Nanos::from_millis(millis)).unwrap()), "{text}");
    }
}

#[test]
fn what_is_no_rate_is_refused() {
    for text in [
        "",
        "100",
        "/s",
        "100/",
        "0/s",
        "-1/s",
        "1.5/s",
        "fast",
        "100/month",
        "100/0s",
        "100/fortnight",
        "1/367d",
        "1000000001/s",
        "2000000/ms",
        "NaN/s",
        "100//s",
        "100/s/s",
    ] {
        assert!(rate(text).is_err(), "{text}");
    }
}

#[test]
fn what_people_say_of_a_count_is_answered_with_the_text_to_write() {
    for (text, fix) in [
        ("10 requests per minute", "write `10 per minute`"),
        ("10 req/s", "write `10/s`"),
        ("1_000 calls per 10s", "write `1_000 per 10s`"),
        ("10 requests/hour", "`10 per 1h`"),
        ("10rpm", "`10 per 1m`"),
        ("10 rpm", "`10 per 1m`"),
        ("10 a minute", "`10 per 1m`"),
    ] {
        let refusal = limit(text).unwrap_err();
        assert!(refusal.fix.contains(fix), "{text}: {refusal:?}");
    }
    for (text, fix) in [
        ("10 requests per minute", "write `10 per minute`"),
        ("0.5/s", "`1 per 2s`"),
        ("1.5 per minute", "`3 per 2m`"),
        ("0.25/10s", "`1 per 40s`"),
        ("10rps", "`100/s`"),
    ] {
        let refusal = rate(text).unwrap_err();
        assert!(refusal.fix.contains(fix), "{text}: {refusal:?}");
    }
    for text in ["0.0/s", "1.5/month", "0.0000001/s", "1.5.5/s", "1. 5/s"] {
        assert!(rate(text).is_err(), "{text}");
    }
}
