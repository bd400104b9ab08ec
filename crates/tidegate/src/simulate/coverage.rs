//! `tidegate sim coverage`: which situations the swarm's generator meets, and which it meets too rarely.
//!
//! First ordinary seeds are run without being judged. What they met too rarely is then aimed at, by episodes that are
//! judged as the swarm's are.

use super::inputs::CoverageInputs;
use super::progress::Progress;
use crate::output::{self, grouped};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use tidegate_sim::coverage::{
    Comparison, Coverage, ENOUGH, EventKind, Triple, UNREACHABLE, Unreachable, triples,
};
use tidegate_sim::swarm::{self, CoverageReport, Episode};

/// So many episodes of each seed are run: one of each kind, on average.
const EPISODES: u64 = 8;

/// What all aimed episodes came to.
#[derive(Default)]
struct Aimed {
    coverage: Coverage,
    episodes: u64,
    /// In order, whichever thread found them first.
    violations: BTreeMap<usize, Vec<(Triple, u64, String)>>,
}

impl Aimed {
    fn violations(&self) -> impl Iterator<Item = &(Triple, u64, String)> {
        self.violations.values().flatten()
    }

    /// The first episode that violates something, as small as it stays failing: a scenario file.
    fn smallest_violation(&self) -> Option<String> {
        let (triple, seed, _) = self.violations().next()?;
        let smallest = swarm::minimise(&Episode::aimed(*triple, *seed)?)?;
        let file = smallest.file("found", smallest.violation()).write();
        Some(format!(
            "\nthe first of them, the smallest of {} attempts that fails alike:\n\n{file}",
            smallest.runs
        ))
    }
}

pub(crate) fn run(inputs: &CoverageInputs) -> ExitCode {
    let unreachable = match Unreachable::read(UNREACHABLE) {
        Ok(list) => list,
        Err(error) => {
            output::print(&format!("crates/sim/coverage/unreachable.txt: {error}\n"));
            return ExitCode::from(2);
        }
    };
    let mut progress = Progress::new();
    let mut coverage = run_seeds(inputs, &mut progress);
    // What is violated is told below, once.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let aimed = aim(&coverage.compare(&unreachable).rare, &mut progress);
    let smallest = aimed.smallest_violation();
    std::panic::set_hook(hook);
    progress.clear();
    coverage.add_all(&aimed.coverage);
    let comparison = coverage.compare(&unreachable);
    output::print(&text_of(&coverage, &comparison, &aimed));
    output::print(&smallest.unwrap_or_default());
    let is_covered = comparison.rare.is_empty() && comparison.listed_but_met.is_empty();
    if is_covered && aimed.violations().next().is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs the seeds on all cores.
fn run_seeds(inputs: &CoverageInputs, progress: &mut Progress) -> Coverage {
    let total = Mutex::new(Coverage::default());
    let count = usize::try_from(inputs.seeds).unwrap_or(usize::MAX);
    on_all_cores(count, "seeds", progress, |index| {
        let seed = inputs.from.saturating_add(u64::try_from(index).unwrap_or(u64::MAX));
        let met = swarm::coverage(seed, EPISODES);
        if let Ok(mut total) = total.lock() {
            total.add_all(&met);
        }
    });
    total.into_inner().unwrap_or_default()
}

/// Aims at what was met too rarely, on all cores.
fn aim(rare: &[(Triple, u64)], progress: &mut Progress) -> Aimed {
    let total = Mutex::new(Aimed::default());
    let aims = swarm::aims(rare.iter().map(|(triple, met)| (*triple, ENOUGH - met)));
    on_all_cores(aims.len(), "groups of rare situations", progress, |index| {
        let CoverageReport { coverage, episodes, violations } = swarm::cover(&aims[index]);
        let Ok(mut total) = total.lock() else { return };
        total.coverage.add_all(&coverage);
        total.episodes += episodes;
        total.violations.insert(index, violations);
    });
    total.into_inner().unwrap_or_default()
}

fn on_all_cores(count: usize, what: &str, progress: &mut Progress, work: impl Fn(usize) + Sync) {
    let next = AtomicUsize::new(0);
    let shown = Mutex::new(progress);
    let work_on = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                break;
            }
            work(index);
            if let Ok(mut progress) = shown.try_lock() {
                progress.show(&format!("{} of {count} {what}", index + 1));
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work_on);
        }
    });
}

fn text_of(coverage: &Coverage, comparison: &Comparison, aimed: &Aimed) -> String {
    let mut text = format!("{:>12}  {:>8}  event\n", "situations", "too rare");
    for event in EventKind::ALL {
        let of_event = triples().filter(|(_, _, other)| other == event);
        let met: u64 = of_event.map(|triple| coverage.of(triple)).sum();
        let rare = comparison.rare.iter().filter(|((_, _, other), _)| other == event).count();
        // Writing to a string can't fail.
        let _ =
            writeln!(text, "{:>12}  {rare:>8}  {event}", grouped(usize::try_from(met).unwrap_or(usize::MAX)));
    }
    let pairs =
        EventKind::ALL.iter().flat_map(|first| EventKind::ALL.iter().map(move |then| (*first, *then)));
    let rare_pairs = pairs.filter(|(first, then)| coverage.of_pair(*first, *then) < ENOUGH).count();
    let _ = writeln!(
        text,
        "\n{} of {} reachable situations were met fewer than {ENOUGH} times, after {} episodes that aimed at those that \
         ordinary seeds met too rarely; so were {rare_pairs} of {} pairs of events within one window",
        comparison.rare.len(),
        comparison.reachable,
        grouped(usize::try_from(aimed.episodes).unwrap_or(usize::MAX)),
        EventKind::ALL.len() * EventKind::ALL.len()
    );
    for ((node, store, event), count) in &comparison.rare {
        let _ = writeln!(text, "  met {count:>2} times: {node} | {store} | {event}");
    }
    for (node, store, event) in &comparison.listed_but_met {
        let _ = writeln!(text, "  listed as unreachable, and met: {node} | {store} | {event}");
    }
    for ((node, store, event), seed, message) in aimed.violations() {
        let first = message.lines().next().unwrap_or_default();
        let _ = writeln!(text, "  violated, aiming at {node} | {store} | {event} with seed {seed}: {first}");
    }
    text
}
