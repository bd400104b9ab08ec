//! Every page of `docs/` that has commands, and who runs them. A block of `sh` that nobody runs fails a test here.
//!
//! What isn't to be run, such as the output of a program or lines for another machine, is a block of `text` or
//! `console`.

use super::page::{Shell, blocks, repository};
use crate::service_example::service;
use std::collections::BTreeSet;
use std::path::Path;

/// The page starts what it needs.
const NOTHING: &str = "";
/// A test for each page: its name, the page, and what has to run before its first block.
macro_rules! pages {
    ($($test:ident: $page:literal, $before:expr;)*) => {
        const RUN_HERE: &[&str] = &[$($page),*];
        $(#[test] fn $test() { run($page, $before); })*
    };
}

pages! {
    readme: "../README.md", NOTHING;
    accuracy: "accuracy.md", NOTHING;
    bench: "bench.md", NOTHING;
    choose: "choose.md", NOTHING;
    cookbook: "cookbook.md", NOTHING;
    envoy: "envoy.md", NOTHING;
    faq: "faq.md", NOTHING;
    from_ratelimit: "migrate-ratelimit.md", NOTHING;
    from_unkey: "migrate-unkey.md", NOTHING;
    http_api: "http-api.md", NOTHING;
    install: "install.md", NOTHING;
    kubernetes: "kubernetes.md", NOTHING;
    nginx: "nginx.md", NOTHING;
    rust: "rust.md", NOTHING;
    settings: "settings.md", NOTHING;
    sidecar: "sidecar.md", NOTHING;
    sizing: "sizing.md", NOTHING;
    three_regions: "three-regions.md", NOTHING;
    upgrade: "upgrade.md", NOTHING;
    which_algorithm: "which-algorithm.md", NOTHING;
}

/// Pages with a test of their own, or folders of them, and the file that it is in.
const RUN_ELSEWHERE: [(&str, &str); 9] = [
    ("alerts/", "metrics/pages.rs"),
    ("auth.md", "process/documents.rs"),
    ("control.md", "control/page.rs"),
    ("metrics.md", "metrics/pages.rs"),
    ("resp.md", "process/documents.rs"),
    ("sim.md", "process/simulate.rs"),
    ("telemetry.md", "process/documents.rs"),
    ("unkey.md", "process/documents.rs"),
    ("why.md", "process/documents.rs"),
];

fn run(name: &str, before: &str) {
    let page = document(name);
    let programs = match name {
        "envoy.md" => vec![("envoy", tidegate_testkit::envoy().unwrap())],
        "rust.md" => vec![("service", service())],
        _ => Vec::new(),
    };
    let mut shell = Shell::start(name, &page, &programs);
    if name == "migrate-unkey.md" {
        let packages = tidegate_testkit::unkey_for_node().unwrap();
        shell.prepare(&format!("export UNKEY_FOR_NODE='{}'\n", packages.display()));
    }
    if before != NOTHING {
        shell.prepare(before);
    }
    shell.run_all(&page);
}

fn document(name: &str) -> String {
    let path = repository().join("docs").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn the_rust_page_shows_the_example_that_it_runs() {
    let example = std::fs::read_to_string(repository().join("crates/client/examples/service.rs")).unwrap();
    assert!(
        document("rust.md").contains(&format!("```rust\n{example}```")),
        "copy the example into the page"
    );
}

/// Names below `docs/`, such as `alerts/hot-shard.md`.
fn pages_below(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        if entry.path().is_dir() {
            pages_below(&entry.path(), found);
        } else if entry.path().extension().is_some_and(|extension| extension == "md") {
            let path = entry.path();
            let name = path.strip_prefix(repository().join("docs")).unwrap();
            found.insert(name.to_str().unwrap().to_owned());
        }
    }
}

#[test]
fn every_block_of_commands_is_run_by_a_test() {
    let mut pages = BTreeSet::new();
    pages_below(&repository().join("docs"), &mut pages);
    assert!(pages.len() > 20, "{pages:?}");
    for name in &pages {
        let page = document(name);
        let other = ["```bash", "```shell", "```sh "].iter().find(|fence| page.contains(*fence));
        assert_eq!(other, None, "docs/{name}: a block that is run begins with ```sh alone");
        let is_elsewhere =
            |(other, _): &(&str, &str)| name == other || (other.ends_with('/') && name.starts_with(other));
        let is_run = RUN_HERE.contains(&name.as_str()) || RUN_ELSEWHERE.iter().any(is_elsewhere);
        assert!(
            is_run || blocks(&page).is_empty(),
            "docs/{name} has commands that no test runs: give it a line in {}, or mark them ```console",
            file!()
        );
    }
    for (name, file) in RUN_ELSEWHERE {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(file);
        let test =
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(test.contains(&format!("docs/{name}")), "{file} doesn't run docs/{name}");
        assert!(pages.iter().any(|page| page.starts_with(name)), "docs/{name} is gone");
    }
}

/// Tidy looks at links of pages; `llms.txt` is none.
#[test]
fn what_llms_txt_links_to_is_there() {
    let text = std::fs::read_to_string(repository().join("llms.txt")).unwrap();
    let links: Vec<&str> = text.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    assert!(links.len() > 20, "{links:?}");
    for link in links {
        assert!(repository().join(link).exists(), "llms.txt links to {link}");
    }
}

#[test]
fn the_index_names_every_page() {
    let mut pages = BTreeSet::new();
    pages_below(&repository().join("docs"), &mut pages);
    let index = document("README.md");
    // Pages of a folder are listed by a page of their own, or by the folder's name.
    let is_named = |name: &&String| {
        let folder = name.rsplit_once('/').map(|(folder, _)| format!("({folder}/"));
        index.contains(&format!("({name})")) || folder.is_some_and(|folder| index.contains(&folder))
    };
    let missing: Vec<&String> = pages.iter().filter(|name| *name != "README.md" && !is_named(name)).collect();
    assert!(missing.is_empty(), "docs/README.md doesn't name {missing:?}");
}
