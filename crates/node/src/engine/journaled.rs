//! What the engine leaves of a decision for those who look later: in the lists of who is denied most, and where
//! somebody keeps a journal.

use super::{Counters, Engine};
use crate::journal::{Circumstances, Journal, RecordSelection};
use crate::plan::Plan;
use crate::request::{Purpose, Request};
use crate::top;
use std::sync::Arc;
use tidegate_core::{Decision, Item, KeyPrefix, Moment, Nanos, TierCounts};
use tidegate_decisions::{Event, EventKind, RequestTag};

impl Engine {
    /// Sets the journal that decisions are recorded in. Call it once, before the first request.
    pub fn set_journal(&self, journal: Arc<Journal>) {
        // A second one would be kept by nobody.
        let _ = self.journal.set(journal);
    }

    pub fn journal(&self) -> Option<&Arc<Journal>> {
        self.journal.get()
    }

    #[inline]
    pub(super) fn record(
        &self,
        plan: &Plan<'_>,
        request: Option<&Request<'_>>,
        (rule_version, tag): (u64, RequestTag),
        moment: Moment,
    ) {
        // What was reported had passed already, whatever its limits say of it.
        if request.is_some_and(|request| request.purpose == Purpose::Report) {
            return;
        }
        let has_denials = plan.answers.iter().any(|answer| !answer.is_allowed());
        if has_denials && let Some(stands_for) = top::sampled_denied(moment.now) {
            self.top.record_denied(request, plan, stands_for, moment.now);
        }
        if let Some(journal) = self.journal.get()
            && let Some(kept) = journal.fold(plan, has_denials, rule_version, moment.now)
        {
            self.put_down(journal, kept, plan, request, (rule_version, tag), moment);
        }
    }

    /// Apart from the decision, which most requests end with.
    #[cold]
    fn put_down(
        &self,
        journal: &Journal,
        selection: RecordSelection,
        plan: &Plan<'_>,
        request: Option<&Request<'_>>,
        (rule_version, tag): (u64, RequestTag),
        moment: Moment,
    ) {
        let seen = |item: &Item, decision: &Decision| self.tier_counts(item, decision, moment.now);
        journal.record_answers(
            selection,
            plan,
            request,
            &Circumstances { rule_version, moment, request: tag, tier_counts: &seen },
        );
    }

    pub(super) fn remember(&self, request: &Request<'_>, plan: &Plan<'_>) {
        if let Some(journal) = self.journal.get() {
            journal.remember(request, plan);
        }
    }

    /// Records what [`Engine::decide_single`] denied, of the keys that [`Engine::gcra_keys`] gave.
    pub fn record_single(
        &self,
        (tenant, namespace, keys): (&str, &str, &KeyPrefix),
        item: &Item,
        decision: &Decision,
        moment: Moment,
    ) {
        if let Some(journal) = self.journal.get() {
            let seen = |item: &Item, decision: &Decision| self.tier_counts(item, decision, moment.now);
            let (rule_version, request) = (self.rules().version, RequestTag::default());
            let of = Circumstances { rule_version, moment, request, tier_counts: &seen };
            journal.record_single((tenant, namespace, keys), item, decision, &of);
        }
    }

    pub(super) fn record_clock_step(&self, delta_ns: i64, lands_at: Nanos) {
        if let Some(journal) = self.journal.get() {
            let value = delta_ns / 1_000_000;
            let [subject, text] = [const { String::new() }; 2];
            let kind = EventKind::ClockStep;
            journal.event(Event { at: lands_at, kind, is_unwell: false, value, subject, text });
        }
    }

    /// Returns what is known of a key, to be shown.
    fn tier_counts(&self, item: &Item, decision: &Decision, now: Nanos) -> TierCounts {
        let known = match &self.counters {
            Counters::Alone(table) => {
                table.state(item.key).map(|state| TierCounts::of_local(&state, &item.spec, decision, now))
            }
            Counters::Shared(sharing) => sharing
                .table
                .state(item.key)
                .map(|state| TierCounts::of_shared(&state, &item.spec, decision, now)),
        };
        known.unwrap_or_else(|| TierCounts::of_decision(decision))
    }
}
