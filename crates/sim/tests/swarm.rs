//! The swarm: nothing is violated, a seed is one run byte for byte, and mistakes made on purpose are found and made
//! small.

use std::path::PathBuf;
use tidegate_core::Nanos;
use tidegate_sim::file::{Expectation, ScenarioFile, ScenarioVerdict};
use tidegate_sim::fired::FaultKind;
use tidegate_sim::swarm::{self, Episode, Mistake};

/// A minimised scenario is read by people: about ten lines for each of four regions, and as many again for requests, of
/// which slices need some hundreds.
const LINES_MAX: usize = 96;
const MINUTE: Nanos = Nanos::from_secs(60);

#[test]
fn nothing_is_violated_and_everything_went_wrong() {
    let mut fired = tidegate_sim::fired::Fired::default();
    for seed in 0..300 {
        let ran = swarm::run(seed, MINUTE, None);
        assert!(
            ran.failure.is_none(),
            "`tidegate sim swarm --from {seed} --seeds 1` fails: {:?}",
            ran.failure
        );
        fired.add_all(&ran.fired);
    }
    let never: Vec<&str> = fired.named().filter(|(_, count)| *count == 0).map(|(name, _)| name).collect();
    assert!(never.is_empty(), "never went wrong: {never:?}");
    assert!(fired.of(FaultKind::Lost) > 100);
}

const SCENARIOS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios");

/// The scenario files, in the order of their names.
fn scenario_files() -> Vec<(PathBuf, ScenarioFile)> {
    let entries = std::fs::read_dir(SCENARIOS).expect("there are scenario files");
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| entry.expect("a directory can be read").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    paths.sort();
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).expect("a scenario file can be read");
        let file = ScenarioFile::read(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        (path, file)
    };
    paths.into_iter().map(read).collect()
}

/// What was wrong once holds.
#[test]
fn every_scenario_file_passes() {
    let mut problems = Vec::new();
    for (path, file) in scenario_files() {
        assert_eq!(file.expect, Expectation::Passes, "{}: what is kept is mended", path.display());
        if let ScenarioVerdict::Violated(message) = file.run() {
            let path = path.display();
            problems.push(format!("{path}\n{}\nit is violated again: {message}\n", file.about));
        }
    }
    assert!(problems.is_empty(), "run them with `tidegate sim replay FILE`:\n{}", problems.join("\n"));
}

#[test]
fn scenario_files_are_called_by_their_names() {
    for (path, file) in scenario_files() {
        let path = path.display().to_string();
        assert!(
            path.ends_with(&format!("/{}.toml", file.name)),
            "{path} says that its name is {:?}",
            file.name
        );
    }
}

#[test]
fn a_seed_is_one_run() {
    for seed in 0..6 {
        let hash = || swarm::run(seed, MINUTE, None).trace_hash;
        assert_eq!(hash(), hash(), "seed {seed} went two ways");
    }
}

/// The first seed of a hundred that finds a mistake, made small.
fn is_found(mistake: Mistake, invariants: &[&str]) {
    let is_meant = |message: &str| invariants.iter().any(|invariant| message.contains(invariant));
    let found = (0..100).find_map(|seed| {
        // Other oracles may find it too, in other seeds.
        let failure =
            swarm::run(seed, MINUTE, Some(mistake)).failure.filter(|failure| is_meant(&failure.message))?;
        Some((seed, failure))
    });
    let (seed, failure) =
        found.unwrap_or_else(|| panic!("{mistake:?} is found by none of 100 seeds as {invariants:?}"));
    let episode = Episode::new(seed, failure.episode, Some(mistake));
    let smallest = swarm::minimise(&episode).expect("a seed fails again");
    let requests =
        |episode: &Episode| episode.regions().iter().map(|region| region.arrivals.len()).sum::<usize>();
    println!(
        "{mistake:?}: seed {seed}, {} of {} requests\n{}",
        requests(&smallest.episode),
        requests(&episode),
        smallest.describe()
    );
    assert!(requests(&smallest.episode) < requests(&episode), "nothing could be left out");
    let lines = smallest.file("found", "").write().lines().count();
    assert!(lines <= LINES_MAX, "{lines} lines are too many to read");
    assert!(is_meant(&smallest.message), "{}", smallest.message);
}

#[test]
fn deltas_instead_of_counts() {
    is_found(Mistake::AddsDeltas, &["INV-2"]);
}

#[test]
fn imports_that_are_published_again() {
    is_found(Mistake::RepublishesImports, &["INV-2"]);
}

#[test]
fn raising_before_lowering() {
    is_found(Mistake::RaisesFirst, &["INV-6"]);
}

#[test]
fn leases_that_keep_their_limit() {
    is_found(Mistake::KeepsLeasedLimit, &["overshoot"]);
}

#[test]
fn leases_of_half_a_long_window() {
    is_found(Mistake::DrawsHalf, &["stranded"]);
}

#[test]
fn nodes_that_take_themselves_for_the_only_one() {
    is_found(Mistake::AssumesToBeAlone, &["unverified"]);
}

#[test]
fn debts_that_outlive_their_burst() {
    is_found(Mistake::KeepsDebts, &["a denial that is wrong"]);
}

#[test]
fn waits_that_are_too_short() {
    is_found(Mistake::HalvesWaits, &["a denial that is wrong"]);
}

#[test]
fn a_lost_credit_check() {
    is_found(Mistake::LosesCreditCheck, &["overshoot", "INV-7"]);
}

#[test]
fn overdrawn_counts_that_are_ignored() {
    is_found(Mistake::IgnoresOverdrawn, &["conservation", "overshoot"]);
}

#[test]
fn renamed_regions_that_are_other_owners() {
    is_found(Mistake::OwnersByName, &["a denial", "INV-3", "conservation"]);
}

#[test]
fn lost_rows_that_nobody_publishes_again() {
    is_found(Mistake::ForgetsLosses, &["conservation"]);
}

#[test]
fn slices_of_a_changed_limit_that_are_rounded_up() {
    is_found(Mistake::RoundsSlicesUp, &["INV-6"]);
}
