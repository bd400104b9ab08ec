//! The region tier on Redis: standalone, behind sentinels, or a cluster.
//!
//! One connection per server, kept in the background by tasks on the runtime that owns the origin (and one more
//! for each other thread that calls, `thread_connections.rs`); calls only find it there or fail. So an unreachable server costs its own calls a deadline at most and the others
//! nothing, and an origin whose servers can't be reached at all still starts. Nothing here retries, believes
//! a server's numbers, or waits past the deadline.

mod address;
mod backoff;
mod call;
mod cluster;
mod connection;
mod connection_task;
mod deadline;
mod dial;
mod discover;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod join;
mod link;
mod map;
mod options;
mod record_slots;
mod script;
mod sentinel;
mod servers;
mod shard;
mod thread_connections;
mod tls;
mod url;
mod wire;

pub use options::RedisOptions;
pub use tls::client_config;
pub use url::{RedisUrl, UrlError};

use crate::record::{Pulse, PulseReply, RecordReading};
use crate::{
    CellTotal, DoneReset, Exchange, ExchangeReply, Expiry, Heartbeat, HeartbeatReply, KeyError,
    LeaderCandidate, LeaderStatus, Origin, OriginError, OriginFuture, PublishRequest, ResetLog, ResetNews,
    ShardId, WorldCell,
};
use crate::{FoldStep, FoldedOwners, RememberedNodes};
use crate::{HotKeysReply, HotNews, HotReport, QuotaNews, QuotaReply, QuotaReport, QuotaReports};
use call::Script;
use deadline::Deadline;
use dial::{Dialer, Purpose};
use map::SlotMap;
use record_slots::RecordSlots;
use script::{
    FOLD_SCRIPT, HEARTBEAT_SCRIPT, IMPORT_SCRIPT, LEAD_SCRIPT, MEMBERS_SCRIPT, PUBLISH_VIEW_SCRIPT,
    PULSE_SCRIPT, PUT_SCRIPT, RESET_SCRIPT, RESETS_SCRIPT, SECRET_SCRIPT, SYNC_SCRIPT, ScriptCall,
    TAKE_SCRIPT, TOTALS_SCRIPT, slot_of,
};
use script::{PUBLISH_QUOTAS_SCRIPT, QUOTA_GATHER_SCRIPT, QUOTA_REPORT_SCRIPT};
use servers::Servers;
use shard::ConnectionStatus;
use std::fmt;
use std::sync::Arc;
use tidegate_core::{CellId, FleetSecret, KeyId, Nanos, StoredSecret, WorldView};
use tokio::runtime::Handle;
use tokio::sync::watch;
use url::Topology;
use wire::Value;

/// The region's counts in Redis. Dropping it ends its tasks and closes its connections.
pub struct RedisOrigin {
    url: RedisUrl,
    servers: Arc<Servers>,
    has_slots: bool,
    sync: Script,
    heartbeat: Script,
    pulse: Script,
    members: Script,
    fold: Script,
    record_slots: RecordSlots,
    secret: Script,
    reset: Script,
    resets: Script,
    quotas: QuotaScripts,
    world: WorldScripts,
    /// Closed by dropping it, which ends the tasks.
    _stop: watch::Sender<()>,
}

/// What nodes and their world worker say to each other about quotas, and nodes about hot keys.
struct QuotaScripts {
    report: Script,
    gather: Script,
    tell: Script,
}

/// What nodes and their world worker say to each other.
struct WorldScripts {
    lead: Script,
    put: Script,
    take: Script,
    totals: Script,
    import: Script,
    tell: Script,
}

/// How it stands with one server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Connection {
    pub shard: ShardId,
    pub server: String,
    /// Why there is no connection; `None` when there is one.
    pub problem: Option<String>,
    /// How often a connection was made again after the first.
    pub reconnects: u64,
}

impl RedisOrigin {
    /// What a key's shard is while no server is known for its slot. No server ever has this id.
    pub const NOWHERE: ShardId = ShardId(0);

