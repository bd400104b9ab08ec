//! A Redis Cluster: three primaries with a replica each, formed without redis-cli.
//!
//! Its nodes detect a dead peer within seconds, and slots without an owner don't take the others down: a test
//! sees what one shard's failure does, and no more.

mod form;
mod slots;
mod view;

use crate::binary::RedisBinary;
use crate::redis::Redis;
use crate::wait::{until, until_ok};
use form::AGREEMENT_TIMEOUT;
use view::View;

/// Dropping it kills its nodes.
#[derive(Debug)]
pub struct RedisCluster {
    binary: RedisBinary,
    primaries: Vec<Redis>,
    /// Each replicates the primary of the same index; primaries that were added have none.
    replicas: Vec<Redis>,
}

impl RedisCluster {
    /// A cluster of the system's Redis that serves all slots, with every replica in sync.
    pub async fn start() -> Self {
        RedisCluster::start_with(RedisBinary::System).await
    }

    pub async fn start_with(binary: RedisBinary) -> Self {
        form::form(binary).await
    }

    /// `redis+cluster://h:p,h:p,h:p`: the primaries that it was started with, and those added.
    pub fn urls(&self) -> String {
        let addresses: Vec<String> =
            self.primaries.iter().map(|primary| primary.address().to_string()).collect();
        format!("redis+cluster://{}", addresses.join(","))
    }

    /// The nodes that were started as primaries, whatever they are now.
    pub fn primaries(&self) -> &[Redis] {
        &self.primaries
    }

    /// Of the primaries of the same index.
    pub fn replicas(&self) -> &[Redis] {
        &self.replicas
    }

    /// SIGKILL; its replica takes over within seconds, see [`wait_promoted`](Self::wait_promoted).
    pub fn kill_primary(&self, index: usize) {
        self.primaries[index].kill();
    }

    /// Returns when the replica of a killed primary has taken over, and every node that answers knows it.
    pub async fn wait_promoted(&self, index: usize) {
        let promoted = self.replicas[index].address();
        until_ok("the replica's promotion", AGREEMENT_TIMEOUT, || async move {
            for node in self.nodes() {
                let Ok(view) = View::of(node).await else { continue };
                let is_promoted = view.at(promoted).is_some_and(|seen| seen.is_primary && seen.has_slots());
                if !is_promoted || !view.is_ok {
                    return Err(format!("{} sees {view:?}", node.address()));
                }
            }
            Ok(())
        })
        .await;
    }

    /// The node that serves a slot at present, as it says itself.
    pub async fn primary_of_slot(&self, slot: u16) -> &Redis {
        until("a primary for the slot", AGREEMENT_TIMEOUT, || async move {
            for node in self.nodes() {
                let Ok(view) = View::of(node).await else { continue };
                if view.at(node.address()).is_some_and(|own| own.is_primary && own.owns(slot)) {
                    return Some(node);
                }
            }
            None
        })
        .await
    }

    /// Starts one more primary, without slots, and returns its index when every node knows it.
    pub async fn add_primary(&mut self) -> usize {
        let node = form::start_node(self.binary).await;
        form::meet(&self.primaries[0], &node).await;
        self.primaries.push(node);
        self.wait_acquainted().await;
        self.primaries.len() - 1
    }

    fn nodes(&self) -> impl Iterator<Item = &Redis> {
        self.primaries.iter().chain(&self.replicas)
    }
}
