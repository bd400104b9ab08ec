//! The units of time that a limit may have there, and the windows that they mean here.
//!
//! A unit is cut from 1970 on in equal lengths, whatever the calendar says: a month is 30 days, a year 365,
//! and a week begins on a Thursday. Theirs does so, and a limit that moves over must not reset at another time.

use crate::policy::Policy;
use tidegate_core::{Limit, Nanos, Period};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EnvoyUnit {
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Year,
}

/// How a unit becomes a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Windows {
    /// As there.
    #[default]
    Fixed,
    /// The same lengths, without the burst at their turn.
    Sliding,
}

/// A limit that came with the request's descriptor. It wins over what the file says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequestLimit {
    pub requests_per_unit: u32,
    pub unit: EnvoyUnit,
    /// The unit's length times the descriptor's `unit_multiplier`.
    pub period: Period,
}

impl RequestLimit {
    /// A limit of `unit_multiplier` units: 5 and MINUTE are a window of five minutes. Returns `None` if the window
    /// would be empty, or longer than a window may be.
    pub fn new(requests_per_unit: u32, unit: EnvoyUnit, unit_multiplier: u32) -> Option<Self> {
        let length = unit.period().length().get().checked_mul(u64::from(unit_multiplier))?;
        let period = Period::new(Nanos::new(length)).ok()?;
        Some(RequestLimit { requests_per_unit, unit, period })
    }
}

impl EnvoyUnit {
    /// From the shortest to the longest.
    pub const ALL: [EnvoyUnit; 7] = [
        EnvoyUnit::Second,
        EnvoyUnit::Minute,
        EnvoyUnit::Hour,
        EnvoyUnit::Day,
        EnvoyUnit::Week,
        EnvoyUnit::Month,
        EnvoyUnit::Year,
    ];

    /// As files spell it.
    pub const fn name(self) -> &'static str {
        match self {
            EnvoyUnit::Second => "second",
            EnvoyUnit::Minute => "minute",
            EnvoyUnit::Hour => "hour",
            EnvoyUnit::Day => "day",
            EnvoyUnit::Week => "week",
            EnvoyUnit::Month => "month",
            EnvoyUnit::Year => "year",
        }
    }

    /// In upper or lower case, as there.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.name().eq_ignore_ascii_case(text))
    }

    /// In the protocol's enum, where the week came last and 0 is no unit.
    pub const fn number(self) -> u64 {
        match self {
            EnvoyUnit::Second => 1,
            EnvoyUnit::Minute => 2,
            EnvoyUnit::Hour => 3,
            EnvoyUnit::Day => 4,
            EnvoyUnit::Month => 5,
            EnvoyUnit::Year => 6,
            EnvoyUnit::Week => 7,
        }
    }

    pub fn from_number(number: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.number() == number)
    }

    /// As the protocol's enum spells it.
    pub const fn enum_name(self) -> &'static str {
        match self {
            EnvoyUnit::Second => "SECOND",
            EnvoyUnit::Minute => "MINUTE",
            EnvoyUnit::Hour => "HOUR",
            EnvoyUnit::Day => "DAY",
            EnvoyUnit::Week => "WEEK",
            EnvoyUnit::Month => "MONTH",
            EnvoyUnit::Year => "YEAR",
        }
    }

    pub fn from_enum_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.enum_name() == name)
    }

    /// The unit that is fewest times longer or shorter than `length`.
    pub fn nearest(length: Nanos) -> Self {
        let square = u128::from(length.get()) * u128::from(length.get());
        let nanos = |unit: EnvoyUnit| u128::from(unit.seconds()) * u128::from(Nanos::PER_SECOND);
        let steps = Self::ALL.windows(2).take_while(|pair| square > nanos(pair[0]) * nanos(pair[1]));
        steps.last().map_or(EnvoyUnit::Second, |pair| pair[1])
    }

    pub fn period(self) -> Period {
        Period::nearest(Nanos::from_secs(self.seconds()))
    }

    const fn seconds(self) -> u64 {
        const DAY_SECS: u64 = 86_400;
        match self {
            EnvoyUnit::Second => 1,
            EnvoyUnit::Minute => 60,
            EnvoyUnit::Hour => 3600,
            EnvoyUnit::Day => DAY_SECS,
            EnvoyUnit::Week => 7 * DAY_SECS,
            EnvoyUnit::Month => 30 * DAY_SECS,
            EnvoyUnit::Year => 365 * DAY_SECS,
        }
    }

    /// The same length as a rules file of ours writes it.
    pub(crate) const fn length_text(self) -> &'static str {
        match self {
            EnvoyUnit::Second => "1s",
            EnvoyUnit::Minute => "1m",
            EnvoyUnit::Hour => "1h",
            EnvoyUnit::Day => "1d",
            EnvoyUnit::Week => "1w",
            EnvoyUnit::Month => "30d",
            EnvoyUnit::Year => "365d",
        }
    }

    pub(crate) const fn index(self) -> usize {
        self as usize
    }
}

