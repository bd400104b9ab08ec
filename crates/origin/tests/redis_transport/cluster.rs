//! Clusters: every slot is reached, one dead primary is nobody else's business, and changes are followed.

use super::support::{component, exchange, key, origin_with, patient_origin, publish, quantile};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tidegate_core::{CellId, KeyId, Nanos, Sequence, WorldPolicy, WorldView};
use tidegate_origin::{
    CellTotal, Expiry, KeyError, LeaderCandidate, LeaderRequest, Origin, OriginError, OriginId,
    PublishRequest, RedisOptions, RedisOrigin, ShardId, WorldCell,
};
use tidegate_testkit::{FaultProxy, ProxyFault, Redis, RedisBinary, RedisCluster, until};
use tokio::task::JoinHandle;
use tokio::time::Instant;

const SOON: Duration = Duration::from_secs(5);

async fn connected(cluster: &RedisCluster) -> Arc<RedisOrigin> {
    // Longer than in production: a machine that is busy with other tests isn't a dead server.
    let options = RedisOptions { call_timeout_ms: 250, ..RedisOptions::default() };
    let origin = Arc::new(origin_with(&cluster.urls(), options));
    until("a connected cluster", SOON, || async {
        let connections = origin.connections();
        (connections.len() == 3 && connections.iter().all(|one| one.problem.is_none())).then_some(())
    })
    .await;
    origin
}

/// Keys by the shard that keeps them.
fn keys_by_shard(origin: &RedisOrigin, count: u64) -> BTreeMap<ShardId, Vec<KeyId>> {
    let mut by_shard: BTreeMap<ShardId, Vec<KeyId>> = BTreeMap::new();
    for number in 0..count {
        by_shard.entry(origin.shard_of(key(number))).or_default().push(key(number));
    }
    by_shard
}

/// What happened to calls about some keys that were made one after the other.
#[derive(Default, Debug)]
struct Outcome {
    succeeded: u64,
    failed: Vec<String>,
    /// Keys whose last call failed.
    unsettled: HashMap<KeyId, String>,
    latencies: Vec<Duration>,
}

