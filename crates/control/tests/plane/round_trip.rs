//! Rules that are printed with their overrides and pushed back as they are: nothing changes.

use crate::support::*;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::collections::BTreeMap;
use tidegate_control::plane::{ExportedRules, OverrideRetention, PushChange, Replace, WrittenOverrides};
use tidegate_core::Nanos;
use tidegate_rules::{DocumentName, RuleChange};
use tidegate_world::MemoryWorld;

/// A rule that a file could have: its name, its key, and whether it is a rate.
#[derive(Clone, Debug)]
struct MadeRule {
    name: &'static str,
    key: Vec<&'static str>,
    is_rate: bool,
}

#[derive(Clone, Debug)]
struct MadeNamespace {
    rules: Vec<MadeRule>,
    /// Each as it stands in the file, about the rule of this number.
    overrides: Vec<(usize, String)>,
    style: u8,
}

/// In single quotes, as people write values that YAML could take for something else.
fn value() -> impl Strategy<Value = String> {
    let texts = prop_oneof![
        "[a-z]{1,6}",
        "[a-z]{1,4}-\\*",
        "\\*[a-z.]{1,4}",
        "[a-z'\"\\\\#:{}\\[\\], &!|>%@`?~-]{1,8}",
        "[äß東é😀]{1,3}",
        Just("null".to_owned()),
        Just("12".to_owned()),
        Just("*".to_owned()),
    ];
    texts.prop_map(|text| format!("'{}'", text.replace('\'', "''")))
}

fn address() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<[u16; 4]>().prop_map(|[a, b, c, d]| format!("'2001:{a:x}:{b:x}:{c:x}::{d:x}'")),
        any::<[u8; 4]>().prop_map(|[a, b, c, d]| format!("'{a}.{b}.{c}.{d}'")),
        Just("'*'".to_owned()),
    ]
}

fn what(is_rate: bool) -> BoxedStrategy<String> {
    let number = prop_oneof![0..5_u64, 1..1_000_000_u64, Just(9_007_199_254_740_992)];
    let change = if is_rate {
        let unit = prop_oneof![Just("s"), Just("m"), Just("10s"), Just("7ms"), Just("3h"), Just("30d")];
        prop_oneof![
            Just("unlimited: true".to_owned()),
            Just("limit: 0".to_owned()),
            (1..100_000_u64, unit).prop_map(|(count, unit)| format!("rate: {count}/{unit}")),
            (1..1000_u64).prop_map(|burst| format!("burst: {burst}")),
        ]
        .boxed()
    } else {
        prop_oneof![Just("unlimited: true".to_owned()), number.prop_map(|number| format!("limit: {number}"))]
            .boxed()
    };
    let until = proptest::option::of(0..4_000_000_000_000_i64);
    (change, any::<bool>(), until)
        .prop_map(|(change, hot, until)| {
            let hot = if hot { ", hot: true" } else { "" };
            let until = until.and_then(|milli| jiff::Timestamp::from_millisecond(milli).ok());
            let until = until.map_or(String::new(), |until| format!(", until: {until}"));
            format!("{change}{hot}{until}")
        })
        .boxed()
}

fn namespace() -> impl Strategy<Value = MadeNamespace> {
    const NAMES: [&str; 5] = ["per-user", "'true'", "'a: b # c'", "'ß'", "search"];
    const KEYS: [&[&str]; 4] = [&["user"], &["user", "endpoint"], &["ip/64"], &["org", "user", "ip/48"]];
    let rule = (0..KEYS.len(), any::<bool>());
    (proptest::collection::vec(rule, 1..NAMES.len()), any::<u8>()).prop_flat_map(|(made, style)| {
        let rules: Vec<MadeRule> = made
            .into_iter()
            .zip(NAMES)
            .map(|((key, is_rate), name)| MadeRule { name, key: KEYS[key].to_vec(), is_rate })
            .collect();
        let entry = (0..rules.len()).prop_flat_map({
            let rules = rules.clone();
            move |index| {
                let rule = rules[index].clone();
                let parts: Vec<BoxedStrategy<String>> = rule
                    .key
                    .iter()
                    .map(|part| if part.starts_with("ip") { address().boxed() } else { value().boxed() })
                    .collect();
                (parts, what(rule.is_rate)).prop_map(move |(parts, what)| {
                    let named =
                        rule.key.iter().zip(&parts).map(|(part, text)| {
                            format!("{}: {text}, ", part.split('/').next().unwrap_or(part))
                        });
                    (index, format!("{{ rule: {}, {}{what} }}", rule.name, named.collect::<String>()))
                })
            }
        });
        (Just(rules), proptest::collection::vec(entry, 0..12), Just(style))
            .prop_map(|(rules, overrides, style)| MadeNamespace { rules, overrides, style })
    })
}

