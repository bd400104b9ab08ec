//! The fleet's secret where no setting names it: all regions find it in the database, each Redis has a copy, and a
//! database that lost it gets it back. A fleet that runs on the built-in key keeps it.

use crate::fleet::{Limit, Member, PATIENT, pause, wait_for};
use crate::regions::{JOINED_WITHIN, SEEN_WITHIN, world_of};
use crate::support::{Directory, poll};
use std::sync::Arc;
use std::time::Duration;
use tidegate_core::{FleetSecret, Nanos};
use tidegate_testkit::{FaultProxy, MariaDb, ProxyFault, Redis};
use tidegate_world::{
    JoinRequest, PublishPolicy, PublishThreshold, SqlOptions, SqlWorld, World as _, WorldUrl,
};
use tokio::runtime::Handle;

/// An empty database, and a way to it that a test can cut.
struct Database {
    server: Arc<MariaDb>,
    proxy: FaultProxy,
    name: String,
}

impl Database {
    fn create() -> Self {
        let (server, proxy) = wait_for(async {
            let server = MariaDb::shared().await;
            let proxy = FaultProxy::start(server.address()).await;
            (server, proxy)
        });
        let name = format!("secret_{}", proxy.address().port());
        server.create_database(&name);
        Database { server, proxy, name }
    }

    fn url(&self) -> String {
        format!("mysql://root@{}/{}", self.proxy.address(), self.name)
    }

    /// The secret as it is stored; nothing when its table or its row is missing.
    fn secret(&self) -> Option<String> {
        let exists = format!(
            "SELECT COUNT(*) FROM information_schema.tables \
             WHERE table_schema = '{}' AND table_name = 'tidegate_secret'",
            self.name
        );
        if self.server.query("", &exists) != [["1"]] {
            return None;
        }
        let rows = self.server.query(&self.name, "SELECT secret FROM tidegate_secret");
        rows.into_iter().flatten().next()
    }

    /// A node of a region, without `cluster.secret_file`.
    fn node(&self, region: &str, redis: &Redis, directory: Directory) -> Member {
        let (origin, world) = (redis.url(), self.url());
        let arguments = ["--origin-url", &origin, "--region", region, "--world-url", &world];
        let interval = ["--world-interval-ms", "1000"];
        Member::start_in(directory, &[&arguments[..], &interval, &PATIENT].concat())
    }
}

fn source(member: &Member) -> String {
    member.node.state()["fleet_secret"].as_str().expect("a source").to_owned()
}

fn copy_in(redis: &Redis) -> Option<String> {
    let name = "tidegate:{nodes}:fleet-secret";
    wait_for(redis.demand(&["GET", name])).text()
}

fn copy_in_directory(member: &Member) -> String {
    member.directory.read("data/fleet.secret").trim_end().to_owned()
}

#[test]
fn regions_without_a_setting_share_the_databases_secret_and_give_it_back() {
    let database = Database::create();
    let stores = [1, 2].map(|_| wait_for(Redis::start()));
    let here = database.node("here", &stores[0], Directory::new());
    let there = database.node("there", &stores[1], Directory::new());
    for node in [&here, &there] {
        poll("both regions", JOINED_WITHIN, || (world_of(node)["regions_sharing"] == 2).then_some(()));
        assert_eq!(source(node), "store");
        assert!(world_of(node)["problem"].is_null(), "{}", world_of(node));
    }
    let secret = database.secret().expect("a stored secret");
    assert_eq!([copy_in_directory(&here), copy_in_directory(&there)], [secret.clone(), secret.clone()]);
    assert_eq!(stores.each_ref().map(copy_in), [Some(secret.clone()), Some(secret.clone())]);
    let digits = secret.strip_prefix("1:").expect("the version of its form");
    assert!([&here, &there].iter().all(|node| !node.log().contains(digits)));

    // Keys have the same hash in both regions.
    let limit = Limit::new("shared", 1_000);
    (0..400).for_each(|_| assert!(here.ask(&limit).is_allowed()));
    let left = || {
        pause(Duration::from_millis(50));
        there.ask(&limit.clone().exact()).remaining()
    };
    poll("what the other region admitted", SEEN_WITHIN, || (left() <= 620).then_some(()));

    // Whoever starts gives back what the database lost: with its region's copy, or with its own alone.
    database.server.query(&database.name, "DELETE FROM tidegate_secret");
    let third = database.node("here", &stores[0], Directory::new());
    assert_eq!((database.secret().as_deref(), source(&third).as_str()), (Some(secret.as_str()), "store"));
    database.server.query(&database.name, "DROP TABLE tidegate_secret");
    let directory = Directory::new();
    std::fs::create_dir(directory.path("data")).expect("a directory");
    directory.write("data/fleet.secret", &secret);
    let empty = wait_for(Redis::start());
    let fourth = database.node("new", &empty, directory);
    assert_eq!((database.secret().as_deref(), source(&fourth).as_str()), (Some(secret.as_str()), "store"));
    assert_eq!(copy_in(&empty).as_deref(), Some(secret.as_str()));

    // A region whose database is out of reach starts with its Redis' copy.
    database.proxy.set(ProxyFault::Refuse);
    let fifth = database.node("there", &stores[1], Directory::new());
    assert_eq!((source(&fifth), copy_in_directory(&fifth)), ("store".to_owned(), secret));
}

#[test]
fn a_database_of_the_built_in_key_keeps_it() {
    let database = Database::create();
    wait_for(async {
        let url = WorldUrl::parse(&database.url()).expect("a url");
        let world = SqlWorld::new(url, SqlOptions::default(), &Handle::current());
        let policy = PublishPolicy { publish: PublishThreshold::Headroom, interval: Nanos::from_secs(1) };
        let fingerprint = FleetSecret::BUILT_IN.fingerprint();
        let old = JoinRequest {
            region: "old".to_owned(),
            origin: 1,
            fingerprint,
            policy,
            applied: 0,
            known: 0,
            leaves: false,
        };
        world.join(&old).await.expect("joins as an earlier release did");
    });
    let redis = wait_for(Redis::start());
    let node = database.node("new", &redis, Directory::new());
    node.wait_logged("keys are hashed with the built-in key");
    assert_eq!((source(&node).as_str(), database.secret(), copy_in(&redis)), ("built_in", None, None));
    poll("both regions", JOINED_WITHIN, || (world_of(&node)["regions_sharing"] == 2).then_some(()));
    assert!(world_of(&node)["problem"].is_null(), "{}", world_of(&node));
}
