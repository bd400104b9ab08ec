//! What a node that is alone keeps over a restart: restored before it listens, saved while it runs and when it
//! ends.
//!
//! A node that shares its counts keeps none: its region knows them. Nothing here fails a start or holds up an
//! answer, and a disk that hangs holds up the end for a bounded time.

use crate::settings::Settings;
use crate::supervisor::Supervisor;
use std::sync::Arc;
use std::time::Duration;
use tidegate_node::snapshot::{Extent, Snapshots, save_aside, save_regularly};
use tidegate_server::App;

/// How long the end waits for the last save. Millions of counts take a second.
const LAST_SAVE_MAX: Duration = Duration::from_secs(10);

/// Counts that a node saves when it stops and restores when it starts.
#[derive(Debug)]
pub(crate) struct SavedCounts {
    snapshots: Option<Arc<Snapshots>>,
    save_every: Duration,
}

impl SavedCounts {
    /// Before the first request, so that none is decided without what was kept.
    pub(crate) fn restore(settings: &Settings, app: &App) -> Self {
        let snapshots = app.engine.lone_table().is_some().then(|| {
            let directory = settings.data_directory.clone();
            Arc::new(Snapshots::new(app.engine.clone(), app.clock.clone(), directory))
        });
        if let Some(snapshots) = &snapshots {
            snapshots.restore();
        }
        SavedCounts { snapshots, save_every: settings.save_every }
    }

    /// Within a runtime.
    pub(crate) fn spawn_saving(&self, supervisor: &Supervisor) {
        if let Some(snapshots) = self.snapshots.clone() {
            supervisor.spawn("the saving of counts", save_regularly(snapshots, self.save_every));
        }
    }

    /// When everybody was answered.
    pub(crate) async fn save_last(&self) {
        let Some(snapshots) = &self.snapshots else { return };
        if tokio::time::timeout(LAST_SAVE_MAX, save_aside(snapshots, Extent::Live)).await.is_err() {
            tracing::warn!(
                path = %snapshots.path().display(),
                fix = "check the disk",
                "the counts couldn't be saved in time; the last regular save stays"
            );
        }
    }
}
