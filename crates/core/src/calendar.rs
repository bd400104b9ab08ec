//! Calendar cells: hours, days, weeks and months as a time zone's people count them.
//!
//! Time zone data is compiled in; nothing is read from the machine. A month is found once and remembered
//! until it ends, so a decision doesn't pay for calendar arithmetic.

use crate::time::{Cell, Nanos, Sequence};
use jiff::civil::{Date, Weekday};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use parking_lot::RwLock;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum CalendarUnit {
    Hour,
    Day,
    Week,
    Month,
}

/// No such zone in the IANA database.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("unknown time zone {name:?}; use an IANA name such as Europe/Paris or UTC")]
pub struct UnknownTimeZone {
    pub name: String,
}

/// A unit in a time zone.
#[derive(Debug)]
pub struct Calendar {
    unit: CalendarUnit,
    zone: TimeZone,
    zone_name: String,
    /// The cell of the last look. Only ever replaced whole.
    last: RwLock<Cell>,
}

impl Calendar {
    pub fn new(unit: CalendarUnit, zone_name: &str) -> Result<Self, UnknownTimeZone> {
        let unknown = || UnknownTimeZone { name: zone_name.chars().take(64).collect() };
        let zone = TimeZone::get(zone_name).map_err(|_| unknown())?;
        // The canonical spelling: `europe/paris` and `Europe/Paris` are one identity.
        let zone_name = zone.iana_name().ok_or_else(unknown)?.to_owned();
        let nothing = Cell { sequence: Sequence(0), start: Nanos::MAX, end: Nanos::ZERO };
        Ok(Calendar { unit, zone, zone_name, last: RwLock::new(nothing) })
    }

    pub fn unit(&self) -> CalendarUnit {
        self.unit
    }

    pub fn time_zone(&self) -> &str {
        &self.zone_name
    }

    /// The cell that holds `now`.
    pub fn cell_at(&self, now: Nanos) -> Cell {
        let last = *self.last.read();
        if last.start <= now && now < last.end {
            return last;
        }
        let cell = self.find_cell(now);
        *self.last.write() = cell;
        cell
    }

    fn find_cell(&self, now: Nanos) -> Cell {
        let timestamp = Timestamp::from_nanosecond(i128::from(now.get())).unwrap_or(Timestamp::MAX);
        if self.unit == CalendarUnit::Hour {
            return self.hour_at(now, timestamp);
        }
        let today = timestamp.to_zoned(self.zone.clone()).date();
        let cell = self.cell_of(today);
        // Minutes that a zone repeats after midnight belong to the new day, whatever their local date says.
        if cell.end <= now { self.cell_of(today.tomorrow().unwrap_or(today)) } else { cell }
    }

    fn cell_of(&self, today: Date) -> Cell {
        let (sequence, first) = match self.unit {
            CalendarUnit::Hour | CalendarUnit::Day => (days_since_epoch(today), today),
            CalendarUnit::Week => {
                let monday = today.checked_sub(days_since_monday(today).days()).unwrap_or(today);
                // 1970-01-01 was a Thursday: Mondays are 3 days off a multiple of 7.
                ((days_since_epoch(monday) + 3) / 7, monday)
            }
            CalendarUnit::Month => {
                (i64::from(today.year()) * 12 + i64::from(today.month()) - 1, today.first_of_month())
            }
        };
        let next = match self.unit {
            CalendarUnit::Hour | CalendarUnit::Day => first.checked_add(1.day()),
            CalendarUnit::Week => first.checked_add(7.days()),
            CalendarUnit::Month => first.checked_add(1.month()),
        };
        Cell {
            sequence: Sequence(u64::try_from(sequence).unwrap_or(0)),
            start: self.midnight(first).unwrap_or(Nanos::ZERO),
            end: next.ok().and_then(|next| self.midnight(next)).unwrap_or(Nanos::MAX),
        }
    }

    /// Only the part of the offset below an hour matters: where clocks change by whole hours, every cell is
    /// 60 minutes, though the local clock shows one hour twice.
    fn hour_at(&self, now: Nanos, timestamp: Timestamp) -> Cell {
        const HOUR: u64 = 3600 * Nanos::PER_SECOND;
        let offset_secs = self.zone.to_offset(timestamp).seconds().rem_euclid(3600);
        let offset = Nanos::from_secs(u64::from(offset_secs.unsigned_abs()));
        let start = Nanos::new(now.plus(offset).get() / HOUR * HOUR).minus(offset);
        // Numbered by the minute of their start: where clocks change by half an hour, two cells overlap, and
        // must not be taken for one.
        let sequence = Sequence(start.get() / (60 * Nanos::PER_SECOND));
        Cell { sequence, start, end: start.plus(Nanos::new(HOUR)) }
    }

    /// The first instant of a date; `None` before 1970 and past the end of time.
    fn midnight(&self, date: Date) -> Option<Nanos> {
        let first = date.to_zoned(self.zone.clone()).ok()?;
        u64::try_from(first.timestamp().as_nanosecond()).ok().map(Nanos::new)
    }
}

