//! The decision log of a running node: started before the first request, and ended after the last.
//!
//! A log that can't be written is a warning, never a reason not to start.

use crate::settings::Settings;
use std::sync::Arc;
use std::thread;
use tidegate_decisions::LogOptions;
use tidegate_node::journal::Journal;
use tidegate_node::journal::health::Health;
use tidegate_node::journal::writer::{JournalWriter, Watch};
use tidegate_server::App;

const BYTES_PER_MB: u64 = 1 << 20;

#[derive(Debug)]
pub(crate) struct DecisionLog(Option<JournalWriter>);

impl DecisionLog {
    pub(crate) fn start(settings: &Settings, app: &Arc<App>) -> Self {
        let Some(directory) = settings.decisions_directory() else { return DecisionLog(None) };
        // The threads of callers, and the one of operators.
        let threads = thread::available_parallelism().map_or(1, usize::from) + 1;
        let journal = Journal::new(threads, directory.clone());
        if let Some(region) = app.sharing.clone() {
            journal.name_shards_by(Box::new(move |key| {
                let origin = region.origin();
                origin.shard_name(origin.shard_of(key))
            }));
        }
        let options = LogOptions {
            directory,
            cap_bytes: settings.log_decisions_max_mb * BYTES_PER_MB,
            region: settings.region.clone(),
            node: settings.node.clone(),
        };
        let writer = JournalWriter::start(journal.clone(), options, watch(app, &journal));
        match writer {
            Ok(writer) => {
                app.engine.keep_journal(journal);
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

/// What happened to the node since it was last looked at.
fn watch(app: &Arc<App>, journal: &Journal) -> Watch {
    let app = app.clone();
    let (mut health, started) = Health::new(&app.engine, app.clock.now().now);
    journal.event(started);
    Box::new(move || {
        let now = app.clock.now().now;
        let world = app.world.as_ref().map(|world| world.state());
        (now, health.look(&app.engine, app.sharing.as_deref(), world.as_ref(), now))
    })
}
