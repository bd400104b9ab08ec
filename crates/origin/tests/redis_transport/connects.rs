//! Every way to connect: plain, TLS, passwords, users, databases, Unix sockets, old servers.

use super::support::{
    background, component, components, exchange, key, keys, origin, patient_origin, publish, until_published,
};
use std::time::Duration;
use tidegate_core::Nanos;
use tidegate_core::origin_cell::NodeId;
use tidegate_origin::{Expiry, Heartbeat, Origin, OriginError, RedisOptions, RedisOrigin, RedisUrl};
use tidegate_testkit::{Redis, RedisBinary, until};

const SOON: Duration = Duration::from_secs(3);

/// Everything that an origin does, once.
async fn works(url: &str) {
    let origin = patient_origin(url);
    until_published(&origin, key(0), SOON).await;
    let shard = origin.shard_of(key(1));
    let exchanged = origin.exchange(shard, &exchange(&keys(5)[1..], 3)).await.unwrap();
    assert_eq!(components(&exchanged), [3; 4]);
    let heartbeat = Heartbeat {
        node: NodeId(7),
        fingerprint: 9,
        alive_for: Nanos::from_secs(5),
        leaves: false,
        applied: 0,
        acceptance: tidegate_origin::Acceptance::default(),
    };
    assert_eq!(origin.beat(heartbeat).await.unwrap().nodes, 1);
    let expiry = Expiry { at: Nanos::from_secs(4_000), now: Nanos::ZERO };
    assert_eq!(origin.reset(shard, key(1), 0, expiry).await, Ok(1));
    assert_eq!(origin.reset(shard, key(1), 0, expiry).await, Ok(2));
    assert_eq!(origin.shards(), [shard]);
    let [connection] = &origin.connections()[..] else { panic!("one server") };
    assert_eq!((&connection.problem, connection.reconnects), (&None, 0));
    assert_eq!(origin.shard_name(shard), connection.server);
}

/// Why an origin isn't connected, once it tried.
async fn problem(origin: &RedisOrigin) -> String {
    until("a failed attempt", SOON, || async {
        let problem = origin.connections().first()?.problem.clone()?;
        (!problem.contains("first time")).then_some(problem)
    })
    .await
}

#[tokio::test]
async fn a_plain_server_works() {
    works(&Redis::start().await.url()).await;
}

#[tokio::test]
async fn the_oldest_supported_server_works() {
    let redis = Redis::options().binary(RedisBinary::V6_2).start().await;
    works(&redis.url()).await;
}

#[tokio::test]
async fn the_first_call_waits_for_the_first_connection() {
    let redis = Redis::start().await;
    let origin = patient_origin(&redis.url());
    assert_eq!(component(&publish(&origin, key(1), 5).await.unwrap()), 5);
}

#[tokio::test]
async fn an_origin_works_on_the_runtime_of_its_callers_too() {
    let redis = Redis::start().await;
    let url = RedisUrl::parse(&redis.url()).unwrap();
    let options = RedisOptions { call_timeout_ms: 5000, ..RedisOptions::default() };
    let origin = RedisOrigin::new(url, options, &tokio::runtime::Handle::current());
    assert_eq!(component(&publish(&origin, key(1), 5).await.unwrap()), 5);
}

#[tokio::test]
async fn the_connection_has_a_name_and_scripts_are_called_by_their_hash() {
    let redis = Redis::start().await;
    let origin = patient_origin(&redis.url());
    for number in 0..10 {
        publish(&origin, key(number), 1).await.unwrap();
    }
    let clients = redis.demand(&["CLIENT", "LIST"]).await.text().unwrap();
    // The one of the thread that keeps the origin, and one of this thread, which calls.
    let connections = clients.matches("name=tidegate ").count();
    assert!((1..=2).contains(&connections), "{clients}");
    assert_eq!((redis.calls_of("evalsha").await, redis.calls_of("eval").await), (10, 0));
}

#[tokio::test]
async fn a_password_works() {
    let redis = Redis::options().password("p@ss/w:rd").start().await;
    works(&format!("redis://:p%40ss%2Fw%3Ard@{}", redis.address())).await;
}

#[tokio::test]
async fn a_user_works() {
    let redis = Redis::options().user("ann", "secret").start().await;
    works(&format!("redis://ann:secret@{}", redis.address())).await;
}

#[tokio::test]
async fn a_user_without_a_password_and_with_few_rights_works() {
    let redis = Redis::start().await;
    let rights = ["nopass", "~tidegate:*", "+evalsha", "+eval", "+@hash", "+@read", "+@write", "+time"];
    redis.demand(&[&["ACL", "SETUSER", "bob", "on"], &rights[..]].concat()).await;
    works(&format!("redis://bob@{}", redis.address())).await;
}

