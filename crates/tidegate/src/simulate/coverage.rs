//! `tidegate sim coverage`: which situations the swarm's generator meets, and which it meets too rarely.

use super::inputs::CoverageInputs;
use super::progress::Progress;
use crate::output::{self, grouped};
use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use tidegate_sim::coverage::{Comparison, Coverage, ENOUGH, EventKind, UNREACHABLE, Unreachable, triples};
use tidegate_sim::swarm;
use tidegate_sim::switches::Switches;

/// So many episodes of each seed are run: one of each kind, on average.
const EPISODES: u64 = 8;

pub(crate) fn run(inputs: &CoverageInputs) -> ExitCode {
    let unreachable = match Unreachable::read(UNREACHABLE) {
        Ok(list) => list,
        Err(error) => {
            output::print(&format!("crates/sim/coverage/unreachable.txt: {error}\n"));
            return ExitCode::from(2);
        }
    };
    let mut progress = Progress::new();
    let coverage = run_seeds(inputs, &mut progress);
    progress.clear();
    let comparison = coverage.compare(&unreachable);
    output::print(&text_of(&coverage, &comparison));
    let is_covered = comparison.rare.is_empty() && comparison.listed_but_met.is_empty();
    if is_covered { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs the seeds on all cores.
fn run_seeds(inputs: &CoverageInputs, progress: &mut Progress) -> Coverage {
    let next = AtomicU64::new(inputs.from);
    let end = inputs.from.saturating_add(inputs.seeds);
    let (total, shown) = (Mutex::new(Coverage::default()), Mutex::new(progress));
    let work = || {
        let mut met = Coverage::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end {
                break;
            }
            met.add_all(&swarm::coverage(seed, EPISODES, Switches::ALL));
            if let Ok(mut progress) = shown.try_lock() {
                progress.show(&format!("{} of {} seeds", seed - inputs.from + 1, inputs.seeds));
            }
        }
        if let Ok(mut total) = total.lock() {
            total.add_all(&met);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    total.into_inner().unwrap_or_default()
}

fn text_of(coverage: &Coverage, comparison: &Comparison) -> String {
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
        "\n{} of {} reachable situations were met fewer than {ENOUGH} times; so were {rare_pairs} of {} pairs of events \
         within one window",
        comparison.rare.len(),
        comparison.reachable,
        EventKind::ALL.len() * EventKind::ALL.len()
    );
    for ((node, store, event), count) in &comparison.rare {
        let _ = writeln!(text, "  met {count:>2} times: {node} | {store} | {event}");
    }
    for (node, store, event) in &comparison.listed_but_met {
        let _ = writeln!(text, "  listed as unreachable, and met: {node} | {store} | {event}");
    }
    text
}