/// The file of a namespace, in one of several styles.
fn text(name: &str, made: &MadeNamespace) -> String {
    let rules: Vec<String> = made
        .rules
        .iter()
        .map(|rule| {
            let policy = if rule.is_rate { "rate: 10/s" } else { "limit: 10 per 1m" };
            format!("{{ name: {}, key: [{}], {policy} }}", rule.name, rule.key.join(", "))
        })
        .collect();
    // One for each caller.
    let who = |entry: &str| entry.rsplit_once("', ").map_or("", |(who, _)| who).to_owned();
    let by_caller: BTreeMap<String, &str> =
        made.overrides.iter().map(|(_, entry)| (who(entry), &**entry)).collect();
    let overrides: Vec<&str> = by_caller.into_values().collect();
    let listed =
        |entries: Vec<&str>| entries.iter().map(|entry| format!("  - {entry}\n")).collect::<String>();
    let rules_list = listed(rules.iter().map(|rule| &**rule).collect());
    let overrides_list = match overrides.is_empty() {
        true => String::new(),
        false => format!("overrides:\n{}", listed(overrides.clone())),
    };
    match made.style % 5 {
        0 => format!("# {name}\nnamespace: {name} # this\nrules:\n{rules_list}\n# the end\n{overrides_list}"),
        1 => format!("namespace: {name}\n{overrides_list}# about rules\nrules:\n{rules_list}"),
        2 => format!(
            "{{ namespace: {name}, rules: [{}], overrides: [{}] }}\n",
            rules.join(", "),
            overrides.join(", ")
        ),
        3 => format!(
            "namespace: {name}\nrules:\n{rules_list}---\n# more\nnamespace: {name}\nrules: []\n{overrides_list}"
        ),
        _ => format!("namespace: {name}\nrules:\n{rules_list}{overrides_list}").replace('\n', "\r\n"),
    }
}

/// What `tidegate rules get` prints of it.
fn printed(written: &ExportedRules) -> String {
    let documents: String = written.documents.values().map(|text| format!("---\n{text}")).collect();
    format!("# version {}\n{documents}", written.version)
}

#[test]
fn rules_that_are_printed_and_pushed_back_change_nothing() {
    let made = proptest::collection::vec(namespace(), 1..4);
    let config = Config { cases: 1000, failure_persistence: None, verbose: 1, ..Config::default() };
    let mut runner = TestRunner::new(config);
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let seen = std::cell::Cell::new(0);
    let result = runner.run(&made, |made| {
        let texts: Vec<String> =
            made.iter().zip(["api", "web", "llm"]).map(|(namespace, name)| text(name, namespace)).collect();
        let file = texts.join("---\n");
        runtime.block_on(async {
            let store = MemoryWorld::new(Box::new(|| Nanos::from_secs(1_800_000_000)));
            let plane = open(&std::sync::Arc::new(store)).await;
            let pushed = match tidegate_rules::PushedRules::read(
                &[source(&file)],
                &tidegate_core::FleetSecret::BUILT_IN,
                tidegate_rules::envoy::Windows::Fixed,
            ) {
                Ok(pushed) => pushed,
                // Two overrides of the same caller, or patterns that cost too much.
                Err(errors) => return Err(TestCaseError::reject(errors.to_string())),
            };
            let overrides = pushed.overrides.len();
            let files =
                PushChange::Files { pushed, replace: Replace::Named, overrides: OverrideRetention::Kept };
            plane.push(push(files)).await.map_err(|error| TestCaseError::fail(error.to_string()))?;
            let written = plane.written(|_| true).await.unwrap();
            let all = WrittenOverrides::Included { written: overrides, left_out: 0 };
            prop_assert_eq!(written.overrides, all, "of {}", file);
            seen.set(seen.get() + overrides);
            let text = printed(&written);
            for keep in [OverrideRetention::Kept, OverrideRetention::Pruned] {
                let outcome = plane.preview(&push(files_as(&text, Replace::All, keep))).await.unwrap();
                prop_assert_eq!(
                    outcome.changes.len(),
                    0,
                    "{} of\n{}\nprinted as\n{}",
                    said(&outcome),
                    file,
                    text
                );
            }
            Ok(())
        })
    });
    result.unwrap_or_else(|error| panic!("{error}"));
    assert!(seen.get() > 2000, "only {} overrides", seen.get());
}

