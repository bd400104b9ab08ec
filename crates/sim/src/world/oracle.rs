//! The oracles of overshoot and of denials over all regions.
//!
//! A perfect limiter would count what all regions admit in a cell, and stop at the limit. Regions may go beyond it by
//! what the accounts of the cell hold, and by nothing else:
//!
//! | account     | what it holds |
//! |-------------|---------------|
//! | region      | units that a region's nodes admitted and its store, or the node that decided, didn't know of |
//! | unpublished | units that a region's store counted and hadn't published when another region admitted one |
//! | in flight   | units that were in the world store, and not yet in the store of the region that admitted one |
//! | stale       | units of other regions that a region's store knew of, and the node that decided didn't |
//! | departed    | units that the world store lost of a region that is gone for good |
//! | lost        | units that the world store lost, until their region has published them again |
//! | unverified  | units admitted while a region's store couldn't be asked |
//! | reported    | units charged after the fact, whatever the limit says |
//!
//! Nothing is excused by when it happened. That what was lost is published again is what the oracle of conservation
//! sees to.

use super::ledger::WorldLedger;
use crate::chaos::describe;
use crate::oracle::How;
use crate::scenario::KeyPlan;
use crate::simulation::{Admitted, CellView, Denied, Simulation, WorkerGrant};
use crate::trace::AnswerPath;
use std::collections::BTreeMap;
use tidegate_core::world::world_credit;
use tidegate_core::{CellId, Class, Nanos, Sequence};
use tidegate_node::GivenPolicy;
use tidegate_world::WorldStore;

/// A caller who is told to wait no longer may wait for a lease, or for the next publish.
const SHORT_WAIT: Nanos = Nanos::from_millis(100);

#[derive(Debug, Default)]
pub(super) struct WorldOracle {
    cells: BTreeMap<(usize, Sequence), CellAccounts>,
}

#[derive(Clone, Debug, Default)]
struct CellAccounts {
    /// By region.
    admitted: BTreeMap<usize, u64>,
    unverified: u64,
    reported: u64,
    unseen: UnseenAdmissions,
}

/// What was admitted and not known where something was decided: the most of each.
#[derive(Clone, Copy, Debug, Default)]
struct UnseenAdmissions {
    region: u64,
    unpublished: u64,
    in_flight: u64,
    stale: u64,
    departed: u64,
    lost: u64,
}

impl UnseenAdmissions {
    fn sum(&self) -> u64 {
        self.region + self.unpublished + self.in_flight + self.stale + self.departed + self.lost
    }

    fn each(self, other: UnseenAdmissions, merge: impl Fn(u64, u64) -> u64) -> UnseenAdmissions {
        UnseenAdmissions {
            region: merge(self.region, other.region),
            unpublished: merge(self.unpublished, other.unpublished),
            in_flight: merge(self.in_flight, other.in_flight),
            stale: merge(self.stale, other.stale),
            departed: merge(self.departed, other.departed),
            lost: merge(self.lost, other.lost),
        }
    }
}

impl CellAccounts {
    fn sum(&self) -> u64 {
        self.unseen.sum() + self.unverified + self.reported
    }

    fn admitted(&self) -> u64 {
        self.admitted.values().sum()
    }
}

/// Everything that there is to know.
#[derive(Clone, Copy)]
pub(super) struct Truth<'a> {
    pub(super) regions: &'a [Simulation],
    pub(super) store: &'a WorldStore,
    pub(super) books: &'a WorldLedger,
}

