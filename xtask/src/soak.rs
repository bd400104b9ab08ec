//! `cargo xtask soak`: everything that runs in production, broken on purpose and verified all the while.
//!
//! Built as tests are, with every assertion: what is measured here is whether promises hold, not speed.

use crate::instructions::executable;
use crate::steps::{output, run as run_command};
use crate::{packages, report};

/// From so many minutes on, a run is worth being written down.
const WRITTEN_FROM: u64 = 30;
const PATH: &str = "docs/soak.md";
/// For `cargo xtask test`.
const BRIEF: &str = "--minutes 3 --seed 1";
const HEAD: &str = "\
# The soak: broken on purpose, for half an hour

Written by `cargo xtask soak`: three regions of two nodes, a `redis-server` and a broker each, one `mariadbd`, one
control plane, all real processes on one machine, built as tests are, with a proxy on every way between them. In five of
every six slots of ten seconds something goes wrong for two to five seconds; in the sixth, all have to agree. Meanwhile
callers ask about windows, rates, `exact`, `abuse` and `free` rules and limits of the world, most of them for twice as
much as they may have, and everything is compared with what they were told: the counts in every Redis and in the
database once a second (INV-1, 2, 4, 5, 6), every cell and every interval (the stated overshoot of each class, INV-7),
every denial of a region's `window` and `exact` limits (INV-3).

*Excused* is what the design gives up on purpose: what nodes said was unverified, a killed node's last 100 ms (taken as
150 here), a second around a store that forgot, a dead node's count in a store that forgot later, and, between regions,
what was admitted while counts couldn't cross and for 6 s after. A store may have an unverified decision twice: its ask
may have been granted, too late or with its answer lost.
";

pub(crate) fn run(options: &[&str]) -> Result<(), String> {
    packages::install()?;
    let minutes =
        options.windows(2).find(|pair| pair[0] == "--minutes").and_then(|pair| pair[1].parse().ok());
    let program = program()?;
    let document = crate::root().join("target/soak.md");
    let options = options.join(" ");
    run_command(&format!("{program} run {options} --document {}", document.display()))?;
    if minutes.unwrap_or(WRITTEN_FROM) >= WRITTEN_FROM {
        let body =
            std::fs::read_to_string(&document).map_err(|error| format!("{}: {error}", document.display()))?;
        let text = format!("{HEAD}\n{}\n\n{}", report::stamp("cargo xtask soak", &options), body);
        std::fs::write(crate::root().join(PATH), text)
            .map_err(|error| format!("can't write {PATH}: {error}"))?;
        println!("    written to {PATH}");
    }
    Ok(())
}

pub(crate) fn run_briefly() -> Result<(), String> {
    run_command(&format!("{} run {BRIEF}", program()?))
}

/// Not as benchmarks are built: a test's build checks itself. Of the whole workspace, as the tests before it: a package alone
/// has other features, and everything would be built again.
fn program() -> Result<String, String> {
    executable(&output("cargo test --workspace --bench soak --no-run")?, "soak")
}
