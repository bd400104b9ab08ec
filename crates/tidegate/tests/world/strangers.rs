//! Who doesn't belong: a region with another one's name, and one with another secret. And who does: processes
//! without a store of their own that share a file.

use crate::fleet::{Limit, Member, PATIENT, pause, wait_for};
use crate::regions::{JOINED_WITHIN, Region, Regions, SEEN_WITHIN, world_of};
use crate::support::{Directory, poll};
use std::time::Duration;
use tidegate_testkit::Redis;

#[test]
fn one_name_on_two_origins_is_an_alarm() {
    let world = Regions::start(1);
    let second = Region::start("region-0", &world.url(), 1, &[]);
    for node in [&second.nodes[0], &world.regions[0].nodes[world.regions[0].wait_worker(SEEN_WITHIN)]] {
        poll("an alarm", JOINED_WITHIN, || (world_of(node)["namesakes"] == 1).then_some(()));
        assert!(node.log().contains("another origin has this region's name"), "{}", node.log());
    }
}

#[test]
fn a_region_with_another_secret_is_refused_and_decides_alone() {
    let world = Regions::start(1);
    let redis = wait_for(Redis::start());
    let directory = Directory::new();
    directory.write("secret", "another-fleet-s-secret");
    let url = (redis.url(), world.url());
    let arguments = ["--origin-url", &url.0, "--world-url", &url.1, "--region", "other"];
    let secret = ["--cluster-secret-file", "secret"];
    let stranger = Member::start_in(directory, &[&arguments[..], &secret, &PATIENT].concat());
    let problem =
        poll("a problem", JOINED_WITHIN, || world_of(&stranger)["problem"].as_str().map(str::to_owned));
    assert!(problem.contains("another fleet secret"), "{problem}");
    assert!(!stranger.log().contains("another-fleet-s-secret"));
    let limit = Limit::new("alone", 10);
    assert_eq!((0..12).filter(|_| stranger.ask(&limit).is_allowed()).count(), 10);
    assert_eq!(world.components(&limit), [0_u64; 0]);
}

#[test]
fn processes_without_a_store_of_their_own_share_a_file() {
    let file = Directory::new();
    let url = format!("sqlite:{}", file.path("world.db").display());
    let start = || {
        let arguments = ["--region", "here", "--world-url", &url, "--world-interval-ms", "1000"];
        Member::start_in(Directory::new(), &[&arguments[..], &PATIENT].concat())
    };
    let nodes = [start(), start()];
    for node in &nodes {
        poll("both", JOINED_WITHIN, || (world_of(node)["regions_sharing"] == 2).then_some(()));
        assert_eq!(world_of(node)["namesakes"], 0, "that is how it is meant");
    }
    let limit = Limit::new("shared", 1_000);
    (0..400).for_each(|_| assert!(nodes[0].ask(&limit).is_allowed()));
    let look = || {
        pause(Duration::from_millis(50));
        nodes[1].ask(&limit.clone().exact()).remaining()
    };
    poll("what the other one admitted", SEEN_WITHIN, || (look() <= 620).then_some(()));
}