    /// Never fails and never waits: connections are made in the background, by tasks on `runtime`. Its calls
    /// may be awaited on another one, as long as that is tokio's and has timers.
    pub fn new(url: RedisUrl, options: RedisOptions, runtime: &Handle) -> Self {
        let (stop, stopped) = watch::channel(());
        let (purpose, map) = match &url.topology {
            Topology::Standalone(_) => (Purpose::Scripts, SlotMap::without_slots()),
            Topology::Cluster(_) => (Purpose::Scripts, SlotMap::with_slots()),
            Topology::Sentinel { .. } => (Purpose::Master, SlotMap::without_slots()),
        };
        let has_slots = map.has_slots();
        let servers = Servers::new(Dialer::new(&url, options), purpose, map, runtime.clone(), stopped);
        let servers = Arc::new(servers);
        match &url.topology {
            Topology::Standalone(address) => servers.adopt_one(address),
            place => drop(runtime.spawn(discover::discover(servers.clone(), place.clone()))),
        }
        let [sync, heartbeat, pulse, reset, resets] =
            [SYNC_SCRIPT, HEARTBEAT_SCRIPT, PULSE_SCRIPT, RESET_SCRIPT, RESETS_SCRIPT].map(Script::new);
        let secret = Script::new(SECRET_SCRIPT);
        let [members, fold] = [MEMBERS_SCRIPT, FOLD_SCRIPT].map(Script::new);
        let [report, gather, tell] =
            [QUOTA_REPORT_SCRIPT, QUOTA_GATHER_SCRIPT, PUBLISH_QUOTAS_SCRIPT].map(Script::new);
        let quotas = QuotaScripts { report, gather, tell };
        let [lead, put, take] = [LEAD_SCRIPT, PUT_SCRIPT, TAKE_SCRIPT].map(Script::new);
        let [totals, import, tell] = [TOTALS_SCRIPT, IMPORT_SCRIPT, PUBLISH_VIEW_SCRIPT].map(Script::new);
        let world = WorldScripts { lead, put, take, totals, import, tell };
        RedisOrigin {
            url,
            servers,
            has_slots,
            sync,
            heartbeat,
            pulse,
            members,
            fold,
            record_slots: RecordSlots::default(),
            secret,
            reset,
            resets,
            quotas,
            world,
            _stop: stop,
        }
    }

    /// How it stands with every server that keeps keys.
    pub fn connections(&self) -> Vec<Connection> {
        let map = self.servers.map();
        let shards = map.shards().iter().map(|shard| Connection {
            shard: shard.id,
            server: shard.address.to_string(),
            problem: match &*shard.status() {
                ConnectionStatus::Up(_) => None,
                ConnectionStatus::New => Some("connecting for the first time".to_owned()),
                ConnectionStatus::Down { cause } => Some(cause.clone()),
            },
            reconnects: shard.reconnects(),
        });
        shards.collect()
    }

    fn deadline(&self) -> Deadline {
        Deadline::after(self.servers.dialer.options.call_timeout())
    }

    /// Each cell's answer, in order. What failed for some cells fails those alone.
    async fn run_cells<T>(
        &self,
        script: &Script,
        (calls, cells): (Vec<ScriptCall>, usize),
        read: fn(Value) -> Result<T, KeyError>,
    ) -> Result<Vec<Result<T, KeyError>>, OriginError> {
        let missing = || OriginError::Nonsense { what: "an answer is missing".to_owned() };
        let mut replies: Vec<_> = (0..cells).map(|_| Err(KeyError::Failed(missing()))).collect();
        let (mut answered, mut failure) = (calls.is_empty(), None);
        let answers = call::run(&self.servers, script, &calls, self.deadline()).await;
        for (call, answer) in calls.iter().zip(answers) {
            match answer.and_then(|answer| script::cell_entries(call, answer)) {
                Ok(entries) => {
                    answered = true;
                    for (cell, entry) in call.syncs.iter().zip(entries) {
                        replies[*cell] = read(entry);
                    }
                }
                Err(error) => {
                    for cell in &call.syncs {
                        replies[*cell] = Err(KeyError::Failed(error.clone()));
                    }
                    failure = failure.or(Some(error));
                }
            }
        }
        match failure {
            Some(error) if !answered => Err(error),
            _ => Ok(replies),
        }
    }

