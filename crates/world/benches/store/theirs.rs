//! Count sharing with a floor, as a comparison: each of 33 nodes writes what grew past the floor every 10 s, and reads everybody
//! else's sums every 10 s, by the usual statements.

use crate::model::{self, Counted, Source, WINDOW_S};
use crate::server::{Load, Meter};
use sqlx::mysql::MySqlConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, MySqlConnection, Row as _};
use std::fmt::Write as _;
use std::str::FromStr as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tidegate_testkit::MariaDb;
use tokio::time::Instant;

const NODES: u32 = 33;
const INTERVAL_S: f64 = 10.0;

const TABLE: &str = "
CREATE TABLE `ratelimit_window_counts` (
    `pk` bigint unsigned AUTO_INCREMENT NOT NULL,
    `workspace_id` varchar(191) NOT NULL,
    `namespace` varchar(255) NOT NULL,
    `identifier` varchar(255) NOT NULL,
    `duration_ms` bigint unsigned NOT NULL,
    `sequence` bigint NOT NULL,
    `region` varchar(48) NOT NULL,
    `count` bigint unsigned NOT NULL,
    `expires_at` bigint unsigned NOT NULL,
    `updated_at` bigint unsigned NOT NULL,
    CONSTRAINT `ratelimit_window_counts_pk` PRIMARY KEY (`pk`),
    CONSTRAINT `unique_window_region` UNIQUE (
        `workspace_id`, `namespace`, `identifier`, `duration_ms`, `sequence`, `region`
    )
);
CREATE INDEX `expires_at_idx` ON `ratelimit_window_counts` (`expires_at`);
CREATE INDEX `lookup_idx` ON `ratelimit_window_counts` (
    `workspace_id`, `namespace`, `identifier`, `duration_ms`, `sequence`
);";

/// A node: what it flushes, and what it has flushed.
struct Node {
    region: u32,
    share: Vec<(Source, Option<Counted>)>,
    link: MySqlConnection,
    written: Arc<AtomicU64>,
}

pub(crate) async fn run(length: Duration) -> Load {
    let server = MariaDb::start().await;
    server.create_database("theirs");
    let options = MySqlConnectOptions::from_str(&server.url("theirs")).expect("a url");
    let options = options.disable_statement_logging();
    let mut first = options.connect().await.expect("connects");
    sqlx::raw_sql(TABLE).execute(&mut first).await.expect("a table");
    let written = Arc::new(AtomicU64::new(0));
    let mut nodes: Vec<Node> = Vec::new();
    for number in 0..NODES {
        let link = options.connect().await.expect("connects");
        nodes.push(Node {
            region: number % model::REGIONS,
            share: Vec::new(),
            link,
            written: written.clone(),
        });
    }
    for (index, source) in model::sources().into_iter().enumerate() {
        let mut of_region: Vec<&mut Node> =
            nodes.iter_mut().filter(|node| node.region == source.region).collect();
        let place = index / usize::try_from(model::REGIONS).expect("small") % of_region.len();
        of_region[place].share.push((source, None));
    }
    for node in &mut nodes {
        node.fill().await;
    }
    written.store(0, Ordering::Relaxed);
    let meter = Meter::start(&server);
    let began = Instant::now();
    let tasks: Vec<_> =
        (0..NODES).zip(nodes).map(|(number, node)| tokio::spawn(node.work(number, began, length))).collect();
    for task in tasks {
        task.await.expect("a node");
    }
    meter.stop(&server, written.load(Ordering::Relaxed), length)
}

impl Node {
    /// What was flushed before the run begins.
    async fn fill(&mut self) {
        let region = self.region;
        let rows: Vec<String> =
            self.share.iter().map(|(source, _)| values(source, source.before(0.0), region)).collect();
        for rows in rows.chunks(1000) {
            self.upsert(rows).await;
        }
        self.flush(0.0).await;
    }

    async fn work(mut self, number: u32, began: Instant, length: Duration) {
        // As the worker of its region: both flush what has grown by the same instants.
        let of_all = f64::from(number % model::REGIONS) / f64::from(model::REGIONS);
        let mut flushes = 0;
        loop {
            let at = model::flush_s(of_all, flushes, INTERVAL_S);
            if at >= length.as_secs_f64() {
                break;
            }
            tokio::time::sleep_until(began + Duration::from_secs_f64(at)).await;
            self.flush(at).await;
            self.sync(at).await;
            flushes += 1;
        }
        tokio::time::sleep_until(began + length).await;
    }

    async fn flush(&mut self, now: f64) {
        let region = self.region;
        let mut rows = Vec::new();
        for (source, flushed) in &mut self.share {
            let counted = source.at(now);
            if model::is_hot(counted.count) && *flushed != Some(counted) {
                rows.push(values(source, counted, region));
                *flushed = Some(counted);
            }
        }
        if !rows.is_empty() {
            self.upsert(&rows).await;
        }
    }

    async fn upsert(&mut self, rows: &[String]) {
        let text = format!(
            "INSERT INTO ratelimit_window_counts (workspace_id, namespace, identifier, duration_ms, sequence, \
             region, count, expires_at, updated_at) VALUES {} ON DUPLICATE KEY UPDATE count = GREATEST(count, \
             VALUES(count)), updated_at = VALUES(updated_at)",
            rows.join(",")
        );
        // Two nodes' inserts can end in a deadlock here; one of them then tries again.
        for _ in 0..20 {
            if sqlx::raw_sql(AssertSqlSafe(text.clone())).execute(&mut self.link).await.is_ok() {
                self.written.fetch_add(rows.len() as u64, Ordering::Relaxed);
                return;
            }
        }
        panic!("an upsert failed twenty times");
    }

    async fn sync(&mut self, now: f64) {
        let text = format!(
            "SELECT workspace_id, namespace, identifier, duration_ms, sequence, CAST(SUM(count) AS SIGNED) AS \
             imported FROM ratelimit_window_counts WHERE expires_at > {} AND region != '{}' GROUP BY workspace_id, \
             namespace, identifier, duration_ms, sequence",
            millis(now),
            region(self.region)
        );
        let rows = sqlx::raw_sql(AssertSqlSafe(text)).fetch_all(&mut self.link).await.expect("a sync");
        let sum: i64 = rows.iter().map(|row| row.get::<i64, _>(5)).sum();
        assert!(sum > 0, "there is something to import");
    }
}

fn region(number: u32) -> String {
    format!("us-east-{number}")
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small and positive")]
fn millis(seconds: f64) -> u64 {
    ((seconds + 10_000.0) * 1000.0) as u64
}

fn values(source: &Source, counted: Counted, in_region: u32) -> String {
    let mut row = String::new();
    let Counted { sequence, count } = counted;
    let _ = write!(
        row,
        "('ws_{:016x}','{}','{}',{},{sequence},'{}',{count},{},{})",
        source.caller / 50,
        crate::ours::NAMESPACE,
        crate::ours::identifier(source.caller),
        WINDOW_S * 1000.0,
        region(in_region),
        millis(source.expires_s(sequence)),
        millis(0.0)
    );
    row
}
