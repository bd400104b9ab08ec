//! Target 10: a store with many live keys loses all of them, or one server of three does. How long it takes until all nodes have
//! published again what they know, and what callers notice meanwhile.
//!
//! Every key is known by one of the three nodes. Warm keys are asked about all the time, and `exact` ones, which ask the
//! store for each admission.

use crate::Setting;
use crate::figures::{Bounds, Figures, count, note};
use crate::fleet::Fleet;
use crate::generator::{Generator, Width};
use crate::plan::{Limit, Nodes, Plan, Stream};
use crate::samples::{Kind, Samples};
use crate::time::{Stopwatch, pause, poll, with_room_in_cell};
use std::time::Duration;
use tidegate_testkit::{Redis, RedisCluster};

const BAR: u8 = 10;
const NODES: [usize; 3] = [0, 1, 2];
const HOUR: Duration = Duration::from_secs(3600);
const TICK: Duration = Duration::from_millis(2);
const FILLED_PER_SECOND: f64 = 8_000.0;
const FILLED_AT_ONCE: usize = 50_000;
const STORED_WITHIN: Duration = Duration::from_secs(120);

const WARM: Kind = 0;
const EXACT: Kind = 1;
const PER_SECOND: f64 = 600.0;
const BEFORE: Duration = Duration::from_secs(4);
/// Not measured: the first requests make the keys warm.
const WARM_UP: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What is lost, and how long its recovery may take.
struct Loss {
    keys: usize,
    within: Duration,
}

pub(crate) fn measure(setting: &Setting) -> Result<(), String> {
    note(
        BAR,
        "three nodes. `paid` keys of an hour, each known by one node; 600 requests a second about 200 warm keys and as many about \
         100 `exact` ones. A recovery takes 1.9 s at least, and is noticed up to 0.4 s after the loss",
    );
    let hundred_thousand = Loss { keys: 100_000, within: Duration::from_secs(5) };
    one_server(setting, &hundred_thousand)?;
    one_of_three(setting, &hundred_thousand)?;
    if setting.is_long() {
        one_server(setting, &Loss { keys: 1_000_000, within: Duration::from_secs(30) })?;
    }
    Ok(())
}

fn one_server(setting: &Setting, loss: &Loss) -> Result<(), String> {
    let redis = setting.wait_for(Redis::start());
    let fleet = Fleet::start(&redis.url(), NODES.len())?;
    let figures = Figures::of(BAR, format!("{} keys, one server", loss.keys));
    fill(setting, &fleet, &[&redis], loss.keys)?;
    let address = redis.address().to_string();
    let observed = observe(setting, &fleet, &redis, &address, loss)?;
    observed.report(&figures, loss);
    let restored = count(stored(setting, &redis));
    figures.worst("cells that are there again ÷ keys", restored / count(loss.keys), Bounds::AtLeast(1.0));
    Ok(())
}

fn one_of_three(setting: &Setting, loss: &Loss) -> Result<(), String> {
    let cluster = setting.wait_for(RedisCluster::start());
    let fleet = Fleet::start(&cluster.urls(), NODES.len())?;
    let figures = Figures::of(BAR, format!("{} keys, one server of three", loss.keys));
    let primaries: Vec<&Redis> = cluster.primaries().iter().collect();
    fill(setting, &fleet, &primaries, loss.keys)?;
    let address = primaries[0].address().to_string();
    let observed = observe(setting, &fleet, primaries[0], &address, loss)?;
    observed.report(&figures, loss);
    figures.worst(
        "looks at which another server wasn't healthy",
        count(observed.others_unwell),
        Bounds::AtMost(0.0),
    );
    Ok(())
}

/// Asks once about every key, at one node each, and waits until the servers have them all.
fn fill(setting: &Setting, fleet: &Fleet, servers: &[&Redis], keys: usize) -> Result<(), String> {
    with_room_in_cell(HOUR, Duration::from_secs(600));
    // Not before: nodes close connections that are idle for long.
    let mut generator = connect(fleet, Width::PIPELINED)?;
    for first in (0..keys).step_by(FILLED_AT_ONCE) {
        let some = first..(first + FILLED_AT_ONCE).min(keys);
        let limits: Vec<Limit> = some.map(|key| Limit::new(format!("live-{key}"), 1_000_000, HOUR)).collect();
        let mut plan = Plan::default();
        plan.add(&Stream {
            kind: WARM,
            from: Duration::ZERO,
            count: limits.len(),
            per_second: FILLED_PER_SECOND,
            nodes: Nodes::AtRandom(&NODES, u64::try_from(first).unwrap_or(0)),
            limits: &limits,
        });
        generator.run(&plan.ticked(TICK), Stopwatch::start()).map_err(|error| error.to_string())?;
    }
    let all = || servers.iter().map(|server| stored(setting, server)).sum::<usize>();
    poll("all keys in the store", STORED_WITHIN, || {
        pause(Duration::from_millis(100));
        (all() >= keys).then_some(())
    })
}

fn stored(setting: &Setting, server: &Redis) -> usize {
    let size = setting.wait_for(server.demand(&["DBSIZE"])).integer().unwrap_or(0);
    usize::try_from(size).unwrap_or(0)
}

