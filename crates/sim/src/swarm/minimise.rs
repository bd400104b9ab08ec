//! Makes a failing episode smaller for as long as it fails in the same way: fewer faults, requests, keys, nodes and
//! regions, a network and clocks that are well, and rounder numbers.
//!
//! A change that is tried is kept only when the same violation remains. What is tried is in `parts.rs` (what can be
//! left out) and `numbers.rs` (what can be smaller).

mod numbers;
mod parts;

use super::Episode;
use crate::file::{Expectation, ScenarioFile, without_seed};

/// Enough for some hundreds of requests and a dozen faults.
const RUNS_MAX: u32 = 1_500;
/// So many lines of a scenario are shown.
const LINES_MAX: usize = 60;

/// What is left of an episode.
#[derive(Clone, Debug)]
pub struct Smallest {
    pub episode: Episode,
    pub message: String,
    pub runs: u32,
}

struct Search {
    smallest: Episode,
    message: String,
    wanted: String,
    runs: u32,
    /// How many changes were kept.
    kept: u32,
}

/// The smallest that was found of an episode that fails; `None` when it doesn't.
pub fn minimise(episode: &Episode) -> Option<Smallest> {
    let message = episode.run().err()?;
    let wanted = signature(&message);
    let mut search = Search { smallest: episode.clone(), message, wanted, runs: 1, kept: 0 };
    search.calm();
    loop {
        let kept_before = search.kept;
        search.drop_parts();
        search.shrink_numbers();
        if search.kept == kept_before || search.is_over() {
            break;
        }
    }
    let Search { smallest, message, runs, .. } = search;
    Some(Smallest { episode: smallest, message, runs })
}

/// What is violated, without the numbers.
fn signature(message: &str) -> String {
    let after_seed = message.split_once(": ").map_or(message, |(_, rest)| rest);
    if let Some(problem) = after_seed.strip_prefix("liveness: ") {
        // Of what didn't heal there are several kinds.
        return problem.chars().filter(|char| !char.is_ascii_digit()).take(24).collect();
    }
    after_seed.split([':', '\n']).next().unwrap_or_default().chars().take(60).collect()
}

impl Search {
    fn is_over(&self) -> bool {
        self.runs >= RUNS_MAX
    }

    /// Keeps a change that leaves the same violation, and says whether it did.
    fn try_change(&mut self, change: impl FnOnce(&mut Episode)) -> bool {
        if self.is_over() {
            return false;
        }
        let mut smaller = self.smallest.clone();
        change(&mut smaller);
        if smaller == self.smallest {
            return false;
        }
        self.runs += 1;
        match smaller.run() {
            Err(message) if signature(&message) == self.wanted => {
                (self.smallest, self.message) = (smaller, message);
                self.kept += 1;
                true
            }
            _ => false,
        }
    }

    /// Tries a change for each of so many members, the last one first.
    fn try_each(&mut self, count: usize, change: impl Fn(&mut Episode, usize)) {
        for index in (0..count).rev() {
            self.try_change(|episode| change(episode, index));
        }
    }
}

impl Smallest {
    /// As a scenario file whose expectation is this violation.
    pub fn file(&self, name: &str, about: &str) -> ScenarioFile {
        ScenarioFile {
            name: name.to_owned(),
            about: about.to_owned(),
            expect: Expectation::of_message(&self.message),
            episode: self.episode.clone(),
        }
    }

    /// What is violated, in a line.
    pub fn violation(&self) -> &str {
        without_seed(&self.message).lines().next().unwrap_or_default()
    }

    /// What is left, for people.
    pub fn describe(&self) -> String {
        let text = self.file("unnamed", self.violation()).write();
        let count = text.lines().count();
        let mut shown: Vec<&str> = text.lines().take(LINES_MAX).collect();
        let rest = format!("… and {} lines more", count.saturating_sub(LINES_MAX));
        if count > LINES_MAX {
            shown.push(&rest);
        }
        format!("{}\n", shown.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_violated_is_told_without_numbers() {
        assert_eq!(signature("seed 4: INV-3: node 1 believes in 7\nthe last"), "INV-3");
        assert_eq!(signature("it panicked"), "it panicked");
    }
}
