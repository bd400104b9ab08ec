//! Carries what the world's logic says: nodes' publish requests to the origin, the worker's steps to the origin and the
//! world store, and the election.
//!
//! Decides nothing. Every step comes back to the logic, done or failed. A world store that hangs holds up nothing
//! but the worker.

mod quotas;

use crate::clock::Clock;
use crate::driver::calm_interval;
use crate::engine::Engine;
use crate::region_driver::RegionDriver;
use crate::spans::{self, Span, SpanKind};
use crate::world::{Step, StepResult, WorkState, WorkerOptions, WorldNode, WorldWorker, next_turn};
use parking_lot::Mutex;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tidegate_control::Leader;
use tidegate_core::Nanos;
use tidegate_origin::{LeaderCandidate, LeaderRequest, OriginId};
use tidegate_world::{Cursor, ImportPage, JoinRequest, OwnerId, PublishReply, Row, World, WorldError};
use tokio::sync::Notify;
use tokio::time::timeout;

/// A worker's death is noticed within 2.5 s: its lease, and the next try of another node.
const LEASE: Nanos = Nanos::from_secs(2);
const LEAD_EVERY: Duration = Duration::from_millis(500);
/// A node that has just started lets those that know speak first, so often: 1.5 s.
const SILENCE_MAX: u32 = 3;
/// How long publish requests wait for others to go with them.
const ENQUEUE_EVERY: Duration = Duration::from_millis(10);
const PUBLISH_REQUESTS_PER_CALL: usize = 1_000;
/// A call to the world store that takes longer has failed, whatever the store's own deadlines are.
const STORE_TIMEOUT: Duration = Duration::from_secs(10);
/// Merging the store's log is many statements, each with a deadline of the store's.
const MERGE_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a worker that stops tries to publish what is left.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(2);

/// Which origin this is, as far as it is known.
#[derive(Debug, Default)]
struct KnownOrigin {
    id: Option<u64>,
    /// How often nobody knew.
    silence: u32,
}

pub struct WorldDriver {
    region: Arc<RegionDriver>,
    engine: Arc<Engine>,
    clock: Arc<Clock>,
    store: Arc<dyn World>,
    worker: Mutex<WorldWorker>,
    /// Something happened that the worker may have to follow.
    wake: Notify,
    origin: Mutex<KnownOrigin>,
    /// No other node shares the origin.
    is_alone: bool,
    /// The lease isn't renewed any more.
    is_leaving: AtomicBool,
    interval: Duration,
    quota_worker: Mutex<crate::quota::QuotaWorker>,
    reconciler: Arc<Leader>,
}

impl fmt::Debug for WorldDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorldDriver")
            .field("worker", &self.worker)
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}

impl WorldDriver {
    /// For an engine that shares its counts with other regions; `None` for one that doesn't.
    pub fn new(
        region: Arc<RegionDriver>,
        engine: Arc<Engine>,
        clock: Arc<Clock>,
        store: Arc<dyn World>,
        options: WorkerOptions,
    ) -> Option<Arc<Self>> {
        engine.world()?;
        let interval = Duration::from_nanos(options.policy.interval.get());
        let is_alone = options.is_alone;
        let worker = Mutex::new(WorldWorker::new(options, clock.now().now));
        let (wake, origin) = (Notify::new(), Mutex::default());
        let reconciler = Leader::new(store.clone(), RandomState::new().hash_one("reconciler"));
        let quota_worker = Mutex::default();
        Some(Arc::new(WorldDriver {
            region,
            engine,
            clock,
            store,
            worker,
            wake,
            origin,
            is_alone,
            is_leaving: AtomicBool::new(false),
            interval,
            quota_worker,
            reconciler,
        }))
    }

    fn node(&self) -> &WorldNode {
        // `new` made sure.
        self.engine.world().unwrap_or_else(|| unreachable!("a driver of an engine without a world"))
    }

    fn now(&self) -> Nanos {
        self.clock.now().now
    }

    /// How the work stands: of the worker; other nodes know only what their origin tells them.
    pub fn state(&self) -> WorkState {
        self.worker.lock().state()
    }

    /// Until the future is dropped. None of these waits for another.
    pub async fn run(self: Arc<Self>) {
        let counts = async {
            tokio::join!(self.run_leading(), self.run_worker(), self.run_enqueue(), self.run_scan())
        };
        tokio::join!(counts, self.run_reports(), self.run_slices(), self.run_reconciler());
    }

