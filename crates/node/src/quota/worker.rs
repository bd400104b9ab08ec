//! The world worker's half of quotas: sums up what its nodes say, carries it to the world store, and brings slices
//! back.
//!
//! Sans-IO. A round is: gather what the nodes said; say it to the world store ([`Worker::gathered`]); read the slices
//! there; tell them to the nodes ([`Worker::read`]). A slice is acknowledged when every node that was heard of
//! within a lease goes by it: not while the origin may have forgotten one of those. The acknowledgement says when it was read: the other regions count on it from then on.

use super::KeyMap;
use std::collections::BTreeMap;
use tidegate_core::slice::Lease;
use tidegate_core::{KeyId, Nanos};
use tidegate_origin::{QUOTA_KEYS_MAX, QuotaGathered, QuotaNews, Share, ToldSlice};
use tidegate_world::{
    Acknowledged, Acknowledgement, Demand, Membership, OwnerId, RISE_MARGIN, SLICE_LEASE, SliceRow, Slices,
};

/// News that wait to be gone by, at most.
const TOLD_MAX: usize = 32;
/// Slices that were read later than this after the round began are left: `RISE_MARGIN` is made for less. A process
/// that was stopped in the midst of a round would tell its nodes that nobody counts on their slices any more.
const ROUND_MAX: Nanos = Nanos::from_secs(8);
/// A demand that hardly changed is reported again after so many rounds.
const REPORTED_EVERY: u64 = 4;

/// What to say to the world store.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Say {
    pub demands: Vec<Demand>,
    /// All nodes go by these; `None` when that isn't certain.
    pub acknowledged: Option<Acknowledgement>,
    /// The membership that all nodes divide limits by.
    pub applied: u64,
    /// The origin's present: what is read from now on is leased from then on.
    pub before: Nanos,
}

/// News that were told to the nodes.
#[derive(Clone, Debug)]
struct Told {
    /// The store's present when they were read.
    read: Nanos,
    generations: Vec<Acknowledged>,
}

#[derive(Clone, Debug, Default)]
pub struct Worker {
    /// By stamp.
    told: BTreeMap<u64, Told>,
    /// What the world store has of this region: to say only what changed.
    acknowledged: KeyMap<u64>,
    /// The demand that was reported, and in which round.
    reported: KeyMap<(u64, u64)>,
    round: u64,
    /// The membership that all nodes divided limits by when all were known.
    divided_by: u64,
}

impl Worker {
    /// The nodes' reports are in: what to say to the world store.
    pub fn gathered(&mut self, gathered: &QuotaGathered) -> Say {
        self.round += 1;
        let applied = gathered.reports.iter().map(|report| report.applied).min().unwrap_or(0);
        self.told.retain(|stamp, _| *stamp >= applied);
        let are_all_known = gathered.forgot_at.plus(SLICE_LEASE) < gathered.now;
        let mut acknowledged = self.told.get(&applied).map(|told| self.unsaid(told));
        let version = gathered.reports.iter().map(|report| report.version).min().unwrap_or(0);
        if are_all_known {
            self.divided_by = version;
        } else if let Some(said) = &mut acknowledged {
            // Somebody who was forgotten, and is cut off, may go by the slices before until their leases end. That the
            // region is there may be said: who is cut off doesn't rise by itself.
            said.slices.clear();
        }
        Say {
            acknowledged,
            applied: version.min(self.divided_by),
            demands: self.demands(gathered),
            before: gathered.now,
        }
    }

    fn unsaid(&self, told: &Told) -> Acknowledgement {
        let is_new = |said: &&Acknowledged| self.acknowledged.get(&said.key) != Some(&said.generation);
        let slices = told.generations.iter().filter(is_new).copied().collect();
        Acknowledgement { read: told.read, slices }
    }

    /// The world store took an acknowledgement.
    pub fn acknowledged(&mut self, said: &Acknowledgement) {
        self.acknowledged.extend(said.slices.iter().map(|said| (said.key, said.generation)));
    }

