//! What a node that shares its counts has beyond a lone one: the region's logic, and the local limits that
//! stand in for `free` rules while the region can't be asked.

use crate::hot::HotKeys;
use crate::quota::Quotas;
use crate::region::{AskItem, Region, RegionOptions};
use crate::world::WorldNode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tidegate_core::state::State as _;
use tidegate_core::{
    Burst, Charge, Item, LocalState, Moment, Nanos, Rate, SharedState, Spec, StepId, Table, TenantTag,
    Verdict,
};

/// The stand-in limits get a table of their own, a sixteenth of the main one.
const FALLBACK_DIVISOR: usize = 16;
/// A `free` rule admits this much of its rate, by its node's share, while nobody can be asked. All nodes
/// together stay below one and a half: their shares sum to a little more than one, and each begins with a burst.
const FALLBACK_FACTOR: (u64, u64) = (4, 3);
/// A node that was never told how many there are takes so many for granted, where its store can't be asked: its share is
/// small until the first heartbeat is answered.
const UNKNOWN_NODES: u32 = 64;
/// What it may admit at once: every node's burst comes on top, and outages may be short.
const FALLBACK_BURST: Nanos = Nanos::from_millis(100);

#[derive(Debug)]
pub struct Sharing {
    pub table: Table<SharedState>,
    pub region: Region,
    /// Parts of limits that hold over the world; `None` where there is none.
    pub quotas: Option<Arc<Quotas>>,
    /// What this node and its region know of hot keys.
    pub hot: HotKeys,
    fallbacks: Table<LocalState>,
    /// How many nodes there are taken to be until the store says it; 0 from then on.
    assumed_nodes: AtomicU32,
}

impl Sharing {
    pub(crate) fn new(keys_max: usize, options: RegionOptions, has_world: bool) -> Self {
        let quotas = has_world.then(|| Arc::new(Quotas::new(options.node)));
        Sharing {
            table: Table::new(keys_max),
            region: match &quotas {
                Some(quotas) => Region::new(options).with_world(WorldNode::new(keys_max), quotas.clone()),
                None => Region::new(options),
            },
            quotas,
            hot: HotKeys::default(),
            fallbacks: Table::new((keys_max / FALLBACK_DIVISOR).max(1024)),
            assumed_nodes: AtomicU32::new(0),
        }
    }

    /// The store wasn't asked yet. So many nodes lived when this one, in an earlier life, last heard of them.
    pub fn assume_nodes(&self, last_known: Option<u32>) {
        self.assumed_nodes.store(last_known.unwrap_or(UNKNOWN_NODES), Ordering::Relaxed);
    }

    /// The store said how many nodes live.
    pub fn set_live_nodes(&self, nodes: u32) {
        self.table.set_live_nodes(nodes);
        self.assumed_nodes.store(0, Ordering::Relaxed);
    }

    /// Spends what was granted to a request and lapsed on its way: it is charged then, and needn't be asked for again.
    pub(crate) fn spends_lapsed(&self, ask: &AskItem, moment: Moment) -> bool {
        let mut is_spent = false;
        let (item, live_nodes) = (ask.item(), self.table.live_nodes());
        self.table.update(ask.key, |state| {
            is_spent = state.step() == moment.step && state.spend_lapsed(&item, live_nodes, moment.now);
        });
        is_spent
    }

    /// The local limit that an unverified admission of a `free` rule must pass: GCRA at four thirds of
    /// this node's part of the rate, which is what it lately had, or an even one if that is more.
    pub(crate) fn fallback(&self, ask: &AskItem, moment: Moment) -> Item {
        let nodes = match self.assumed_nodes.load(Ordering::Relaxed) {
            0 => u64::from(self.table.live_nodes()),
            assumed => u64::from(assumed),
        };
        let (own, region) = self.table.aligned(ask.key, &ask.spec, moment).share_when_last_received();
        let even_is_more = own.saturating_mul(nodes) < region || region == 0;
        let (part, whole) = if even_is_more { (1, nodes) } else { (own, region) };
        let part = part.saturating_mul(FALLBACK_FACTOR.0).min(whole.saturating_mul(FALLBACK_FACTOR.1));
        let rate = rate_of(&ask.spec).scaled(part, whole.saturating_mul(FALLBACK_FACTOR.1));
        // What costs more than that passes when the bucket is full.
        let burst = Burst::new(ask.cost.get()).unwrap_or(Burst::BLOCKED).max(rate.burst_over(FALLBACK_BURST));
        let spec = Spec::Gcra { rate, burst };
        Item { charge: Charge::Never, ..Item::new(ask.key, spec, ask.cost) }
    }

    /// How long to wait until the stand-in would pass; `None` when it passes now.
    pub(crate) fn peek_fallback(&self, fallback: &Item, moment: Moment) -> Option<Nanos> {
        match self.fallbacks.decide(fallback, moment).map(|decision| decision.verdict) {
            Ok(Verdict::Admit) | Err(_) => None,
            Ok(Verdict::Deny { retry_after }) => Some(retry_after.unwrap_or(Nanos::from_secs(1))),
        }
    }

    /// The request passed: its stand-ins are charged. One that finds no room limits nobody.
    pub(crate) fn charge_fallbacks(&self, fallbacks: &[Item], moment: Moment) {
        for fallback in fallbacks {
            let charged = Item { charge: Charge::Always, ..*fallback };
            let _ = self.fallbacks.decide(&charged, moment);
        }
    }

    pub(crate) fn sweep(&self, shard: usize, moment: Moment) -> usize {
        self.fallbacks.sweep_shard(shard % self.fallbacks.shard_count(), moment);
        self.table.sweep_shard(shard % self.table.shard_count(), moment)
    }

    pub(crate) fn share_among(&self, tenants: &[TenantTag]) {
        self.table.share_among(tenants);
        self.fallbacks.share_among(tenants);
    }

    pub(crate) fn clock_stepped(&self, delta_ns: i64, lands_at: Nanos) -> StepId {
        if let Some(quotas) = &self.quotas {
            quotas.clock_stepped(delta_ns);
        }
        self.fallbacks.clock_stepped(delta_ns, lands_at);
        self.table.clock_stepped(delta_ns, lands_at)
    }
}

/// What a limit admits over time.
fn rate_of(spec: &Spec) -> Rate {
    let (limit, length) = match *spec {
        Spec::Gcra { rate, .. } => return rate,
        Spec::Sliding { limit, period } | Spec::Fixed { limit, period } => (limit, period.length()),
        Spec::Calendar { limit, cell, .. } => (limit, cell.end.minus(cell.start)),
    };
    Rate::nearest(limit.get(), length)
}