fn days_since_epoch(date: Date) -> i64 {
    let epoch = jiff::civil::date(1970, 1, 1);
    date.duration_since(epoch).as_hours() / 24
}

fn days_since_monday(date: Date) -> i64 {
    i64::from(date.weekday().since(Weekday::Monday))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(unit: CalendarUnit, zone: &str, at: &str) -> (String, u64) {
        let now: Timestamp = at.parse().unwrap();
        let now = Nanos::new(u64::try_from(now.as_nanosecond()).unwrap());
        let calendar = Calendar::new(unit, zone).unwrap();
        let cell = calendar.cell_at(now);
        assert!(cell.start <= now && now < cell.end);
        assert_eq!(calendar.cell_at(cell.start), cell);
        assert!(calendar.cell_at(cell.end).sequence > cell.sequence);
        let start = Timestamp::from_nanosecond(i128::from(cell.start.get())).unwrap();
        (start.to_string(), cell.end.minus(cell.start).get() / Nanos::PER_SECOND / 3600)
    }

    #[test]
    fn days_follow_the_zones_clock_changes() {
        assert_eq!(
            cell(CalendarUnit::Day, "Europe/Paris", "2026-03-29T10:00:00Z"),
            ("2026-03-28T23:00:00Z".into(), 23)
        );
        assert_eq!(
            cell(CalendarUnit::Day, "Europe/Paris", "2026-10-25T10:00:00Z"),
            ("2026-10-24T22:00:00Z".into(), 25)
        );
        assert_eq!(
            cell(CalendarUnit::Day, "UTC", "2026-10-25T10:00:00Z"),
            ("2026-10-25T00:00:00Z".into(), 24)
        );
    }

    #[test]
    fn weeks_start_on_monday_and_months_on_the_first() {
        assert_eq!(
            cell(CalendarUnit::Week, "UTC", "2026-11-15T23:59:59Z"),
            ("2026-11-09T00:00:00Z".into(), 168)
        );
        assert_eq!(
            cell(CalendarUnit::Month, "UTC", "2026-02-14T00:00:00Z"),
            ("2026-02-01T00:00:00Z".into(), 28 * 24)
        );
        assert_eq!(
            cell(CalendarUnit::Month, "Europe/Paris", "2026-12-31T23:30:00Z").0,
            "2026-12-31T23:00:00Z"
        );
    }

    #[test]
    fn an_hour_starts_at_the_local_minute_0_and_lasts_60_minutes() {
        assert_eq!(
            cell(CalendarUnit::Hour, "Asia/Kathmandu", "2026-01-01T00:20:00Z"),
            ("2026-01-01T00:15:00Z".into(), 1)
        );
        assert_eq!(
            cell(CalendarUnit::Hour, "Europe/Paris", "2026-10-25T01:30:00Z"),
            ("2026-10-25T01:00:00Z".into(), 1)
        );
    }

    /// Nodes say to each other which cell they mean by its number.
    #[test]
    fn a_cell_has_the_same_number_on_every_node() {
        let number = |unit, zone, at: &str| {
            let now: Timestamp = at.parse().unwrap();
            let now = Nanos::new(u64::try_from(now.as_nanosecond()).unwrap());
            Calendar::new(unit, zone).unwrap().cell_at(now).sequence.0
        };
        assert_eq!(number(CalendarUnit::Day, "UTC", "2026-10-25T10:00:00Z"), 20_751);
        assert_eq!(number(CalendarUnit::Week, "UTC", "1970-01-04T23:59:59Z"), 0);
        assert_eq!(number(CalendarUnit::Week, "UTC", "2026-11-15T23:59:59Z"), 2_967);
        assert_eq!(number(CalendarUnit::Month, "UTC", "2026-02-14T00:00:00Z"), 24_313);
        assert_eq!(number(CalendarUnit::Hour, "Asia/Kathmandu", "2026-01-01T00:20:00Z"), 29_453_775);
    }

    #[test]
    fn a_clock_that_went_back_is_in_the_cell_that_it_shows() {
        let days = Calendar::new(CalendarUnit::Day, "UTC").unwrap();
        let day = |number: u64| Nanos::from_secs(number * 86_400);
        for number in [100, 101, 99, 100] {
            let noon = day(number).plus(Nanos::from_secs(12 * 3600));
            assert_eq!((days.cell_at(noon).start, days.cell_at(noon).end), (day(number), day(number + 1)));
        }
    }

    #[test]
    fn an_unknown_zone_is_refused_and_spelling_is_canonical() {
        assert!(Calendar::new(CalendarUnit::Day, "Mars/Olympus").is_err());
        assert_eq!(Calendar::new(CalendarUnit::Day, "europe/paris").unwrap().time_zone(), "Europe/Paris");
    }
}