    /// What all nodes together ask for, of keys of which that changed or wasn't said for some rounds.
    fn demands(&mut self, gathered: &QuotaGathered) -> Vec<Demand> {
        let mut sums: BTreeMap<KeyId, Demand> = BTreeMap::new();
        for offered in gathered.reports.iter().flat_map(|report| &report.offered) {
            let none = Demand {
                key: offered.key,
                spec: offered.spec,
                is_abuse: offered.is_abuse,
                milli_per_second: 0,
                name: None,
            };
            let sum = sums.entry(offered.key).or_insert(none);
            sum.milli_per_second = sum.milli_per_second.saturating_add(offered.milli_per_second);
        }
        // Who isn't asked for any more is forgotten by the store in time.
        self.reported.retain(|key, _| sums.contains_key(key));
        let mut demands: Vec<Demand> =
            sums.into_values().filter(|demand| self.is_worth_saying(demand)).collect();
        demands.sort_by_key(|demand| (std::cmp::Reverse(demand.milli_per_second), demand.key));
        demands.truncate(QUOTA_KEYS_MAX);
        let said = demands.iter().map(|demand| (demand.key, (demand.milli_per_second, self.round)));
        self.reported.extend(said.collect::<Vec<_>>());
        demands
    }

    /// It changed by a fiftieth, or wasn't said for a while.
    fn is_worth_saying(&self, demand: &Demand) -> bool {
        let Some((before, round)) = self.reported.get(&demand.key) else { return true };
        let change = before.abs_diff(demand.milli_per_second);
        change > before / 50 || self.round >= round + REPORTED_EVERY
    }

    /// The reports didn't get through: everything is said again.
    pub fn report_failed(&mut self) {
        self.reported.clear();
    }

    /// The slices were read, after the origin's clock showed `before`: what to tell the nodes. `took` is the time
    /// from before the origin was asked for `before` until now, by a clock that is never set; nothing is told when
    /// that is too long.
    pub fn read(
        &mut self,
        me: OwnerId,
        membership: &Membership,
        slices: &Slices,
        before: Nanos,
        took: Nanos,
    ) -> Option<QuotaNews> {
        if took > ROUND_MAX {
            return None;
        }
        let share = share(me, membership);
        let rows = || slices.slices.iter().take(QUOTA_KEYS_MAX);
        let stamp = slices.now.get() / 1_000;
        let generations = rows().map(|row| Acknowledged { key: row.key, generation: row.generation });
        let told = Told { read: slices.now, generations: generations.collect() };
        let held: KeyMap<()> = rows().map(|row| (row.key, ())).collect();
        self.acknowledged.retain(|key, _| held.contains_key(key));
        self.told.insert(stamp, told);
        while self.told.len() > TOLD_MAX {
            self.told.pop_first();
        }
        let slices = rows().map(|row| ToldSlice { key: row.key, lease: lease(row, slices.now, before) });
        Some(QuotaNews { stamp, share, slices: slices.collect() })
    }
}

fn share(me: OwnerId, membership: &Membership) -> Share {
    let index = membership.members.iter().position(|member| member.owner == me);
    let narrow = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    Share {
        version: membership.version,
        index: narrow(index.unwrap_or(0)),
        members: narrow(membership.members.len()),
        is_active: index.is_some_and(|index| membership.members[index].is_active),
    }
}

/// A lease by the origin's clock, which showed `before` at some instant before the store's showed `now`: it ends
/// early by what lies between, never late.
fn lease(row: &SliceRow, now: Nanos, before: Nanos) -> Lease {
    let left = row.expires.minus(now);
    let until = if left == Nanos::ZERO { Nanos::ZERO } else { before.plus(left) };
    let rises = before.plus(SLICE_LEASE).plus(SLICE_LEASE).plus(RISE_MARGIN);
    Lease { size: row.size, whole: row.whole, until, rises }
}
