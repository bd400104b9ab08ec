//! Databases that are spoken to over TLS: what is written comes back, and a server that can't prove who it is hears
//! nothing.

use std::path::Path;
use std::time::Duration;
use tidegate_core::{KeyId, Nanos, Sequence};
use tidegate_testkit::{Authority, Directory, MariaDb, Postgres};
use tidegate_world::{
    CellId, Cursor, JoinReply, JoinRequest, PublishPolicy, PublishThreshold, Row, SqlOptions, SqlWorld,
    World, WorldError, WorldUrl,
};

fn open(url: &str) -> SqlWorld {
    let url = WorldUrl::parse(url).expect("a url");
    // Busy machines take their time for certificates.
    let options = SqlOptions { deadline: Duration::from_secs(10), ..SqlOptions::default() };
    SqlWorld::new(url, options, &tokio::runtime::Handle::current())
}

async fn join(world: &SqlWorld) -> Result<JoinReply, WorldError> {
    let policy = PublishPolicy { publish: PublishThreshold::Headroom, interval: Nanos::from_secs(5) };
    let region = "eu".to_owned();
    world
        .join(&JoinRequest { region, origin: 1, fingerprint: 1, policy, applied: 0, known: 0, leaves: false })
        .await
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

/// The same server by an address that isn't loopback, as one on another machine has.
fn elsewhere(url: &str) -> String {
    let elsewhere = url.replace("@127.0.0.1:", "@0.0.0.0:");
    assert_ne!(elsewhere, url);
    elsewhere
}

async fn problem_of(url: &str) -> String {
    join(&open(url)).await.expect_err(url).to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mariadb_elsewhere_has_to_prove_who_it_is_unless_the_url_says_otherwise() {
    let (server, directory) = (MariaDb::start_with_tls().await, Directory::new());
    server.create_database("world");
    let url = elsewhere(&server.url("world"));
    for unverifiable in [url.clone(), format!("{url}?ssl-ca={}", stranger(&directory).display())] {
        let problem = problem_of(&unverifiable).await;
        assert!(problem.contains("can't be verified"), "{problem}");
        assert!(problem.contains("ssl-ca=FILE") && problem.contains("ssl-mode=REQUIRED"), "{problem}");
    }
    let accepted = || server.query("", "SHOW GLOBAL STATUS LIKE 'Ssl_finished_accepts'")[0][1].clone();
    let before = accepted();
    join(&open(&format!("{url}?ssl-ca={}", server.authority().display()))).await.expect("joins verified");
    assert_ne!(accepted(), before, "it went over TLS");
    for mode in ["REQUIRED", "PREFERRED", "DISABLED"] {
        join(&open(&format!("{url}?ssl-mode={mode}"))).await.expect("joins as the url says");
    }
    join(&open(&server.url("world"))).await.expect("this machine isn't asked to prove who it is");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_postgres_elsewhere_has_to_prove_who_it_is_unless_the_url_says_otherwise() {
    let (server, directory) = (Postgres::start_with_tls().await, Directory::new());
    server.create_database("world");
    let url = elsewhere(&server.url("world"));
    for unverifiable in [url.clone(), format!("{url}?sslrootcert={}", stranger(&directory).display())] {
        let problem = problem_of(&unverifiable).await;
        assert!(problem.contains("can't be verified"), "{problem}");
        assert!(problem.contains("sslrootcert=FILE") && problem.contains("sslmode=require"), "{problem}");
    }
    let world = open(&format!("{url}?sslrootcert={}", server.authority().display()));
    join(&world).await.expect("joins verified");
    let plain = "SELECT COUNT(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
                 WHERE datname = 'world' AND client_addr IS NOT NULL AND NOT ssl";
    assert_eq!(server.query("postgres", plain), [["0"]], "no connection goes without TLS");
    for mode in ["require", "prefer", "disable"] {
        join(&open(&format!("{url}?sslmode={mode}"))).await.expect("joins as the url says");
    }
    join(&open(&server.url("world"))).await.expect("this machine isn't asked to prove who it is");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_elsewhere_without_tls_is_used_unless_the_url_demands_tls() {
    let mariadb = MariaDb::shared().await;
    mariadb.create_database("elsewhere");
    let url = elsewhere(&mariadb.url("elsewhere"));
    join(&open(&url)).await.expect("joins in the open");
    is_refused(&format!("{url}?ssl-mode=VERIFY_IDENTITY")).await;
    let postgres = Postgres::shared().await;
    postgres.create_database("elsewhere");
    let url = elsewhere(&postgres.url("elsewhere"));
    join(&open(&url)).await.expect("joins in the open");
    is_refused(&format!("{url}?sslmode=verify-full")).await;
}
