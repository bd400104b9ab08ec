//! Which nodes live, and whether they hash their keys with the same secret.

use super::resolution::{from_micros, micros_ceil};
use crate::{Acceptance, Heartbeat, HeartbeatReply, OriginError, Reset, ResetLog, ResetNews, ResetPosition};
use std::collections::BTreeMap;
use tidegate_core::Nanos;
use tidegate_core::origin_cell::NodeId;

/// A fleet that was silent for so long may come back with another secret: its counts are gone anyway.
const SECRET_TTL: Nanos = Nanos::from_secs(7 * 86_400);

/// The log keeps so many resets. A node that misses more asks about every key once.
const RESETS_MAX: usize = 1_000;

#[derive(Clone, Debug, Default)]
pub(super) struct Nodes {
    /// Each node, and until when it counts as alive.
    alive_until: BTreeMap<NodeId, Nanos>,
    /// The version of the world's regions that each goes by.
    applied_versions: BTreeMap<NodeId, u64>,
    secret: Option<Secret>,
    /// The latest resets, by number.
    resets: BTreeMap<u64, Reset>,
    last_reset: u64,
    reset_log: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Secret {
    fingerprint: u64,
    expires: Nanos,
    /// How often this store, or the one before it, had accepted a node with it.
    proven: u32,
}

/// A secret that was accepted for a minute, at a heartbeat every 400 ms, is never replaced.
const PROVEN_FROM: u32 = 150;

/// What a node is told that was refused, and now finds a store that knows no secret.
pub(crate) const REFUSED_BEFORE: &str = "the store lost its data, and this node belongs to another fleet: it doesn't take the \
    store over; restart the node if its secret is the right one now";

impl Nodes {
    pub(super) fn beat(
        &mut self,
        heartbeat: &Heartbeat,
        present: Nanos,
    ) -> Result<HeartbeatReply, OriginError> {
        let Heartbeat { node, fingerprint, alive_for, leaves, applied, acceptance } = *heartbeat;
        let theirs = self.secret.filter(|secret| secret.expires > present);
        let weight = acceptance.weight();
        let may_replace = |secret: &Secret| weight > secret.proven && secret.proven < PROVEN_FROM;
        let other = theirs.filter(|secret| secret.fingerprint != fingerprint);
        if let Some(secret) = other.filter(|secret| !may_replace(secret)) {
            return Err(OriginError::OtherSecret { theirs: secret.fingerprint, ours: fingerprint });
        }
        if theirs.is_none() && acceptance == Acceptance::Refused {
            return Err(OriginError::Refused { message: REFUSED_BEFORE.to_owned() });
        }
        let known = theirs.filter(|_| other.is_none()).map_or(0, |secret| secret.proven);
        let proven = weight.max(known);
        self.secret = Some(Secret { fingerprint, expires: present.plus(SECRET_TTL), proven });
        self.alive_until.retain(|_, until| *until > present);
        if leaves {
            self.alive_until.remove(&node);
            self.applied_versions.remove(&node);
        } else {
            if applied > 0 {
                self.applied_versions.insert(node, applied);
            }
            self.alive_until.insert(node, present.plus(from_micros(micros_ceil(alive_for))));
        }
        let nodes = u32::try_from(self.alive_until.len()).unwrap_or(u32::MAX);
        Ok(HeartbeatReply { nodes, now: present, world: None, keeps_no_records: false })
    }

    /// Returns the lowest version of the membership that a live node applies; 0 when there is none.
    pub(super) fn applied_by_all(&mut self, present: Nanos) -> u64 {
        let is_alive = |node: &NodeId| self.alive_until.get(node).is_some_and(|until| *until > present);
        self.applied_versions.retain(|node, _| is_alive(node));
        let alive = self.alive_until.iter().filter(|(_, until)| **until > present);
        alive.map(|(node, _)| self.applied_versions.get(node).copied().unwrap_or(0)).min().unwrap_or(0)
    }

    pub(super) fn share_resets(&mut self, news: &ResetNews) -> ResetLog {
        let log = *self.reset_log.get_or_insert(news.next_log);
        for reset in &news.resets {
            self.last_reset += 1;
            // A reset that is shared again is a new one for those who read it.
            self.resets.retain(|_, other| other != reset);
            self.resets.insert(self.last_reset, *reset);
        }
        while self.resets.len() > RESETS_MAX {
            self.resets.pop_first();
        }
        let known = news.known.filter(|known| known.log == log);
        let read = known.map_or(0, |known| known.number);
        let unread = self.resets.range(read + 1..);
        let is_cut =
            read < self.last_reset && unread.clone().next().is_none_or(|(number, _)| *number > read + 1);
        ResetLog {
            position: ResetPosition { log, number: self.last_reset },
            has_gap: known.is_none() || is_cut,
            resets: unread.map(|(_, reset)| *reset).collect(),
        }
    }
}
