//! Ours: a worker for each region, which publishes what its policy says and imports what changed.

use crate::model::{self, Counted, LIMIT, REGIONS, Source};
use crate::server::{Load, Meter};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tidegate_core::world::{CellUsage, spenders};
use tidegate_core::{KeyId, Nanos, Sequence, WorldPolicy};
use tidegate_testkit::MariaDb;
use tidegate_world::{
    CellId, Cursor, JoinRequest, KeyName, MERGED_MAX, OwnerId, PublishPolicy as FleetPolicy,
    PublishThreshold, Row, SqlOptions, SqlWorld, World, WorldUrl,
};
use tokio::time::Instant;

pub(crate) const NAMESPACE: &str = "api.requests";
/// As the worker of a region does it: where many cells grow there is quiet after a publish, and imports follow them.
const POLL_S: f64 = 0.25;
const PUBLISH_S: f64 = 0.4;
/// The floor's, as count sharing has it. Headroom publishes at every poll.
const INTERVAL_S: f64 = 10.0;
/// How often a reader goes back, and by how much.
const BACK_EVERY_S: f64 = 60.0;
const BACK_BY: Nanos = Nanos::from_secs(10);
/// How often the first of them deletes what is over.
const DELETE_EVERY_S: f64 = 5.0;
/// And how soon it merges the log into the table again: for each row that it wrote, and within which bounds.
const MERGE_PER_ROW_S: f64 = 0.004;
const MERGE_BOUNDS_S: (f64, f64) = (5.0, 120.0);
/// How often a region says that it is here, when all is settled.
const JOIN_EVERY_S: f64 = 4.0;
/// Of a publish.
const CHUNK_ROWS: usize = 500;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Policy {
    Floor,
    Headroom,
}

/// The worker of a region.
struct Worker {
    world: SqlWorld,
    joining: JoinRequest,
    owner: OwnerId,
    policy: Policy,
    sources: Vec<(Source, Option<Counted>)>,
    cursor: Cursor,
    written: Arc<AtomicU64>,
    imported: Arc<AtomicU64>,
}

