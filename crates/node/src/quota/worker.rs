//! The world worker's half of quotas: sums up what its nodes say, carries it to the world store, and brings slices
//! back.
//!
//! Sans-IO. A round is: gather what the nodes said; say it to the world store ([`QuotaWorker::gathered`]); read the slices
//! there; tell them to the nodes ([`QuotaWorker::read`]). A slice is acknowledged when every node that was heard of
//! within a lease goes by it: not while the origin may have forgotten one of those. The acknowledgement says when it
//! was read: the other regions count on it from then on.
//!
//! The slices are read before anything is acknowledged ([`QuotaWorker::acknowledgement`]): the answer shows whether the
//! world store still knows what was acknowledged before, and every grant that was read. If it doesn't, a backup took its
//! place, and nothing is raised until no other region can go by what was lost.

use super::{KeyMap, KeySet, SlicesInForce};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use tidegate_core::slice::{Lease, PARTS};
use tidegate_core::{KeyId, Nanos, Spec};
use tidegate_origin::{
    OfferedDemand, QUOTA_KEYS_MAX, QuotaNews, QuotaReports, Share, SliceReport, quota_keys_max,
};
use tidegate_world::{
    AcknowledgedSlice, Acknowledgement, Demand, Membership, OwnerId, RISE_MARGIN, SLICE_LEASE, SliceRow,
    Slices, Survey,
};

/// News that wait to be gone by, at most.
const SENT_SLICES_MAX: usize = 32;
/// Slices that were read later than this after the round began are left: `RISE_MARGIN` is made for less. A process
/// that was stopped in the midst of a round would tell its nodes that nobody counts on their slices any more.
const ROUND_MAX: Nanos = Nanos::from_secs(8);
/// After the world store went back to older data, nothing is raised for so long. By then every lease that the lost data
/// gave out is over, and the reconciler counts every region that was silent meanwhile at its even part.
const RISE_FREEZE: Nanos = Nanos::new(2 * SLICE_LEASE.get() + RISE_MARGIN.get());
/// A worker that takes over doesn't know what the one before acknowledged last. It was no more than so much older than
/// what all nodes go by.
const ACKNOWLEDGED_WITHIN: Nanos = Nanos::from_secs(5);
/// A demand that hardly changed is reported again after so many rounds; where it was thinned, and trembles, later.
const REPORT_EVERY_ROUNDS: u64 = 4;
const TREMBLING_REPORT_EVERY_ROUNDS: u64 = 16;
/// And from which part of the region's even part on: below a quarter it has its floor, and slices are made above half.
const REPORT_ABOVE: u64 = 4;
const TREMBLING_REPORT_ABOVE: u64 = 2;
/// For so many rounds the world store has what was said, at half a second each: `tidegate_world::DEMAND_TTL`.
const IN_STORE_FOR: u64 = 60;
/// What is asked for of a key is forgotten below this part of its limit.
const FORGOTTEN_BELOW: u64 = 64;

/// What to say to the world store.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct DemandReport {
    pub demands: Vec<Demand>,
    /// All nodes go by these; `None` when that isn't certain.
    pub acknowledged: Option<Acknowledgement>,
    /// The membership that all nodes divide limits by.
    pub applied: u64,
    /// The origin's present: what is read from now on is leased from then on.
    pub before: Nanos,
}

/// What the nodes ask for of one key, all together.
#[derive(Clone, Copy, Debug)]
struct KeyDemand {
    spec: Spec,
    is_abuse: bool,
    /// Of the last round's reports.
    sum: u64,
    milli_per_second: u64,
    /// What the world store was told, and in which round.
    last_report: Option<(u64, u64)>,
}

impl KeyDemand {
    fn new(offered: &OfferedDemand) -> Self {
        let OfferedDemand { spec, is_abuse, .. } = *offered;
        KeyDemand { spec, is_abuse, sum: 0, milli_per_second: 0, last_report: None }
    }

    /// In billionths of an even part.
    fn parts(&self, members: u32) -> u64 {
        let asked = u128::from(self.milli_per_second) * u128::from(members.max(1)) * u128::from(PARTS);
        u64::try_from(asked / u128::from(self.spec.milli_per_second())).unwrap_or(u64::MAX)
    }

    fn is_in_store(&self, round: u64) -> bool {
        self.last_report.is_some_and(|(_, said)| round < said + IN_STORE_FOR)
    }

