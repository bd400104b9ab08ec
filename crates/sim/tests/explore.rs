//! Throwaway: which violations there are, and how often.
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use tidegate_sim::Simulation;
use tidegate_sim::chaos::{Trouble, describe, scenario};

#[test]
fn explore() {
    std::panic::set_hook(Box::new(|_| {}));
    let seeds: u64 = std::env::var("SEEDS").ok().and_then(|s| s.parse().ok()).unwrap_or(1000);
    for trouble in [Trouble::None, Trouble::Network, Trouble::Everything, Trouble::Clocks] {
        let mut found = BTreeMap::<String, (u64, Vec<(u64, String)>)>::new();
        let start = std::time::Instant::now();
        for seed in 0..seeds {
            let result = catch_unwind(AssertUnwindSafe(|| Simulation::new(scenario(seed, trouble)).run()));
            if let Err(panicked) = result {
                let message = panicked.downcast_ref::<String>().cloned().or_else(|| panicked.downcast_ref::<&str>().map(|s| s.to_string())).unwrap_or_default();
                let line = message.lines().next().unwrap_or("").to_owned();
                let line = line.split_once(": ").map_or(line.clone(), |(_, rest)| rest.to_owned());
                let kind: String = line.chars().filter(|c| !c.is_ascii_digit()).take(60).collect();
                let keys: Vec<String> = scenario(seed, trouble).keys.iter().map(describe).collect();
                let entry = found.entry(kind).or_default();
                entry.0 += 1;
                if entry.1.len() < 4 { entry.1.push((seed, format!("{line} {keys:?}"))); }
            }
        }
        println!("== {trouble:?}: {:?}", start.elapsed());
        for (kind, (count, seeds)) in found {
            println!("{count:>6} {kind}");
            for (seed, line) in seeds { println!("         seed {seed}: {line}"); }
        }
    }
}
