//! Rules about the tree itself, checked in seconds: arrows between crates, purity of the core, paths in
//! documents, files that say what they are, names that mean one thing.
//!
//! In the spirit of TigerBeetle's tidy test: what can be checked by a program isn't left to reviewers.

mod pages;
mod type_names;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Crates from the bottom up: each may depend only on those before it. The test kit and the fuzz targets
/// come last: tests may use them, and nothing that ships.
const CRATES: [&str; 13] = [
    "core",
    "decisions",
    "rules",
    "origin",
    "world",
    "control",
    "node",
    "sim",
    "server",
    "client",
    "tidegate",
    "testkit",
    "fuzz",
];
/// What the core may depend on outside of tests: nothing that does IO.
const CORE_DEPENDENCIES: [&str; 6] = ["arrayvec", "jiff", "parking_lot", "shuttle", "smallvec", "thiserror"];
/// What the core's sources may not mention.
const IMPURE: [&str; 10] = [
    "std::fs",
    "std::net",
    "std::io",
    "std::process",
    "std::env",
    "std::thread",
    "Instant",
    "SystemTime",
    "tokio",
    "serde",
];
/// A source file longer than this isn't one idea.
const LINES_MAX: usize = 500;
/// Left behind by somebody who meant to come back. Spelt so that this file doesn't match.
const LEFT_BEHIND: [&str; 6] = [
    concat!("todo", "!("),
    concat!("unimple", "mented!("),
    concat!("db", "g!("),
    concat!("#[ig", "nore"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
];

/// Where code may say that it knows better than the compiler, and what for; each place has its argument beside it.
/// `docs/proof.md` lists them.
const UNSAFE: [(&str, &str); 7] = [
    ("crates/core/src/table.rs", "a prefetch"),
    ("crates/rules/src/snapshot/open.rs", "mapping the rules file"),
    ("crates/fuzz/src/main.rs", "the function that libFuzzer calls"),
    ("crates/node/tests/allocations.rs", "an allocator that counts"),
    ("crates/rules/tests/allocations.rs", "an allocator that counts"),
    ("crates/server/tests/idle_memory.rs", "an allocator that counts"),
    ("crates/server/tests/resp_allocations.rs", "an allocator that counts"),
];

pub(crate) fn run() -> Result<(), String> {
    let root = crate::root();
    let files = files(&root);
    let mut problems = Vec::new();
    check_arrows(&root, &mut problems);
    check_core(&root, &files, &mut problems);
    check_sources(&root, &files, &mut problems);
    check_unsafe(&root, &files, &mut problems);
    check_documents(&root, &files, &mut problems);
    check_invariants(&root, &files, &mut problems);
    pages::check(&root, &files, &mut problems);
    type_names::check(&root, &files, &mut problems);
    check_tree(&root, &mut problems);
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n")) }
}

/// Every file of the tree but what is built, fetched or git's own.
fn files(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let is_ours = !["target", ".git", "data"].iter().any(|skipped| name == *skipped);
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && is_ours => folders.push(entry.path()),
                Ok(kind) if kind.is_file() => found.push(entry.path()),
                _ => {}
            }
        }
    }
    found.sort();
    found
}

fn read(path: &Path) -> String {
    std::fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

fn shown(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).display().to_string()
}

/// The names in a manifest's section, e.g. `[dependencies]`.
fn section<'a>(manifest: &'a str, name: &str) -> Vec<&'a str> {
    let header = format!("[{name}]");
    let lines = manifest.lines().skip_while(|line| *line != header).skip(1);
    let entries = lines.take_while(|line| !line.starts_with('[')).filter(|line| !line.starts_with('#'));
    entries.filter_map(|line| line.split(['.', ' ', '=']).next()).filter(|name| !name.is_empty()).collect()
}

fn check_arrows(root: &Path, problems: &mut Vec<String>) {
    for (rank, name) in CRATES.iter().enumerate() {
        let manifest = read(&root.join("crates").join(name).join("Cargo.toml"));
        for dependency in section(&manifest, "dependencies") {
            let Some(target) = dependency.strip_prefix("tidegate-") else { continue };
            if !CRATES[..rank].contains(&target) {
                problems
                    .push(format!("crates/{name}: depends on {target}; arrows point only down ({CRATES:?})"));
            }
        }
    }
    let known: BTreeSet<String> = CRATES.iter().map(|name| (*name).to_owned()).collect();
    let folders = std::fs::read_dir(root.join("crates")).into_iter().flatten().flatten();
    for folder in folders.map(|entry| entry.file_name().to_string_lossy().into_owned()) {
        if !known.contains(&folder) {
            problems
                .push(format!("crates/{folder}: say where it belongs among {CRATES:?} in xtask/src/tidy.rs"));
        }
    }
}

