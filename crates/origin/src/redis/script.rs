//! The scripts that run inside Redis, and the way there and back: what a call carries, what its answer
//! means.
//!
//! Pure conversion: no connection, no clock. Nothing that a server answers may panic here, and a key's bad
//! answer must never spoil its neighbours'.

mod call;
pub(crate) mod hot;
mod name;
pub(crate) mod owners;
pub(crate) mod quota;
mod record;
mod reply;
mod secret;
#[cfg(test)]
mod tests;
mod world_call;
mod world_reply;

pub(crate) use call::{calls, heartbeat_call, reset_call, resets_call, restore_call};
pub(crate) use name::slot_of;
pub(crate) use record::{pulse_call, pulse_reply, record_call, record_reply};
pub(crate) use reply::{heartbeat_reply, replies, reset_reply, resets_reply};
pub(crate) use secret::{secret_call, secret_reply};
pub(crate) use world_call::{
    enqueue_call, import_calls, lead_call, publish_view_call, take_call, totals_calls,
};
pub(crate) use world_reply::{
    cell_entries, cell_taken, cell_total, lead_reply, published_view_reply, put_reply, take_reply,
};

use super::wire::Arguments;

/// One script in four files: what all keys share, windows, GCRA, and the exchange that calls them.
pub(crate) const SYNC_SCRIPT: &str = concat!(
    include_str!("sync.lua"),
    include_str!("sync/window.lua"),
    include_str!("sync/gcra.lua"),
    include_str!("sync/exchange.lua"),
);
pub(crate) const HEARTBEAT_SCRIPT: &str = include_str!("heartbeat.lua");
pub(crate) const PULSE_SCRIPT: &str = include_str!("pulse.lua");
pub(crate) const MEMBERS_SCRIPT: &str = include_str!("members.lua");
pub(crate) const FOLD_SCRIPT: &str = include_str!("fold.lua");
pub(crate) const SECRET_SCRIPT: &str = include_str!("secret.lua");
pub(crate) const RESET_SCRIPT: &str = include_str!("reset.lua");
pub(crate) const RESETS_SCRIPT: &str = include_str!("resets.lua");
pub(crate) const QUOTA_REPORT_SCRIPT: &str = include_str!("quota/report.lua");
pub(crate) const QUOTA_GATHER_SCRIPT: &str = include_str!("quota/gather.lua");
pub(crate) const PUBLISH_QUOTAS_SCRIPT: &str = include_str!("quota/tell.lua");
pub(crate) const LEAD_SCRIPT: &str = include_str!("world/lead.lua");
pub(crate) const PUT_SCRIPT: &str = include_str!("world/put.lua");
pub(crate) const TAKE_SCRIPT: &str = include_str!("world/take.lua");
pub(crate) const TOTALS_SCRIPT: &str = include_str!("world/totals.lua");
pub(crate) const IMPORT_SCRIPT: &str = include_str!("world/import.lua");
pub(crate) const PUBLISH_VIEW_SCRIPT: &str = include_str!("world/tell.lua");

/// The most syncs that one call carries, so that the server is never busy with one for long.
const SYNCS_MAX: usize = 32;

/// One call of a script. Its keys are all in one slot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ScriptCall {
    pub(crate) slot: u16,
    pub(crate) keys: Arguments,
    pub(crate) args: Arguments,
    /// Which syncs of the exchange, or which cells, it carries, in the order of the answer's entries.
    pub(crate) syncs: Vec<usize>,
    /// It isn't a call of a script, but reads its one key.
    pub(crate) is_reading: bool,
}
