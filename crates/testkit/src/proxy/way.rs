//! One direction of a connection: bytes are read as they come, queued with the time of their arrival, and
//! delivered as the fault in force says when their turn comes.
//!
//! Reading goes on while delivery waits, so latency doesn't cost throughput.

use super::Counters;
use super::fault::{Effect, ProxyFault, Way};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

const CHUNK_BYTES_MAX: usize = 16 * 1024;
/// 16 MiB on their way: a tenth of a second of latency still carries 160 MB per second.
const QUEUE_CHUNKS_MAX: usize = 1024;
/// Bandwidth is given out in so many portions per second: small delays, few of them.
const PORTIONS_PER_SECOND: u32 = 100;

/// The connection can't go on.
#[derive(Debug)]
pub(super) struct Broken;

struct Chunk {
    arrived: Instant,
    bytes: Vec<u8>,
}

/// Carries everything from a source to the carrier's sink, and its end too.
pub(super) async fn carry<R, W>(source: R, mut carrier: Carrier<W>) -> Result<(), Broken>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let (queue, chunks) = mpsc::channel(QUEUE_CHUNKS_MAX);
    // A delivery that fails ends the reading as well, which otherwise goes on as long as the source does.
    tokio::try_join!(read(source, queue), carrier.deliver(chunks)).map(|_| ())
}

/// To the end. A source that failed has ended as well; whether anybody hears of it depends on the fault.
async fn read(mut source: impl AsyncRead + Unpin, queue: mpsc::Sender<Chunk>) -> Result<(), Broken> {
    loop {
        let mut bytes = Vec::with_capacity(CHUNK_BYTES_MAX);
        // Only to its capacity.
        match source.read_buf(&mut bytes).await {
            Ok(0) | Err(_) => return Ok(()),
            Ok(_) => {}
        }
        if queue.send(Chunk { arrived: Instant::now(), bytes }).await.is_err() {
            return Err(Broken);
        }
    }
}

/// Delivers one direction's bytes.
pub(super) struct Carrier<W> {
    way: Way,
    sink: W,
    faults: watch::Receiver<ProxyFault>,
    counters: Arc<Counters>,
    connection: u64,
    /// Something vanished or was replaced: nothing may be delivered any more.
    is_lost: bool,
    /// When bandwidth allows the next portion.
    next_portion: Instant,
    random: Option<Random>,
}

impl<W> Carrier<W> {
    pub(super) fn new(
        way: Way,
        sink: W,
        faults: watch::Receiver<ProxyFault>,
        counters: Arc<Counters>,
        connection: u64,
    ) -> Self {
        let next_portion = Instant::now();
        Carrier { way, sink, faults, counters, connection, is_lost: false, next_portion, random: None }
    }

    /// What the fault in force does, unless the connection has to end.
    fn effect(&mut self) -> Result<Effect, Broken> {
        let effect = self.faults.borrow_and_update().effect(self.way);
        if effect == Effect::End || (self.is_lost && effect.delivers()) { Err(Broken) } else { Ok(effect) }
    }

    fn garble(&mut self, bytes: &mut [u8], seed: u64) {
        let connection = self.connection;
        let random = self.random.get_or_insert_with(|| Random(seed.wrapping_add(connection << 32)));
        bytes.fill_with(|| random.byte());
        self.is_lost = true;
    }

    /// How long to wait before the next bytes of a chunk, and how many they may be.
    fn allowance(&self, effect: Effect, chunk: &Chunk) -> (Instant, usize) {
        match effect {
            Effect::Delay(latency) => (chunk.arrived + latency, usize::MAX),
            Effect::Pace { bytes_per_second } => {
                let portion = usize::try_from(bytes_per_second / PORTIONS_PER_SECOND).unwrap_or(usize::MAX);
                (self.next_portion, portion.max(1))
            }
            _ => (chunk.arrived, usize::MAX),
        }
    }

    fn account(&mut self, effect: Effect, written: usize) {
        let bytes = u64::try_from(written).unwrap_or(u64::MAX);
        let counter = match self.way {
            Way::ToUpstream => &self.counters.to_upstream_bytes,
            Way::ToClient => &self.counters.to_client_bytes,
        };
        counter.fetch_add(bytes, Ordering::Relaxed);
        if let Effect::Pace { bytes_per_second } = effect {
            let nanoseconds = bytes.saturating_mul(1_000_000_000) / u64::from(bytes_per_second.max(1));
            // A late timer is made up for, an idle time isn't.
            let portion = Duration::from_secs(1) / PORTIONS_PER_SECOND;
            let earliest = Instant::now().checked_sub(portion).unwrap_or(self.next_portion);
            self.next_portion = self.next_portion.max(earliest) + Duration::from_nanos(nanoseconds);
        }
    }
}

impl<W: AsyncWrite + Unpin> Carrier<W> {
    async fn deliver(&mut self, mut chunks: mpsc::Receiver<Chunk>) -> Result<(), Broken> {
        loop {
            let effect = self.effect()?;
            tokio::select! {
                changed = self.faults.changed() => changed.map_err(|_| Broken)?,
                chunk = chunks.recv() => match chunk {
                    Some(chunk) => self.pass(chunk).await?,
                    None if effect.delivers() => return self.sink.shutdown().await.map_err(|_| Broken),
                    None => return self.hold().await,
                }
            }
        }
    }

    /// The source has ended, and nobody is to know before the fault is lifted.
    async fn hold(&mut self) -> Result<(), Broken> {
        self.is_lost = true;
        loop {
            self.effect()?;
            self.faults.changed().await.map_err(|_| Broken)?;
        }
    }

    async fn pass(&mut self, mut chunk: Chunk) -> Result<(), Broken> {
        if let Effect::Garble { seed } = self.effect()? {
            self.garble(&mut chunk.bytes, seed);
        }
        let mut at = 0;
        while at < chunk.bytes.len() {
            let effect = self.effect()?;
            if effect == Effect::Vanish {
                self.counters.lost(chunk.bytes.len() - at);
                self.is_lost = true;
                return Ok(());
            }
            let (due, portion) = self.allowance(effect, &chunk);
            let end = chunk.bytes.len().min(at.saturating_add(portion));
            // Either may be given up without harm: no byte was written then.
            let write = async {
                if due > Instant::now() {
                    tokio::time::sleep_until(due).await;
                }
                self.sink.write(&chunk.bytes[at..end]).await
            };
            tokio::select! {
                changed = self.faults.changed() => changed.map_err(|_| Broken)?,
                written = write => {
                    let written = written.map_err(|_| Broken)?;
                    self.account(effect, written);
                    at += written;
                }
            }
        }
        Ok(())
    }
}

/// SplitMix64: small, and the same everywhere.
struct Random(u64);

impl Random {
    fn byte(&mut self) -> u8 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)).to_le_bytes()[0]
    }
}