fn check_core(root: &Path, files: &[PathBuf], problems: &mut Vec<String>) {
    let core = root.join("crates/core");
    for dependency in section(&read(&core.join("Cargo.toml")), "dependencies") {
        if !CORE_DEPENDENCIES.contains(&dependency) {
            problems.push(format!("crates/core: depends on {dependency}; the core has no IO"));
        }
    }
    for file in files.iter().filter(|file| file.starts_with(core.join("src"))) {
        let text = read(file);
        for (number, line) in
            text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"))
        {
            for word in IMPURE.iter().filter(|word| line.contains(**word)) {
                problems.push(format!("{}:{}: {word} in the core", shown(root, file), number + 1));
            }
        }
    }
}

fn check_sources(root: &Path, files: &[PathBuf], problems: &mut Vec<String>) {
    for file in files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "rs")) {
        let (name, text) = (shown(root, file), read(file));
        if !text.starts_with("//!") {
            problems.push(format!("{name}: a file opens by saying what it is (//!)"));
        }
        let is_test = name.contains("/tests") || name.contains("/benches/") || name.ends_with("_tests.rs");
        if !is_test && text.lines().count() > LINES_MAX {
            problems.push(format!("{name}: over {LINES_MAX} lines; is it one idea?"));
        }
        for word in LEFT_BEHIND.iter().filter(|word| text.contains(**word)) {
            problems.push(format!("{name}: {word} was left behind"));
        }
    }
}

/// `unsafe` is where it is listed, and nowhere else; in what ships, each use says why it is sound.
fn check_unsafe(root: &Path, files: &[PathBuf], problems: &mut Vec<String>) {
    let mut met = BTreeSet::new();
    for file in files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "rs")) {
        let (name, text) = (shown(root, file), read(file));
        let Some(unargued) = unargued(&text) else { continue };
        if !UNSAFE.iter().any(|(listed, _)| *listed == name) {
            problems.push(format!(
                "{name}: unsafe code; if it is measured to be needed, list it in xtask/src/tidy.rs"
            ));
        }
        if name.contains("/src/") && unargued > 0 {
            problems.push(format!("{name}: an unsafe block without `// SAFETY:` above it"));
        }
        met.insert(name);
    }
    for (listed, what) in UNSAFE.iter().filter(|(listed, _)| !met.contains(*listed)) {
        problems.push(format!(
            "{listed}: has no unsafe code any more ({what}); take it off the list in xtask/src/tidy.rs"
        ));
    }
}

/// How many of a file's unsafe blocks have no argument above them; `None` where there is no unsafe code.
fn unargued(text: &str) -> Option<usize> {
    // Spelt so that this file doesn't match.
    let (block, allowed) = (concat!("uns", "afe {"), concat!("uns", "afe_code"));
    let lines: Vec<&str> =
        text.lines().map(str::trim_start).filter(|line| !line.starts_with("//!")).collect();
    let is_comment = |line: &str| line.starts_with("//");
    if !lines.iter().any(|line| !is_comment(line) && (line.contains(block) || line.contains(allowed))) {
        return None;
    }
    let is_argued = |place: usize| {
        let comment = lines[..place].iter().rev().take_while(|line| is_comment(line));
        comment.into_iter().any(|line| line.starts_with("// SAFETY:"))
    };
    let blocks = lines.iter().enumerate().filter(|(_, line)| !is_comment(line) && line.contains(block));
    Some(blocks.filter(|(place, _)| !is_argued(*place)).count())
}

/// Every path that a document names exists: in links, and in backticks where it begins like one of ours.
fn check_documents(root: &Path, files: &[PathBuf], problems: &mut Vec<String>) {
    for file in files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "md")) {
        let text = read(file);
        let folder = file.parent().unwrap_or(root);
        for path in quoted_paths(&text) {
            if !root.join(path).exists() {
                problems.push(format!("{}: names `{path}`, which doesn't exist", shown(root, file)));
            }
        }
        for target in link_targets(&text) {
            if !folder.join(target).exists() {
                problems.push(format!("{}: links to {target}, which doesn't exist", shown(root, file)));
            }
        }
    }
}

