//! Files say the same as the episodes that they were written from.

use super::*;
use crate::swarm::Mistake;

fn file_of(episode: Episode) -> ScenarioFile {
    let expect = Expectation::Passes;
    ScenarioFile { name: "some".to_owned(), about: "A \"quoted\" sentence.".to_owned(), expect, episode }
}

/// What a run comes to: what fails fails alike.
fn outcome(episode: &Episode) -> Result<u64, String> {
    episode.run().map(|done| done.trace_hash)
}

#[test]
fn an_episode_comes_back_as_it_was_written() {
    let mut kinds = [0; 4];
    for seed in 0..60 {
        for mistake in [None, Some(Mistake::RaisesFirst)] {
            let episode = Episode::new(seed, 0, mistake);
            let file = file_of(episode);
            let text = file.write();
            let back = ScenarioFile::read(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
            assert_eq!(back.episode, file.episode, "seed {seed}\n{text}");
            assert_eq!((&back.name, &back.about), (&file.name, &file.about));
            assert_eq!(back.write(), text);
            kinds[match file.episode {
                Episode::Region(_, None) => 0,
                Episode::Region(_, Some(_)) => 1,
                Episode::Counts(_) => 2,
                Episode::Quotas(_) => 3,
            }] += 1;
        }
    }
    assert!(kinds.iter().all(|count| *count >= 4), "{kinds:?}");
}

#[test]
fn an_episode_runs_as_it_did_before_it_was_written() {
    for seed in 0..24 {
        let file = file_of(Episode::new(seed, 0, None));
        let back = ScenarioFile::read(&file.write()).unwrap();
        assert_eq!(outcome(&back.episode), outcome(&file.episode), "seed {seed}");
    }
}

const SMALL: &str = r#"
name = "small"
about = "Two nodes share a key."
expect = "passes"
kind = "region"

[region]
nodes = 2
ends_at_ms = 1500
keys = [
  { identifier = "a", policy = { sliding = { limit = 3, period_ms = 1000 } } },
]
templates = [
  { limits = [{ key = 0 }] },
]
arrivals = [
  [10, 0, 0],
  [20, 1, 0, 5, 2.5],
]
faults = [
  [30, { crash = { node = 1 } }],
  [40.5, "store-forgets"],
]
"#;

#[test]
fn a_file_by_hand_is_short() {
    let file = ScenarioFile::read(SMALL).unwrap();
    let region = &file.episode.regions()[0];
    assert_eq!(region.arrivals.len(), 6);
    assert_eq!(region.arrivals[5].at, crate::START.plus(tidegate_core::Nanos::from_millis(30)));
    assert_eq!(region.keys_max, Scenario::default().keys_max);
    assert_eq!(file.write().trim(), SMALL.trim());
}

#[test]
fn what_makes_no_sense_is_an_error_with_its_line() {
    for (from, to, wanted) in [
        ("nodes = 2", "knots = 2", "line 7: unknown field `knots`"),
        ("limit = 3", "limit = 3, size = 4", "unknown field `size`"),
        ("crash = { node = 1 }", "crash = { node = 2 }", "there is no node 2: there are 2, from 0 on"),
        ("crash = { node = 1 }", "crash = { node = 1, key = 0 }", "unknown field `key`"),
        ("[10, 0, 0]", "[10, 0, 1]", "there is no template 1"),
        ("[10, 0, 0]", "[100, 0, 0]", "in the order of time"),
        ("key = 0", "key = 7", "there is no key 7"),
        ("\"store-forgets\"", "\"store-burns\"", "unknown variant `store-burns`"),
        ("period_ms = 1000", "period_ms = 1", "1 second to 366 days"),
        ("expect = \"passes\"", "expects = \"passes\"", "line 4: unknown field `expects`"),
        ("kind = \"region\"", "kind = \"counts\"", "[world]"),
        ("nodes = 2", "nodes = 0", "nodes: give 1 to"),
    ] {
        assert!(SMALL.contains(from), "{from}");
        let error = ScenarioFile::read(&SMALL.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(error.contains(wanted), "{to}: {error}");
    }
}

#[test]
fn a_violation_is_named_without_numbers() {
    for (message, wanted) in [
        ("seed 4: INV-3: node 1 believes in 7\nthe last", "INV-3"),
        ("seed 4: liveness: node 1 knows of 3 nodes", "liveness: node"),
        ("seed 4: a cold node got 3 of the 9 that were left", "a cold node got"),
        ("it panicked", "it panicked"),
    ] {
        assert_eq!(Expectation::of_message(message), Expectation::Violation(wanted.to_owned()));
    }
}
