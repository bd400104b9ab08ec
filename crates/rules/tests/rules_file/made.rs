//! What the tests of this directory are made of: rules, overrides, files, and chance that can be repeated.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tidegate_core::{Burst, FleetSecret, Limit, Nanos, Rate};
use tidegate_rules::{
    Attributes, Delta, DocumentName, LookupSeed, Override, OverrideEffect, OverrideName, RuleChange,
    RuleOptions, RuleSet, Snapshot, SnapshotWriter,
};

pub(crate) const SECRET: FleetSecret = FleetSecret::BUILT_IN;
pub(crate) const NOW: Nanos = Nanos::from_secs(1_800_000_000);
pub(crate) const SEED: LookupSeed = LookupSeed::new(*b"a seed for tests");

pub(crate) fn options() -> RuleOptions<'static> {
    RuleOptions::new(&SECRET)
}

/// A directory of the test's own, removed at its end.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("tidegate-files-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// SplitMix64.
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.number() % u64::try_from(bound).unwrap()).unwrap()
    }

    pub(crate) fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }

    /// Of letters of this text.
    pub(crate) fn text(&mut self, letters: &str, lengths: std::ops::Range<usize>) -> String {
        let letters: Vec<char> = letters.chars().collect();
        let length = lengths.start + self.below(lengths.len());
        (0..length).map(|_| letters[self.below(letters.len())]).collect()
    }
}

pub(crate) fn document(namespace: &str) -> DocumentName {
    DocumentName { tenant: "default".into(), namespace: namespace.into() }
}

pub(crate) fn named(namespace: &str, rule: &str, parts: &[&str]) -> OverrideName {
    OverrideName {
        tenant: "default".into(),
        namespace: namespace.into(),
        rule: rule.into(),
        parts: parts.iter().map(|part| Box::from(*part)).collect(),
    }
}

pub(crate) fn limit(number: u64) -> Override {
    Override { change: OverrideEffect::Limit(Limit::new(number).unwrap()), hot: false, until: Nanos::MAX }
}

pub(crate) fn rate(count: u64, burst: u64) -> Override {
    let rate = Rate::new(count, Nanos::from_secs(1)).unwrap();
    Override {
        change: OverrideEffect::Rate { rate, burst: Burst::new(burst).unwrap() },
        hot: false,
        until: Nanos::MAX,
    }
}

pub(crate) fn set_override(name: OverrideName, value: Override) -> RuleChange {
    RuleChange::Override { name, value: Some(value) }
}

pub(crate) fn set_document(namespace: &str, text: &str) -> RuleChange {
    RuleChange::Document { name: document(namespace), text: Some(text.into()) }
}

pub(crate) const API: &str = "namespace: api\nrules:\n  - { name: per-user, key: [user], limit: 100 per 1m }\n  \
    - { name: pairs, key: [user, endpoint], rate: 5/s }\n  - { name: all, key: [], limit: 7 per 1h }\n";
pub(crate) const WEB: &str =
    "namespace: web\nmode: shadow\nrules: [{ name: ip, key: [ip/64], limit: 9 per 1m }]\n";

