//! How fast exchanges are on this machine: printed, and held to very generous bounds.

use super::support::{background, exchange, key, publish, quantile};
use std::sync::Arc;
use std::time::Duration;
use tidegate_core::Nanos;
use tidegate_origin::{Expiry, Origin, RedisOptions, RedisOrigin, RedisUrl};
use tidegate_testkit::Redis;
use tokio::runtime::Handle;
use tokio::time::Instant;

const CALLS: u64 = 20_000;
const EXPIRES: Nanos = Nanos::from_secs(4_000_000_000);
const EXPIRY: Expiry = Expiry { at: EXPIRES, now: Nanos::ZERO };

async fn connected(url: &str, runtime: &Handle) -> Arc<RedisOrigin> {
    // A thousand calls at a time wait for each other; how long is what is measured here.
    let options = RedisOptions { call_timeout_ms: 5000, ..RedisOptions::default() };
    let origin = RedisOrigin::new(RedisUrl::parse(url).unwrap(), options, runtime);
    publish(&origin, key(0), 1).await.unwrap();
    Arc::new(origin)
}

/// Latencies, sorted, of as many exchanges, so many at a time; and the time that all took.
async fn measure(origin: &Arc<RedisOrigin>, calls: u64, at_a_time: u64) -> (Vec<Duration>, Duration) {
    let began = Instant::now();
    let workers: Vec<_> = (0..at_a_time)
        .map(|worker| {
            let origin = origin.clone();
            tokio::spawn(async move {
                let mut latencies = Vec::new();
                for number in 0..calls / at_a_time {
                    let began = Instant::now();
                    publish(&origin, key(worker * 1000 + number % 1000), 1).await.unwrap();
                    latencies.push(began.elapsed());
                }
                latencies
            })
        })
        .collect();
    let mut latencies = Vec::new();
    for worker in workers {
        latencies.extend(worker.await.unwrap());
    }
    let took = began.elapsed();
    latencies.sort();
    (latencies, took)
}

fn print(what: &str, (latencies, took): &(Vec<Duration>, Duration)) {
    let (p50, p99) = (quantile(latencies, 0.5), quantile(latencies, 0.99));
    #[expect(clippy::cast_precision_loss)]
    let rate = latencies.len() as f64 / took.as_secs_f64();
    println!("{what}: p50 {p50:?}, p99 {p99:?}, max {:?}, {rate:.0}/s", latencies.last().unwrap());
}

#[tokio::test]
async fn exchanges_are_fast_enough() {
    let redis = Redis::start().await;
    let unix = format!("unix://{}", redis.unix_path().display());
    for (what, url) in [("TCP", redis.url()), ("Unix socket", unix)] {
        for (whose, runtime) in
            [("another runtime", background().clone()), ("own runtime", Handle::current())]
        {
            let origin = connected(&url, &runtime).await;
            for at_a_time in [1, 32] {
                let measured = measure(&origin, CALLS, at_a_time).await;
                print(&format!("{what}, {whose}, {at_a_time} at a time"), &measured);
                assert!(quantile(&measured.0, 0.5) < Duration::from_millis(50));
            }
        }
    }
}

#[tokio::test]
async fn ten_thousand_pipelined_exchanges_are_answered() {
    let redis = Redis::start().await;
    let origin = connected(&redis.url(), background()).await;
    print("1000 at a time", &measure(&origin, 10_000, 1000).await);

    let began = Instant::now();
    for batch in 0..100 {
        let keys: Vec<_> = (0..100).map(|number| key(batch * 100 + number)).collect();
        let exchanged = origin.exchange(origin.shard_of(keys[0]), &exchange(&keys, 1)).await.unwrap();
        assert!(exchanged.replies.iter().all(Result::is_ok));
    }
    println!("100 exchanges of 100 keys, one after the other: {:?}", began.elapsed());

    let statistics = redis.demand(&["INFO", "commandstats"]).await.text().unwrap();
    println!("the server itself: {:?}", statistics.lines().find(|line| line.contains("evalsha")));

    let began = Instant::now();
    let resets: Vec<_> = (0..10_000)
        .map(|number| {
            let origin = origin.clone();
            tokio::spawn(
                async move { origin.reset(origin.shard_of(key(number)), key(number), 0, EXPIRY).await },
            )
        })
        .collect();
    let (mut done, mut refused) = (0, 0);
    for reset in resets {
        match reset.await.unwrap() {
            Ok(_) => done += 1,
            Err(_) => refused += 1,
        }
    }
    println!(
        "10,000 of the smallest calls at once: {done} in {:?}, {refused} beyond the bound",
        began.elapsed()
    );
    assert!(done >= 4096);
}
