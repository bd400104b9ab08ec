//! `tidegate rules import-envoy`: files of envoyproxy/ratelimit as a rules file of ours, on stdout.
//!
//! Changes nothing. Prints a whole file or none: half of one would lift the limits of the other half.

use crate::failure::Failure;
use crate::output::{self, counted};
use crate::rules_source;
use std::path::PathBuf;
use std::process::ExitCode;
use tidegate_core::FleetSecret;
use tidegate_node::driver::DEFAULT_TENANT;
use tidegate_rules::envoy::{EnvoyOptions, EnvoyRules, Import, Windows, import};
use tidegate_rules::{RuleErrors, Source};

pub(crate) fn run(paths: &[PathBuf], windows: Windows) -> Result<ExitCode, Failure> {
    let mut sources: Vec<Source> = Vec::new();
    for path in paths {
        sources.extend(rules_source::read(path).map_err(Failure::RulesToCheck)?);
    }
    match imported(&sources, windows) {
        Ok(text) => {
            output::print(&text);
            Ok(ExitCode::SUCCESS)
        }
        Err(complaint) => {
            output::complain(&complaint);
            Ok(ExitCode::from(1))
        }
    }
}

fn imported(sources: &[Source], windows: Windows) -> Result<String, String> {
    // What the files mean doesn't depend on the secret.
    let options = EnvoyOptions { secret: &FleetSecret::BUILT_IN, tenant: DEFAULT_TENANT, windows };
    let told =
        |what: &str, errors: &RuleErrors| format!("{what} {}\n{errors}", counted(errors.total(), "error"));
    let rules = EnvoyRules::parse(sources, &options).map_err(|errors| told("the files have", &errors))?;
    for warning in rules.warnings() {
        output::complain(&format!("warning: {warning}"));
    }
    let Import { text, rules, differing } =
        import(&rules).map_err(|errors| told("not all of it can be said in rules:", &errors))?;
    if differing > 0 {
        let rules = counted(rules, "rule");
        output::complain(&format!("warning: {differing} of {rules} may apply to more; comments say where"));
    }
    Ok(text)
}
