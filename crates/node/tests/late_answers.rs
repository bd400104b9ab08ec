//! A thread that had no core while the answer came: it finds its patience over and the answer in its socket.

use parking_lot::Mutex;
use std::io::Write;
use std::os::unix::net;
use std::sync::Arc;
use std::time::Duration;
use tidegate_core::origin_cell::NodeId;
use tidegate_core::{Accuracy, CellId, Class, Cost, FleetSecret, KeyId, Limit, Nanos, Period, WorldView};
use tidegate_node::clock::Clock;
use tidegate_node::region::RegionOptions;
use tidegate_node::region_driver::RegionDriver;
use tidegate_node::{
    DecideOutcome, DecisionPath, Engine, EngineOptions, GivenLimit, GivenPolicy, Purpose, Request, Subject,
};
use tidegate_origin::record::{Pulse, PulseReply};
use tidegate_origin::{
    CellTotal, DoneReset, Exchange, ExchangeReply, Expiry, Heartbeat, HeartbeatReply, KeyError,
    LeaderCandidate, LeaderStatus, MemoryOrigin, Origin, OriginFuture, PublishRequest, ResetLog, ResetNews,
    ShardId, WorldCell,
};
use tidegate_origin::{FoldStep, FoldedOwners, RememberedNodes};
use tidegate_origin::{HotKeysReply, HotNews, HotReport, QuotaNews, QuotaReply, QuotaReport, QuotaReports};
use tidegate_rules::RuleSet;
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;

const NOW: Nanos = Nanos::from_secs(1_800_000_000);
const WAIT: Duration = Duration::from_millis(5);

/// Answers once a byte has come over its socket.
#[derive(Debug)]
struct BehindSocket {
    socket: Mutex<Option<UnixStream>>,
    memory: MemoryOrigin,
}

impl Origin for BehindSocket {
    fn shard_of(&self, key: KeyId) -> ShardId {
        self.memory.shard_of(key)
    }

    fn shard_name(&self, shard: ShardId) -> String {
        self.memory.shard_name(shard)
    }

    fn shards(&self) -> Vec<ShardId> {
        self.memory.shards()
    }

    fn keeps_time(&self) -> bool {
        self.memory.keeps_time()
    }

    fn exchange<'a>(&'a self, shard: ShardId, exchange: &'a Exchange) -> OriginFuture<'a, ExchangeReply> {
        let socket = self.socket.lock().take();
        Box::pin(async move {
            socket.expect("one exchange").read_u8().await.expect("a byte");
            self.memory.exchange(shard, exchange).await
        })
    }

