//! Envoy's units of time. As in its own rate limit service, a month is 30 days and a year 365.

use tidegate_core::{Nanos, Period};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unit {
    Unknown,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Year,
}

impl Unit {
    /// From the shortest to the longest.
    const KNOWN: [Unit; 7] =
        [Unit::Second, Unit::Minute, Unit::Hour, Unit::Day, Unit::Week, Unit::Month, Unit::Year];

    pub(crate) fn from_number(number: u64) -> Option<Self> {
        [Unit::Unknown].into_iter().chain(Unit::KNOWN).find(|unit| unit.number() == number)
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        [Unit::Unknown].into_iter().chain(Unit::KNOWN).find(|unit| unit.name() == name)
    }

    /// In the protocol's enum, where the week came last.
    pub(crate) const fn number(self) -> u64 {
        match self {
            Unit::Unknown => 0,
            Unit::Second => 1,
            Unit::Minute => 2,
            Unit::Hour => 3,
            Unit::Day => 4,
            Unit::Month => 5,
            Unit::Year => 6,
            Unit::Week => 7,
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Unit::Unknown => "UNKNOWN",
            Unit::Second => "SECOND",
            Unit::Minute => "MINUTE",
            Unit::Hour => "HOUR",
            Unit::Day => "DAY",
            Unit::Week => "WEEK",
            Unit::Month => "MONTH",
            Unit::Year => "YEAR",
        }
    }

    const fn seconds(self) -> u64 {
        match self {
            Unit::Unknown => 0,
            Unit::Second => 1,
            Unit::Minute => 60,
            Unit::Hour => 3_600,
            Unit::Day => 86_400,
            Unit::Week => 7 * 86_400,
            Unit::Month => 30 * 86_400,
            Unit::Year => 365 * 86_400,
        }
    }

    /// `None` of an unknown unit.
    pub(crate) fn period(self) -> Option<Period> {
        Period::new(Nanos::from_secs(self.seconds())).ok()
    }

    /// The unit that is fewest times longer or shorter than `length`.
    pub(crate) fn nearest(length: Nanos) -> Self {
        let square = u128::from(length.get()) * u128::from(length.get());
        let between = |shorter: Unit, longer: Unit| {
            let second = u128::from(Nanos::PER_SECOND);
            u128::from(shorter.seconds()) * second * u128::from(longer.seconds()) * second
        };
        let steps = Unit::KNOWN.windows(2).take_while(|pair| square > between(pair[0], pair[1]));
        steps.last().map_or(Unit::Second, |pair| pair[1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_units_own_length_is_nearest_to_it() {
        for unit in Unit::KNOWN {
            assert_eq!(Unit::nearest(Nanos::from_secs(unit.seconds())), unit);
            assert_eq!(Unit::from_number(unit.number()), Some(unit));
            assert_eq!(Unit::from_name(unit.name()), Some(unit));
        }
    }

    #[test]
    fn other_lengths_are_told_by_ratio() {
        let nearest = |seconds| Unit::nearest(Nanos::from_secs(seconds));
        assert_eq!([nearest(0), nearest(7), nearest(8)], [Unit::Second, Unit::Second, Unit::Minute]);
        assert_eq!([nearest(300), nearest(600)], [Unit::Minute, Unit::Hour]);
        assert_eq!([nearest(4 * 3_600), nearest(6 * 3_600)], [Unit::Hour, Unit::Day]);
        assert_eq!([nearest(28 * 86_400), nearest(366 * 86_400)], [Unit::Month, Unit::Year]);
    }

    #[test]
    fn an_unknown_unit_has_no_period() {
        assert_eq!(Unit::from_number(8), None);
        assert_eq!(Unit::Unknown.period(), None);
    }
}
