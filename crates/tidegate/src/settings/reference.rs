//! `docs/settings.md`, written from the table of settings: `cargo xtask docs` writes it, and a test fails when it is stale.
//!
//! What a reader needs beyond a line for each setting is in `reference.txt` beside this file: the page's beginning, then a
//! section for each group, `## listen` for the settings that begin with `listen.`.

use super::TABLE;
use super::key;
use super::table::Setting;
use std::fmt::Write as _;

const PROSE: &str = include_str!("reference.txt");
/// The heading of settings without a dot.
const GENERAL: &str = "general";

fn group(setting: &Setting) -> &'static str {
    setting.key.split_once('.').map_or(GENERAL, |(group, _)| group)
}

fn page() -> String {
    let mut page = String::new();
    for section in PROSE.split_inclusive("\n## ") {
        let (prose, next) = section.strip_suffix("\n## ").map_or((section, ""), |prose| (prose, "\n## "));
        page += prose;
        let heading = prose.lines().next().unwrap_or_default();
        let settings: Vec<&Setting> = TABLE.iter().filter(|setting| group(setting) == heading).collect();
        if !settings.is_empty() {
            page += "\n| setting | default | meaning |\n|---|---|---|\n";
        }
        for setting in settings {
            let (key, value) = (setting.key, setting.value_name);
            let meaning = setting.meaning.replace('|', "\\|");
            writeln!(page, "| `{key}` *{value}* | {} | {meaning} |", setting.default).unwrap();
        }
        page += next;
    }
    page += "\n## All spellings\n\n| in tidegate.toml | variable | flag |\n|---|---|---|\n";
    for setting in &TABLE {
        let (key, variable, flag) = (setting.key, key::environment(setting.key), key::flag(setting.key));
        writeln!(page, "| `{key}` | `{variable}` | `{flag}` |").unwrap();
    }
    page
}

#[test]
fn the_page_says_what_the_table_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/settings.md");
    if std::env::var_os("TIDEGATE_WRITE_DOCS").is_some() {
        std::fs::write(path, page()).unwrap();
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert!(written == page(), "docs/settings.md is stale: run `cargo xtask docs`");
}

#[test]
fn every_group_of_settings_has_a_section() {
    for setting in &TABLE {
        let heading = format!("\n## {}\n", group(setting));
        assert!(PROSE.contains(&heading), "reference.txt has no section for {}", setting.key);
    }
}
