//! Which callers come most often, and which are denied most: of this node, from a sample of its requests.
//!
//! A thread that has little to do takes every request into its sample, a busy one as few as one in 64, so that what
//! it costs stays far below what it watches. Of denials there is a sample of its own: they are few among many requests
//! that pass, and most who look at a list look for them. A sample that finds the lists taken is dropped: nobody waits for them.
//! Who comes so often that its counts are worth drawing ahead is hot ([`Top::hot`]).

use crate::plan::{Plan, PlannedLimit, name_of};
use crate::region::HotLimit;
use crate::request::Request;
use crate::world::key_name;
use parking_lot::Mutex;
use std::cell::Cell;
use std::sync::Arc;
use tidegate_core::heavy::HeavyHitters;
use tidegate_core::{Accuracy, Cost, KeyId, Nanos, Role};

/// Of each row of the sketch, and keys that are known by name: about 100 KB for each list.
const BUCKETS: usize = 4096;
const CALLERS_MAX: usize = 1000;
/// Callers of each list that are told.
pub const TOP_CALLERS_MAX: usize = 100;
/// One in so many requests, when there are many.
const SAMPLED_MAX: u32 = 64;
/// Samples that come faster become fewer, slower ones more.
const SAMPLE_FAST: Nanos = Nanos::new(250_000);
const SAMPLE_SLOW: Nanos = Nanos::new(1_000_000);
/// Rates are averaged again after so long, or when somebody asks for them, with this half-life.
const DECAY_EVERY: Nanos = Nanos::from_millis(250);
const DECAY_MIN: Nanos = Nanos::from_millis(1);
const HALF_LIFE_S: f64 = 0.5;
/// Nothing is left of a rate after this.
const FORGOTTEN_AFTER: Nanos = Nanos::from_secs(5);
/// What came counts for half as much after this.
const HALVED_EVERY: Nanos = Nanos::from_secs(4);
/// A key that comes as often is hot: above 10,000 a second whatever the sample missed. An `exact` one, of which every
/// admission asks, much sooner.
const HOT_FROM: f64 = 8_000.0;
const EXACT_HOT_FROM: f64 = 1_000.0;
/// One that is hot stays so down to this part of that.
const HOT_DOWN_TO: f64 = 0.6;
/// A rate below this is none.
const RATE_MIN: f64 = 0.01;

thread_local! {
    static SAMPLING: ThreadSampler = const { ThreadSampler::new() };
    /// Of requests that are denied.
    static SAMPLING_DENIED: ThreadSampler = const { ThreadSampler::new() };
}

/// A thread's own.
struct ThreadSampler {
    /// Requests that pass before the next one is taken.
    left: Cell<u32>,
    every: Cell<u32>,
    last: Cell<Nanos>,
}

/// How many requests this one stands for; `None` when it isn't taken.
#[inline]
pub(crate) fn sampled(now: Nanos) -> Option<u32> {
    SAMPLING.with(|sampling| sampling.next(now))
}

/// The same of requests that are denied, for one of them.
#[inline]
pub(crate) fn sampled_denied(now: Nanos) -> Option<u32> {
    SAMPLING_DENIED.with(|sampling| sampling.next(now))
}

/// How many requests one stands for among those that come, and among those that are denied; 0 where it isn't taken.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    pub(crate) come: u32,
    pub(crate) denied: u32,
}

impl Sample {
    /// `None` when it isn't taken at all.
    #[inline]
    pub(crate) fn of(is_denied: bool, now: Nanos) -> Option<Self> {
        let come = sampled(now).unwrap_or(0);
        let denied = if is_denied { sampled_denied(now).unwrap_or(0) } else { 0 };
        (come > 0 || denied > 0).then_some(Sample { come, denied })
    }
}

/// No request of this thread is taken from here on: to count what it costs that others are.
pub fn stop_sampling() {
    SAMPLING.with(|sampling| sampling.left.set(u32::MAX));
    SAMPLING_DENIED.with(|sampling| sampling.left.set(u32::MAX));
}

