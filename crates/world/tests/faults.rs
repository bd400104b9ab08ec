//! Databases that are killed, stopped, cut off and slow: every call ends in time, and works again soon after.

use std::sync::Arc;
use std::time::Duration;
use tidegate_core::{KeyId, Nanos, Sequence};
use tidegate_testkit::{FaultProxy, MariaDb, Postgres, ProxyFault, until};
use tidegate_world::{
    CellId, Cursor, JoinRequest, OwnerId, PublishPolicy, PublishThreshold, Row, SqlOptions, SqlWorld, World,
    WorldError, WorldUrl,
};
use tokio::time::Instant;

const DEADLINE: Duration = Duration::from_millis(700);
/// How much later than its deadline a call may end on a busy machine.
const MARGIN: Duration = Duration::from_millis(500);
/// How soon calls work again.
const BACK_WITHIN: Duration = Duration::from_secs(5);

/// What is done to a server.
trait Server {
    fn kill(&self);
    fn stop(&self);
    fn resume(&self);
    async fn restart(&self);
}

macro_rules! server {
    ($kind:ty) => {
        impl Server for $kind {
            fn kill(&self) {
                <$kind>::kill(self);
            }

            fn stop(&self) {
                <$kind>::stop(self);
            }

            fn resume(&self) {
                <$kind>::resume(self);
            }

            async fn restart(&self) {
                <$kind>::restart(self).await;
            }
        }
    };
}

server!(MariaDb);
server!(Postgres);

fn open(url: &str) -> SqlWorld {
    let url = WorldUrl::parse(url).expect("a url");
    let options = SqlOptions { deadline: DEADLINE, ..SqlOptions::default() };
    SqlWorld::new(url, options, &tokio::runtime::Handle::current())
}

fn joining() -> JoinRequest {
    JoinRequest {
        region: "eu".to_owned(),
        origin: 1,
        fingerprint: 1,
        policy: PublishPolicy { publish: PublishThreshold::Headroom, interval: Nanos::from_secs(5) },
        applied: 0,
        known: 0,
        leaves: false,
    }
}

fn row(count: u64) -> Row {
    let cell = CellId { key: KeyId::from_hash(7), epoch: 0, sequence: Sequence(1) };
    Row { cell, count, limit: 1000, expires: Nanos::from_secs(4_000_000_000), name: None }
}

/// Calls of every kind at once, more than there are connections.
async fn calls(world: &Arc<SqlWorld>, owner: OwnerId, count: u64) -> Vec<Result<(), WorldError>> {
    let calls = (0..10).map(|number| {
        let world = world.clone();
        tokio::spawn(async move {
            let began = Instant::now();
            let outcome = match number % 5 {
                0 => world.publish(owner, &[row(count)]).await.map(drop),
                1 => world.import(Cursor::default()).await.map(drop),
                2 => world.lead("job", 1, Nanos::from_secs(1)).await.map(drop),
                3 => world.merge_log().await.map(drop),
                _ => world.join(&joining()).await.map(drop),
            };
            assert!(began.elapsed() < DEADLINE + MARGIN, "call {number} took {:?}", began.elapsed());
            outcome
        })
    });
    let mut outcomes = Vec::new();
    for call in calls.collect::<Vec<_>>() {
        outcomes.push(call.await.expect("a call that ends"));
    }
    outcomes
}

async fn outlives_everything(server: impl Server, proxy: FaultProxy, url: &str) {
    let world = Arc::new(open(url));
    let joined = || async { world.join(&joining()).await.ok() };
    let me = until("the first call", Duration::from_secs(10), joined).await.me;
    let mut count = 1;
    let mut suffer = async |what: &str| {
        for _ in 0..2 {
            count += 1;
            let outcomes = calls(&world, me, count).await;
            assert!(outcomes.iter().all(Result::is_err), "{what}: {outcomes:?}");
        }
        count
    };
    let recover = async |what: &str, count: u64| {
        let published = || async { world.publish(me, &[row(count)]).await.ok() };
        until(what, BACK_WITHIN, published).await;
        let outcomes = || async { calls(&world, me, count).await.iter().all(Result::is_ok).then_some(()) };
        until(what, BACK_WITHIN, outcomes).await;
        world.merge_log().await.expect("merges");
        let counts = world.import(Cursor::default()).await.expect("imports").components;
        assert_eq!(counts.iter().map(|component| component.count).collect::<Vec<_>>(), [count], "{what}");
    };
    for fault in [
        ProxyFault::Blackhole,
        ProxyFault::Latency(Duration::from_secs(2)),
        ProxyFault::Refuse,
        ProxyFault::Reset,
    ] {
        proxy.set(fault);
        let count = suffer(&format!("{fault:?}")).await;
        proxy.set(ProxyFault::None);
        recover(&format!("after {fault:?}"), count).await;
    }
    server.stop();
    let count = suffer("stopped").await;
    server.resume();
    recover("resumed", count).await;
    server.kill();
    let count = suffer("killed").await;
    server.restart().await;
    recover("restarted", count).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mariadb_that_fails_costs_calls_their_deadline_and_comes_back() {
    let server = MariaDb::start().await;
    server.create_database("world");
    let proxy = FaultProxy::start(server.address()).await;
    let url = format!("mysql://root@{}/world", proxy.address());
    outlives_everything(server, proxy, &url).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_that_fails_costs_calls_their_deadline_and_comes_back() {
    let server = Postgres::start().await;
    server.create_database("world");
    let proxy = FaultProxy::start(server.address()).await;
    let url = format!("postgres://postgres@{}/world", proxy.address());
    outlives_everything(server, proxy, &url).await;
}

#[tokio::test]
async fn a_store_that_is_not_there_is_an_error_of_its_calls_alone() {
    let began = Instant::now();
    let nobody = format!("mysql://root@127.0.0.1:{}/world", tidegate_testkit::free_port());
    for url in [&*nobody, "sqlite:/nowhere/at/all/world.db"] {
        let world = open(url);
        let outcome = world.join(&joining()).await;
        assert!(
            matches!(outcome, Err(WorldError::Unreachable { .. } | WorldError::Refused { .. })),
            "{outcome:?}"
        );
    }
    assert!(began.elapsed() < DEADLINE);
}
