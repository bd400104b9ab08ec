//! A store of one check's own, however many times it is opened.

use sqlx::{ConnectOptions as _, Executor as _};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use tidegate_core::{KeyId, Nanos, Sequence};
use tidegate_testkit::{MariaDb, Postgres};
use tidegate_world::{
    CellId, Component, Cursor, JoinRequest, KeyName, MemoryWorld, OwnerId, PublishPolicy, PublishThreshold,
    Row, RuleLog, SqlOptions, SqlWorld, World, WorldUrl,
};

/// Generous: what is checked here isn't how fast a busy machine is.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub(crate) struct Fixture {
    place: FixtureStore,
}

#[derive(Debug)]
enum FixtureStore {
    Memory { world: Arc<MemoryWorld>, clock: Arc<AtomicU64> },
    Sqlite(SqliteFile),
    MariaDb(Arc<MariaDb>, String),
    Postgres(Arc<Postgres>, String),
}

/// Removed in the end.
#[derive(Debug)]
struct SqliteFile(PathBuf);

impl Drop for SqliteFile {
    fn drop(&mut self) {
        for end in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{end}", self.0.display()));
        }
    }
}

fn number() -> u32 {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    COUNT.fetch_add(1, Ordering::Relaxed)
}

impl Fixture {
    pub(crate) fn memory() -> Self {
        let clock = Arc::new(AtomicU64::new(Nanos::from_secs(1_800_000_000).get()));
        let read = clock.clone();
        let world = MemoryWorld::new(Box::new(move || Nanos::new(read.load(Ordering::Relaxed))));
        let world = Arc::new(world.with_page_rows(PAGE_ROWS));
        Fixture { place: FixtureStore::Memory { world, clock } }
    }

    pub(crate) fn sqlite() -> Self {
        let name = format!("tidegate-world-{}-{}.db", std::process::id(), number());
        let path = std::env::temp_dir().join(name);
        Fixture { place: FixtureStore::Sqlite(SqliteFile(path)) }
    }

    pub(crate) async fn mariadb() -> Self {
        let server = MariaDb::shared().await;
        let name = format!("world_{}", number());
        server.create_database(&name);
        Fixture { place: FixtureStore::MariaDb(server, name) }
    }

    pub(crate) async fn postgres() -> Self {
        let server = Postgres::shared().await;
        let name = format!("world_{}", number());
        server.create_database(&name);
        Fixture { place: FixtureStore::Postgres(server, name) }
    }

    pub(crate) fn is_memory(&self) -> bool {
        matches!(self.place, FixtureStore::Memory { .. })
    }

    pub(crate) fn is_sqlite(&self) -> bool {
        matches!(self.place, FixtureStore::Sqlite(_))
    }

    /// One more process on the store. Pages are small, so that there are several.
    pub(crate) fn open(&self) -> Arc<dyn World> {
        match &self.place {
            FixtureStore::Memory { world, .. } => world.clone(),
            _ => Arc::new(self.open_sql(SqlOptions::default())),
        }
    }

    /// The same, for the log of the rules.
    pub(crate) fn open_log(&self) -> Arc<dyn RuleLog> {
        match &self.place {
            FixtureStore::Memory { world, .. } => world.clone(),
            _ => Arc::new(self.open_sql(SqlOptions { waits_for_disk: true, ..SqlOptions::default() })),
        }
    }

    pub(crate) fn open_sql(&self, options: SqlOptions) -> SqlWorld {
        let url = match &self.place {
            FixtureStore::Memory { .. } => panic!("a store in memory has no url"),
            FixtureStore::Sqlite(file) => format!("sqlite:{}", file.0.display()),
            FixtureStore::MariaDb(server, name) => server.url(name),
            FixtureStore::Postgres(server, name) => server.url(name),
        };
        let url = WorldUrl::parse(&url).expect("a url");
        let options = SqlOptions { deadline: DEADLINE, page_rows: PAGE_ROWS, ..options };
        SqlWorld::new(url, options, &tokio::runtime::Handle::current())
    }

