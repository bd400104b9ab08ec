//! What nodes and their world worker leave with the store for each other: who works, which store this is, the
//! mailbox, and how the world stands. The scripts in `redis/world` do the same.

use super::OriginStore;
use super::resolution::micros_floor;
use crate::{CellTotal, Expiry, Lead, LeadWish, Leading, Letter, OriginId, WorldCell};
use std::collections::BTreeMap;
use tidegate_core::origin_cell::NodeId;
use tidegate_core::{CellId, Nanos, WorldView};

/// Nodes name what wasn't taken again with their next look.
const MAIL_MAX: usize = 20_000;
/// While no worker reaches the world store, what it last said is the best guess.
const VIEW_KEPT_FOR: Nanos = Nanos::from_secs(7 * 86_400);

#[derive(Clone, Debug, Default)]
pub(super) struct Desk {
    worker: Option<(NodeId, Nanos)>,
    origin: Option<OriginId>,
    /// Letters by when they came, and then by their cell.
    mail: BTreeMap<(u64, CellId), Letter>,
    /// When each cell's letter came.
    came: BTreeMap<CellId, u64>,
    view: Option<(WorldView, Nanos)>,
}

impl Desk {
    pub(super) fn view(&self, present: Nanos) -> Option<WorldView> {
        self.view.filter(|(_, until)| *until > present).map(|(view, _)| view)
    }

    fn put(&mut self, letter: &Letter, now_us: u64) -> bool {
        let is_known = self.came.contains_key(&letter.cell);
        if !is_known && self.mail.len() >= MAIL_MAX {
            return false;
        }
        let came = *self.came.entry(letter.cell).or_insert(now_us);
        self.mail.insert((came, letter.cell), letter.clone());
        true
    }

    fn take(&mut self) -> Option<Letter> {
        let (_, letter) = self.mail.pop_first()?;
        self.came.remove(&letter.cell);
        Some(letter)
    }
}

impl OriginStore {
    /// Who works for the region in the world tier, and which store this is.
    pub fn lead(&mut self, lead: &Lead, now: Nanos) -> Leading {
        let present = self.wake(now);
        self.desk.origin = self.desk.origin.or(lead.proposed);
        let origin = self.desk.origin;
        let holder = self.desk.worker.filter(|(_, until)| *until > present).map(|(node, _)| node);
        let may_lead = origin.is_some() && holder.is_none_or(|holder| holder == lead.node);
        let is_leader = match lead.wish {
            LeadWish::Lead { lease } if may_lead => {
                let lease = Nanos::from_millis(lease.as_millis_ceil());
                self.desk.worker = Some((lead.node, present.plus(lease)));
                true
            }
            LeadWish::GiveUp if holder == Some(lead.node) => {
                self.desk.worker = None;
                false
            }
            LeadWish::Lead { .. } | LeadWish::GiveUp => false,
        };
        let heard_by_all = if is_leader { self.nodes.heard_by_all(present) } else { 0 };
        Leading { is_leader, origin, heard_by_all, now: present }
    }

    /// Names cells that the world tier should hear of. Says how many weren't taken.
    pub fn put_mail(&mut self, letters: &[Letter], now: Nanos) -> u64 {
        let now_us = micros_floor(self.wake(now));
        let refused = letters.iter().filter(|letter| !self.desk.put(letter, now_us)).count();
        u64::try_from(refused).unwrap_or(u64::MAX)
    }

    /// Takes the oldest letters.
    pub fn take_mail(&mut self, most: u16) -> Vec<Letter> {
        (0..most).map_while(|_| self.desk.take()).collect()
    }

    /// The region's count of a cell, and how much of it the world tier has.
    pub fn cell_total(&mut self, cell: &CellId, now: Nanos) -> CellTotal {
        self.wake(now);
        self.windows.get(cell).map_or_else(CellTotal::default, |window| CellTotal {
            total: window.cell.total(),
            published: window.cell.published(),
        })
    }

    /// Tells a cell of the world, whether anybody counts in it or not. Says what is taken for published of it.
    pub fn import(&mut self, cell: &WorldCell, nodes_now: Nanos, now: Nanos) -> u64 {
        let present = self.wake(now);
        let expires = Expiry { at: cell.expires, now: nodes_now }.by_store(present);
        let CellId { key, epoch, .. } = cell.cell;
        if epoch > 0 && epoch >= self.epoch_of(key) {
            // It was reset elsewhere.
            self.keep_epoch(key, epoch, expires);
        }
        if cell.own == 0 && cell.others == 0 && self.windows.get(&cell.cell).is_none() {
            return 0;
        }
        let window = &mut self.windows.entry(cell.cell).cell;
        window.import(cell.own, cell.others);
        window.set_published(cell.own);
        let published = window.published();
        self.windows.keep_until(cell.cell, expires);
        published
    }

    /// Tells all nodes how the world stands. An older worker may be slower than the next.
    pub fn tell_world(&mut self, view: WorldView, now: Nanos) {
        let present = self.wake(now);
        if self.desk.view(present).is_none_or(|before| view.version >= before.version) {
            self.desk.view = Some((view, present.plus(VIEW_KEPT_FOR)));
        }
    }
}
