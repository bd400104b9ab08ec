//! `tidegate sim`: what it prints, writes and ends with.

use crate::support::{Directory, run};
use serde_json::Value;

/// Its commands in order, as the page on simulation has them.
#[test]
fn the_page_on_simulation_does_what_it_says() {
    let path = format!("{}/../../docs/sim.md", env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(path).unwrap();
    let block =
        |language: &str| page.split(&format!("```{language}\n")).nth(1).unwrap().split("```").next().unwrap();
    let directory = Directory::new();
    let expected = block("text");
    let finished = run(&directory, &["sim", "burst"], &[]);
    assert_eq!((finished.code, finished.stdout.as_str()), (Some(0), expected), "{}", finished.stderr);
    directory.write("mine.toml", block("toml"));
    let finished = run(&directory, &["sim", "mine.toml", "--out", "pictures", "--json"], &[]);
    assert_eq!(finished.code, Some(0), "{}{}", finished.stdout, finished.stderr);
    let json: Value = serde_json::from_str(&finished.stdout).unwrap();
    assert!(json["requests"].as_u64().unwrap() > 100, "{json}");
    for kind in ["admitted", "overshoot", "origin", "sql"] {
        let picture = std::fs::read_to_string(directory.path(&format!("pictures/mine-{kind}.svg"))).unwrap();
        assert!(picture.contains("tidegate</text>"), "{picture}");
        let pixels = std::fs::read(directory.path(&format!("pictures/mine-{kind}.png"))).unwrap();
        assert!(pixels.starts_with(b"\x89PNG") && pixels.len() > 5_000, "{} bytes", pixels.len());
    }
}

#[test]
fn what_is_missed_or_cannot_be_read_has_its_own_code() {
    let directory = Directory::new();
    let burst = std::fs::read_to_string(format!("{}/../../scenarios/burst.toml", env!("CARGO_MANIFEST_DIR")))
        .unwrap();
    directory.write("missed.toml", burst.replace("most = 1.10", "most = 0.99"));
    let finished = run(&directory, &["sim", "missed.toml"], &[]);
    assert_eq!(finished.code, Some(1), "{}", finished.stderr);
    assert!(finished.stdout.contains("misses"), "{}", finished.stdout);
    directory.write("bad.toml", burst.replace("nodes = 9", "nodes = 0"));
    let finished = run(&directory, &["sim", "bad.toml"], &[]);
    assert_eq!(finished.code, Some(2));
    assert!(
        finished.stderr.contains("bad: line 8: 0 is out of range; give it from 1 to 5000"),
        "{}",
        finished.stderr
    );
    let finished = run(&directory, &["sim", "brust"], &[]);
    assert_eq!(finished.code, Some(2));
    assert!(finished.stderr.contains("tidegate sim list"), "{}", finished.stderr);
}

#[test]
fn a_swarm_finds_a_mistake_and_says_how_to_replay_it() {
    let directory = Directory::new();
    let finished = run(&directory, &["sim", "swarm", "--seeds", "2"], &[]);
    assert_eq!(finished.code, Some(0), "{}{}", finished.stdout, finished.stderr);
    assert!(finished.stdout.contains("no invariant was violated"), "{}", finished.stdout);
    let finished = run(&directory, &["sim", "swarm", "--seeds", "100", "--mistake", "republish"], &[]);
    assert_eq!(finished.code, Some(1));
    for wanted in [
        "INV-2",
        "replay it with:\n  tidegate sim swarm --from ",
        " --mistake republish",
        "attempts that fails alike",
        "add `--save DIR`",
    ] {
        assert!(finished.stdout.contains(wanted), "{wanted}: {}", finished.stdout);
    }
}

#[test]
fn what_a_swarm_finds_is_saved_and_replayed() {
    let directory = Directory::new();
    let swarm = ["sim", "swarm", "--seeds", "100", "--mistake", "republish", "--save", "found"];
    let finished = run(&directory, &swarm, &[]);
    assert_eq!(finished.code, Some(1), "{}", finished.stderr);
    let (_, command) = finished.stdout.split_once("tidegate sim replay ").unwrap();
    let path = command.trim();
    let finished = run(&directory, &["sim", "replay", path], &[]);
    assert_eq!(finished.code, Some(0), "{}{}", finished.stdout, finished.stderr);
    assert!(finished.stdout.contains(": found as expected\n"), "{}", finished.stdout);
    let text = std::fs::read_to_string(directory.path(path)).unwrap();
    directory.write(path, text.replace("expect = { violation = \"INV-2\" }", "expect = \"passes\""));
    let finished = run(&directory, &["sim", "replay", "found"], &[]);
    assert_eq!(finished.code, Some(1), "{}", finished.stderr);
    assert!(finished.stdout.contains("violated\n  about: "), "{}", finished.stdout);
    directory.write(path, text.replace("kind =", "kinds ="));
    let finished = run(&directory, &["sim", "replay", "found", "--json"], &[]);
    assert_eq!(finished.code, Some(2), "{}", finished.stdout);
    assert!(finished.stderr.contains("line 4: unknown field `kinds`"), "{}", finished.stderr);
}
