//! The smaller scenarios of this repository: every figure is as expected, and a seed is one run.

use tidegate_sim::fleet::{self, Outcome};

fn run(name: &str, seed: u64) -> Outcome {
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

#[test]
fn a_seed_is_one_run() {
    assert_eq!(run("burst", 3), run("burst", 3));
}