    async fn run_one(
        &self,
        script: &Script,
        call: ScriptCall,
        deadline: Deadline,
    ) -> Result<Value, OriginError> {
        let calls = [call];
        let answer = call::run(&self.servers, script, &calls, deadline).await.pop();
        answer.unwrap_or_else(|| Err(OriginError::Nonsense { what: "an answer is missing".to_owned() }))
    }
}

impl Origin for RedisOrigin {
    fn shard_of(&self, key: KeyId) -> ShardId {
        let map = self.servers.map();
        let slot = if self.has_slots { slot_of(key) } else { 0 };
        map.owner(slot).map_or(Self::NOWHERE, |shard| shard.id)
    }

    fn shard_name(&self, shard: ShardId) -> String {
        match self.servers.map().by_id(shard) {
            Some(shard) => shard.address.to_string(),
            None if shard == Self::NOWHERE => "no server".to_owned(),
            None => format!("a former server ({})", shard.0),
        }
    }

    fn shards(&self) -> Vec<ShardId> {
        self.servers.map().owning_shards()
    }

    /// Every call goes to whoever owns its slot by now: `shard` owned it when the node looked.
    fn exchange<'a>(&'a self, shard: ShardId, exchange: &'a Exchange) -> OriginFuture<'a, ExchangeReply> {
        let deadline = self.deadline();
        Box::pin(async move {
            let mut calls = script::calls(exchange, self.has_slots);
            if exchange.reads_record
                && let Some((slot, _)) = self.record_slots.of(shard, &self.servers.map())
            {
                calls.push(script::record_call(slot));
            }
            let answers = call::run(&self.servers, &self.sync, &calls, deadline).await;
            assemble(exchange, &calls, answers)
        })
    }

