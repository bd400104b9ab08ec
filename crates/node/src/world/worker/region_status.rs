//! How the region stands in the world tier: who it is there, who else is, and what is wrong; what is said of it
//! once, and what an operator is shown.

use super::{IMPORT_EVERY, JOIN_EVERY, JOIN_STEADY_EVERY, STEADY_AFTER, WorldWorker};
use tidegate_core::{Nanos, WorldPolicy, WorldView};
use tidegate_world::{
    Component, Cursor, JoinReply, Member, Membership, OwnerId, PublishPolicy, PublishThreshold, WorldError,
};

/// The region's membership in the world tier, and when it last published and imported.
#[derive(Debug, Default)]
pub(super) struct RegionStatus {
    pub(super) joined: Option<JoinReply>,
    /// All regions that were heard of lately have divided limits by this one too, at some time.
    is_counted_in: bool,
    /// Since when nobody waits to share limits, and all go by who does.
    settled_since: Option<Nanos>,
    published_at: Option<Nanos>,
    imported_at: Option<Nanos>,
    rows_in_last_import: usize,
    rows_in_this_import: usize,
    /// Why nothing works, since it stopped working.
    problem: Option<String>,
    logged: LoggedWarnings,
}

/// Warnings that were logged, so that each is logged once.
#[derive(Debug, Default)]
struct LoggedWarnings {
    other_policy: bool,
    namesakes: bool,
    implausible: u64,
}

/// A region of the world, and how long ago it was heard of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RegionLag {
    pub region: String,
    pub owner: u32,
    pub is_active: bool,
    pub is_self: bool,
    pub seen_ago: Nanos,
}

/// How the work stands, to be shown.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct WorkState {
    pub is_worker: bool,
    /// Everything was read, the other regions divide limits by this one too, and the store answers.
    pub is_connected: bool,
    pub owner: Option<u32>,
    pub regions: Vec<RegionLag>,
    pub membership_version: u64,
    pub namesakes: u32,
    pub is_breaker_open: bool,
    pub breaker_opened: u64,
    pub published_at: Option<Nanos>,
    pub imported_at: Option<Nanos>,
    pub rows_in_last_import: usize,
    pub cells_waiting: usize,
    pub cells_known: usize,
    pub problem: Option<String>,
}

impl RegionStatus {
    pub(super) fn me(&self) -> Option<OwnerId> {
        self.joined.as_ref().map(|joined| joined.me)
    }

    /// What the nodes of the region are told.
    pub(super) fn view(&self) -> Option<WorldView> {
        let joined = self.joined.as_ref()?;
        let regions = u32::try_from(joined.membership.members.len()).unwrap_or(u32::MAX).max(1);
        let policy = match joined.policy.publish {
            PublishThreshold::Headroom => WorldPolicy::Headroom,
            PublishThreshold::Floor(floor) => WorldPolicy::Floor { thousandths: thousandths(floor) },
        };
        Some(WorldView { regions, version: joined.membership.version, policy })
    }

    /// Of the regions that were heard of lately, this is the first: it does what only one needs to do.
    pub(super) fn is_first(&self) -> bool {
        let Some(joined) = &self.joined else { return false };
        let lately = |member: &&Member| joined.now.minus(member.seen) < tidegate_world::NAMESAKE_TTL;
        joined.membership.members.iter().filter(lately).map(|member| member.owner).min() == Some(joined.me)
    }

    fn update_settled(&mut self, joined: &JoinReply, now: Nanos) {
        let Membership { version, members } = &joined.membership;
        let is_silent = |member: &Member| member.seen.plus(tidegate_world::NAMESAKE_TTL) < joined.now;
        self.is_counted_in |= members.iter().all(|member| member.applied >= *version || is_silent(member));
        let is_settled = members.iter().all(|member| member.is_active && member.applied >= *version);
        let is_same = self.joined.as_ref().is_some_and(|before| before.membership.version == *version);
        self.settled_since = self.settled_since.filter(|_| is_same).or(Some(now)).filter(|_| is_settled);
    }

    /// Who waits to share limits shouldn't wait for many intervals.
    fn joins_every(&self, now: Nanos) -> Nanos {
        let is_settled = self.settled_since.is_some_and(|since| now.minus(since) >= STEADY_AFTER);
        if is_settled { JOIN_STEADY_EVERY } else { JOIN_EVERY }
    }

    pub(super) fn published(&mut self, now: Nanos) {
        self.published_at = Some(now);
    }

    /// Everything that was there when the work began has been read.
    pub(super) fn has_read_all(&self) -> bool {
        self.imported_at.is_some()
    }

    pub(super) fn imported(&mut self, now: Nanos, rows: usize, has_more: bool) {
        self.rows_in_this_import += rows;
        if !has_more {
            self.imported_at = Some(now);
            self.rows_in_last_import = std::mem::take(&mut self.rows_in_this_import);
            self.works();
        }
    }

    fn works(&mut self) {
        if self.problem.take().is_some() {
            tracing::info!("the world store answers");
        }
    }

    pub(super) fn failed(&mut self, doing: &str, error: &WorldError) {
        if self.problem.is_none() {
            tracing::warn!(
                %error,
                "{doing} failed: the world store is tried again; requests go on, and nothing is lost meanwhile"
            );
        }
        self.problem = Some(format!("{doing}: {error}"));
    }

    /// At 1, 2, 4, 8 … of them: told at once, and never a flood.
    pub(super) fn implausible(&mut self, component: &Component) {
        self.logged.implausible += 1;
        if self.logged.implausible.is_power_of_two() {
            let Component { owner, cell, count, limit, .. } = component;
            tracing::error!(
                ?owner,
                ?cell,
                count,
                limit,
                rows = self.logged.implausible,
                "another region's count is more than 16 limits: it counts as 16 limits; look at that region"
            );
        }
    }