#[tokio::test(start_paused = true)]
async fn a_push_removes_no_override_unless_it_is_told_to() {
    let plane = open(&store()).await;
    pushed(&plane, files(RULES)).await;
    pushed(&plane, set("{ rule: per-user, user: bob, limit: 500 }")).await;
    let bare = format!("# a comment\n{}", RULES.split("overrides:").next().unwrap());
    let kept = pushed(&plane, files_as(&bare, Replace::Named, OverrideRetention::Kept)).await;
    assert_eq!((kept.changes.len(), overrides(&plane).await.len()), (1, 3));
    let preview =
        plane.preview(&push(files_as(RULES, Replace::Named, OverrideRetention::Pruned))).await.unwrap();
    let meaning = said(&preview);
    assert!(meaning.contains("- 1 override is removed:\n- per-user user=bob: limit 500"), "{meaning}");
    assert!(!meaning.contains("its meaning doesn't"), "{meaning}");
}

#[tokio::test(start_paused = true)]
async fn overrides_of_rules_that_are_gone_are_left_out_and_stay() {
    let plane = open(&store()).await;
    pushed(&plane, files(RULES)).await;
    let renamed = RULES.split("overrides:").next().unwrap().replace("per-user", "each-user");
    pushed(&plane, files_as(&renamed, Replace::Named, OverrideRetention::Kept)).await;
    let written = plane.written(|_| true).await.unwrap();
    assert_eq!(written.overrides, WrittenOverrides::Included { written: 0, left_out: 2 });
    let again = pushed(&plane, files_as(&printed(&written), Replace::All, OverrideRetention::Kept)).await;
    assert_eq!((again.changes.len(), overrides(&plane).await.len()), (0, 2));
}

#[tokio::test]
async fn of_very_many_overrides_none_are_written() {
    let store = MemoryWorld::new(Box::new(|| Nanos::from_secs(1_800_000_000)));
    let plane = open(&std::sync::Arc::new(store)).await;
    pushed(&plane, files(RULES)).await;
    let name = |number: usize| tidegate_rules::OverrideName {
        tenant: "default".into(),
        namespace: "api".into(),
        rule: "per-user".into(),
        parts: [format!("user-{number}").into()].into(),
    };
    let value = tidegate_rules::Override {
        change: tidegate_rules::OverrideEffect::Unlimited,
        hot: false,
        until: Nanos::MAX,
    };
    let set = |number| RuleChange::Override { name: name(number), value: Some(value) };
    pushed(&plane, PushChange::Changes((0..9_998).map(set).collect())).await;
    let is_api = |name: &DocumentName| *name == api();
    let written = plane.written(is_api).await.unwrap();
    assert_eq!(written.overrides, WrittenOverrides::Included { written: 10_000, left_out: 0 });
    pushed(&plane, PushChange::Changes(vec![set(10_000)])).await;
    let written = plane.written(is_api).await.unwrap();
    assert_eq!(written.overrides, WrittenOverrides::TooMany);
    assert!(!written.documents[&api()].contains("overrides"));
}
