//! Counts: publishing, importing, deleting.

use crate::fixture::{Fixture, LATER, cell, import_all, import_since, named, owner, row};
use std::collections::BTreeSet;
use std::time::Duration;
use tidegate_core::{Nanos, Sequence};
use tidegate_world::{
    CellId, Component, Cursor, DELETED_MAX, MergeReport, PublishReply, Row, WorldError, WorldFuture,
};

pub(crate) async fn counts_are_merged_by_max_and_only_growth_is_a_change(fixture: Fixture) {
    let world = fixture.open();
    let me = owner(&world, "eu").await;
    for (count, expected) in [(5, 5), (3, 5), (5, 5), (9, 9), (0, 9)] {
        world.publish(me, &[row(1, count)]).await.unwrap();
        assert_eq!(import_all(&world).await[0].count, expected);
    }
    let (_, since) = import_since(&world, Cursor::default()).await;
    fixture.pass(Duration::from_millis(3)).await;
    let (_, since) = import_since(&world, since).await;
    world.publish(me, &[Row { limit: 7, ..row(1, 9) }, row(1, 2)]).await.unwrap();
    let again = import_since(&world, since).await.0;
    assert!(again.iter().all(|component| component.count == 9), "what comes again is no more: {again:?}");
    world.publish(me, &[Row { limit: 7, ..row(1, 10) }]).await.unwrap();
    let changed = import_since(&world, since).await.0;
    assert_eq!((changed.len(), changed[0].count, changed[0].limit), (1, 10, 7));
    // Of one cell twice in a call, the larger counts.
    world.publish(me, &[row(2, 4), row(2, 8), row(2, 6)]).await.unwrap();
    assert_eq!(import_all(&world).await.iter().map(|component| component.count).max(), Some(10));
    assert!(
        import_all(&world).await.iter().any(|component| component.cell == cell(2) && component.count == 8)
    );
}

pub(crate) async fn owners_have_components_of_their_own(fixture: Fixture) {
    let (eu, us) = (fixture.open(), fixture.open());
    let (in_eu, in_us) = (owner(&eu, "eu").await, owner(&us, "us").await);
    assert_ne!(in_eu, in_us);
    let other_cells = [
        Row { cell: CellId { epoch: 1, ..cell(1) }, ..row(1, 3) },
        Row { cell: CellId { sequence: Sequence(8), ..cell(1) }, ..row(1, 4) },
    ];
    eu.publish(in_eu, &[row(1, 1)]).await.unwrap();
    us.publish(in_us, &[row(1, 2)]).await.unwrap();
    us.publish(in_us, &other_cells).await.unwrap();
    let mut seen: Vec<_> = import_all(&eu).await.iter().map(|c| (c.owner, c.cell, c.count)).collect();
    seen.sort();
    let mut expected = vec![
        (in_eu, cell(1), 1),
        (in_us, cell(1), 2),
        (in_us, other_cells[0].cell, 3),
        (in_us, other_cells[1].cell, 4),
    ];
    expected.sort();
    assert_eq!(seen, expected);
}

pub(crate) async fn what_is_published_along_with_an_import_is_read_back_with_it(fixture: Fixture) {
    let (eu, us) = (fixture.open(), fixture.open());
    let (in_eu, in_us) = (owner(&eu, "eu").await, owner(&us, "us").await);
    let mut since = Cursor::default();
    // From nothing, by the whole table, and then by what a store remembers of changes.
    for count in 1..=4 {
        us.publish(in_us, &[row(1, count)]).await.unwrap();
        let many: Vec<Row> = (1..700).map(|number| row(number, 10 * count)).collect();
        let (published, mut page) = eu.publish_and_import(in_eu, &many, since).await.unwrap();
        assert_eq!(published.refused, []);
        let mut seen = page.components;
        while page.has_more {
            page = eu.import(page.next).await.unwrap();
            seen.extend(page.components);
        }
        since = page.next;
        let largest = |owner| seen.iter().filter(|c| c.owner == owner).map(|c| c.count).max();
        assert_eq!((largest(in_eu), largest(in_us)), (Some(10 * count), Some(count)));
        let cells: BTreeSet<_> = seen.iter().filter(|c| c.count == 10 * count).map(|c| c.cell).collect();
        assert_eq!(cells.len(), many.len());
    }
}

pub(crate) async fn pages_bring_every_row_once(fixture: Fixture) {
    let world = fixture.open();
    let (eu, us) = (owner(&world, "eu").await, owner(&world, "us").await);
    // Whole statements of rows share an instant: more than fit a page.
    let rows: Vec<Row> = (0..500).map(|number| row(number, 1)).collect();
    world.publish(eu, &rows).await.unwrap();
    world.publish(us, &rows).await.unwrap();
    let (components, _) = import_since(&world, Cursor::default()).await;
    let distinct: BTreeSet<_> = components.iter().map(|c| (c.owner, c.cell)).collect();
    assert_eq!((components.len(), distinct.len()), (1000, 1000));
}

