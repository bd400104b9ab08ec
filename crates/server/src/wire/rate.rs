//! `rate_per_s`: any decimal that is exactly so many per so long.
//!
//! Never rounds: a rate that can't be kept exactly is refused, with what to write instead.

use crate::json::decimal::Decimal;
use crate::json::read::{Kind, Reader};
use crate::refusal::{Code, Refusal, excerpt};
use crate::wire::field::Field;
use tidegate_core::{Nanos, Period, Rate};

const DECIMALS_MAX: u32 = 9;
const PER_SECOND_MAX: u128 = 1_000_000_000;
/// The shortest period that a `Rate` takes.
const PERIOD_NS_MIN: u128 = 1_000_000;

pub(crate) fn rate(reader: &mut Reader<'_>) -> Result<Rate, Refusal> {
    let kind = reader.peek();
    let word = match kind {
        Kind::Number | Kind::Other | Kind::Boolean | Kind::Null => reader.word(),
        Kind::Text | Kind::List | Kind::Object | Kind::End => "",
    };
    let Some(decimal) = decimal_of(word) else { return Err(not_a_rate(kind, word)) };
    exact_rate(decimal).map_err(|problem| problem.refusal(word))
}

/// Also takes numbers of too many digits, as the nearest thing that is refused for the same reason.
fn decimal_of(word: &str) -> Option<Decimal> {
    let is_long_number = word.len() > 19 && is_plain_number(word);
    Decimal::parse(word).or(is_long_number.then_some(Decimal {
        is_negative: word.starts_with('-'),
        digits: 1,
        exponent: if word.contains('.') { i32::MIN } else { i32::MAX },
    }))
}

fn is_plain_number(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'-'))
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RateProblem {
    OutOfRange,
    NotExact,
}

impl RateProblem {
    #[cold]
    fn refusal(self, word: &str) -> Refusal {
        let word = excerpt(word);
        let (code, message, fix) = match self {
            RateProblem::OutOfRange => (
                Code::OutOfRange,
                format!("`rate_per_s` must be from 1 per 366 days (0.0000000317) to 1000000000, not {word}"),
                "for slower limits, give `limit` and `duration_ms`; to block, give `limit` 0",
            ),
            RateProblem::NotExact => (
                Code::NotExact,
                format!("`rate_per_s` {word} has more decimals than can be counted exactly"),
                "give fewer decimals (7 always work), or `limit` and `duration_ms`",
            ),
        };
        Refusal::of_field(code, Field::RatePerS.name(), message, fix)
    }
}

#[cold]
fn not_a_rate(kind: Kind, word: &str) -> Refusal {
    let found = if word.is_empty() { kind.name().to_owned() } else { excerpt(word) };
    let message = format!("`rate_per_s` must be a number above 0 and up to 1000000000, not {found}");
    let fix =
        if kind == Kind::Text { "write the number without quotes" } else { "write a number, such as 0.5" };
    Refusal::of_field(Code::WrongType, Field::RatePerS.name(), message, fix)
}

fn exact_rate(decimal: Decimal) -> Result<Rate, RateProblem> {
    if decimal.is_negative || decimal.digits == 0 || decimal.exponent > 9 {
        return Err(RateProblem::OutOfRange);
    }
    let places = u32::try_from(-decimal.exponent.max(-i32::MAX)).unwrap_or(0);
    if places > DECIMALS_MAX {
        return Err(RateProblem::NotExact);
    }
    let scale = 10_u128.pow(u32::try_from(decimal.exponent).unwrap_or(0));
    let count = u128::from(decimal.digits) * scale;
    let seconds = 10_u128.pow(places);
    if count > PER_SECOND_MAX * seconds {
        return Err(RateProblem::OutOfRange);
    }
    in_lowest_terms(count, seconds * u128::from(Nanos::PER_SECOND))
}

/// The rate in lowest terms, over the shortest period that a `Rate` takes.
fn in_lowest_terms(count: u128, period_ns: u128) -> Result<Rate, RateProblem> {
    if count * u128::from(Period::MAX.get()) < period_ns {
        return Err(RateProblem::OutOfRange);
    }
    let divisor = greatest_common_divisor(count, period_ns);
    let (count, period_ns) = (count / divisor, period_ns / divisor);
    let times = PERIOD_NS_MIN.div_ceil(period_ns);
    match (u64::try_from(count * times), u64::try_from(period_ns * times)) {
        (Ok(count), Ok(period_ns)) => {
            Rate::new(count, Nanos::new(period_ns)).map_err(|_| RateProblem::NotExact)
        }
        _ => Err(RateProblem::NotExact),
    }
}

fn greatest_common_divisor(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nanoseconds between two units of cost, as a fraction.
    fn interval(text: &str) -> Result<(u64, u64), Code> {
        let mut reader = Reader::new(text.as_bytes()).unwrap();
        rate(&mut reader)
            .map(|rate| (rate.interval_numerator_ns(), rate.interval_denominator()))
            .map_err(|refusal| refusal.code)
    }

    #[test]
    fn a_decimal_becomes_exactly_that_rate() {
        assert_eq!(interval("100"), Ok((10_000_000, 1)));
        assert_eq!(interval("0.5"), Ok((2_000_000_000, 1)));
        assert_eq!(interval("1e3"), Ok((1_000_000, 1)));
        assert_eq!(interval("0.3"), Ok((10_000_000_000, 3)));
        assert_eq!(interval("1000000000"), Ok((1, 1)));
        assert_eq!(interval("999999999"), Ok((1_000_000_000, 999_999_999)));
        assert_eq!(interval("0.0000001"), Ok((10_000_000_000_000_000, 1)));
        assert_eq!(interval("0.1234567"), Ok((10_000_000_000_000_000, 1_234_567)));
    }

    #[test]
    fn what_can_not_be_kept_exactly_is_refused() {
        assert_eq!(interval("0.100000001"), Err(Code::NotExact));
        assert_eq!(interval("0.1000000000000001"), Err(Code::NotExact));
        assert_eq!(interval("0.33333333333333333333333333"), Err(Code::NotExact));
        for text in ["0", "0.0", "-1", "1000000001", "1e10", "1e308", "1e400", "0.00000001"] {
            assert_eq!(interval(text), Err(Code::OutOfRange), "{text}");
        }
        for text in ["NaN", "\"5\"", "true", "null", "[1]", "{}", "Infinity", "01"] {
            assert_eq!(interval(text), Err(Code::WrongType), "{text}");
        }
    }
}
