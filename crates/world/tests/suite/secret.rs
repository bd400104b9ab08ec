//! The fleet's secret in a database: the first to store one wins, and none is stored beside regions that use another.

use crate::fixture::{Fixture, joining};
use tidegate_core::{FleetSecret, StoredSecret};
use tidegate_world::{JoinRequest, SqlOptions, World as _};

const FIRST: FleetSecret = FleetSecret::new(*b"0123456789abcdef");
const SECOND: FleetSecret = FleetSecret::new(*b"fedcba9876543210");

pub(crate) async fn the_first_secret_stays_and_comes_back_where_it_was_lost(fixture: Fixture) {
    if fixture.is_memory() {
        return;
    }
    let (world, other) = (fixture.open_sql(SqlOptions::default()), fixture.open_sql(SqlOptions::default()));
    assert_eq!(world.fleet_secret(None).await, Ok(StoredSecret::default()));
    let stored = StoredSecret { secret: Some(FIRST), marker: None };
    assert_eq!(world.fleet_secret(Some(FIRST)).await, Ok(stored));
    assert_eq!(other.fleet_secret(Some(SECOND)).await, Ok(stored));

    let region = JoinRequest { fingerprint: FIRST.fingerprint(), ..joining("eu", 1) };
    world.join(&region).await.expect("joins");
    for loss in ["DELETE FROM tidegate_secret", "DROP TABLE tidegate_secret"] {
        fixture.sql(loss).await;
        let lost = StoredSecret { secret: None, marker: Some(FIRST.fingerprint()) };
        assert_eq!(other.fleet_secret(None).await, Ok(lost));
        assert_eq!(other.fleet_secret(Some(SECOND)).await, Ok(lost), "the region uses another one");
        let back = StoredSecret { secret: Some(FIRST), ..lost };
        assert_eq!(other.fleet_secret(Some(FIRST)).await, Ok(back));
    }
    fixture.sql("UPDATE tidegate_secret SET secret = '2:of-a-later-form'").await;
    let problem = world.fleet_secret(None).await.expect_err("a form that isn't known").to_string();
    assert!(problem.contains("tidegate_secret") && !problem.contains("later-form"), "{problem}");
}

pub(crate) async fn of_many_secrets_stored_at_once_all_read_the_same(fixture: Fixture) {
    if fixture.is_memory() {
        return;
    }
    let tasks: Vec<_> = (0..8_u8)
        .map(|number| {
            let world = fixture.open_sql(SqlOptions::default());
            tokio::spawn(async move { world.fleet_secret(Some(FleetSecret::new([number; 16]))).await })
        })
        .collect();
    let mut found = Vec::new();
    for task in tasks {
        // A database may refuse to make a table twice at the same time: a node asks again.
        if let Ok(stored) = task.await.expect("no panic") {
            found.push(stored.secret.expect("a secret"));
        }
    }
    found.dedup();
    assert_eq!(found.len(), 1, "all read the winner's");
}