pub(crate) async fn an_import_begins_where_the_last_one_ended(fixture: Fixture) {
    let world = fixture.open();
    let me = owner(&world, "eu").await;
    world.publish(me, &[row(1, 1), row(2, 1)]).await.unwrap();
    fixture.pass(Duration::from_millis(5)).await;
    let (components, since) = import_since(&world, Cursor::default()).await;
    assert_eq!(components.len(), 2);
    assert_eq!(import_since(&world, since).await.0, []);
    assert_eq!(
        import_since(&world, since.back(Nanos::from_secs(60))).await.0.len(),
        2,
        "an overlap brings them"
    );
    fixture.pass(Duration::from_millis(5)).await;
    world.publish(me, &[row(3, 1)]).await.unwrap();
    let (components, _) = import_since(&world, since).await;
    assert_eq!(components.iter().map(|c| c.cell).collect::<Vec<_>>(), [cell(3)]);
}

pub(crate) async fn names_of_any_script_and_length_fail_no_batch(fixture: Fixture) {
    let world = fixture.open();
    let me = owner(&world, "eu").await;
    let (four_bytes, longer) = ("𝔘".repeat(512), "ß".repeat(2000));
    let names = [
        "Alice",
        "alice",
        "álice",
        "x ",
        "x",
        "",
        "'; DROP TABLE tidegate_counts; --",
        "a\0b\n\t\\",
        &four_bytes,
        &longer,
    ];
    let rows: Vec<Row> = (0..).zip(names).map(|(number, name)| named(number, name)).collect();
    assert_eq!(world.publish(me, &rows).await.unwrap(), PublishReply::default());
    assert_eq!(import_all(&world).await.len(), names.len(), "look-alikes are keys of their own");
    assert_eq!(world.merge_log().await.unwrap().refused, [""; 0]);
    assert_eq!(import_all(&world).await.len(), names.len(), "in the table too");
    let kept = fixture.sql("SELECT identifier FROM tidegate_counts WHERE identifier LIKE '%lice'").await;
    assert!(
        kept.is_empty()
            || kept.iter().map(String::as_str).collect::<BTreeSet<_>>()
                == BTreeSet::from(["Alice", "alice", "álice"]),
        "{kept:?}"
    );
    let longest = fixture
        .sql("SELECT MIN(CHAR_LENGTH(identifier)) FROM tidegate_counts WHERE CHAR_LENGTH(identifier) > 100");
    if !fixture.is_memory() && !fixture.is_sqlite() {
        assert_eq!(longest.await, ["512"]);
    }
}

pub(crate) async fn a_row_that_cannot_be_kept_is_named_and_the_others_are_written(fixture: Fixture) {
    let world = fixture.open();
    let me = owner(&world, "eu").await;
    let too_much = Row { count: u64::MAX, ..row(3, 1) };
    let published = world.publish(me, &[row(1, 1), too_much, row(2, 1)]).await.unwrap();
    assert_eq!(published.refused.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [1]);
    assert_eq!(import_all(&world).await.len(), 2);
    if fixture.is_memory() {
        return;
    }
    // What only the database itself can refuse.
    let refusing = if fixture.is_sqlite() {
        "CREATE TRIGGER small BEFORE INSERT ON tidegate_counts WHEN NEW.count > 900 \
         BEGIN SELECT RAISE(ABORT, 'too large'); END"
    } else {
        "ALTER TABLE tidegate_counts ADD CONSTRAINT small CHECK (count <= 900)"
    };
    fixture.sql(refusing).await;
    let rows: Vec<Row> =
        (0..1200).map(|number| row(number, if number % 397 == 5 { 901 } else { 7 })).collect();
    assert_eq!(world.publish(me, &rows).await.unwrap(), PublishReply::default());
    let MergeReport { rows, refused } = world.merge_log().await.unwrap();
    assert_eq!((rows, refused.len()), (1196, 4));
    assert!(refused.iter().all(|problem| !problem.is_empty()));
    assert_eq!(world.merge_log().await.unwrap(), MergeReport::default(), "once");
    let components = import_all(&world).await;
    assert_eq!(components.iter().filter(|component| component.count == 7).count(), 1196);
}

