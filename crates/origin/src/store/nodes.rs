//! Which nodes live, and whether they hash their keys with the same secret.

use super::resolution::{from_micros, micros_ceil};
use crate::{Alive, Heartbeat, OriginError, Reset};
use std::collections::BTreeMap;
use tidegate_core::Nanos;
use tidegate_core::origin_cell::NodeId;

/// A fleet that was silent for so long may come back with another secret: its counts are gone anyway.
const SECRET_KEPT_FOR: Nanos = Nanos::from_secs(7 * 86_400);

/// Fifty heartbeats.
const RESET_TOLD_FOR: Nanos = Nanos::from_secs(20);

#[derive(Clone, Debug, Default)]
pub(super) struct Nodes {
    /// Each node, and until when it counts as alive.
    alive_until: BTreeMap<NodeId, Nanos>,
    /// The version of the world's regions that each goes by.
    heard: BTreeMap<NodeId, u64>,
    secret: Option<Secret>,
    /// What was reset lately, and until when that is told.
    resets: BTreeMap<Reset, Nanos>,
}

#[derive(Clone, Copy, Debug)]
struct Secret {
    fingerprint: u64,
    expires: Nanos,
}

impl Nodes {
    pub(super) fn beat(&mut self, heartbeat: &Heartbeat, present: Nanos) -> Result<Alive, OriginError> {
        let Heartbeat { node, fingerprint, alive_for, leaves, heard } = *heartbeat;
        let theirs = self.secret.filter(|secret| secret.expires > present);
        if let Some(secret) = theirs.filter(|secret| secret.fingerprint != fingerprint) {
            return Err(OriginError::OtherSecret { theirs: secret.fingerprint, ours: fingerprint });
        }
        self.secret = Some(Secret { fingerprint, expires: present.plus(SECRET_KEPT_FOR) });
        self.alive_until.retain(|_, until| *until > present);
        if leaves {
            self.alive_until.remove(&node);
            self.heard.remove(&node);
        } else {
            if heard > 0 {
                self.heard.insert(node, heard);
            }
            self.alive_until.insert(node, present.plus(from_micros(micros_ceil(alive_for))));
        }
        let nodes = u32::try_from(self.alive_until.len()).unwrap_or(u32::MAX);
        Ok(Alive { nodes, now: present, world: None })
    }

    /// The lowest version of the world's regions that a live node goes by; 0 when there is none.
    pub(super) fn heard_by_all(&mut self, present: Nanos) -> u64 {
        let is_alive = |node: &NodeId| self.alive_until.get(node).is_some_and(|until| *until > present);
        self.heard.retain(|node, _| is_alive(node));
        let alive = self.alive_until.iter().filter(|(_, until)| **until > present);
        alive.map(|(node, _)| self.heard.get(node).copied().unwrap_or(0)).min().unwrap_or(0)
    }

    pub(super) fn tell_resets(&mut self, resets: &[Reset], present: Nanos) -> Vec<Reset> {
        self.resets.retain(|_, until| *until > present);
        self.resets.extend(resets.iter().map(|reset| (*reset, present.plus(RESET_TOLD_FOR))));
        self.resets.keys().copied().collect()
    }
}
