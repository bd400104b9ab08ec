//! Whatever the bytes, reading answers; whatever the pattern, it matches what its definition matches.

use crate::reading::{TREE, domain, parse, source};
use proptest::prelude::*;

fn check(text: &[u8]) {
    match parse(&[source("config.yaml", text)]) {
        Ok(rules) => drop(rules.find("test-domain", &[("key1", "value1"), ("subkey1", "x")], None)),
        Err(errors) => {
            assert!(errors.total() > 0);
            for error in &errors {
                assert!(error.line > 0 && error.column > 0, "{error}");
                let texts = [&error.field, &error.message, &error.fix];
                assert!(texts.iter().all(|text| !text.is_empty()), "{error}");
                assert!(error.to_string().len() < 2000, "{error}");
            }
        }
    }
}

/// The definition, straight: a star is nothing, or one character and the star again.
fn naive(pattern: &[char], value: &[char]) -> bool {
    match pattern.split_first() {
        None => value.is_empty(),
        Some(('*', rest)) => naive(rest, value) || (!value.is_empty() && naive(pattern, &value[1..])),
        Some((c, rest)) => value.first() == Some(c) && naive(rest, &value[1..]),
    }
}

/// What the order of the file makes of values and patterns: the exact one, else the first pattern, else the key.
fn naive_winner(values: &[String], asked: &str) -> Option<usize> {
    let chars = |text: &str| text.chars().collect::<Vec<_>>();
    let exact = values.iter().position(|value| !asked.is_empty() && value == asked);
    let pattern =
        || values.iter().position(|value| value.contains('*') && naive(&chars(value), &chars(asked)));
    exact.or_else(pattern).or_else(|| values.iter().position(String::is_empty))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        check(&bytes);
    }

    #[test]
    fn arbitrary_yaml_like_text_never_panics(
        text in "([ \n]|- |\\{|\\}|\\[|\\]|: |, |'|\"|\\*|&a|\\*a|---\n|domain: |descriptors:\n|key: k\n|value: |rate_limit: |unit: day|replaces: |unlimited: true|é|\t){0,60}",
    ) {
        check(text.as_bytes());
    }

    #[test]
    fn a_damaged_file_never_panics(
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4_u8), 1..6),
    ) {
        let mut text = TREE.as_bytes().to_vec();
        for (place, byte, kind) in damage {
            let place = place.index(text.len());
            match kind {
                0 => text[place] = byte,
                1 => text.insert(place, byte),
                2 => drop(text.remove(place)),
                _ => text.truncate(place.max(10)),
            }
        }
        check(&text);
    }

    #[test]
    fn a_value_meets_what_the_definition_says(
        values in proptest::collection::hash_set("[ab*]{0,5}", 0..8),
        asked in "[ab*]{0,6}",
    ) {
        let values: Vec<String> = values.into_iter().collect();
        let lines: Vec<String> = values
            .iter()
            .enumerate()
            .map(|(index, value)| {
                format!("key: k, value: '{value}', rate_limit: {{ unit: day, requests_per_unit: {index} }}")
            })
            .collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let rules = domain(&lines);
        let found = rules.find("test-domain", &[("k", &asked)], None);
        let met = found.map(|found| found.policy.expect("limited").spec(tidegate_core::Nanos::ZERO).shown_limit());
        prop_assert_eq!(met, naive_winner(&values, &asked).map(|index| index as u64));
    }
}
