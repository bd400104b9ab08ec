//! A shard's record: the same as `redis/pulse.lua` computes.

use super::OriginStore;
use super::resolution::{from_micros, micros_ceil};
use crate::owners::RememberedNodes;
use crate::record::{Incarnation, PULSE_RETENTION, Pulse, PulseReply, RECOVERY_MAX, RECOVERY_MIN};
use crate::record::{RecordReading, ShardRecord};
use std::collections::BTreeMap;
use tidegate_core::Nanos;
use tidegate_core::origin_cell::NodeId;

#[derive(Clone, Debug)]
pub(super) struct Record {
    stored: Option<StoredRecord>,
    members: BTreeMap<NodeId, Member>,
    /// Which server process this is.
    run: u64,
}

#[derive(Clone, Copy, Debug)]
struct StoredRecord {
    incarnation: Incarnation,
    /// Since when it recovers; `None` when it doesn't.
    recovering_since: Option<Nanos>,
    /// The server process that wrote it.
    run: u64,
}

#[derive(Clone, Copy, Debug)]
struct Member {
    number: u64,
    confirmed: Option<Incarnation>,
    alive_until: Nanos,
}

impl Default for Record {
    /// An empty store that is empty on purpose.
    fn default() -> Self {
        let stored = StoredRecord { incarnation: Incarnation(1), recovering_since: None, run: 0 };
        Record { stored: Some(stored), members: BTreeMap::new(), run: 0 }
    }
}

impl Record {
    pub(super) fn lost(&self) -> Self {
        Record { stored: None, members: BTreeMap::new(), run: self.run }
    }

    pub(super) fn remembered(&self, present: Nanos) -> RememberedNodes {
        let live = self.members.values().filter(|member| present < member.alive_until).count();
        let live = u32::try_from(live).unwrap_or(u32::MAX);
        RememberedNodes { live, nodes: self.members.keys().copied().collect() }
    }

    fn pulse(&mut self, pulse: &Pulse, present: Nanos) -> PulseReply {
        let member = self.members.get(&pulse.node);
        // A node that knows an earlier incarnation has missed a loss that others noticed.
        let is_same = self.stored.is_none_or(|stored| pulse.known == Some(stored.incarnation));
        let has_less = member.is_none_or(|member| member.number < pulse.acked);
        let knows_less = pulse.acked > 0 && is_same && has_less;
        let whole = |incarnation| StoredRecord { incarnation, recovering_since: None, run: self.run };
        let mut record = match self.stored {
            Some(stored) if stored.run == self.run && !knows_less => stored,
            None if pulse.adopts && !knows_less => whole(pulse.known.unwrap_or(pulse.next)),
            _ => StoredRecord { recovering_since: Some(present), ..whole(pulse.next) },
        };
        if pulse.leaves {
            self.members.remove(&pulse.node);
        } else {
            let alive_until = present.plus(from_micros(micros_ceil(pulse.alive_for)));
            let confirmed = pulse.confirmed;
            self.members.insert(pulse.node, Member { number: pulse.number, confirmed, alive_until });
        }
        self.members.retain(|_, member| present < member.alive_until.plus(PULSE_RETENTION));
        let mut unconfirmed = 0;
        if let Some(since) = record.recovering_since {
            let live = self.members.values().filter(|member| present < member.alive_until);
            let waited_for = live.filter(|member| member.confirmed != Some(record.incarnation)).count();
            let age = present.minus(since);
            if age >= RECOVERY_MAX || (age >= RECOVERY_MIN && waited_for == 0) {
                record.recovering_since = None;
                unconfirmed = u32::try_from(waited_for).unwrap_or(u32::MAX);
            }
        }
        self.stored = Some(record);
        PulseReply { record: record.shown(), unconfirmed, now: present, eviction: None }
    }
}

impl StoredRecord {
    fn shown(&self) -> ShardRecord {
        ShardRecord { incarnation: self.incarnation, is_recovering: self.recovering_since.is_some() }
    }
}

impl OriginStore {
    /// Counts a node as alive on this shard, and returns which data the shard holds.
    pub fn pulse(&mut self, pulse: &Pulse, now: Nanos) -> PulseReply {
        let present = self.wake(now);
        self.record.pulse(pulse, present)
    }

