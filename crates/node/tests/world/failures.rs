//! Stores that forget, are gone, refuse or lie; workers that die.

use crate::regions::{Ask, Regions};
use tidegate_core::{CellId, Nanos, Sequence};
use tidegate_origin::{PublishRequest, WorldCell};
use tidegate_world::{OwnerId, PublishThreshold, Row};

const SECOND: Nanos = Nanos::from_secs(1);

#[test]
fn a_region_whose_store_forgot_everything_is_healed_and_counts_nothing_twice() {
    let mut regions = Regions::new(2, PublishThreshold::Headroom);
    let ask = Ask::new("caller", 1_000);
    regions.admitted(0, &ask, 300);
    regions.admitted(1, &ask, 400);
    regions.pass(Nanos::from_secs(2));
    let now = regions.now;
    assert_eq!((regions.regions[0].total(&ask, now), regions.regions[0].world(&ask, now)), (300, 400));
    regions.regions[0].forget();
    regions.pass(Nanos::from_secs(2));
    let now = regions.now;
    let region = &mut regions.regions[0];
    assert_eq!((region.total(&ask, now), region.world(&ask, now)), (300, 400));
    assert_eq!(regions.store.membership().members.len(), 2, "it is who it was");
    assert_eq!(regions.regions[1].world(&ask, now), 300, "INV-1, INV-2: nothing was published twice");
}

/// Its worker of before stood still meanwhile, and told the store what it knew: the row of another owner by then.
#[test]
fn a_region_that_is_another_owner_since_its_store_forgot_publishes_what_a_late_word_says_it_had() {
    let mut regions = Regions::new(2, PublishThreshold::Headroom);
    let ask = Ask::new("caller", 1_000);
    regions.admitted(0, &ask, 300);
    regions.pass(Nanos::from_secs(3));
    let cell = ask.cell(regions.now);
    let owner = |regions: &Regions| regions.regions[0].worker.membership().unwrap().0;
    let before = owner(&regions);
    assert_eq!(regions.store.component(&cell, before), Some(300));
    let now = regions.now;
    assert_eq!(regions.regions[0].world(&ask, now), 0, "its node has heard what is published");
    regions.new_store(0);
    regions.pass(Nanos::from_secs(3));
    let after = owner(&regions);
    assert_ne!(after, before);
    assert_eq!(regions.store.component(&cell, after), None, "nobody has counted in it since");
    let expires = regions.now.plus(Nanos::from_secs(600));
    let late = WorldCell { cell, own: 300, others: 0, expires };
    assert_eq!(regions.regions[0].origin.import(&late, now, now), 300);
    regions.pass(Nanos::from_secs(6));
    assert_eq!(regions.store.component(&cell, after), Some(300), "as its nodes believe");
}

/// Nothing tells that it did: the replica has the store's id and its life.
#[test]
fn a_region_whose_store_failed_over_to_an_old_replica_is_healed_by_its_next_look_at_all_cells() {
    let mut regions = Regions::new(2, PublishThreshold::Headroom);
    let asks = ["a", "b", "c", "d", "e", "f", "g", "h"].map(|caller| Ask::new(caller, 1_000));
    asks.iter().for_each(|ask| assert_eq!(regions.admitted(0, ask, 300), 300));
    regions.pass(SECOND);
    let replica = regions.regions[0].origin.clone();
    asks.iter().for_each(|ask| assert_eq!(regions.admitted(0, ask, 200), 200));
    regions.pass(Nanos::from_secs(15));
    regions.regions[0].origin = replica;
    regions.pass(Nanos::from_secs(6));
    let now = regions.now;
    let totals = asks.map(|ask| regions.regions[0].total(&ask, now));
    assert_eq!(totals, [500; 8], "what the world has of it");
}

#[test]
fn a_store_that_is_gone_delays_nothing_and_is_caught_up_with() {
    let mut regions = Regions::new(2, PublishThreshold::Headroom);
    let ask = Ask::new("caller", 1_000);
    regions.is_up = false;
    regions.admitted(0, &ask, 400);
    regions.pass(Nanos::from_secs(60));
    assert!(regions.regions[0].worker.state().is_breaker_open);
    assert!(regions.regions[0].worker.state().problem.is_some());
    assert_eq!(regions.admitted(0, &ask, 100), 100);
    regions.pass(SECOND);
    regions.is_up = true;
    regions.pass(Nanos::from_secs(10));
    let now = regions.now;
    assert!(regions.ask(1, &ask));
    assert_eq!(regions.regions[1].world(&ask, now), 500);
    assert!(regions.regions[0].worker.state().problem.is_none());
}

#[test]
fn a_new_worker_reads_everything_and_goes_on() {
    let mut regions = Regions::new(2, PublishThreshold::Headroom);
    let ask = Ask::new("caller", 1_000);
    regions.admitted(0, &ask, 300);
    regions.pass(SECOND);
    regions.new_worker(1);
    regions.regions[1].forget();
    regions.pass(Nanos::from_secs(3));
    let now = regions.now;
    assert!(regions.ask(1, &ask));
    assert_eq!(regions.regions[1].world(&ask, now), 300);
    regions.new_worker(0);
    regions.admitted(0, &ask, 300);
    regions.pass(Nanos::from_secs(3));
    let now = regions.now;
    assert_eq!(regions.regions[1].world(&ask, now), 600);
}

#[test]
fn a_row_that_the_store_refuses_blocks_no_other() {
    let mut regions = Regions::new(2, PublishThreshold::Headroom);
    let ask = Ask::new("caller", 1_000);
    let now = regions.now;
    let bad = CellId { sequence: Sequence(u64::MAX), ..ask.cell(now) };
    let expires = now.plus(Nanos::from_secs(600));
    let region = &mut regions.regions[0];
    region.count(bad, 9, now);
    region
        .origin
        .enqueue_publish_requests(&[PublishRequest { cell: bad, limit: 10, expires, name: "".into() }], now);
    regions.admitted(0, &ask, 400);
    regions.pass(SECOND);
    let now = regions.now;
    assert!(regions.ask(1, &ask));
    assert_eq!(regions.regions[1].world(&ask, now), 400);
    assert_eq!(regions.regions[0].counters().rows_refused.get(), 1);
    regions.pass(Nanos::from_secs(10));
    let refused = regions.regions[0].counters().rows_refused.get();
    assert!((3..=5).contains(&refused), "tried again, and ever more seldom: {refused}");
}

#[test]
fn a_count_of_more_than_16_limits_counts_as_16() {
    let mut regions = Regions::new(2, PublishThreshold::Headroom);
    let ask = Ask::new("caller", 100);
    let now = regions.now;
    let expires = now.plus(Nanos::from_secs(600));
    let row = Row { cell: ask.cell(now), count: 1_601, limit: 100, expires, name: None };
    regions.store.publish(OwnerId(7), &[row], now);
    regions.pass(SECOND);
    assert_eq!(regions.admitted(0, &ask, 100), 0);
    assert_eq!(regions.regions[0].world(&ask, now), 1_600);
    assert!(regions.regions[0].counters().implausible_rows.get() > 0);
}

/// A word about the regions that was on its way once hid the next one for good.
#[test]
fn regions_that_join_at_the_same_moment_all_hear_of_each_other() {
    for count in [2, 5, 10] {
        let regions = Regions::new(count, PublishThreshold::Headroom);
        for region in &regions.regions {
            let view = region.engine.world().unwrap().view().expect("a view");
            assert_eq!(u64::from(view.regions), count);
        }
    }
}