pub(crate) fn identifier(caller: u32) -> String {
    format!("user_{:016x}", u64::from(caller).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

pub(crate) async fn run(policy: Policy, length: Duration) -> Load {
    let server = MariaDb::start().await;
    server.create_database("ours");
    let (written, imported) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut workers = Vec::new();
    for region in 0..REGIONS {
        let mut worker = Worker::new(&server.url("ours"), region, policy, &written, &imported).await;
        worker.fill().await;
        workers.push(worker);
    }
    for worker in &mut workers {
        worker.merge().await;
        worker.import(Nanos::ZERO).await;
    }
    written.store(0, Ordering::Relaxed);
    imported.store(0, Ordering::Relaxed);
    let meter = Meter::start(&server);
    let began = Instant::now();
    let tasks: Vec<_> = (0..REGIONS)
        .zip(workers)
        .map(|(number, worker)| tokio::spawn(worker.work(number, began, length)))
        .collect();
    for task in tasks {
        task.await.expect("a worker");
    }
    let load = meter.stop(&server, written.load(Ordering::Relaxed), length);
    // Every region has read every change: none may be cheap by missing any.
    let (written, imported) = (written.load(Ordering::Relaxed), imported.load(Ordering::Relaxed));
    assert!(imported >= written * u64::from(REGIONS - 1), "{imported} imported of {written} written");
    load
}

impl Worker {
    async fn new(
        url: &str,
        region: u32,
        policy: Policy,
        written: &Arc<AtomicU64>,
        imported: &Arc<AtomicU64>,
    ) -> Self {
        let url = WorldUrl::parse(url).expect("a url");
        let options = SqlOptions { deadline: Duration::from_secs(10), ..SqlOptions::default() };
        let world = SqlWorld::new(url, options, &tokio::runtime::Handle::current());
        let joining = JoinRequest {
            region: format!("us-east-{region}"),
            origin: u64::from(region),
            fingerprint: 1,
            policy: FleetPolicy {
                publish: PublishThreshold::Floor(model::FLOOR),
                interval: Nanos::from_secs(10),
            },
            applied: 0,
            known: 0,
            leaves: false,
        };
        let owner = world.join(&joining).await.expect("joins").me;
        let sources = model::sources().into_iter().filter(|source| source.region == region);
        let sources = sources.map(|source| (source, None)).collect();
        let (written, imported) = (written.clone(), imported.clone());
        Worker { world, joining, owner, policy, sources, cursor: Cursor::default(), written, imported }
    }

    /// What was published before the run begins.
    async fn fill(&mut self) {
        let rows: Vec<Row> = self.sources.iter().map(|(source, _)| row(source, source.before(0.0))).collect();
        self.write(&rows).await;
        let rows = self.due(0.0);
        self.write(&rows).await;
    }

    async fn work(mut self, number: u32, began: Instant, length: Duration) {
        let of_all = f64::from(number) / f64::from(REGIONS);
        let every = if self.policy == Policy::Headroom { PUBLISH_S } else { POLL_S };
        let (mut poll, mut flushes, mut flush) = (of_all * every, 0, model::flush_s(of_all, 0, INTERVAL_S));
        let (mut back, mut delete, mut merge) = (of_all * BACK_EVERY_S, 0.0, MERGE_BOUNDS_S.1);
        let mut join = of_all * JOIN_EVERY_S;
        while poll < length.as_secs_f64() {
            tokio::time::sleep_until(began + Duration::from_secs_f64(poll)).await;
            // By the time that it should be: on a busy machine too, everybody counts the same.
            let rows = if self.policy == Policy::Headroom {
                self.due(poll)
            } else if poll >= flush {
                let rows = self.due(flush);
                flushes += 1;
                flush = model::flush_s(of_all, flushes, INTERVAL_S);
                rows
            } else {
                Vec::new()
            };
            if poll >= join {
                join += JOIN_EVERY_S;
                self.world.join(&self.joining).await.expect("joins");
            }
            if number == 0 && poll >= delete {
                delete += DELETE_EVERY_S;
                self.world.delete_expired().await.expect("deletes");
            }
            if number == 0 && poll >= merge {
                let quiet = self.merge().await * MERGE_PER_ROW_S;
                merge = poll + quiet.clamp(MERGE_BOUNDS_S.0, MERGE_BOUNDS_S.1);
            }
            let overlap = if poll >= back { BACK_BY } else { Nanos::ZERO };
            back = if poll >= back { back + BACK_EVERY_S } else { back };
            self.publish_and_import(&rows, overlap).await;
            poll += every;
        }
        tokio::time::sleep_until(began + length).await;
        self.import(BACK_BY).await;
        if number == 0 {
            // What the run published is paid for by the run.
            self.merge().await;
        }
    }

    /// Until nothing is left; how many rows that were.
    #[expect(clippy::cast_precision_loss, reason = "some ten thousands")]
    async fn merge(&self) -> f64 {
        let mut rows = 0;
        loop {
            let merged = self.world.merge_log().await.expect("merges");
            assert_eq!(merged.refused, [""; 0]);
            rows += merged.rows;
            if merged.rows < MERGED_MAX {
                self.written.fetch_add(rows as u64, Ordering::Relaxed);
                return rows as f64;
            }
        }
    }

    /// What is to be published.
    fn due(&mut self, now: f64) -> Vec<Row> {
        let mut rows = Vec::new();
        for (source, published) in &mut self.sources {
            let counted = source.at(now);
            let known =
                published.filter(|known| known.sequence == counted.sequence).map_or(0, |known| known.count);
            let is_due = match self.policy {
                Policy::Floor => model::is_hot(counted.count) && counted.count > known,
                Policy::Headroom => is_due(source, counted.count, known),
            };
            if is_due {
                // A row that is there has its name.
                rows.push(Row {
                    name: row(source, counted).name.filter(|_| known == 0),
                    ..row(source, counted)
                });
                *published = Some(counted);
            }
        }
        rows
    }

    /// As the driver of a worker does it: changes are asked for along with a publish.
    async fn publish_and_import(&mut self, rows: &[Row], overlap: Nanos) {
        if rows.is_empty() {
            return self.import(overlap).await;
        }
        let since = self.cursor.back(overlap);
        let both = self.world.publish_and_import(self.owner, rows, since).await;
        let (published, page) = both.expect("publishes and imports");
        assert_eq!(published.refused, []);
        self.count_written(rows.len());
        self.imported.fetch_add(page.components.len() as u64, Ordering::Relaxed);
        self.cursor = page.next;
        if page.has_more {
            self.import(Nanos::ZERO).await;
        }
    }

    async fn write(&self, rows: &[Row]) {
        for rows in rows.chunks(5000) {
            let published = self.world.publish(self.owner, rows).await.expect("publishes");
            assert_eq!(published.refused, []);
        }
        self.count_written(rows.len());
    }

    /// Every entry of the log is written once more when it is merged.
    fn count_written(&self, rows: usize) {
        self.written.fetch_add(2 * rows.div_ceil(CHUNK_ROWS) as u64, Ordering::Relaxed);
    }

    async fn import(&mut self, overlap: Nanos) {
        let mut since = self.cursor.back(overlap);
        loop {
            let page = self.world.import(since).await.expect("imports");
            self.imported.fetch_add(page.components.len() as u64, Ordering::Relaxed);
            since = page.next;
            if !page.has_more {
                break;
            }
        }
        self.cursor = since;
    }
}

/// As the nodes of a region say it.
fn is_due(source: &Source, total: u64, published: u64) -> bool {
    let sources = if source.is_in_two_regions() { 2 } else { 1 };
    let regions = spenders(REGIONS, false, sources == 1);
    let cell = CellUsage { limit: LIMIT, used: total * sources, total, published };
    tidegate_core::world::is_due(WorldPolicy::Headroom, &cell, regions)
}

fn row(source: &Source, counted: Counted) -> Row {
    let Counted { sequence, count } = counted;
    let hash = (u128::from(source.caller) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    let name = KeyName {
        tenant: format!("ws_{:016x}", source.caller / 50),
        namespace: NAMESPACE.to_owned(),
        rule: String::new(),
        identifier: identifier(source.caller),
    };
    let seconds = Duration::try_from_secs_f64(source.expires_s(sequence)).unwrap_or_default();
    // From a present that is never far away from the database's: nothing may expire early.
    let expires =
        Nanos::from_secs(2_000_000_000).plus(Nanos::from_millis(seconds.as_millis().try_into().unwrap_or(0)));
    Row {
        cell: CellId { key: KeyId::from_hash(hash), epoch: 0, sequence: Sequence(sequence) },
        count,
        limit: LIMIT,
        expires,
        name: Some(Arc::new(name)),
    }
}