impl ThreadSampler {
    const fn new() -> Self {
        ThreadSampler { left: Cell::new(0), every: Cell::new(1), last: Cell::new(Nanos::ZERO) }
    }

    #[inline]
    fn next(&self, now: Nanos) -> Option<u32> {
        match self.left.get() {
            0 => Some(self.take(now)),
            left => {
                self.left.set(left - 1);
                None
            }
        }
    }

    #[cold]
    fn take(&self, now: Nanos) -> u32 {
        let weight = self.every.get();
        let gap = now.minus(self.last.replace(now));
        let every = if gap < SAMPLE_FAST {
            (weight * 2).min(SAMPLED_MAX)
        } else if gap > SAMPLE_SLOW {
            (weight / 2).max(1)
        } else {
            weight
        };
        self.every.set(every);
        // Not always as many: callers that come in a fixed order would be missed or met every time.
        let jitter = u32::try_from(now.get() / 64 % u64::from(every)).unwrap_or(0);
        self.left.set(every / 2 + jitter);
        weight
    }
}

/// Of a key: whose it is, and how often it comes.
#[derive(Debug)]
struct CallerRate {
    name: Arc<str>,
    /// As it was enforced when it last came.
    planned: PlannedLimit,
    /// Since rates were last averaged.
    recent: u32,
    per_second: f64,
    /// Since it was last looked at whether it is hot, and what was found then.
    watched: u32,
    is_hot: bool,
}

impl CallerRate {
    /// Whether it is hot when it comes so often.
    fn is_hot_at(&self, per_second: f64) -> bool {
        let from = match self.planned.limit.item.accuracy {
            Accuracy::Exact => EXACT_HOT_FROM,
            Accuracy::Fast | Accuracy::Bounded | Accuracy::Async => HOT_FROM,
        };
        let from = if self.is_hot { from * HOT_DOWN_TO } else { from };
        self.planned.is_declared_hot || per_second >= from
    }
}

/// A limit that comes often.
#[derive(Clone, Copy, Debug)]
pub struct FrequentLimit {
    pub limit: HotLimit,
    pub per_second: f64,
    /// By itself, whatever the region says of it.
    pub is_hot: bool,
}

type List = HeavyHitters<Box<CallerRate>>;

#[derive(Debug)]
struct Lists {
    busiest: List,
    denied: List,
    decayed_at: Nanos,
    watched_at: Nanos,
    halved_at: Nanos,
}

/// A caller among the busiest, or among those that are denied most.
#[derive(Clone, PartialEq, Debug)]
pub struct TopCaller {
    pub key: KeyId,
    pub tenant: String,
    pub namespace: String,
    pub rule: String,
    pub identifier: String,
    pub per_second: f64,
    /// By a rule that denies.
    pub denied_per_second: f64,
    /// By a rule that only shadows.
    pub would_deny_per_second: f64,
    /// The region says so, or an override does, or it comes so often here.
    pub is_hot: bool,
    /// Its counts are drawn ahead here.
    pub is_leased: bool,
}

/// The busiest first, the most denied first, and those whom shadow rules would deny most.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct TopReport {
    pub busiest: Vec<TopCaller>,
    pub denied: Vec<TopCaller>,
    pub would_deny: Vec<TopCaller>,
}

#[derive(Debug)]
pub struct Top(Mutex<Lists>);

impl Default for Top {
    fn default() -> Self {
        Top(Mutex::new(Lists {
            busiest: List::new(BUCKETS, CALLERS_MAX),
            denied: List::new(BUCKETS, CALLERS_MAX),
            decayed_at: Nanos::ZERO,
            watched_at: Nanos::ZERO,
            halved_at: Nanos::ZERO,
        }))
    }
}

impl Top {
    /// Takes a request into the list of those that come, for as many as it stands for. What it is answered may not be
    /// known yet.
    #[cold]
    pub(crate) fn record(&self, request: &Request<'_>, plan: &Plan<'_>, stands_for: u32, now: Nanos) {
        let Some(mut lists) = self.0.try_lock() else { return };
        lists.decay(DECAY_EVERY, now);
        for (planned, answer) in plan.limits() {
            lists.count(planned, stands_for, || name_of(request, answer));
        }
    }