impl Windows {
    pub fn policy(self, requests_per_unit: u32, unit: EnvoyUnit) -> Policy {
        self.window(requests_per_unit, unit.period())
    }

    pub fn window(self, requests: u32, period: Period) -> Policy {
        // 2^32 is far below what a limit may be.
        let limit = Limit::new(u64::from(requests)).unwrap_or(Limit::BLOCKED);
        match self {
            Windows::Fixed => Policy::Fixed { limit, period },
            Windows::Sliding => Policy::Sliding { limit, period },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_cut_as_there_from_1970_on() {
        // 2026-11-15T12:34:56Z; theirs: now / divider * divider.
        let now = 1_794_746_096_u64;
        let dividers = [1, 60, 3600, 86_400, 604_800, 2_592_000, 31_536_000];
        for (unit, divider) in EnvoyUnit::ALL.into_iter().zip(dividers) {
            let cell = unit.period().cell_at(Nanos::from_secs(now));
            assert_eq!(cell.start, Nanos::from_secs(now / divider * divider), "{unit:?}");
            assert_eq!(cell.end, Nanos::from_secs((now / divider + 1) * divider), "{unit:?}");
        }
    }

    #[test]
    fn a_unit_is_read_in_any_case_and_nothing_else_is() {
        assert_eq!(EnvoyUnit::parse("MINUTE"), Some(EnvoyUnit::Minute));
        assert_eq!(EnvoyUnit::parse("Week"), Some(EnvoyUnit::Week));
        for unit in EnvoyUnit::ALL {
            assert_eq!(EnvoyUnit::parse(unit.name()), Some(unit));
            assert_eq!(EnvoyUnit::ALL[unit.index()], unit);
        }
        for wrong in ["", "unknown", "minutes", "fortnight"] {
            assert_eq!(EnvoyUnit::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_protocols_numbers_and_names_lead_back() {
        for unit in EnvoyUnit::ALL {
            assert_eq!(EnvoyUnit::from_number(unit.number()), Some(unit));
            assert_eq!(EnvoyUnit::from_enum_name(unit.enum_name()), Some(unit));
            assert_eq!(EnvoyUnit::nearest(unit.period().length()), unit);
        }
        assert_eq!([0, 8].map(EnvoyUnit::from_number), [None, None]);
        assert_eq!(["UNKNOWN", "minute"].map(EnvoyUnit::from_enum_name), [None, None]);
    }

    #[test]
    fn other_lengths_are_told_by_ratio() {
        use EnvoyUnit::{Day, Hour, Minute, Month, Second, Year};
        let nearest = |seconds| EnvoyUnit::nearest(Nanos::from_secs(seconds));
        assert_eq!([nearest(0), nearest(7), nearest(8)], [Second, Second, Minute]);
        assert_eq!([nearest(300), nearest(600)], [Minute, Hour]);
        assert_eq!([nearest(4 * 3_600), nearest(6 * 3_600)], [Hour, Day]);
        assert_eq!([nearest(28 * 86_400), nearest(366 * 86_400)], [Month, Year]);
    }
}