fn quoted_paths(text: &str) -> Vec<&str> {
    let is_ours = |word: &&str| {
        ["crates/", "docs/", "xtask/", "examples/", "deploy/", "scenarios/", ".ci/", ".cargo/"]
            .iter()
            .any(|start| word.starts_with(start))
            && !word.contains(['*', ' ', '<', '…'])
    };
    text.split('`').skip(1).step_by(2).filter(is_ours).collect()
}

fn link_targets(text: &str) -> Vec<&str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let is_file = |target: &&str| !target.contains("://") && !target.starts_with('#') && !target.is_empty();
    targets.filter(is_file).filter_map(|target| target.split('#').next()).collect()
}

/// Each invariant that the code cites is written down, and each that is written down as asserted is cited.
fn check_invariants(root: &Path, files: &[PathBuf], problems: &mut Vec<String>) {
    let design = read(&root.join("docs/design.md"));
    let sources: Vec<&PathBuf> =
        files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "rs")).collect();
    let cited: BTreeSet<String> = sources.iter().flat_map(|file| invariants(&read(file))).collect();
    let written = invariants(&design);
    for missing in cited.difference(&written) {
        problems.push(format!("{missing} is cited in the code and not in docs/design.md"));
    }
}

/// `INV-` and a number, wherever it stands.
fn invariants(text: &str) -> BTreeSet<String> {
    let digits = |rest: &str| rest.chars().take_while(char::is_ascii_digit).collect::<String>();
    text.split("INV-").skip(1).map(digits).filter(|id| !id.is_empty()).map(|id| format!("INV-{id}")).collect()
}

/// Dependencies that we don't want to find ourselves with.
/// What no crate of ours may bring in. The lock file also names what only a feature that nobody uses would
/// need, so this asks for the tree.
fn check_tree(root: &Path, problems: &mut Vec<String>) {
    let tree = Command::new("cargo")
        .args(["tree", "--workspace", "--target", "all", "--prefix", "none", "--format", "{p}"])
        .current_dir(root)
        .output();
    let Ok(tree) = tree.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()) else {
        return problems.push("`cargo tree` can't be run".to_owned());
    };
    if !tree.contains("tidegate-core v") {
        problems.push("`cargo tree` says nothing of our own crates".to_owned());
    }
    for unwanted in ["openssl-sys", "ring", "serde_yaml", "native-tls"] {
        if tree.lines().any(|line| line.starts_with(&format!("{unwanted} v"))) {
            problems.push(format!("{unwanted} came in: `cargo tree -i {unwanted}` says how"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_links_are_found_in_documents() {
        let text =
            "see `crates/core/src/lib.rs` and `cargo run`, [this](docs/x.md#part), [that](https://a.b/c)";
        assert_eq!(quoted_paths(text), ["crates/core/src/lib.rs"]);
        assert_eq!(link_targets(text), ["docs/x.md"]);
    }

    #[test]
    fn a_manifests_dependencies_are_read() {
        let manifest =
            "[dependencies]\n# why\na.workspace = true\nb = \"1\"\n\n[dev-dependencies]\nc = \"1\"\n";
        assert_eq!(section(manifest, "dependencies"), ["a", "b"]);
    }

    #[test]
    fn unsafe_blocks_are_found_and_so_are_their_arguments() {
        let block = concat!("    uns", "afe { read() };\n");
        assert_eq!(unargued("let x = 1; // not an unsafe thing\n"), None);
        assert_eq!(unargued(block), Some(1));
        assert_eq!(unargued(&format!("// SAFETY: it is there,\n// and stays there.\n{block}")), Some(0));
        assert_eq!(unargued(&format!("// SAFETY: of something else\nlet x = 1;\n{block}")), Some(1));
        assert_eq!(unargued(concat!("#![allow(uns", "afe_code)]\n")), Some(0));
    }

    #[test]
    fn invariants_are_found() {
        assert_eq!(invariants("INV-7 and INV-3, not INV-x"), ["INV-3", "INV-7"].map(str::to_owned).into());
    }
}
