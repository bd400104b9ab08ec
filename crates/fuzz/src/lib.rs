//! Fuzz targets: one function for every parser that reads what we didn't write.
//!
//! A target takes any bytes and must come back soon without a panic; assertions in it say what must hold of what
//! was understood. `cargo xtask fuzz` runs them with libFuzzer, which finds inputs by the code that they reach;
//! `cargo test` replays the seeds, and every input that once failed. Never part of what ships.

mod rules;
mod rules_file;

use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::{AtomicU64, Ordering};
use tidegate_node::snapshot;
use tidegate_origin::fuzz as origin;
use tidegate_server::fuzz as server;

/// More processor time than any input may take. Inputs have at most [`INPUT_BYTES_MAX`].
const NANOS_MAX: u64 = 100_000_000;
pub const INPUT_BYTES_MAX: usize = 4096;

#[derive(Debug)]
pub struct Target {
    pub name: &'static str,
    parse: fn(&[u8]),
}

/// The seeds of each are in `crates/fuzz/seeds`, in a folder of its name.
pub static TARGETS: [Target; 15] = [
    Target { name: "native_json", parse: server::native_json },
    Target { name: "unkey_json", parse: server::unkey_json },
    Target { name: "envoy_json", parse: server::envoy_json },
    Target { name: "envoy_grpc", parse: server::envoy_grpc },
    Target { name: "resp", parse: server::resp_commands },
    Target { name: "plain_http", parse: server::plain_http },
    Target { name: "headers", parse: server::headers },
    Target { name: "mapped_headers", parse: server::mapped_headers },
    Target { name: "rules_yaml", parse: rules::ours },
    Target { name: "envoy_yaml", parse: rules::theirs },
    Target { name: "rules_file", parse: rules_file::file },
    Target { name: "rules_delta", parse: rules_file::delta },
    Target { name: "origin_url", parse: origin::url },
    Target { name: "redis_reply", parse: origin::reply },
    Target { name: "snapshot", parse: snapshot::fuzz },
];

/// The longest that an input took so far.
static SLOWEST_NANOS: AtomicU64 = AtomicU64::new(0);

impl Target {
    pub fn named(name: &str) -> Option<&'static Target> {
        TARGETS.iter().find(|target| target.name == name)
    }

    /// Panics when the parser does, or when it takes too long. Tells of inputs that took much longer than any
    /// before.
    pub fn run(&self, input: &[u8]) {
        let begun = processor_nanos();
        (self.parse)(input);
        let took = processor_nanos() - begun;
        assert!(took <= NANOS_MAX, "{}: {} bytes took {} ms", self.name, input.len(), took / 1_000_000);
        let slowest = SLOWEST_NANOS.load(Ordering::Relaxed);
        if took > slowest + slowest / 4 {
            SLOWEST_NANOS.store(took, Ordering::Relaxed);
            eprintln!("slowest: {} us for {} bytes", took / 1000, input.len());
        }
    }
}

/// Of this thread: other work on the machine doesn't count.
fn processor_nanos() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

#[cfg(test)]
mod tests;
