//! `tidegate rules check`: what rules mean in plain words, or everything that is wrong with them.
//!
//! Starts nothing and changes nothing. Reads what a node would read, so that both always agree.

use crate::failure::Failure;
use crate::output::{self, Colour, Colours, counted};
use crate::rules_source;
use crate::settings::{RULES_FILE, Settings, Sources};
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use tidegate_core::FleetSecret;
use tidegate_node::clock::Clock;
use tidegate_rules::{Description, Mode, RuleErrors, RuleSet};

pub(crate) fn run(path: Option<PathBuf>, sources: Sources) -> Result<ExitCode, Failure> {
    let windows = Settings::envoy_windows(sources.clone())?;
    let has_world = Settings::has_world(sources.clone())?;
    let path = match path {
        Some(path) => path,
        None => Settings::load(sources)?
            .rules_file
            .ok_or_else(|| Failure::NothingToCheck { default: RULES_FILE.into() })?,
    };
    let sources = rules_source::read(&path).map_err(Failure::RulesToCheck)?;
    let colours = Colours::of_stdout();
    // Any secret will do here: the meaning of rules doesn't depend on it.
    match RuleSet::parse_as(&sources, &FleetSecret::BUILT_IN, windows) {
        Ok(rules) => {
            let description = rules.describe(Clock::system().now().now);
            let counts = rules.counts();
            let summary = format!(
                "{}: {}, {}",
                path.display(),
                counted(counts.rules, "rule"),
                counted(counts.overrides, "override")
            );
            output::print(&good(&description, &summary, has_world, colours));
            Ok(ExitCode::SUCCESS)
        }
        Err(errors) => {
            output::complain(&bad(&errors, Colours::of_stderr()));
            Ok(ExitCode::from(1))
        }
    }
}

fn good(description: &Description, summary: &str, has_world: bool, colours: Colours) -> String {
    let mut text = String::new();
    // Writing to a String can't fail.
    if description.fleet_mode != Mode::Enforce {
        let _ = writeln!(
            text,
            "{}",
            colours.paint(Colour::Yellow, &format!("fleet mode: {}", description.fleet_mode))
        );
    }
    for namespace in &description.namespaces {
        let _ = writeln!(text, "{}", colours.paint(Colour::Bold, &namespace.heading()));
        for rule in &namespace.rules {
            // A rule may say that it is the world's before there is one.
            let is_told =
                rule.has_quota && (has_world || rule.options.iter().any(|option| option == "scope world"));
            let quota = if is_told { "; regions have quotas of it" } else { "" };
            let _ = writeln!(text, "  {rule}{quota}");
        }
    }
    for warning in &description.warnings {
        let _ = writeln!(text, "{} {warning}", colours.paint(Colour::Yellow, "warning:"));
    }
    let _ = writeln!(text, "{summary}: {}", colours.paint(Colour::Green, "valid"));
    text
}

fn bad(errors: &RuleErrors, colours: Colours) -> String {
    let count = counted(errors.total(), "error");
    format!("the rules have {}\n{errors}", colours.paint(Colour::Red, &count))
}