    /// Somebody asks for it, or the store has it.
    fn is_tracked(&self, round: u64) -> bool {
        let has_faded = self.milli_per_second.saturating_mul(FORGOTTEN_BELOW) <= self.spec.milli_per_second();
        self.sum > 0 || !has_faded || self.is_in_store(round)
    }

    /// It changed by so much that slices may, or wasn't said for a while.
    fn is_worth_reporting(&self, round: u64, is_thinned: bool) -> bool {
        let Some((before, said)) = self.last_report else { return true };
        if before.max(self.milli_per_second) == 0 {
            return false;
        }
        let (least, every) = if is_thinned {
            (self.spec.milli_per_second() / 8, TREMBLING_REPORT_EVERY_ROUNDS)
        } else {
            (before / 50, REPORT_EVERY_ROUNDS)
        };
        before.abs_diff(self.milli_per_second) > least || round >= said + every
    }

    fn report(&mut self, key: KeyId, round: u64) -> Demand {
        let KeyDemand { spec, is_abuse, milli_per_second, .. } = *self;
        self.last_report = Some((milli_per_second, round));
        Demand { key, spec, is_abuse, milli_per_second, name: None }
    }
}

/// A quarter of what is new, so that a few rounds of a sample make up for it. Comes down to nothing, however little it is:
/// who is no longer asked for isn't kept.
fn average(before: u64, sum: u64) -> u64 {
    before - before.div_ceil(4) + sum / 4
}

/// News that were told to the nodes.
#[derive(Clone, Debug)]
struct SentSlices {
    /// The store's present when they were read.
    read: Nanos,
    generations: Vec<AcknowledgedSlice>,
}

#[derive(Clone, Debug, Default)]
pub struct QuotaWorker {
    /// By stamp.
    sent: BTreeMap<u64, SentSlices>,
    /// What the world store has of this region: to say only what changed.
    acknowledged: KeyMap<u64>,
    /// What the nodes ask for.
    demand: KeyMap<KeyDemand>,
    /// Keys of which this region holds a slice.
    held: KeySet,
    /// How many regions divide limits.
    members: u32,
    round: u64,
    /// The membership that all nodes divided limits by when all were known.
    divided_by: u64,
    /// When what the world store confirmed last of this region was read. It may know of later reads, and knows of no
    /// earlier one unless it lost data.
    confirmed: Option<Nanos>,
    /// How many grants the world store had written when it was read last.
    revision: u64,
    /// Nothing is raised before this instant of the world store's time: it went back to older data.
    raises_after: Nanos,
}

impl QuotaWorker {
    /// The nodes' reports are in: what to say to the world store.
    pub fn gathered(&mut self, gathered: &QuotaReports) -> DemandReport {
        self.round += 1;
        let applied = gathered.reports.iter().map(|report| report.applied).min().unwrap_or(0);
        self.confirmed.get_or_insert(Nanos::new(applied.saturating_mul(1_000)).minus(ACKNOWLEDGED_WITHIN));
        self.sent.retain(|stamp, _| *stamp >= applied);
        let are_all_known = gathered.lost_data_at.plus(SLICE_LEASE) < gathered.now;
        let mut acknowledged = self.sent.get(&applied).map(|told| self.unsaid(told));
        let version = gathered.reports.iter().map(|report| report.version).min().unwrap_or(0);
        if are_all_known {
            self.divided_by = version;
        } else if let Some(said) = &mut acknowledged {
            // Somebody who was forgotten, and is cut off, may go by the slices before until their leases end. That the
            // region is there may be said: who is cut off doesn't rise by itself.
            said.slices.clear();
        }
        DemandReport {
            acknowledged,
            applied: version.min(self.divided_by),
            demands: self.demands(gathered),
            before: gathered.now,
        }
    }

    fn unsaid(&self, told: &SentSlices) -> Acknowledgement {
        let is_new = |said: &&AcknowledgedSlice| self.acknowledged.get(&said.key) != Some(&said.generation);
        let slices = told.generations.iter().filter(is_new).copied().collect();
        Acknowledgement { read: told.read, slices, known: Nanos::ZERO }
    }

    /// What may be acknowledged of this, once the slices were read after it was gathered. Nothing that was read before the
    /// world store went back to older data: its generations are given out again.
    pub fn acknowledgement(&self, said: Acknowledgement) -> Option<Acknowledgement> {
        let is_told = self.sent.values().any(|told| told.read == said.read);
        is_told.then(|| Acknowledgement { known: self.confirmed.unwrap_or_default(), ..said })
    }

