//! Stores that forget or are gone, and workers that die: callers hear nothing of it, and afterwards the counts
//! agree again.

use crate::fleet::Limit;
use crate::regions::{Regions, SEEN_WITHIN, world_of};
use crate::support::{SOON, poll};
use std::time::Duration;
use tidegate_testkit::ProxyFault;

/// A worker's lease, the next try of another node, and what a busy machine takes.
const TAKEN_OVER_WITHIN: Duration = Duration::from_secs(3);

#[test]
fn a_region_whose_store_forgot_is_healed_from_the_database() {
    let world = Regions::start(2);
    let limit = Limit::new("healed", 1_000);
    let [here, there] = &world.regions[..] else { panic!("two regions") };
    (0..300).for_each(|_| assert!(here.nodes[0].ask(&limit).is_allowed()));
    (0..300).for_each(|_| drop(there.nodes[0].ask(&limit)));
    let sum = || world.components(&limit).iter().sum::<u64>();
    poll("rows of both", SEEN_WITHIN, || (sum() == 600).then_some(()));
    let owners = world.query("SELECT COUNT(*) FROM tidegate_owners");
    crate::fleet::wait_for(here.redis.demand(&["FLUSHALL"]));
    // A node that has never heard of the key: what it knows, it has from the store.
    let mut region = world.regions.into_iter().next().expect("a region");
    let url = format!("mysql://root@{}/{}", world.proxy.address(), world.name);
    region.add_node(&url, &[]);
    let mut asked = 0;
    let left = poll("both counts", SEEN_WITHIN, || {
        asked += 1;
        let answer = region.nodes[2].ask(&limit.clone().exact());
        (answer.path() == "exact" || answer.path() == "cold")
            .then(|| answer.remaining())
            .filter(|left| *left <= 400)
    });
    assert!(left + asked >= 400, "INV-2: nothing counts twice, {left} are left after {asked} requests");
    assert_eq!(world.database.query(&world.name, "SELECT COUNT(*) FROM tidegate_owners"), owners);
}

#[test]
fn a_dead_worker_is_replaced_within_seconds_and_a_stopped_one_at_once() {
    let mut world = Regions::start(1);
    let url = world.url();
    world.regions[0].add_node(&url, &[]);
    let region = &mut world.regions[0];
    let worker = region.wait_worker(SOON);
    let killed = region.nodes.remove(worker);
    killed.node.process.signal(rustix::process::Signal::KILL);
    let worker = region.wait_worker(TAKEN_OVER_WITHIN);
    let limit = Limit::new("after", 1_000);
    (0..20).for_each(|_| assert!(region.nodes[worker].ask(&limit).is_allowed()));
    let stopped = region.nodes.remove(worker);
    stopped.node.process.signal(rustix::process::Signal::TERM);
    region.wait_worker(TAKEN_OVER_WITHIN);
    let log = || stopped.log();
    poll("its end", SOON, || log().contains("stopping").then_some(()));
    poll("what it admitted", SEEN_WITHIN, || (world.components(&limit) == [20]).then_some(()));
}

#[test]
fn without_the_database_requests_go_on_and_it_catches_up() {
    let world = Regions::start(2);
    let [here, there] = &world.regions[..] else { panic!("two regions") };
    let worker = &here.nodes[here.wait_worker(SOON)];
    world.proxy.set(ProxyFault::Blackhole);
    let limit = Limit::new("meanwhile", 1_000);
    let mut slow = 0;
    for _ in 0..400 {
        let answer = here.nodes[0].ask(&limit);
        assert!(answer.is_allowed() && !answer.is_unverified(), "{}", answer.body);
        slow += usize::from(answer.took > Duration::from_millis(100));
    }
    assert!(slow <= 4, "{slow} of 400 took long");
    poll("a breaker that is open", Duration::from_secs(30), || {
        (world_of(worker)["breaker"] == "open").then_some(())
    });
    assert!(there.remaining(&limit) == 999, "nothing was heard");
    world.proxy.set(ProxyFault::None);
    poll("what was admitted meanwhile", SEEN_WITHIN, || (there.remaining(&limit) <= 620).then_some(()));
    poll("an exact row", SEEN_WITHIN, || (world.components(&limit).first() == Some(&400)).then_some(()));
    assert!(worker.log().contains("the world store is tried again"), "{}", worker.log());
}

#[test]
fn a_thread_of_its_own_speaks_to_the_database() {
    let world = Regions::start(1);
    let region = &world.regions[0];
    let worker = &region.nodes[region.wait_worker(SOON)];
    let limit = Limit::new("apart", 1_000);
    (0..300).for_each(|_| assert!(worker.ask(&limit).is_allowed()));
    poll("a row", SEEN_WITHIN, || (world.components(&limit) == [300]).then_some(()));
    let tasks = std::fs::read_dir(format!("/proc/{}/task", worker.node.process.0.id())).unwrap();
    let names = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).unwrap());
    assert_eq!(names.filter(|name| name.trim() == "world").count(), 1);
}
