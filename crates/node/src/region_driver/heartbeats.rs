//! Heartbeats: each says that this node lives, and brings the number of live nodes, the region's time and news of the
//! world.

use super::{ALIVE_FOR, RegionDriver};
use crate::clock::{ClockReading, RegionSample};
use crate::driver::{calm_interval, follow_step};
use crate::world::WorldNode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tidegate_core::Nanos;
use tidegate_origin::{Heartbeat, HeartbeatReply, OriginError};

/// A node's death is known within two seconds: after 1.5 s without a beat, and at most 400 ms later.
const BEAT_EVERY: Duration = Duration::from_millis(400);

/// A wall clock that is further from the region's time than this is worth a warning.
const OFFSET_MAX_NS: i64 = 50_000_000;

impl RegionDriver {
    pub(super) async fn run_heartbeats(self: &Arc<Self>) {
        let mut tick = calm_interval(BEAT_EVERY);
        let mut log = HeartbeatLog::default();
        loop {
            tick.tick().await;
            if self.is_leaving.load(Ordering::Relaxed) {
                return;
            }
            let sent = self.clock.reading();
            let beaten = self.origin().beat(self.heartbeat(false)).await;
            self.receive_heartbeat(beaten, sent, &mut log);
            self.pulse_all();
            if !self.is_foreign() {
                // Who can't be asked is asked again with the next heartbeat.
                let _ = self.share_resets(Vec::new()).await;
            }
        }
    }

    pub(super) fn heartbeat(&self, leaves: bool) -> Heartbeat {
        let node = self.shared().region.node();
        let applied = self.engine.world().map_or(0, WorldNode::version);
        Heartbeat {
            node,
            fingerprint: self.engine.secret().fingerprint(),
            alive_for: ALIVE_FOR,
            leaves,
            applied,
            acceptance: *self.acceptance.lock(),
        }
    }

    /// A heartbeat was answered, or wasn't; `sent` is when it left.
    fn receive_heartbeat(
        &self,
        beaten: Result<HeartbeatReply, OriginError>,
        sent: ClockReading,
        log: &mut HeartbeatLog,
    ) {
        match &beaten {
            Ok(alive) => {
                self.receive_time(sent, alive.now);
                self.is_foreign.store(false, Ordering::Relaxed);
                let mut acceptance = self.acceptance.lock();
                *acceptance = acceptance.and_taken();
            }
            Err(OriginError::OtherSecret { .. }) => {
                self.is_foreign.store(true, Ordering::Relaxed);
                let mut acceptance = self.acceptance.lock();
                *acceptance = acceptance.and_refused();
            }
            // Whose store it is, a failure doesn't tell.
            Err(_) => {}
        }
        match beaten {
            Ok(alive) => {
                self.pulses.begin();
                if alive.keeps_no_records {
                    self.shared().region.adopt_records();
                }
                self.record_nodes(alive.nodes);
                if let (Some(world), Some(view)) = (self.engine.world(), alive.world) {
                    world.receive_view(view);
                }
                log.well(alive, self.clock.wall_offset_ns());
            }
            // What was known of the other nodes is still the best guess.
            Err(error) => {
                self.never_answered(&error);
                // A refusal of the store itself is told by the pulses, of every shard.
                let is_told = self.pulses.have_begun() && !self.is_foreign();
                log.ill(&error, is_told && matches!(error, OriginError::Refused { .. }));
            }
        }
    }

    /// Follows the store's time, so that all nodes of the region count in the same cells.
    fn receive_time(&self, sent: ClockReading, store: Nanos) {
        if !self.origin().keeps_time() {
            return;
        }
        let sample = RegionSample { sent, received: self.clock.reading(), store };
        if let Some(step) = self.clock.receive_region_time(&sample) {
            follow_step(&self.engine, &self.clock, step);
        }
        // Not by an answer that took too long to tell the time.
        if self.clock.wall_offset_ns().is_some() {
            self.knows_time.send_if_modified(|knows_time| !std::mem::replace(knows_time, true));
        }
    }
}

/// What was said about the origin, so that it is said once.
#[derive(Debug, Default)]
struct HeartbeatLog {
    /// Which kinds of errors were told since the last heartbeat that was answered.
    kinds: [bool; OriginError::KINDS.len()],
    is_off: bool,
    nodes: u32,
}

impl HeartbeatLog {
    fn well(&mut self, alive: HeartbeatReply, wall_offset_ns: Option<i64>) {
        if self.kinds.contains(&true) || self.nodes == 0 {
            tracing::info!(live_nodes = alive.nodes, "the origin answers");
        } else if self.nodes != alive.nodes {
            tracing::info!(live_nodes = alive.nodes, before = self.nodes, "the region's nodes changed");
        }
        let offset_ns = wall_offset_ns.unwrap_or(0);
        let is_off = offset_ns.abs() > OFFSET_MAX_NS;
        if is_off && !self.is_off {
            tracing::warn!(
                offset_ms = offset_ns / 1_000_000,
                "this machine's clock and the store's differ: this node follows the store's; check the time \
                 synchronisation of both"
            );
        }
        *self = HeartbeatLog { is_off, nodes: alive.nodes, ..HeartbeatLog::default() };
    }

    fn ill(&mut self, error: &OriginError, is_told: bool) {
        if !is_told && !std::mem::replace(&mut self.kinds[error.kind()], true) {
            tracing::warn!(%error, "the origin doesn't answer; deciding on the local view, and trying again");
        }
    }
}
