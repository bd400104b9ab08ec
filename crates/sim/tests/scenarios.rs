//! The smaller scenarios of this repository: every figure is as expected, and a seed is one run.

use tidegate_sim::fleet::{self, FleetReport};

fn run(name: &str, seed: u64) -> FleetReport {
    let plan = fleet::read(fleet::known(name).expect(name)).expect(name);
    fleet::run(&plan, seed, &mut |_| {})
}

fn is_as_expected(name: &str) {
    let outcome = run(name, 1);
    println!("{name}: {} requests", outcome.requests);
    for judged in &outcome.judged {
        println!(
            "  {} {}–{} s: {:.3}, theirs {:.3}",
            judged.figure.name(),
            judged.from_s,
            judged.until_s,
            judged.ours,
            judged.beside
        );
    }
    let missed: Vec<_> = outcome.judged.iter().filter(|judged| judged.holds() == Some(false)).collect();
    assert!(missed.is_empty(), "{name}: {missed:?}");
}

#[test]
fn a_burst_over_nine_nodes() {
    is_as_expected("burst");
}

#[test]
fn ten_regions_just_under_the_floor() {
    is_as_expected("free-zone");
}

#[test]
fn an_attacker_in_all_regions() {
    is_as_expected("attacker");
}

#[test]
fn a_rule_changes() {
    is_as_expected("rule-change");
}

#[test]
fn a_fourth_region() {
    is_as_expected("fourth-region");
}

const THREE_REGIONS: &str = "title = \"t\"\nabout = \"a\"\nseconds = 12\nbeside = \"quotas\"\naudit = true\n\
    [fleet]\nregions = 3\nnodes = 7\nshards = 4\n\
    [[keys]]\nname = \"user\"\ncount = 40\nrate = 5\nburst = 10\n\
    [[keys]]\nname = \"endpoint\"\ncount = 3\nrate = 100\nburst = 150\n\
    [[load]]\nkeys = [\"user\", \"endpoint\"]\nper_second = 400\nzipf = 0.6\ntravelling = 0.5\n\
    [[fault]]\nkind = \"store_down\"\nregion = 1\nat_s = 4\nlasts_s = 2\n\
    [[join]]\nregion = 2\nat_s = 3\n";

#[test]
fn regions_that_go_ahead_in_threads_do_what_they_do_step_by_step() {
    let plan = fleet::read(THREE_REGIONS).unwrap();
    let step_by_step = fleet::run(&plan, 5, &mut |_| {});
    let ahead = fleet::Plan { audit: false, ..plan };
    for _ in 0..3 {
        assert_eq!(fleet::run(&ahead, 5, &mut |_| {}), step_by_step);
    }
    assert_ne!(step_by_step.trace_hash, fleet::run(&ahead, 6, &mut |_| {}).trace_hash);
}

#[test]
fn a_seed_is_one_run() {
    assert_eq!(run("burst", 3), run("burst", 3));
}