    /// Takes the lead when nobody has it, and keeps it.
    async fn run_leading(&self) {
        let mut tick = calm_interval(LEAD_EVERY);
        let mut led_until = Nanos::ZERO;
        loop {
            tick.tick().await;
            if self.is_leaving.load(Ordering::Relaxed) {
                return;
            }
            let asked_at = self.now();
            let leading = match self.region.is_foreign() {
                true => None,
                false => self.lead(LeaderRequest::Lead { lease: LEASE }).await,
            };
            let now = self.now();
            match leading {
                Some(leading) => {
                    led_until = if leading.is_leader { asked_at.plus(LEASE) } else { Nanos::ZERO };
                    self.worker.lock().led(Some(leading), now);
                }
                // While the lease lasts nobody else has it.
                None if now < led_until && led_until.minus(now) <= LEASE => {}
                None => self.worker.lock().led(None, now),
            }
            self.wake.notify_one();
        }
    }

    async fn lead(&self, request: LeaderRequest) -> Option<tidegate_origin::LeaderStatus> {
        let node = self.engine.shared()?.region.node();
        let lead = LeaderCandidate { node, request, proposed: self.proposed() };
        match self.region.origin().lead(lead).await {
            Ok(leading) => {
                let mut origin = self.origin.lock();
                match leading.origin {
                    // An origin that forgets it is told again which one it was.
                    Some(known) => origin.id = Some(known.id),
                    None => origin.silence += 1,
                }
                Some(leading)
            }
            Err(error) => {
                tracing::debug!(%error, "the origin doesn't say who leads");
                None
            }
        }
    }

    /// What the origin is told if it doesn't know which one it is.
    fn proposed(&self) -> Option<OriginId> {
        let random = || RandomState::new().hash_one("origin");
        let origin = self.origin.lock();
        let id = origin.id.or_else(|| (origin.silence >= SILENCE_MAX || self.is_alone).then(random))?;
        // Every try is another life: the one that is taken says that everything was forgotten.
        Some(OriginId { id, incarnation: random() })
    }

    async fn run_worker(self: &Arc<Self>) {
        loop {
            self.work();
            let now = self.now();
            let wait = self.worker.lock().wakes_at(now).minus(now);
            let pause = tokio::time::sleep(Duration::from_nanos(wait.get()).min(LEAD_EVERY));
            tokio::select! {
                () = self.wake.notified() => {}
                () = pause => {}
            }
        }
    }

    /// Begins what the worker says.
    fn work(self: &Arc<Self>) {
        let steps = self.worker.lock().steps(self.now(), self.node().counters());
        for step in steps {
            tokio::spawn(self.clone().perform(step));
        }
    }

    async fn perform(self: Arc<Self>, step: Step) {
        let origin = self.region.origin();
        let store = &self.store;
        let done = match step {
            Step::Join(joining) => StepResult::Joined(in_time(store.join(&joining)).await),
            Step::DequeuePublishRequests { most } => {
                StepResult::PublishRequests(origin.dequeue_publish_requests(most).await)
            }
            Step::Totals(cells) => StepResult::Totals(origin.totals(&cells).await),
            Step::Publish(owner, rows) => {
                let started = self.now();
                let along = self.worker.lock().import_with_publish(started);
                let (published, imported) = publish(store.as_ref(), owner, &rows, along).await;
                self.trace_publish(rows.len(), published.is_err(), started);
                if let Some(imported) = imported {
                    self.worker.lock().done(
                        StepResult::Published(published),
                        self.now(),
                        self.node().counters(),
                    );
                    StepResult::Imported(self.take_in_turns(imported).await)
                } else {
                    StepResult::Published(published)
                }
            }
            Step::Import(since) => {
                let imported = in_time(store.import(since)).await;
                StepResult::Imported(self.take_in_turns(imported).await)
            }
            Step::Write(cells) => StepResult::Written(origin.import(&cells, self.now()).await),
            Step::PublishView(view) => StepResult::PublishedView(origin.publish_world_view(view).await),
            Step::PublishResets(resets) => {
                StepResult::PublishedResets(self.region.share_resets(resets).await)
            }
            Step::Check(owner, cells) => {
                StepResult::Checked(in_time(store.stored_counts(owner, &cells)).await)
            }
            Step::Merge => StepResult::Merged(within(MERGE_TIMEOUT, store.merge_log()).await),
            Step::Delete => StepResult::Deleted(in_time(store.delete_expired()).await),
        };
        self.worker.lock().done(done, self.now(), self.node().counters());
        self.wake.notify_one();
    }

