//! An origin on a runtime of its own, as in a node, and exchanges whose answers are easy to check.

use std::sync::OnceLock;
use std::time::Duration;
use tidegate_core::counts::CellReply;
use tidegate_core::exchange::{CellSync, CountReply, CountSync, GrantRequest, KeySync, WindowSync};
use tidegate_core::origin_cell::NodeId;
use tidegate_core::{KeyId, Nanos, Sequence};
use tidegate_origin::{
    Exchange, ExchangeReply, Grant, Origin, OriginError, RedisOptions, RedisOrigin, RedisUrl,
};
use tokio::runtime::Handle;
use tokio::time::Instant;

/// Later than any test.
const EXPIRES: Nanos = Nanos::from_secs(4_000_000_000);

/// A runtime on a thread of its own, which isn't the one that waits for answers.
pub(crate) fn background() -> &'static Handle {
    static RUNTIME: OnceLock<Handle> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let handle = runtime.handle().clone();
        std::thread::spawn(move || runtime.block_on(std::future::pending::<()>()));
        handle
    })
}

pub(crate) fn origin(url: &str) -> RedisOrigin {
    origin_with(url, RedisOptions::default())
}

/// For tests that aren't about deadlines: a busy machine mustn't fail them.
pub(crate) fn patient_origin(url: &str) -> RedisOrigin {
    origin_with(url, RedisOptions { call_timeout_ms: 5000, ..RedisOptions::default() })
}

pub(crate) fn origin_with(url: &str, options: RedisOptions) -> RedisOrigin {
    let url = RedisUrl::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"));
    RedisOrigin::new(url, options, background())
}

/// Publishes a component of each key.
pub(crate) fn exchange(keys: &[KeyId], component: u64) -> Exchange {
    let cell = CellSync { component, acked: 0, claim: component, expires: EXPIRES };
    let window = WindowSync {
        limit: 1_000_000,
        regions: 1,
        sequence: Sequence(1),
        current: cell,
        previous: None,
        fading: None,
    };
    let sync = |key: &KeyId| KeySync {
        key: *key,
        epoch: 0,
        counts: CountSync::Window(window),
        request: GrantRequest::default(),
        ended_holds: Default::default(),
    };
    Exchange {
        node: NodeId(7),
        now: Nanos::from_secs(1_800_000_000),
        syncs: keys.iter().map(sync).collect(),
        grant: Grant::Each,
        reads_record: false,
    }
}

/// A key of its own for each number. The low bits choose the slot, so they have to differ.
pub(crate) fn key(number: u64) -> KeyId {
    KeyId::from_hash(u128::from(number) << 64 | u128::from(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

pub(crate) fn keys(count: u64) -> Vec<KeyId> {
    (0..count).map(key).collect()
}

/// Publishes one key's component where the key is kept now.
pub(crate) async fn publish(
    origin: &RedisOrigin,
    key: KeyId,
    component: u64,
) -> Result<ExchangeReply, OriginError> {
    origin.exchange(origin.shard_of(key), &exchange(&[key], component)).await
}

/// The component of the only key.
pub(crate) fn component(exchanged: &ExchangeReply) -> u64 {
    components(exchanged)[0]
}

pub(crate) fn components(exchanged: &ExchangeReply) -> Vec<u64> {
    let component = |reply: &Result<_, _>| match reply {
        Ok(tidegate_core::exchange::KeyReply {
            counts: CountReply::Window { current: CellReply { component, .. }, .. },
            ..
        }) => *component,
        other => panic!("no component: {other:?}"),
    };
    exchanged.replies.iter().map(component).collect()
}

/// Publishes until it succeeds, and says how long that took.
pub(crate) async fn until_published(origin: &RedisOrigin, key: KeyId, within: Duration) -> Duration {
    let began = Instant::now();
    tidegate_testkit::until("an answered exchange", within, || async {
        let exchanged = publish(origin, key, 1).await.ok()?;
        exchanged.replies[0].is_ok().then_some(())
    })
    .await;
    began.elapsed()
}

/// How long a call took, and how long it was allowed to: on a busy machine every timer is late.
pub(crate) async fn timed<T>(call: impl Future<Output = T>) -> (T, Duration, Duration) {
    let began = Instant::now();
    let timer = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        began.elapsed() + Duration::from_millis(10)
    };
    let call = async {
        let outcome = call.await;
        (outcome, began.elapsed())
    };
    let ((outcome, took), allowed) = tokio::join!(call, timer);
    (outcome, took, allowed.max(Duration::from_millis(60)))
}

/// The given part of the sorted durations, e.g. 0.99.
pub(crate) fn quantile(sorted: &[Duration], part: f64) -> Duration {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    let place = (sorted.len() as f64 * part) as usize;
    sorted[place.min(sorted.len() - 1)]
}