/// A small set with everything in it.
pub(crate) fn sample_overrides() -> Vec<(OverrideName, Override)> {
    let mut overrides = vec![
        (named("api", "per-user", &["alice"]), limit(1000)),
        (named("api", "per-user", &["bob"]), Override { change: OverrideEffect::Unlimited, ..limit(0) }),
        (
            named("api", "per-user", &["hot"]),
            Override { change: OverrideEffect::Keep, hot: true, until: Nanos::MAX },
        ),
        (named("api", "per-user", &["soon"]), Override { until: NOW.plus(Nanos::from_secs(60)), ..limit(5) }),
        (named("api", "per-user", &["over"]), Override { until: NOW, ..limit(6) }),
        (named("api", "per-user", &["acme-*"]), limit(300)),
        (named("api", "per-user", &["*-team-*"]), limit(400)),
        (named("api", "per-user", &["ovér"]), limit(7)),
        (named("api", "pairs", &["alice", "/search"]), rate(10, 20)),
        (named("api", "pairs", &["alice", "*"]), rate(11, 21)),
        (named("api", "pairs", &["bob", "/search"]), Override { hot: true, ..rate(12, 22) }),
        (named("api", "all", &[]), limit(70)),
        (named("web", "ip", &["2001:db8::/64"]), limit(90)),
        (named("api", "renamed", &["alice"]), limit(1)),
        (named("api", "renamed", &["b*"]), limit(2)),
    ];
    for number in 0..40 {
        let applied = if number % 3 == 0 { rate(number + 1, 50) } else { limit(number) };
        overrides.push((named("api", "per-user", &[&format!("user-{number}")]), applied));
    }
    overrides
}

pub(crate) fn write_file(path: &Path, version: u64, overrides: &[(OverrideName, Override)]) {
    let mut writer = SnapshotWriter::new(path, version, SEED).unwrap();
    writer.document(&document("api"), API).unwrap();
    writer.document(&document("web"), WEB).unwrap();
    for (name, applied) in overrides {
        writer.set(name, applied).unwrap();
    }
    writer.finish().unwrap();
}

pub(crate) fn sample_bytes(version: u64) -> Vec<u8> {
    let scratch = Scratch::new();
    let path = scratch.path("sample.rules");
    write_file(&path, version, &sample_overrides());
    fs::read(&path).unwrap()
}

pub(crate) fn sample_set(version: u64) -> RuleSet {
    let snapshot = Arc::new(Snapshot::from_bytes(sample_bytes(version)).unwrap());
    RuleSet::from_snapshot(&snapshot, options()).unwrap()
}

pub(crate) fn sample_delta(version: u64) -> Delta {
    let changes = vec![
        set_document("web", "namespace: web\nrules: [{ name: ip, key: [ip/64], limit: 10 per 1m }]\n"),
        RuleChange::Document { name: document("gone"), text: None },
        set_override(named("api", "per-user", &["carol"]), limit(77)),
        set_override(named("api", "per-user", &["soon-*"]), Override { hot: true, ..rate(3, 9) }),
        RuleChange::Override { name: named("api", "per-user", &["alice"]), value: None },
        RuleChange::FleetMode(tidegate_rules::Mode::Shadow),
        RuleChange::Reset { name: named("api", "pairs", &["alice", "/search"]), epoch: 3 },
    ];
    Delta { version, changes }
}

/// What every caller that the tests know of is limited by.
pub(crate) fn decisions(set: &RuleSet) -> Vec<String> {
    let callers = [
        "alice", "bob", "hot", "soon", "over", "ovér", "acme-1", "x-team-y", "user-3", "user-4", "carol",
        "soon-1", "zed",
    ];
    let mut said = vec![format!("{:?} {:?}", set.fleet_mode(), set.counts())];
    for namespace in set.namespaces() {
        for caller in callers {
            for endpoint in ["/search", "/other"] {
                let attributes = [("user", caller), ("endpoint", endpoint), ("ip", "2001:db8::7")];
                let mut out = tidegate_rules::Matches::new();
                let matched = set.matches("default", &namespace.name, Attributes(&attributes), NOW, &mut out);
                let each =
                    out.iter().map(|found| format!("{} {:?} {}", found.rule.name, found.effect, found.hot));
                said.push(format!("{matched:?} {:?}", each.collect::<Vec<_>>()));
            }
        }
    }
    said
}

pub(crate) fn applied_to(
    set: &RuleSet,
    namespace: &str,
    rule: &str,
    parts: &[(&str, &str)],
) -> Option<Override> {
    let namespace = set.namespace("default", namespace)?;
    let rule = namespace.rules.iter().find(|found| *found.name == *rule)?;
    set.override_of(rule, Attributes(parts), NOW)
}
