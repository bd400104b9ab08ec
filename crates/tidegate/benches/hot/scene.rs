//! Three nodes beside a cluster of three shards, and load on them.

use crate::Setting;
use crate::fleet::Fleet;
use crate::generator::{Generator, Width};
use crate::plan::{Limit, Nodes, Plan, Stream};
use crate::samples::{Kind, Samples};
use crate::time::Stopwatch;
use std::time::Duration;
use tidegate_testkit::RedisCluster;

pub(crate) const NODES: [usize; 3] = [0, 1, 2];
pub(crate) const HOUR: Duration = Duration::from_secs(3600);
/// Requests that come together leave in one write.
const TICK: Duration = Duration::from_millis(2);

pub(crate) struct Scene<'s> {
    setting: &'s Setting,
    cluster: RedisCluster,
    pub(crate) fleet: Fleet,
    pub(crate) generator: Generator,
}

impl<'s> Scene<'s> {
    pub(crate) fn start(setting: &'s Setting) -> Result<Self, String> {
        let cluster = setting.wait_for(RedisCluster::start());
        let fleet = Fleet::start(&cluster.urls(), NODES.len())?;
        let generator = Generator::connect(&fleet.addresses(), Width::PIPELINED)
            .map_err(|error| format!("can't connect: {error}"))?;
        Ok(Scene { setting, cluster, fleet, generator })
    }

    /// Script calls that each shard has seen.
    pub(crate) fn calls(&self) -> Vec<f64> {
        let calls = |redis: &tidegate_testkit::Redis| {
            let calls = self
                .setting
                .wait_for(async { redis.calls_of("evalsha").await + redis.calls_of("eval").await });
            crate::figures::count(usize::try_from(calls).unwrap_or(0))
        };
        self.cluster.primaries().iter().map(calls).collect()
    }

    /// What the nodes have sent about keys.
    pub(crate) fn exchanges(&self) -> f64 {
        crate::figures::count(usize::try_from(self.fleet.sum("origin_exchanges")).unwrap_or(0))
    }

    /// Runs a plan, and counts each shard's script calls from one instant to another.
    pub(crate) fn run_and_count(
        &mut self,
        plan: &Plan,
        stopwatch: Stopwatch,
        instants: [Duration; 2],
    ) -> Result<(Samples, Vec<f64>), String> {
        let mut generator = Generator::connect(&self.fleet.addresses(), Width::PIPELINED)
            .map_err(|error| format!("can't connect: {error}"))?;
        let (samples, [before, after]) = std::thread::scope(|scope| {
            let sending = scope.spawn(|| generator.run(plan, stopwatch));
            let calls = instants.map(|at| {
                stopwatch.wait_until(at);
                self.calls()
            });
            (sending.join(), calls)
        });
        let samples = samples.map_err(|_| "the generator panicked")?.map_err(|error| error.to_string())?;
        Ok((samples, after.iter().zip(&before).map(|(after, before)| after - before).collect()))
    }

    pub(crate) fn run(&mut self, plan: &Plan) -> Result<Samples, String> {
        self.generator.run(plan, Stopwatch::start()).map_err(|error| error.to_string())
    }
}

/// Adds load on some limits.
pub(crate) fn add(
    plan: &mut Plan,
    kind: Kind,
    nodes: &[usize],
    per_second: u32,
    length: Duration,
    limits: &[Limit],
) {
    add_from(plan, Duration::ZERO, kind, nodes, per_second, length, limits);
}

/// The same from some instant on.
pub(crate) fn add_from(
    plan: &mut Plan,
    from: Duration,
    kind: Kind,
    nodes: &[usize],
    per_second: u32,
    length: Duration,
    limits: &[Limit],
) {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some millions")]
    let count = (f64::from(per_second) * length.as_secs_f64()) as usize;
    let (per_second, nodes) = (f64::from(per_second), Nodes::InTurn(nodes));
    plan.add(&Stream { kind, from, count, per_second, nodes, limits });
}

pub(crate) fn ticked(plan: Plan) -> Plan {
    plan.ticked(TICK)
}
