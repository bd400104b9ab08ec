//! One run: everything is started, loaded, broken and mended in turns, watched, and judged.
//!
//! Time goes in slots of ten seconds, six to a cycle. In five of them something goes wrong for a few seconds, each in a
//! cell of its own; in the sixth everything is well, and all have to agree.

use crate::agreement;
use crate::books::Books;
use crate::episode::History;
use crate::memory;
use crate::scene::Scene;
use crate::sender::Sender;
use crate::stores::{self, Run};
use crate::subject::{self, WINDOW_LIMITS};
use crate::summary::{self, Findings};
use crate::time::{Stopwatch, left_of_cell, wall_clock};
use crate::trouble::{Bag, Kind};
use crate::{Order, bounds, bucket, denials, progress};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const SLOT: Duration = Duration::from_secs(10);
const TROUBLES: u32 = 5;
const SLOTS_PER_CYCLE: u32 = 6;
/// Before anything goes wrong.
const WARM_UP: Duration = Duration::from_secs(10);
/// Answers that are still on their way when a cycle is judged.
const JUDGED_AFTER: Duration = Duration::from_secs(1);

/// Whether everything held.
pub(crate) fn run(order: &Order) -> Result<bool, String> {
    let again = format!("cargo xtask soak --minutes {} --seed {}", order.minutes, order.seed);
    println!("soak of {} minutes, seed {}; the same again: {again}", order.minutes, order.seed);
    let scene = Scene::start()?;
    let cycles = usize::try_from(order.minutes).unwrap_or(1);
    let subjects = subject::all(cycles);
    let (books, findings) = (Books::new(subjects.len()), Findings::default());
    let history = History::new(WINDOW_LIMITS[0]);
    let (began, stopwatch) = (wall_clock(), Stopwatch::start());
    let run = Run {
        scene: &scene,
        subjects: &subjects,
        books: &books,
        history: &history,
        findings: &findings,
        stopwatch,
        began,
    };
    let sender = Sender::new(&subjects, &books, scene.addresses(), stopwatch, order.seed)
        .map_err(|error| format!("can't send: {error}"))?;
    // Slots are cells.
    let first = WARM_UP + left_of_cell(SLOT);
    let is_over = AtomicBool::new(false);
    let outcome = std::thread::scope(|scope| {
        let sending = scope.spawn(|| sender.run(&is_over));
        let watching = scope.spawn(|| stores::watch(&run, &is_over));
        let weighing = scope.spawn(|| memory::watch(&run, &is_over));
        scope.spawn(|| progress::show(&run, first + order.length(), &is_over));
        let troubled = trouble(&run, order, first);
        is_over.store(true, Ordering::Relaxed);
        sending.join().map_err(|_| "the sender panicked")?.map_err(|error| format!("can't send: {error}"))?;
        watching.join().map_err(|_| "the watch on the stores panicked")??;
        let memory = weighing.join().map_err(|_| "the watch on memory panicked")?;
        troubled.map(|()| memory)
    });
    let memory = outcome.map_err(|problem| format!("{problem}\n{}", scene.logs()))?;
    let (text, holds) = summary::report(&run, order, &memory);
    println!("\n{text}");
    if !holds {
        println!("the same again: {again}\n{}", scene.logs());
    }
    if let Some(path) = &order.document {
        std::fs::write(path, text).map_err(|error| format!("can't write {path}: {error}"))?;
    }
    Ok(holds)
}

/// Makes trouble and mends it, cycle by cycle.
fn trouble(run: &Run<'_>, order: &Order, first: Duration) -> Result<(), String> {
    let mut bag = Bag::new(order.seed);
    for cycle in 0..u32::try_from(order.minutes).unwrap_or(1) {
        let begins = first + SLOT * SLOTS_PER_CYCLE * cycle;
        let number = usize::try_from(cycle).unwrap_or(0);
        run.stopwatch.wait_until(begins);
        run.books.begin_ledgers(number);
        let mut mended = begins;
        for slot in 0..TROUBLES {
            run.stopwatch.wait_until(begins + SLOT * slot + bag.delay());
            mended = one(run, &mut bag)?;
        }
        run.books.rest_ledgers();
        agreement::check(run, number, mended)?;
        let ends = begins + SLOT * SLOTS_PER_CYCLE;
        run.stopwatch.wait_until(ends + JUDGED_AFTER);
        let from = if cycle == 0 { Duration::ZERO } else { begins };
        bounds::check(run, from, ends);
        denials::check(run, from, ends);
        bucket::check(run, from, ends);
    }
    Ok(())
}

/// Returns when it was mended.
fn one(run: &Run<'_>, bag: &mut Bag) -> Result<Duration, String> {
    let trouble = bag.draw();
    let limit = if trouble.kind == Kind::RulesPushed { bag.limit() } else { 0 };
    let began = run.stopwatch.elapsed();
    run.history.began(trouble, began);
    if trouble.kind == Kind::RulesPushed {
        run.history.pushed(limit, began);
    }
    trouble.make(run.scene, limit)?;
    run.history.made(run.stopwatch.elapsed());
    if !trouble.is_instant() {
        run.stopwatch.wait_until(began + trouble.length);
    }
    trouble.mend(run.scene)?;
    let mended = run.stopwatch.elapsed();
    run.history.mended(mended);
    Ok(mended)
}