    /// Takes a request that was denied into the other one, by the limits that denied it. `request` is `None` where it
    /// waited: then its caller is known by name only if it has come before.
    #[cold]
    pub(crate) fn record_denied(
        &self,
        request: Option<&Request<'_>>,
        plan: &Plan<'_>,
        stands_for: u32,
        now: Nanos,
    ) {
        let Some(mut lists) = self.0.try_lock() else { return };
        lists.decay(DECAY_EVERY, now);
        for (planned, answer) in plan.limits().filter(|(_, answer)| !answer.is_allowed()) {
            lists.count_denied(planned, stands_for, || request.map(|request| name_of(request, answer)));
        }
    }

    /// The same for a request of one limit that was decided the short way.
    #[cold]
    pub(crate) fn record_single(
        &self,
        limit: HotLimit,
        sample: Sample,
        now: Nanos,
        name: impl Fn() -> Arc<str>,
    ) {
        let Some(mut lists) = self.0.try_lock() else { return };
        lists.decay(DECAY_EVERY, now);
        let planned = PlannedLimit { limit, is_declared_hot: false };
        if sample.come > 0 {
            lists.count(planned, sample.come, &name);
        }
        if sample.denied > 0 {
            lists.count_denied(planned, sample.denied, || Some(name()));
        }
    }

    /// The limits that come at least so often, by what came since this was last asked: all that are hot are among
    /// them. To be asked a few times a second.
    pub fn often(&self, per_second_min: f64, now: Nanos) -> Vec<FrequentLimit> {
        let mut lists = self.0.lock();
        let elapsed = now.minus(std::mem::replace(&mut lists.watched_at, now));
        let seconds = std::time::Duration::from_nanos(elapsed.get()).as_secs_f64().max(0.001);
        let mut often = Vec::new();
        for heavy in lists.busiest.heaviest_mut() {
            let rated = &mut heavy.label;
            let rate = f64::from(std::mem::take(&mut rated.watched)) / seconds;
            rated.is_hot = rated.is_hot_at(rate);
            if rated.is_hot || rate >= per_second_min {
                often.push(FrequentLimit {
                    limit: rated.planned.limit,
                    per_second: rate,
                    is_hot: rated.is_hot,
                });
            }
        }
        often
    }

    /// Of one tenant, or of all.
    pub fn report(&self, tenant: Option<&str>, now: Nanos) -> TopReport {
        let mut lists = self.0.lock();
        lists.decay(DECAY_MIN, now);
        let rate_in = |list: &List, key: KeyId| list.get(key).map_or(0.0, |heavy| heavy.label.per_second);
        let listed = |list: &List, is_listed: fn(&TopCaller) -> bool, rate: fn(&TopCaller) -> f64| {
            let named = list.heaviest().iter().filter(|heavy| heavy.label.per_second >= RATE_MIN);
            let mut callers: Vec<TopCaller> = named
                .filter_map(|heavy| {
                    let name = key_name(&heavy.label.name)?;
                    let over_per_second = rate_in(&lists.denied, heavy.key);
                    let is_shadow = heavy.label.planned.limit.item.role == Role::Shadow;
                    let (denied_per_second, would_deny_per_second) =
                        if is_shadow { (0.0, over_per_second) } else { (over_per_second, 0.0) };
                    Some(TopCaller {
                        key: heavy.key,
                        tenant: name.tenant.clone(),
                        namespace: name.namespace.clone(),
                        rule: name.rule.clone(),
                        identifier: name.identifier.clone(),
                        // Who is denied has come, whatever the coarser of the samples saw of it.
                        per_second: rate_in(&lists.busiest, heavy.key).max(over_per_second),
                        denied_per_second,
                        would_deny_per_second,
                        is_hot: heavy.label.planned.is_declared_hot || heavy.label.is_hot,
                        is_leased: false,
                    })
                })
                .filter(|caller| is_listed(caller) && tenant.is_none_or(|tenant| tenant == caller.tenant))
                .collect();
            callers.sort_by(|a, b| rate(b).total_cmp(&rate(a)).then_with(|| a.identifier.cmp(&b.identifier)));
            callers.truncate(TOP_CALLERS_MAX);
            callers
        };
        TopReport {
            busiest: listed(&lists.busiest, |_| true, |caller| caller.per_second),
            denied: listed(
                &lists.denied,
                |caller| caller.denied_per_second > 0.0,
                |caller| caller.denied_per_second,
            ),
            would_deny: listed(
                &lists.denied,
                |caller| caller.would_deny_per_second > 0.0,
                |caller| caller.would_deny_per_second,
            ),
        }
    }
}

