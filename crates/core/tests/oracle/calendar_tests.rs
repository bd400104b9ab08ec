//! Hand-made examples for the calendar of the oracle: boundaries taken from the published clock
//! changes of the zones, written down in UTC.
//!
//! It must never look at or call the implementation.

// All numbers here are known to fit.
#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_possible_wrap)]

use super::*;
use CalendarUnit::{Day, Hour, Month, Week};
use Charge::{Always, IfAllowed};

fn utc(text: &str) -> i128 {
    text.parse::<Timestamp>().expect("a timestamp").as_nanosecond()
}

fn cell_of(unit: CalendarUnit, zone: &str, instant: i128) -> Cell {
    CalendarCells { unit, zone: Zone::named(zone) }.cell_of(instant)
}

/// Both ends of the expected cell, and the instants next to them, are in the right cell.
fn assert_cell(unit: CalendarUnit, zone: &str, start: &str, end: &str) {
    let expected = Cell { start: utc(start), end: utc(end) };
    let middle = expected.start + (expected.end - expected.start) / 2;
    for instant in [expected.start, expected.start + 1, middle, expected.end - 1] {
        assert_eq!(cell_of(unit, zone, instant), expected, "{unit:?} {zone} {instant}");
    }
    assert_eq!(cell_of(unit, zone, expected.start - 1).end, expected.start);
    assert_eq!(cell_of(unit, zone, expected.end).start, expected.end);
}

#[test]
fn days_in_paris() {
    let paris = "Europe/Paris";
    assert_cell(Day, paris, "2026-01-14T23:00:00Z", "2026-01-15T23:00:00Z");
    assert_cell(Day, paris, "2026-07-13T22:00:00Z", "2026-07-14T22:00:00Z");
    // 23 hours, and 25.
    assert_cell(Day, paris, "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z");
    assert_cell(Day, paris, "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z");
}

#[test]
fn weeks_start_on_monday() {
    // 2026-01-05 is a Monday.
    assert_cell(Week, "UTC", "2026-01-05T00:00:00Z", "2026-01-12T00:00:00Z");
    assert_cell(Week, "UTC", "2025-12-29T00:00:00Z", "2026-01-05T00:00:00Z");
    // The clocks change on the Sunday that ends the week.
    assert_cell(Week, "Europe/Paris", "2026-03-22T23:00:00Z", "2026-03-29T22:00:00Z");
    assert_cell(Week, "Europe/Paris", "2026-10-18T22:00:00Z", "2026-10-25T23:00:00Z");
}

#[test]
fn months_end_where_they_end() {
    assert_cell(Month, "UTC", "2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z");
    assert_cell(Month, "UTC", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z");
    assert_cell(Month, "UTC", "2025-12-01T00:00:00Z", "2026-01-01T00:00:00Z");
    assert_cell(Month, "Europe/Paris", "2026-02-28T23:00:00Z", "2026-03-31T22:00:00Z");
    assert_cell(Month, "Europe/Paris", "2026-09-30T22:00:00Z", "2026-10-31T23:00:00Z");
    assert_cell(Month, "America/New_York", "2026-04-01T04:00:00Z", "2026-05-01T04:00:00Z");
}

#[test]
fn hours_of_kathmandu_start_at_a_quarter_past() {
    assert_cell(Hour, "Asia/Kathmandu", "2026-05-01T06:15:00Z", "2026-05-01T07:15:00Z");
    assert_cell(Hour, "Europe/Paris", "2026-03-29T00:00:00Z", "2026-03-29T01:00:00Z");
    assert_cell(Hour, "Europe/Paris", "2026-10-25T01:00:00Z", "2026-10-25T02:00:00Z");
    assert_cell(Day, "Asia/Kathmandu", "2026-04-30T18:15:00Z", "2026-05-01T18:15:00Z");
}

#[test]
fn hours_where_the_clock_moves_by_half_an_hour() {
    // Lord Howe, 2026-04-05: at 02:00 (15:00Z the day before) the clock goes back to 01:30.
    let zone = "Australia/Lord_Howe";
    let before = Cell { start: utc("2026-04-04T14:00:00Z"), end: utc("2026-04-04T15:00:00Z") };
    assert_eq!(cell_of(Hour, zone, before.end - 1), before);
    let after = Cell { start: utc("2026-04-04T14:30:00Z"), end: utc("2026-04-04T15:30:00Z") };
    assert_eq!(cell_of(Hour, zone, before.end), after);
    assert_eq!(cell_of(Hour, zone, after.end).start, after.end);
}

#[test]
fn days_without_a_midnight() {
    // Sao Paulo, 2018-11-04: 00:00 is skipped, the day starts at 01:00 (−02:00).
    assert_cell(Day, "America/Sao_Paulo", "2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z");
    // And 2018-02-17 lasts 25 hours: its last hour comes twice.
    assert_cell(Day, "America/Sao_Paulo", "2018-02-17T02:00:00Z", "2018-02-18T03:00:00Z");
}

#[test]
fn days_with_two_midnights() {
    // St John's, 2010-11-07: at 00:01 (−02:30) the clock goes back to 23:01 (−03:30).
    assert_cell(Day, "America/St_Johns", "2010-11-06T02:30:00Z", "2010-11-07T02:30:00Z");
    assert_cell(Day, "America/St_Johns", "2010-11-07T02:30:00Z", "2010-11-08T03:30:00Z");
}

#[test]
fn a_day_that_never_was() {
    // Samoa went from the 29th to the 31st of December 2011.
    assert_cell(Day, "Pacific/Apia", "2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z");
    assert_cell(Day, "Pacific/Apia", "2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z");
    assert_cell(Month, "Pacific/Apia", "2011-12-01T10:00:00Z", "2011-12-31T10:00:00Z");
}

#[test]
fn cells_follow_one_another() {
    for zone in ["Europe/Paris", "America/St_Johns", "Asia/Beirut", "Africa/Monrovia"] {
        for unit in [Day, Week, Month] {
            let mut cell = cell_of(unit, zone, 0);
            while cell.end < utc("2012-01-01T00:00:00Z") {
                let next = cell_of(unit, zone, cell.end);
                assert_eq!(next.start, cell.end);
                cell = next;
            }
        }
    }
}

#[test]
fn checks_count_per_cell() {
    let noon = utc("2026-03-29T10:00:00Z") as u64;
    let end = utc("2026-03-29T22:00:00Z") as u64;
    let mut oracle = CalendarOracle::new(Day, "Europe/Paris");
    let verdict = oracle.check(5, 5, IfAllowed, noon);
    assert_eq!((verdict.allowed, verdict.remaining, verdict.reset_ns), (true, 0, end));
    let verdict = oracle.check(5, 1, IfAllowed, noon + 7);
    assert_eq!((verdict.allowed, verdict.retry_after_ns), (false, Some(end - noon - 7)));
    assert_eq!(oracle.check(5, 6, IfAllowed, noon).retry_after_ns, None);
    assert_eq!(oracle.check(5, 1, Always, end).remaining, 4);
    // Gone back to noon: held at the day after.
    assert_eq!(oracle.check(5, 0, IfAllowed, noon).remaining, 4);
    // A step of a month takes along what was used.
    let month = 30 * 24 * HOUR as i64;
    oracle.step(month, end + month as u64);
    assert_eq!(oracle.check(5, 0, IfAllowed, end + month as u64).remaining, 4);
}