    /// Takes all rows of a page but for those of its last turn.
    async fn take_in_turns(
        &self,
        imported: Result<ImportPage, WorldError>,
    ) -> Result<ImportPage, WorldError> {
        let mut page = imported?;
        self.worker.lock().page_begins(&mut page);
        while let Some(rows) = next_turn(&mut page) {
            self.worker.lock().imported_some(&rows, self.now(), self.node().counters());
            tokio::task::yield_now().await;
        }
        Ok(page)
    }

    fn trace_publish(&self, rows: usize, is_error: bool, started: Nanos) {
        if spans::is_recording() {
            let span = Span::root("publish to the world's store", SpanKind::Client, started);
            let attributes = vec![("tidegate.rows", rows.to_string())];
            spans::record(Span { ended: self.now(), is_error, attributes, ..span });
        }
    }

    /// Names the cells that the others should hear of.
    async fn run_enqueue(&self) {
        let mut tick = calm_interval(ENQUEUE_EVERY);
        loop {
            tick.tick().await;
            if self.node().has_due() {
                self.enqueue().await;
            }
        }
    }

    async fn enqueue(&self) {
        let node = self.node();
        let requests = node.take_due(PUBLISH_REQUESTS_PER_CALL);
        match self.region.origin().enqueue_publish_requests(&requests).await {
            Ok(refused) => {
                let count = u64::try_from(requests.len()).unwrap_or(u64::MAX);
                node.counters().publish_requests.add(count.saturating_sub(refused));
                node.counters().publish_requests_refused.add(refused);
            }
            Err(error) => {
                tracing::debug!(%error, "letters to the world worker couldn't be delivered");
                node.put_back(requests);
            }
        }
    }

    /// Looks at all keys of the world once in an interval: a lost publish request is written again.
    async fn run_scan(&self) {
        let mut tick = calm_interval(self.interval);
        loop {
            tick.tick().await;
            self.scan();
        }
    }

    fn scan(&self) {
        let Some(sharing) = self.engine.shared() else { return };
        for key in self.node().scan(self.now()) {
            sharing.region.mark_unpublished(&sharing.table, key);
        }
    }

    /// Publishes what is left of the region's counts, if this node is its worker, and lets another one be it.
    pub async fn leave(self: Arc<Self>) {
        self.is_leaving.store(true, Ordering::Relaxed);
        if self.worker.lock().is_leader() {
            let rest = self.node().unpublished_requests(self.now());
            self.worker.lock().take_publish_requests(rest, self.now(), self.node().counters());
            let everything_published = async {
                while !self.worker.lock().is_settled() {
                    self.work();
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            if timeout(LEAVE_TIMEOUT, everything_published).await.is_err() {
                tracing::warn!(
                    "the world store can't be reached: other nodes of the region publish the rest"
                );
            }
            let leaving = self.last_word();
            if let Some(leaving) = leaving {
                // Whoever can't be told finds out by its silence.
                let _ = timeout(LEAVE_TIMEOUT, self.store.join(&leaving)).await;
            }
        }
        self.leave_quotas().await;
        self.lead(LeaderRequest::GiveUp).await;
    }

    /// What is said in the end, if anything; the worker begins nothing after it.
    fn last_word(&self) -> Option<JoinRequest> {
        let mut worker = self.worker.lock();
        let leaving = worker.leaving();
        worker.led(None, self.now());
        leaving
    }
}

/// Publishes, and asks for changes since `along` with it: a failure is both's.
async fn publish(
    store: &dyn World,
    owner: OwnerId,
    rows: &[Row],
    along: Option<Cursor>,
) -> (Result<PublishReply, WorldError>, Option<Result<ImportPage, WorldError>>) {
    let Some(since) = along else { return (in_time(store.publish(owner, rows)).await, None) };
    match in_time(store.publish_and_import(owner, rows, since)).await {
        Ok((published, imported)) => (Ok(published), Some(Ok(imported))),
        Err(error) => (Err(error.clone()), Some(Err(error))),
    }
}

/// The store's answer, or that it took too long.
async fn in_time<T>(reply: tidegate_world::WorldFuture<'_, T>) -> Result<T, WorldError> {
    within(STORE_TIMEOUT, reply).await
}

async fn within<T>(length: Duration, reply: tidegate_world::WorldFuture<'_, T>) -> Result<T, WorldError> {
    let waited_ms = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
    timeout(length, reply).await.unwrap_or(Err(WorldError::Timeout { waited_ms }))
}
