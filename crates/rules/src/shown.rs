//! Values as people see them: shortened, because a request's value may be as long as a request's head.
//!
//! Only for answers, logs, lists and reports. Counting and comparing always use the whole value.

use std::borrow::Cow;

/// The most characters of a value that are shown.
const SHOWN_CHARS_MAX: usize = 512;

/// Returns the value, or its first 511 characters and `…` when it has more than 512.
pub fn shown(value: &str) -> Cow<'_, str> {
    if value.len() <= SHOWN_CHARS_MAX || value.chars().nth(SHOWN_CHARS_MAX).is_none() {
        return Cow::Borrowed(value);
    }
    Cow::Owned(value.chars().take(SHOWN_CHARS_MAX - 1).chain(['…']).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_value_is_cut_at_a_character_and_says_so() {
        for value in ["", "a", &"x".repeat(512), &"é".repeat(512)] {
            assert_eq!(shown(value), value);
        }
        assert_eq!(shown(&"é".repeat(513)), format!("{}…", "é".repeat(511)));
        assert_eq!(shown(&"x".repeat(16_000)).chars().count(), 512);
    }
}
