//! Whatever the bytes, reading answers: with a set, or with errors that have a place and a remedy.

mod reading;

use proptest::prelude::*;
use reading::parse;

fn check(text: &[u8]) {
    if let Err(errors) = parse(text) {
        assert!(errors.total() > 0);
        for error in &errors {
            assert!(error.line > 0 && error.column > 0, "{error}");
            assert!(!error.field.is_empty() && !error.message.is_empty() && !error.fix.is_empty(), "{error}");
            assert!(error.to_string().len() < 2000, "{error}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        check(&bytes);
    }

    #[test]
    fn arbitrary_yaml_like_text_never_panics(
        text in "([ \n]|- |\\{|\\}|\\[|\\]|: |, |'|\"|\\*|&a|\\*a|!|---\n|name|rules|key|limit|10 per 1m|é|\t){0,60}",
    ) {
        check(text.as_bytes());
    }

    #[test]
    fn a_damaged_sample_never_panics(
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4_u8), 1..6),
    ) {
        let mut text = include_bytes!("sample.yaml").to_vec();
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
}
