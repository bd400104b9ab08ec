//! Target 7: quotas. How soon slices follow a demand that moves, that they never sum to more than the limit, what a
//! caller gets who moves faster than they can follow, and what happens when the reconciler dies.

use crate::Setting;
use crate::figures::{Bounds, Figures, count, note, ratio};
use crate::generator::{Generator, Width};
use crate::plan::{Limit, Nodes, Plan, Stream};
use crate::samples::{Kind, Samples};
use crate::scene::{Policy, REGIONS, Scene, nodes_of};
use crate::slices::{largest_sum, looks_with_slices};
use crate::time::Stopwatch;
use crate::watch::{WatchLog, watching};
use std::time::Duration;

const BAR: u8 = 7;
const RATE: u32 = 200;
const BURST: u32 = 50;
const SECOND: Duration = Duration::from_secs(1);
const STEP: Duration = Duration::from_millis(250);

/// Of the limit, in each region, before and after.
const BEFORE: [f64; REGIONS] = [0.4, 0.3, 0.3];
const AFTER: [f64; REGIONS] = [0.1, 0.1, 0.8];
const SHIFTED_AT: Duration = Duration::from_secs(15);
const SHIFTED_FOR: Duration = Duration::from_secs(20);
/// Each a key of its own.
const SHIFTS: [&str; 4] = ["paid", "paid", "paid", "abuse"];

/// Twice the limit, in one region after the other.
const PLAYED: f64 = 2.0;
const PLAYED_EACH: Duration = Duration::from_secs(3);
const PLAYED_TURNS: u32 = 12;
const PLAYS: [&str; 2] = ["paid", "abuse"];
const ANY: Duration = Duration::from_secs(10);

const KILLED_AT: Duration = Duration::from_secs(8);
const TAKEN_OVER_WITHIN: f64 = 5.0;
const KILLED_FOR: Duration = Duration::from_secs(20);

pub(crate) fn measure(setting: &Setting) -> Result<(), String> {
    note(
        BAR,
        "200 a second with a burst of 50, two nodes in each region; the sum of slices is what regions may go by at \
         the most, from the database ten times a second. An allowance is rate × time + burst",
    );
    let scene = Scene::start(setting, Policy::Headroom)?;
    let mut generator = scene.generator(Width::APART)?;
    shift(&scene, &mut generator)?;
    play(&scene, &mut generator)?;
    kill(&scene)
}

/// Sends the plan, and looks at the database meanwhile.
fn run(scene: &Scene, generator: &mut Generator, plan: &Plan) -> Result<(Samples, WatchLog), String> {
    let stopwatch = Stopwatch::start();
    watching(scene, stopwatch, || generator.run(plan, stopwatch).map_err(|error| error.to_string()))
}

fn stream<'a>(
    kind: Kind,
    at: (Duration, Duration),
    per_second: f64,
    to: &'a [usize],
    limits: &'a [Limit],
) -> Stream<'a> {
    let (from, length) = at;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some thousands")]
    let count = (per_second * length.as_secs_f64()) as usize;
    Stream { kind, from, count, per_second, nodes: Nodes::InTurn(to), limits }
}

fn shift(scene: &Scene, generator: &mut Generator) -> Result<(), String> {
    let mut plan = Plan::default();
    let limits: Vec<Limit> = SHIFTS
        .iter()
        .zip(0..)
        .map(|(class, run)| Limit::rate(format!("shift-{run}"), RATE, BURST).class(class))
        .collect();
    for (limit, run) in limits.iter().zip(0..) {
        for region in 0..REGIONS {
            let nodes = nodes_of(region);
            let mut add = |at, share: f64| {
                let per_second = share * f64::from(RATE);
                plan.add(&stream(kind(run, region), at, per_second, &nodes, std::slice::from_ref(limit)));
            };
            add((Duration::ZERO, SHIFTED_AT), BEFORE[region]);
            add((SHIFTED_AT, SHIFTED_FOR), AFTER[region]);
        }
    }
    let (samples, seen) = run(scene, generator, &plan)?;
    for ((limit, class), run) in limits.iter().zip(SHIFTS).zip(0..) {
        let figures = Figures::of(BAR, format!("40/30/30 shifts to 10/10/80, {class}"));
        let third = samples.of_kind(kind(run, REGIONS - 1));
        figures.worst("converged after, s", converged(&third), Bounds::AtMost(10.0));
        report_slices(&figures, &seen, limit, samples.errors());
        let all = samples.only(|sample| (kind(run, 0)..=kind(run, REGIONS - 1)).contains(&sample.kind));
        figures.worst("most of any 10 s ÷ allowance", most_of_any(&all), Bounds::AtMost(1.10));
        figures.told("admitted ÷ offered before", ratio_in(&all, Duration::ZERO, SHIFTED_AT));
        figures.told("admitted ÷ offered after", ratio_in(&all, SHIFTED_AT, SHIFTED_AT + SHIFTED_FOR));
    }
    Ok(())
}

fn kind(run: Kind, region: usize) -> Kind {
    Kind::try_from(REGIONS).unwrap_or(1) * run + Kind::try_from(region).unwrap_or(0)
}

