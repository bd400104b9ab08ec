//! The node's health as events: what is another than when it was last looked at.
//!
//! Sans-IO: looks at what the engine and its drivers say of themselves, and takes the present as an argument.

use crate::engine::{Engine, VersionedRules};
use crate::region::{Region, ShardHealth};
use crate::region_driver::{BreakerState, RegionDriver};
use crate::world::WorkState;
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_core::Nanos;
use tidegate_decisions::why::change_words;
use tidegate_decisions::{Event, EventKind, rule_subject};
use tidegate_rules::{Policy, Rule, RuleSet};

/// Of one change of the rules, so many of the rules that it changed are told.
const RULES_REPORTED_MAX: usize = 100;
/// In larger sets, what changed isn't looked for: that takes a while.
const RULES_COMPARED_MAX: usize = 10_000;
/// The other regions have been out of hearing for long enough to say so.
const IMPORT_LAG: Nanos = Nanos::from_secs(30);

/// Compares the node's health with what it was at the last poll, and reports the differences as events.
#[derive(Debug)]
pub struct HealthMonitor {
    checked_at: Nanos,
    rules: Arc<VersionedRules>,
    /// Shards that can't be asked, and since when.
    unavailable: BTreeMap<String, Nanos>,
    live_nodes: u32,
    slices: usize,
    is_import_late: bool,
}

impl HealthMonitor {
    /// From the start of the process on; with the event that says so.
    pub fn new(engine: &Engine, now: Nanos) -> (Self, Event) {
        let rules = Arc::clone(&engine.rules());
        let started = event(now, EventKind::Started, "", 0);
        let live_nodes = engine.shared().map_or(1, |sharing| sharing.table.live_nodes());
        let unavailable = BTreeMap::new();
        let health = HealthMonitor {
            checked_at: now,
            rules,
            unavailable,
            live_nodes,
            slices: 0,
            is_import_late: false,
        };
        (health, started)
    }

    pub fn poll(
        &mut self,
        engine: &Engine,
        region: Option<&RegionDriver>,
        world: Option<&WorkState>,
        now: Nanos,
    ) -> Vec<Event> {
        let mut events = Vec::new();
        self.poll_rules(engine, &mut events);
        if let Some(sharing) = engine.shared() {
            let live_nodes = sharing.table.live_nodes();
            if std::mem::replace(&mut self.live_nodes, live_nodes) != live_nodes {
                events.push(event(now, EventKind::LiveNodes, "", i64::from(live_nodes)));
            }
            if let Some(region) = region {
                self.poll_shards(&sharing.region, region, now, &mut events);
            }
        }
        let slices = engine.quotas().map_or(0, |quotas| quotas.slice_count());
        if std::mem::replace(&mut self.slices, slices) != slices {
            let count = i64::try_from(slices).unwrap_or(i64::MAX);
            events.push(event(now, EventKind::Slices, "", count));
        }
        if let Some(work) = world.filter(|work| work.is_worker) {
            self.poll_imports(work, now, &mut events);
        }
        self.checked_at = now;
        events
    }

    /// Reports rules that came into force since the last poll: from then on callers may have felt them.
    fn poll_rules(&mut self, engine: &Engine, events: &mut Vec<Event>) {
        let rules = Arc::clone(&engine.rules());
        if rules.version == self.rules.version {
            return;
        }
        let (before, at) = (std::mem::replace(&mut self.rules, rules.clone()), self.checked_at);
        let version = i64::try_from(rules.version).unwrap_or(i64::MAX);
        events.push(event(at, EventKind::Rules, "", version));
        for (subject, text) in changed_rules(&before.set, &rules.set) {
            events.push(Event { text, ..event(at, EventKind::Rules, &subject, version) });
        }
    }

    /// Reports shards that became unavailable or recovered. A shard is unavailable while its breaker is open, and while it
    /// doesn't answer heartbeats or refuses them: most faults show there first, and on a quiet node there only.
    fn poll_shards(&mut self, region: &Region, driver: &RegionDriver, now: Nanos, events: &mut Vec<Event>) {
        let origin = driver.origin();
        let conditions = region.shard_conditions();
        let silent = conditions.iter().filter(|condition| condition.health == ShardHealth::Unavailable);
        let mut unavailable: BTreeMap<String, Nanos> = silent
            .map(|condition| {
                let name = origin.shard_name(condition.shard);
                let since = self.unavailable.get(&name).copied().unwrap_or(now);
                (name, since)
            })
            .collect();
        unavailable.extend(region.breakers().iter().filter_map(|(shard, state, _)| match state {
            BreakerState::Open { since, .. } => Some((origin.shard_name(*shard), *since)),
            BreakerState::Closed => None,
        }));
        self.report_shards(unavailable, now, events);
    }

