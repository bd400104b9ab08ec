//! Target 4: the store is killed, stopped, slow or unreachable under load, five times each in turn.
//!
//! Three nodes. Most requests are about keys that are known and far from their limits: their latency must not
//! show the outage. Three busy keys, one of each class, are offered twice what they may admit.

use crate::Setting;
use crate::figures::{Bounds, Figures, count, note, ratio};
use crate::fleet::{Fleet, Node};
use crate::generator::{Generator, Width};
use crate::machine::Ticks;
use crate::plan::{Limit, Nodes, Plan, Stream};
use crate::samples::{Kind, Samples};
use crate::time::{Stopwatch, pause};
use std::time::Duration;
use tidegate_testkit::{FaultProxy, ProxyFault, Redis};

const BAR: u8 = 4;
const RUNS: usize = 5;
const NODES: [usize; 3] = [0, 1, 2];
const BEFORE: Duration = Duration::from_secs(3);
const AFTER: Duration = Duration::from_secs(7);
const HOUR: Duration = Duration::from_secs(3600);
const SECOND: Duration = Duration::from_secs(1);

const WARM: Kind = 0;
const WARM_KEYS: usize = 200;
const WARM_PER_SECOND: f64 = 900.0;
/// Each class's kind of request.
const CLASSES: [(Kind, &str); 3] = [(1, "free"), (2, "abuse"), (3, "paid")];
const CLASS_LIMIT: f64 = 100.0;
const CLASS_PER_SECOND: f64 = 200.0;

/// Both ways together, 50 ms.
const SLOWNESS: Duration = Duration::from_millis(25);
/// What is admitted in a second of normal times, as part of the limit.
const NORMAL: std::ops::RangeInclusive<f64> = 0.9..=1.1;
const LOOK_EVERY: Duration = Duration::from_millis(250);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outage {
    Killed,
    Stopped,
    Slow,
    Blackholed,
}

impl Outage {
    fn name(self) -> &'static str {
        match self {
            Outage::Killed => "killed",
            Outage::Stopped => "stopped",
            Outage::Slow => "50 ms slow",
            Outage::Blackholed => "blackholed",
        }
    }
}

/// A store, the way to it, and nodes that use it.
struct Scene<'a> {
    setting: &'a Setting,
    redis: Redis,
    proxy: Option<FaultProxy>,
    origin_url: String,
    /// Lives as long as the scene does.
    _fleet: Fleet,
    generator: Generator,
}

/// What one outage was like.
struct Observed {
    samples: Samples,
    /// When it began and ended, since the start of the run.
    from: Duration,
    to: Duration,
    busy: f64,
    newcomer: Option<Duration>,
}

pub(crate) fn measure(setting: &Setting) -> Result<(), String> {
    let length = setting.seconds(5, 20).as_secs();
    note(
        BAR,
        &format!(
            "three nodes, faults of {length} s, 900 requests a second about 200 warm keys and 200 about each \
             class's key of 100 per second; the allowance is what a key may admit in the time of the fault"
        ),
    );
    // A server that died refuses; a proxy before it would accept.
    Scene::new(setting, Way::Direct)?.measure(&[Outage::Killed, Outage::Stopped])?;
    Scene::new(setting, Way::Proxied)?.measure(&[Outage::Slow, Outage::Blackholed])
}

/// How nodes come to their store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Direct,
    Proxied,
}

impl<'a> Scene<'a> {
    fn new(setting: &'a Setting, way: Way) -> Result<Self, String> {
        let redis = setting.wait_for(Redis::start());
        let proxy = (way == Way::Proxied).then(|| setting.wait_for(FaultProxy::start(redis.address())));
        let origin_url = match &proxy {
            Some(proxy) => format!("redis://{}", proxy.address()),
            None => redis.url(),
        };
        let fleet = Fleet::start(&origin_url, NODES.len())?;
        let generator = Generator::connect(&fleet.addresses(), Width::APART)
            .map_err(|error| format!("can't connect: {error}"))?;
        Ok(Scene { setting, redis, proxy, origin_url, _fleet: fleet, generator })
    }

