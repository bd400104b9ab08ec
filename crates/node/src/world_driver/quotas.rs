//! Carries quotas: what nodes ask for to their worker, from there to the world store, and slices back.
//!
//! Decides nothing: see `quota.rs`, `quota/worker.rs` and the reconciler. A store that hangs holds up the next round
//! and nothing else; leases end by themselves.

use super::WorldDriver;
use crate::driver::calm_interval;
use crate::quota::Quotas;
use std::time::Duration;
use tidegate_control::LeaderCounters;
use tidegate_core::Nanos;
use tidegate_world::{Acknowledgement, Demand, OwnerId, SLICE_LEASE, WorldError, WorldFuture};
use tokio::time::{Instant, timeout};

const REPORT_EVERY: Duration = Duration::from_millis(250);
const SLICE_EVERY: Duration = Duration::from_millis(500);
/// While nobody asks for anything and there is no slice, the world store is spoken to with every so many rounds.
const IDLE_ROUNDS: u32 = 4;
/// A call that takes longer has failed.
const STORE_TIMEOUT: Duration = Duration::from_secs(2);

impl WorldDriver {
    /// What the reconciler does here: it works where it leads.
    pub fn reconciler(&self) -> &LeaderCounters {
        self.reconciler.counters()
    }

    /// Every node says what is asked for, and hears which slices there are.
    pub(super) async fn run_reports(&self) {
        let mut tick = calm_interval(REPORT_EVERY);
        loop {
            tick.tick().await;
            if !self.region.is_foreign() {
                self.report_quotas().await;
            }
        }
    }

    async fn report_quotas(&self) {
        let (Some(quotas), Some(sharing)) = (self.engine.quotas(), self.engine.shared()) else { return };
        let sent = self.now();
        let report = quotas.report(sharing.table.live_nodes(), sent);
        match self.region.origin().report_quotas(&report).await {
            Ok(heard) => quotas.receive(&heard, sent),
            Err(error) => {
                quotas.counters().failed_reports.add(1);
                tracing::debug!(%error, "the origin doesn't take what was asked for of quotas");
            }
        }
    }

    /// The region's worker brings demands to the world store, and slices back.
    pub(super) async fn run_slices(&self) {
        let mut tick = calm_interval(SLICE_EVERY);
        let mut idle = 0;
        loop {
            tick.tick().await;
            let Some((me, membership)) = self.worker.lock().membership() else { continue };
            // From before the origin is asked for its time: a process that was stopped may take any late answer for
            // one in time.
            let began = Instant::now();
            let Ok(gathered) = self.region.origin().gather_quotas(SLICE_LEASE).await else { continue };
            let is_idle = gathered.reports.iter().all(|report| report.offered.is_empty());
            let holds_none = self.engine.quotas().is_none_or(|quotas| quotas.slice_count() == 0);
            let is_known = self.worker.lock().quotas_known() == membership.version;
            idle = if is_idle && holds_none && is_known { idle + 1 } else { 0 };
            let say = self.quota_worker.lock().gathered(&gathered);
            self.worker.lock().quotas_divide_by(say.applied);
            // That nobody asks for a key any more is said all the same.
            if idle % IDLE_ROUNDS != 0 && say.demands.is_empty() {
                continue;
            }
            self.report(me, &say.demands).await;
            let slices = within(self.store.slices(me)).await;
            let took = Nanos::new(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX));
            let Ok(slices) = slices else { continue };
            let before = say.before;
            let in_force = self.engine.quotas().map(Quotas::in_force).unwrap_or_default();
            let news = self.quota_worker.lock().read(me, &membership, &slices, &in_force, before, took);
            let Some(news) = news else { continue };
            self.acknowledge(me, say.acknowledged).await;
            if let Err(error) = self.region.origin().publish_quotas(&news).await {
                tracing::debug!(%error, "the origin doesn't take slices");
            }
        }
    }

    async fn report(&self, me: OwnerId, demands: &[Demand]) {
        if !demands.is_empty() && within(self.store.report(me, demands)).await.is_err() {
            self.quota_worker.lock().report_failed();
        }
    }

    async fn acknowledge(&self, me: OwnerId, acknowledged: Option<Acknowledgement>) {
        let said = acknowledged.and_then(|said| self.quota_worker.lock().acknowledgement(said));
        if let Some(said) = said
            && within(self.store.acknowledge(me, &said)).await.is_ok()
        {
            self.quota_worker.lock().acknowledged(&said);
        }
    }

    /// Each region's worker would lead the reconciler.
    pub(super) async fn run_reconciler(&self) {
        let may_lead = || self.worker.lock().membership().is_some();
        self.reconciler.run(may_lead, |survey| self.quota_worker.lock().may_grant(survey)).await;
    }

    /// The nodes of the region don't wait for this one any more, nor does the reconciler.
    pub(super) async fn leave_quotas(&self) {
        if let Some(quotas) = self.engine.quotas() {
            // Who can't be told finds out.
            let _ = self.region.origin().report_quotas(&quotas.farewell()).await;
        }
        let _ = timeout(STORE_TIMEOUT, self.reconciler.resign()).await;
    }
}

async fn within<T>(reply: WorldFuture<'_, T>) -> Result<T, WorldError> {
    let waited_ms = u64::try_from(STORE_TIMEOUT.as_millis()).unwrap_or(u64::MAX);
    timeout(STORE_TIMEOUT, reply).await.unwrap_or(Err(WorldError::Timeout { waited_ms }))
}