    /// The world store took an acknowledgement.
    pub fn acknowledged(&mut self, said: &Acknowledgement) {
        self.confirmed = self.confirmed.max(Some(said.read));
        self.acknowledged.extend(said.slices.iter().map(|said| (said.key, said.generation)));
    }

    /// What all nodes together ask for, of keys of which that changed or wasn't said for some rounds: of those with a
    /// slice, and of those that the even split may not do for.
    fn demands(&mut self, gathered: &QuotaReports) -> Vec<Demand> {
        let room = quota_keys_max(u32::try_from(gathered.reports.len()).unwrap_or(u32::MAX));
        let is_thinned = gathered.reports.iter().any(|report| report.offered.len() > room / 4 * 3);
        self.add_up(gathered, is_thinned);
        let round = self.round;
        self.demand.retain(|key, asked| asked.is_tracked(round) || self.held.contains(key));
        let (members, room) = (self.members, self.room());
        let said_above = if is_thinned { TREMBLING_REPORT_ABOVE } else { REPORT_ABOVE };
        let mut wanted: Vec<(bool, Reverse<u64>, KeyId)> = Vec::new();
        for (key, asked) in &self.demand {
            let is_known = self.held.contains(key) || asked.is_in_store(round);
            let parts = asked.parts(members);
            let is_much = parts.saturating_mul(said_above) > u64::from(PARTS);
            if (is_known || is_much) && asked.is_worth_reporting(round, is_thinned) {
                wanted.push((!is_known, Reverse(parts), *key));
            }
        }
        // What the store has is said first, then what is asked for most.
        wanted.sort_unstable();
        let new_from = wanted.partition_point(|(is_new, ..)| !is_new);
        wanted.truncate(QUOTA_KEYS_MAX.min(new_from + room));
        let said = |(_, _, key): (bool, Reverse<u64>, KeyId)| {
            self.demand.get_mut(&key).map(|asked| asked.report(key, round))
        };
        wanted.into_iter().filter_map(said).collect()
    }

    /// How many keys may be said that the store doesn't have: it keeps what was said for a while.
    fn room(&self) -> usize {
        let in_store = self.demand.values().filter(|asked| asked.is_in_store(self.round)).count();
        (2 * QUOTA_KEYS_MAX).saturating_sub(in_store)
    }

    /// The sum of the reports, key by key. Where nodes had to thin theirs, it trembles, and is averaged over rounds.
    fn add_up(&mut self, gathered: &QuotaReports, is_thinned: bool) {
        self.demand.values_mut().for_each(|asked| asked.sum = 0);
        for offered in gathered.reports.iter().flat_map(|report| &report.offered) {
            let asked = self.demand.entry(offered.key).or_insert_with(|| KeyDemand::new(offered));
            (asked.spec, asked.is_abuse) = (offered.spec, offered.is_abuse);
            asked.sum = asked.sum.saturating_add(offered.milli_per_second);
        }
        for asked in self.demand.values_mut() {
            asked.milli_per_second =
                if is_thinned { average(asked.milli_per_second, asked.sum) } else { asked.sum };
        }
    }

    /// The reports didn't get through: everything is said again.
    pub fn report_failed(&mut self) {
        self.demand.values_mut().for_each(|asked| asked.last_report = None);
    }

