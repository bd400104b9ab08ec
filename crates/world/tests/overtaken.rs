//! Writers that overtake each other: what is committed later than what was numbered after it is read all the same.

use sqlx::{ConnectOptions as _, Executor};
use std::str::FromStr as _;
use tidegate_core::{KeyId, Nanos, Sequence};
use tidegate_testkit::{MariaDb, Postgres};
use tidegate_world::{
    CellId, Component, Cursor, JoinRequest, PublishPolicy, PublishThreshold, Row, SqlOptions, SqlWorld,
    World, WorldUrl,
};

fn row(key: u128) -> Row {
    let cell = CellId { key: KeyId::from_hash(key), epoch: 0, sequence: Sequence(1) };
    Row { cell, count: 5, limit: 1000, expires: Nanos::from_secs(4_000_000_000), name: None }
}

/// What came since, and from where to go on.
async fn import(world: &SqlWorld, mut since: Cursor) -> (Vec<u128>, Cursor) {
    let mut keys = Vec::new();
    loop {
        let page = world.import(since).await.expect("imports");
        keys.extend(page.components.iter().map(|Component { cell, .. }| cell.key.get()));
        since = page.next;
        if !page.has_more {
            keys.sort_unstable();
            keys.dedup();
            return (keys, since);
        }
    }
}

/// `slow` is a connection to the same database.
async fn is_read_when_it_appears<C>(url: &str, mut slow: C)
where
    for<'c> &'c mut C: Executor<'c>,
{
    let parsed = WorldUrl::parse(url).expect("a url");
    let world = SqlWorld::new(parsed, SqlOptions::default(), &tokio::runtime::Handle::current());
    let joining = JoinRequest {
        region: "eu".to_owned(),
        origin: 1,
        fingerprint: 1,
        policy: PublishPolicy { publish: PublishThreshold::Headroom, interval: Nanos::from_secs(5) },
        applied: 0,
        known: 0,
        leaves: false,
    };
    let me = world.join(&joining).await.expect("joins").me;
    world.publish(me, &[row(1)]).await.expect("publishes");
    let (keys, since) = import(&world, Cursor::default()).await;
    assert_eq!(keys, [1]);
    // The same entry again, by somebody who doesn't come to an end.
    (&mut slow).execute("START TRANSACTION").await.expect("begins");
    let again = "INSERT INTO tidegate_publishes (owner, cells, payload) SELECT owner, cells, payload FROM tidegate_publishes";
    (&mut slow).execute(again).await.expect("writes");
    world.publish(me, &[row(2)]).await.expect("publishes");
    let (keys, since) = import(&world, since).await;
    assert_eq!(keys, [2], "what was numbered later is here");
    let (keys, since) = import(&world, since).await;
    assert_eq!(keys, [0; 0]);
    (&mut slow).execute("COMMIT").await.expect("commits");
    let (keys, since) = import(&world, since).await;
    assert_eq!(keys, [1], "what was overtaken");
    assert_eq!(import(&world, since).await.0, [0; 0], "once");
}

#[tokio::test]
async fn what_was_overtaken_in_mariadb_is_read_when_it_appears() {
    let server = MariaDb::start().await;
    server.create_database("world");
    let url = server.url("world");
    let slow = sqlx::mysql::MySqlConnectOptions::from_str(&url).expect("a url");
    let mut slow = slow.connect().await.expect("connects");
    // As our own connections: else it would lock the end of the log for everybody.
    slow.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED").await.expect("sets");
    is_read_when_it_appears(&url, slow).await;
}

#[tokio::test]
async fn what_was_overtaken_in_postgres_is_read_when_it_appears() {
    let server = Postgres::start().await;
    server.create_database("world");
    let url = server.url("world");
    let slow = sqlx::postgres::PgConnectOptions::from_str(&url).expect("a url");
    is_read_when_it_appears(&url, slow.connect().await.expect("connects")).await;
}