    fn measure(&mut self, outages: &[Outage]) -> Result<(), String> {
        // Every node gets to know every key.
        let warm_up = load(Duration::from_secs(2));
        self.generator.run(&warm_up, Stopwatch::start()).map_err(|error| error.to_string())?;
        for run in 0..RUNS {
            for outage in outages {
                let observed = self.observe(*outage, run + 1 == RUNS)?;
                observed.report(*outage);
            }
        }
        Ok(())
    }

    fn observe(&mut self, outage: Outage, with_newcomer: bool) -> Result<Observed, String> {
        let length = self.setting.seconds(5, 20);
        let plan = load(BEFORE + length + AFTER);
        let Scene { setting, redis, proxy, origin_url, generator, .. } = self;
        let store = Store { setting, redis, proxy: proxy.as_ref() };
        let (stopwatch, ticks) = (Stopwatch::start(), Ticks::now());
        std::thread::scope(|scope| {
            let sending = scope.spawn(|| generator.run(&plan, stopwatch));
            stopwatch.wait_until(BEFORE);
            let from = stopwatch.elapsed();
            store.begin(outage);
            let newcomer = if with_newcomer { Some(start_newcomer(origin_url)?) } else { None };
            stopwatch.wait_until(from + length);
            store.end(outage);
            let to = stopwatch.elapsed();
            let samples = sending.join().map_err(|_| "the generator panicked")?;
            let samples = samples.map_err(|error| error.to_string())?;
            Ok(Observed { samples, from, to, busy: ticks.busy_since(), newcomer })
        })
    }
}

/// What is done to the store.
struct Store<'a> {
    setting: &'a Setting,
    redis: &'a Redis,
    proxy: Option<&'a FaultProxy>,
}

impl Store<'_> {
    fn begin(&self, outage: Outage) {
        match outage {
            Outage::Killed => self.redis.kill(),
            Outage::Stopped => self.redis.stop(),
            Outage::Slow => self.set(ProxyFault::Latency(SLOWNESS)),
            Outage::Blackholed => self.set(ProxyFault::Blackhole),
        }
    }

    fn end(&self, outage: Outage) {
        match outage {
            Outage::Killed => self.setting.wait_for(self.redis.restart()),
            Outage::Stopped => self.redis.resume(),
            Outage::Slow | Outage::Blackholed => self.set(ProxyFault::None),
        }
    }

    fn set(&self, fault: ProxyFault) {
        if let Some(proxy) = self.proxy {
            proxy.set(fault);
        }
    }
}

/// How long a node that starts during the outage takes to its first decision. It ends with this call.
fn start_newcomer(origin_url: &str) -> Result<Duration, String> {
    pause(SECOND);
    let since = Stopwatch::start();
    let node = Node::spawn(origin_url, &[])?;
    node.wait_first_answer(&Limit::new("newcomer", 100, HOUR), since)
}

fn load(length: Duration) -> Plan {
    let mut plan = Plan::default();
    let warm: Vec<Limit> =
        (0..WARM_KEYS).map(|key| Limit::new(format!("warm-{key}"), 1_000_000_000, HOUR)).collect();
    plan.add(&stream(WARM, WARM_PER_SECOND, &warm, length));
    for (kind, class) in CLASSES {
        let limit = [Limit::new(format!("busy-{class}"), 100, SECOND).class(class)];
        plan.add(&stream(kind, CLASS_PER_SECOND, &limit, length));
    }
    plan
}

fn stream(kind: Kind, per_second: f64, limits: &[Limit], length: Duration) -> Stream<'_> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some ten thousands")]
    let count = (per_second * length.as_secs_f64()) as usize;
    Stream { kind, from: Duration::ZERO, count, per_second, nodes: Nodes::InTurn(&NODES), limits }
}

