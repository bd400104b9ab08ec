//! What regions do when the database loses data, when one of them gets another name, and when more is charged than a
//! limit has.

use crate::fleet::{Answer, Limit, Member, PATIENT, wait_for};
use crate::regions::{JOINED_WITHIN, Region, Regions, SEEN_WITHIN, hourly, world_of};
use crate::support::{Directory, poll};
use std::time::Duration;
use tidegate_testkit::Redis;

/// Lost rows are found with one of the next looks at them, a second each here.
const FOUND_WITHIN: Duration = Duration::from_secs(20);

/// A region that comes from nothing.
fn add_region(world: &mut Regions, name: &str) {
    let region = Region::start(name, &world.url(), 1, &[]);
    world.regions.push(region);
    let count = world.regions.len();
    world.wait_joined(count);
}

fn spend(region: &Region, limit: &Limit, count: u64) {
    let mut caller = region.nodes[0].caller();
    let admitted = (0..count).filter(|_| caller.ask(limit).is_allowed()).count();
    assert_eq!(u64::try_from(admitted), Ok(count));
}

fn rows_lost(world: &Regions) -> u64 {
    let nodes = world.regions.iter().flat_map(|region| &region.nodes);
    nodes.filter_map(|node| world_of(node)["world_rows_lost"].as_u64()).sum()
}

#[test]
fn what_an_emptied_database_lost_is_published_again_though_nobody_asks() {
    let mut world = Regions::start(2);
    let limits = [hourly("some", 1_000), hourly("spent", 100), hourly("few", 1_000)];
    for (limit, count) in limits.iter().zip([600, 100, 400]) {
        spend(&world.regions[0], limit, count);
        poll("an exact row", SEEN_WITHIN, || (world.components(limit) == [count]).then_some(()));
    }
    world.query("DELETE FROM tidegate_publishes");
    world.query("DELETE FROM tidegate_counts");
    for (limit, count) in limits.iter().zip([600, 100, 400]) {
        poll("the row again", FOUND_WITHIN, || (world.components(limit) == [count]).then_some(()));
    }
    assert!(rows_lost(&world) >= 3);
    add_region(&mut world, "late");
    let late = &world.regions[2].nodes[0];
    poll("a spent limit", SEEN_WITHIN, || (!late.ask(&limits[1]).is_allowed()).then_some(()));
    let left = world.regions[2].remaining(&limits[0]);
    assert!((390..400).contains(&left), "{left} are left of 1,000 of which 600 were spent");
}

#[test]
fn a_row_that_was_deleted_is_published_again() {
    let world = Regions::start(2);
    for (limit, count) in [(hourly("kept", 1_000), 300), (hourly("deleted", 100), 100)] {
        spend(&world.regions[1], &limit, count);
        poll("an exact row", SEEN_WITHIN, || (world.components(&limit) == [count]).then_some(()));
    }
    let in_table = || world.query("SELECT COUNT(*) FROM tidegate_counts WHERE identifier = 'deleted'");
    poll("the row in the table", FOUND_WITHIN, || (in_table() == [["1"]]).then_some(()));
    world.query("DELETE FROM tidegate_counts WHERE identifier = 'deleted'");
    // The log still has it; it is missed where who comes from nothing begins to read.
    let counts = || world.query("SELECT count FROM tidegate_counts ORDER BY count");
    poll("both rows in the table", FOUND_WITHIN * 2, || (counts() == [["100"], ["300"]]).then_some(()));
    assert_eq!(rows_lost(&world), 1, "the other one wasn't published again");
}

#[test]
fn a_database_that_was_replaced_by_an_empty_one_gets_everything_back() {
    let mut world = Regions::start(2);
    let limit = hourly("everywhere", 1_000);
    for region in &world.regions {
        spend(region, &limit, 200);
    }
    let sum = |world: &Regions| world.components(&limit).iter().sum::<u64>();
    poll("both rows", SEEN_WITHIN, || (sum(&world) == 400).then_some(()));
    for table in world.query("SHOW TABLES").concat() {
        world.query(&format!("DROP TABLE {table}"));
    }
    let restored = || world.query("SHOW TABLES LIKE 'tidegate_schema'").len() == 1 && sum(&world) == 400;
    poll("both rows again", JOINED_WITHIN * 2, || restored().then_some(()));
    add_region(&mut world, "late");
    let left = poll("what both regions used", SEEN_WITHIN, || {
        let left = world.regions[2].remaining(&limit);
        (left < 600).then_some(left)
    });
    assert!(left > 580, "nothing counts twice: {left}");
}

