//! Target 1: from a push to the last of 50 nodes that enforces it; once at a time, and under 1,700 changes a second.

use crate::Setting;
use crate::client::Client;
use crate::figures::{Bounds, Figures, count, note};
use crate::scene::{RULES, Running, override_of, push, version_of};
use crate::streams::Streams;
use crate::time::{Stopwatch, pause, poll};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

const BAR: u8 = 1;
const NODES: usize = 50;
/// Of them, in processes of their own.
const PROCESSES: usize = 8;
const BROKERS: usize = 3;
const PUSHES: u64 = 100;
const PER_SECOND: u64 = 1700;
const CALLERS: u64 = 64;
const USERS: u64 = 5000;
const SOON: Duration = Duration::from_secs(60);

struct Fleet {
    control: Running,
    _brokers: Vec<Running>,
    nodes: Vec<Running>,
    streams: Streams,
}

impl Fleet {
    fn start() -> Result<Self, String> {
        let control = Running::control()?;
        let brokers: Vec<Running> =
            (0..BROKERS).map(|_| Running::broker(&control)).collect::<Result<_, _>>()?;
        let servers: Vec<&Running> = brokers.iter().collect();
        let nodes: Vec<Running> =
            (0..PROCESSES).map(|_| Running::node(&servers, &[])).collect::<Result<_, _>>()?;
        let streams = Streams::start(NODES - PROCESSES, &servers)?;
        let version = push(&control, RULES)?;
        let fleet = Fleet { control, _brokers: brokers, nodes, streams };
        fleet.wait(version)?;
        Ok(fleet)
    }

    fn clients(&self) -> Result<Vec<Client>, String> {
        self.nodes.iter().map(Running::client).collect()
    }

    fn wait(&self, version: u64) -> Result<(), String> {
        let mut clients = self.clients()?;
        wait(&mut clients, &self.streams, version)
    }
}

fn wait(clients: &mut [Client], streams: &Streams, version: u64) -> Result<(), String> {
    poll(&format!("version {version} everywhere"), SOON, || {
        let is_everywhere = streams.lowest() >= version
            && clients.iter_mut().all(|client| version_of(client).is_ok_and(|found| found >= version));
        is_everywhere.then_some(())
    })
}

pub(crate) fn measure(setting: &Setting) -> Result<(), String> {
    note(
        BAR,
        "one control plane on SQLite, 3 brokers, 8 nodes in processes of their own and 42 real streams, each with its \
         files and its engine, on one thread of the benchmark; all on one machine. Nodes are asked for their version \
         every 2 ms, which is in the figures",
    );
    let fleet = Fleet::start()?;
    one_at_a_time(&fleet)?;
    under_load(setting, &fleet)
}

fn one_at_a_time(fleet: &Fleet) -> Result<(), String> {
    let (mut control, mut clients) = (fleet.control.client()?, fleet.clients()?);
    let mut delays = Vec::new();
    for number in 0..PUSHES {
        let stopwatch = Stopwatch::start();
        let version =
            control.change("PUT", "/v1/overrides", &override_of(&format!("one-{number}"), number + 1))?;
        wait(&mut clients, &fleet.streams, version)?;
        delays.push(stopwatch.elapsed());
        // Also at other moments than just after the last one.
        pause(Duration::from_millis(20 + number * 7 % 50));
    }
    delays.sort_unstable();
    let figures = Figures::of(BAR, "100 pushes, one at a time, 50 nodes");
    figures.told("median, ms", millis(delays[delays.len() / 2]));
    figures.worst("slowest, ms", delays.last().copied().map_or(f64::NAN, millis), Bounds::AtMost(500.0));
    Ok(())
}

fn millis(length: Duration) -> f64 {
    length.as_secs_f64() * 1000.0
}

/// When each version was asked for, and when how much was in force everywhere.
#[derive(Default)]
struct Observed {
    asked: Mutex<Vec<(u64, u64, Duration)>>,
    lowest: Mutex<Vec<(Duration, u64)>>,
}

