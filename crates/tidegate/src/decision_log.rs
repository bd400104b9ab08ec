//! The decision log of a running node, and whoever is told the same: started before the first request, and ended after
//! the last.
//!
//! A log that can't be written is a warning, never a reason not to start.

use crate::settings::Settings;
use crate::supervisor::Supervisor;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use tidegate_decisions::{LogOptions, PartTags, Writer};
use tidegate_node::journal::health::HealthMonitor;
use tidegate_node::journal::lines::Lines;
use tidegate_node::journal::writer::{JournalWriter, Shipper, Watch};
use tidegate_node::journal::{CallerNames, Journal};
use tidegate_server::App;
use tidegate_server::otlp::LogQueue;

const BYTES_PER_MB: u64 = 1 << 20;

#[derive(Debug)]
pub(crate) struct DecisionLog(Option<JournalWriter>);

impl DecisionLog {
    /// `queue`: what goes to a collector.
    pub(crate) fn start(
        settings: &Settings,
        app: &Arc<App>,
        queue: Option<&Arc<LogQueue>>,
        supervisor: &Supervisor,
    ) -> Self {
        let directory = settings.decisions_directory();
        if directory.is_none() && settings.log_decisions_json.is_none() && queue.is_none() {
            return DecisionLog(None);
        }
        // The threads of callers, and the one of operators.
        let threads = thread::available_parallelism().map_or(1, usize::from) + 1;
        let journal = Journal::new(threads, directory.clone());
        if let Some(region) = app.sharing.clone() {
            journal.name_shards_by(Box::new(move |key| {
                let origin = region.origin();
                origin.shard_name(origin.shard_of(key))
            }));
        }
        journal.write_callers(CallerNames {
            tags: PartTags::new(app.engine.secret()),
            are_plain: settings.identifiers_are_plain,
        });
        let shippers = shippers(settings, &journal, queue, supervisor);
        let writer = JournalWriter::start(
            journal.clone(),
            options(settings, directory.unwrap_or_default()),
            watch(app, &journal, supervisor),
            shippers,
        );
        match writer {
            Ok(writer) => {
                app.engine.set_journal(journal);
                DecisionLog(Some(writer))
            }
            Err(error) => {
                tracing::warn!(%error, "decisions aren't logged: their thread can't be started");
                DecisionLog(None)
            }
        }
    }

    /// Waits for the last write, two seconds at most.
    pub(crate) fn stop(self) {
        if let Some(writer) = self.0 {
            writer.stop();
        }
    }
}

fn options(settings: &Settings, directory: PathBuf) -> LogOptions {
    LogOptions {
        directory,
        cap_bytes: settings.log_decisions_max_mb * BYTES_PER_MB,
        region: settings.region.clone(),
        node: settings.node.clone(),
    }
}

/// Who is told what is logged.
fn shippers(
    settings: &Settings,
    journal: &Arc<Journal>,
    queue: Option<&Arc<LogQueue>>,
    supervisor: &Supervisor,
) -> Vec<Box<dyn Shipper>> {
    let mut shippers: Vec<Box<dyn Shipper>> = Vec::new();
    if let Some(to) = settings.log_decisions_json.clone() {
        let writer = Writer { region: settings.region.clone(), node: settings.node.clone() };
        let watched = supervisor.watch_for_panics("the writing of decisions as lines");
        match Lines::start(to, writer, journal, Box::new(watched)) {
            Ok(lines) => shippers.push(Box::new(lines)),
            Err(error) => {
                tracing::warn!(%error, "decisions aren't written as lines: there is no thread for it");
            }
        }
    }
    if let Some(queue) = queue {
        shippers.push(Box::new(queue.records()));
    }
    shippers
}

/// What happened to the node since it was last looked at.
fn watch(app: &Arc<App>, journal: &Journal, supervisor: &Supervisor) -> Watch {
    let app = app.clone();
    // The log's thread drops what it is told by when it ends.
    let watched = supervisor.watch_for_panics("the writing of the decision log");
    let (mut health, started) = HealthMonitor::new(&app.engine, app.clock.now().now);
    journal.event(started);
    Box::new(move || {
        let _ = &watched;
        let now = app.clock.now().now;
        let world = app.world.as_ref().map(|world| world.state());
        (now, health.poll(&app.engine, app.sharing.as_deref(), world.as_ref(), now))
    })
}
