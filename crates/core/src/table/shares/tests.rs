//! Tenants that flood a table, and tenants that want their share of it.

use super::*;
use crate::batch::{Decisions, Undecided};
use crate::identity::{FleetSecret, KeyPrefix, Shape};
use crate::item::Item;
use crate::limit::{Cost, Limit, Spec};
use crate::local::LocalState;
use crate::shared::SharedState;
use crate::state::State;
use crate::table::Table;
use crate::time::{Moment, Nanos, Period};

const KEYS_MAX: usize = 8192;
/// What each of two tenants has for sure where other nodes know the counts.
const SHARE: usize = KEYS_MAX / 2;

/// What each of two tenants has for sure: of a lone node's table, half is divided.
fn share<S: State>() -> usize {
    if S::SHARED { SHARE } else { SHARE / 2 }
}

fn now() -> Moment {
    Moment::at(Nanos::from_secs(1_800_000_000))
}

fn tag(tenant: &str) -> TenantTag {
    TenantTag::new(&FleetSecret::BUILT_IN, tenant)
}

fn item(tenant: &str, number: usize, cost: u64) -> Item {
    let period = Period::new(Nanos::from_secs(3600)).unwrap();
    let prefix = KeyPrefix::new(&FleetSecret::BUILT_IN, tenant, "n", "", Shape::Sliding(period));
    let spec = Spec::Sliding { limit: Limit::new(10).unwrap(), period };
    Item::new(prefix.key(&number.to_string()), spec, Cost::new(cost).unwrap())
}

fn table<S: State>() -> Table<S> {
    let table = Table::new(KEYS_MAX);
    table.share_among(&[tag("a"), tag("b")]);
    table
}

/// Whether it finds room doesn't matter.
fn ask<S: State>(table: &Table<S>, item: &Item) {
    let _ = table.decide(item, now());
}

/// Ten times what fits.
fn flood<S: State>(table: &Table<S>, tenant: &str) -> usize {
    (0..10 * KEYS_MAX).filter(|number| table.decide(&item(tenant, *number, 1), now()).is_ok()).count()
}

fn held<S: State>(table: &Table<S>, tenant: &str) -> usize {
    let (mut count, tenant) = (0, tag(tenant));
    table.for_each(|key, _| count += usize::from(key.tenant() == tenant));
    count
}

fn has_counted<S: State>(table: &Table<S>, tenant: &str) -> bool {
    let counted = table.shares.counted().unwrap();
    counted.find(tag(tenant)).map_or(0, |holder| holder.held.load(Ordering::Relaxed)) == held(table, tenant)
}

fn a_tenant_gets_its_share_of_a_flooded_table<S: State>() {
    let table = table::<S>();
    let (share, most) = (share::<S>(), if S::SHARED { KEYS_MAX } else { KEYS_MAX * 3 / 4 });
    assert_eq!(flood(&table, "a"), most, "room that is kept for nobody is anybody's");
    for number in 0..share {
        for charged in 1..=3 {
            let decision = table.decide(&item("b", number, 1), now());
            assert_eq!(decision.map(|decision| decision.remaining), Ok(10 - charged), "key {number}");
        }
        if number % 100 == 0 {
            (0..200).for_each(|other| ask(&table, &item("a", 1_000_000 + 200 * number + other, 1)));
        }
    }
    flood(&table, "a");
    for number in 0..share {
        assert_eq!(table.decide(&item("b", number, 0), now()).unwrap().remaining, 7, "key {number}");
    }
    assert!(held(&table, "a") > SHARE * 8 / 10, "{} are left", held(&table, "a"));
    assert!(S::SHARED || (table.evicted() == 0 && held(&table, "a") == most), "a lone node dropped one");
    assert!(table.len() <= KEYS_MAX && has_counted(&table, "a") && has_counted(&table, "b"));
}

#[test]
fn a_tenant_gets_its_share_of_a_table_that_another_has_flooded() {
    a_tenant_gets_its_share_of_a_flooded_table::<LocalState>();
}

#[test]
fn so_it_does_on_a_node_that_shares_its_counts() {
    a_tenant_gets_its_share_of_a_flooded_table::<SharedState>();
}

#[test]
fn requests_of_many_limits_get_their_share_too() {
    let table = table::<LocalState>();
    flood(&table, "a");
    let mut decisions = Decisions::new();
    for request in 0..share::<LocalState>() / 4 {
        let items: Vec<Item> = (0..4).map(|number| item("b", 4 * request + number, 1)).collect();
        assert!(table.decide_all(&items, now(), &mut decisions).is_ok(), "request {request}");
    }
    assert_eq!(held(&table, "b"), share::<LocalState>());
}

#[test]
fn beyond_its_share_a_tenant_is_refused_and_loses_nothing_to_its_peers() {
    let table = table::<SharedState>();
    flood(&table, "a");
    flood(&table, "b");
    let (a, b) = (held(&table, "a"), held(&table, "b"));
    assert!(a.abs_diff(SHARE) < SHARE / 5 && b.abs_diff(SHARE) < SHARE / 5, "{a} and {b}");
    assert_eq!(table.decide(&item("a", 9_999_999, 1), now()), Err(Undecided::NoRoom { index: 0 }));
}

#[test]
fn a_tenant_without_a_share_gives_way_to_all() {
    let table = table::<SharedState>();
    flood(&table, "a");
    table.share_among(&[tag("b"), tag("c")]);
    for tenant in ["b", "c"] {
        let first = |number: &usize| table.decide(&item(tenant, *number, 1), now()).is_ok();
        let admitted = (0..SHARE).filter(first).count();
        assert!(admitted > SHARE * 9 / 10, "{tenant} got {admitted} of {SHARE}");
    }
    assert!(held(&table, "a") < KEYS_MAX / 10);
}

/// A shard, its lock and its hint are one cache line; what is counted mustn't make them two.
#[cfg(not(feature = "shuttle"))]
#[test]
fn a_shard_still_fits_a_cache_line() {
    assert_eq!(size_of::<crate::table::LockedShard<LocalState>>(), 64);
}

#[test]
fn what_expired_is_counted_no_more() {
    let table = table::<LocalState>();
    (0..1000).for_each(|number| ask(&table, &item("a", number, 1)));
    let later = Moment::at(now().now.plus(Nanos::from_secs(3 * 3600)));
    for shard in 0..table.shard_count() {
        table.sweep_shard(shard, later);
    }
    assert!(table.is_empty() && has_counted(&table, "a"));
}
