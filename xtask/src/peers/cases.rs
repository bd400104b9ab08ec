//! Subjects under loads: measured in turn, in several rounds, and told as a section of the report.

use super::figures::{Bar, Columns, Figures};
use super::generator::{Generator, Sample};
use super::program::Programs;
use super::server::Server;
use super::subjects::write;
use std::fmt::Write as _;

/// One subject under one load.
#[derive(Clone)]
pub(super) struct Case<'s> {
    pub(super) load: &'static str,
    pub(super) subject: &'static str,
    pub(super) server: &'s Server,
    pub(super) generator: Generator,
}

/// Every case once in each round, after one run of each that isn't counted.
pub(super) fn measure(programs: &Programs, cases: &[Case<'_>], rounds: usize) -> Result<Figures, String> {
    for case in cases {
        case.generator.run(&programs.tidegate, case.server)?;
    }
    measure_warm(programs, cases, rounds)
}

/// The same, of generators that warm up by themselves.
pub(super) fn measure_warm(
    programs: &Programs,
    cases: &[Case<'_>],
    rounds: usize,
) -> Result<Figures, String> {
    let mut figures = Figures::default();
    for _ in 0..rounds {
        for case in cases {
            case.add_to(&mut figures, programs)?;
        }
    }
    Ok(figures)
}

impl Case<'_> {
    /// Measures it once.
    pub(super) fn add_to(&self, figures: &mut Figures, programs: &Programs) -> Result<Sample, String> {
        let sample = self.generator.run(&programs.tidegate, self.server)?;
        println!(
            "    {}, {}: {:.0}/s, {:.2} µs, p99 {:.0} µs",
            self.load, self.subject, sample.per_second, sample.cpu_micros, sample.p99_micros
        );
        figures.add(self.load, self.subject, sample);
        Ok(sample)
    }
}

/// What a group of one protocol tells beside its figures.
pub(super) struct Section<'s> {
    pub(super) group: &'static str,
    pub(super) title: &'static str,
    pub(super) rounds: usize,
    pub(super) cases: &'s [Case<'s>],
    pub(super) bars: &'s [Bar],
    pub(super) missing: &'s [String],
}

impl Section<'_> {
    /// The picture, the table, the bars, who is missing and the commands.
    pub(super) fn body(&self, figures: &Figures) -> Result<String, String> {
        let subtitle =
            format!("requests/s: median of {} rounds, the line is their range; more is better", self.rounds);
        let picture = picture(self.group, self.title, &figures.picture(self.title, &subtitle))?;
        let mut text =
            format!("{picture}\n{}\n{}", figures.table(Columns::Saturated), figures.bars(self.bars));
        text += &not_measured(self.missing);
        text += &commands(self.cases);
        Ok(text)
    }
}

/// Writes a picture, and returns the line that shows it.
pub(super) fn picture(name: &str, title: &str, svg: &str) -> Result<String, String> {
    let file = format!("benchmarks-{name}.svg");
    write(&crate::root().join("docs").join(&file), svg)?;
    Ok(format!("![{title}]({file})\n"))
}

/// Takes note of who can't be measured.
pub(super) fn noted<T>(name: &str, started: Result<T, String>, missing: &mut Vec<String>) -> Option<T> {
    started.map_err(|why| missing.push(format!("{name}: {why}"))).ok()
}

pub(super) fn not_measured(missing: &[String]) -> String {
    let line = |why: &String| format!("\nNot measured here: {}.\n", why.lines().next().unwrap_or_default());
    missing.iter().map(line).collect()
}

pub(super) fn commands(cases: &[Case<'_>]) -> String {
    let mut text = String::from("\nCommands:\n\n");
    for case in cases {
        let _ = writeln!(text, "- {}, {}: `{}`", case.load, case.subject, case.generator.shown());
    }
    text
}
