//! Target 5: a region hears only half of what is said, its world worker dies while it publishes, and two workers work
//! at once. Whatever happens, the database never has more of a region than the region admitted, what it has never
//! shrinks, and slices in force never sum to more than the limit.

use crate::Setting;
use crate::figures::{Bounds, Figures, count, note};
use crate::generator::Width;
use crate::outage::differences;
use crate::overshoot::PERIOD;
use crate::plan::{Limit, Nodes, Plan, Stream};
use crate::samples::{Kind, Samples};
use crate::scene::{Policy, REGIONS, Scene, nodes_of};
use crate::slices::{largest_sum, looks_with_slices};
use crate::time::{Stopwatch, pause, poll, with_room_in_cell};
use crate::watch::{WatchLog, watching};
use std::time::Duration;
use tidegate_testkit::ProxyFault;

const BAR: u8 = 5;
/// Where faults happen: the region that is farthest from the database, where something is always on its way.
const PLACE: usize = 2;
const BEFORE: Duration = Duration::from_secs(4);
const FAULT_FOR: Duration = Duration::from_secs(6);
const AFTER: Duration = Duration::from_secs(5);
const LENGTH: Duration = Duration::from_secs(15);
/// Longer than a worker's lease: another one has taken over.
const PAUSED_FOR: Duration = Duration::from_secs(4);
const HEALED_WITHIN: Duration = Duration::from_secs(10);

const KEYS: Kind = 12;
const LIMIT: u64 = 600;
/// Of each key in each region: more than the limit in all.
const PER_SECOND: f64 = 15.0;
const COUNT: usize = 225;
/// Of the keys whose rate is a quota.
const RATES: Kind = 2;
const RATE: u32 = 100;
const RATE_PER_SECOND: f64 = 50.0;
const RATE_COUNT: usize = 750;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Trouble {
    Unheard,
    Untold,
    Killed,
    Paused,
}

impl Trouble {
    fn name(self) -> &'static str {
        match self {
            Trouble::Unheard => "what a region sends to the database is lost",
            Trouble::Untold => "what the database answers to a region is lost",
            Trouble::Killed => "a world worker killed while it publishes",
            Trouble::Paused => "two world workers at once: one paused for 4 s",
        }
    }
}

pub(crate) fn measure(setting: &Setting) -> Result<(), String> {
    note(
        BAR,
        "12 keys of 600 per 5 min that all regions spend, and 2 of 100 a second, which are quotas; what happens, \
         happens to the region that is farthest from the database, whose publishes take 150 ms",
    );
    let mut scene = Scene::start(setting, Policy::Headroom)?;
    for trouble in [Trouble::Unheard, Trouble::Untold, Trouble::Killed, Trouble::Paused] {
        let load = Load::new(trouble);
        with_room_in_cell(PERIOD, LENGTH + HEALED_WITHIN * 2);
        let (samples, seen, killed) = observe(&scene, &load, trouble)?;
        let healed = Stopwatch::start();
        let mut ledger = scene.ledger()?;
        let keys: Vec<u128> = load.counted().map(|limit| limit.key().get()).collect();
        let equal = poll("counts that agree", HEALED_WITHIN * 2, || {
            (differences(setting, &scene, &mut ledger, &keys)? == 0).then(|| healed.elapsed())
        });
        report(&scene, trouble, &load, &samples, &seen, equal.ok());
        if let Some(node) = killed {
            scene.regions[PLACE].replace(node)?;
        }
    }
    Ok(())
}

/// The limits of a run, each asked about in every region.
struct Load(Vec<Limit>);

impl Load {
    fn new(trouble: Trouble) -> Self {
        let counted = (0..KEYS).map(|key| Limit::new(format!("{trouble:?}-{key}"), LIMIT, PERIOD));
        let rates = (0..RATES).map(|key| Limit::rate(format!("{trouble:?}-rate-{key}"), RATE, RATE));
        Load(counted.chain(rates).collect())
    }

    fn counted(&self) -> impl Iterator<Item = &Limit> {
        self.0.iter().take(usize::from(KEYS))
    }