    fn pulse(&self, shard: ShardId, pulse: Pulse) -> OriginFuture<'_, PulseReply> {
        let deadline = self.deadline();
        Box::pin(async move {
            let found = self.record_slots.of(shard, &self.servers.map());
            let Some((slot, is_moved)) = found else {
                return Err(OriginError::Unreachable { cause: self.servers.ignorance() });
            };
            // The slot of the record went to another shard: this one lost nothing, and gets a record in a slot that it has.
            let pulse =
                if is_moved { Pulse { acked: 0, adopts: pulse.known.is_some(), ..pulse } } else { pulse };
            let answer = self.run_one(&self.pulse, script::pulse_call(&pulse, slot), deadline).await?;
            let pulsed = script::pulse_reply(answer)?;
            self.record_slots.set_slot(shard, slot);
            Ok(pulsed)
        })
    }

    fn remembered_nodes(&self, shard: ShardId) -> OriginFuture<'_, RememberedNodes> {
        let deadline = self.deadline();
        Box::pin(async move {
            let Some((slot, _)) = self.record_slots.of(shard, &self.servers.map()) else {
                return Err(OriginError::Unreachable { cause: self.servers.ignorance() });
            };
            let answer = self.run_one(&self.members, script::owners::members_call(slot), deadline).await?;
            script::owners::members_reply(answer)
        })
    }

    fn fold_owners<'a>(&'a self, _shard: ShardId, step: FoldStep<'a>) -> OriginFuture<'a, FoldedOwners> {
        let deadline = self.deadline();
        Box::pin(async move {
            let call = script::owners::fold_call(&step, self.has_slots);
            script::owners::fold_reply(self.run_one(&self.fold, call, deadline).await?)
        })
    }

    fn connects(&self, shard: ShardId) -> u64 {
        self.servers.map().by_id(shard).map_or(0, |shard| shard.connects())
    }

    fn beat(&self, heartbeat: Heartbeat) -> OriginFuture<'_, HeartbeatReply> {
        let deadline = self.deadline();
        Box::pin(async move {
            let call = script::heartbeat_call(&heartbeat);
            let answer = self.run_one(&self.heartbeat, call, deadline).await?;
            script::heartbeat_reply(&heartbeat, answer)
        })
    }

    fn fleet_secret(&self, ours: Option<FleetSecret>) -> OriginFuture<'_, StoredSecret> {
        let deadline = self.deadline();
        Box::pin(async move {
            let answer = self.run_one(&self.secret, script::secret_call(ours.as_ref()), deadline).await?;
            script::secret_reply(answer)
        })
    }

    fn reset_once(
        &self,
        _shard: ShardId,
        key: KeyId,
        known: u16,
        expiry: Expiry,
        reset_id: Option<u64>,
    ) -> OriginFuture<'_, u16> {
        let deadline = self.deadline();
        Box::pin(async move {
            let call = script::reset_call(key, known, expiry, reset_id);
            let answer = self.run_one(&self.reset, call, deadline).await?;
            script::reset_reply(answer)
        })
    }

    fn restore_reset(&self, _shard: ShardId, done: DoneReset, now: Nanos) -> OriginFuture<'_, ()> {
        let deadline = self.deadline();
        Box::pin(async move {
            let answer = self.run_one(&self.reset, script::restore_call(&done, now), deadline).await?;
            script::reset_reply(answer).map(drop)
        })
    }

    fn share_resets(&self, news: ResetNews) -> OriginFuture<'_, ResetLog> {
        let deadline = self.deadline();
        Box::pin(async move {
            let answer = self.run_one(&self.resets, script::resets_call(&news), deadline).await?;
            script::resets_reply(answer)
        })
    }

    fn report_quotas<'a>(&'a self, report: &'a QuotaReport) -> OriginFuture<'a, QuotaReply> {
        let deadline = self.deadline();
        Box::pin(async move {
            let call = script::quota::report_call(report);
            script::quota::read_reply(self.run_one(&self.quotas.report, call, deadline).await?)
        })
    }

    fn gather_quotas(&self, silent_for: Nanos) -> OriginFuture<'_, QuotaReports> {
        let deadline = self.deadline();
        Box::pin(async move {
            let call = script::quota::gather_call(silent_for);
            script::quota::gathered_reply(self.run_one(&self.quotas.gather, call, deadline).await?)
        })
    }

    fn publish_quotas<'a>(&'a self, news: &'a QuotaNews) -> OriginFuture<'a, ()> {
        let deadline = self.deadline();
        Box::pin(async move {
            let call = script::quota::publish_call(news);
            script::quota::published_reply(self.run_one(&self.quotas.tell, call, deadline).await?)
        })
    }

    fn report_hot<'a>(&'a self, report: &'a HotReport) -> OriginFuture<'a, HotKeysReply> {
        let deadline = self.deadline();
        Box::pin(async move {
            let call = script::hot::report_call(report);
            script::hot::read_reply(self.run_one(&self.quotas.report, call, deadline).await?)
        })
    }

    fn gather_hot(&self, silent_for: Nanos) -> OriginFuture<'_, Vec<HotReport>> {
        let deadline = self.deadline();
        Box::pin(async move {
            let call = script::hot::gather_call(silent_for);
            script::hot::gathered_reply(self.run_one(&self.quotas.gather, call, deadline).await?)
        })
    }

    fn publish_hot_keys<'a>(&'a self, news: &'a HotNews) -> OriginFuture<'a, ()> {
        let deadline = self.deadline();
        Box::pin(async move {
            let call = script::hot::publish_call(news);
            script::quota::published_reply(self.run_one(&self.quotas.tell, call, deadline).await?)
        })
    }

    fn lead(&self, lead: LeaderCandidate) -> OriginFuture<'_, LeaderStatus> {
        let deadline = self.deadline();
        Box::pin(async move {
            let answer = self.run_one(&self.world.lead, script::lead_call(&lead), deadline).await?;
            script::lead_reply(answer)
        })
    }

    fn enqueue_publish_requests<'a>(&'a self, requests: &'a [PublishRequest]) -> OriginFuture<'a, u64> {
        let deadline = self.deadline();
        Box::pin(async move {
            let answer = self.run_one(&self.world.put, script::enqueue_call(requests), deadline).await?;
            script::put_reply(answer)
        })
    }

    fn dequeue_publish_requests(&self, most: u16) -> OriginFuture<'_, Vec<PublishRequest>> {
        let deadline = self.deadline();
        Box::pin(async move {
            let answer = self.run_one(&self.world.take, script::take_call(most), deadline).await?;
            script::take_reply(answer)
        })
    }

    fn totals<'a>(&'a self, cells: &'a [CellId]) -> OriginFuture<'a, Vec<Result<CellTotal, KeyError>>> {
        let calls = script::totals_calls(cells, self.has_slots);
        Box::pin(self.run_cells(&self.world.totals, (calls, cells.len()), script::cell_total))
    }

    fn import<'a>(
        &'a self,
        cells: &'a [WorldCell],
        now: Nanos,
    ) -> OriginFuture<'a, Vec<Result<u64, KeyError>>> {
        let calls = script::import_calls(cells, now, self.has_slots);
        Box::pin(self.run_cells(&self.world.import, (calls, cells.len()), script::cell_taken))
    }

    fn publish_world_view(&self, view: WorldView) -> OriginFuture<'_, ()> {
        let deadline = self.deadline();
        Box::pin(async move {
            let answer = self.run_one(&self.world.tell, script::publish_view_call(&view), deadline).await?;
            script::published_view_reply(answer)
        })
    }
}

