//! The least, the middle and the most of many runs' figures.

use std::fmt;

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Spread {
    pub least: f64,
    pub median: f64,
    pub most: f64,
    pub runs: usize,
}

impl Spread {
    /// All zero when there are no figures.
    pub fn of(figures: impl IntoIterator<Item = f64>) -> Self {
        let mut figures: Vec<f64> = figures.into_iter().collect();
        figures.sort_by(f64::total_cmp);
        let at = |index: usize| figures.get(index).copied().unwrap_or(0.0);
        let runs = figures.len();
        Spread { least: at(0), median: at(runs / 2), most: at(runs.saturating_sub(1)), runs }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Spread { least, median, most, runs } = self;
        write!(f, "{least:>9.3} {median:>9.3} {most:>9.3}  {runs:>5} seeds")
    }
}
