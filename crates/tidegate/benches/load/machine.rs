//! How busy the machine is: a latency that was measured on a busy one says little.

use std::fs;

/// Ticks of all processors since the machine started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticks {
    all: f64,
    idle: f64,
}

impl Ticks {
    pub(crate) fn now() -> Self {
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        let line = text.lines().next().unwrap_or_default();
        let fields: Vec<f64> =
            line.split_whitespace().skip(1).take(8).filter_map(|word| word.parse().ok()).collect();
        // The fourth and fifth: idle, and waiting for disks.
        Ticks { all: fields.iter().sum(), idle: fields.iter().skip(3).take(2).sum() }
    }

    /// In per cent, from then until now.
    pub(crate) fn busy_since(self) -> f64 {
        let now = Ticks::now();
        let all = now.all - self.all;
        if all > 0.0 { 100.0 * (1.0 - (now.idle - self.idle) / all) } else { 0.0 }
    }
}