    /// Lets time pass by the store's clock.
    pub(crate) async fn pass(&self, length: Duration) {
        match &self.place {
            FixtureStore::Memory { clock, .. } => {
                let nanos = u64::try_from(length.as_nanos()).expect("short");
                clock.fetch_add(nanos, Ordering::Relaxed);
            }
            // A database has a clock of its own.
            _ => tokio::time::sleep(length).await,
        }
    }

    /// Runs SQL behind the store's back, where there is any. Its first column, row by row, where it has any.
    pub(crate) async fn sql(&self, statement: &'static str) -> Vec<String> {
        let first =
            |rows: Vec<Vec<String>>| rows.into_iter().filter_map(|row| row.into_iter().next()).collect();
        match &self.place {
            FixtureStore::Memory { .. } => Vec::new(),
            FixtureStore::Sqlite(file) => {
                let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&file.0);
                let mut link = options.connect().await.expect("the file");
                link.execute(statement).await.expect(statement);
                Vec::new()
            }
            FixtureStore::MariaDb(server, name) => first(server.query(name, statement)),
            FixtureStore::Postgres(server, name) => first(server.query(name, statement)),
        }
    }

    /// How many deadlocks the server has seen, where it says so.
    pub(crate) fn deadlocks(&self) -> Option<String> {
        let rows = match &self.place {
            FixtureStore::Memory { .. } | FixtureStore::Sqlite(_) => return None,
            FixtureStore::MariaDb(server, name) => server.query(
                name,
                "SELECT variable_value FROM information_schema.global_status \
                 WHERE variable_name = 'Innodb_deadlocks'",
            ),
            FixtureStore::Postgres(server, name) => server
                .query(name, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"),
        };
        rows.into_iter().flatten().next()
    }
}

pub(crate) const PAGE_ROWS: usize = 70;

/// A region on an origin of its own; `number` tells namesakes apart.
pub(crate) fn joining(region: &str, number: u64) -> JoinRequest {
    let of_name = region.bytes().fold(0_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)));
    JoinRequest {
        region: region.to_owned(),
        origin: of_name ^ number << 60,
        fingerprint: 0xfeed_f00d_dead_beef,
        policy: PublishPolicy { publish: PublishThreshold::Floor(0.5), interval: Nanos::from_secs(5) },
        applied: 0,
        known: 0,
        leaves: false,
    }
}

/// A region, joined.
pub(crate) async fn owner(world: &Arc<dyn World>, region: &str) -> OwnerId {
    world.join(&joining(region, 1)).await.expect("joins").me
}

pub(crate) fn key(number: u128) -> KeyId {
    // Spread as hashes are.
    KeyId::from_hash((number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835))
}

pub(crate) fn cell(number: u128) -> CellId {
    CellId { key: key(number), epoch: 0, sequence: Sequence(7) }
}

/// Far in the future by any clock.
pub(crate) const LATER: Nanos = Nanos::from_secs(4_000_000_000);

pub(crate) fn row(number: u128, count: u64) -> Row {
    Row { cell: cell(number), count, limit: 1000, expires: LATER, name: None }
}

pub(crate) fn named(number: u128, identifier: &str) -> Row {
    let name = KeyName {
        tenant: "default".to_owned(),
        namespace: "api".to_owned(),
        rule: "per-user".to_owned(),
        identifier: identifier.to_owned(),
    };
    Row { name: Some(Arc::new(name)), ..row(number, 1) }
}

/// Everything that changed since, over all pages, and where the next import begins. A row may come again.
pub(crate) async fn import_since(world: &Arc<dyn World>, mut since: Cursor) -> (Vec<Component>, Cursor) {
    let mut components = BTreeMap::new();
    for _ in 0..1000 {
        let page = world.import(since).await.expect("imports");
        for component in page.components {
            let known = components.entry((component.cell, component.owner)).or_insert(component);
            if component.count > known.count {
                *known = component;
            }
        }
        since = page.next;
        if !page.has_more {
            return (components.into_values().collect(), since);
        }
    }
    panic!("an import that never ends");
}

/// Everything, in order.
pub(crate) async fn import_all(world: &Arc<dyn World>) -> Vec<Component> {
    let mut components = import_since(world, Cursor::default()).await.0;
    components.sort();
    components
}