impl Lists {
    /// Counts a limit of a sampled request for as many as that stands for.
    fn count(&mut self, planned: PlannedLimit, stands_for: u32, name: impl Fn() -> Arc<str>) {
        count_in(&mut self.busiest, planned, stands_for, name);
    }

    fn count_denied(&mut self, planned: PlannedLimit, stands_for: u32, name: impl Fn() -> Option<Arc<str>>) {
        let key = planned.limit.item.key;
        let known = self.busiest.get(key).map(|heavy| heavy.label.name.clone());
        // Who has no name isn't told.
        count_in(&mut self.denied, planned, stands_for, || known.clone().or_else(&name).unwrap_or_default());
    }

    /// Averages rates, if that was done so long ago.
    fn decay(&mut self, every: Nanos, now: Nanos) {
        let elapsed = now.minus(self.decayed_at);
        // A clock that was set back begins anew.
        let is_back = now < self.decayed_at;
        if elapsed < every && !is_back {
            return;
        }
        let first = std::mem::replace(&mut self.decayed_at, now) == Nanos::ZERO;
        let seconds = if first || is_back { DECAY_EVERY } else { elapsed };
        let seconds = std::time::Duration::from_nanos(seconds.get()).as_secs_f64();
        let is_over = elapsed >= FORGOTTEN_AFTER && !first;
        let kept = 0.5_f64.powf(seconds / HALF_LIFE_S);
        for list in [&mut self.busiest, &mut self.denied] {
            for heavy in list.heaviest_mut() {
                let rated = &mut heavy.label;
                let rate = f64::from(std::mem::take(&mut rated.recent)) / seconds;
                rated.per_second = if is_over { 0.0 } else { rated.per_second * kept + rate * (1.0 - kept) };
            }
        }
        if now.minus(self.halved_at) >= HALVED_EVERY || now < self.halved_at {
            self.halved_at = now;
            self.busiest.halve();
            self.denied.halve();
        }
    }
}

fn count_in(list: &mut List, planned: PlannedLimit, stands_for: u32, name: impl Fn() -> Arc<str>) {
    if planned.limit.item.cost == Cost::PEEK {
        return;
    }
    let rated = || {
        let (name, recent, watched) = (name(), 0, 0);
        Box::new(CallerRate { name, planned, recent, per_second: 0.0, watched, is_hot: false })
    };
    if let Some(heavy) = list.add(planned.limit.item.key, rated) {
        let rated = &mut heavy.label;
        rated.planned = planned;
        rated.recent = rated.recent.saturating_add(stands_for);
        rated.watched = rated.watched.saturating_add(stands_for);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_thread_takes_every_request_and_a_busy_one_few_and_they_stand_for_all() {
        let sampling = ThreadSampler::new();
        let take = |now: Nanos| sampling.next(now);
        let run = |from: Nanos, every: Nanos, requests: u64| {
            let taken: Vec<u32> =
                (0..requests).filter_map(|n| take(from.plus(Nanos::new(n * every.get())))).collect();
            (taken.len() as u64, taken.iter().map(|stands_for| u64::from(*stands_for)).sum::<u64>())
        };
        let (taken, _) = run(Nanos::from_secs(1), Nanos::from_millis(100), 100);
        assert_eq!(taken, 100);
        let (taken, stand_for) = run(Nanos::from_secs(20), Nanos::new(1000), 1_000_000);
        assert!(taken < 30_000, "{taken}");
        assert!((900_000..1_100_000).contains(&stand_for), "{stand_for}");
    }
}
