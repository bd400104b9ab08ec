//! How six servers become a cluster: introduced to each other, given slots, and told whom to replicate.

use super::RedisCluster;
use super::view::View;
use crate::binary::RedisBinary;
use crate::redis::Redis;
use crate::wait::until_ok;
use std::time::Duration;
use tokio::task::JoinSet;

const SHARDS: u16 = 3;
const SLOTS: u16 = 16_384;
/// Hash tags whose keys lie in the first slot of each shard.
const TAGS_OF_LOWEST_SLOTS: [&str; 3] = ["3560", "450", "7593"];
/// A node that was silent for so long is suspected. Short, so that tests are; long against a busy machine.
const NODE_TIMEOUT_MS: &str = "1500";
/// Nodes agree by gossip, a few rounds of a second at most.
pub(super) const AGREEMENT_TIMEOUT: Duration = Duration::from_secs(20);

pub(super) async fn form(binary: RedisBinary) -> RedisCluster {
    let mut starting: JoinSet<Redis> = (0..2 * SHARDS).map(|_| start_node(binary)).collect();
    let mut nodes = Vec::new();
    while let Some(node) = starting.join_next().await {
        nodes.push(node.expect("a server that starts"));
    }
    let replicas = nodes.split_off(usize::from(SHARDS));
    let cluster = RedisCluster { binary, primaries: nodes, replicas };
    introduce(&cluster).await;
    for (shard, primary) in (0..SHARDS).zip(&cluster.primaries) {
        assign_slots(primary, shard).await;
    }
    cluster.wait_acquainted().await;
    for (primary, replica) in cluster.primaries.iter().zip(&cluster.replicas) {
        replica.demand(&["CLUSTER", "REPLICATE", &id(primary).await]).await;
    }
    cluster.wait_serving().await;
    for (primary, tag) in cluster.primaries.iter().zip(TAGS_OF_LOWEST_SLOTS) {
        primary.mark_as_new(tag).await;
    }
    cluster
}

pub(super) async fn start_node(binary: RedisBinary) -> Redis {
    let options = Redis::options().binary(binary).setting("cluster-enabled", "yes");
    let options = options.setting("cluster-node-timeout", NODE_TIMEOUT_MS);
    // A dead shard's slots fail, and only those.
    let options = options.setting("cluster-require-full-coverage", "no");
    // A replica is promoted however old its data, and stays with its primary.
    let options = options.setting("cluster-replica-validity-factor", "0");
    options.setting("cluster-migration-barrier", "100").start().await
}

pub(super) async fn meet(known: &Redis, newcomer: &Redis) {
    let (host, port) = (newcomer.address().ip().to_string(), newcomer.address().port().to_string());
    known.demand(&["CLUSTER", "MEET", &host, &port]).await;
}

pub(super) async fn id(node: &Redis) -> String {
    node.demand(&["CLUSTER", "MYID"]).await.text().unwrap_or_default()
}

async fn introduce(cluster: &RedisCluster) {
    for (epoch, node) in (1..).zip(cluster.nodes()) {
        // Different from the start, or nodes would spend seconds on settling whose claims are newer.
        node.demand(&["CLUSTER", "SET-CONFIG-EPOCH", &i32::to_string(&epoch)]).await;
    }
    for node in cluster.nodes().skip(1) {
        meet(&cluster.primaries[0], node).await;
    }
}

/// An equal share; `ADDSLOTSRANGE` would need Redis 7.
async fn assign_slots(primary: &Redis, shard: u16) {
    let share = SLOTS.div_ceil(SHARDS);
    let slots = (shard * share..SLOTS.min((shard + 1) * share)).map(|slot| slot.to_string());
    let words: Vec<String> = ["CLUSTER".to_owned(), "ADDSLOTS".to_owned()].into_iter().chain(slots).collect();
    primary.demand(&words).await;
}

impl RedisCluster {
    /// Every node knows every node, and would serve.
    pub(super) async fn wait_acquainted(&self) {
        let count = self.nodes().count();
        until_ok("nodes that know each other", AGREEMENT_TIMEOUT, || async move {
            for node in self.nodes() {
                let view = View::of(node).await.map_err(|error| format!("{}: {error}", node.address()))?;
                if !view.is_ok || view.nodes.iter().filter(|seen| seen.is_known).count() != count {
                    return Err(format!("{} sees {view:?}", node.address()));
                }
            }
            Ok(())
        })
        .await;
    }

    /// Every node knows who replicates whom, and every replica is in sync.
    async fn wait_serving(&self) {
        until_ok("replicas in sync", AGREEMENT_TIMEOUT, || async move {
            for node in self.nodes() {
                let view = View::of(node).await.map_err(|error| format!("{}: {error}", node.address()))?;
                if !view.is_ok || !self.are_replicas_attached(&view) {
                    return Err(format!("{} sees {view:?}", node.address()));
                }
            }
            for replica in &self.replicas {
                let link = replica.info("master_link_status").await.map_err(|error| error.to_string())?;
                if link.as_deref() != Some("up") {
                    return Err(format!("{} is linked to its primary: {link:?}", replica.address()));
                }
            }
            Ok(())
        })
        .await;
    }

    fn are_replicas_attached(&self, view: &View) -> bool {
        self.primaries.iter().zip(&self.replicas).all(|(primary, replica)| {
            let (primary, replica) = (view.at(primary.address()), view.at(replica.address()));
            replica.and_then(|seen| seen.replicates.as_ref()) == primary.map(|seen| &seen.id)
        })
    }
}
