//! The world tier: where regions agree on counts and quotas.
//!
//! Two traits: [`World`], and beside it, in the same databases, the [`RuleLog`]. A world store only keeps and hands out rows: what to publish, whom to believe and what
//! to do when it fails is the worker's and the reconciler's. No call waits longer than its deadline, and none
//! retries. Requests never wait for any of this.

mod memory;
mod quota;
mod rules;
mod sql;
mod store;

pub use memory::MemoryWorld;
pub use quota::{
    AcknowledgedSlice, Acknowledgement, Demand, SliceGrants, SliceHolding, SliceRow, Slices, Survey,
};

pub use rules::{
    AUTHOR_CHARS_MAX, ENTRIES_AT_ONCE_MAX, ENTRY_BYTES_MAX, HistoryPage, NewRuleLogEntry, REASON_CHARS_MAX,
    Remainder, RuleItem, RuleItemId, RuleItemsPage, RuleLog, RuleLogEntry, RuleLogEntrySize, RuleLogSubject,
    Summary,
};
use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
pub use tidegate_core::CellId;
use tidegate_core::Nanos;

use sql::LogReadSet;
pub use sql::{SqlOptions, SqlWorld, WorldUrl, WorldUrlError};
pub use store::WorldStore;
pub use tidegate_core::SliceSize;

/// The longest name of a region, in characters.
pub const REGION_NAME_MAX: usize = 48;
/// The job whose leader may [`World::grant`].
pub const RECONCILER: &str = "reconciler";
/// How long a region counts as heard of lately, for [`JoinReply::namesakes`].
pub const NAMESAKE_TTL: Nanos = Nanos::from_secs(60);
/// A demand that isn't reported again is forgotten after this.
pub const DEMAND_TTL: Nanos = Nanos::from_secs(30);
/// Rows of counts are deleted so long after they expired: clocks differ.
pub const COUNT_RETENTION: Nanos = Nanos::from_secs(10);
/// How long a slice is leased for.
pub const SLICE_LEASE: Nanos = Nanos::from_secs(15);
/// A region that isn't acknowledging goes back to its even part after two leases and this: what may pass between
/// a worker's look at its origin's clock and its read of the slices, and what clocks differ by meanwhile.
pub const RISE_MARGIN: Nanos = Nanos::from_secs(15);
/// Slices are deleted so long after they ran out: far longer than anybody goes by one that did.
pub const SLICE_RETENTION: Nanos = Nanos::from_secs(3600);
/// How many rows [`World::delete_expired`] deletes of a table, at most.
pub const DELETED_MAX: usize = 1000;
/// How many rows [`World::merge_log`] writes, about, before it leaves the rest to the next call.
pub const MERGED_MAX: usize = 50_000;
/// The largest number that a store keeps: what every database has.
pub const STORED_MAX: u64 = i64::MAX.unsigned_abs();

/// The owner of components in the world tier: one origin, whatever its region is called. Follows from the origin's id
/// (see [`OwnerId::of_origin`]), so that a database which lost who joined gives nobody the id of somebody else.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OwnerId(pub u32);

impl OwnerId {
    /// Ids from here on follow from origins. Earlier releases number owners from 1, and go on doing so beside this one.
    const FIRST_OF_ORIGINS: u32 = 1 << 30;

    /// Returns the id of an origin that joins. Where another origin has that id already, which is unlikely below some
    /// ten thousand origins, it is the next free one.
    pub(crate) fn of_origin(origin: u64, is_taken: impl Fn(OwnerId) -> bool) -> OwnerId {
        // The finaliser of SplitMix64: ids of origins needn't be spread.
        let mixed = (origin ^ (origin >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let mixed = u32::try_from((mixed ^ (mixed >> 31)) >> 32).unwrap_or(u32::MAX);
        let nth = |step: u32| {
            let offset = mixed.wrapping_add(step) & (Self::FIRST_OF_ORIGINS - 1);
            OwnerId(Self::FIRST_OF_ORIGINS | offset)
        };
        (0..=u32::MAX).map(nth).find(|id| !is_taken(*id)).unwrap_or(nth(0))
    }
}

/// Whose limit it is, for people who read the tables. Nothing is ever found by it, and what is too long for its
/// column is cut.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct KeyName {
    pub tenant: String,
    pub namespace: String,
    pub rule: String,
    pub identifier: String,
}

/// A region's count of a cell, to be published: absolute, merged by max (INV-1).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    pub cell: CellId,
    pub count: u64,
    /// The limit that the region goes by.
    pub limit: u64,
    /// When nobody needs the row any more: `(sequence + 2) × duration`.
    pub expires: Nanos,
    pub name: Option<Arc<KeyName>>,
}

/// What came of publishing. Rows that aren't named here were accepted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PublishReply {
    /// The rows, by their index, that the store refuses, each for a reason of its own.
    pub refused: Vec<(usize, String)>,
}