    fn rates(&self) -> impl Iterator<Item = &Limit> {
        self.0.iter().skip(usize::from(KEYS))
    }

    fn plan(&self) -> Plan {
        let mut plan = Plan::default();
        for (limit, number) in self.0.iter().zip(0..) {
            let (per_second, count) =
                if number < KEYS { (PER_SECOND, COUNT) } else { (RATE_PER_SECOND, RATE_COUNT) };
            for region in 0..REGIONS {
                let (kind, from) = (kind(number, region), Duration::ZERO);
                let (nodes, limits) = (nodes_of(region), std::slice::from_ref(limit));
                plan.add(&Stream { kind, from, count, per_second, nodes: Nodes::InTurn(&nodes), limits });
            }
        }
        plan
    }
}

fn kind(number: Kind, region: usize) -> Kind {
    Kind::try_from(REGIONS).unwrap_or(1) * number + Kind::try_from(region).unwrap_or(0)
}

/// What was sent, what was seen meanwhile, and which node of the region is dead.
fn observe(
    scene: &Scene,
    load: &Load,
    trouble: Trouble,
) -> Result<(Samples, WatchLog, Option<usize>), String> {
    let mut generator = scene.generator(Width::APART)?;
    let (plan, stopwatch) = (load.plan(), Stopwatch::start());
    let ((samples, killed), seen) = watching(scene, stopwatch, || {
        std::thread::scope(|scope| {
            let sending = scope.spawn(|| generator.run(&plan, stopwatch));
            stopwatch.wait_until(BEFORE);
            let killed = make(scene, trouble)?;
            let samples = sending.join().map_err(|_| "the generator panicked")?;
            // What was on its way when the load ended.
            pause(AFTER);
            Ok((samples.map_err(|error| error.to_string())?, killed))
        })
    })?;
    Ok((samples, seen, killed))
}

fn make(scene: &Scene, trouble: Trouble) -> Result<Option<usize>, String> {
    let region = &scene.regions[PLACE];
    let lose = |fault| {
        region.way.set(fault);
        pause(FAULT_FOR);
        region.heal();
    };
    match trouble {
        Trouble::Unheard => lose(ProxyFault::DropToUpstream),
        Trouble::Untold => lose(ProxyFault::DropToClient),
        Trouble::Killed => {
            let worker = region.worker()?;
            region.fleet.0[worker].process.kill();
            return Ok(Some(worker));
        }
        Trouble::Paused => {
            let worker = region.worker()?;
            region.fleet.0[worker].process.stop();
            pause(PAUSED_FOR);
            region.fleet.0[worker].process.resume();
        }
    }
    Ok(None)
}

fn report(
    scene: &Scene,
    trouble: Trouble,
    load: &Load,
    samples: &Samples,
    seen: &WatchLog,
    equal_after: Option<Duration>,
) {
    let figures = Figures::of(BAR, trouble.name());
    figures.worst("components that decreased (INV-1)", count(seen.decreases()), Bounds::AtMost(0.0));
    let mut unearned = 0;
    for (limit, number) in load.counted().zip(0..) {
        for (region, place) in scene.regions.iter().zip(0..) {
            let own = samples.of_kind(kind(number, place));
            unearned = unearned.max(seen.unearned(limit.key().get(), region.name, &own));
        }
    }
    let unearned = f64::from(u32::try_from(unearned).unwrap_or(u32::MAX));
    figures.worst("a row's most beyond what its region admitted (INV-2)", unearned, Bounds::AtMost(0.0));
    for limit in load.rates() {
        let (key, burst) = (limit.key().get(), u64::from(RATE));
        figures.worst(
            "largest sum of slices ÷ limit (INV-6)",
            largest_sum(seen, key, burst),
            Bounds::AtMost(1.0),
        );
        figures.told("looks that saw slices", count(looks_with_slices(seen, key)));
    }
    figures.told("looks at the database", count(seen.looks.len()));
    let equal_after = equal_after.map_or(f64::INFINITY, |after| after.as_secs_f64());
    figures.worst("every component its region's count after, s", equal_after, Bounds::AtMost(10.0));
    figures.told("answers that were lost", count(samples.errors()));
}