/// Puts the calls' answers back into the order of the syncs. What failed for some keys fails those alone.
fn assemble(
    exchange: &Exchange,
    calls: &[ScriptCall],
    answers: Vec<Result<Value, OriginError>>,
) -> Result<ExchangeReply, OriginError> {
    let mut now = None;
    let mut failure = None;
    let mut record = if exchange.reads_record { RecordReading::Missing } else { RecordReading::NotRead };
    let missing = || OriginError::Nonsense { what: "an answer is missing".to_owned() };
    let mut replies: Vec<_> = exchange.syncs.iter().map(|_| Err(KeyError::Failed(missing()))).collect();
    for (call, answer) in calls.iter().zip(answers) {
        if call.is_reading {
            record = answer.map_or(RecordReading::Missing, script::record_reply);
            continue;
        }
        match answer.and_then(|answer| script::replies(exchange, call, answer)) {
            Ok((answered_at, answers)) => {
                now = now.max(Some(answered_at));
                for (sync, reply) in call.syncs.iter().zip(answers) {
                    replies[*sync] = reply;
                }
            }
            Err(error) => {
                for sync in &call.syncs {
                    replies[*sync] = Err(KeyError::Failed(error.clone()));
                }
                failure = failure.or(Some(error));
            }
        }
    }
    match (now, failure) {
        (Some(now), _) => Ok(ExchangeReply { now, replies, record }),
        // Nothing was asked, or the server answers and is in the middle of a move.
        (None, None | Some(OriginError::Moving { .. })) => {
            Ok(ExchangeReply { now: exchange.now, replies, record })
        }
        (None, Some(error)) => Err(error),
    }
}

impl fmt::Debug for RedisOrigin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let connections = self.connections();
        formatter
            .debug_struct("RedisOrigin")
            .field("url", &self.url)
            .field("connections", &connections)
            .finish_non_exhaustive()
    }
}