fn under_load(setting: &Setting, fleet: &Fleet) -> Result<(), String> {
    let length = setting.seconds(60, 60);
    let changes = PER_SECOND * length.as_secs();
    let (observed, is_over, next) = (Observed::default(), AtomicBool::new(false), AtomicU64::new(0));
    let stopwatch = Stopwatch::start();
    let outcome: Result<(), String> = thread::scope(|scope| {
        let watch = scope.spawn(|| look(fleet, stopwatch, &is_over, &observed));
        let callers: Vec<_> = (0..CALLERS)
            .map(|_| scope.spawn(|| call(&fleet.control, stopwatch, changes, &next, &observed)))
            .collect();
        let called: Result<Vec<()>, String> =
            callers.into_iter().map(|caller| caller.join().map_err(|_| "a caller panicked")?).collect();
        let took = stopwatch.elapsed();
        let head = fleet.control.client()?.get("/v1/rules")?["version"].as_u64().unwrap_or(0);
        let reached = fleet.wait(head);
        pause(Duration::from_millis(20));
        is_over.store(true, Ordering::Relaxed);
        watch.join().map_err(|_| "the watch panicked")?;
        called?;
        reached?;
        report(fleet, &observed, changes, took);
        Ok(())
    });
    outcome
}

/// Sends its part of the changes when they are due.
fn call(
    control: &Running,
    stopwatch: Stopwatch,
    changes: u64,
    next: &AtomicU64,
    observed: &Observed,
) -> Result<(), String> {
    let mut client = control.client()?;
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= changes {
            return Ok(());
        }
        stopwatch.wait_until(Duration::from_micros(number * 1_000_000 / PER_SECOND));
        let asked_at = stopwatch.elapsed();
        let body = override_of(&format!("user-{}", number % USERS), 1000 + number);
        let version = client.change("PUT", "/v1/overrides", &body)?;
        observed.asked.lock().unwrap_or_else(PoisonError::into_inner).push((version, number, asked_at));
    }
}

/// What all streams go by, every few milliseconds.
fn look(fleet: &Fleet, stopwatch: Stopwatch, is_over: &AtomicBool, observed: &Observed) {
    while !is_over.load(Ordering::Relaxed) {
        let lowest = fleet.streams.lowest();
        observed.lowest.lock().unwrap_or_else(PoisonError::into_inner).push((stopwatch.elapsed(), lowest));
        pause(Duration::from_millis(5));
    }
}

fn report(fleet: &Fleet, observed: &Observed, changes: u64, took: Duration) {
    let mut asked = observed.asked.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let lowest = observed.lowest.lock().unwrap_or_else(PoisonError::into_inner).clone();
    asked.sort_unstable();
    let mut delays: Vec<Duration> = asked
        .iter()
        .filter_map(|(version, _, asked_at)| {
            let first = lowest.partition_point(|(_, found)| found < version);
            lowest.get(first).map(|(at, _)| at.saturating_sub(*asked_at))
        })
        .collect();
    delays.sort_unstable();
    let percentile = |part: usize| {
        delays.get((delays.len() * part).div_ceil(100).max(1) - 1).copied().map_or(f64::NAN, millis)
    };
    // The last word on each user is what all of them go by.
    let mut last: std::collections::HashMap<u64, u64> = std::collections::HashMap::new();
    last.extend(asked.iter().map(|(_, number, _)| (number % USERS, 1000 + number)));
    let wrong: usize = last
        .iter()
        .map(|(user, limit)| {
            let found = fleet.streams.limits_of(&format!("user-{user}"));
            found.iter().filter(|found| **found != Some(*limit)).count()
        })
        .sum();
    let gaps = asked.windows(2).filter(|pair| pair[0].0 + 1 != pair[1].0).count();
    let figures = Figures::of(BAR, "1,700 changes a second for 60 s, 50 nodes");
    figures.worst("changes a second", count(asked.len()) / took.as_secs_f64(), Bounds::AtLeast(1690.0));
    figures.told("from push to the last stream, median, ms", percentile(50));
    figures.worst("from push to the last stream, p99, ms", percentile(99), Bounds::AtMost(1000.0));
    figures.told("longest, ms", percentile(100));
    figures.worst(
        "changes lost",
        count(usize::try_from(changes).unwrap_or(0)) - count(delays.len()),
        Bounds::AtMost(0.0),
    );
    figures.worst("versions missing or twice", count(gaps), Bounds::AtMost(0.0));
    figures.worst("wrong limits in the end", count(wrong), Bounds::AtMost(0.0));
}