pub(crate) async fn what_is_merged_is_what_was_published(fixture: Fixture) {
    let (eu, us) = (fixture.open(), fixture.open());
    let (in_eu, in_us) = (owner(&eu, "eu").await, owner(&us, "us").await);
    let (_, since) = import_since(&eu, Cursor::default()).await;
    for count in 1..=3 {
        let rows: Vec<Row> = (0..600).map(|number| row(number, count)).collect();
        eu.publish(in_eu, &rows).await.unwrap();
        us.publish(in_us, &[row(1, 10 - count), named(2, "Zoë")]).await.unwrap();
    }
    us.publish(in_us, &[Row { limit: 7, ..row(2, 5) }]).await.unwrap();
    let published = import_all(&eu).await;
    assert_eq!(published.len(), 602);
    let [first, second] = [eu.merge_log(), us.merge_log()].map(|merged| async { merged.await.unwrap().rows });
    let (first, second) = tokio::join!(first, second);
    assert!(fixture.is_memory() || first.max(second) == 602, "each cell once: {first}, {second}");
    assert_eq!(eu.merge_log().await.unwrap(), MergeReport::default(), "nothing is left");
    assert_eq!(import_all(&us).await, published, "who comes from nothing reads the table");
    let mut heard = import_since(&eu, since).await.0;
    heard.sort();
    assert_eq!(heard, published, "who was there goes on by the log");
    us.publish(in_us, &[row(1, 4), row(2, 6)]).await.unwrap();
    assert_eq!(import_all(&us).await.iter().map(|component| component.count).max(), Some(9), "and the log");
    eu.merge_log().await.unwrap();
    let of_us = |component: &&Component| component.owner == in_us;
    let counts: Vec<(CellId, u64, u64)> =
        import_all(&us).await.iter().filter(of_us).map(|c| (c.cell, c.count, c.limit)).collect();
    let mut expected = [(cell(1), 9, 1000), (cell(2), 6, 1000)];
    expected.sort();
    assert_eq!(counts, expected, "merged by max");
    if !fixture.is_memory() && !fixture.is_sqlite() {
        let names = fixture.sql("SELECT identifier FROM tidegate_counts WHERE identifier IS NOT NULL").await;
        assert_eq!(names, ["Zoë"], "a name stays");
    }
}

pub(crate) async fn what_is_not_merged_stays_however_old_it_is(fixture: Fixture) {
    let world = fixture.open();
    let me = owner(&world, "eu").await;
    for number in 0..3 {
        world.publish(me, &[row(number, 1)]).await.unwrap();
    }
    fixture.sql("UPDATE tidegate_publishes SET written_at = written_at - 3600000000").await;
    world.delete_expired().await.unwrap();
    assert_eq!(import_all(&world).await.len(), 3, "an hour later");
    world.merge_log().await.unwrap();
    fixture.sql("UPDATE tidegate_publishes SET merged_at = written_at").await;
    world.delete_expired().await.unwrap();
    let kept = fixture.sql("SELECT COUNT(*) FROM tidegate_publishes").await;
    assert!(kept.is_empty() || kept == ["1"], "the last one stays: {kept:?}");
    assert_eq!(import_all(&world).await.len(), 3, "in the table");
}

pub(crate) async fn an_owner_finds_out_what_the_store_lost_of_its_rows(fixture: Fixture) {
    let world = fixture.open();
    let (eu, us) = (owner(&world, "eu").await, owner(&world, "us").await);
    let other_cell = CellId { sequence: Sequence(8), ..cell(2) };
    world.publish(eu, &[row(1, 5), row(2, 7), Row { cell: other_cell, ..row(2, 9) }]).await.unwrap();
    world.publish(us, &[row(1, 100), row(3, 100)]).await.unwrap();
    world.merge_log().await.unwrap();
    let cells = [other_cell, cell(1), cell(2), cell(3), cell(9)];
    let stored = world.stored_counts(eu, &cells).await.unwrap();
    assert_eq!(stored.counts, [9, 5, 7, 0, 0]);
    assert!(stored.lag < Nanos::from_secs(60), "all of it is merged: {:?}", stored.lag);
    assert_eq!(world.stored_counts(eu, &[]).await.unwrap().counts, [0_u64; 0]);
    if fixture.is_memory() {
        return;
    }
    fixture.sql("DELETE FROM tidegate_counts WHERE count = 5").await;
    assert_eq!(world.stored_counts(eu, &cells).await.unwrap().counts, [9, 0, 7, 0, 0]);
    // What isn't merged is in nobody's table, and that is said.
    world.publish(eu, &[row(1, 5)]).await.unwrap();
    fixture.sql("UPDATE tidegate_publishes SET written_at = written_at - 60000000 WHERE merged_at = 0").await;
    let stored = world.stored_counts(eu, &[cell(1)]).await.unwrap();
    assert!(stored.counts == [0] && stored.lag >= Nanos::from_secs(60), "{stored:?}");
}