    /// The slices were read, after the origin's clock showed `before`: what to tell the nodes, which go by `in_force`
    /// so far. `took` is the time from before the origin was asked for `before` until now, by a clock that is never
    /// set; nothing is told when that is too long.
    pub fn read(
        &mut self,
        me: OwnerId,
        membership: &Membership,
        slices: &Slices,
        in_force: &SlicesInForce,
        before: Nanos,
        took: Nanos,
    ) -> Option<QuotaNews> {
        if took > ROUND_MAX {
            return None;
        }
        // A region that acknowledged nothing since the backup was made sees only that grants are missing.
        let has_unconfirmed =
            self.confirmed.is_some_and(|confirmed| micros(slices.confirmed) < micros(confirmed));
        if has_unconfirmed || slices.revision < self.revision {
            self.world_went_back(slices.now);
        }
        (self.confirmed, self.revision) = (Some(slices.confirmed), slices.revision);
        let is_restored = slices.now < self.raises_after;
        if is_restored && in_force.share.is_none() {
            // The nodes may go by less than the store and the even split say. This one will hear of it.
            return None;
        }
        let mut share = share(me, membership);
        let rows = || slices.slices.iter().take(QUOTA_KEYS_MAX);
        let stamp = slices.now.get() / 1_000;
        let generations = rows().map(|row| AcknowledgedSlice { key: row.key, generation: row.generation });
        let told = SentSlices { read: slices.now, generations: generations.collect() };
        self.held = rows().map(|row| row.key).collect();
        self.members = share.members;
        self.acknowledged.retain(|key, _| self.held.contains(key));
        self.sent.insert(stamp, told);
        while self.sent.len() > SENT_SLICES_MAX {
            self.sent.pop_first();
        }
        let leases = rows().map(|row| SliceReport { key: row.key, lease: lease(row, slices.now, before) });
        let mut leases: Vec<SliceReport> = leases.collect();
        if is_restored {
            share = share_at_most(share, in_force.share);
            leases = leases_at_most(&leases, in_force, before);
        }
        Some(QuotaNews { stamp, share, slices: leases })
    }

    /// Returns whether the reconciler beside this worker may grant anything by a survey. Not after the world store went back
    /// to older data: that doesn't know of leases which regions still hold. Nobody else grants anything while this one
    /// leads, so a survey of fewer grants than were read shows that as well.
    pub fn may_grant(&mut self, survey: &Survey) -> bool {
        if survey.revision < self.revision {
            self.world_went_back(survey.now);
            self.revision = survey.revision;
        }
        survey.now >= self.raises_after
    }

    /// The world store knows less than it acknowledged: older data took its place.
    fn world_went_back(&mut self, now: Nanos) {
        self.raises_after = now.plus(RISE_FREEZE);
        self.sent.clear();
        self.acknowledged.clear();
        self.report_failed();
    }
}

/// The world store's own precision.
fn micros(instant: Nanos) -> u64 {
    instant.get() / 1_000
}

/// Divides by the larger membership, and takes nothing of what is left over: no even part is larger than either.
fn share_at_most(share: Share, in_force: Option<Share>) -> Share {
    let members = in_force.map_or(0, |share| share.members).max(share.members);
    Share { index: u32::MAX, members, ..share }
}

/// What a region may go by while the world store's data is older than what its regions go by: of each key no more than
/// either says. What was in force then was made out with the other regions, which may go by it until their leases end.
/// What the store says now is what it will make out from.
///
/// Example: region A was lowered to 3 of 10 after the backup was made, and B raised to 7. The backup says 5 each. A keeps
/// its 3, and B goes by 5.
fn leases_at_most(read: &[SliceReport], in_force: &SlicesInForce, before: Nanos) -> Vec<SliceReport> {
    let rises = before.plus(RISE_FREEZE);
    let held = &in_force.held.0;
    let of_both = |SliceReport { key, lease }: &SliceReport| {
        let lease = match held.get(key) {
            Some(held) => {
                let size = lease.size.at_most(held.size.scaled_down(held.whole, lease.whole));
                let until = if held.whole == lease.whole { lease.until.min(held.until) } else { Nanos::ZERO };
                Lease { size, until, rises, ..*lease }
            }
            // The even part is in force.
            None => Lease { until: Nanos::ZERO, rises, ..*lease },
        };
        SliceReport { key: *key, lease }
    };
    let read_keys: KeySet = read.iter().map(|slice| slice.key).collect();
    let unread = held.iter().filter(|(key, _)| !read_keys.contains(key));
    let unread = unread
        .map(|(key, held)| SliceReport { key: *key, lease: Lease { until: Nanos::ZERO, rises, ..*held } });
    let mut leases: Vec<SliceReport> = unread.chain(read.iter().map(of_both)).take(QUOTA_KEYS_MAX).collect();
    leases.sort_by_key(|slice| slice.key);
    leases
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

#[cfg(test)]
mod tests {
    use super::average;

    #[test]
    fn what_nobody_asks_for_any_more_comes_down_to_nothing() {
        let rounds = (1..).scan(1_000, |milli, _| {
            *milli = average(*milli, 0);
            Some(*milli)
        });
        assert!(rounds.take(30).any(|milli| milli == 0));
        let steady = (0..60).fold(0, |milli, _| average(milli, 1_000));
        assert!((990..=1_000).contains(&steady), "{steady}");
    }
}
