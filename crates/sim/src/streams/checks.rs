//! What must hold of rules that travel, compared with the log.

use super::disk::resets_in;
use super::{FIRST_VERSION, ProcessId, Streams};
use tidegate_control::stream::SILENT_MAX;
use tidegate_core::Nanos;

/// A control plane looks at its log several times a second: what is told as the newest may be older by that.
const POLL_TIMEOUT: Nanos = Nanos::from_secs(1);
/// Everybody was told so lately that its rules are the newest, where nothing is wrong.
const CONFIRM_TIMEOUT: Nanos = Nanos::from_millis(1_500);

/// How much older than it seems to be what a process is told may be: on each stretch of the way, messages may lie for as
/// long as a server may be silent.
fn delivery_timeout(who: ProcessId) -> Nanos {
    let stretches = if matches!(who, ProcessId::Node(_)) { 2 } else { 1 };
    (0..stretches).fold(POLL_TIMEOUT, |within, _| within.plus(SILENT_MAX))
}

impl Streams {
    /// After whatever a process heard.
    pub(super) fn check(&self, process: usize) {
        let state = &self.processes[process];
        let Some(life) = &state.run else { return };
        let (name, version) = (state.name(), state.disk.version());
        assert!(version <= self.log.head(), "rules: {name} has version {version}, which nobody pushed");
        if let Some(feed) = &life.feed {
            assert!(feed.head() <= self.log.head(), "rules: {name} serves version {}", feed.head());
        }
        let Some(follower) = &life.follower else { return };
        let status = follower.status();
        assert!(status.version == version, "rules: {name} goes by {}, and has {version}", status.version);
        assert!(status.refused.is_none(), "rules: {name} refused {:?}", status.refused);
        // Until it has heard that they are, it counts from its start.
        if status.confirmed_at > Nanos::ZERO {
            let newest_at = life.began_at.plus(status.confirmed_at);
            let newest = self.log.head_at(newest_at.minus(delivery_timeout(state.who)));
            assert!(
                version >= newest,
                "rules: {name} says that version {version} was the newest {} ms ago, when version {newest} was",
                self.now.minus(newest_at).as_millis_ceil()
            );
        }
    }

    /// Everything was mended a while ago.
    pub(super) fn check_healed(&self) {
        let (head, seed) = (self.log.head(), self.scenario.seed);
        let resets: Vec<u64> = (FIRST_VERSION + 1..=head).filter(|version| resets_in(*version)).collect();
        for state in &self.processes {
            let name = state.name();
            let Some(life) = &state.run else { panic!("seed {seed}: liveness: {name} is down") };
            if let Some(feed) = &life.feed {
                let served = feed.head();
                assert!(served == head, "seed {seed}: liveness: {name} serves version {served} of {head}");
            }
            let Some(follower) = &life.follower else { continue };
            let version = follower.status().version;
            assert!(version == head, "seed {seed}: liveness: {name} has version {version} of {head}");
            let stale_for = follower.status().stale_for(state.clock(self.now));
            assert!(
                stale_for <= CONFIRM_TIMEOUT,
                "seed {seed}: liveness: {name} wasn't told for {} ms that its rules are the newest",
                stale_for.as_millis_ceil()
            );
            let missing = resets.iter().find(|version| !state.disk.resets.contains(version));
            assert!(
                missing.is_none() || matches!(state.who, ProcessId::Broker(_)),
                "seed {seed}: liveness: {name} never heard of the reset of version {missing:?}"
            );
        }
        self.check_known(head);
    }

    /// The control planes know of all nodes, and by which rules they go.
    fn check_known(&self, head: u64) {
        let planes = self.processes.iter().filter(|state| matches!(state.who, ProcessId::Plane(_)));
        let known: Vec<_> = planes
            .filter_map(|state| Some(state.feed()?.nodes(state.clock(self.now))))
            .flatten()
            .filter(|node| node.is_connected && node.rule_version == head)
            .map(|node| node.node)
            .collect();
        for state in self.processes.iter().filter(|state| matches!(state.who, ProcessId::Node(_))) {
            let name = state.name();
            assert!(
                known.iter().any(|node| **node == *name),
                "seed {}: liveness: no control plane knows that {name} goes by version {head}",
                self.scenario.seed
            );
        }
    }
}
