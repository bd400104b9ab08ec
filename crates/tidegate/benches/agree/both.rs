//! Runs a case both ways and holds the counts against each other.

use crate::Setting;
use crate::case::{Case, Subject, Trouble};
use crate::figures::{Bounds, Figures, count};
use crate::fleet::Fleet;
use crate::generator::{Generator, Width};
use crate::plan::{Plan, Shot};
use crate::samples::{Kind, Samples};
use crate::time::{Stopwatch, at_next_cell, with_room_in_cell};
use std::time::Duration;
use tidegate_core::Nanos;
use tidegate_sim::{Arrival, Fault as Simulated, START, Scenario, Simulation};
use tidegate_testkit::{FaultProxy, ProxyFault, Redis};

/// The number of this target in docs/bars.md.
const BAR: u8 = 4;
const WITHIN: f64 = 0.03;
const SEEDS: u8 = 5;
/// Requests that come together leave in one write.
const TICK: Duration = Duration::from_millis(2);
/// Windows that are longer don't end during a run.
const LONG: Duration = Duration::from_secs(60);
/// Of 10,000.
const ALL: u64 = 10_000;

pub(crate) fn compare(setting: &Setting, case: &Case) -> Result<(), String> {
    let simulated = simulate(case);
    let samples = send(setting, case)?;
    let figures = Figures::of(BAR, case.name);
    for (index, subject) in case.subjects.iter().enumerate() {
        let real = count(samples.of_kind(kind_of(index)).admitted());
        let name = subject.name;
        figures.told(&format!("{name}: admitted by real nodes"), real);
        figures.told(&format!("{name}: admitted by simulated ones"), simulated[index]);
        let apart = real / simulated[index];
        figures.worst(
            &format!("{name}: real ÷ simulated"),
            apart,
            Bounds::Within(1.0 - WITHIN, 1.0 + WITHIN),
        );
    }
    figures.worst("errors", count(samples.errors()), Bounds::AtMost(0.0));
    Ok(())
}

fn kind_of(subject: usize) -> Kind {
    Kind::try_from(subject).unwrap_or(Kind::MAX)
}

/// What is admitted of each subject, on average over some seeds.
fn simulate(case: &Case) -> Vec<f64> {
    let mut sums = vec![0.0; case.subjects.len()];
    for seed in 0..u64::from(SEEDS) {
        let mut simulation = Simulation::new(scenario(case, seed));
        simulation.run();
        for (key, sum) in sums.iter_mut().enumerate() {
            *sum += count(usize::try_from(simulation.ledger(key).admitted()).unwrap_or(0));
        }
    }
    sums.iter().map(|sum| sum / f64::from(SEEDS)).collect()
}

fn scenario(case: &Case, seed: u64) -> Scenario {
    let keys = case.subjects.iter().map(Subject::simulated).collect();
    let arrivals = case.requests.iter().map(|request| Arrival {
        at: instant(request.at),
        node: request.node,
        template: request.subject,
    });
    let mut scenario = Scenario::calm(seed, case.nodes, keys).with_arrivals(arrivals.collect());
    scenario.faults = match case.trouble {
        Trouble::None => Vec::new(),
        Trouble::Down(from, length) => vec![
            (instant(from), Simulated::StoreGoesDown),
            (instant(from + length), Simulated::StoreComesBack),
        ],
        Trouble::Unheard(from, length) => vec![
            (instant(from), Simulated::RepliesLost { of_10_000: ALL }),
            (instant(from + length), Simulated::RepliesLost { of_10_000: 0 }),
        ],
        Trouble::Forgets(at) => vec![(instant(at), Simulated::StoreForgets)],
    };
    for (key, subject) in case.subjects.iter().enumerate() {
        if let Some(after) = subject.hot_after {
            scenario.faults.push((instant(after), Simulated::KeyIsHot { key }));
        }
    }
    scenario
}

fn instant(offset: Duration) -> Nanos {
    START.plus(Nanos::new(u64::try_from(offset.as_nanos()).unwrap_or(0)))
}

/// The same with real processes.
fn send(setting: &Setting, case: &Case) -> Result<Samples, String> {
    let redis = setting.wait_for(Redis::start());
    let proxy = setting.wait_for(FaultProxy::start(redis.address()));
    let fleet = Fleet::start(&format!("redis://{}", proxy.address()), case.nodes)?;
    let mut generator = Generator::connect(&fleet.addresses(), Width::PIPELINED)
        .map_err(|error| format!("can't connect: {error}"))?;
    let plan = plan(case);
    let stopwatch = start(case);
    let samples = std::thread::scope(|scope| {
        let sending = scope.spawn(|| generator.run(&plan, stopwatch));
        disturb(setting, case.trouble, &redis, &proxy, stopwatch);
        sending.join()
    });
    samples.map_err(|_| "the generator panicked")?.map_err(|error| error.to_string())
}

fn plan(case: &Case) -> Plan {
    let shots = case.requests.iter().map(|request| Shot {
        at: request.at,
        node: request.node,
        kind: kind_of(request.subject),
        request: request.subject,
    });
    let requests = case.subjects.iter().map(|subject| subject.real().request()).collect();
    Plan { requests, shots: shots.collect() }.ticked(TICK)
}

/// As simulated runs do: at the beginning of a cell, or far from the end of one.
fn start(case: &Case) -> Stopwatch {
    let period = case.subjects.iter().map(Subject::period).max().unwrap_or(LONG);
    if period < LONG {
        return at_next_cell(period);
    }
    with_room_in_cell(period, LONG);
    Stopwatch::start()
}

fn disturb(setting: &Setting, trouble: Trouble, redis: &Redis, proxy: &FaultProxy, stopwatch: Stopwatch) {
    let (fault, from, length) = match trouble {
        Trouble::None => return,
        Trouble::Forgets(at) => {
            stopwatch.wait_until(at);
            setting.wait_for(redis.demand(&["FLUSHALL"]));
            return;
        }
        Trouble::Down(from, length) => (ProxyFault::Refuse, from, length),
        Trouble::Unheard(from, length) => (ProxyFault::DropToClient, from, length),
    };
    stopwatch.wait_until(from);
    proxy.set(fault);
    stopwatch.wait_until(from + length);
    proxy.set(ProxyFault::None);
}
