//! The store is gone for 20 s, or hangs, while three times the limit is asked for.

use crate::after;
use tidegate_core::{Class, Nanos};

use tidegate_sim::scenario::sliding;
use tidegate_sim::seeds::{TestName, for_each};
use tidegate_sim::spread::Spread;
use tidegate_sim::{AnswerPath, Fault, KeyPlan, START, Scenario, Simulation, arrivals};

const LIMIT: u64 = 1_000;
const PERIOD_S: u64 = 10;
const NODES: usize = 4;
const DOWN_MS: u64 = 20_000;
const BACK_MS: u64 = 40_000;
const NEXT_CELL_MS: u64 = 50_000;
const ENDS_MS: u64 = 60_000;

struct Outage {
    /// Admitted while the store was down, in limits.
    down: f64,
    /// Of those, without the ask that they needed.
    unverified: u64,
    /// Admitted in the first cell that began after it was back, in limits. A sliding window makes up first for
    /// what was admitted too much or too little meanwhile.
    recovered: f64,
    /// Admitted from 5 s after it was back, without the ask that they needed.
    unverified_later: u64,
}

/// Every other seed the store refuses connections; else it hangs and then does what it was sent.
fn faults(seed: u64) -> Vec<(Nanos, Fault)> {
    let length = Nanos::from_millis(BACK_MS - DOWN_MS);
    match seed % 2 {
        0 => vec![(after(DOWN_MS), Fault::StoreGoesDown), (after(BACK_MS), Fault::StoreComesBack)],
        _ => vec![(after(DOWN_MS), Fault::StorePauses { length })],
    }
}

fn outage(seed: u64, class: Class) -> Outage {
    let mut random = Scenario::random_of(seed);
    let key = KeyPlan { class, ..KeyPlan::new("gone", sliding(LIMIT, PERIOD_S)) };
    let requests = arrivals::even(&mut random, NODES, 3 * LIMIT / PERIOD_S, START, after(ENDS_MS));
    let mut scenario = Scenario::calm(seed, NODES, vec![key]).with_arrivals(requests);
    scenario.faults = faults(seed);
    let mut simulation = Simulation::new(scenario);
    simulation.run();
    let ledger = simulation.ledger(0);
    let of_limit = |from: Nanos, until: Nanos| {
        let limits = until.minus(from).get() as f64 / Nanos::from_secs(PERIOD_S).get() as f64;
        ledger.admitted_between(from, until) as f64 / (LIMIT as f64 * limits)
    };
    let unverified = |from: Nanos, until: Nanos| {
        let within =
            ledger.admissions.iter().filter(|admission| from <= admission.at && admission.at < until);
        within.filter(|admission| admission.path == AnswerPath::Unverified).count() as u64
    };
    let settled = after(BACK_MS + 5_000);
    Outage {
        down: of_limit(after(DOWN_MS), after(BACK_MS)),
        unverified: unverified(after(DOWN_MS), after(BACK_MS)),
        recovered: of_limit(after(NEXT_CELL_MS), after(ENDS_MS)),
        unverified_later: unverified(settled, after(ENDS_MS)),
    }
}

fn outages(test: &'static str, class: Class, holds: impl Fn(&Outage) -> bool) {
    let outages = for_each(TestName { file: "faults", test }, 0..30, |seed| {
        let outage = outage(seed, class);
        let Outage { down, unverified, recovered, unverified_later } = outage;
        assert!(holds(&outage), "while down: {down:.3} limits, {unverified} admissions unverified");
        assert_eq!(unverified_later, 0, "unverified admissions 5 s after the store was back");
        assert!((0.95..=1.05).contains(&recovered), "in the next cell: {recovered:.3} limits");
        outage
    });
    println!("{class:?} while down      {}", Spread::of(outages.iter().map(|outage| outage.down)));
    println!(
        "{class:?} unverified      {}",
        Spread::of(outages.iter().map(|outage| outage.unverified as f64))
    );
    println!("{class:?} in the next cell {}", Spread::of(outages.iter().map(|outage| outage.recovered)));
}

#[test]
fn free_gets_between_nine_tenths_and_one_and_a_half() {
    let test = "free_gets_between_nine_tenths_and_one_and_a_half";
    outages(test, Class::Free, |outage| (0.9..=1.5).contains(&outage.down));
}

#[test]
fn paid_gets_at_least_its_limit() {
    outages("paid_gets_at_least_its_limit", Class::Paid, |outage| outage.down >= 1.0);
}

#[test]
fn abuse_gets_nothing_unverified() {
    outages("abuse_gets_nothing_unverified", Class::Abuse, |outage| outage.unverified == 0);
}
