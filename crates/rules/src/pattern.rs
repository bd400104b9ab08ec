//! Patterns: `*` stands for any run of characters, also none; nothing else is special.
//!
//! Never backtracks: the pieces between stars are found from left to right, each at its first place, so
//! the time is linear in the value whatever the pattern says.

use crate::bounds::{PATTERN_COST, SEARCH_COST, SEARCHED_BYTES_PER_COST};

/// A text with at least one `*`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pattern {
    text: Box<str>,
    first_star: usize,
    last_star: usize,
}

impl Pattern {
    /// `None` for a text without `*`: that is an exact value.
    pub fn new(text: &str) -> Option<Self> {
        let (first_star, last_star) = (text.find('*')?, text.rfind('*')?);
        Some(Pattern { text: text.into(), first_star, last_star })
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// What is before the first `*`.
    pub fn start(&self) -> &str {
        &self.text[..self.first_star]
    }

    /// What is behind the last `*`.
    fn end(&self) -> &str {
        &self.text[self.last_star + 1..]
    }

    /// The beginning that is all it asks for: `/search` of `/search*`.
    pub(crate) fn only_start(&self) -> Option<&str> {
        (self.first_star == self.last_star && self.end().is_empty()).then(|| self.start())
    }

    /// Whether a value must be searched for a piece between two `*`.
    pub fn searches(&self) -> bool {
        self.text[self.first_star..=self.last_star].bytes().any(|byte| byte != b'*')
    }

    /// The characters that aren't `*`: the more there are, the more specific the pattern.
    pub fn literal_chars(&self) -> usize {
        self.text.chars().filter(|&c| c != '*').count()
    }

    /// What comparing it with a value may take, in the units of a namespace's bound.
    pub(crate) fn cost(&self) -> usize {
        if self.searches() {
            SEARCH_COST * (1 + self.text.len() / SEARCHED_BYTES_PER_COST)
        } else {
            PATTERN_COST
        }
    }

    pub fn matches(&self, value: &str) -> bool {
        let (prefix, suffix) = (&self.text[..self.first_star], &self.text[self.last_star + 1..]);
        let inner = value.strip_prefix(prefix).and_then(|rest| rest.strip_suffix(suffix));
        let Some(mut rest) = inner else { return false };
        if self.first_star == self.last_star {
            return true;
        }
        for piece in self.text[self.first_star + 1..self.last_star].split('*') {
            match rest.find(piece) {
                Some(start) => rest = &rest[start + piece.len()..],
                None => return false,
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definition, straight: a star is nothing, or one character and the star again.
    fn naive(pattern: &[char], value: &[char]) -> bool {
        match pattern.split_first() {
            None => value.is_empty(),
            Some(('*', rest)) => naive(rest, value) || (!value.is_empty() && naive(pattern, &value[1..])),
            Some((c, rest)) => value.first() == Some(c) && naive(rest, &value[1..]),
        }
    }

    #[test]
    fn a_star_stands_for_any_run_also_an_empty_one() {
        for (pattern, value, expected) in [
            ("*", "", true),
            ("acme-*", "acme-", true),
            ("acme-*", "acme", false),
            ("*-prod", "eu-prod", true),
            ("a*a", "a", false),
            ("a*a", "aa", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("**", "x", true),
            ("é*", "éa", true),
            ("a.?*", "a.?", true),
            ("a.?*", "abc", false),
        ] {
            assert_eq!(Pattern::new(pattern).unwrap().matches(value), expected, "{pattern} on {value}");
        }
        assert_eq!(Pattern::new("no star"), None);
    }

    #[test]
    fn a_hostile_pattern_takes_linear_time() {
        let pattern = Pattern::new(&"a*".repeat(256)).unwrap();
        assert!(!pattern.matches(&("a".repeat(255) + &"b".repeat(100_000))));
    }

    proptest! {
        #[test]
        fn matches_what_the_definition_matches(pattern in "[ab*]{0,8}", value in "[ab]{0,8}") {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            if let Some(compiled) = Pattern::new(&pattern) {
                prop_assert_eq!(compiled.matches(&value), naive(&chars(&pattern), &chars(&value)));
            }
        }
    }
}
