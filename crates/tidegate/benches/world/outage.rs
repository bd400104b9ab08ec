//! Target 4: the database is out of reach, dead, restarted or slow. Callers don't notice, and when it is back it
//! soon has what the regions counted meanwhile.
//!
//! A new key every half second, of which every region is sent half a limit: all are spent, so that nothing of
//! them may be left unpublished. Far more requests are about keys that are nowhere near their limits.

use crate::Setting;
use crate::figures::{Bounds, Figures, count, note};
use crate::generator::Width;
use crate::ledger::Ledger;
use crate::machine::Ticks;
use crate::overshoot::PERIOD;
use crate::plan::{Limit, Nodes, Plan, Stream};
use crate::samples::{Kind, Samples};
use crate::scene::{Policy, REGIONS, Region, Scene, nodes_of};
use crate::time::{Stopwatch, pause, with_room_in_cell};
use crate::watch::{WatchLog, watching};
use std::time::Duration;
use tidegate_testkit::{ProxyFault, RespValue};

const BAR: u8 = 4;
/// Of every outage, in turns: a machine that stands still for a moment is no outage of ours.
const RUNS: usize = 3;
const BEFORE: Duration = Duration::from_secs(5);
/// By then every node knows every warm key.
const WARM_UP: Duration = Duration::from_secs(2);
const HEALED_WITHIN: Duration = Duration::from_secs(10);
/// A look costs hundreds of commands.
const LOOK_EVERY: Duration = Duration::from_millis(250);

const WARM: Kind = 0;
const WARM_KEYS: usize = 100;
const WARM_PER_SECOND: f64 = 450.0;
const SPENT: Kind = 1;
const SPENT_LIMIT: u64 = 200;
const SPENT_EVERY: Duration = Duration::from_millis(500);
/// In each region, of each key.
const SPENT_COUNT: usize = 100;
const SPENT_WITHIN: Duration = Duration::from_secs(4);
/// Both ways together, 2 s.
const SLOWNESS: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outage {
    /// What the measure itself is like: a busy machine has its own latencies.
    Nothing,
    Blackholed,
    Killed,
    Restarted,
    Slow,
}

impl Outage {
    fn name(self) -> &'static str {
        match self {
            Outage::Nothing => "as ever",
            Outage::Blackholed => "blackholed",
            Outage::Killed => "killed",
            Outage::Restarted => "restarted",
            Outage::Slow => "slow by 2 s",
        }
    }
}

/// What one outage was like.
struct Observed {
    samples: Samples,
    seen: WatchLog,
    /// When it began, since the start of the run, and until when nobody looked at what it had done.
    from: Duration,
    until: Duration,
    /// Components that weren't their region's count when it ended; `None` when the database couldn't say.
    behind: Option<usize>,
    /// From the end of the outage until every component was its region's count.
    equal_after: Option<Duration>,
    busy: f64,
}

pub(crate) fn measure(setting: &Setting) -> Result<(), String> {
    let length = setting.seconds(10, 60).as_secs();
    note(
        BAR,
        &format!(
            "faults of {length} s; 450 requests a second about 100 warm keys, and a new key of 200 per 5 min every \
             half second, spent within 4 s by all regions together. In every round the same is run once while the \
             database is as ever: p99 during an outage is held against p99 of the same seconds of that run, and what \
             p99 before the outage would allow is told beside it, for that run too: that is the measure's own noise"
        ),
    );
    let scene = Scene::start(setting, Policy::Headroom)?;
    for run in 0..RUNS {
        let nothing = observe(setting, &scene, Outage::Nothing, run)?;
        nothing.report(Outage::Nothing, nothing.during());
        for outage in [Outage::Blackholed, Outage::Killed, Outage::Restarted, Outage::Slow] {
            observe(setting, &scene, outage, run)?.report(outage, nothing.during());
        }
    }
    Ok(())
}

fn observe(setting: &Setting, scene: &Scene, outage: Outage, run: usize) -> Result<Observed, String> {
    let length = setting.seconds(10, 60);
    let (plan, keys) = load(&format!("{}-{run}", outage.name()), BEFORE + length);
    with_room_in_cell(PERIOD, BEFORE + length + HEALED_WITHIN * 2);
    let mut generator = scene.generator(Width::APART)?;
    let (stopwatch, ticks) = (Stopwatch::start(), Ticks::now());
    let mut ledger = scene.ledger()?;
    let (mut sent, mut from) = (None, BEFORE);
    let (mut behind, mut equal_after) = (None, None);
    let ((), seen) = watching(scene, stopwatch, || {
        std::thread::scope(|scope| {
            let sending = scope.spawn(|| generator.run(&plan, stopwatch));
            stopwatch.wait_until(BEFORE);
            from = stopwatch.elapsed();
            begin(setting, scene, outage);
            stopwatch.wait_until(from + length);
            behind = differences(setting, scene, &mut ledger, &keys);
            end(setting, scene, outage);
            let to = stopwatch.elapsed();
            let samples = sending.join().map_err(|_| "the generator panicked")?;
            sent = Some(samples.map_err(|error| error.to_string())?);
            equal_after = wait_equal(setting, scene, &mut ledger, &keys, stopwatch, to);
            Ok(())
        })
    })?;
    let samples = sent.ok_or("nothing was sent")?;
    Ok(Observed { samples, seen, from, until: from + length, behind, equal_after, busy: ticks.busy_since() })
}

fn begin(setting: &Setting, scene: &Scene, outage: Outage) {
    let set = |fault| scene.regions.iter().for_each(|region| region.way.set(fault));
    match outage {
        Outage::Nothing => {}
        Outage::Blackholed => set(ProxyFault::Blackhole),
        Outage::Slow => set(ProxyFault::Latency(SLOWNESS)),
        Outage::Killed => scene.database.kill(),
        Outage::Restarted => scene.database.restart(setting),
    }
}

