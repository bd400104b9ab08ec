//! What was measured of whom, round by round; ratios, bars and the table.

use super::generator::Sample;
use crate::chart::{Bar as Drawn, Group, svg};
use crate::report::{median, verdict};
use std::fmt::Write as _;

/// One subject under one load, in every round.
#[derive(Debug)]
pub(super) struct Figure {
    pub(super) load: &'static str,
    pub(super) subject: &'static str,
    pub(super) samples: Vec<Sample>,
}

/// What a bar compares.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Of {
    /// More is better.
    PerSecond,
    /// Less is better.
    Cpu,
    P99,
}

/// A subject is better than each of `than`, or than the slowest of several floors, by a factor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bar {
    pub(super) load: &'static str,
    pub(super) ours: &'static str,
    pub(super) than: &'static [&'static str],
    pub(super) of: Of,
    pub(super) at_least: f64,
}

/// Which columns a table has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Columns {
    /// As fast as answers come.
    Saturated,
    /// With the rarest latencies, and how busy the generator was.
    Tail,
}

#[derive(Debug, Default)]
pub(super) struct Figures(pub(super) Vec<Figure>);

impl Figures {
    pub(super) fn add(&mut self, load: &'static str, subject: &'static str, sample: Sample) {
        match self.0.iter_mut().find(|figure| figure.load == load && figure.subject == subject) {
            Some(figure) => figure.samples.push(sample),
            None => self.0.push(Figure { load, subject, samples: vec![sample] }),
        }
    }

    pub(super) fn middle(&self, load: &str, subject: &str, of: Of) -> Option<f64> {
        let figure = self.0.iter().find(|figure| figure.load == load && figure.subject == subject)?;
        Some(median(&figure.values(of)))
    }

    /// How much better, and by how much it should be; `None` when one of them wasn't measured.
    fn ratio(&self, bar: &Bar) -> Option<f64> {
        let ours = self.middle(bar.load, bar.ours, bar.of)?;
        let ratios = bar.than.iter().filter_map(|than| {
            let theirs = self.middle(bar.load, than, bar.of)?;
            Some(if bar.of == Of::PerSecond { ours / theirs } else { theirs / ours })
        });
        ratios.reduce(f64::max)
    }

    pub(super) fn table(&self, columns: Columns) -> String {
        type FigureRow = (&'static str, fn(&Sample) -> f64, usize);
        let per_second: FigureRow = ("requests/s", |sample| sample.per_second, 0);
        let cpu: FigureRow = ("server CPU per request, µs", |sample| sample.cpu_micros, 2);
        let p50: FigureRow = ("p50, µs", |sample| sample.p50_micros, 0);
        let p99: FigureRow = ("p99, µs", |sample| sample.p99_micros, 0);
        let p999: FigureRow = ("p99.9, µs", |sample| sample.p999_micros, 0);
        let unsent: FigureRow = ("not sent, %", |sample| sample.unsent_percent, 2);
        let busy: FigureRow = ("generator, cores", |sample| sample.generator_cores, 2);
        let told = match columns {
            Columns::Saturated => vec![per_second, cpu, busy, p50, p99],
            Columns::Tail => vec![per_second, cpu, busy, p50, p99, p999, unsent],
        };
        let names: Vec<&str> = told.iter().map(|(name, ..)| *name).collect();
        let mut text = format!(
            "| load | subject | {} | errors |\n|---|---|{}---|\n",
            names.join(" | "),
            "---|".repeat(names.len())
        );
        for Figure { load, subject, samples } in &self.0 {
            let column = |&(_, value, digits): &FigureRow| {
                spread(&samples.iter().map(value).collect::<Vec<_>>(), digits)
            };
            let columns: Vec<String> = told.iter().map(column).collect();
            let errors: f64 = samples.iter().map(|sample| sample.errors).sum();
            let _ = writeln!(text, "| {load} | {subject} | {} | {errors:.0} |", columns.join(" | "));
        }
        text
    }

    pub(super) fn bars(&self, bars: &[Bar]) -> String {
        let mut text = String::from("| target | load | ratio | required | |\n|---|---|---|---|---|\n");
        for bar in bars {
            let of = match bar.of {
                Of::PerSecond => "requests/s",
                Of::Cpu => "CPU per request",
                Of::P99 => "p99",
            };
            let than = bar.than.join(" or ");
            let (ratio, judged) = match self.ratio(bar) {
                Some(ratio) => (format!("{ratio:.2}"), verdict(ratio >= bar.at_least)),
                None => ("–".to_owned(), "not measured here"),
            };
            let _ = writeln!(
                text,
                "| {} better than {than}, {of} | {} | {ratio} | ≥ {} | {judged} |",
                bar.ours, bar.load, bar.at_least
            );
        }
        text
    }

    /// Requests a second as a picture.
    pub(super) fn picture(&self, title: &str, subtitle: &str) -> String {
        let mut groups: Vec<Group> = Vec::new();
        for figure in &self.0 {
            let drawn = Drawn {
                label: figure.subject.to_owned(),
                values: figure.values(Of::PerSecond),
                is_ours: figure.subject.starts_with("Tidegate"),
            };
            match groups.iter_mut().find(|group| group.title == figure.load) {
                Some(group) => group.bars.push(drawn),
                None => groups.push(Group { title: figure.load.to_owned(), bars: vec![drawn] }),
            }
        }
        svg(title, subtitle, &groups, |per_second| format!("{:.0}k/s", per_second / 1000.0))
    }
}

impl Figure {
    fn values(&self, of: Of) -> Vec<f64> {
        let value = match of {
            Of::PerSecond => |sample: &Sample| sample.per_second,
            Of::Cpu => |sample: &Sample| sample.cpu_micros,
            Of::P99 => |sample: &Sample| sample.p99_micros,
        };
        self.samples.iter().map(value).collect()
    }
}

/// The median with the lowest and the highest.
pub(super) fn spread(values: &[f64], digits: usize) -> String {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(0.0, f64::max);
    format!("{:.digits$} ({low:.digits$}–{high:.digits$})", median(values))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_of_medians_and_the_weaker_of_two_floors_counts() {
        let mut figures = Figures::default();
        for (ours, theirs, stub) in [(200.0, 100.0, 400.0), (220.0, 110.0, 400.0), (900.0, 120.0, 400.0)] {
            let sample =
                |per_second| Sample { per_second, cpu_micros: 1000.0 / per_second, ..Sample::default() };
            figures.add("x", "Tidegate", sample(ours));
            figures.add("x", "peer", sample(theirs));
            figures.add("x", "stub", sample(stub));
        }
        let bar = |than, of, at_least| Bar { load: "x", ours: "Tidegate", than, of, at_least };
        assert_eq!(figures.ratio(&bar(&["peer"], Of::PerSecond, 2.0)), Some(2.0));
        assert!(figures.ratio(&bar(&["peer"], Of::Cpu, 2.0)).is_some_and(|ratio| (ratio - 2.0).abs() < 1e-9));
        assert_eq!(figures.ratio(&bar(&["peer", "stub"], Of::PerSecond, 1.0)), Some(2.0));
        assert_eq!(figures.ratio(&bar(&["nobody"], Of::PerSecond, 1.0)), None);
        let text = figures.bars(&[bar(&["stub"], Of::PerSecond, 0.6), bar(&["nobody"], Of::PerSecond, 1.0)]);
        assert!(text.contains("0.55 | ≥ 0.6 | **misses** |") && text.contains("not measured here"), "{text}");
    }
}
