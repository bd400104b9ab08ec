//! One run: everything is started, loaded, broken and mended in turns, watched, and judged.
//!
//! Time goes in slots of ten seconds, six to a cycle. In five of them something goes wrong for a few seconds, each in a
//! cell of its own, and keys that were idle meanwhile are judged; a pause of 25 s takes three slots. In the sixth slot
//! everything is well, and all have to agree.

use crate::agreement;
use crate::bag::Bag;
use crate::books::Books;
use crate::episode::History;
use crate::idle::{self, IdleKeys};
use crate::memory;
use crate::recovering::{self, Holding, Shortfalls};
use crate::scene::Scene;
use crate::sender::Sender;
use crate::stores::{self, Reader, Run};
use crate::subject::{self, WINDOW_LIMITS};
use crate::summary::{self, Findings};
use crate::time::{Stopwatch, left_of_cell, wall_clock};
use crate::trouble::{Kind, Trouble};
use crate::{SoakOptions, bounds, bucket, denials, progress};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const SLOT: Duration = Duration::from_secs(10);
const TROUBLES: u32 = 5;
const SLOTS_PER_CYCLE: u32 = 6;
/// Before anything goes wrong.
const WARM_UP: Duration = Duration::from_secs(10);
/// Answers that are still on their way when a cycle is judged.
const JUDGED_AFTER: Duration = Duration::from_secs(1);
/// A slot whose trouble would begin later than this has none: the one before lasted too long.
const LATE_MAX: Duration = Duration::from_secs(3);

/// Whether everything held.
pub(crate) fn run(order: &SoakOptions) -> Result<bool, String> {
    let again = format!("cargo xtask soak --minutes {} --seed {}", order.minutes, order.seed);
    println!("soak of {} minutes, seed {}; the same again: {again}", order.minutes, order.seed);
    let scene = Scene::start()?;
    let cycles = usize::try_from(order.minutes).unwrap_or(1);
    let subjects = subject::all(cycles);
    let (books, findings) = (Books::new(subjects.len()), Findings::default());
    let history = History::new(WINDOW_LIMITS[0]);
    let shortfalls = Shortfalls::default();
    let (began, stopwatch) = (wall_clock(), Stopwatch::start());
    let run = Run {
        scene: &scene,
        subjects: &subjects,
        books: &books,
        history: &history,
        findings: &findings,
        shortfalls: &shortfalls,
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
fn trouble(run: &Run<'_>, order: &SoakOptions, first: Duration) -> Result<(), String> {
    let mut bag = Bag::new(order.seed);
    let mut number = 0;
    for cycle in 0..u32::try_from(order.minutes).unwrap_or(1) {
        let begins = first + SLOT * SLOTS_PER_CYCLE * cycle;
        let cycle_number = usize::try_from(cycle).unwrap_or(0);
        run.stopwatch.wait_until(begins);
        run.books.begin_ledgers(cycle_number);
        let mut mended = begins;
        for slot in 0..TROUBLES {
            let slot_begins = begins + SLOT * slot;
            if run.stopwatch.elapsed() > slot_begins + LATE_MAX {
                continue;
            }
            run.stopwatch.wait_until(slot_begins + bag.delay());
            let trouble = bag.draw(slot, slot + 1 == TROUBLES);
            let limit = if trouble.kind == Kind::RulesPushed { bag.limit() } else { 0 };
            mended = one(run, trouble, limit, number)?;
            number += 1;
        }
        run.books.rest_ledgers();
        agreement::check(run, cycle_number, mended)?;
        let ends = begins + SLOT * SLOTS_PER_CYCLE;
        run.stopwatch.wait_until(ends + JUDGED_AFTER);
        let from = if cycle == 0 { Duration::ZERO } else { begins };
        bounds::check(run, from, ends);
        denials::check(run, from, ends);
        bucket::check(run, from, ends);
    }
    Ok(())
}

/// Makes one trouble, mends it, and judges the keys that were idle meanwhile. Returns when all of that was over.
fn one(run: &Run<'_>, trouble: Trouble, limit: u64, number: usize) -> Result<Duration, String> {
    let region = trouble.region;
    let mut reader = Reader::new()?;
    let backup = trouble.back_up(run.scene)?;
    let mut keys = IdleKeys::spend(run, trouble, number);
    keys.before_trouble()?;
    let began = run.stopwatch.elapsed();
    run.history.began(trouble, began);
    if trouble.kind == Kind::RulesPushed {
        run.history.pushed(limit, began);
    }
    let loses_data = trouble.kind.loses_data();
    let mut held = Holding::new();
    if loses_data {
        held = recovering::read(run, region, &mut reader);
    }
    trouble.make(run.scene, limit)?;
    if trouble.kind == Kind::KeysEvicted {
        idle::evict(run, region, &keys.stems())?;
        // The callers' keys stay.
        held.clear();
    }
    run.history.made(run.stopwatch.elapsed());
    keys.while_wrong()?;
    if !trouble.is_instant() {
        run.stopwatch.wait_until(began + trouble.length);
    }
    let mut lost_at = began;
    if trouble.kind == Kind::ReplicaPromoted {
        held = recovering::read(run, region, &mut reader);
        lost_at = run.stopwatch.elapsed();
    }
    run.history.mending(run.stopwatch.elapsed());
    trouble.mend(run.scene, &backup)?;
    run.history.mended(run.stopwatch.elapsed());
    keys.after_loss();
    if loses_data {
        run.shortfalls.measure(run, region, held, lost_at)?;
    }
    keys.judge()?;
    Ok(run.stopwatch.elapsed())
}
