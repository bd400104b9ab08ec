//! Servers and networks that fail: calls end in time, and everything works again afterwards by itself.

use super::support::{component, key, origin, origin_with, patient_origin, publish, timed, until_published};
use std::net::SocketAddr;
use std::time::Duration;
use tidegate_origin::{OriginError, RedisOptions, RedisOrigin};
use tidegate_testkit::{FaultProxy, ProxyFault, Redis, free_port, until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const RECOVERY: Duration = Duration::from_secs(3);

async fn behind_proxy(redis: &Redis) -> (FaultProxy, RedisOrigin) {
    let proxy = FaultProxy::start(redis.address()).await;
    let origin = origin(&format!("redis://{}", proxy.address()));
    until_published(&origin, key(0), RECOVERY).await;
    (proxy, origin)
}

/// A few calls, each of which has to fail in time.
async fn fails_in_time(origin: &RedisOrigin, calls: u32) -> Vec<OriginError> {
    let mut errors = Vec::new();
    for _ in 0..calls {
        let (outcome, took, allowed) = timed(publish(origin, key(0), 1)).await;
        assert!(took <= allowed, "{took:?}, allowed {allowed:?}: {outcome:?}");
        errors.push(outcome.expect_err("a fault"));
    }
    errors
}

#[tokio::test]
async fn a_server_that_appears_later_is_found() {
    let port = free_port();
    let origin = origin(&format!("redis://127.0.0.1:{port}"));
    for error in fails_in_time(&origin, 5).await {
        assert!(matches!(error, OriginError::Unreachable { .. }), "{error:?}");
    }
    let _redis = Redis::options().port(port).start().await;
    until_published(&origin, key(0), RECOVERY).await;
}

#[tokio::test]
async fn a_black_hole_costs_each_call_its_deadline_and_passes() {
    let redis = Redis::start().await;
    let (proxy, origin) = behind_proxy(&redis).await;
    proxy.set(ProxyFault::Blackhole);
    let errors = fails_in_time(&origin, 20).await;
    assert!(matches!(errors[0], OriginError::Timeout { waited_ms: 50 }), "{errors:?}");
    // Given up: the calls after the third don't wait any more.
    assert!(matches!(errors.last(), Some(OriginError::Unreachable { .. })), "{errors:?}");
    proxy.set(ProxyFault::None);
    let took = until_published(&origin, key(0), RECOVERY).await;
    println!("a black hole of a second was recovered from in {took:?}");
}

#[tokio::test]
async fn a_black_hole_at_the_start_passes() {
    let redis = Redis::start().await;
    let proxy = FaultProxy::start(redis.address()).await;
    proxy.set(ProxyFault::Blackhole);
    let origin = origin(&format!("redis://{}", proxy.address()));
    fails_in_time(&origin, 30).await;
    proxy.set(ProxyFault::None);
    until_published(&origin, key(0), RECOVERY).await;
}

#[tokio::test]
async fn answers_that_get_lost_and_requests_that_get_lost_pass() {
    let redis = Redis::start().await;
    let (proxy, origin) = behind_proxy(&redis).await;
    for fault in [ProxyFault::DropToClient, ProxyFault::DropToUpstream] {
        proxy.set(fault);
        fails_in_time(&origin, 5).await;
        proxy.set(ProxyFault::None);
        until_published(&origin, key(0), RECOVERY).await;
    }
}

#[tokio::test]
async fn a_stopped_server_costs_each_call_its_deadline_and_passes() {
    let redis = Redis::start().await;
    let origin = origin(&redis.url());
    until_published(&origin, key(0), RECOVERY).await;
    redis.stop();
    fails_in_time(&origin, 10).await;
    redis.resume();
    until_published(&origin, key(0), RECOVERY).await;
}

#[tokio::test]
async fn a_slow_server_keeps_its_connection() {
    let redis = Redis::start().await;
    let (proxy, origin) = behind_proxy(&redis).await;
    let before = proxy.counts().connections;
    // Answers come, but after the deadline.
    proxy.set(ProxyFault::Latency(Duration::from_millis(40)));
    for error in fails_in_time(&origin, 10).await {
        assert!(matches!(error, OriginError::Timeout { .. }), "{error:?}");
    }
    proxy.set(ProxyFault::None);
    until_published(&origin, key(0), RECOVERY).await;
    assert_eq!(proxy.counts().connections, before);
}

#[tokio::test]
async fn a_reset_connection_fails_its_calls_at_once_and_is_made_again() {
    let redis = Redis::start().await;
    let proxy = FaultProxy::start(redis.address()).await;
    let origin = patient_origin(&format!("redis://{}", proxy.address()));
    until_published(&origin, key(0), RECOVERY).await;
    proxy.set(ProxyFault::DropToClient);
    let (call, ()) = tokio::join!(timed(publish(&origin, key(0), 1)), async {
        tokio::time::sleep(Duration::from_millis(10)).await;
        proxy.set(ProxyFault::Reset);
    });
    assert!(matches!(call.0, Err(OriginError::Unreachable { .. })), "{call:?}");
    assert!(call.1 < Duration::from_secs(1), "long before the deadline: {call:?}");
    fails_in_time(&origin, 3).await;
    proxy.set(ProxyFault::None);
    until_published(&origin, key(0), RECOVERY).await;
    assert!(origin.connections()[0].reconnects >= 1);
}

#[tokio::test]
async fn a_restarted_server_knows_no_scripts_and_nobody_notices() {
    let redis = Redis::start().await;
    let origin = patient_origin(&redis.url());
    until_published(&origin, key(0), RECOVERY).await;
    // Every connection loads the scripts when it is made.
    let loads = redis.calls_of("script|load").await;
    redis.restart().await;
    until_published(&origin, key(0), RECOVERY).await;
    until("every connection", RECOVERY, || async {
        (redis.calls_of("script|load").await >= loads).then_some(())
    })
    .await;
    redis.demand(&["SCRIPT", "FLUSH"]).await;
    // Not one call fails, and the second finds the script again.
    assert_eq!(component(&publish(&origin, key(1), 5).await.unwrap()), 5);
    assert_eq!(component(&publish(&origin, key(2), 6).await.unwrap()), 6);
    assert_eq!(redis.calls_of("eval").await, 1);
}

#[tokio::test]
async fn a_server_that_became_read_only_is_connected_again() {
    let (redis, primary) = (Redis::start().await, Redis::start().await);
    let origin = origin(&redis.url());
    until_published(&origin, key(0), RECOVERY).await;
    let (host, port) = (primary.address().ip().to_string(), primary.address().port().to_string());
    redis.demand(&["REPLICAOF", &host, &port]).await;
    until("a refusal", RECOVERY, || async {
        publish(&origin, key(0), 1).await.err().filter(|error| matches!(error, OriginError::Refused { .. }))
    })
    .await;
    redis.demand(&["REPLICAOF", "NO", "ONE"]).await;
    until_published(&origin, key(0), RECOVERY).await;
    assert!(origin.connections()[0].reconnects >= 1, "{:?}", origin.connections());
}

#[tokio::test]
async fn a_busy_server_is_an_error_and_no_more() {
    let redis = Redis::start().await;
    let (proxy, origin) = behind_proxy(&redis).await;
    redis.demand(&["CONFIG", "SET", "busy-reply-threshold", "1"]).await;
    let endless = redis.client().await.unwrap();
    let mut endless = endless;
    let busy = tokio::spawn(async move { endless.command(&["EVAL", "while true do end", "0"]).await });
    let error = until("BUSY", RECOVERY, || async {
        publish(&origin, key(0), 1).await.err().filter(|error| error.to_string().contains("BUSY"))
    });
    let error = error.await;
    assert!(matches!(error, OriginError::Refused { .. }), "{error:?}");
    redis.demand(&["SCRIPT", "KILL"]).await;
    until_published(&origin, key(0), RECOVERY).await;
    let _ = busy.await;
    // The thread that keeps the origin and this one have a connection each, and keep it.
    assert!(proxy.counts().connections <= 2);
}

#[tokio::test]
async fn garbage_is_an_error_and_passes() {
    let redis = Redis::start().await;
    let (proxy, origin) = behind_proxy(&redis).await;
    for seed in 0..20 {
        proxy.set(ProxyFault::Garbage { seed });
        fails_in_time(&origin, 2).await;
        proxy.set(ProxyFault::None);
        until_published(&origin, key(0), RECOVERY).await;
    }
}

/// Answers every read with the same bytes.
async fn babbler(answer: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut buffer = vec![0; 65536];
                while stream.read(&mut buffer).await.is_ok_and(|count| count > 0) {
                    if stream.write_all(answer).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

#[tokio::test]
async fn no_nonsense_that_can_be_read_makes_anything_panic() {
    let answers: [&[u8]; 16] = [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"+OK\r\n+OK\r\n+OK\r\n+OK\r\n",
        b"*-1\r\n*-1\r\n*-1\r\n*-1\r\n",
        b"$-1\r\n$-1\r\n$-1\r\n$-1\r\n",
        b":1\r\n:-1\r\n:9223372036854775807\r\n:1\r\n",
        b"*0\r\n*0\r\n*0\r\n*0\r\n",
        b"*1\r\n*1\r\n*1\r\n*1\r\n",
        b"*9223372036854775807\r\n",
        b"$9223372036854775807\r\n",
        b"%1\r\n+a\r\n+b\r\n_\r\n#t\r\n,1.5\r\n",
        b"|1\r\n+a\r\n+b\r\n:1\r\n>1\r\n+x\r\n~1\r\n:1\r\n(1\r\n",
        b"-MOVED\r\n-MOVED 1\r\n-MOVED x y\r\n-MOVED 70000 h:1\r\n",
        b"-ASK 1 :\r\n-ASK\r\n-NOSCRIPT x\r\n-ERR\r\n",
        b"-\r\n-\r\n-\r\n-\r\n",
        b"-LOADING x\r\n-READONLY x\r\n-CLUSTERDOWN x\r\n-TRYAGAIN x\r\n",
        b"\r\n\r\n",
    ];
    for answer in answers {
        let address = babbler(answer).await;
        for scheme in ["redis", "redis+cluster"] {
            let origin = origin(&format!("{scheme}://{address}"));
            fails_in_time(&origin, 3).await;
        }
        let origin = origin(&format!("redis+sentinel://{address}/m"));
        fails_in_time(&origin, 3).await;
    }
}

#[tokio::test]
async fn calls_beyond_the_bound_fail_at_once() {
    let redis = Redis::start().await;
    let proxy = FaultProxy::start(redis.address()).await;
    let options = RedisOptions { calls_in_flight_max: 8, call_timeout_ms: 1000, ..RedisOptions::default() };
    let origin = std::sync::Arc::new(origin_with(&format!("redis://{}", proxy.address()), options));
    until_published(&origin, key(0), RECOVERY).await;
    proxy.set(ProxyFault::Blackhole);
    let calls: Vec<_> = (0..20)
        .map(|number| {
            let origin = origin.clone();
            tokio::spawn(async move { publish(&origin, key(number), 1).await.unwrap_err().to_string() })
        })
        .collect();
    let mut full = 0;
    for call in calls {
        full += u32::from(call.await.unwrap().contains("queue is full"));
    }
    assert_eq!(full, 12);
}
