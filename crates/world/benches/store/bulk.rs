//! Target 9: 100,000 cells at once, on every database.

use crate::{Bounds, print};
use std::sync::Arc;
use std::time::Duration;
use tidegate_core::{KeyId, Nanos, Sequence};
use tidegate_testkit::{MariaDb, Postgres};
use tidegate_world::{
    CellId, Cursor, JoinRequest, KeyName, PublishPolicy, PublishThreshold, Row, SqlOptions, SqlWorld, World,
    WorldUrl,
};
use tokio::time::Instant;

const CELLS: u32 = 100_000;
/// How many rows a worker publishes in a call.
const CALL_ROWS: usize = 5000;
const SECONDS_MAX: f64 = 5.0;

pub(crate) async fn measure() {
    let file = std::env::temp_dir().join(format!("tidegate-bulk-{}.db", std::process::id()));
    on("SQLite", &format!("sqlite:{}", file.display()), &Duration::default).await;
    for end in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{end}", file.display()));
    }
    let mariadb = MariaDb::start().await;
    mariadb.create_database("bulk");
    on("MariaDB", &mariadb.url("bulk"), &|| mariadb.processor_time()).await;
    drop(mariadb);
    let postgres = Postgres::start().await;
    postgres.create_database("bulk");
    on("PostgreSQL", &postgres.url("bulk"), &|| postgres.processor_time()).await;
}

fn rows(count: u64) -> Vec<Row> {
    let row = |number: u32| {
        let hash = (u128::from(number) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        let name = KeyName {
            tenant: "default".to_owned(),
            namespace: "api".to_owned(),
            rule: "per-user".to_owned(),
            identifier: format!("user_{number:016x}"),
        };
        Row {
            cell: CellId { key: KeyId::from_hash(hash), epoch: 0, sequence: Sequence(7) },
            count,
            limit: 1000,
            expires: Nanos::from_secs(4_000_000_000),
            // As the worker does it: a row that is there has its name.
            name: (count == 1).then(|| Arc::new(name)),
        }
    };
    let mut rows: Vec<Row> = (0..CELLS).map(row).collect();
    // In the order of the table, so that each of its pages is written once.
    rows.sort_by_key(|row| row.cell);
    rows
}

/// `processor_time` tells what the server has cost.
async fn on(database: &str, url: &str, processor_time: &dyn Fn() -> Duration) {
    let url = WorldUrl::parse(url).expect("a url");
    let open = || SqlWorld::new(url.clone(), SqlOptions::default(), &tokio::runtime::Handle::current());
    let (writer, reader) = (open(), open());
    let joining = JoinRequest {
        region: "eu".to_owned(),
        origin: 1,
        fingerprint: 1,
        policy: PublishPolicy { publish: PublishThreshold::Headroom, interval: Nanos::from_secs(5) },
        applied: 0,
        known: 0,
        leaves: false,
    };
    let me = writer.join(&joining).await.expect("joins").me;
    let (_, since) = import(&reader, Cursor::default()).await;
    let publish = async |count| {
        let rows = rows(count);
        let began = Instant::now();
        for rows in rows.chunks(CALL_ROWS) {
            writer.publish(me, rows).await.expect("publishes");
        }
        began.elapsed()
    };
    let new = publish(1).await;
    let (_, since) = import(&reader, since).await;
    let before = processor_time();
    let changed = publish(2).await;
    let cost = processor_time().saturating_sub(before);
    let began = Instant::now();
    let (imported, _) = import(&reader, since).await;
    let import_changed = began.elapsed();
    assert!(imported >= CELLS as usize, "{imported} cells came");
    let began = Instant::now();
    import(&reader, Cursor::default()).await;
    let import_all = began.elapsed();
    let told = |figure, took: Duration| print(9, database, figure, took.as_secs_f64(), &Bounds::Told);
    told("s to publish 100,000 new cells", new);
    told("s to publish 100,000 changed cells", changed);
    told("processor time of the server for that, s", cost);
    told("s to import 100,000 changed cells", import_changed);
    told("s to import everything, as after an absence", import_all);
    let both = (changed + import_changed).as_secs_f64();
    print(9, database, "s to publish and import 100,000 changed cells", both, &Bounds::AtMost(SECONDS_MAX));
}

/// Over all pages: how many cells, and where the next import begins.
async fn import(world: &SqlWorld, mut since: Cursor) -> (usize, Cursor) {
    let mut cells = 0;
    loop {
        let page = world.import(since).await.expect("imports");
        cells += page.components.len();
        since = page.next;
        if !page.has_more {
            return (cells, since);
        }
    }
}