fn connect(fleet: &Fleet, width: Width) -> Result<Generator, String> {
    Generator::connect(&fleet.addresses(), width).map_err(|error| format!("can't connect: {error}"))
}

struct Observed {
    samples: Samples,
    lost: Duration,
    /// When every node had noticed, and when every node said that the server is healthy again.
    noticed: Duration,
    recovered: Option<Duration>,
    others_unwell: usize,
    /// Calls of the store, and those of them that failed, between the loss and the end of the recovery.
    exchanges: u64,
    failed: u64,
}

/// Empties a server under load, and watches what every node says of it.
fn observe(
    setting: &Setting,
    fleet: &Fleet,
    server: &Redis,
    address: &str,
    loss: &Loss,
) -> Result<Observed, String> {
    let mut generator = connect(fleet, Width::APART)?;
    let after = 2 * loss.within;
    let plan = load(BEFORE + after);
    let stopwatch = Stopwatch::start();
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| generator.run(&plan, stopwatch));
        stopwatch.wait_until(BEFORE);
        let [exchanges, failed] = ["origin_exchanges", "origin_failed_exchanges"].map(|name| fleet.sum(name));
        setting.wait_for(server.demand(&["FLUSHALL"]));
        let lost = stopwatch.elapsed();
        let (mut noticed, mut recovered, mut others_unwell) = (None, None, 0);
        let mut has_noticed = vec![false; fleet.0.len()];
        while recovered.is_none() && stopwatch.elapsed() < BEFORE + after {
            pause(LOOK_EVERY);
            let mut are_healthy = true;
            for (node, has_noticed) in fleet.0.iter().zip(&mut has_noticed) {
                let state = node.state().unwrap_or_default();
                for shard in state["origin"]["shards"].as_array().map_or(&[][..], Vec::as_slice) {
                    let is_healthy = shard["data"] == "healthy";
                    if shard["address"] == address {
                        *has_noticed |= shard["data"] == "recovering";
                        are_healthy &= is_healthy;
                    } else {
                        others_unwell += usize::from(!is_healthy);
                    }
                }
            }
            let all_noticed = has_noticed.iter().all(|noticed| *noticed);
            noticed = noticed.or(all_noticed.then(|| stopwatch.elapsed()));
            recovered = (all_noticed && are_healthy).then(|| stopwatch.elapsed());
        }
        let [exchanges, failed] = [("origin_exchanges", exchanges), ("origin_failed_exchanges", failed)]
            .map(|(name, before)| fleet.sum(name) - before);
        let samples =
            sending.join().map_err(|_| "the generator panicked")?.map_err(|error| error.to_string())?;
        let noticed = noticed.unwrap_or_else(|| stopwatch.elapsed());
        Ok(Observed { samples, lost, noticed, recovered, others_unwell, exchanges, failed })
    })
}

/// Warm keys, and keys that ask for every admission.
fn load(length: Duration) -> Plan {
    let warm: Vec<Limit> =
        (0..200).map(|key| Limit::new(format!("warm-{key}"), 1_000_000_000, HOUR)).collect();
    let exact = (0..100).map(|key| Limit::new(format!("exact-{key}"), 1_000_000_000, HOUR).exact());
    let exact: Vec<Limit> = exact.collect();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some ten thousand")]
    let count = (PER_SECOND * length.as_secs_f64()) as usize;
    let mut plan = Plan::default();
    for (kind, limits) in [(WARM, &warm), (EXACT, &exact)] {
        let (from, nodes) = (Duration::ZERO, Nodes::InTurn(&NODES));
        plan.add(&Stream { kind, from, count, per_second: PER_SECOND, nodes, limits });
    }
    plan
}

impl Observed {
    fn report(&self, figures: &Figures, loss: &Loss) {
        let end = self.recovered.unwrap_or(Duration::MAX);
        figures.told("until every node had noticed, s", (self.noticed - self.lost).as_secs_f64());
        let took = self.recovered.map_or(f64::INFINITY, |recovered| (recovered - self.lost).as_secs_f64());
        figures.worst("recovered after, s", took, Bounds::AtMost(loss.within.as_secs_f64()));
        let warm = self.samples.of_kind(WARM);
        let (before, during) = (warm.between(WARM_UP, self.lost), warm.between(self.lost, end));
        figures.told("warm decisions' p99 before, ms", before.latency_ms(990));
        figures.told("warm decisions' p99 during, ms", during.latency_ms(990));
        let more = during.latency_ms(990) - before.latency_ms(990);
        figures.worst("warm decisions' p99 during − before, ms", more, Bounds::AtMost(1.0));
        let exact = self.samples.of_kind(EXACT).between(self.lost, end);
        figures.told("`exact` decisions unverified during, %", percent(exact.unverified(), exact.len()));
        let asks = |number| usize::try_from(number).unwrap_or(0);
        let failed = percent(asks(self.failed), asks(self.exchanges));
        figures.told("calls of the store", count(asks(self.exchanges)));
        figures.worst("calls of the store that timed out or failed, %", failed, Bounds::AtMost(1.0));
        figures.worst("errors", count(self.samples.errors()), Bounds::AtMost(0.0));
    }
}

fn percent(part: usize, whole: usize) -> f64 {
    100.0 * count(part) / count(whole.max(1))
}
