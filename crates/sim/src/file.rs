//! Scenario files: an episode of the swarm as plain data, with a name, a sentence that says what it is about, and what
//! is expected of it.
//!
//! A file depends on no generator: what a seed's episode is may change, what a file says may not. Types of the
//! simulator are written as they are, by field (`scenario.rs`, `fault.rs`, `network.rs`, `streams.rs`,
//! `world/scenario.rs`); what a file leaves out is as [`Scenario::calm`] and [`WorldScenario::calm`] have it. An unknown
//! field is an error. `crates/sim/scenarios/README.md` describes the format for people.
//!
//! Start with [`ScenarioFile::read`] and [`ScenarioFile::write`]. Nothing that a file says may panic here: what makes no
//! sense is a [`FileError`] (`check.rs`).

mod check;
mod layout;
mod time;
mod values;

pub(crate) use time::{instant, instants, length, offset, offsets, timed};
pub(crate) use values::{
    AccuracyText, ClassText, FlawText, arrivals, is_default, limit_policy, limit_uses, seed, world_policy,
};

use crate::network::NetworkOptions;
use crate::scenario::Scenario;
use crate::streams::StreamScenario;
use crate::swarm::Episode;
use crate::world::scenario::WorldScenario;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use toml::{Spanned, Table};

/// Faults name what they hit by fields of these names. One that is added under another name is added here: then files
/// that name what isn't there are errors, and the minimiser renumbers it.
pub(crate) const NODE_FIELDS: &[&str] = &["node"];
pub(crate) const KEY_FIELDS: &[&str] = &["key", "from", "to"];
pub(crate) const REGION_FIELDS: &[&str] = &["region"];

/// No file is longer.
const BYTES_MAX: usize = 1_000_000;

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct FileError {
    pub line: usize,
    pub what: String,
}

/// What a scenario must come to.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Expectation {
    #[default]
    Passes,
    /// A known failure: how the message begins that it is found with, without its seed.
    Violation(String),
}

/// The result of a scenario, compared with what was expected of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ScenarioVerdict {
    Passed,
    /// A known failure failed as it is known to, with this message.
    FailedAsExpected(String),
    /// Something is violated that should hold.
    Violated(String),
    /// A known failure fails with another message than it is known for.
    FailedOtherwise(String),
    /// A known failure is mended.
    PassedUnexpectedly,
}

impl ScenarioVerdict {
    pub fn is_as_expected(&self) -> bool {
        matches!(self, ScenarioVerdict::Passed | ScenarioVerdict::FailedAsExpected(_))
    }
}

#[derive(Clone, Debug)]
pub struct ScenarioFile {
    /// Also the name of the file.
    pub name: String,
    /// A sentence: what went wrong, or goes wrong.
    pub about: String,
    pub expect: Expectation,
    pub episode: Episode,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    /// `[region]`, and `[streams]` when rules travel.
    Region,
    /// `[world]`, `[every_region]` and `[[regions]]`.
    Counts,
    Quotas,
}

/// A file's sections. Regions are tables until what `every_region` says is added to each.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sections {
    name: String,
    about: String,
    expect: Expectation,
    kind: Kind,
    region: Option<Spanned<Table>>,
    streams: Option<Spanned<Table>>,
    world: Option<Spanned<Table>>,
    every_region: Option<Spanned<Table>>,
    #[serde(default)]
    regions: Vec<Spanned<Table>>,
}

impl ScenarioFile {
    pub fn read(text: &str) -> Result<Self, FileError> {
        if text.len() > BYTES_MAX {
            return Err(FileError { line: 1, what: format!("the file is longer than {BYTES_MAX} bytes") });
        }
        let error_at =
            |span: Option<Range<usize>>, what: String| FileError { line: line_of(text, span), what };
        let sections: Sections =
            toml::from_str(text).map_err(|error| error_at(error.span(), error.message().to_owned()))?;
        let (name, about, expect) = (sections.name.clone(), sections.about.clone(), sections.expect.clone());
        let episode = sections.episode().map_err(|(span, what)| error_at(span, what))?;
        check::check(&episode).map_err(|what| error_at(None, what))?;
        Ok(ScenarioFile { name, about, expect, episode })
    }

