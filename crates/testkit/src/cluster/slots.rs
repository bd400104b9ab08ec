//! Moving slots between primaries, in one go or step by step: in between, clients are told to ask (`ASK`), and
//! afterwards that it moved (`MOVED`).

use super::RedisCluster;
use super::form::id;
use crate::client::RespClient;
use crate::redis::Redis;
use crate::reply::RespValue;

/// Keys moved by one command.
const KEYS_PER_BATCH: &str = "100";
const MIGRATE_WITHIN_MS: &str = "5000";

/// A slot's way from one primary to another, with a connection to either.
struct Move<'a> {
    from: RespClient,
    from_id: String,
    to: RespClient,
    to_id: String,
    target: &'a Redis,
}

impl RedisCluster {
    /// Moves slots with their keys between primaries, given by their indices.
    pub async fn move_slots(&self, from: usize, to: usize, slots: impl IntoIterator<Item = u16>) {
        let mut slot_move = self.open_move(from, to).await;
        for slot in slots {
            slot_move.begin(slot).await;
            slot_move.carry_keys(slot).await;
            slot_move.finish(slot).await;
            self.announce_slot(slot, &slot_move.to_id).await;
        }
    }

    /// Marks a slot as on the move: `from` answers `ASK` for keys that it doesn't have, `to` serves after
    /// `ASKING`. No key is moved; [`move_slots`](Self::move_slots) may finish it.
    pub async fn begin_move(&self, from: usize, to: usize, slot: u16) {
        self.open_move(from, to).await.begin(slot).await;
    }

    async fn open_move(&self, from: usize, to: usize) -> Move<'_> {
        let (source, target) = (&self.primaries[from], &self.primaries[to]);
        Move {
            from: source.client().await.expect("a primary that answers"),
            from_id: id(source).await,
            to: target.client().await.expect("a primary that answers"),
            to_id: id(target).await,
            target,
        }
    }

    /// Others would learn it by gossip; told, they know when this returns.
    async fn announce_slot(&self, slot: u16, owner: &str) {
        for node in self.nodes() {
            // Replicas refuse, and a killed node doesn't answer: both learn it by gossip.
            let _ = node.command(&["CLUSTER", "SETSLOT", &slot.to_string(), "NODE", owner]).await;
        }
    }
}

impl Move<'_> {
    async fn begin(&mut self, slot: u16) {
        let slot = slot.to_string();
        let importing = ["CLUSTER", "SETSLOT", &slot, "IMPORTING", &self.from_id];
        demand(&mut self.to, &importing).await;
        let migrating = ["CLUSTER", "SETSLOT", &slot, "MIGRATING", &self.to_id];
        demand(&mut self.from, &migrating).await;
    }

    async fn carry_keys(&mut self, slot: u16) {
        let (host, port) = (self.target.address().ip().to_string(), self.target.address().port().to_string());
        loop {
            let list = ["CLUSTER", "GETKEYSINSLOT", &slot.to_string(), KEYS_PER_BATCH];
            let RespValue::Array(keys) = demand(&mut self.from, &list).await else { return };
            if keys.is_empty() {
                return;
            }
            let head = ["MIGRATE", &host, &port, "", "0", MIGRATE_WITHIN_MS, "REPLACE", "KEYS"];
            let mut words: Vec<&[u8]> = head.iter().map(|word| word.as_bytes()).collect();
            for key in &keys {
                let RespValue::Bulk(Some(key)) = key else { panic!("a key that isn't one: {key:?}") };
                words.push(key);
            }
            demand(&mut self.from, &words).await;
        }
    }

    /// The target first: were it the other way round, nobody would serve the slot for a moment.
    async fn finish(&mut self, slot: u16) {
        let slot = slot.to_string();
        let settled = ["CLUSTER", "SETSLOT", &slot, "NODE", &self.to_id];
        demand(&mut self.to, &settled).await;
        demand(&mut self.from, &settled).await;
    }
}

async fn demand<A: AsRef<[u8]>>(client: &mut RespClient, arguments: &[A]) -> RespValue {
    match client.command(arguments).await {
        Ok(RespValue::Error(problem)) => panic!("the slot can't be moved: {problem}"),
        Ok(reply) => reply,
        Err(error) => panic!("the slot can't be moved: {error}"),
    }
}