    /// Returns the record as an exchange reads it.
    pub fn record(&self) -> RecordReading {
        self.record.stored.map_or(RecordReading::Missing, |stored| RecordReading::Found(stored.shown()))
    }

    /// Another server process has this data from now on: after a restart or a fail-over.
    pub fn restart(&mut self, run: u64) {
        self.record.run = run;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Nanos = Nanos::from_secs(1_000);
    const HEARTBEAT_TTL: Nanos = Nanos::from_millis(1_500);

    fn pulse(node: u64, number: u64) -> Pulse {
        Pulse {
            node: NodeId(node),
            next: Incarnation(100 + number),
            number,
            acked: number - 1,
            known: Some(Incarnation(1)),
            confirmed: None,
            alive_for: HEARTBEAT_TTL,
            leaves: false,
            adopts: false,
        }
    }

    fn at(millis: u64) -> Nanos {
        NOW.plus(Nanos::from_millis(millis))
    }

    fn is_recovering(pulsed: &PulseReply) -> bool {
        pulsed.record.is_recovering
    }

    #[test]
    fn a_store_that_lost_its_record_recovers_until_all_live_nodes_have_confirmed() {
        let mut store = OriginStore::default();
        assert!(!is_recovering(&store.pulse(&pulse(1, 1), at(0))));
        store.clear();
        let lost = store.pulse(&pulse(1, 2), at(400));
        assert!(is_recovering(&lost) && lost.record.incarnation == Incarnation(102));
        let confirmed = Some(lost.record.incarnation);
        let other = store.pulse(&Pulse { acked: 7, ..pulse(2, 1) }, at(500));
        assert_eq!(other.record, lost.record, "one loss is one incarnation, whoever notices it");
        assert!(is_recovering(&store.pulse(&Pulse { confirmed, ..pulse(1, 3) }, at(800))));
        assert!(is_recovering(&store.pulse(&Pulse { confirmed, ..pulse(1, 4) }, at(1_900))), "too early");
        store.pulse(&pulse(2, 2), at(1_900));
        assert!(
            is_recovering(&store.pulse(&Pulse { confirmed, ..pulse(1, 5) }, at(2_400))),
            "node 2 is behind"
        );
        let whole = store.pulse(&Pulse { confirmed, ..pulse(2, 3) }, at(2_500));
        assert_eq!((is_recovering(&whole), whole.unconfirmed), (false, 0));
    }

    #[test]
    fn nobody_waits_for_the_dead_and_for_nobody_longer_than_thirty_seconds() {
        let mut store = OriginStore::default();
        store.clear();
        let lost = store.pulse(&pulse(1, 1), at(0));
        let confirmed = Some(lost.record.incarnation);
        store.pulse(&pulse(2, 1), at(0));
        assert!(
            !is_recovering(&store.pulse(&Pulse { confirmed, ..pulse(1, 2) }, at(2_000))),
            "node 2 is dead"
        );
        store.clear();
        store.pulse(&pulse(1, 3), at(3_000));
        for number in 4..78 {
            assert!(is_recovering(&store.pulse(&pulse(1, number), at(3_000 + 400 * (number - 3)))));
        }
        let given_up = store.pulse(&pulse(1, 78), at(33_000));
        assert_eq!((is_recovering(&given_up), given_up.unconfirmed), (false, 1));
    }

    #[test]
    fn a_store_that_knows_less_than_it_acknowledged_and_another_process_recover() {
        let mut store = OriginStore::default();
        store.pulse(&pulse(1, 1), at(0));
        let old = store.clone();
        store.pulse(&pulse(1, 2), at(400));
        store = old;
        assert!(
            is_recovering(&store.pulse(&pulse(1, 3), at(800))),
            "an older copy knows of one pulse, not of two"
        );
        let mut store = OriginStore::default();
        store.pulse(&pulse(1, 1), at(0));
        store.restart(7);
        assert!(is_recovering(&store.pulse(&pulse(1, 2), at(400))));
    }

    #[test]
    fn a_store_that_is_empty_on_purpose_or_of_an_earlier_release_does_not() {
        let mut store = OriginStore::default();
        store.clear();
        assert!(!is_recovering(&store.pulse(&Pulse { adopts: true, ..pulse(1, 1) }, at(0))));
        store.clear();
        assert!(is_recovering(&store.pulse(&Pulse { acked: 1, ..pulse(1, 2) }, at(400))));
    }
}