/// What came of merging the log.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MergeReport {
    /// How many rows were written: [`MERGED_MAX`] or more means that there may be others.
    pub rows: usize,
    /// Why the table wouldn't have others: those are in the log alone.
    pub refused: Vec<String>,
}

impl Row {
    /// Why no store can keep it, if so.
    pub(crate) fn problem(&self) -> Option<String> {
        let numbers = [("count", self.count), ("limit", self.limit), ("sequence", self.cell.sequence.0)];
        let (name, number) = numbers.into_iter().find(|(_, number)| *number > STORED_MAX)?;
        Some(format!(
            "the {name} of key {:?} is {number}, and a store keeps up to {STORED_MAX}",
            self.cell.key
        ))
    }
}

/// An owner's count of a cell, as it was imported.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Component {
    pub owner: OwnerId,
    pub cell: CellId,
    pub count: u64,
    pub limit: u64,
    pub expires: Nanos,
}

/// Up to where changes were imported. The first import begins with the default: everything.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Cursor {
    /// Everything that changed before this, in the store's own time.
    pub(crate) changed: Nanos,
    /// And of what changed at that instant or later, this much.
    pub(crate) after: After,
    /// How often a store without a log had been written to: one that was written to less often went back.
    pub(crate) writes: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) enum After {
    #[default]
    Nothing,
    /// Up to this row: any number of rows may share an instant.
    Row(CellId, OwnerId),
    /// These entries of a store's log.
    Entries(LogReadSet),
}

impl Cursor {
    /// From here on, and everything that changed so long before. Nobody needs to: a cursor knows what it hasn't
    /// seen yet of writers who were overtaken by others. It is for whoever trusts no clock and no counter.
    #[must_use]
    pub fn back(self, overlap: Nanos) -> Cursor {
        if overlap == Nanos::ZERO {
            return self;
        }
        Cursor { changed: self.changed.minus(overlap), after: After::Nothing, ..self }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImportPage {
    /// Changed at or after the cursor. A row may come again: everything is merged by max.
    pub components: Vec<Component>,
    /// Where the next import begins: behind this page, or, when there is no more, at the store's present as of
    /// this read, which follows its clock also when that is set back. See [`Cursor::back`].
    pub next: Cursor,
    /// There is more than fits a page.
    pub has_more: bool,
    /// The store doesn't know the cursor any more: it lost data, an older copy took its place, or the reader was away
    /// for long. This is the first page of everything.
    pub is_restart: bool,
}

/// What a store has of some cells of one owner.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StoredCounts {
    /// In the order of the cells; 0 for a cell without a row.
    pub counts: Vec<u64>,
    /// Rows that were published within so long before this read may be missing here and be in the store's log.
    pub lag: Nanos,
}

/// The policy that all regions share. The first region's settings are recorded; regions with other settings use those.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PublishPolicy {
    pub publish: PublishThreshold,
    pub interval: Nanos,
}

/// When a region publishes a count.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum PublishThreshold {
    /// By the credit of what is left of a limit.
    Headroom,
    /// From this part of the limit on.
    Floor(f64),
}

/// "This region is here."
#[derive(Clone, PartialEq, Debug)]
pub struct JoinRequest {
    /// A label: an origin whose region is called otherwise by now keeps its owner, under the new name.
    pub region: String,
    /// Which origin its counts are in: the same for all nodes of the region.
    pub origin: u64,
    pub fingerprint: u64,
    pub policy: PublishPolicy,
    /// The membership that this region divides limits by, on all its nodes: the last that it was told and all
    /// of them have heard of.
    pub applied: u64,
    /// The newest membership that the region knows of. A store that knows only older ones lost data, and goes on
    /// behind this one: nodes ignore what is older than what they go by.
    pub known: u64,
    /// It stops for good.
    pub leaves: bool,
}

impl JoinRequest {
    /// Whether the name is one that every database tells from all others: some ignore spaces at the end.
    pub(crate) fn check(&self) -> Result<(), WorldError> {
        let length = self.region.chars().count();
        let is_fine = |c: char| !c.is_control() && !c.is_whitespace();
        if (1..=REGION_NAME_MAX).contains(&length) && self.region.chars().all(is_fine) {
            return Ok(());
        }
        let message = format!(
            "{:?} can't be a region's name; set `region` to 1 to {REGION_NAME_MAX} characters without spaces",
            self.region
        );
        Err(WorldError::Refused { message })
    }
}

/// What a region is told when it says that it is here.
#[derive(Clone, PartialEq, Debug)]
pub struct JoinReply {
    pub me: OwnerId,
    pub policy: PublishPolicy,
    pub membership: Membership,
    /// Regions with this one's name on another origin that were heard of lately: an alarm.
    pub namesakes: u32,
    /// The store's own present.
    pub now: Nanos,
}