/// From the shift until the first second from which on every second admits nine tenths of the fair part.
fn converged(samples: &Samples) -> f64 {
    let fair = AFTER[REGIONS - 1] * f64::from(RATE);
    let starts = (0..).map(|step| SHIFTED_AT + STEP * step);
    let late = starts
        .take_while(|from| *from + SECOND <= SHIFTED_AT + SHIFTED_FOR)
        .filter(|from| ratio(samples.between(*from, *from + SECOND).admitted(), fair) < 0.9)
        .last();
    late.map_or(0.0, |from| (from + STEP - SHIFTED_AT).as_secs_f64())
}

fn ratio_in(samples: &Samples, from: Duration, to: Duration) -> f64 {
    let offered = samples.between(from, to);
    ratio(offered.admitted(), count(offered.len()))
}

/// What is ever admitted in ten seconds, as part of what the limit allows in them.
fn most_of_any(samples: &Samples) -> f64 {
    let mut admitted: Vec<Duration> =
        samples.0.iter().filter(|sample| sample.is_admitted()).map(|sample| sample.answered_at()).collect();
    admitted.sort_unstable();
    let allowance = f64::from(RATE) * ANY.as_secs_f64() + f64::from(BURST);
    let within =
        |(index, from): (usize, &Duration)| admitted[index..].partition_point(|at| *at <= *from + ANY);
    ratio(admitted.iter().enumerate().map(within).max().unwrap_or(0), allowance)
}

fn report_slices(figures: &Figures, seen: &WatchLog, limit: &Limit, errors: usize) {
    let key = limit.key().get();
    figures.worst(
        "largest sum of slices ÷ limit",
        largest_sum(seen, key, u64::from(BURST)),
        Bounds::AtMost(1.0),
    );
    figures.told("looks that saw slices", count(looks_with_slices(seen, key)));
    figures.worst("errors", count(errors), Bounds::AtMost(0.0));
}

fn play(scene: &Scene, generator: &mut Generator) -> Result<(), String> {
    let mut plan = Plan::default();
    let limits: Vec<Limit> =
        PLAYS.iter().map(|class| Limit::rate(format!("play-{class}"), RATE, BURST).class(class)).collect();
    for (limit, run) in limits.iter().zip(0..) {
        for turn in 0..PLAYED_TURNS {
            let nodes = nodes_of(usize::try_from(turn).unwrap_or(0) % REGIONS);
            let at = (PLAYED_EACH * turn, PLAYED_EACH);
            plan.add(&stream(run, at, PLAYED * f64::from(RATE), &nodes, std::slice::from_ref(limit)));
        }
    }
    let (samples, seen) = run(scene, generator, &plan)?;
    for ((limit, class), run) in limits.iter().zip(PLAYS).zip(0..) {
        let figures = Figures::of(BAR, format!("a caller plays three regions against each other, {class}"));
        let own = samples.of_kind(run);
        figures.worst("most of any 10 s ÷ allowance", most_of_any(&own), Bounds::AtMost(1.10));
        let allowance = f64::from(RATE) * (PLAYED_EACH * PLAYED_TURNS).as_secs_f64();
        figures.told("admitted ÷ rate", ratio(own.admitted(), allowance));
        report_slices(&figures, &seen, limit, own.errors());
    }
    Ok(())
}

/// The node that leads the reconciler dies. Its region goes on with the other one.
fn kill(scene: &Scene) -> Result<(), String> {
    let leader = scene.leader()?;
    let mut plan = Plan::default();
    let limits = [Limit::rate("orphaned", RATE, BURST)];
    for (region, share) in BEFORE.iter().enumerate() {
        let nodes: Vec<usize> = nodes_of(region).into_iter().filter(|node| *node != leader).collect();
        // A little more than the limit: what is above it would show.
        let per_second = 1.2 * share * f64::from(RATE);
        plan.add(&stream(0, (Duration::ZERO, KILLED_AT + KILLED_FOR), per_second, &nodes, &limits));
    }
    let mut generator = scene.generator(Width::APART)?;
    let stopwatch = Stopwatch::start();
    let ((samples, killed), seen) = watching(scene, stopwatch, || {
        std::thread::scope(|scope| {
            let sending = scope.spawn(|| generator.run(&plan, stopwatch));
            stopwatch.wait_until(KILLED_AT);
            let killed = stopwatch.elapsed();
            scene.nodes().nth(leader).ok_or("there is no such node")?.process.kill();
            let samples = sending.join().map_err(|_| "the generator panicked")?;
            Ok((samples.map_err(|error| error.to_string())?, killed))
        })
    })?;
    let figures = Figures::of(BAR, "the reconciler killed");
    let taken_over = seen.next_term_after(killed).map_or(f64::INFINITY, |at| (at - killed).as_secs_f64());
    figures.worst("a new term after, s", taken_over, Bounds::AtMost(TAKEN_OVER_WITHIN));
    report_slices(&figures, &seen, &limits[0], samples.errors());
    figures.worst("most of any 10 s ÷ allowance", most_of_any(&samples), Bounds::AtMost(1.0));
    Ok(())
}
