//! Target 3: the first load of 5 million rules, through a broker, and what the broker needs for it.

use crate::Setting;
use crate::figures::{Bounds, Figures, count, note};
use crate::scene::{RULES, Running, push};
use crate::time::{Stopwatch, pause};
use std::path::Path;
use std::time::Duration;
use tidegate_core::{Limit, Nanos};
use tidegate_rules::{DocumentName, LookupSeed, Override, OverrideEffect, OverrideName, SnapshotWriter};

const BAR: u8 = 3;
const RULES_MANY: u32 = 5_000_000;
const LOADED_WITHIN: f64 = 60.0;

pub(crate) fn measure(_setting: &Setting) -> Result<(), String> {
    note(
        BAR,
        "the control plane's file is written beforehand, with 5 million overrides of 20 characters; broker and node \
         begin with empty directories, all on one machine",
    );
    let mut control = Running::control()?;
    let version = push(&control, RULES)?;
    control.kill();
    let directory = control.directory.path("data/control");
    for entry in std::fs::read_dir(&directory).map_err(|error| error.to_string())?.flatten() {
        let _ = std::fs::remove_file(entry.path());
    }
    let bytes = write(&directory.join(format!("{version}.rules")), version)?;
    control.start()?;
    let mut broker = Running::broker(&control)?;
    let stopwatch = Stopwatch::start();
    let node = Running::node(&[&broker], &[])?;
    let (mut peak, mut seen_parts, mut client) = (0, 0, node.client()?);
    let took = loop {
        peak = peak.max(broker.anonymous_bytes().unwrap_or(0));
        let state = client.get("/v1/state")?;
        let stream = &state["rules_stream"];
        seen_parts += usize::from(stream["loaded_bytes"].as_u64() > Some(0));
        if stream["version"].as_u64() == Some(version) {
            break stopwatch.elapsed();
        }
        if stopwatch.elapsed() > Duration::from_secs(180) {
            return Err(format!("not loaded: {state}\n{}\n{}", node.log(), broker.log()));
        }
        pause(Duration::from_millis(50));
    };
    let figures = Figures::of(BAR, "5 million rules through a broker");
    figures.told("file, bytes a rule", count(usize::try_from(bytes).unwrap_or(0)) / f64::from(RULES_MANY));
    figures.worst("control plane to node, s", took.as_secs_f64(), Bounds::AtMost(LOADED_WITHIN));
    figures.worst("times that progress was seen", count(seen_parts), Bounds::AtLeast(3.0));
    let mebibytes = |bytes: u64| count(usize::try_from(bytes >> 10).unwrap_or(0)) / 1024.0;
    figures.worst("broker's own memory at most, MiB", mebibytes(peak), Bounds::AtMost(256.0));
    figures.told("node's own memory, MiB", mebibytes(node.anonymous_bytes().unwrap_or(0)));
    broker.kill();
    Ok(())
}

/// Says how long it is.
fn write(path: &Path, version: u64) -> Result<u64, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let mut writer =
        SnapshotWriter::new(path, version, LookupSeed::random()).map_err(|error| text(&error))?;
    let document = DocumentName { tenant: "default".into(), namespace: "api".into() };
    writer.document(&document, RULES).map_err(|error| text(&error))?;
    let limit = Limit::new(500).map_err(|_| "500 is a limit")?;
    let applied = Override { change: OverrideEffect::Limit(limit), hot: false, until: Nanos::MAX };
    for number in 0..RULES_MANY {
        let name = OverrideName {
            tenant: "default".into(),
            namespace: "api".into(),
            rule: "per-user".into(),
            parts: Box::new([format!("user-{number:015}").into()]),
        };
        writer.set(&name, &applied).map_err(|error| text(&error))?;
    }
    writer.finish().map_err(|error| text(&error))?;
    std::fs::metadata(path).map(|found| found.len()).map_err(|error| error.to_string())
}
