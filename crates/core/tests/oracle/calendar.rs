//! The calendar window of the oracle: cells found by looking at what the local clock shows.
//!
//! Why: an implementation asks its time library for the start of a day; here the library is asked
//! only what a clock in the zone shows at an instant, and boundaries are searched with that.
//!
//! It must never look at or call the implementation, and never use the library's own idea of
//! midnights, day lengths or ambiguous times.
//!
//! Readings chosen where the page leaves a choice:
//! - A day starts at the first instant at which the local date is that day's or a later one. So
//!   where midnight is skipped it starts after the gap, where it comes twice at the first one, and
//!   what the clock shows again of the day before belongs to the new day.
//! - An hour is the 60 minutes from where the clock, as it runs at the instant asked about, showed
//!   or would have shown minute 0. Where the clock moves by less than an hour these hours overlap;
//!   a charge belongs to the one that it was made in, and a denial waits for that one's end.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use jiff::Timestamp;
use jiff::civil::{Date, DateTime, Weekday};
use jiff::tz::TimeZone;

use super::window::{Cell, Cells, WindowLog};
use super::{Charge, Verdict};

const MINUTE: i128 = 60 * 1_000_000_000;
const HOUR: i128 = 60 * MINUTE;

/// No local clock is as far from UTC as this.
const LARGEST_OFFSET: i128 = 26 * HOUR;

/// No zone moves its clocks twice in this time.
const SCAN_STEP: i128 = 15 * MINUTE;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CalendarUnit {
    Hour,
    Day,
    Week,
    Month,
}

/// A time zone, with the starts of days found so far.
struct Zone {
    time_zone: TimeZone,
    day_starts: RefCell<HashMap<Date, i128>>,
}

thread_local! {
    static ZONES: RefCell<HashMap<String, Rc<Zone>>> = RefCell::new(HashMap::new());
}

impl Zone {
    fn named(name: &str) -> Rc<Self> {
        ZONES.with_borrow_mut(|zones| {
            if let Some(zone) = zones.get(name) {
                return Rc::clone(zone);
            }
            let time_zone = TimeZone::get(name).expect("a known time zone");
            let zone = Rc::new(Self { time_zone, day_starts: RefCell::default() });
            zones.insert(name.to_owned(), Rc::clone(&zone));
            zone
        })
    }

    /// What a clock in the zone shows.
    fn local(&self, instant: i128) -> DateTime {
        let timestamp = Timestamp::from_nanosecond(instant).expect("an instant jiff can express");
        self.time_zone.to_datetime(timestamp)
    }

    /// How far a clock in the zone is from one in UTC.
    fn offset(&self, instant: i128) -> i128 {
        nanoseconds_shown(self.local(instant)) - instant
    }

    /// The first instant at which the local date is `date` or later.
    fn start_of_day(&self, date: Date) -> i128 {
        if let Some(start) = self.day_starts.borrow().get(&date) {
            return *start;
        }
        let start = self.search_start_of_day(date);
        self.day_starts.borrow_mut().insert(date, start);
        start
    }

    /// Goes through all instants at which it can be midnight somewhere, in stretches during which
    /// the clock is not moved, so that the date never goes back in one; bisects the first stretch
    /// that reaches the date.
    fn search_start_of_day(&self, date: Date) -> i128 {
        let midnight_in_utc = nanoseconds_shown(date.at(0, 0, 0, 0));
        let reached = |instant: i128| self.local(instant).date() >= date;
        let mut start = midnight_in_utc - LARGEST_OFFSET;
        assert!(!reached(start), "the search starts before the day");
        while start < midnight_in_utc + LARGEST_OFFSET {
            let end = self.end_of_stretch(start, start + SCAN_STEP);
            if reached(end - 1) {
                return first(start, end - 1, reached);
            }
            start = end;
        }
        panic!("the day is never reached");
    }

    /// The first instant after `start` at which the clock has been moved, or `end`.
    fn end_of_stretch(&self, start: i128, end: i128) -> i128 {
        let offset = self.offset(start);
        if self.offset(end) == offset {
            return end;
        }
        first(start, end, |instant| self.offset(instant) != offset)
    }
}

/// The instant at which a clock in UTC would show this.
fn nanoseconds_shown(shown: DateTime) -> i128 {
    TimeZone::UTC.to_timestamp(shown).expect("an instant jiff can express").as_nanosecond()
}

/// The first instant from `low` to `high` for which `holds`, which must hold for `high` and,
/// once it does, hold for all after.
fn first(mut low: i128, mut high: i128, holds: impl Fn(i128) -> bool) -> i128 {
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    assert!(holds(high), "the search has an answer");
    high
}

/// The cells of one unit in one zone.
struct CalendarCells {
    unit: CalendarUnit,
    zone: Rc<Zone>,
}

impl CalendarCells {
    fn hour_of(&self, instant: i128) -> Cell {
        let shown = self.zone.local(instant);
        let past_the_hour = i128::from(shown.minute()) * MINUTE
            + i128::from(shown.second()) * 1_000_000_000
            + i128::from(shown.subsec_nanosecond());
        let start = instant - past_the_hour;
        Cell { start, end: start + HOUR }
    }

    /// The first date of the unit that `date` is in.
    fn first_date(&self, mut date: Date) -> Date {
        while !self.is_first_date(date) {
            date = date.yesterday().expect("a date jiff can express");
        }
        date
    }

    /// The first date of the unit after the one that `date` is in.
    fn next_first_date(&self, date: Date) -> Date {
        let mut next = date.tomorrow().expect("a date jiff can express");
        while !self.is_first_date(next) {
            next = next.tomorrow().expect("a date jiff can express");
        }
        next
    }

    fn is_first_date(&self, date: Date) -> bool {
        match self.unit {
            CalendarUnit::Hour => unreachable!("hours are not made of dates"),
            CalendarUnit::Day => true,
            CalendarUnit::Week => date.weekday() == Weekday::Monday,
            CalendarUnit::Month => date.day() == 1,
        }
    }
}

impl Cells for CalendarCells {
    fn cell_of(&self, instant: i128) -> Cell {
        if self.unit == CalendarUnit::Hour {
            return self.hour_of(instant);
        }
        let mut date = self.first_date(self.zone.local(instant).date());
        let mut next_date = self.next_first_date(date);
        // The clock may show the last minutes of a day again after the next day began.
        while self.zone.start_of_day(next_date) <= instant {
            date = next_date;
            next_date = self.next_first_date(date);
        }
        let (start, end) = (self.zone.start_of_day(date), self.zone.start_of_day(next_date));
        assert!(start <= instant && instant < end, "a cell contains its instants");
        Cell { start, end }
    }
}

/// The oracle of one key of a calendar window.
pub struct CalendarOracle(WindowLog<CalendarCells>);

impl CalendarOracle {
    pub fn new(unit: CalendarUnit, zone: &str) -> Self {
        Self(WindowLog::new(CalendarCells { unit, zone: Zone::named(zone) }))
    }

    pub fn check(&mut self, limit: u64, cost: u64, charge: Charge, now_ns: u64) -> Verdict {
        self.0.check(limit, cost, charge, now_ns)
    }

    pub fn step(&mut self, delta_ns: i64, first_ns: u64) {
        self.0.step(delta_ns, first_ns);
    }
}

#[cfg(test)]
#[path = "calendar_tests.rs"]
mod tests;
