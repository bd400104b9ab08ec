//! How a run goes, while it goes: one line that is drawn again on a terminal, and a line every ten seconds elsewhere.

use crate::figures::{count, ratio};
use crate::samples::{Sample, Samples};
use crate::stores::Run;
use crate::time::pause;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const DRAW_EVERY: Duration = Duration::from_millis(500);
const SAY_EVERY: Duration = Duration::from_secs(10);
/// What the line's figures are of.
const OF_LAST: Duration = Duration::from_secs(10);
const CLEAR_LINE: &str = "\r\u{1b}[K";

/// Shows until the run is over.
pub(crate) fn show(run: &Run<'_>, length: Duration, is_over: &AtomicBool) {
    let is_terminal = io::stdout().is_terminal();
    let every = if is_terminal { DRAW_EVERY } else { SAY_EVERY };
    let mut shown_at = Duration::ZERO;
    while !is_over.load(Ordering::Relaxed) {
        let now = run.stopwatch.elapsed();
        if now >= shown_at + every {
            shown_at = now;
            let line = line(run, now, length);
            let mut out = io::stdout();
            // There is nobody to tell that it can't be shown.
            let _ = if is_terminal { write!(out, "{CLEAR_LINE}{line}") } else { writeln!(out, "{line}") };
            let _ = out.flush();
        }
        pause(DRAW_EVERY / 2);
    }
    if is_terminal {
        println!();
    }
}

fn line(run: &Run<'_>, now: Duration, length: Duration) -> String {
    let recent = samples(run, now.saturating_sub(OF_LAST));
    let per_second = ratio(recent.len(), OF_LAST.min(now).as_secs_f64().max(1.0));
    let admitted = recent.admitted();
    let denied = recent.len() - admitted - recent.errors();
    let trouble = run.history.lately(now);
    let errors = run.books.tally.errors.load(Ordering::Relaxed);
    format!(
        "{} of {} | {trouble} | {per_second:.0}/s: {:.0} % admitted, {:.0} % denied | p99 {:.1} ms | {errors} errors | {} \
         violations",
        clock(now),
        clock(length),
        100.0 * ratio(admitted, count(recent.len()).max(1.0)),
        100.0 * ratio(denied, count(recent.len()).max(1.0)),
        recent.latency_ms(990),
        run.findings.violations(),
    )
}

fn clock(length: Duration) -> String {
    format!("{}:{:02}", length.as_secs() / 60, length.as_secs() % 60)
}

/// Everything that was sent since then to nodes that could answer, and has an answer.
pub(crate) fn samples(run: &Run<'_>, from: Duration) -> Samples {
    let answered = run.books.since(from).into_iter().filter_map(|attempt| {
        let answered = attempt.answered?;
        let is_excused = run.history.was_silent(usize::from(attempt.node), attempt.at, answered);
        (!is_excused).then_some(Sample {
            kind: u16::from(attempt.node),
            at: attempt.at,
            latency: answered.saturating_sub(attempt.at),
            verdict: attempt.verdict,
            unverified: attempt.unverified,
            remaining: 0,
        })
    });
    Samples(answered.collect())
}
