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

This page has the results of `cargo xtask soak`, which writes it. The soak runs a whole fleet and breaks parts of it on
purpose, while callers send requests. Then it checks that every promise held.

The fleet has three regions, one `mariadbd` and one control plane. Each region has two nodes, a `redis-server` and a
broker. All of these are real processes on one machine, built as tests are, with a proxy on every connection between
them. A minute of the run has six slots of ten seconds. In each of the first five, something goes wrong. In the sixth,
nothing does, and all processes must agree on the counts and the rules. These are the faults:

- Processes are killed, or paused for up to 25 s.
- A Redis is emptied, loses single keys, or is replaced by a replica that lags.
- A node's clock is wrong.
- A key is reset, or rules change.
- The network loses, delays and garbles data.

Meanwhile, callers send requests that are limited by windows and rates, by `exact`, `abuse` and `free` rules, and by
limits that all regions share. Most callers send twice as much as they may.

Three checks compare the answers that the callers received with the right answers:

- **Conservation.** Before each fault, both nodes of a region admit requests for two keys of an `exact` rule. Nobody uses
  these keys during the fault. Afterwards, Redis must have counted exactly what was admitted. A node that is then started
  must admit what is left of the limit, and no more. At the end of each minute, every Redis, every node and the database
  must know every unit that was admitted of three keys that all regions share.
- **Itemised overshoot.** Each unit that was admitted beyond a limit must belong to one of these accounts:
  - *credit*: the overshoot that [accuracy.md](accuracy.md#the-bound-of-bounded) states for the rule's class.
  - *unverified*: admissions that the nodes reported as unverified. A store may count an unverified decision twice,
    because the node's call may have been granted too late, or its answer lost.
  - *lost with a node*: what a killed node admitted in its last 150 ms, and may not have published.
  - *recovering*: what was admitted while Redis lacked units that it had lost. This is measured at that Redis, and is
    never more than the units that it lacked. If a node that died had counted in a key, the surviving nodes may also
    miss what each of them admitted during the recovery.
  - *between regions*: what was admitted while counts couldn't cross between regions, and for 6 s after that.
- **Two-sided denials.** No caller is denied while the limit has room. This check covers every denial of a region's
  `window`, `exact` and idle keys, with the newest limit and what was counted since the newest reset. Denials that nodes
  reported as unverified are exempt.

Once a second, the soak also compares the counts in every Redis and in the database with how much can have been
admitted (INV-1, 2, 4, 5 and 6 of [the invariants](design.md#invariants)). For rates, it compares what was admitted in every
interval with the rate's burst and refill (INV-7).

The results below leave nothing out.
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