#[test]
fn a_region_that_is_renamed_on_the_same_redis_counts_once() {
    let mut world = Regions::start(2);
    let limit = hourly("caller", 1_000);
    spend(&world.regions[0], &limit, 400);
    poll("an exact row", SEEN_WITHIN, || (world.components(&limit) == [400]).then_some(()));
    let url = world.url();
    let renamed = &mut world.regions[0];
    renamed.nodes.clear();
    renamed.name = "renamed".to_owned();
    renamed.add_node(&url, &[]);
    renamed.wait_worker(JOINED_WITHIN);
    let names = || {
        let worker = &world.regions[1].nodes[world.regions[1].wait_worker(SEEN_WITHIN)];
        let regions = world_of(worker)["regions"].as_array().cloned().unwrap_or_default();
        let mut names: Vec<String> = regions.iter().map(|region| region["name"].to_string()).collect();
        names.sort();
        names
    };
    poll("its new name", SEEN_WITHIN, || (names() == ["\"region-1\"", "\"renamed\""]).then_some(()));
    spend(&world.regions[0], &limit, 100);
    poll("its row", SEEN_WITHIN, || (world.components(&limit) == [500]).then_some(()));
    for region in &world.regions {
        // Each look spends one, and a row takes a moment to reach the other region.
        let left = poll("what was spent", SEEN_WITHIN, || {
            let left = region.remaining(&limit);
            (left < 500).then_some(left)
        });
        assert!(left > 300, "500 were spent once, and {left} are left in {}", region.name);
    }
}

const POST_PAID: &str = "\
namespace: api
rules:
  - { name: tokens, key: [user], limit: 100 per 1d, charge: always }
";

/// A node of a region of its own, with a rule that is charged also when it denies.
fn post_paid(world: &Regions, region: &str, redis: &Redis) -> Member {
    let directory = Directory::new();
    directory.write("rules.yaml", POST_PAID);
    let (origin, url) = (redis.url(), world.url());
    let arguments = ["--origin-url", &origin, "--region", region, "--world-url", &url];
    let node = Member::start_with_secret(
        directory,
        &[&arguments[..], &PATIENT, &["--world-interval-ms", "1000"]].concat(),
    );
    node.wait_joined();
    node
}

#[test]
fn what_is_charged_beyond_a_limit_is_counted_in_the_other_region() {
    let world = Regions::start(0);
    let stores = [1, 2].map(|_| wait_for(Redis::start()));
    let [here, there] =
        [("here", &stores[0]), ("there", &stores[1])].map(|(name, redis)| post_paid(&world, name, redis));
    for node in [&here, &there] {
        poll("both regions", JOINED_WITHIN, || (world_of(node)["regions_sharing"] == 2).then_some(()));
    }
    let check = |node: &Member, user: &str, cost: u64| -> Answer {
        let body = format!(r#"{{"namespace":"api","attributes":{{"user":"{user}"}},"cost":{cost}}}"#);
        node.caller().post("/v1/check", &body)
    };
    // A charge that is denied on a key that nobody knew; and many limits at once.
    for (user, cost) in [("once", 101), ("much", 1_701), ("more", 5_000)] {
        assert!(!check(&here, user, cost).is_allowed());
    }
    for user in ["once", "much", "more"] {
        poll("a denial", SEEN_WITHIN * 2, || (!check(&there, user, 1).is_allowed()).then_some(()));
    }
    assert!(world_of(&there)["world_implausible_rows"].as_u64() > Some(0), "{}", world_of(&there));
    assert!(there.log().contains("it counts as 16 limits"), "an error in the log tells of it");
}
