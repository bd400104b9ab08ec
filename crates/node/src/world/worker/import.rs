//! From the world store to the origin: what changed, as far as it can be believed.

use super::{IMPORT_EVERY, RESETS_MAX, RETRY_AFTER, Worker};
use crate::world::WorldCounters;
use crate::world::cells::Taken;
use tidegate_core::{CellId, Nanos};
use tidegate_origin::Reset;
use tidegate_world::{Component, Imported, OwnerId, WorldError};

impl Worker {
    pub(super) fn imported(
        &mut self,
        imported: Result<Imported, WorldError>,
        now: Nanos,
        counters: &WorldCounters,
    ) {
        self.heard_from_store(imported.is_ok(), now);
        let (imported, me) = match (imported, self.standing.me()) {
            (Ok(imported), Some(me)) => (imported, me),
            (Ok(_), None) => {
                self.import_at = now;
                return;
            }
            (Err(error), _) => {
                counters.import_errors.add(1);
                self.standing.failed("importing", &error);
                self.import_at = self.import_at.min(now.plus(RETRY_AFTER));
                return;
            }
        };
        let Imported { components, next, has_more } = imported;
        counters.rows_imported.add(u64::try_from(components.len()).unwrap_or(u64::MAX));
        for component in &components {
            self.take(me, component, now, counters);
        }
        counters.cells_dropped.add(self.cells.shrink());
        self.standing.imported(now, components.len(), has_more);
        (self.cursor, self.has_more) = (next, has_more);
        // The next publish is followed by an import, which saves this one.
        let quiet = self.publishing.quiet_for(now);
        let next = if has_more { now } else { now.plus(quiet).plus(IMPORT_EVERY) };
        self.import_at = self.import_at.min(next);
    }

    /// A cell of a later epoch: its key was reset in another region.
    fn note_reset(&mut self, component: &Component) {
        let CellId { key, epoch, .. } = component.cell;
        if epoch > 0 && self.resets.len() < RESETS_MAX {
            self.resets.push(Reset { key, epoch });
        }
    }

    fn take(&mut self, me: OwnerId, component: &Component, now: Nanos, counters: &WorldCounters) {
        if component.expires <= now {
            return;
        }
        match self.cells.take(me, component) {
            Taken::Known => {}
            Taken::Raised if component.owner == me => drop(self.untold.insert(component.cell)),
            Taken::New if component.owner == me => {
                self.untold.insert(component.cell);
                // Of an earlier worker, which may have died with what it was about to publish.
                if !self.standing.has_read_all() {
                    self.look_again(component, now);
                }
            }
            taken @ (Taken::Raised | Taken::New) => {
                if taken == Taken::New {
                    counters.cells_imported.add(1);
                    self.note_reset(component);
                }
                self.untold.insert(component.cell);
            }
            Taken::Implausible => {
                counters.implausible_rows.add(1);
                self.standing.implausible(component);
            }
        }
    }
}