impl Truth<'_> {
    fn plan(&self, key: usize) -> &KeyPlan {
        &self.regions[0].keys()[key]
    }

    /// What all regions spent of a cell, where granted is spent.
    fn spent(&self, plan: &KeyPlan, sequence: Sequence) -> u64 {
        self.regions.iter().map(|region| region.spent(plan.id(), sequence)).sum()
    }

    /// What somebody in a region doesn't know of a cell.
    fn unseen(&self, region: usize, cell: &CellId, view: CellView) -> UnseenAdmissions {
        let spent = |region: usize| self.regions[region].spent(cell.key, cell.sequence);
        let mut unseen = UnseenAdmissions {
            region: spent(region).saturating_sub(view.regional),
            ..UnseenAdmissions::default()
        };
        let mut rows = 0;
        for other in (0..self.regions.len()).filter(|other| *other != region) {
            let published = self.books.published(other, cell);
            let counted = self.regions[other].counted(cell).max(published);
            let row = self.books.row(self.store, other, cell);
            unseen.region += spent(other).saturating_sub(counted);
            unseen.unpublished += counted - published;
            rows += row;
            let missing = published.saturating_sub(row);
            if self.regions[other].is_inhabited() {
                unseen.lost += missing;
            } else {
                unseen.departed += missing;
            }
        }
        let told = self.regions[region].cell_at_store(cell).world;
        unseen.in_flight = rows.saturating_sub(told);
        unseen.stale = told.saturating_sub(view.world);
        unseen
    }

    /// The same of a cell and of what still weighs of the one before.
    fn unseen_with_previous(
        &self,
        region: usize,
        key: usize,
        at: (Sequence, Nanos),
        views: [CellView; 2],
    ) -> UnseenAdmissions {
        let (sequence, now) = at;
        let plan = self.plan(key);
        let of = |sequence, view| self.unseen(region, &cell_of(plan, sequence), view);
        let before = of(before(sequence), views[1]);
        let faded = before.each(before, |count, _| faded(plan, count, sequence, now).unwrap_or(0));
        of(sequence, views[0]).each(faded, |count, more| count + more)
    }
}

impl WorldOracle {
    /// A region's store granted something: what it didn't know then may be admitted beyond the limit later.
    pub(super) fn granted(
        &mut self,
        region: usize,
        granted: &WorkerGrant,
        truth: Truth<'_>,
    ) -> Result<(), String> {
        let WorkerGrant { key, sequence, regions, first, now } = *granted;
        let Some(key) = truth.regions[region].index_of(key) else { return Ok(()) };
        let plan = truth.plan(key);
        let at_store = |sequence| truth.regions[region].cell_at_store(&cell_of(plan, sequence));
        let [current, previous] = [at_store(sequence), at_store(before(sequence))];
        let views = [current, previous].map(|cell| CellView { regional: cell.total, world: cell.world });
        self.saw_less(key, sequence, truth.unseen_with_previous(region, key, (sequence, now), views));
        let unpublished = current.total.saturating_sub(current.published);
        let bound = world_credit(plan.size(), 0, regions).max(first);
        if plan.class == Class::Abuse && regions > 1 && unpublished > bound {
            return Err(format!(
                "credit: region {region} was granted something of key {key} ({}) with {unpublished} unpublished, and \
                 {bound} is the bound",
                describe(plan)
            ));
        }
        Ok(())
    }

    fn saw_less(&mut self, key: usize, sequence: Sequence, unseen: UnseenAdmissions) {
        let accounts = self.cells.entry((key, sequence)).or_default();
        accounts.unseen = accounts.unseen.each(unseen, u64::max);
    }

    /// Counts an admission. An error says what it was beyond, and what the accounts hold.
    pub(super) fn admitted(
        &mut self,
        region: usize,
        unit: &Admitted,
        truth: Truth<'_>,
    ) -> Result<(), String> {
        let Admitted { key, cost, how, sequence, now, views } = *unit;
        let accounts = self.cells.entry((key, sequence)).or_default();
        *accounts.admitted.entry(region).or_default() += cost;
        match how {
            How::Unverified => accounts.unverified += cost,
            How::Reported => accounts.reported += cost,
            How::Local | How::Asked => {
                let unseen = truth.unseen_with_previous(region, key, (sequence, now), views);
                self.saw_less(key, sequence, unseen);
            }
        }
        if how == How::Reported { Ok(()) } else { self.check(region, key, (sequence, now), truth) }
    }

