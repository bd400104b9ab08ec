//! The fields that make a rule's policy: `limit`, `rate`, `burst`, `algorithm`, `time_zone`.
//!
//! A field that has no meaning beside the others is an error: whoever wrote it expects it to do something.

use super::cursor::Cursor;
use super::fields::{Fields, NO_COMMAS};
use super::quantity::{self, LimitText, Window};
use super::value;
use crate::bounds::TIME_ZONE_CHARS_MAX;
use crate::error::{Problems, Refusal, quoted};
use crate::policy::Policy;
use std::collections::HashMap;
use std::sync::Arc;
use tidegate_core::{Burst, Calendar, CalendarUnit, Rate};

/// Calendars of the set so far: rules with the same unit and zone share one.
pub(crate) type Calendars = HashMap<(CalendarUnit, Box<str>), Arc<Calendar>>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Algorithm {
    Sliding,
    Fixed,
}

pub(crate) fn read_policy(
    fields: &Fields<'_, '_>,
    calendars: &mut Calendars,
    problems: &mut Problems,
) -> Option<Policy> {
    match (fields.get("limit"), fields.get("rate")) {
        (Some(_), Some(rate)) => {
            let fix = "keep `limit` for a window or `rate` for a steady pace; for both, write two rules";
            rate.refuse(problems, Refusal::new("a rule has either `limit` or `rate`, not both", fix));
            None
        }
        (None, None) => {
            let message = "a rule needs `limit` or `rate`".to_owned();
            fields.missing("limit", message, "add `limit: 10 per 1m` or `rate: 100/s`".to_owned(), problems);
            None
        }
        (Some(limit), None) => {
            refuse_field(
                fields,
                "burst",
                "`burst` belongs to `rate`",
                "remove it, or write a `rate`",
                problems,
            );
            let text = value::parsed(&limit, problems, quantity::limit)?;
            windowed(fields, &limit, text, calendars, problems)
        }
        (None, Some(rate)) => {
            let fix = "remove it, or write a `limit`";
            refuse_field(fields, "algorithm", "`algorithm` belongs to a `limit`", fix, problems);
            refuse_field(fields, "time_zone", "`time_zone` belongs to a calendar limit", fix, problems);
            paced(fields, &rate, problems)
        }
    }
}

fn refuse_field(fields: &Fields<'_, '_>, name: &str, message: &str, fix: &str, problems: &mut Problems) {
    if let Some(at) = fields.get(name) {
        at.refuse(problems, Refusal::new(message, fix));
    }
}

fn paced(fields: &Fields<'_, '_>, at: &Cursor<'_, '_>, problems: &mut Problems) -> Option<Policy> {
    let rate = value::parsed(at, problems, quantity::rate);
    let burst = fields.get("burst").map(|at| (value::parsed(&at, problems, burst_of), at));
    let rate = rate?;
    let second = rate.one_second_of_burst();
    let Some((burst, at)) = burst else { return Some(Policy::Gcra { rate, burst: second }) };
    let burst = burst?;
    refills(&at, rate, burst, problems)?;
    if burst > Burst::BLOCKED && burst < second {
        let message = format!(
            "a burst of {} is less than one second of the rate ({}): callers that send unevenly get less than the rate",
            burst.get(),
            second.get()
        );
        at.warn(problems, message);
    }
    Some(Policy::Gcra { rate, burst })
}

/// Refuses a burst that doesn't come back in any time that can be counted.
pub(crate) fn refills(at: &Cursor<'_, '_>, rate: Rate, burst: Burst, problems: &mut Problems) -> Option<()> {
    let fix =
        "use a smaller burst or a faster rate; for a budget that isn't refilled, a `limit` of a long period";
    rate.refills(burst).map_err(|error| at.refuse(problems, Refusal::new(error.to_string(), fix))).ok()
}

pub(crate) fn burst_of(text: &str) -> Result<Burst, Refusal> {
    let number = quantity::number(text)?;
    Burst::new(number).map_err(|error| Refusal::new(error.to_string(), "use a smaller burst"))
}

fn windowed(
    fields: &Fields<'_, '_>,
    at: &Cursor<'_, '_>,
    LimitText { limit, window }: LimitText,
    calendars: &mut Calendars,
    problems: &mut Problems,
) -> Option<Policy> {
    match window {
        None => {
            let message = format!("{} has no period", limit.get());
            let fix = match fields.has_number_with_comma() {
                true => NO_COMMAS.to_owned(),
                false => format!("write it as `{} per 1m`", limit.get()),
            };
            at.refuse(problems, Refusal::new(message, fix));
            None
        }
        Some(Window::Rolling(period)) => {
            let message = "`time_zone` belongs to a calendar limit";
            let fix = "remove it, or count by the calendar: `per hour`, `per day`, `per week`, `per month`";
            refuse_field(fields, "time_zone", message, fix, problems);
            let algorithms = [("sliding", Algorithm::Sliding), ("fixed", Algorithm::Fixed)];
            match value::field_word(fields, "algorithm", &algorithms, problems).unwrap_or(Algorithm::Sliding)
            {
                Algorithm::Sliding => Some(Policy::Sliding { limit, period }),
                Algorithm::Fixed => Some(Policy::Fixed { limit, period }),
            }
        }
        Some(Window::Calendar(unit)) => {
            let message = "a calendar limit has no other algorithm";
            let fix = "remove `algorithm`, or give the period a number, such as `per 1h`";
            refuse_field(fields, "algorithm", message, fix, problems);
            let calendar = read_calendar(fields, unit, calendars, problems)?;
            Some(Policy::Calendar { limit, calendar })
        }
    }
}

fn read_calendar(
    fields: &Fields<'_, '_>,
    unit: CalendarUnit,
    calendars: &mut Calendars,
    problems: &mut Problems,
) -> Option<Arc<Calendar>> {
    let at = fields.get("time_zone");
    let zone = match &at {
        None => "UTC",
        Some(at) => value::line(at, TIME_ZONE_CHARS_MAX, problems)?,
    };
    if let Some(calendar) = calendars.get(&(unit, zone.into())) {
        return Some(calendar.clone());
    }
    match Calendar::new(unit, zone) {
        Ok(calendar) => {
            let calendar = Arc::new(calendar);
            calendars.insert((unit, zone.into()), calendar.clone());
            Some(calendar)
        }
        Err(_) => {
            let refusal = Refusal::new(
                format!("unknown time zone {}", quoted(zone)),
                "use an IANA name such as `Europe/Paris` or `UTC`",
            );
            at.inspect(|at| at.refuse(problems, refusal));
            None
        }
    }
}
