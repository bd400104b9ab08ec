//! A region to test: its origin, and the hands that reach behind it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tidegate_core::exchange::{KeyReply, KeySync};
use tidegate_core::origin_cell::NodeId;
use tidegate_core::{CellId, KeyId, Nanos, Sequence};
use tidegate_origin::{
    Exchange, ExchangeReply, Grant, KeyError, MemoryOrigin, Origin, RedisOptions, RedisOrigin, RedisUrl,
    WorldCell,
};
use tidegate_testkit::{Redis, RedisBinary};
use tokio::runtime::Handle;

/// Where the in-process clock starts.
const START: Nanos = Nanos::from_secs(1_800_000_000);
/// A busy machine may take so long: what is tested here isn't the deadline.
const CALL_TIMEOUT_MS: u64 = 10_000;

pub(crate) enum Region {
    Memory { origin: Box<MemoryOrigin>, clock: Arc<AtomicU64> },
    Redis { origin: Box<RedisOrigin>, server: Box<Redis> },
}

impl Region {
    pub(crate) fn memory() -> Self {
        let clock = Arc::new(AtomicU64::new(START.get()));
        let told = clock.clone();
        let origin = Box::new(MemoryOrigin::new(Box::new(move || Nanos::new(told.load(Ordering::Relaxed)))));
        Region::Memory { origin, clock }
    }

    pub(crate) async fn redis() -> Self {
        Region::on(Redis::start().await).await
    }

    /// On the oldest server that is supported.
    pub(crate) async fn redis_6_2() -> Self {
        Region::on(Redis::options().binary(RedisBinary::V6_2).start().await).await
    }

    async fn on(server: Redis) -> Self {
        // Without the record that a new server is given.
        server.demand(&["FLUSHALL"]).await;
        let url = RedisUrl::parse(&server.url()).unwrap();
        let options = RedisOptions { call_timeout_ms: CALL_TIMEOUT_MS, ..RedisOptions::default() };
        let origin = Box::new(RedisOrigin::new(url, options, &Handle::current()));
        Region::Redis { origin, server: Box::new(server) }
    }

    pub(crate) fn origin(&self) -> &dyn Origin {
        match self {
            Region::Memory { origin, .. } => &**origin,
            Region::Redis { origin, .. } => &**origin,
        }
    }

    pub(crate) fn server(&self) -> &Redis {
        match self {
            Region::Memory { .. } => panic!("for Redis only"),
            Region::Redis { server, .. } => server,
        }
    }

    /// The store's present.
    pub(crate) async fn now(&self) -> Nanos {
        match self {
            Region::Memory { clock, .. } => Nanos::new(clock.load(Ordering::Relaxed)),
            Region::Redis { server, .. } => {
                let time = server.demand(&["TIME"]).await;
                let parts: Vec<u64> =
                    time.items().iter().map(|part| part.text().unwrap().parse().unwrap()).collect();
                Nanos::new(parts[0] * Nanos::PER_SECOND + parts[1] * 1_000)
            }
        }
    }

    /// Lets the store's time pass. A real server can't be given a clock.
    pub(crate) async fn wait(&self, time: Nanos) {
        match self {
            Region::Memory { clock, .. } => drop(clock.fetch_add(time.get(), Ordering::Relaxed)),
            Region::Redis { .. } => tokio::time::sleep(Duration::from_nanos(time.get())).await,
        }
    }

    /// The store loses its memory.
    pub(crate) async fn forget(&self) {
        match self {
            Region::Memory { origin, .. } => origin.with_store(tidegate_origin::OriginStore::clear),
            Region::Redis { server, .. } => drop(server.demand(&["FLUSHALL"]).await),
        }
    }

    /// How many cells and states there are.
    pub(crate) async fn cells(&self) -> usize {
        match self {
            Region::Memory { origin, .. } => origin.with_store(|store| store.len()),
            Region::Redis { server, .. } => {
                usize::try_from(server.demand(&["DBSIZE"]).await.integer().unwrap()).unwrap()
            }
        }
    }

    /// Writes the other regions' count into a cell.
    pub(crate) async fn import_world(&self, key: KeyId, sequence: Sequence, world: u64) {
        let cell = CellId { key, epoch: 0, sequence };
        let now = self.now().await;
        let expires = now.plus(Nanos::from_secs(60));
        let imported = self.origin().import(&[WorldCell { cell, own: 0, others: world, expires }], now).await;
        assert_eq!(imported.unwrap(), [Ok(0)]);
    }

    pub(crate) async fn exchange(
        &self,
        node: u64,
        now: Nanos,
        grant: Grant,
        syncs: Vec<KeySync>,
    ) -> ExchangeReply {
        let shard = self.origin().shard_of(syncs[0].key);
        let exchange = Exchange { node: NodeId(node), now, syncs, grant, reads_record: false };
        self.origin().exchange(shard, &exchange).await.unwrap()
    }

    /// One key's sync at the store's own time.
    pub(crate) async fn sync(&self, node: u64, sync: KeySync) -> KeyReply {
        let now = self.now().await;
        self.try_sync(node, now, sync).await.1.unwrap()
    }

    /// One key's sync at a time of the test's choosing.
    pub(crate) async fn sync_at(&self, node: u64, now: Nanos, sync: KeySync) -> KeyReply {
        self.try_sync(node, now, sync).await.1.unwrap()
    }

    pub(crate) async fn try_sync(
        &self,
        node: u64,
        now: Nanos,
        sync: KeySync,
    ) -> (Nanos, Result<KeyReply, KeyError>) {
        let mut exchanged = self.exchange(node, now, Grant::Each, vec![sync]).await;
        (exchanged.now, exchanged.replies.remove(0))
    }
}

/// What the names of a key's data in Redis begin with.
pub(crate) fn stem(key: KeyId) -> String {
    format!("tidegate:{{{:08x}}}:{:032x}:", key.get() & 0xffff_ffff, key.get())
}