    fn check(
        &self,
        region: usize,
        key: usize,
        at: (Sequence, Nanos),
        truth: Truth<'_>,
    ) -> Result<(), String> {
        let plan = truth.plan(key);
        let (sequence, now) = at;
        let none = CellAccounts::default();
        let of = |sequence| self.cells.get(&(key, sequence)).unwrap_or(&none);
        let carried = faded(plan, of(before(sequence)).sum(), sequence, now).unwrap_or(0);
        let beyond = self.used(key, at, plan).saturating_sub(plan.size());
        let held = of(sequence).sum() + carried + rounding(plan, truth.regions.len());
        if beyond > held {
            return Err(format!(
                "overshoot: region {region} admits {beyond} units of key {key} ({}) beyond the limit of all regions; the \
                 accounts hold {held} of them: {:?}, {carried} from the cell before",
                describe(plan),
                of(sequence)
            ));
        }
        Ok(())
    }

    /// What a perfect limiter over all regions says is in use.
    pub(super) fn used(&self, key: usize, (sequence, now): (Sequence, Nanos), plan: &KeyPlan) -> u64 {
        let admitted = |sequence| self.cells.get(&(key, sequence)).map_or(0, CellAccounts::admitted);
        admitted(sequence) + faded(plan, admitted(before(sequence)), sequence, now).unwrap_or(0)
    }

    /// What a region admitted in a cell.
    pub(super) fn admitted_by(&self, region: usize, key: usize, sequence: Sequence) -> u64 {
        let accounts = self.cells.get(&(key, sequence));
        accounts.and_then(|accounts| accounts.admitted.get(&region)).copied().unwrap_or(0)
    }

    /// A denial is right by what all regions spent.
    pub(super) fn denied(&self, region: usize, denied: &Denied, truth: Truth<'_>) -> Result<(), String> {
        let Denied { key, cost, path, sequence, now, retry_after } = *denied;
        let plan = truth.plan(key);
        let waits_shortly = retry_after.is_some_and(|wait| wait <= SHORT_WAIT);
        if path == AnswerPath::Unverified || waits_shortly && (plan.is_hot || plan.class == Class::Abuse) {
            return Ok(());
        }
        let of_cell = |sequence| {
            truth.spent(plan, sequence) + truth.books.counted_twice(truth.store, &cell_of(plan, sequence))
        };
        let used = of_cell(sequence) + faded(plan, of_cell(before(sequence)), sequence, now).unwrap_or(0);
        if used + cost + rounding(plan, truth.regions.len()) <= plan.size() {
            return Err(format!(
                "a denial that is wrong: region {region} denies {cost} of key {key} ({}), of which all regions together \
                 spent {used}",
                describe(plan)
            ));
        }
        Ok(())
    }
}

pub(super) fn cell_of(plan: &KeyPlan, sequence: Sequence) -> CellId {
    CellId { key: plan.id(), epoch: 0, sequence }
}

pub(super) fn before(sequence: Sequence) -> Sequence {
    Sequence(sequence.0.wrapping_sub(1))
}

/// What is left of a count of the cell before; `None` where nothing is carried over.
pub(super) fn faded(plan: &KeyPlan, count: u64, sequence: Sequence, now: Nanos) -> Option<u64> {
    let GivenPolicy::Sliding { period, .. } = plan.policy else { return None };
    let rest = period.cell(sequence).end.minus(now).min(period.length());
    let faded = u128::from(count) * u128::from(rest.get()) / u128::from(period.get());
    u64::try_from(faded).ok()
}

/// Each region rounds what fades, and its clock is a little off its nodes'.
pub(super) fn rounding(plan: &KeyPlan, regions: usize) -> u64 {
    match plan.policy {
        GivenPolicy::Sliding { .. } => 2 + plan.drawn_ahead() + u64::try_from(regions).unwrap_or(u64::MAX),
        _ => 0,
    }
}
