//! Databases that are spoken to over TLS: what is written comes back, and a server that can't prove who it is hears
//! nothing.

use std::path::Path;
use std::time::Duration;
use tidegate_core::{KeyId, Nanos, Sequence};
use tidegate_testkit::{Authority, Directory, MariaDb, Postgres};
use tidegate_world::{
    CellId, Cursor, Joined, Joining, Policy, Publish, Row, SqlOptions, SqlWorld, World, WorldError, WorldUrl,
};

fn open(url: &str) -> SqlWorld {
    let url = WorldUrl::parse(url).expect("a url");
    // Busy machines take their time for certificates.
    let options = SqlOptions { deadline: Duration::from_secs(10), ..SqlOptions::default() };
    SqlWorld::new(url, options, &tokio::runtime::Handle::current())
}

async fn join(world: &SqlWorld) -> Result<Joined, WorldError> {
    let policy = Policy { publish: Publish::Headroom, interval: Nanos::from_secs(5) };
    let region = "eu".to_owned();
    world.join(&Joining { region, origin: 1, fingerprint: 1, policy, applied: 0, leaves: false }).await
}

/// More than one record of TLS carries.
async fn what_is_written_comes_back(world: &SqlWorld) {
    let me = join(world).await.expect("joins").me;
    let row = |number: u32| Row {
        cell: CellId { key: KeyId::from_hash(number.into()), epoch: 0, sequence: Sequence(1) },
        count: 5,
        limit: 10,
        expires: Nanos::from_secs(4_000_000_000),
        name: None,
    };
    let rows: Vec<Row> = (0..2_000).map(row).collect();
    assert_eq!(world.publish(me, &rows).await.expect("publishes").refused, []);
    world.merge_log().await.expect("merges");
    let page = world.import(Cursor::default()).await.expect("imports");
    assert_eq!(page.components.len(), rows.len());
}

async fn is_refused(url: &str) {
    let outcome = join(&open(url)).await;
    assert!(
        matches!(outcome, Err(WorldError::Unreachable { .. } | WorldError::Refused { .. })),
        "{url}: {outcome:?}"
    );
}

/// Of an authority that has issued nothing to the server.
fn stranger(directory: &Directory) -> std::path::PathBuf {
    directory.write("stranger.pem", Authority::new().pem());
    directory.path("stranger.pem")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mariadb_is_spoken_to_over_tls_and_has_to_prove_who_it_is() {
    let (server, directory) = (MariaDb::start_with_tls().await, Directory::new());
    server.create_database("world");
    let plain = server.url("world");
    let verified =
        |authority: &Path| format!("{plain}?ssl-mode=VERIFY_IDENTITY&ssl-ca={}", authority.display());
    what_is_written_comes_back(&open(&verified(&server.authority()))).await;
    is_refused(&verified(&stranger(&directory))).await;
    let accepted = || server.query("", "SHOW GLOBAL STATUS LIKE 'Ssl_finished_accepts'")[0][1].clone();
    let before = accepted();
    assert_ne!(before, "0", "what was written went over TLS");
    join(&open(&format!("{plain}?ssl-mode=DISABLED"))).await.expect("joins in the open");
    assert_eq!(accepted(), before);
    join(&open(&format!("{plain}?ssl-mode=REQUIRED"))).await.expect("joins without asking who it is");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_is_spoken_to_over_tls_and_has_to_prove_who_it_is() {
    let (server, directory) = (Postgres::start_with_tls().await, Directory::new());
    server.create_database("world");
    let plain = server.url("world");
    let verified =
        |authority: &Path| format!("{plain}?sslmode=verify-full&sslrootcert={}", authority.display());
    let world = open(&verified(&server.authority()));
    what_is_written_comes_back(&world).await;
    let encrypted = "SELECT COUNT(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
                     WHERE datname = 'world' AND client_addr IS NOT NULL AND NOT ssl";
    assert_eq!(server.query("postgres", encrypted), [["0"]], "no connection goes without");
    is_refused(&verified(&stranger(&directory))).await;
    join(&open(&format!("{plain}?sslmode=require"))).await.expect("joins without asking who it is");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_tls_hears_nothing_from_who_demands_it() {
    let mariadb = MariaDb::shared().await;
    mariadb.create_database("without_tls");
    is_refused(&format!("{}?ssl-mode=REQUIRED", mariadb.url("without_tls"))).await;
    let postgres = Postgres::shared().await;
    postgres.create_database("without_tls");
    is_refused(&format!("{}?sslmode=require", postgres.url("without_tls"))).await;
}
