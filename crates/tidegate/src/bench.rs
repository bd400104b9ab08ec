//! `tidegate bench`: a load generator, for a running node and for whoever speaks the same protocols.
//!
//! Shares the machine with what it measures, so it must cost little: a plain loop over sockets on each thread,
//! and requests that are made once. Sends only to where the user says, and never more than was asked for.

mod answer;
mod connection;
mod histogram;
mod http;
mod http2;
mod in_flight;
mod keys;
mod picture;
mod plan;
mod progress;
mod report;
mod request;
mod resp;
mod tally;
mod target;
mod template;
mod time;
mod worker;

pub(crate) use picture::escaped;
pub(crate) use plan::{Plan, PlanError, command};
pub(crate) use time::Stopwatch;

use crate::signals::{Signalled, Signals};
use crate::{open_files, output};
use plan::{Form, Load};
use progress::Progress;
use report::Report;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tally::Tally;
use time::nanos;
use tokio::runtime::Builder;
use tokio::sync::mpsc;
use worker::{Live, Part, Worker};

/// Beyond what a thread may take for its last answers.
const SLACK: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchError {
    #[error("{target}: can't connect: {source}; is it running there?")]
    Connect { target: String, source: io::Error },
    #[error("can't start: {0}; check the limits of this process (`ulimit -a`)")]
    Start(io::Error),
    #[error("can't write {}: {source}; choose another file for --svg", .path.display())]
    Picture { path: PathBuf, source: io::Error },
    #[error("a thread of the load didn't end; nothing can be said about this run")]
    Stuck,
}

pub(crate) fn run(plan: &Plan) -> Result<ExitCode, BenchError> {
    open_files::raise_limit();
    let runtime = Builder::new_current_thread().enable_all().build().map_err(BenchError::Start)?;
    // Before the first request, so that no signal meets the default action.
    let signals = {
        let _context = runtime.enter();
        Signals::register().map_err(BenchError::Start)?
    };
    let clock = Stopwatch::start();
    let workers = connect(plan, clock)?;
    let lives: Vec<Arc<Live>> = workers.iter().map(|(_, live)| Arc::clone(live)).collect();
    let begun = clock.nanos();
    let (tally, stopped_at) = std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::unbounded_channel();
        for (worker, _) in workers {
            let sender = sender.clone();
            // Nobody listens any more only when this process ends.
            scope.spawn(move || drop(sender.send(worker.run())));
        }
        drop(sender);
        runtime.block_on(watch(plan, clock, &lives, signals, receiver))
    });
    let planned = nanos(plan.warm_up + plan.duration);
    let ran = stopped_at.map_or(planned, |at| at.saturating_sub(begun).min(planned));
    let measured = Duration::from_nanos(ran).saturating_sub(plan.warm_up);
    let report = Report { plan, tally: &tally, measured, is_cut_short: ran < planned };
    print(&report)?;
    Ok(if tally.errors.all() == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// All connections, before the first request.
fn connect(plan: &Plan, clock: Stopwatch) -> Result<Vec<(Worker<'_>, Arc<Live>)>, BenchError> {
    let mut workers = Vec::with_capacity(plan.threads);
    for index in 0..plan.threads {
        let connections =
            plan.connections / plan.threads + usize::from(index < plan.connections % plan.threads);
        let share = connections as f64 / plan.connections as f64;
        let part = Part { index, connections, rate: plan.rate * share };
        let live = Arc::new(Live::default());
        let worker = Worker::start(plan, part, Arc::clone(&live), clock)
            .map_err(|source| BenchError::Connect { target: plan.target.text.clone(), source })?;
        workers.push((worker, live));
    }
    Ok(workers)
}

/// Shows how it goes until all threads have ended; when Ctrl-C stopped them, says when.
async fn watch(
    plan: &Plan,
    clock: Stopwatch,
    lives: &[Arc<Live>],
    mut signals: Signals,
    mut ended: mpsc::UnboundedReceiver<Tally>,
) -> (Tally, Option<u64>) {
    let mut progress = Progress::new(plan, clock);
    let mut ticks = tokio::time::interval(progress.every());
    let longest = plan.warm_up + plan.duration + plan.timeout + SLACK;
    let deadline = tokio::time::sleep(longest);
    tokio::pin!(deadline);
    let (mut tally, mut stopped_at) = (Tally::default(), None);
    loop {
        tokio::select! {
            more = ended.recv() => match more {
                Some(more) => tally.add(&more),
                None => break,
            },
            signalled = signals.next() => match signalled {
                Signalled::Stop(_) => stop(lives, &mut stopped_at, clock),
                Signalled::Reload => {}
            },
            _ = ticks.tick() => progress.show(lives),
            () = &mut deadline => {
                progress.clear();
                output::complain(&BenchError::Stuck.to_string());
                // Threads that hang in a connect can't be waited for.
                std::process::exit(2);
            }
        }
    }
    progress.clear();
    (tally, stopped_at)
}

/// A second time ends the process at once.
fn stop(lives: &[Arc<Live>], stopped_at: &mut Option<u64>, clock: Stopwatch) {
    if stopped_at.is_some() {
        std::process::exit(130);
    }
    *stopped_at = Some(clock.nanos());
    for live in lives {
        live.stop.store(true, Ordering::Relaxed);
    }
}

fn print(report: &Report<'_>) -> Result<(), BenchError> {
    match report.plan.form {
        Form::Text => output::print(&report.table()),
        Form::Json => output::print(&report.json()),
    }
    let Some(path) = &report.plan.picture else { return Ok(()) };
    let rate = report.requests_per_second();
    let from = if report.plan.load == Load::Open { ", from when each request was due" } else { "" };
    let title = format!("Latency of {}: {rate:.0} requests/s", report.plan.target.text);
    let subtitle = format!("{}{from}", report.plan.in_words());
    let text = picture::svg(&title, &subtitle, &report.tally.latencies);
    std::fs::write(path, text).map_err(|source| BenchError::Picture { path: path.clone(), source })
}