pub(crate) async fn a_reader_is_told_that_the_store_lost_its_log_or_went_back(fixture: Fixture) {
    if fixture.is_memory() {
        return;
    }
    let world = fixture.open();
    let me = owner(&world, "eu").await;
    world.publish(me, &[row(1, 1)]).await.unwrap();
    let (_, since) = import_since(&world, Cursor::default()).await;
    assert!(!world.import(since).await.unwrap().is_restart);
    world.publish(me, &[row(2, 1)]).await.unwrap();
    let (_, since) = import_since(&world, since).await;
    assert!(!world.import(since).await.unwrap().is_restart);
    // Another entry has the last one's number: of a backup that others wrote to since.
    fixture.sql("UPDATE tidegate_publishes SET written_at = written_at - 1000000").await;
    assert!(world.import(since).await.unwrap().is_restart);
    let (_, since) = import_since(&world, Cursor::default()).await;
    assert!(!world.import(since).await.unwrap().is_restart);
    fixture.sql("DELETE FROM tidegate_publishes").await;
    fixture.sql("DELETE FROM tidegate_counts").await;
    let restarted = world.import(since).await.unwrap();
    assert!(restarted.is_restart && restarted.components.is_empty(), "{restarted:?}");
}

pub(crate) async fn rows_are_deleted_in_small_batches_some_time_after_they_expired(fixture: Fixture) {
    let world = fixture.open();
    let me = owner(&world, "eu").await;
    // What is over isn't merged any more; so in a table it grows old there.
    let expires = if fixture.is_memory() { Nanos::from_secs(1_000_000) } else { LATER };
    let old = |number| Row { expires, limit: 5, ..row(number, 1) };
    let rows: Vec<Row> = (0..2500).map(old).collect();
    world.publish(me, &rows).await.unwrap();
    world.publish(me, &[row(9000, 1)]).await.unwrap();
    let over = Row { expires: Nanos::from_secs(1_000_000), ..row(9002, 1) };
    if !fixture.is_memory() {
        world.publish(me, &[over]).await.unwrap();
        assert_eq!(world.merge_log().await.unwrap().rows, 2501);
    }
    fixture.sql("UPDATE tidegate_counts SET expires_at = 1000000 WHERE limit_count = 5").await;
    let mut deleted = Vec::new();
    for _ in 0..4 {
        deleted.push(world.delete_expired().await.unwrap());
        world.publish(me, &[row(9001, deleted.len() as u64)]).await.unwrap();
    }
    let most = DELETED_MAX as u64;
    assert_eq!(deleted, [most, most, 500, 0]);
    // A log may still tell of them; whoever reads it knows that they are over.
    let alive = import_all(&world)
        .await
        .into_iter()
        .filter(|component| component.expires == LATER && component.limit != 5);
    assert_eq!(alive.count(), 2);
}

/// As a worker does: a busy machine may take longer than a statement's deadline.
async fn again<'a, T>(call: impl Fn() -> WorldFuture<'a, T>) -> Result<T, WorldError> {
    for _ in 0..50 {
        match call().await {
            Err(WorldError::Timeout { .. }) => {}
            outcome => return outcome,
        }
    }
    call().await
}

pub(crate) async fn thirty_publishers_at_once_never_block_each_other(fixture: Fixture) {
    let first = fixture.open();
    let mut owners = Vec::new();
    for region in 0..15 {
        owners.push(owner(&first, &format!("region-{region}")).await);
    }
    let deadlocks = fixture.deadlocks();
    let publishers: Vec<_> = (0..30_u64)
        .map(|number| {
            let (world, me) = (fixture.open(), owners[usize::try_from(number).unwrap() % owners.len()]);
            tokio::spawn(async move {
                for round in 0..4 {
                    // In an order of its own, the same cells as everybody else, and some that nobody has yet.
                    let cells = (0..400_u128).map(|cell| (cell * 7 + u128::from(number) * 13) % 1000);
                    let rows: Vec<Row> = cells.map(|cell| row(cell, round * 30 + number + 1)).collect();
                    again(|| world.publish(me, &rows)).await.map_err(|error| format!("{number}: {error}"))?;
                    if number % 10 == 0 {
                        again(|| world.merge_log()).await.map_err(|error| format!("merging: {error}"))?;
                        again(|| world.delete_expired())
                            .await
                            .map_err(|error| format!("deleting: {error}"))?;
                    }
                }
                Ok::<(), String>(())
            })
        })
        .collect();
    for publisher in publishers {
        publisher.await.unwrap().unwrap();
    }
    assert_eq!(fixture.deadlocks(), deadlocks);
    let components = import_all(&first).await;
    assert!(components.iter().all(|component| component.count > 90), "the last round's or later");
}
