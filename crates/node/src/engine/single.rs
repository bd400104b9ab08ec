//! One limit to a request, many requests in a row: the short way for front ends that pipeline.
//!
//! The same keys and the same decisions as [`Engine::decide`], without a plan: what all requests have in common
//! is hashed once, and their keys can be fetched ahead. What isn't plain (no room, the region has to be asked)
//! is left undone, for [`Engine::decide`] to do.

use super::{Counters, Engine};
use crate::quota::{DemandSample, Quotas};
use crate::region::HotLimit;
use crate::request::GivenLimit;
use crate::rule_counts::is_near_limit;
use crate::top::Sample;
use crate::world::{is_counted, joined_name};
use tidegate_core::identity::Shape;
use tidegate_core::{Class, Decision, Item, KeyId, KeyPrefix, Moment, SharedState, Table};
use tidegate_rules::shown;

/// How many requests came out how, counted together: threads that count each meet at the counter.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub admitted: u64,
    /// Of those, how many left little of their limit.
    pub near_limit: u64,
    pub denied: u64,
}

impl Tally {
    #[inline]
    pub fn add(&mut self, decision: &Decision) {
        if decision.is_admitted() {
            self.admitted += 1;
            self.near_limit += u64::from(is_near_limit(decision));
        } else {
            self.denied += 1;
        }
    }
}

impl Engine {
    /// What the keys of GCRA limits that requests of a namespace give themselves have in common. Equal for
    /// every rate and burst: a changed number keeps the counts.
    pub fn gcra_keys(&self, tenant: &str, namespace: &str) -> KeyPrefix {
        KeyPrefix::new(&self.secret, tenant, namespace, "", Shape::Gcra)
    }

    /// Starts fetching where a key's entry is to be found.
    #[inline]
    pub fn prefetch_shard(&self, key: KeyId) {
        match &self.counters {
            Counters::Alone(table) => table.prefetch_shard(key),
            Counters::Shared(sharing) => sharing.table.prefetch_shard(key),
        }
    }

    /// Starts fetching what a decision about a key will read.
    #[inline]
    pub fn prefetch(&self, key: KeyId) {
        match &self.counters {
            Counters::Alone(table) => table.prefetch(key),
            Counters::Shared(sharing) => sharing.table.prefetch(key),
        }
    }

    /// Decides a request of one limit, if that is all there is to do; else nothing was changed. The caller
    /// counts it in a [`Tally`].
    #[inline]
    pub fn decide_single(&self, item: &Item, moment: Moment) -> Option<Decision> {
        match &self.counters {
            Counters::Alone(table) => table.decide(item, moment).ok(),
            Counters::Shared(sharing) => match &sharing.quotas {
                Some(quotas) if !is_counted(&item.spec) => decide_part(&sharing.table, quotas, item, moment),
                _ => sharing.table.decide(item, moment).ok(),
            },
        }
    }

    /// How many requests the one that was just decided stands for among those that come most often, and among those
    /// that are denied most; `None` when it isn't looked at.
    #[inline]
    pub fn sampled(&self, decision: &Decision, moment: Moment) -> Option<Sample> {
        Sample::of(!decision.is_admitted(), moment.now)
    }

    /// Takes such a request into the lists.
    #[cold]
    pub fn sample_single(
        &self,
        tenant: &str,
        (given, item): (&GivenLimit<'_>, &Item),
        sample: Sample,
        moment: Moment,
    ) {
        let whole = self.quotas().filter(|_| !is_counted(&item.spec)).map(|_| item.spec);
        let spec = match (self.quotas(), &whole) {
            (Some(quotas), Some(whole)) => quotas.apply_slice(item.key, whole, item.class, moment.now),
            _ => item.spec,
        };
        let limit = HotLimit { item: Item { spec, ..*item }, limit: whole };
        let name = || joined_name(tenant, given.namespace, "", &shown(given.identifier));
        self.top.record_single(limit, sample, moment.now, name);
    }

    /// Counts what [`Engine::decide_single`] decided.
    pub fn count(&self, tally: Tally) {
        self.stats.decided_many(tally.admitted, tally.near_limit, tally.denied);
    }
}

/// Of a limit that is shared by quotas, this region's part is enforced.
fn decide_part(table: &Table<SharedState>, quotas: &Quotas, item: &Item, moment: Moment) -> Option<Decision> {
    let part = Item { spec: quotas.apply_slice(item.key, &item.spec, item.class, moment.now), ..*item };
    let mut decision = table.decide(&part, moment).ok()?;
    let is_abuse = item.class == Class::Abuse;
    let asked = DemandSample { key: item.key, whole: &item.spec, cost: item.cost.get(), is_abuse };
    quotas.decided(&asked, &mut decision, moment.now);
    Some(decision)
}
