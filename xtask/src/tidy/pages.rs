//! Rules about the pages: the map stays short, links and names lead somewhere, and nothing refers to what a reader
//! doesn't have.

use super::{read, shown};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

/// A map that takes longer than fifteen minutes is an inventory.
const MAP_BYTES_MAX: usize = 16 * 1024;
/// Pages that name types and functions of the code.
const NAMING_PAGES: [&str; 5] =
    ["ARCHITECTURE.md", "docs/design.md", "docs/failure-modes.md", "docs/glossary.md", "docs/decisions/"];
/// References to documents that aren't in the repository. Those with `#` are followed by a number. Spelt so that this
/// file doesn't match.
const GHOSTS: [&str; 6] = [
    concat!("iss", "ue #"),
    concat!("b", "ar #"),
    concat!("B", "ar #"),
    concat!("see", "ds/"),
    concat!("docu", "ment 00"),
    concat!("design of ", "record"),
];

pub(super) fn check(root: &Path, files: &[PathBuf], problems: &mut Vec<String>) {
    let map_bytes = read(&root.join("ARCHITECTURE.md")).len();
    if map_bytes > MAP_BYTES_MAX {
        problems.push(format!("ARCHITECTURE.md: {map_bytes} bytes, and {MAP_BYTES_MAX} at most are a map"));
    }
    check_ghosts(root, files, problems);
    check_anchors(root, files, problems);
    check_names(root, files, problems);
}

/// Nothing refers to documents that a reader doesn't have.
fn check_ghosts(root: &Path, files: &[PathBuf], problems: &mut Vec<String>) {
    let is_text = |file: &&PathBuf| {
        let extension = file.extension().and_then(|extension| extension.to_str());
        matches!(extension, Some("rs" | "md" | "toml" | "lua" | "sql" | "sh" | "yaml" | "yml" | "proto"))
    };
    for file in files.iter().filter(is_text) {
        for (number, line) in read(file).lines().enumerate() {
            if let Some(ghost) = GHOSTS.iter().find(|ghost| has_ghost(line, ghost)) {
                let place = format!("{}:{}", shown(root, file), number + 1);
                problems
                    .push(format!("{place}: {ghost:?} refers to a document that isn't in the repository"));
            }
        }
    }
}

fn has_ghost(line: &str, ghost: &str) -> bool {
    match ghost.strip_suffix('#') {
        Some(before) => {
            line.split(before).skip(1).any(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
        }
        None => line.contains(ghost),
    }
}

/// Each `page.md#part` leads to a heading of that page.
fn check_anchors(root: &Path, files: &[PathBuf], problems: &mut Vec<String>) {
    let mut known: HashMap<PathBuf, HashSet<String>> = HashMap::new();
    for file in files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "md")) {
        let text = read(file);
        let folder = file.parent().unwrap_or(root);
        for (path, part) in anchors(&text) {
            let target = if path.is_empty() { file.clone() } else { folder.join(path) };
            let parts = known.entry(target).or_insert_with_key(|target| headings(&read(target)));
            if !parts.contains(part) {
                problems.push(format!(
                    "{}: links to {path}#{part}, and there is no such heading",
                    shown(root, file)
                ));
            }
        }
    }
}

/// The page and the part of each link to a part of a page of ours.
fn anchors(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let parts = targets.filter(|target| !target.contains("://")).filter_map(|target| target.split_once('#'));
    parts.filter(|(path, _)| path.is_empty() || path.ends_with(".md"))
}

/// The parts that a page can be linked to by, as GitHub names them.
fn headings(text: &str) -> HashSet<String> {
    let mut is_code = false;
    let mut parts = HashSet::new();
    for line in text.lines() {
        is_code ^= line.starts_with("```");
        if !is_code && line.starts_with('#') {
            parts.insert(part_of(line.trim_start_matches('#').trim()));
        }
    }
    parts
}

fn part_of(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

/// Types and functions that the map and the design name are there.
fn check_names(root: &Path, files: &[PathBuf], problems: &mut Vec<String>) {
    let mut known = HashSet::new();
    for file in files {
        let extension = file.extension().and_then(|extension| extension.to_str());
        if matches!(extension, Some("rs" | "lua" | "sql")) {
            known.extend(words(&read(file)).map(str::to_owned));
        }
    }
    for file in files {
        let name = shown(root, file);
        if !NAMING_PAGES.iter().any(|page| name.starts_with(page)) {
            continue;
        }
        let text = read(file);
        let missing: BTreeSet<&str> = named(&text).filter(|word| !known.contains(*word)).collect();
        for word in missing {
            problems.push(format!("{name}: names `{word}`, which isn't in the code"));
        }
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// What stands in backticks and is a name of the code: parts of a path of names, and what has both cases or a `_`.
fn named(text: &str) -> impl Iterator<Item = &str> {
    let is_name =
        |code: &&str| !code.is_empty() && code.chars().all(|c| c.is_alphanumeric() || c == '_' || c == ':');
    let is_of_code = |code: &&str| {
        let has = |is: fn(char) -> bool| code.contains(is);
        code.contains("::") || code.contains('_') || has(char::is_uppercase) && has(char::is_lowercase)
    };
    let prose = text.split("```").step_by(2);
    let code = prose.flat_map(|prose| prose.split('`').skip(1).step_by(2)).filter(is_name).filter(is_of_code);
    code.flat_map(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ghosts_are_found_with_a_number_behind_them() {
        let ghost = concat!("iss", "ue #");
        assert!(has_ghost(concat!("as iss", "ue 12 says"), ghost));
        assert!(!has_ghost(concat!("an iss", "ue of GitHub"), ghost));
        assert!(has_ghost(concat!("see see", "ds/x.md"), concat!("see", "ds/")));
    }

    #[test]
    fn parts_of_pages_are_named_as_github_names_them() {
        let page =
            "# Quotas: rates, and windows under 60 s\n```sh\n# no heading\n```\n## The bound of `bounded`\n";
        let expected = ["quotas-rates-and-windows-under-60-s", "the-bound-of-bounded"];
        assert_eq!(headings(page), expected.map(str::to_owned).into());
        let text = "[a](x.md#part), [b](#here), [c](https://a.b/#c), [d](x.md)";
        assert_eq!(anchors(text).collect::<Vec<_>>(), [("x.md", "part"), ("", "here")]);
    }

    #[test]
    fn names_of_the_code_are_found_in_backticks() {
        let text = "`Table::decide_all`, `paid`, `KeyId`, `crates/core`, `own = 5`\n```text\n`Nothing`\n```\n`must_ask`";
        assert_eq!(named(text).collect::<Vec<_>>(), ["Table", "decide_all", "KeyId", "must_ask"]);
    }
}
