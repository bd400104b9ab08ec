//! Target 3 from the store alone: a control plane that has nothing but its database makes its file, and a node behind a
//! broker goes by it.

use crate::Setting;
use crate::client::Client;
use crate::figures::{Bounds, Figures, count, note};
use crate::scene::{RULES, Running, push, version_of};
use crate::time::{Stopwatch, pause};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tidegate_control::plane::ControlPlane;
use tidegate_control::plane::json::{ChangeJson, EntryJson};
use tidegate_core::{Limit, Nanos};
use tidegate_rules::{Override, OverrideEffect, OverrideName, RuleChange};
use tidegate_world::{SqlOptions, SqlWorld, WorldUrl};
use tokio::runtime::Builder;

const BAR: u8 = 3;
const RULES_MANY: u32 = 5_000_000;
/// Filling a database takes longer than what is measured.
const RULES_QUICK: u32 = 1_000_000;
const LOADED_WITHIN: f64 = 60.0;
const GIVE_UP: Duration = Duration::from_secs(300);
/// An entry has at most 6 MiB.
const CHANGES_OF_AN_ENTRY: u32 = 40_000;
const STORE_DEADLINE: Duration = Duration::from_secs(60);

pub(crate) fn measure(setting: &Setting) -> Result<(), String> {
    let rules = if setting.is_long() { RULES_MANY } else { RULES_QUICK };
    note(
        BAR,
        &format!(
            "from the store: SQLite has {rules} overrides, restored through the control plane's own API beforehand; \
             control plane, broker and node begin with empty directories; bound: 60 s for 5 million"
        ),
    );
    let mut control = Running::control()?;
    push(&control, RULES)?;
    control.kill();
    let version = fill(&control.directory.path("rules.db"), rules)?;
    std::fs::remove_dir_all(control.directory.path("data/control")).map_err(|error| error.to_string())?;
    let stopwatch = Stopwatch::start();
    control.start()?;
    let broker = Running::broker(&control)?;
    let node = Running::node(&[&broker], &[])?;
    let (mut peak, mut client) = (0, node.client()?);
    let file_made = loop {
        peak = peak.max(control.anonymous_bytes().unwrap_or(0));
        let is_made = control.directory.path(&format!("data/control/{version}.rules")).exists();
        if is_made {
            break stopwatch.elapsed();
        }
        give_up_after(&stopwatch, &control)?;
        pause(Duration::from_millis(50));
    };
    while version_of(&mut client)? < version {
        peak = peak.max(control.anonymous_bytes().unwrap_or(0));
        give_up_after(&stopwatch, &node)?;
        pause(Duration::from_millis(50));
    }
    let took = stopwatch.elapsed();
    is_enforced(&node, rules - 1)?;
    let bound = LOADED_WITHIN * f64::from(rules) / f64::from(RULES_MANY);
    let figures = Figures::of(BAR, "rules from SQL through a broker");
    figures.told("rules", f64::from(rules));
    figures.told("start to a file, s", file_made.as_secs_f64());
    figures.worst("start to a node that enforces, s", took.as_secs_f64(), Bounds::AtMost(bound));
    let mebibytes = count(usize::try_from(peak >> 10).unwrap_or(0)) / 1024.0;
    figures.told("control plane's own memory at most, MiB", mebibytes);
    Ok(())
}

fn give_up_after(stopwatch: &Stopwatch, process: &Running) -> Result<(), String> {
    if stopwatch.elapsed() > GIVE_UP {
        return Err(format!("not loaded\n{}", process.log()));
    }
    Ok(())
}

/// The last of the overrides says what it says, and not what the rule does.
fn is_enforced(node: &Running, number: u32) -> Result<(), String> {
    let body = json!({ "namespace": "api", "attributes": { "user": user(number) } }).to_string();
    let (_, answer) = Client::connect(node.http)?.ask("POST", "/v1/check", &body)?;
    match answer["limits"][0]["limit"].as_u64() {
        Some(500) => Ok(()),
        _ => Err(format!("an override isn't enforced: {answer}")),
    }
}

fn user(number: u32) -> String {
    format!("user-{number:015}")
}

/// As a backup is restored: without HTTP, and without weighing each change against all rules. Says the last version.
fn fill(path: &Path, rules: u32) -> Result<u64, String> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let url = WorldUrl::parse(&format!("sqlite:{}", path.display())).map_err(|error| error.to_string())?;
    let options = SqlOptions { deadline: STORE_DEADLINE, ..SqlOptions::default() };
    let (plane, worker) = ControlPlane::new(Arc::new(SqlWorld::new(url, options, runtime.handle())));
    runtime.spawn(worker.run());
    let filled = runtime.block_on(async {
        let mut versions = plane.versions();
        let mut head = *versions.wait_for(|head| *head > 0).await.map_err(|error| error.to_string())?;
        for first in (0..rules).step_by(CHANGES_OF_AN_ENTRY as usize) {
            let last = rules.min(first + CHANGES_OF_AN_ENTRY);
            let entry = entry(head + 1, first..last)?;
            head = plane.restore(vec![entry]).await.map_err(|error| error.to_string())?;
        }
        Ok(head)
    });
    runtime.shutdown_background();
    filled
}

fn entry(version: u64, numbers: std::ops::Range<u32>) -> Result<EntryJson, String> {
    let limit = Limit::new(500).map_err(|_| "500 is a limit")?;
    let applied = Override { change: OverrideEffect::Limit(limit), hot: false, until: Nanos::MAX };
    let changes = |value: Option<Override>| {
        let change = move |number| {
            let name = OverrideName {
                tenant: "default".into(),
                namespace: "api".into(),
                rule: "per-user".into(),
                parts: Box::new([user(number).into()]),
            };
            ChangeJson::from(&RuleChange::Override { name, value })
        };
        numbers.clone().map(change).collect()
    };
    let (author, reason) = ("bench".to_owned(), String::new());
    Ok(EntryJson {
        version,
        at_us: 0,
        author,
        reason,
        changed: changes(Some(applied)),
        replaced: changes(None),
    })
}
