//! `cargo xtask soak`: everything that runs in production, broken on purpose and verified all the while.
//!
//! Built as tests are, with every assertion: what is measured here is whether promises hold, not speed.

use crate::instructions::executable;
use crate::steps::{output, run as run_command};
use crate::{packages, report};

/// From so many minutes on, a run is worth being written down.
const WRITTEN_FROM: u64 = 30;
const PATH: &str = "docs/soak.md";
/// For `cargo xtask test`. The three minutes of this seed have the ways to lose data in Redis and in the database, a node
/// that dies before such a loss, a reset during a pause of 25 s, and a clock that is off by 30 s.
const BRIEF: &str = "--minutes 3 --seed 133";
const HEAD: &str = "\
# The soak: broken on purpose, for half an hour

Written by `cargo xtask soak`: three regions of two nodes, a `redis-server` and a broker each, one `mariadbd` and one
control plane, all real processes on one machine, built as tests are, with a proxy on every connection between them. In
five of every six slots of ten seconds something goes wrong; in the sixth, all have to agree. Processes are killed and
paused, for up to 25 s; Redis is emptied, loses single keys, or is replaced by a replica that lags; a node's clock is
off; a key is reset; rules change; the network loses, delays and garbles. Meanwhile callers ask about windows, rates,
`exact`, `abuse` and `free` rules and limits that all regions share, most of them for twice as much as they may have.

Three judgments compare what the callers were told with what they should have been told:

- **Conservation.** Before each trouble two keys of an `exact` rule are used on both nodes of a region, and are idle
  during it. Afterwards Redis must have what was admitted, to the unit, and a node that is started then must get what is
  left of the limit and no more. At the end of each minute every Redis, every node and the database must know every unit
  of three keys that all regions share.
- **Itemised overshoot.** Each unit that was admitted beyond a limit must be in an account: *credit* (the overshoot that
  is stated for the class), *unverified* (as the nodes reported it), *lost with a node* (what a killed node admitted in
  its last 150 ms and may not have published), *recovering* (what was admitted while Redis was short of what it had
  lost, measured at that Redis, and never more than it was short of; of keys in which a node that died had counted,
  survivors may also miss what each other admitted during the recovery). Between regions, what was admitted while counts
  couldn't cross and for 6 s after is an account too. A store may have an unverified decision twice: its ask may have
  been granted, too late or with its answer lost.
- **Two-sided denials.** Every denial of a region's `window`, `exact` and idle keys must be right by the newest epoch
  and limit: nobody is denied while there is room. Denials that nodes reported as unverified are exempt.

The counts in every Redis and in the database are also compared once a second with what can have been admitted (INV-1,
2, 4, 5, 6), and every interval of a rate with its burst and refill (INV-7).

Nothing is left out.
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
