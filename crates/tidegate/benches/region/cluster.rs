//! Target 6: one of a cluster's three primaries dies, until its replica takes over. Keys of the other shards
//! show nothing of it.
//!
//! Five runs, each with another shard's primary of the moment.

use crate::Setting;
use crate::figures::{Bounds, Figures, count, ratio};
use crate::fleet::Fleet;
use crate::generator::{Generator, Width};
use crate::plan::{Limit, Nodes, Plan, Stream};
use crate::samples::{Kind, Samples};
use crate::time::{Stopwatch, pause, poll};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tidegate_testkit::{Redis, RedisCluster};

const BAR: u8 = 6;
const RUNS: u16 = 5;
const NODES: [usize; 3] = [0, 1, 2];
const SHARDS: u16 = 3;
/// The test kit gives each primary an equal part of the 16,384 slots.
const SLOTS_PER_SHARD: u16 = 5462;
const KEYS: usize = 300;
const PER_SECOND: f64 = 400.0;
const HOUR: Duration = Duration::from_secs(3600);
const BEFORE: Duration = Duration::from_secs(3);
/// For the death, the promotion and what follows it.
const AFTER: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(100);
const IN_SYNC_WITHIN: Duration = Duration::from_secs(20);

pub(crate) fn measure(setting: &Setting) -> Result<(), String> {
    let cluster = setting.wait_for(RedisCluster::start());
    let fleet = Fleet::start(&cluster.urls(), NODES.len())?;
    let mut generator = Generator::connect(&fleet.addresses(), Width::APART)
        .map_err(|error| format!("can't connect: {error}"))?;
    let keys: Vec<Limit> =
        (0..KEYS).map(|key| Limit::new(format!("spread-{key}"), 1_000_000_000, HOUR)).collect();
    let warm_up = load(std::slice::from_ref(&keys), Duration::from_secs(3));
    generator.run(&warm_up, Stopwatch::start()).map_err(|error| error.to_string())?;
    let by_shard = by_shard(setting, &cluster, &keys)?;
    let plan = load(&by_shard, BEFORE + AFTER);
    for run in 0..RUNS {
        let observed = observe(setting, &cluster, &fleet, &mut generator, &plan, run % SHARDS)?;
        observed.report();
        wait_in_sync(setting, &cluster)?;
    }
    Ok(())
}

/// A stream for each shard, of its kind.
fn load(by_shard: &[Vec<Limit>], length: Duration) -> Plan {
    let mut plan = Plan::default();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some thousands")]
    let count = (PER_SECOND * length.as_secs_f64()) as usize;
    for (kind, limits) in (0..).zip(by_shard) {
        let (from, nodes) = (Duration::ZERO, Nodes::InTurn(&NODES));
        plan.add(&Stream { kind, from, count, per_second: PER_SECOND, nodes, limits });
    }
    plan
}

/// Which keys each primary has, by its own word.
fn by_shard(setting: &Setting, cluster: &RedisCluster, keys: &[Limit]) -> Result<Vec<Vec<Limit>>, String> {
    let mut shards = Vec::new();
    for primary in cluster.primaries() {
        let reply = setting.wait_for(primary.demand(&["KEYS", "tidegate:*"]));
        let names: Vec<String> = reply.items().iter().filter_map(tidegate_testkit::RespValue::text).collect();
        let is_here = |limit: &&Limit| {
            let hash = format!(":{:032x}:", limit.key().get());
            names.iter().any(|name| name.contains(&hash))
        };
        shards.push(keys.iter().filter(is_here).cloned().collect::<Vec<Limit>>());
    }
    let found: usize = shards.iter().map(Vec::len).sum();
    if found == keys.len() {
        Ok(shards)
    } else {
        Err(format!("{found} of {} keys are in the store", keys.len()))
    }
}

struct Observed {
    samples: Samples,
    dead: Kind,
    killed: Duration,
    promoted: Duration,
    /// For each node, whose breakers were seen open.
    opened: Vec<Vec<String>>,
    dead_address: String,
}

