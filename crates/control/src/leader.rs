//! Carries the reconciler: takes the lead when nobody has it, surveys, and writes what was decided.
//!
//! Every region's world worker runs one; the store lets one of them lead. Decides nothing. A leader that was paused
//! and comes back finds that its term is over, and a call that it gave up changes nothing when it arrives after
//! all: the store compares term and revision.

use crate::reconcile::{Figures, Reconciler};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tidegate_core::Nanos;
use tidegate_world::{RECONCILER, Survey, Term, World, WorldError};
use tokio::time::MissedTickBehavior;

/// How often is reconciled. A survey reads the same rows for rules of every class, so all get what `abuse` needs.
const PASS_EVERY: Duration = Duration::from_secs(1);
/// A leader that is killed is replaced within this and a pass.
const LEADER_LEASE_TTL: Nanos = Nanos::from_secs(3);
/// Rows that nobody needs are deleted with every so many passes.
const DELETE_EVERY: u64 = 5;

#[derive(Debug)]
pub struct Leader {
    world: Arc<dyn World>,
    /// Unlike any other's.
    holder: u64,
    reconciler: Reconciler,
    counters: LeaderCounters,
}

/// What the reconciler did here, for operators.
#[derive(Debug, Default)]
pub struct LeaderCounters {
    /// The term that this one leads in; 0 when it doesn't.
    term: AtomicU64,
    passes: AtomicU64,
    failed: AtomicU64,
    lowered: AtomicU64,
    raised: AtomicU64,
    dropped: AtomicU64,
    slices: AtomicU64,
    unacknowledged: AtomicU64,
    rejected: AtomicU64,
}

impl LeaderCounters {
    /// What only ever grows.
    pub fn counts_by_name(&self) -> [(&'static str, u64); 5] {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [
            ("reconciliations", get(&self.passes)),
            ("reconciliations_failed", get(&self.failed)),
            ("slices_lowered", get(&self.lowered)),
            ("slices_raised", get(&self.raised)),
            ("sliced_keys_dropped", get(&self.dropped)),
        ]
    }

    /// How it stands; all 0 where another one leads.
    pub fn gauges(&self) -> [(&'static str, u64); 4] {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [
            ("reconciler_term", get(&self.term)),
            ("slices_of_all_regions", get(&self.slices)),
            ("slices_unacknowledged", get(&self.unacknowledged)),
            ("slices_keys_turned_away", get(&self.rejected)),
        ]
    }

    fn passed(&self, figures: Figures) {
        let add = |counter: &AtomicU64, more| {
            counter.fetch_add(more, Ordering::Relaxed);
        };
        add(&self.passes, 1);
        add(&self.lowered, figures.lowered);
        add(&self.raised, figures.raised);
        add(&self.dropped, figures.dropped);
        self.slices.store(figures.slices, Ordering::Relaxed);
        self.unacknowledged.store(figures.unacknowledged, Ordering::Relaxed);
        self.rejected.store(figures.rejected, Ordering::Relaxed);
    }

    fn follows(&self) {
        for gauge in [&self.term, &self.slices, &self.unacknowledged, &self.rejected] {
            gauge.store(0, Ordering::Relaxed);
        }
    }
}

impl Leader {
    /// `holder` is a random number of this process.
    pub fn new(world: Arc<dyn World>, holder: u64) -> Arc<Self> {
        let (reconciler, counters) = (Reconciler::default(), LeaderCounters::default());
        Arc::new(Leader { world, holder, reconciler, counters })
    }

    pub fn counters(&self) -> &LeaderCounters {
        &self.counters
    }

    /// Leads whenever nobody else does and `may_lead` allows it, until the future is dropped. Grants nothing by a survey that
    /// `may_grant` refuses.
    pub async fn run(&self, may_lead: impl Fn() -> bool, may_grant: impl Fn(&Survey) -> bool) {
        let mut tick = tokio::time::interval(PASS_EVERY);
        // After a pause, or a slow store: at its pace, instead of making up for it.
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_ill = false;
        for pass in 0_u64.. {
            tick.tick().await;
            if !may_lead() {
                self.counters.follows();
                continue;
            }
            let outcome = self.pass(pass, &may_grant).await;
            if let Err(error) = &outcome {
                self.counters.failed.fetch_add(1, Ordering::Relaxed);
                if !is_ill {
                    tracing::warn!(%error, "the reconciler can't do its work; slices stay until their leases end");
                }
            }
            is_ill = outcome.is_err();
        }
    }

    /// Leads, if it may, and reconciles once.
    async fn pass(&self, pass: u64, may_grant: impl Fn(&Survey) -> bool) -> Result<(), WorldError> {
        let Some(term) = self.world.lead(RECONCILER, self.holder, LEADER_LEASE_TTL).await? else {
            self.counters.follows();
            return Ok(());
        };
        if self.counters.term.swap(term.0, Ordering::Relaxed) != term.0 {
            tracing::info!(term = term.0, "this node leads the reconciler");
        }
        self.reconcile(term, may_grant).await?;
        if pass.is_multiple_of(DELETE_EVERY) {
            self.world.delete_expired().await?;
        }
        Ok(())
    }

    async fn reconcile(&self, term: Term, may_grant: impl Fn(&Survey) -> bool) -> Result<(), WorldError> {
        let survey = self.world.survey().await?;
        if !may_grant(&survey) {
            return Ok(());
        }
        let reconciled = self.reconciler.reconcile(&survey);
        if let Some(granted) = &reconciled.granted {
            match self.world.grant(term, granted).await {
                // Somebody joined meanwhile, or an earlier call arrived late: the next pass sees it.
                Err(WorldError::Outdated { .. }) => return Ok(()),
                granted => granted?,
            }
        }
        self.counters.passed(reconciled.figures);
        Ok(())
    }

    /// Gives the lead up, so that another one needn't wait for the lease to end.
    pub async fn resign(&self) {
        if self.counters.term.load(Ordering::Relaxed) > 0 {
            // Who can't be told waits.
            let _ = self.world.lead(RECONCILER, self.holder, Nanos::ZERO).await;
            self.counters.follows();
        }
    }
}