/// Who shares a limit. Changes by one region at a time; its version rises with every change.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Membership {
    pub version: u64,
    /// In the order of their ids. A member that isn't active yet holds nothing of any limit.
    pub members: Vec<Member>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    pub owner: OwnerId,
    pub region: String,
    /// Everybody else divides limits by this membership already, or by a larger one.
    pub is_active: bool,
    /// The membership that it divides by.
    pub applied: u64,
    /// When it was last heard of, in the store's time.
    pub seen: Nanos,
    /// When what it acknowledged was read, in the store's time: since then, all its nodes went by those slices.
    pub confirmed: Nanos,
}

/// Who leads, for one job. Every change of leader raises the term: what an older one writes is refused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Term(pub u64);

/// A pending reply of the world store.
pub type WorldFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, WorldError>> + Send + 'a>>;

/// The call failed as a whole. What was sent may or may not have been written.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WorldError {
    #[error("no answer within {waited_ms} ms")]
    Timeout { waited_ms: u64 },
    #[error("not connected: {cause}")]
    Unreachable { cause: String },
    #[error("the store refused: {message}")]
    Refused { message: String },
    #[error(
        "the store was set up with another fleet secret (its fingerprint is {theirs:016x}, ours {ours:016x}); \
         give all nodes of all regions the same cluster.secret_file"
    )]
    OtherSecret { theirs: u64, ours: u64 },
    /// The membership, or the revision, isn't the one that was decided by; nothing was written.
    #[error("somebody was faster (it is at version {theirs}); survey again")]
    Outdated { theirs: u64 },
    /// Another one leads since.
    #[error("another leader has taken over (term {theirs})")]
    Deposed { theirs: u64 },
}

pub trait World: Debug + Send + Sync + 'static {
    /// Says that a region is here, and asks who else is. A region that isn't a member becomes one, which isn't
    /// active yet unless nobody else is; one that leaves holds nothing from then on and was never `seen`: it is given
    /// up by the reconciler, because the others' even parts grow by that (it is at once when it is the only one).
    /// Every change raises the membership's version.
    fn join<'a>(&'a self, joining: &'a JoinRequest) -> WorldFuture<'a, JoinReply>;

    /// Says an owner's counts, each merged by max.
    fn publish<'a>(&'a self, owner: OwnerId, rows: &'a [Row]) -> WorldFuture<'a, PublishReply>;

    /// What changed since the cursor, of all owners; a page of it.
    fn import(&self, since: Cursor) -> WorldFuture<'_, ImportPage>;

    /// What an owner's rows of these cells are, in the table that who comes from nothing reads: an owner finds out by
    /// it what the store lost.
    fn stored_counts<'a>(&'a self, owner: OwnerId, cells: &'a [CellId]) -> WorldFuture<'a, StoredCounts>;

    /// Both, in this order, in one round trip where a store can: what was just published is read back with what the
    /// others have published meanwhile.
    fn publish_and_import<'a>(
        &'a self,
        owner: OwnerId,
        rows: &'a [Row],
        since: Cursor,
    ) -> WorldFuture<'a, (PublishReply, ImportPage)> {
        Box::pin(async move {
            let published = self.publish(owner, rows).await?;
            Ok((published, self.import(since).await?))
        })
    }

    /// Writes what publishes left in the store's log, if it has one, into its table of counts, where people and those
    /// who come from nothing read it. One publisher at a time is enough; several at once do no harm.
    fn merge_log(&self) -> WorldFuture<'_, MergeReport>;

    /// Deletes rows that nobody needs any more, a small batch of them. Says how many: [`DELETED_MAX`] or more
    /// means that there may be others.
    fn delete_expired(&self) -> WorldFuture<'_, u64>;

    /// Takes or keeps the lead of a job for `lease`, if nobody else has it. A lease of 0 gives it up.
    fn lead<'a>(&'a self, job: &'a str, holder: u64, lease: Nanos) -> WorldFuture<'a, Option<Term>>;

    /// Writes what a region's callers asked for lately. Replaces what it wrote before, key by key.
    fn report<'a>(&'a self, owner: OwnerId, demands: &'a [Demand]) -> WorldFuture<'a, ()>;

    /// The slices that an owner holds by the reconciler's last word.
    fn slices(&self, owner: OwnerId) -> WorldFuture<'_, Slices>;

    /// All nodes of a region go by what was read then, or later. The owner is `confirmed` as of the read, however
    /// late this comes.
    fn acknowledge<'a>(&'a self, owner: OwnerId, said: &'a Acknowledgement) -> WorldFuture<'a, ()>;

    /// Everything that the reconciler decides by, in one snapshot.
    fn survey(&self) -> WorldFuture<'_, Survey>;

    /// Writes slices, and the membership if it changed, if `term` still leads as [`RECONCILER`]: all or nothing.
    /// A slice of an older generation than what is there is ignored, one of the same renews it; what was
    /// acknowledged stays so. Of a member, only who it is and whether it is active is written.
    fn grant<'a>(&'a self, term: Term, granted: &'a SliceGrants) -> WorldFuture<'a, ()>;
}