    fn report_shards(&mut self, unavailable: BTreeMap<String, Nanos>, now: Nanos, events: &mut Vec<Event>) {
        for (shard, since) in unavailable.iter().filter(|(shard, _)| !self.unavailable.contains_key(*shard)) {
            events.push(Event { is_unwell: true, ..event(*since, EventKind::Breaker, shard, 0) });
        }
        for (shard, since) in self.unavailable.iter().filter(|(shard, _)| !unavailable.contains_key(*shard)) {
            events.push(event(now, EventKind::Breaker, shard, 0));
            // The clock was set back meanwhile: by its times, the shard would go away after it came back, for good.
            if *since > now {
                events.push(event(*since, EventKind::Breaker, shard, 0));
            }
        }
        self.unavailable = unavailable;
    }

    fn poll_imports(&mut self, work: &WorkState, now: Nanos, events: &mut Vec<Event>) {
        let Some(imported_at) = work.imported_at else { return };
        let lag = now.minus(imported_at);
        let is_late = lag > IMPORT_LAG || work.is_breaker_open;
        if std::mem::replace(&mut self.is_import_late, is_late) != is_late {
            let millis = i64::try_from(lag.as_millis_ceil()).unwrap_or(i64::MAX);
            let at = if is_late { imported_at } else { now };
            events.push(Event { is_unwell: is_late, ..event(at, EventKind::ImportLag, "", millis) });
        }
    }
}

fn event(at: Nanos, kind: EventKind, subject: &str, value: i64) -> Event {
    Event { at, kind, is_unwell: false, value, subject: subject.to_owned(), text: String::new() }
}

/// Rules whose limits are others than before, with both.
fn changed_rules(before: &RuleSet, after: &RuleSet) -> Vec<(String, String)> {
    if before.counts().rules.max(after.counts().rules) > RULES_COMPARED_MAX {
        return Vec::new();
    }
    let name = |rule: &Rule| rule_subject(&rule.tenant, &rule.namespace, &rule.name);
    let old: BTreeMap<String, String> =
        before.rules().map(|rule| (name(rule), shown(&rule.policy))).collect();
    let changed = after.rules().filter_map(|rule| {
        let (subject, now) = (name(rule), shown(&rule.policy));
        let before = old.get(&subject);
        (before != Some(&now)).then(|| (subject.clone(), change_words(before.map(String::as_str), &now)))
    });
    changed.take(RULES_REPORTED_MAX).collect()
}

/// A limit for people.
fn shown(policy: &Policy) -> String {
    let seconds = |length: Nanos| {
        let millis = length.as_millis_ceil();
        if millis.is_multiple_of(1000) { format!("{} s", millis / 1000) } else { format!("{millis} ms") }
    };
    match policy {
        Policy::Sliding { limit, period } | Policy::Fixed { limit, period } => {
            format!("{} per {}", limit.get(), seconds(period.length()))
        }
        Policy::Calendar { limit, calendar } => {
            format!("{} per {:?} in {}", limit.get(), calendar.unit(), calendar.time_zone()).to_lowercase()
        }
        Policy::Gcra { rate, burst } => {
            let interval = Nanos::new(rate.interval_numerator_ns());
            format!(
                "{} per {} with bursts of {}",
                rate.interval_denominator(),
                seconds(interval),
                burst.get()
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EngineOptions;
    use tidegate_core::FleetSecret;

    /// What is open at an instant by the events' times alone, as whoever reads the log goes by them.
    fn is_open(events: &[Event], at: Nanos) -> bool {
        let mut events: Vec<&Event> = events.iter().filter(|event| event.at <= at).collect();
        events.sort_by_key(|event| event.at);
        events.last().is_some_and(|event| event.is_unwell)
    }

    #[test]
    fn a_breaker_that_closes_after_the_clock_was_set_back_stays_closed() {
        let options = EngineOptions { secret: FleetSecret::BUILT_IN, keys_max: 100 };
        let at = |seconds: u64| Nanos::from_secs(1_800_000_000 + seconds);
        let (mut health, _) = HealthMonitor::new(&Engine::new(options, RuleSet::default()), at(0));
        let mut events = Vec::new();
        health.report_shards([(String::from("shard"), at(3600))].into(), at(3600), &mut events);
        assert!(is_open(&events, at(3601)));
        // Set back by an hour meanwhile.
        health.report_shards(BTreeMap::new(), at(10), &mut events);
        assert!(!is_open(&events, at(11)));
        assert!(!is_open(&events, at(3601)), "when the clock gets there again");
    }
}
