//! What the benchmarks with real processes print, read and held against its targets.
//!
//! The bounds come with the figures: nothing is known of a target here.

use crate::report::{median, verdict};
use crate::steps::output;
use std::fmt::Write as _;

/// The option for long faults.
const LONG: &str = "--long";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Length {
    Quick,
    Long,
}

/// One figure of all runs.
#[derive(Debug, PartialEq)]
pub(crate) struct Row {
    bar: u8,
    case: String,
    name: String,
    pub(crate) values: Vec<f64>,
    low: Option<f64>,
    pub(crate) high: Option<f64>,
    by_worst: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Printed {
    rows: Vec<Row>,
    notes: Vec<(u8, String)>,
}

impl Printed {
    /// Runs a benchmark's targets one after the other, each with about how many seconds it takes.
    pub(crate) fn run(&mut self, program: &str, bars: &[(u8, u32)], length: Length) -> Result<(), String> {
        for (bar, seconds) in bars {
            let (option, about) = match length {
                Length::Quick => ("", format!("{seconds} s")),
                Length::Long => (LONG, "minutes".to_owned()),
            };
            println!("    target {bar}, about {about}");
            self.read(&output(&format!("{program} {option} {bar}"))?)?;
        }
        Ok(())
    }

    /// `bar=4; case=killed; figure=errors; value=0; high=0; by=worst`, or `bar=1; note=…`
    pub(crate) fn read(&mut self, text: &str) -> Result<(), String> {
        for line in text.lines().filter(|line| line.starts_with("bar=")) {
            let field = |name: &str| line.split("; ").find_map(|part| part.strip_prefix(name));
            let number = |name: &str| field(name).and_then(|text| text.parse::<f64>().ok());
            let bar = field("bar=").and_then(|bar| bar.parse().ok());
            let unread = || format!("the benchmark printed something else: {line}");
            let note = line.split_once("; note=").map(|(_, note)| note);
            match (bar, note, field("case="), field("figure="), number("value=")) {
                (Some(bar), Some(note), ..) => self.notes.push((bar, note.to_owned())),
                (Some(bar), None, Some(case), Some(name), Some(value)) => {
                    let row = self.row(bar, case, name);
                    (row.low, row.high) = (number("low="), number("high="));
                    row.by_worst = field("by=") == Some("worst");
                    row.values.push(value);
                }
                _ => return Err(unread()),
            }
        }
        Ok(())
    }

    /// The row of a figure, in the order in which figures came first.
    pub(crate) fn row(&mut self, bar: u8, case: &str, name: &str) -> &mut Row {
        let is_it = |row: &Row| row.bar == bar && row.case == case && row.name == name;
        let index = self.rows.iter().position(is_it).unwrap_or_else(|| {
            self.rows.push(Row {
                bar,
                case: case.to_owned(),
                name: name.to_owned(),
                values: Vec::new(),
                low: None,
                high: None,
                by_worst: false,
            });
            self.rows.len() - 1
        });
        &mut self.rows[index]
    }

    /// What was measured, after a sentence that says with what.
    pub(crate) fn table(&self, with: &str, length: Length) -> String {
        let mut text = format!(
            "{with} The figure is the median of the runs with the lowest and the highest; `worst` targets hold only when \
             every run does.{}\n\n\
             | target | case | figure | measured | required | |\n|---|---|---|---|---|---|\n",
            if length == Length::Long { " With the long faults (`--long`)." } else { "" }
        );
        let first_of_case =
            |row: &Row| self.rows.iter().position(|first| first.bar == row.bar && first.case == row.case);
        let mut rows: Vec<&Row> = self.rows.iter().collect();
        rows.sort_by_key(|row| (row.bar, first_of_case(row)));
        for row in rows {
            let Row { bar, case, name, .. } = row;
            let _ = writeln!(text, "| {bar} | {case} | {name} | {} | {} |", row.measured(), row.judged());
        }
        for (bar, note) in &self.notes {
            let _ = write!(text, "\nTarget {bar}: {note}.\n");
        }
        text
    }
}

impl Row {
    fn lowest(&self) -> f64 {
        self.values.iter().copied().fold(f64::INFINITY, f64::min)
    }

    fn highest(&self) -> f64 {
        self.values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
    }

    fn measured(&self) -> String {
        let middle = shown(median(&self.values));
        match self.values.len() {
            1 => middle,
            _ => format!("{middle} ({}–{})", shown(self.lowest()), shown(self.highest())),
        }
    }

    /// The bounds, and whether they hold.
    fn judged(&self) -> String {
        let words = match (self.low, self.high) {
            (None, None) => return " | ".to_owned(),
            (Some(low), None) => format!("≥ {low}"),
            (None, Some(high)) => format!("≤ {high}"),
            (Some(low), Some(high)) => format!("{low}–{high}"),
        };
        let (from, to) = if self.by_worst {
            (self.lowest(), self.highest())
        } else {
            (median(&self.values), median(&self.values))
        };
        let holds = self.low.is_none_or(|low| from >= low) && self.high.is_none_or(|high| to <= high);
        let worst = if self.by_worst && self.values.len() > 1 { ", worst" } else { "" };
        format!("{words}{worst} | {}", verdict(holds))
    }
}

/// As many digits as say something.
fn shown(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 || value.fract() == 0.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(text: &str) -> Printed {
        let mut printed = Printed::default();
        printed.read(text).unwrap();
        printed
    }

    #[test]
    fn runs_of_one_figure_become_one_row() {
        let printed = printed(
            "noise\n\
             bar=4; case=50 ms slow; figure=p99, ms; value=3.5; high=10; by=median\n\
             bar=4; case=50 ms slow; figure=p99, ms; value=30; high=10; by=median\n\
             bar=4; case=50 ms slow; figure=p99, ms; value=4.25; high=10; by=median\n\
             bar=1; note=fewer windows; the others are simulated\n",
        );
        assert_eq!(printed.rows.len(), 1);
        assert_eq!(printed.rows[0].measured(), "4.250 (3.500–30)");
        assert_eq!(printed.rows[0].judged(), "≤ 10 | holds");
        assert!(
            printed
                .table("Measured.", Length::Quick)
                .contains("Target 1: fewer windows; the others are simulated.\n")
        );
    }

    #[test]
    fn the_worst_run_decides_where_it_should() {
        let printed = printed(
            "bar=2; case=3 nodes; figure=admitted ÷ limit; value=1; low=0.9; high=1.1; by=worst\n\
             bar=2; case=3 nodes; figure=admitted ÷ limit; value=1.2; low=0.9; high=1.1; by=worst\n\
             bar=2; case=3 nodes; figure=admitted ÷ limit; value=1; low=0.9; high=1.1; by=worst\n",
        );
        assert_eq!(printed.rows[0].judged(), "0.9–1.1, worst | **misses**");
    }

    #[test]
    fn a_line_that_cannot_be_read_is_an_error() {
        assert!(Printed::default().read("bar=2; case=3 nodes; figure=x; value=many; by=worst\n").is_err());
    }
}
