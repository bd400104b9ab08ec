//! Which override wins, against an oracle that knows only the definition.

mod reading;

use proptest::prelude::*;
use reading::{at, said};

#[derive(Clone, Debug)]
struct PrecedenceCase {
    user: Option<String>,
    endpoint: Option<String>,
    /// Seconds of a minute.
    until: Option<u8>,
}

fn value() -> impl Strategy<Value = Option<String>> {
    prop_oneof![1 => Just(None), 6 => "[ab*]{1,4}".prop_map(Some)]
}

fn entry() -> impl Strategy<Value = PrecedenceCase> {
    (value(), value(), proptest::option::of(0..60_u8)).prop_map(|(user, endpoint, until)| {
        // One of the two must be named: an override for everybody is written `*`.
        let user = user.or_else(|| endpoint.is_none().then(|| "*".to_owned()));
        PrecedenceCase { user, endpoint, until }
    })
}

fn yaml(entries: &[PrecedenceCase]) -> String {
    let mut text =
        "namespace: api\nrules: [{ name: r, key: [user, endpoint], limit: 1000 per 1m }]\noverrides:\n"
            .to_owned();
    for (index, entry) in entries.iter().enumerate() {
        text += &format!("  - {{ rule: r, limit: {index}");
        for (name, value) in [("user", &entry.user), ("endpoint", &entry.endpoint)] {
            text += &value.as_ref().map_or(String::new(), |value| format!(", {name}: \"{value}\""));
        }
        text +=
            &entry.until.map_or(String::new(), |second| format!(", until: 2026-01-01T00:00:{second:02}Z"));
        text += " }\n";
    }
    text
}

fn glob(pattern: &str, value: &str) -> bool {
    match pattern.chars().next() {
        None => value.is_empty(),
        Some('*') => (0..=value.len()).any(|skipped| glob(&pattern[1..], &value[skipped..])),
        Some(c) => value.starts_with(c) && glob(&pattern[1..], &value[1..]),
    }
}

/// Goes through the entries one by one and keeps the better one, by the words of the definition.
fn winner(entries: &[PrecedenceCase], user: &str, endpoint: &str, second: u8) -> Option<usize> {
    let texts =
        |e: &PrecedenceCase| [e.user.clone().unwrap_or("*".into()), e.endpoint.clone().unwrap_or("*".into())];
    let exact = |e: &PrecedenceCase| texts(e).iter().all(|text| !text.contains('*'));
    let literal = |e: &PrecedenceCase| texts(e).concat().replace('*', "").len();
    let mut best: Option<usize> = None;
    for (index, entry) in entries.iter().enumerate() {
        let [user_text, endpoint_text] = texts(entry);
        let live = entry.until.is_none_or(|until| second < until);
        if !live || !glob(&user_text, user) || !glob(&endpoint_text, endpoint) {
            continue;
        }
        let better = match best.map(|best| &entries[best]) {
            None => true,
            Some(held) if exact(held) != exact(entry) => exact(entry),
            Some(held) if literal(held) != literal(entry) => literal(entry) > literal(held),
            Some(held) => texts(entry) < texts(held),
        };
        if better {
            best = Some(index);
        }
    }
    best
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_override_that_wins_is_the_definitions(
        entries in proptest::collection::vec(entry(), 0..12),
        user in "[ab]{0,4}",
        endpoint in "[ab]{0,4}",
        second in 0..60_u8,
    ) {
        let set = reading::rules(&yaml(&entries));
        let now = at(&format!("2026-01-01T00:00:{second:02}Z"));
        let expected = winner(&entries, &user, &endpoint, second).unwrap_or(1000);
        let attributes = [("user", user.as_str()), ("endpoint", endpoint.as_str())];
        prop_assert_eq!(said(&set, "api", &attributes, now), [format!("r {expected}")]);
    }
}
