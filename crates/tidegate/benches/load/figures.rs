//! What is printed: one line per figure and run, which `cargo xtask bars` reads.
//!
//! `bar=4; case=killed; figure=errors; value=0; high=0; by=worst`: a bar without `low` and `high` is told for
//! information. `by` says what is held against them: the median of all runs, or the worst of them.

use std::fmt::Display;

/// Which target, and which of its cases.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    bar: u8,
    case: String,
}

/// What a figure is held against.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bounds {
    Told,
    AtMost(f64),
    AtLeast(f64),
    Within(f64, f64),
}

impl Figures {
    pub(crate) fn of(bar: u8, case: impl Display) -> Self {
        Figures { bar, case: case.to_string() }
    }

    /// Every run has to be within the bounds.
    pub(crate) fn worst(&self, name: &str, value: f64, bounds: Bounds) {
        self.print(name, value, bounds, "worst");
    }

    /// The median of the runs has to be within the bounds.
    pub(crate) fn median(&self, name: &str, value: f64, bounds: Bounds) {
        self.print(name, value, bounds, "median");
    }

    pub(crate) fn told(&self, name: &str, value: f64) {
        self.print(name, value, Bounds::Told, "median");
    }

    fn print(&self, name: &str, value: f64, bounds: Bounds, by: &str) {
        let Figures { bar, case } = self;
        let bounds = match bounds {
            Bounds::Told => String::new(),
            Bounds::AtMost(high) => format!("; high={high}"),
            Bounds::AtLeast(low) => format!("; low={low}"),
            Bounds::Within(low, high) => format!("; low={low}; high={high}"),
        };
        println!("bar={bar}; case={case}; figure={name}; value={value:.4}{bounds}; by={by}");
    }
}

/// Something to be said about a bar as a whole.
pub(crate) fn note(bar: u8, text: &str) {
    println!("bar={bar}; note={text}");
}

/// Counts become figures.
pub(crate) fn ratio(part: usize, whole: f64) -> f64 {
    count(part) / whole
}

#[expect(clippy::cast_precision_loss, reason = "counts of a benchmark are far below 2^52")]
pub(crate) fn count(number: usize) -> f64 {
    number as f64
}
