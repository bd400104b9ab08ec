//! What one region admits, the others hear of: soon, and within the bounds.

use crate::regions::{Ask, PERIOD, Regions};
use tidegate_core::{Accuracy, Class, Nanos};
use tidegate_world::PublishThreshold;

const SECOND: Nanos = Nanos::from_secs(1);

#[test]
fn half_of_a_limit_spent_in_one_region_is_seen_in_the_others_within_a_second() {
    let mut regions = Regions::new(3, PublishThreshold::Headroom);
    let ask = Ask::new("caller", 1_000);
    assert_eq!(regions.admitted(0, &ask, 500), 500);
    regions.pass(SECOND);
    let now = regions.now;
    for region in [1, 2] {
        assert_eq!(regions.regions[region].origin.cell_total(&ask.cell(now), now).total, 0);
        assert!(regions.ask(region, &ask));
        let world = regions.regions[region].world(&ask, now);
        assert_eq!(world, 500, "in region {region}");
    }
    assert_eq!(regions.regions[1].counters().counts_by_name()[9], ("world_cells_imported", 1));
}

#[test]
fn one_region_alone_gets_its_whole_limit_whatever_its_class() {
    for class in [Class::Paid, Class::Free, Class::Abuse] {
        let mut regions = Regions::new(3, PublishThreshold::Headroom);
        let ask = Ask::new("caller", 1_000).class(class);
        let mut admitted = 0;
        for _ in 0..600 {
            admitted += regions.admitted(0, &ask, 10);
            regions.pass(Nanos::from_millis(50));
        }
        assert!((995..=1_000).contains(&admitted), "{class:?}: {admitted}");
    }
}

#[test]
fn even_load_overshoots_little() {
    let mut regions = Regions::new(3, PublishThreshold::Headroom);
    let ask = Ask::new("caller", 1_000);
    let mut admitted = 0;
    // 10 a second in each.
    for _ in 0..600 {
        admitted += (0..3).map(|region| regions.admitted(region, &ask, 1)).sum::<u64>();
        regions.pass(Nanos::from_millis(100));
    }
    assert!((970..=1_030).contains(&admitted), "{admitted}");
}

#[test]
fn regions_that_rest_at_half_a_limit_are_known_of() {
    let mut regions = Regions::new(3, PublishThreshold::Headroom);
    let ask = Ask::new("caller", 1_000);
    assert_eq!(regions.admitted(0, &ask, 490) + regions.admitted(1, &ask, 490), 980);
    regions.pass(SECOND);
    let more = regions.admitted(2, &ask, 1_000);
    assert!(980 + more <= 1_050, "{more} more");
}

#[test]
fn a_flash_in_all_regions_is_bounded_for_abuse_and_over_within_seconds() {
    let mut regions = Regions::new(3, PublishThreshold::Headroom);
    let ask = Ask::new("caller", 1_000).class(Class::Abuse);
    let mut admitted = 0;
    for _ in 0..100 {
        admitted += (0..3).map(|region| regions.admitted(region, &ask, 10)).sum::<u64>();
        regions.pass(Nanos::from_millis(10));
    }
    assert!(admitted <= 1_300, "{admitted}");
    regions.pass(Nanos::from_secs(10));
    for _ in 0..100 {
        admitted += (0..3).map(|region| regions.admitted(region, &ask, 1)).sum::<u64>();
        regions.pass(Nanos::from_millis(100));
    }
    assert!((950..=1_300).contains(&admitted), "{admitted}");
    let waits: u64 = regions.regions.iter().map(|region| region.counters().credit_waits.get()).sum();
    assert!(waits > 0);
}

#[test]
fn under_the_floor_policy_nothing_is_heard_of_below_it() {
    let mut regions = Regions::new(2, PublishThreshold::Floor(0.5));
    let ask = Ask::new("caller", 1_000);
    regions.admitted(0, &ask, 499);
    regions.pass(Nanos::from_secs(20));
    let now = regions.now;
    assert!(regions.ask(1, &ask));
    assert_eq!(regions.regions[1].world(&ask, now), 0);
    regions.admitted(0, &ask, 1);
    regions.pass(Nanos::from_secs(2));
    let now = regions.now;
    assert_eq!(regions.regions[1].world(&ask, now), 500);
}