fn end(setting: &Setting, scene: &Scene, outage: Outage) {
    match outage {
        Outage::Blackholed | Outage::Slow => scene.regions.iter().for_each(Region::heal),
        Outage::Killed => scene.database.restart(setting),
        Outage::Nothing | Outage::Restarted => {}
    }
}

/// The requests of a run, and its keys that are spent by its end.
fn load(name: &str, length: Duration) -> (Plan, Vec<u128>) {
    let mut plan = Plan::default();
    let mut keys = Vec::new();
    let warm: Vec<Limit> =
        (0..WARM_KEYS).map(|key| Limit::new(format!("warm-{key}"), 1_000_000_000, PERIOD)).collect();
    let all: Vec<usize> = (0..REGIONS).flat_map(nodes_of).collect();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some ten thousands")]
    let count = (WARM_PER_SECOND * length.as_secs_f64()) as usize;
    let (from, nodes, per_second) = (Duration::ZERO, Nodes::InTurn(&all), WARM_PER_SECOND);
    plan.add(&Stream { kind: WARM, from, count, per_second, nodes, limits: &warm });
    let mut from = Duration::ZERO;
    while from + SPENT_WITHIN <= length {
        let limits = [Limit::new(format!("{name}-{}", keys.len()), SPENT_LIMIT, PERIOD)];
        keys.push(limits[0].key().get());
        for region in 0..REGIONS {
            let per_second = f64::from(u32::try_from(SPENT_COUNT).unwrap_or(0)) / SPENT_WITHIN.as_secs_f64();
            let (nodes, count) = (nodes_of(region), SPENT_COUNT);
            plan.add(&Stream {
                kind: SPENT,
                from,
                count,
                per_second,
                nodes: Nodes::InTurn(&nodes),
                limits: &limits,
            });
        }
        from += SPENT_EVERY;
    }
    (plan, keys)
}

/// Looks until the database has what every region counts, and says when that was.
fn wait_equal(
    setting: &Setting,
    scene: &Scene,
    ledger: &mut Ledger,
    keys: &[u128],
    stopwatch: Stopwatch,
    healed: Duration,
) -> Option<Duration> {
    while stopwatch.elapsed() < healed + HEALED_WITHIN * 2 {
        if differences(setting, scene, ledger, keys) == Some(0) {
            return Some(stopwatch.elapsed() - healed);
        }
        pause(LOOK_EVERY);
    }
    None
}

/// How many components aren't what their region counts.
pub(crate) fn differences(
    setting: &Setting,
    scene: &Scene,
    ledger: &mut Ledger,
    keys: &[u128],
) -> Option<usize> {
    let (owners, components) = (ledger.owners()?, ledger.components()?);
    let mut different = 0;
    for region in &scene.regions {
        let ids: Vec<u32> =
            owners.iter().filter(|owner| owner.region == region.name).map(|owner| owner.id).collect();
        for key in keys {
            let mine = components.iter().filter(|row| row.key == *key && ids.contains(&row.owner));
            let published = mine.map(|row| row.count).max().unwrap_or(0);
            different += usize::from(published != counted(setting, region, *key));
        }
    }
    Some(different)
}

/// A region's count of a key's only cell: the sum of its nodes, or what was ever claimed.
pub(crate) fn counted(setting: &Setting, region: &Region, key: u128) -> u64 {
    let pattern = format!("tidegate:{{{:08x}}}:{key:032x}:0:*", key & 0xffff_ffff);
    let names = setting.wait_for(region.redis.demand(&["KEYS", &pattern]));
    let total = |name: String| {
        let reply = setting.wait_for(region.redis.demand(&["HMGET", &name, "s", "f"]));
        let numbers =
            reply.items().iter().filter_map(RespValue::text).filter_map(|text| text.parse::<u64>().ok());
        numbers.max().unwrap_or(0)
    };
    names.items().iter().filter_map(RespValue::text).map(total).sum()
}

/// By the bar.
fn allowed(p99: f64) -> f64 {
    (1.2 * p99).max(p99 + 1.0)
}

impl Observed {
    fn during(&self) -> f64 {
        self.samples.between(self.from, self.until).latency_ms(990)
    }

    /// `as_ever`: p99 of the same seconds while nothing is wrong.
    fn report(&self, outage: Outage, as_ever: f64) {
        let figures = Figures::of(BAR, format!("the database {}", outage.name()));
        let before = self.samples.between(WARM_UP, self.from).latency_ms(990);
        let during = self.during();
        figures.told("p99 before, ms", before);
        figures.told("p99 during, ms", during);
        figures.told("p99 during − max(1.2 × before, before + 1), ms", during - allowed(before));
        if outage != Outage::Nothing {
            let name = "p99 during − max(1.2 × as ever, as ever + 1), ms";
            figures.median(name, during - allowed(as_ever), Bounds::AtMost(0.0));
        }
        if let Some(behind) = self.behind {
            figures.told("components behind when it ended", count(behind));
        }
        let equal_after = self.equal_after.map_or(f64::INFINITY, |after| after.as_secs_f64());
        figures.worst("every component its region's count after, s", equal_after, Bounds::AtMost(10.0));
        figures.worst("components that decreased", count(self.seen.decreases()), Bounds::AtMost(0.0));
        figures.told("looks at the database", count(self.seen.looks.len()));
        figures.worst("errors to callers", count(self.samples.errors()), Bounds::AtMost(0.0));
        figures.told("machine busy, %", self.busy);
    }
}
