//! Whole numbers as callers write them: a sign, and digits.

/// So many digits never overflow 64 bits.
const DIGITS_ALWAYS_FIT: usize = 18;

/// The number that a whole word is; `None` when it isn't one, or is out of range.
#[inline]
pub(crate) fn integer(word: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match word {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || digits.len() > DIGITS_ALWAYS_FIT {
        return long_integer(word);
    }
    let mut value = 0;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + i64::from(digit);
    }
    Some(if is_negative { -value } else { value })
}

#[cold]
fn long_integer(word: &[u8]) -> Option<i64> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_are_read_as_the_standard_library_does(word in "[-+]{0,2}[0-9]{0,22}[ a-z]?") {
            prop_assert_eq!(integer(word.as_bytes()), word.parse().ok());
        }
    }

    #[test]
    fn the_ends_of_the_range_are_in_it() {
        for value in [i64::MIN, i64::MAX, 0] {
            assert_eq!(integer(value.to_string().as_bytes()), Some(value));
        }
        for word in ["9223372036854775808", "-9223372036854775809", "", "-", "1.5", "1e3", "0x1"] {
            assert_eq!(integer(word.as_bytes()), None, "{word}");
        }
    }
}