    fn remembered_nodes(&self, shard: ShardId) -> OriginFuture<'_, RememberedNodes> {
        self.memory.remembered_nodes(shard)
    }

    fn fold_owners<'a>(&'a self, shard: ShardId, step: FoldStep<'a>) -> OriginFuture<'a, FoldedOwners> {
        self.memory.fold_owners(shard, step)
    }

    fn beat(&self, heartbeat: Heartbeat) -> OriginFuture<'_, HeartbeatReply> {
        self.memory.beat(heartbeat)
    }

    fn reset_once(
        &self,
        shard: ShardId,
        key: KeyId,
        known: u16,
        expiry: Expiry,
        order: Option<u64>,
    ) -> OriginFuture<'_, u16> {
        self.memory.reset_once(shard, key, known, expiry, order)
    }

    fn restore_reset(&self, shard: ShardId, done: DoneReset, now: Nanos) -> OriginFuture<'_, ()> {
        self.memory.restore_reset(shard, done, now)
    }

    fn share_resets(&self, news: ResetNews) -> OriginFuture<'_, ResetLog> {
        self.memory.share_resets(news)
    }

    fn pulse(&self, shard: ShardId, pulse: Pulse) -> OriginFuture<'_, PulseReply> {
        self.memory.pulse(shard, pulse)
    }

    fn lead(&self, lead: LeaderCandidate) -> OriginFuture<'_, LeaderStatus> {
        self.memory.lead(lead)
    }

    fn enqueue_publish_requests<'a>(&'a self, requests: &'a [PublishRequest]) -> OriginFuture<'a, u64> {
        self.memory.enqueue_publish_requests(requests)
    }

    fn dequeue_publish_requests(&self, most: u16) -> OriginFuture<'_, Vec<PublishRequest>> {
        self.memory.dequeue_publish_requests(most)
    }

    fn totals<'a>(&'a self, cells: &'a [CellId]) -> OriginFuture<'a, Vec<Result<CellTotal, KeyError>>> {
        self.memory.totals(cells)
    }

    fn import<'a>(
        &'a self,
        cells: &'a [WorldCell],
        now: Nanos,
    ) -> OriginFuture<'a, Vec<Result<u64, KeyError>>> {
        self.memory.import(cells, now)
    }

    fn publish_world_view(&self, view: WorldView) -> OriginFuture<'_, ()> {
        self.memory.publish_world_view(view)
    }

    fn report_quotas<'a>(&'a self, report: &'a QuotaReport) -> OriginFuture<'a, QuotaReply> {
        self.memory.report_quotas(report)
    }

    fn gather_quotas(&self, silent_for: Nanos) -> OriginFuture<'_, QuotaReports> {
        self.memory.gather_quotas(silent_for)
    }

    fn publish_quotas<'a>(&'a self, news: &'a QuotaNews) -> OriginFuture<'a, ()> {
        self.memory.publish_quotas(news)
    }

    fn report_hot<'a>(&'a self, report: &'a HotReport) -> OriginFuture<'a, HotKeysReply> {
        self.memory.report_hot(report)
    }

    fn gather_hot(&self, silent_for: Nanos) -> OriginFuture<'_, Vec<HotReport>> {
        self.memory.gather_hot(silent_for)
    }

    fn publish_hot_keys<'a>(&'a self, news: &'a HotNews) -> OriginFuture<'a, ()> {
        self.memory.publish_hot_keys(news)
    }
}

fn engine() -> Engine {
    let secret = FleetSecret::BUILT_IN;
    let rules = RuleSet::parse(&[], &secret).unwrap_or_else(|errors| panic!("{errors}"));
    let region = RegionOptions { node: NodeId(1), fresh_for: Nanos::from_secs(5), seed: 1 };
    Engine::sharing(EngineOptions { secret, keys_max: 1000 }, region, rules)
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the thread itself must stand still")]
async fn an_answer_that_came_while_the_thread_had_no_core_counts() {
    let (theirs, ours) = net::UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    let socket = Mutex::new(Some(UnixStream::from_std(ours).unwrap()));
    let origin = BehindSocket { socket, memory: MemoryOrigin::new(Box::new(|| NOW)) };
    let (engine, clock) = (Arc::new(engine()), Arc::new(Clock::manual(NOW).0));
    let driver = RegionDriver::new(engine.clone(), clock.clone(), Box::new(origin), WAIT).unwrap();
    let period = Period::new(Nanos::from_secs(3600)).unwrap();
    let limits = [GivenLimit {
        namespace: "given",
        identifier: "same",
        policy: GivenPolicy::Fixed { limit: Limit::new(10).unwrap(), period },
        cost: Cost::ONE,
        class: Class::Paid,
        accuracy: Accuracy::Bounded,
        scope: None,
    }];
    let request = Request { tenant: "default", purpose: Purpose::Check, subject: Subject::Limits(&limits) };
    let rules = engine.rules();
    let DecideOutcome::Ask(asking) = engine.decide(&rules, &request, clock.now()).unwrap() else {
        panic!("a cold key asks")
    };
    let (answer, ()) = tokio::join!(driver.ask(asking), async {
        // The exchange waits for its socket; then the thread sleeps past its patience, and the answer comes.
        tokio::task::yield_now().await;
        (&theirs).write_all(b"!").unwrap();
        std::thread::sleep(WAIT * 4);
    });
    assert_ne!(answer.path, DecisionPath::Unverified, "{answer:?}");
}