    /// Returns the text that [`ScenarioFile::read`] reads the same episode from.
    pub fn write(&self) -> String {
        layout::text_of(self)
    }

    /// Runs it, and compares what becomes of it with what is expected.
    pub fn run(&self) -> ScenarioVerdict {
        match (self.episode.run(), &self.expect) {
            (Ok(_), Expectation::Passes) => ScenarioVerdict::Passed,
            (Ok(_), Expectation::Violation(_)) => ScenarioVerdict::PassedUnexpectedly,
            (Err(message), Expectation::Passes) => ScenarioVerdict::Violated(message),
            (Err(message), Expectation::Violation(known)) if without_seed(&message).starts_with(known) => {
                ScenarioVerdict::FailedAsExpected(message)
            }
            (Err(message), Expectation::Violation(_)) => ScenarioVerdict::FailedOtherwise(message),
        }
    }
}

impl Expectation {
    /// Expects the violation that a message names: its kind, without numbers.
    pub fn of_message(message: &str) -> Self {
        let violation = without_seed(message).lines().next().unwrap_or_default();
        let (kind, rest) = violation.split_once(": ").unwrap_or(("", violation));
        let until_digit =
            |text: &str| text.split(|char: char| char.is_ascii_digit()).next().unwrap_or_default().len();
        // What didn't heal is of several kinds, which the text behind the colon tells apart.
        let length = match kind {
            "" => until_digit(violation),
            "liveness" => violation.len() - rest.len() + until_digit(rest),
            _ => kind.len(),
        };
        Expectation::Violation(violation[..length].trim_end().to_owned())
    }
}

/// A message without the seed that it may begin with.
pub(crate) fn without_seed(message: &str) -> &str {
    let after = message.strip_prefix("seed ").and_then(|rest| rest.split_once(": "));
    after.map_or(message, |(_, rest)| rest)
}

type Wrong = (Option<Range<usize>>, String);

impl Sections {
    fn episode(self) -> Result<Episode, Wrong> {
        let missing = |section: &str| (None, format!("there is no section [{section}]"));
        if self.kind == Kind::Region {
            if self.world.is_some() || self.every_region.is_some() || !self.regions.is_empty() {
                return Err((
                    None,
                    "a file of one region has the sections [region] and [streams] only".to_owned(),
                ));
            }
            let region = read_section::<Scenario>(self.region.ok_or_else(|| missing("region"))?)?;
            let streams = self.streams.map(read_section::<StreamScenario>).transpose()?;
            return Ok(Episode::Region(Box::new(region), streams.map(Box::new)));
        }
        if self.region.is_some() || self.streams.is_some() {
            let what =
                "a file of several regions has the sections [world], [every_region] and [[regions]] only";
            return Err((None, what.to_owned()));
        }
        let mut world = read_section::<WorldScenario>(self.world.ok_or_else(|| missing("world"))?)?;
        if !world.regions.is_empty() {
            return Err((None, "regions have sections of their own, [[regions]]".to_owned()));
        }
        let shared = self.every_region.map(Spanned::into_inner).unwrap_or_default();
        for region in self.regions {
            let span = region.span();
            let mut table = shared.clone();
            table.extend(region.into_inner());
            world.regions.push(read_section::<Scenario>(Spanned::new(span, table))?);
        }
        if world.networks.is_empty() {
            world.networks = vec![NetworkOptions::default(); world.regions.len()];
        }
        let world = Box::new(world);
        Ok(if self.kind == Kind::Counts { Episode::Counts(world) } else { Episode::Quotas(world) })
    }
}

/// An error names the line that the section begins at.
fn read_section<T: DeserializeOwned>(section: Spanned<Table>) -> Result<T, Wrong> {
    let span = section.span();
    let read: Result<T, toml::de::Error> = section.into_inner().try_into();
    read.map_err(|error| (Some(span), error.to_string().trim().replace('\n', ", ")))
}

fn line_of(text: &str, span: Option<Range<usize>>) -> usize {
    let until = span.map_or(0, |span| span.start.min(text.len()));
    text.as_bytes()[..until].iter().filter(|byte| **byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests;
