//! What went wrong when: what answers and stores are excused by.

use crate::scene::locked;
use crate::trouble::{Kind, Trouble};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

/// After a region's tiers answer again, counts have crossed within this: a breaker probes twice a second, the worker's
/// lease lapses in 3 s, and then everything is published and read.
const CROSSED_WITHIN: Duration = Duration::from_secs(6);
/// Told for so long.
const LATELY: Duration = Duration::from_secs(9);
/// Nodes notice a loss of data with their next heartbeat, and then publish again what they know.
const RESTORED_WITHIN: Duration = Duration::from_secs(1);
/// A process that stood still or came back has more to do than to answer.
const BACK_WITHIN: Duration = Duration::from_secs(2);

/// One trouble, from its beginning until everything ran again; not yet, while it is in force.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Episode {
    pub(crate) trouble: Trouble,
    pub(crate) from: Duration,
    /// When it was in force: a moment after its beginning.
    made: Option<Duration>,
    /// When its mending began.
    mending: Option<Duration>,
    pub(crate) mended: Option<Duration>,
}

impl Episode {
    fn until(&self) -> Duration {
        self.mended.unwrap_or(Duration::MAX)
    }

    fn meets(&self, from: Duration, to: Duration, after: Duration) -> bool {
        self.from <= to && from <= self.until().saturating_add(after)
    }
}

/// A change of `Window`'s limit.
#[derive(Clone, Copy, Debug)]
struct Pushed {
    at: Duration,
    limit: u64,
}

#[derive(Debug)]
pub(crate) struct History {
    episodes: Mutex<Vec<Episode>>,
    pushed: Mutex<Vec<Pushed>>,
}

impl History {
    pub(crate) fn new(limit: u64) -> Self {
        let pushed = vec![Pushed { at: Duration::ZERO, limit }];
        History { episodes: Mutex::default(), pushed: Mutex::new(pushed) }
    }

    pub(crate) fn began(&self, trouble: Trouble, from: Duration) {
        locked(&self.episodes).push(Episode { trouble, from, made: None, mending: None, mended: None });
    }

    pub(crate) fn made(&self, at: Duration) {
        if let Some(last) = locked(&self.episodes).last_mut() {
            last.made = Some(at);
        }
    }

    pub(crate) fn mending(&self, at: Duration) {
        if let Some(last) = locked(&self.episodes).last_mut() {
            last.mending = Some(at);
        }
    }

    pub(crate) fn mended(&self, at: Duration) {
        if let Some(last) = locked(&self.episodes).last_mut() {
            last.mended = Some(at);
        }
    }

    pub(crate) fn pushed(&self, limit: u64, at: Duration) {
        locked(&self.pushed).push(Pushed { at, limit });
    }

    pub(crate) fn all(&self) -> Vec<Episode> {
        locked(&self.episodes).clone()
    }

    /// What is wrong, or was a moment ago.
    pub(crate) fn lately(&self, now: Duration) -> String {
        let episodes = locked(&self.episodes);
        let last = episodes.last().filter(|last| last.meets(now, now, LATELY));
        last.map_or("all is well".to_owned(), |last| {
            let name = last.trouble.name();
            if last.mended.is_some() { format!("{name} (mended)") } else { name }
        })
    }

    /// The largest and the smallest limit of `Window` that a node may have gone by in that time: a push takes a
    /// while, longer while something else is wrong.
    pub(crate) fn limits(&self, from: Duration, to: Duration) -> (u64, u64) {
        let pushed = locked(&self.pushed);
        let settled = from.saturating_sub(Duration::from_secs(15));
        let first = pushed.partition_point(|push| push.at <= settled).saturating_sub(1);
        let limits = pushed[first..].iter().filter(|push| push.at <= to).map(|push| push.limit);
        (limits.clone().max().unwrap_or(0), limits.min().unwrap_or(0))
    }

    /// Counts may have crossed between the regions late then.
    pub(crate) fn was_parted(&self, at: Duration) -> bool {
        let parts =
            |episode: &Episode| (0..crate::scene::REGIONS).any(|region| episode.trouble.parts_world(region));
        locked(&self.episodes).iter().any(|episode| parts(episode) && episode.meets(at, at, CROSSED_WITHIN))
    }

    /// That node couldn't answer at some time between.
    pub(crate) fn was_silent(&self, node: usize, from: Duration, to: Duration) -> bool {
        let silences = |episode: &&Episode| episode.trouble.silences(node);
        locked(&self.episodes).iter().filter(silences).any(|episode| episode.meets(from, to, BACK_WITHIN))
    }

    /// How often a region's store has forgotten; nothing while that is going on.
    pub(crate) fn life(&self, region: usize) -> Option<usize> {
        let episodes = locked(&self.episodes);
        let empties = || episodes.iter().filter(|episode| episode.trouble.empties(region));
        empties().all(|episode| episode.mended.is_some()).then(|| empties().count())
    }

    /// How often the database went back to a backup; nothing while that is going on.
    pub(crate) fn life_of_database(&self) -> Option<usize> {
        let episodes = locked(&self.episodes);
        let restores = || episodes.iter().filter(|episode| episode.trouble.kind == Kind::DatabaseRestored);
        restores().all(|episode| episode.mended.is_some()).then(|| restores().count())
    }

    /// When nodes of a region were killed. One whose clock is set is killed twice: for that, and to set it right.
    pub(crate) fn killed(&self, region: Option<usize>) -> Vec<(usize, Duration)> {
        let episodes = locked(&self.episodes);
        let mut killed = Vec::new();
        for episode in episodes.iter().filter(|episode| episode.trouble.kind.kills()) {
            let Trouble { kind, region: of, node, .. } = episode.trouble;
            if region.is_some_and(|region| region != of) {
                continue;
            }
            if let Kind::ClockSkewed { .. } = kind {
                killed.push((node, episode.from));
                killed.extend(episode.mending.map(|at| (node, at)));
            } else {
                killed.push((node, episode.made.unwrap_or(episode.from)));
            }
        }
        killed
    }

    /// From when to when a region's Redis had lost data and might not have it back, after a node had died there since
    /// `since`.
    pub(crate) fn recovered_without_a_node(
        &self,
        region: usize,
        since: Duration,
    ) -> Vec<(Duration, Duration)> {
        let killed = self.killed(Some(region));
        let has_died = |until: Duration| killed.iter().any(|(_, at)| since <= *at && *at <= until);
        let episodes = locked(&self.episodes);
        let losses = episodes.iter().filter(|episode| episode.trouble.empties(region));
        let spans = losses.map(|episode| (episode.from, episode.until().saturating_add(RESTORED_WITHIN)));
        spans.filter(|(_, until)| has_died(*until)).collect()
    }

    /// How often each kind happened.
    pub(crate) fn counts(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for episode in locked(&self.episodes).iter() {
            *counts.entry(episode.trouble.name()).or_insert(0) += 1;
        }
        counts
    }

    /// Something was wrong then.
    pub(crate) fn was_troubled(&self, at: Duration) -> bool {
        locked(&self.episodes).iter().any(|episode| episode.meets(at, at, Duration::from_secs(1)))
    }
}
