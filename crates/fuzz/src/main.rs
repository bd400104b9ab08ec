//! libFuzzer's own program: the variable `TIDEGATE_FUZZ_TARGET` names the target, arguments are libFuzzer's.
//!
//! `cargo xtask fuzz` builds and runs it; it wants coverage counters, which ordinary builds don't have.

#![no_main]
#![allow(unsafe_code, reason = "the macro exports the function that libFuzzer calls")]

use std::sync::LazyLock;
use tidegate_fuzz::{TARGETS, Target};

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("TIDEGATE_FUZZ_TARGET").unwrap_or_default();
    Target::named(&name).unwrap_or_else(|| {
        let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        panic!("TIDEGATE_FUZZ_TARGET is `{name}`; it must be one of {}", names.join(", "))
    })
});

libfuzzer_sys::fuzz_target!(|input: &[u8]| TARGET.run(input));