/// Calls about each key in turn until told to stop; each key once more afterwards.
fn load(origin: &Arc<RedisOrigin>, keys: Vec<KeyId>, stop: &Arc<AtomicBool>) -> JoinHandle<Outcome> {
    let (origin, stop) = (origin.clone(), stop.clone());
    tokio::spawn(async move {
        let mut outcome = Outcome::default();
        loop {
            let is_last = stop.load(Ordering::Relaxed);
            for key in &keys {
                let began = Instant::now();
                let problem = match publish(&origin, *key, 1).await {
                    Ok(exchanged) => exchanged.replies[0].as_ref().err().map(ToString::to_string),
                    Err(error) => Some(error.to_string()),
                };
                outcome.latencies.push(began.elapsed());
                match problem {
                    None => {
                        outcome.succeeded += 1;
                        outcome.unsettled.remove(key);
                    }
                    Some(problem) => {
                        outcome.failed.push(problem.clone());
                        outcome.unsettled.insert(*key, problem);
                    }
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            if is_last {
                outcome.latencies.sort();
                return outcome;
            }
        }
    })
}

async fn all_slots_work(binary: RedisBinary) {
    let cluster = RedisCluster::start_with(binary).await;
    let origin = connected(&cluster).await;
    let by_shard = keys_by_shard(&origin, 6_000);
    assert_eq!(by_shard.len(), 3);
    for (shard, keys) in by_shard {
        for some in keys.chunks(50) {
            let exchanged = origin.exchange(shard, &exchange(some, 1)).await.unwrap();
            assert!(exchanged.replies.iter().all(Result::is_ok));
        }
    }
    let mut kept = 0;
    for primary in cluster.primaries() {
        kept += primary.demand(&["DBSIZE"]).await.integer().unwrap();
        let errors = primary.demand(&["INFO", "errorstats"]).await.text().unwrap();
        assert!(!errors.contains("MOVED"), "our map was right from the start: {errors}");
    }
    assert!(kept >= 6_000, "{kept}");
}

#[tokio::test]
async fn keys_of_all_slots_are_reached_without_a_detour() {
    all_slots_work(RedisBinary::System).await;
}

#[tokio::test]
async fn keys_of_all_slots_are_reached_in_an_old_cluster() {
    all_slots_work(RedisBinary::V6_2).await;
}

#[tokio::test]
async fn one_reachable_seed_is_enough() {
    let cluster = RedisCluster::start().await;
    let seed = cluster.replicas()[1].address();
    let origin = patient_origin(&format!("redis+cluster://127.0.0.1:1,{seed}"));
    until("three shards", SOON, || async { (origin.shards().len() == 3).then_some(()) }).await;
    assert_eq!(component(&publish(&origin, key(1), 5).await.unwrap()), 5);
}

#[tokio::test]
async fn a_cluster_that_appears_later_is_found() {
    let cluster = RedisCluster::start().await;
    let proxy = FaultProxy::start(cluster.primaries()[0].address()).await;
    proxy.set(ProxyFault::Refuse);
    let origin = patient_origin(&format!("redis+cluster://{}", proxy.address()));
    for _ in 0..5 {
        let error = publish(&origin, key(1), 1).await.unwrap_err();
        assert!(matches!(error, OriginError::Unreachable { .. }), "{error:?}");
        assert_eq!(origin.shard_of(key(1)), RedisOrigin::NOWHERE);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    proxy.set(ProxyFault::None);
    until("three shards", SOON, || async { (origin.shards().len() == 3).then_some(()) }).await;
    assert_eq!(component(&publish(&origin, key(1), 5).await.unwrap()), 5);
}

#[tokio::test]
async fn a_cluster_that_was_gone_altogether_comes_back() {
    let cluster = RedisCluster::start().await;
    let origin = connected(&cluster).await;
    let everyone = || cluster.primaries().iter().chain(cluster.replicas());
    everyone().for_each(Redis::stop);
    for _ in 0..10 {
        publish(&origin, key(1), 1).await.unwrap_err();
    }
    everyone().for_each(Redis::resume);
    for number in 0..20 {
        until("every key", SOON * 3, || async { publish(&origin, key(number), 1).await.ok() }).await;
    }
}

#[tokio::test]
async fn a_dead_primary_is_nobody_elses_business_and_its_replica_is_followed() {
    let cluster = RedisCluster::start().await;
    let origin = connected(&cluster).await;
    let victim = cluster.primaries()[0].address().to_string();
    let stop = Arc::new(AtomicBool::new(false));
    let mut healthy = Vec::new();
    let mut orphans = Vec::new();
    for (shard, keys) in keys_by_shard(&origin, 300) {
        if origin.shard_name(shard) == victim {
            orphans.extend(keys.iter().copied().take(10));
        } else {
            healthy.push(load(&origin, keys, &stop));
        }
    }
    let orphaned = load(&origin, orphans.clone(), &stop);
    tokio::time::sleep(Duration::from_millis(500)).await;
    cluster.kill_primary(0);
    cluster.wait_promoted(0).await;
    let promoted = Instant::now();
    for key in orphans {
        until("an orphaned key", SOON, || async { publish(&origin, key, 1).await.ok() }).await;
    }
    println!("all slots worked {:?} after every node knew of the promotion", promoted.elapsed());
    stop.store(true, Ordering::Relaxed);
    for load in healthy {
        let outcome = load.await.unwrap();
        assert_eq!(outcome.failed, [""; 0], "a healthy shard noticed");
        let (p50, p99) = (quantile(&outcome.latencies, 0.5), quantile(&outcome.latencies, 0.99));
        let max = outcome.latencies.last();
        println!("healthy shard: {} calls, p50 {p50:?}, p99 {p99:?}, max {max:?}", outcome.succeeded);
    }
    let outcome = orphaned.await.unwrap();
    assert!(outcome.unsettled.is_empty(), "{:?}", outcome.unsettled);
    assert!(!outcome.failed.is_empty(), "the primary was dead for a while");
    let name = cluster.replicas()[0].address().to_string();
    assert!(origin.shards().iter().any(|shard| origin.shard_name(*shard) == name));
    assert!(origin.shards().iter().all(|shard| origin.shard_name(*shard) != victim));
}

#[tokio::test]
async fn a_hung_primary_is_nobody_elses_business() {
    let cluster = RedisCluster::start().await;
    let origin = connected(&cluster).await;
    let victim = cluster.primaries()[1].address().to_string();
    let stop = Arc::new(AtomicBool::new(false));
    let (mut healthy, mut orphan) = (Vec::new(), None);
    for (shard, keys) in keys_by_shard(&origin, 300) {
        if origin.shard_name(shard) == victim {
            orphan = keys.first().copied();
        } else {
            healthy.push(load(&origin, keys, &stop));
        }
    }
    cluster.primaries()[1].stop();
    cluster.wait_promoted(1).await;
    let orphan = orphan.expect("a key of the victim");
    until("an orphaned key", SOON, || async { publish(&origin, orphan, 1).await.ok() }).await;
    stop.store(true, Ordering::Relaxed);
    for load in healthy {
        assert_eq!(load.await.unwrap().failed, [""; 0], "a healthy shard noticed");
    }
    cluster.primaries()[1].resume();
}

#[tokio::test]
async fn a_fourth_primary_and_moving_slots_are_followed_under_load() {
    const MOVED: u16 = 300;
    let mut cluster = RedisCluster::start().await;
    let origin = connected(&cluster).await;
    let source = cluster.primaries()[0].address().to_string();
    let stop = Arc::new(AtomicBool::new(false));
    let by_shard = keys_by_shard(&origin, 40_000);
    let (from, keys) = by_shard.iter().find(|(shard, _)| origin.shard_name(**shard) == source).unwrap();
    let slots = slots_of(&cluster, &keys[..usize::from(MOVED)]).await;
    let moving: Vec<KeyId> = keys[..usize::from(MOVED)].to_vec();
    let loads: Vec<_> = moving.chunks(60).map(|some| load(&origin, some.to_vec(), &stop)).collect();

    let fourth = cluster.add_primary().await;
    cluster.move_slots(0, fourth, slots).await;
    let name = cluster.primaries()[fourth].address().to_string();
    until("moved keys on the new shard", SOON, || async {
        moving.iter().all(|key| origin.shard_name(origin.shard_of(*key)) == name).then_some(())
    })
    .await;
    stop.store(true, Ordering::Relaxed);
    let (mut succeeded, mut failed) = (0, BTreeMap::<String, u32>::new());
    for load in loads {
        let outcome = load.await.unwrap();
        assert!(outcome.unsettled.is_empty(), "{:?}", outcome.unsettled);
        succeeded += outcome.succeeded;
        for problem in outcome.failed {
            *failed.entry(problem).or_default() += 1;
        }
    }
    println!("{succeeded} calls succeeded while {MOVED} slots moved; failed: {failed:?}");
    // A slot with some keys here and some there can't be asked until it has moved; that takes milliseconds.
    assert!(failed.is_empty(), "{failed:?}");
    assert!(origin.shards().contains(from), "shards keep their ids");
}

async fn slots_of(cluster: &RedisCluster, keys: &[KeyId]) -> Vec<u16> {
    let mut slots = Vec::new();
    let mut client = cluster.primaries()[0].client().await.unwrap();
    for key in keys {
        let tag = format!("{{{:08x}}}", key.get() & u128::from(u32::MAX));
        let slot = client.command(&["CLUSTER", "KEYSLOT", &tag]).await.unwrap().integer().unwrap();
        slots.push(u16::try_from(slot).unwrap());
    }
    slots.sort_unstable();
    slots.dedup();
    slots
}

#[tokio::test]
async fn a_key_on_its_way_is_asked_for_where_it_goes() {
    let cluster = RedisCluster::start().await;
    let origin = connected(&cluster).await;
    let source = cluster.primaries()[0].address().to_string();
    let moving = (0..).map(key).find(|key| origin.shard_name(origin.shard_of(*key)) == source).unwrap();
    let [slot] = slots_of(&cluster, &[moving]).await[..] else { panic!("one slot") };
    cluster.begin_move(0, 1, slot).await;
    // A call with one key: servers refuse others about a slot on its way unless all their keys are there.
    let expiry = Expiry { at: Nanos::from_secs(4_000), now: Nanos::ZERO };
    let reset = || origin.reset(origin.shard_of(moving), moving, 0, expiry);
    assert_eq!(reset().await, Ok(1));
    assert_eq!(reset().await, Ok(2));
    let target = &cluster.primaries()[1];
    let kept = target.demand(&["CLUSTER", "COUNTKEYSINSLOT", &slot.to_string()]).await;
    assert_eq!(kept.integer(), Some(1), "{kept:?}");
    assert_eq!(origin.shard_name(origin.shard_of(moving)), source, "the slot isn't there yet");
    target.demand(&["SCRIPT", "FLUSH"]).await;
    assert_eq!(reset().await, Ok(3), "asked, and then asked again with the text");
    // The key's cell is in neither place: nobody answers before the move is over, and it is no server's fault.
    let exchanged = publish(&origin, moving, 5).await.unwrap();
    let error = exchanged.replies[0].as_ref().unwrap_err();
    assert!(
        matches!(error, KeyError::Failed(OriginError::Moving { server }) if *server == source),
        "{error}"
    );
    cluster.move_slots(0, 1, [slot]).await;
    assert!(publish(&origin, moving, 5).await.unwrap().replies[0].is_ok());
}

#[tokio::test]
async fn heartbeats_and_resets_go_by_slot() {
    let cluster = RedisCluster::start().await;
    let origin = connected(&cluster).await;
    let heartbeat = |node| tidegate_origin::Heartbeat {
        node: tidegate_core::origin_cell::NodeId(node),
        fingerprint: 9,
        alive_for: tidegate_core::Nanos::from_secs(5),
        leaves: false,
        applied: 0,
        acceptance: tidegate_origin::Acceptance::default(),
    };
    assert_eq!(origin.beat(heartbeat(1)).await.unwrap().nodes, 1);
    assert_eq!(origin.beat(heartbeat(2)).await.unwrap().nodes, 2);
    for number in 0..50 {
        let key = key(number);
        let expiry = Expiry { at: Nanos::from_secs(4_000), now: Nanos::ZERO };
        assert_eq!(origin.reset(origin.shard_of(key), key, 0, expiry).await, Ok(1));
    }
}

#[tokio::test]
async fn what_the_world_worker_says_crosses_the_slots() {
    let cluster = RedisCluster::start().await;
    let origin = connected(&cluster).await;
    let cell = |number| CellId { key: key(number), epoch: 0, sequence: Sequence(7) };
    let expires = Nanos::from_secs(4_000);
    let world = |number| WorldCell { cell: cell(number), own: number + 1, others: 5, expires };
    let cells: Vec<WorldCell> = (0..300).map(world).collect();
    let imported = origin.import(&cells, Nanos::ZERO).await.unwrap();
    assert!(imported.len() == 300 && imported.iter().all(Result::is_ok), "{imported:?}");
    let ids: Vec<CellId> = (0..300).rev().map(cell).collect();
    let totals = origin.totals(&ids).await.unwrap();
    for (number, total) in (0..300_u64).rev().zip(totals) {
        assert_eq!(total, Ok(CellTotal { total: number + 1, published: number + 1 }));
    }
    let request = PublishRequest { cell: cell(1), limit: 5, expires, name: "".into() };
    assert_eq!(origin.enqueue_publish_requests(std::slice::from_ref(&request)).await, Ok(0));
    assert_eq!(origin.dequeue_publish_requests(10).await, Ok(vec![request]));
    let (node, proposed) = (tidegate_core::origin_cell::NodeId(1), Some(OriginId { id: 1, incarnation: 2 }));
    let request = LeaderRequest::Lead { lease: tidegate_core::Nanos::from_secs(2) };
    assert!(origin.lead(LeaderCandidate { node, request, proposed }).await.unwrap().is_leader);
    let view = WorldView { regions: 3, version: 1, policy: WorldPolicy::Headroom };
    assert_eq!(origin.publish_world_view(view).await, Ok(()));
}