#[tokio::test]
async fn a_wrong_password_is_told_without_being_told() {
    let redis = Redis::options().password("right").start().await;
    let origin = origin(&format!("redis://:hunter2@{}", redis.address()));
    let problem = problem(&origin).await;
    assert!(problem.contains("WRONGPASS") || problem.contains("authentication"), "{problem}");
    let error = publish(&origin, key(1), 1).await.unwrap_err();
    assert!(matches!(error, OriginError::Unreachable { .. }), "{error:?}");
    assert!(!format!("{problem} {error} {origin:?}").contains("hunter2"), "{origin:?}");
}

#[tokio::test]
async fn a_database_is_selected() {
    let redis = Redis::start().await;
    works(&format!("{}/3", redis.url())).await;
    let databases = redis.demand(&["INFO", "keyspace"]).await.text().unwrap();
    // The test kit has marked the server as new, in its first database: nothing else is there.
    assert!(databases.contains("db3:") && databases.contains("db0:keys=1,"), "{databases}");
}

#[tokio::test]
async fn a_unix_socket_works() {
    let redis = Redis::start().await;
    works(&format!("redis+unix://{}", redis.unix_path().display())).await;
    works(&format!("unix://{}?db=1", redis.unix_path().display())).await;
}

#[tokio::test]
async fn tls_works_with_an_authority_of_ones_own() {
    let redis = Redis::options().tls().start().await;
    works(&format!("{}?ca={}", redis.url(), redis.authority_path().display())).await;
}

#[tokio::test]
async fn tls_works_with_a_name_and_a_password() {
    let redis = Redis::options().tls().password("secret").start().await;
    let (port, authority) = (redis.address().port(), redis.authority_path());
    works(&format!("rediss://:secret@localhost:{port}?ca={}", authority.display())).await;
}

#[tokio::test]
async fn a_server_that_cannot_be_verified_is_not_trusted() {
    let (redis, stranger) = (Redis::options().tls().start().await, Redis::options().tls().start().await);
    let url = format!("{}?ca={}", redis.url(), stranger.authority_path().display());
    assert!(problem(&origin(&url)).await.contains("TLS"));
    let url = format!("{}?ca=/nowhere.pem", redis.url());
    assert!(problem(&origin(&url)).await.contains("can't use ca=/nowhere.pem"));
}

#[tokio::test]
async fn tls_is_not_spoken_to_a_plain_server_nor_the_other_way_round() {
    let (plain, tls) = (Redis::start().await, Redis::options().tls().start().await);
    let url = format!("rediss://{}?ca={}", plain.address(), tls.authority_path().display());
    assert!(problem(&origin(&url)).await.contains("TLS"));
    problem(&origin(&format!("redis://{}", tls.address()))).await;
}

#[tokio::test]
async fn a_member_of_a_cluster_is_recognised() {
    let redis = Redis::options().setting("cluster-enabled", "yes").start().await;
    let (host, port) = (redis.address().ip().to_string(), redis.address().port());
    // Every slot belongs to another server that it has heard of: none. So it says CLUSTERDOWN, an error.
    let origin = origin(&format!("redis://{host}:{port}"));
    let error = until("an answer", SOON, || async { publish(&origin, key(1), 1).await.err() }).await;
    assert!(
        matches!(&error, OriginError::Refused { message } if message.contains("CLUSTERDOWN")),
        "{error:?}"
    );
}

#[tokio::test]
async fn dropping_an_origin_closes_its_connections() {
    let redis = Redis::start().await;
    let origin = origin(&redis.url());
    until_published(&origin, key(0), SOON).await;
    drop(origin);
    until("a closed connection", SOON, || async {
        let clients = redis.demand(&["CLIENT", "LIST"]).await.text()?;
        (!clients.contains("name=tidegate ")).then_some(())
    })
    .await;
}

#[test]
fn an_origin_is_made_outside_of_any_runtime_and_on_one_that_has_ended() {
    let url = RedisUrl::parse("redis://127.0.0.1:1").unwrap();
    drop(RedisOrigin::new(url.clone(), RedisOptions::default(), background()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let handle = runtime.handle().clone();
    drop(runtime);
    let origin = RedisOrigin::new(url, RedisOptions::default(), &handle);
    let waiting = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    assert!(waiting.block_on(publish(&origin, key(1), 1)).is_err());
}