#[test]
fn what_comes_to_rest_is_published_to_the_last_unit() {
    let mut regions = Regions::new(2, PublishThreshold::Headroom);
    let ask = Ask::new("caller", 1_000);
    regions.admitted(0, &ask, 300);
    regions.pass(SECOND);
    regions.admitted(0, &ask, 3);
    regions.pass(Nanos::from_secs(15));
    let row = regions.store.components().find(|component| component.cell == ask.cell(regions.now)).unwrap();
    assert_eq!(row.count, 303);
}

#[test]
fn a_cell_that_ended_is_published_to_the_last_unit() {
    let mut regions = Regions::new(2, PublishThreshold::Headroom);
    let ask = Ask::new("caller", 1_000);
    let cell = ask.cell(regions.now);
    // Half of the credit is 125.
    regions.admitted(0, &ask, 100);
    regions.pass(Nanos::from_secs(20));
    assert_eq!(regions.store.components().count(), 0);
    regions.pass(PERIOD);
    let row = regions.store.components().find(|component| component.cell == cell).expect("a row");
    assert_eq!(row.count, 100);
}

#[test]
fn what_never_asks_is_heard_of_too() {
    let mut regions = Regions::new(2, PublishThreshold::Headroom);
    let ask = Ask { accuracy: Accuracy::Async, ..Ask::new("billed", 1_000) };
    assert_eq!(regions.admitted(0, &ask, 400), 400);
    regions.pass(SECOND);
    let now = regions.now;
    regions.ask(1, &ask);
    assert_eq!(regions.regions[1].world(&ask, now), 400);
}

/// A request larger than its limit, and one that the previous cell denies, are counted nowhere.
#[test]
fn a_denial_changes_no_other_regions_allowance() {
    let mut regions = Regions::new(2, PublishThreshold::Headroom);
    let oversized = Ask::new("cold", 100).cost(101);
    assert!(!regions.ask(0, &oversized), "more than the limit, of a caller who used nothing");
    let ask = Ask::new("previous", 100);
    assert_eq!(regions.admitted(0, &ask, 100), 100);
    regions.pass(PERIOD);
    // In the next cell the first is denied by the previous cell alone.
    let denied = regions.admitted(0, &ask.cost(100), 5);
    assert_eq!(denied, 0);
    regions.pass(Nanos::from_secs(12));
    assert_eq!(regions.admitted(1, &Ask::new("cold", 100), 120), 100, "all of it is left elsewhere");
    let now = regions.now;
    let of_cell =
        |cell| regions.store.components().filter(|row| row.cell == cell).map(|row| row.count).sum::<u64>();
    assert_eq!(of_cell(ask.cell(now)), 0, "nothing was counted in the cell of the denial");
    assert_eq!(of_cell(oversized.cell(now)), 0);
}

#[test]
fn a_reset_in_one_region_starts_the_key_afresh_in_all_and_they_count_together_again() {
    let mut regions = Regions::new(3, PublishThreshold::Headroom);
    let ask = Ask::new("caller", 1_000);
    regions.admitted(0, &ask, 500);
    regions.pass(SECOND);
    // The second region is full, and denies by itself: it asks nobody.
    assert!(regions.admitted(1, &ask, 1_000) < 1_000);
    regions.pass(SECOND);
    assert!(!regions.ask(1, &ask.cost(100)));
    let now = regions.now;
    regions.regions[0].reset(&ask, now);
    regions.pass(Nanos::from_secs(2));
    assert_eq!(regions.admitted(1, &ask, 600), 600, "afresh, also where it was denied");
    regions.pass(Nanos::from_secs(2));
    let mut more = regions.admitted(0, &ask, 1_000);
    regions.pass(SECOND);
    more += regions.admitted(2, &ask, 1_000);
    assert!((380..=450).contains(&more), "they count together: {more} more");
}
