//! A JSON number, exactly: so many digits, times a power of ten.
//!
//! Never goes through a floating-point number, which would turn 0.1 into something else.

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Decimal {
    pub is_negative: bool,
    /// Without trailing zeros.
    pub digits: u64,
    /// 0 for zero.
    pub exponent: i32,
}

impl Decimal {
    /// `None` when the text isn't a JSON number, or has more than 19 significant digits.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (is_negative, unsigned) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, parse_exponent(exponent)?),
            None => (unsigned, 0),
        };
        let (whole, fraction) = match mantissa.split_once('.') {
            Some((_, "")) => return None,
            Some(parts) => parts,
            None => (mantissa, ""),
        };
        if whole.is_empty() || (whole.len() > 1 && whole.starts_with('0')) {
            return None;
        }
        let mut decimal = Decimal { is_negative, digits: 0, exponent };
        let mut zeros = 0;
        for byte in whole.bytes() {
            decimal.push(byte, &mut zeros)?;
        }
        for byte in fraction.bytes() {
            decimal.exponent = decimal.exponent.saturating_sub(1);
            decimal.push(byte, &mut zeros)?;
        }
        decimal.exponent =
            if decimal.digits == 0 { 0 } else { decimal.exponent.saturating_add_unsigned(zeros) };
        Some(decimal)
    }

    /// Appends a digit; zeros only once another digit follows.
    fn push(&mut self, byte: u8, zeros: &mut u32) -> Option<()> {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        if digit == 0 {
            *zeros += 1;
            return Some(());
        }
        if self.digits > 0 {
            self.digits = self.digits.checked_mul(10_u64.checked_pow(*zeros)?)?;
        }
        self.digits = self.digits.checked_mul(10)?.checked_add(digit)?;
        *zeros = 0;
        Some(())
    }

    /// The same value as a whole number, if it is one and fits.
    pub(crate) fn as_whole(self) -> Option<u64> {
        let scale = 10_u64.checked_pow(u32::try_from(self.exponent).ok()?)?;
        let sign_fits = !self.is_negative || self.digits == 0;
        sign_fits.then(|| self.digits.checked_mul(scale)).flatten()
    }
}

/// Whether a text is a JSON number, also one of more digits than a [`Decimal`] holds.
pub(crate) fn is_number(text: &str) -> bool {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.strip_prefix(['+', '-']).unwrap_or(exponent)),
        None => (unsigned, "0"),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
    let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    [whole, fraction, exponent].into_iter().all(is_digits) && (whole == "0" || !whole.starts_with('0'))
}

/// Saturates: beyond a billion, one exponent is as bad as another.
fn parse_exponent(text: &str) -> Option<i32> {
    let (sign, digits) = match text.as_bytes() {
        [b'-', ..] => (-1, &text[1..]),
        [b'+', ..] => (1, &text[1..]),
        _ => (1, text),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(sign * digits.parse::<i32>().unwrap_or(i32::MAX).min(1_000_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parts(text: &str) -> Option<(u64, i32)> {
        Decimal::parse(text).map(|decimal| (decimal.digits, decimal.exponent))
    }

    #[test]
    fn a_number_is_read_exactly_however_it_is_written() {
        assert_eq!(parts("0.5"), Some((5, -1)));
        assert_eq!(parts("100"), Some((1, 2)));
        assert_eq!(parts("1e3"), Some((1, 3)));
        assert_eq!(parts("0.00100"), Some((1, -3)));
        assert_eq!(parts("10.50e+2"), Some((105, 1)));
        assert_eq!(parts("0e99999999999"), Some((0, 0)));
        assert_eq!(parts("1000000000000000000000"), Some((1, 21)));
        assert_eq!(parts("1e400"), Some((1, 400)));
    }

    #[test]
    fn what_json_has_no_such_number_for_is_none() {
        for text in ["", "-", "01", "1.", ".5", "1e", "1e+", "NaN", "+1", "1_000", "0x10", "1.2.3", "1e1e1"] {
            assert_eq!(Decimal::parse(text), None, "{text}");
            assert!(!is_number(text), "{text}");
        }
    }

    #[test]
    fn a_number_of_many_digits_is_a_number_still() {
        for text in ["12345678901234567890123", "-0.12345678901234567890123", "1.0e+99999999999999999999"] {
            assert!(is_number(text), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_whole_number_is_itself(value in any::<u64>()) {
            prop_assert_eq!(Decimal::parse(&value.to_string()).and_then(Decimal::as_whole), Some(value));
        }

        #[test]
        fn short_texts_are_numbers_for_both_or_for_neither(text in "-?[0-9.eE+-]{0,12}") {
            prop_assert_eq!(is_number(&text), Decimal::parse(&text).is_some());
        }
    }
}
