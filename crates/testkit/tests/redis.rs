//! One server: it starts, answers, and can be hurt in every way that it offers.

use std::io::ErrorKind;
use std::process::Command;
use std::time::Duration;
use tidegate_testkit::{Redis, RedisBinary, RespClient, RespValue, redis_6_2, until};
use tokio::time::timeout;

const SHORTLY: Duration = Duration::from_millis(100);

fn ok() -> RespValue {
    RespValue::Simple("OK".to_owned())
}

#[tokio::test]
async fn a_server_answers_over_tcp_and_its_unix_socket() {
    let redis = Redis::start().await;
    assert_eq!(redis.url(), format!("redis://{}", redis.address()));
    let mut over_tcp = RespClient::connect(redis.address()).await.unwrap();
    assert_eq!(over_tcp.command(&["SET", "key", "value"]).await.unwrap(), ok());
    let mut over_unix = RespClient::connect_unix(&redis.unix_path()).await.unwrap();
    let value = over_unix.command(&["GET", "key"]).await.unwrap();
    assert_eq!(value, RespValue::Bulk(Some(b"value".to_vec())));
    redis.demand(&["HSET", "hash", "field", "1"]).await;
    assert_eq!(redis.demand(&["HGETALL", "hash"]).await.items().len(), 2);
    assert!(redis.command(&["NONSENSE"]).await.unwrap().is_error());
}

#[tokio::test]
async fn a_restarted_server_has_its_port_and_no_data() {
    let redis = Redis::start().await;
    redis.demand(&["SET", "key", "value"]).await;
    let address = redis.address();
    redis.kill();
    assert_eq!(RespClient::connect(address).await.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    assert!(redis.command(&["PING"]).await.is_err());
    redis.restart().await;
    let mut client = RespClient::connect(address).await.unwrap();
    assert_eq!(client.command(&["GET", "key"]).await.unwrap(), RespValue::Bulk(None));
    // Also without having been killed.
    redis.demand(&["SET", "key", "value"]).await;
    redis.restart().await;
    assert_eq!(redis.demand(&["DBSIZE"]).await, RespValue::Integer(0));
}

#[tokio::test]
async fn a_restarted_replica_has_no_data_either() {
    let (primary, replica) = (Redis::start().await, Redis::start().await);
    primary.demand(&["SET", "key", "value"]).await;
    replica.demand(&["REPLICAOF", "127.0.0.1", &primary.address().port().to_string()]).await;
    until("a replica in sync", Duration::from_secs(30), || async {
        (replica.demand(&["DBSIZE"]).await == RespValue::Integer(1)).then_some(())
    })
    .await;
    replica.restart().await;
    assert_eq!(replica.demand(&["DBSIZE"]).await, RespValue::Integer(0));
}

#[tokio::test]
async fn a_stopped_server_answers_when_it_is_resumed() {
    let redis = Redis::start().await;
    let mut client = RespClient::connect(redis.address()).await.unwrap();
    redis.stop();
    let mut answer = Box::pin(client.command(&["PING"]));
    assert!(timeout(SHORTLY, &mut answer).await.is_err());
    redis.resume();
    assert_eq!(answer.await.unwrap(), RespValue::Simple("PONG".to_owned()));
}

#[tokio::test]
async fn another_server_can_take_a_killed_ones_port() {
    let first = Redis::start().await;
    first.kill();
    let second = Redis::options().port(first.address().port()).start().await;
    assert_eq!(second.address(), first.address());
}

#[tokio::test]
async fn calls_are_counted_by_their_names() {
    let redis = Redis::start().await;
    let script = "return redis.call('INCR', KEYS[1])";
    let hash = redis.demand(&["SCRIPT", "LOAD", script]).await.text().unwrap();
    assert_eq!(redis.calls_of("evalsha").await, 0);
    for _ in 0..3 {
        redis.demand(&["EVALSHA", &hash, "1", "key"]).await;
    }
    assert_eq!(redis.calls_of("evalsha").await, 3);
    assert_eq!(redis.calls_of("incr").await, 3);
    assert_eq!(redis.demand(&["DEBUG", "SLEEP", "0.01"]).await, ok());
}

#[tokio::test]
async fn a_password_is_required() {
    let redis = Redis::options().password(r#"open "sesame"\"#).start().await;
    let mut stranger = RespClient::connect(redis.address()).await.unwrap();
    assert!(stranger.command(&["GET", "key"]).await.unwrap().is_error());
    assert_eq!(stranger.command(&["AUTH", r#"open "sesame"\"#]).await.unwrap(), ok());
    assert!(!stranger.command(&["GET", "key"]).await.unwrap().is_error());
}

#[tokio::test]
async fn a_user_is_required() {
    let redis = Redis::options().user("tide", "gate").start().await;
    let mut stranger = RespClient::connect(redis.address()).await.unwrap();
    assert!(stranger.command(&["GET", "key"]).await.unwrap().is_error());
    assert_eq!(stranger.command(&["AUTH", "tide", "gate"]).await.unwrap(), ok());
    assert_eq!(redis.demand(&["FLUSHALL"]).await, ok());
}

#[tokio::test]
async fn settings_win_over_ours() {
    let redis = Redis::options().setting("maxmemory", "12345678").start().await;
    assert_eq!(redis.info("maxmemory").await.unwrap().as_deref(), Some("12345678"));
}

/// By a client that verifies the certificate, of the package that the server comes with.
fn ping_with_tls(redis: &Redis, authority: &[&str]) -> String {
    let port = redis.address().port().to_string();
    let arguments = [&["-h", "127.0.0.1", "-p", &port, "--tls"], authority, &["PING"]].concat();
    let output = Command::new("redis-cli").args(arguments).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[tokio::test]
async fn a_tls_server_has_a_certificate_of_its_authority() {
    let redis = Redis::options().tls().start().await;
    assert_eq!(redis.url(), format!("rediss://{}", redis.address()));
    let authority = redis.authority_path();
    assert_eq!(ping_with_tls(&redis, &["--cacert", authority.to_str().unwrap()]), "PONG");
    assert_eq!(ping_with_tls(&redis, &[]), "");
    let mut plain = RespClient::connect(redis.address()).await.unwrap();
    assert!(plain.command(&["PING"]).await.is_err());
    assert_eq!(redis.demand(&["SET", "key", "value"]).await, ok());
}

#[tokio::test]
async fn version_6_2_runs_too() {
    redis_6_2().unwrap();
    let redis = Redis::options().binary(RedisBinary::V6_2).start().await;
    let version = redis.info("redis_version").await.unwrap().unwrap();
    assert!(version.starts_with("6.2."), "{version}");
    assert_eq!(redis.demand(&["DEBUG", "SLEEP", "0"]).await, ok());
}

#[tokio::test]
#[should_panic(expected = "Bad directive")]
async fn a_failed_start_shows_the_log() {
    Redis::options().setting("no-such-setting", "1").start().await;
}
