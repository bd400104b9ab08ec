//! Every seed, and every input that once failed, is parsed without a panic and in time.

use super::*;
use std::path::{Path, PathBuf};

fn inputs(kind: &str, target: &Target) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(kind).join(target.name);
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

#[test]
fn seeds_and_former_failures_pass() {
    for target in &TARGETS {
        let seeds = inputs("seeds", target);
        assert!(!seeds.is_empty(), "{} has no seeds", target.name);
        for path in seeds.into_iter().chain(inputs("regressions", target)) {
            let input = std::fs::read(&path).unwrap();
            assert!(input.len() <= INPUT_BYTES_MAX, "{}", path.display());
            eprintln!("{}", path.display());
            target.run(&input);
        }
    }
}

/// Not what the fuzzer does, but enough to notice when a target asserts what doesn't hold.
#[test]
fn seeds_that_lost_a_byte_pass() {
    for target in &TARGETS {
        for path in inputs("seeds", target) {
            let whole = std::fs::read(&path).unwrap();
            for at in 0..whole.len() {
                let mut input = whole.clone();
                input.remove(at);
                target.run(&input);
                target.run(&whole[..at]);
            }
        }
    }
}
