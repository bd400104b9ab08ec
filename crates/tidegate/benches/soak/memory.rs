//! Whether nodes grow: the slope of each process's memory over time, by least squares.

use crate::scene::{NODES, Scene};
use crate::stores::Run;
use crate::time::pause;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const LOOK_EVERY: Duration = Duration::from_secs(2);
const BYTES_PER_MB: f64 = 1e6;

/// Minutes since the start of the run, and bytes.
type Points = Vec<(f64, f64)>;

/// What was seen of every process that was a node.
#[derive(Clone, Default, Debug)]
pub(crate) struct Memory(BTreeMap<(usize, u32), Points>);

/// Looks until the run is over.
pub(crate) fn watch(run: &Run<'_>, is_over: &AtomicBool) -> Memory {
    let mut memory = Memory::default();
    while !is_over.load(Ordering::Relaxed) {
        for node in 0..NODES {
            if let Some((id, bytes)) = look(run.scene, node) {
                let minutes = run.stopwatch.elapsed().as_secs_f64() / 60.0;
                memory.0.entry((node, id)).or_default().push((minutes, bytes));
            }
        }
        pause(LOOK_EVERY);
    }
    memory
}

#[expect(clippy::cast_precision_loss, reason = "bytes of a process are far below 2^52")]
fn look(scene: &Scene, node: usize) -> Option<(u32, f64)> {
    let node = scene.node(node);
    Some((node.id()?, node.anonymous_bytes()? as f64))
}

impl Memory {
    /// The steepest slope in MB a minute of processes that were seen for so long after a warm-up, how many those were,
    /// and the most that any process had, in MB.
    pub(crate) fn steepest(&self, warm_up: Duration, seen_for: Duration) -> (Option<f64>, usize, f64) {
        let (warm_up, seen_for) = (warm_up.as_secs_f64() / 60.0, seen_for.as_secs_f64() / 60.0);
        let mut slopes = Vec::new();
        for points in self.0.values() {
            let Some((first, _)) = points.first() else { continue };
            let warm: Points = points.iter().filter(|(at, _)| *at >= first + warm_up).copied().collect();
            if let (Some(from), Some(to)) = (warm.first(), warm.last())
                && to.0 - from.0 >= seen_for
            {
                slopes.push(slope(&warm) / BYTES_PER_MB);
            }
        }
        let most = self.0.values().flatten().map(|(_, bytes)| *bytes).fold(0.0, f64::max);
        (slopes.iter().copied().reduce(f64::max), slopes.len(), most / BYTES_PER_MB)
    }
}

fn slope(points: &[(f64, f64)]) -> f64 {
    let count = crate::figures::count(points.len());
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (middle, level) = (mean(|point| point.0), mean(|point| point.1));
    let above: f64 = points.iter().map(|(at, bytes)| (at - middle) * (bytes - level)).sum();
    let below: f64 = points.iter().map(|(at, _)| (at - middle) * (at - middle)).sum();
    if below > 0.0 { above / below } else { 0.0 }
}
