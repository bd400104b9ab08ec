//! Runs a test for many seeds, and says how to run the one that failed alone.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Names a seed to run alone.
const ONLY_SEED: &str = "TIDEGATE_SIM_SEED";

/// Replaces how many seeds a test runs for, from 0 on.
const SEEDS: &str = "TIDEGATE_SIM_SEEDS";

/// Where a test is, so that it can be named.
#[derive(Clone, Copy, Debug)]
pub struct TestName {
    /// The file in `tests`.
    pub file: &'static str,
    pub test: &'static str,
}

/// The seed that is to be replayed, if one is.
pub(crate) fn only_seed() -> Option<u64> {
    number(ONLY_SEED)
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|number| number.parse().ok())
}

/// Runs `run` for every seed of `seeds`, or for as many, or for the one, that the environment names. A panic names its seed and
/// the command that replays it.
pub fn for_each<T>(
    name: TestName,
    seeds: impl IntoIterator<Item = u64>,
    mut run: impl FnMut(u64) -> T,
) -> Vec<T> {
    let seeds: Vec<u64> = match only_seed() {
        Some(seed) => vec![seed],
        None => match number(SEEDS) {
            Some(count) => (0..count).collect(),
            None => seeds.into_iter().collect(),
        },
    };
    let run_one = |seed: u64| match catch_unwind(AssertUnwindSafe(|| run(seed))) {
        Ok(result) => result,
        Err(panicked) => {
            let message = panicked.downcast_ref::<String>().map(String::as_str);
            let message =
                message.or_else(|| panicked.downcast_ref::<&str>().copied()).unwrap_or("it panicked");
            let TestName { file, test } = name;
            panic!(
                "{message}\nreplay it with:\n  {ONLY_SEED}={seed} cargo test -p tidegate-sim --test {file} -- \
                 {test} --nocapture"
            );
        }
    };
    seeds.into_iter().map(run_one).collect()
}