impl Observed {
    fn report(&self, outage: Outage) {
        let figures = Figures::of(BAR, outage.name());
        self.report_latency(&figures);
        self.report_admissions(&figures);
        let errors = count(self.samples.errors());
        figures.worst("errors to callers", errors, Bounds::AtMost(0.0));
        self.report_recovery(&figures);
        if let Some(newcomer) = self.newcomer {
            let milliseconds = newcomer.as_secs_f64() * 1000.0;
            figures.worst(
                "first answer of a node started meanwhile, ms",
                milliseconds,
                Bounds::AtMost(1000.0),
            );
        }
        figures.median("machine busy, %", self.busy, Bounds::AtMost(30.0));
    }

    fn report_latency(&self, figures: &Figures) {
        let warm = self.samples.of_kind(WARM);
        let before = warm.between(self.from.saturating_sub(BEFORE), self.from).latency_ms(990);
        let during = warm.between(self.from, self.to).latency_ms(990);
        figures.told("warm p99 before, ms", before);
        figures.median("warm p99 during, ms", during, Bounds::AtMost(10.0));
        let allowed = (1.2 * before).max(before + 1.0);
        figures.median(
            "warm p99 during − max(1.2 × before, before + 1), ms",
            during - allowed,
            Bounds::AtMost(0.0),
        );
    }

    fn report_admissions(&self, figures: &Figures) {
        let during = self.samples.between(self.from, self.to);
        let allowance = CLASS_LIMIT * (self.to - self.from).as_secs_f64();
        for (kind, class) in CLASSES {
            let samples = during.of_kind(kind);
            let admitted = ratio(samples.admitted(), allowance);
            let name = format!("{class}: admitted ÷ allowance");
            match class {
                "free" => figures.worst(&name, admitted, Bounds::Within(0.9, 1.5)),
                "paid" => figures.worst(&name, admitted, Bounds::AtLeast(1.0)),
                _ => {
                    let unverified = samples.only(|sample| sample.is_admitted() && sample.unverified);
                    figures.told(&name, admitted);
                    figures.worst("abuse: admitted unverified", count(unverified.len()), Bounds::AtMost(0.0));
                }
            }
        }
    }

    fn report_recovery(&self, figures: &Figures) {
        let abnormal = self.windows(self.to, self.end()).filter(|from| !self.is_normal(*from)).last();
        let last_abnormal = abnormal.map_or(Duration::ZERO, |from| from + SECOND - self.to);
        figures.worst(
            "last abnormal second ended after, s",
            last_abnormal.as_secs_f64(),
            Bounds::AtMost(5.0),
        );
        let after = self.samples.between(self.to, self.end());
        let unverified = after.0.iter().filter(|sample| sample.unverified).map(|sample| sample.at).max();
        let last = unverified.map_or(Duration::ZERO, |at| at - self.to);
        figures.told("last unverified decision after, s", last.as_secs_f64());
        let before: Vec<bool> =
            self.windows(Duration::ZERO, self.from).map(|from| self.is_normal(from)).collect();
        let normal = before.iter().filter(|is_normal| **is_normal).count();
        figures.told("seconds before that were normal, %", 100.0 * ratio(normal, count(before.len())));
    }

    fn end(&self) -> Duration {
        self.samples.0.last().map_or(self.to, |sample| sample.at)
    }

    /// Where the seconds within a time begin, one every quarter of a second.
    fn windows(&self, from: Duration, to: Duration) -> impl Iterator<Item = Duration> {
        (0..).map(move |step| from + LOOK_EVERY * step).take_while(move |start| *start + SECOND <= to)
    }

    /// Every class admits what it may in the second from then on.
    fn is_normal(&self, from: Duration) -> bool {
        let samples = self.samples.between(from, from + SECOND);
        let admitted = |kind: Kind| ratio(samples.of_kind(kind).admitted(), CLASS_LIMIT);
        CLASSES.iter().all(|(kind, _)| NORMAL.contains(&admitted(*kind)))
    }
}