fn observe(
    setting: &Setting,
    cluster: &RedisCluster,
    fleet: &Fleet,
    generator: &mut Generator,
    plan: &Plan,
    shard: u16,
) -> Result<Observed, String> {
    let slot = shard * SLOTS_PER_SHARD;
    let primary = setting.wait_for(cluster.primary_of_slot(slot));
    let (stopwatch, is_over) = (Stopwatch::start(), AtomicBool::new(false));
    let (samples, opened, killed, promoted) = std::thread::scope(|scope| {
        let sending = scope.spawn(|| generator.run(plan, stopwatch));
        let watching = scope.spawn(|| watch_breakers(fleet, &is_over));
        stopwatch.wait_until(BEFORE);
        let killed = stopwatch.elapsed();
        primary.kill();
        setting.wait_for(cluster.primary_of_slot(slot));
        let promoted = stopwatch.elapsed();
        let samples = sending.join();
        is_over.store(true, Ordering::Relaxed);
        (samples, watching.join(), killed, promoted)
    });
    let samples = samples.map_err(|_| "the generator panicked")?.map_err(|error| error.to_string())?;
    let opened = opened.map_err(|_| "the watch on breakers panicked")?;
    let dead_address = primary.address().to_string();
    setting.wait_for(primary.restart());
    Ok(Observed { samples, dead: shard, killed, promoted, opened, dead_address })
}

/// The addresses of the shards whose breakers each node had open at any time.
fn watch_breakers(fleet: &Fleet, is_over: &AtomicBool) -> Vec<Vec<String>> {
    let mut opened = vec![Vec::new(); fleet.0.len()];
    while !is_over.load(Ordering::Relaxed) {
        for (node, seen) in fleet.0.iter().zip(&mut opened) {
            seen.extend(node.open_breakers());
            seen.sort();
            seen.dedup();
        }
        pause(LOOK_EVERY);
    }
    opened
}

/// The server that was dead has become a replica: the next run has one again.
fn wait_in_sync(setting: &Setting, cluster: &RedisCluster) -> Result<(), String> {
    let field = |server: &Redis, name| setting.wait_for(server.info(name)).ok().flatten();
    let is = |server: &Redis, name, value: &str| field(server, name).as_deref() == Some(value);
    poll("every shard with its replica", IN_SYNC_WITHIN, || {
        let servers = || cluster.primaries().iter().chain(cluster.replicas());
        let in_sync = servers().filter(|server| is(server, "master_link_status", "up")).count();
        let primaries = servers().filter(|server| is(server, "role", "master")).count();
        (in_sync == usize::from(SHARDS) && primaries == usize::from(SHARDS)).then_some(())
    })
}

impl Observed {
    fn report(&self) {
        let figures = Figures::of(BAR, "one of three primaries dead");
        let others = self.samples.only(|sample| sample.kind != self.dead);
        let own = self.samples.of_kind(self.dead);
        let before = others.between(Duration::ZERO, self.killed).latency_ms(990);
        let during = others.between(self.killed, self.promoted);
        figures.told("other shards' p99 before, ms", before);
        figures.told("other shards' p99 during, ms", during.latency_ms(990));
        let allowed = (1.2 * before).max(before + 1.0);
        let excess = during.latency_ms(990) - allowed;
        figures.median(
            "other shards' p99 during − max(1.2 × before, before + 1), ms",
            excess,
            Bounds::AtMost(0.0),
        );
        figures.told("other shards' decisions unverified", count(during.unverified()));
        let own_during = own.between(self.killed, self.promoted);
        figures.told("dead shard's p99 during, ms", own_during.latency_ms(990));
        let admitted = ratio(own_during.admitted(), count(own_during.len()));
        figures.worst("dead shard's paid keys admitted", admitted, Bounds::AtLeast(1.0));
        figures.worst("errors", count(self.samples.errors()), Bounds::AtMost(0.0));
        self.report_breakers(&figures);
        self.report_recovery(&figures, &own);
    }

    fn report_breakers(&self, figures: &Figures) {
        let opened_here = self.opened.iter().filter(|seen| seen.contains(&self.dead_address)).count();
        let elsewhere = self.opened.iter().flatten().filter(|address| **address != self.dead_address).count();
        figures.told("nodes that opened the dead shard's breaker", count(opened_here));
        figures.worst("breakers opened at other shards", count(elsewhere), Bounds::AtMost(0.0));
    }

    fn report_recovery(&self, figures: &Figures, own: &Samples) {
        figures.told("until the promotion, s", (self.promoted - self.killed).as_secs_f64());
        let last = own.0.iter().filter(|sample| sample.unverified).map(|sample| sample.at).max();
        let recovery = last.map_or(Duration::ZERO, |last| last.saturating_sub(self.promoted));
        figures.worst(
            "last unverified decision after the promotion, s",
            recovery.as_secs_f64(),
            Bounds::AtMost(5.0),
        );
    }
}
