//! Bar 4 of issue 9: simulated and real agree. Five scenarios, each run by the simulator and by real processes, and
//! what was admitted compared. `cargo xtask bars agree` runs it and reads what it prints.
//!
//! `agree [--long] 4`.

#[path = "../world/ledger.rs"]
#[allow(dead_code, reason = "the benchmark of the world tier uses the rest of it")]
mod ledger;
#[allow(dead_code, reason = "other benchmarks use the rest of it")]
#[path = "../load/mod.rs"]
mod load;
#[path = "../world/packed.rs"]
mod packed;
mod real;
#[allow(dead_code, reason = "the benchmark of the world tier uses the rest of it")]
#[path = "../world/scene.rs"]
mod scene;
mod simulated;

use figures::{Bounds, Figures, note};
use load::setting::{self, Setting};
#[allow(unused_imports, reason = "what is shared looks for these here")]
use load::{connection, figures, fleet, generator, machine, plan, samples, time};
use std::process::ExitCode;

const USAGE: &str = "usage: agree [--long] 4";
const BAR: u8 = 4;
/// How far the two may be apart.
const APART: f64 = 0.03;

/// What is run both ways. Limits, times and rates are the same in both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Case {
    /// Three nodes, each sent two limits of 1,000 within 100 ms.
    Burst,
    /// 100 per 10 s, twice as much asked of three nodes at random, three windows.
    Accuracy,
    /// 1,000, spent in 10 s by three nodes; the store forgets at 60 %, and 14 s are sent.
    Forgetting,
    /// 1,000 per 5 minutes, 10 a second in each of three regions for 45 s.
    Regions,
    /// 100 a second: 40, 30 and 30 % of 150 % in three regions for 20 s, then 10, 10 and 80 % for 20 s.
    Shift,
}

impl Case {
    fn name(self) -> &'static str {
        match self {
            Case::Burst => "a tight burst: 3 nodes, each sent two limits of 1,000 within 100 ms",
            Case::Accuracy => "100 per 10 s, twice as much asked of 3 nodes, three windows",
            Case::Forgetting => "1,000 spent in 10 s by 3 nodes, FLUSHALL at 60 %",
            Case::Regions => "1,000 per 5 min, 10 a second in each of 3 regions",
            Case::Shift => "100 a second, demand of 40/30/30 shifts to 10/10/80",
        }
    }
}

fn main() -> ExitCode {
    setting::run(USAGE, measure)
}

fn measure(setting: &Setting, bar: &str) -> Result<(), String> {
    if bar != "4" {
        return Err(format!("there is no such bar\n{USAGE}"));
    }
    note(
        BAR,
        "the simulator runs each scenario with 20 seeds, real processes run it three times; what is compared is the \
         median of either",
    );
    for case in [Case::Burst, Case::Accuracy, Case::Forgetting] {
        tell(case, real::of_region(setting, case)?);
    }
    let scene = scene::Scene::start(setting, scene::Policy::Headroom)?;
    for case in [Case::Regions, Case::Shift] {
        tell(case, real::of_world(&scene, case)?);
    }
    Ok(())
}

fn tell(case: Case, mut real: Vec<f64>) {
    let (simulated, real) = (median(&mut simulated::admitted(case)), median(&mut real));
    let figures = Figures::of(BAR, case.name());
    figures.told("admitted, simulated", simulated);
    figures.told("admitted, real", real);
    figures.worst("real ÷ simulated", real / simulated, Bounds::Within(1.0 - APART, 1.0 + APART));
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