    fn log_policy(&mut self, ours: PublishPolicy, recorded: PublishPolicy) {
        if ours != recorded && !std::mem::replace(&mut self.logged.other_policy, true) {
            tracing::warn!(
                ?ours,
                ?recorded,
                "world.policy, world.floor or world.interval_ms differ from the values in the regions' database; the \
                 database's values are used"
            );
        }
    }

    fn log_namesakes(&mut self, namesakes: u32, region: &str, is_alone: bool) {
        // Processes without a store of their own are an owner each, whatever they are called.
        let is_alarm = namesakes > 0 && !is_alone;
        if is_alarm && !self.logged.namesakes {
            tracing::error!(
                region,
                namesakes,
                "another origin has this region's name: give every region a name of its own, and all nodes of one \
                 region the same origin.url"
            );
        }
        self.logged.namesakes = is_alarm;
    }

    pub(super) fn shown(
        &self,
        is_worker: bool,
        is_breaker_open: bool,
        breaker_opened: u64,
        cells_waiting: usize,
        cells_known: usize,
    ) -> WorkState {
        let joined = self.joined.as_ref();
        let lag = |joined: &JoinReply, member: &Member| RegionLag {
            region: member.region.clone(),
            owner: member.owner.0,
            is_active: member.is_active,
            is_self: member.owner == joined.me,
            seen_ago: joined.now.minus(member.seen),
        };
        let regions = joined.map(|joined| joined.membership.members.iter().map(|member| lag(joined, member)));
        WorkState {
            is_worker,
            is_connected: self.is_counted_in && self.has_read_all() && !is_breaker_open,
            owner: joined.map(|joined| joined.me.0),
            regions: regions.into_iter().flatten().collect(),
            membership_version: joined.map_or(0, |joined| joined.membership.version),
            namesakes: joined.filter(|_| self.logged.namesakes).map_or(0, |joined| joined.namesakes),
            is_breaker_open,
            breaker_opened,
            published_at: self.published_at,
            imported_at: self.imported_at,
            rows_in_last_import: self.rows_in_last_import,
            cells_waiting,
            cells_known,
            problem: self.problem.clone(),
        }
    }
}

impl WorldWorker {
    pub(super) fn joined(&mut self, joined: Result<JoinReply, WorldError>, now: Nanos) {
        self.record_store_reply(joined.is_ok(), now);
        let joined = match joined {
            Ok(joined) => joined,
            Err(error) => {
                self.status.failed("joining", &error);
                // The breaker makes it rarer.
                self.join_at = now.plus(IMPORT_EVERY);
                return;
            }
        };
        self.status.works();
        self.status.log_policy(self.options.policy, joined.policy);
        self.status.log_namesakes(joined.namesakes, &self.options.region, self.options.is_alone);
        self.pace.set_interval(joined.policy.interval.max(IMPORT_EVERY));
        if self.status.me() != Some(joined.me) {
            // As another owner, or for the first time: everything is read.
            (self.cursor, self.has_more, self.import_at) = (Cursor::default(), true, now);
            self.store_restarted();
        }
        let before = self.status.view();
        self.status.update_settled(&joined, now);
        self.status.joined = Some(joined);
        self.join_at = now.plus(self.status.joins_every(now));
        let after = self.status.view();
        if after != before {
            self.view_at = now;
        }
        let regions = |view: Option<WorldView>| view.map_or(0, |view| view.regions);
        if regions(after) > regions(before) {
            // Each may leave less unheard of than when its cells were last weighed.
            self.unwritten.extend(self.cells.reevaluate());
        }
    }
}

/// In thousandths, which a setting has.
fn thousandths(floor: f64) -> u16 {
    let rounded = (floor.clamp(0.0, 1.0) * 1_000.0).round();
    (0..=1_000_u16).find(|thousandths| f64::from(*thousandths) >= rounded).unwrap_or(1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Nanos = Nanos::from_secs(1_000);

    fn joined(version: u64, applied: u64, is_active: bool) -> JoinReply {
        let (owner, region) = (OwnerId(1), "eu".to_owned());
        let me = Member { owner, region, is_active, applied, seen: NOW, confirmed: NOW };
        let policy = PublishPolicy { publish: PublishThreshold::Headroom, interval: Nanos::from_secs(5) };
        let membership = Membership { version, members: vec![me] };
        JoinReply { me: owner, policy, membership, namesakes: 0, now: NOW }
    }

    #[test]
    fn a_region_says_seldom_that_it_is_here_once_nothing_has_changed_for_some_time() {
        let mut status = RegionStatus::default();
        let mut joins = |joined: JoinReply, now: Nanos| {
            status.update_settled(&joined, now);
            status.joined = Some(joined);
            status.joins_every(now)
        };
        let later = NOW.plus(STEADY_AFTER);
        assert_eq!(joins(joined(1, 1, true), NOW), JOIN_EVERY);
        assert_eq!(joins(joined(1, 1, true), later), JOIN_STEADY_EVERY);
        // Somebody came: all are asked often until they go by it, and for some time after that.
        assert_eq!(joins(joined(2, 1, true), later), JOIN_EVERY);
        assert_eq!(joins(joined(2, 2, false), later), JOIN_EVERY);
        assert_eq!(joins(joined(2, 2, true), later), JOIN_EVERY);
        assert_eq!(joins(joined(2, 2, true), later.plus(STEADY_AFTER)), JOIN_STEADY_EVERY);
        // A clock that was set back makes it no rarer.
        assert_eq!(joins(joined(2, 2, true), NOW), JOIN_EVERY);
    }
}
