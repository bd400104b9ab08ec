//! How a request goes on that waited for its region: by what it was told, or by its class where nobody could be asked.
//!
//! Must never pass a limit by what another request has spent since.

use super::{AskContext, DecideOutcome, Engine, PendingDecision};
use crate::journal;
use crate::plan::Plan;
use crate::region::{AskItem, AskOutcome};
use crate::request::{Answer, Purpose, Reason};
use crate::sharing::Sharing;
use tidegate_core::{Accuracy, Charge, Class, Cost, Moment, Nanos};

/// A caller denied because its region can't be asked is told to come back after this.
const RETRY_WHEN_UNVERIFIED: Nanos = Nanos::from_millis(300);

impl Engine {
    /// Decides a request whose limits have been asked about, as far as they could be. It has the last word:
    /// nobody is asked again.
    pub fn resume<'r>(
        &self,
        asking: PendingDecision<'r>,
        outcomes: &[AskOutcome],
        moment: Moment,
    ) -> Answer<'r> {
        match self.resume_or_ask(asking, outcomes, moment) {
            DecideOutcome::Answer(answer) => answer,
            DecideOutcome::Ask(mut again) => {
                for item in &mut again.plan.items {
                    item.accuracy = Accuracy::Async;
                }
                let decided = self.resume_or_ask(*again, &[], moment).answer();
                decided.unwrap_or_else(|| unreachable!("who was granted nothing doesn't ask again"))
            }
        }
    }

    /// The same, but that it may ask again: for what was granted to this request and spent by another one
    /// before this went on; and for what it needed nobody for when it came. Otherwise as many as wait for one limit
    /// would pass beside another one's credit, each by what was left when it came.
    pub fn resume_or_ask<'r>(
        &self,
        asking: PendingDecision<'r>,
        outcomes: &[AskOutcome],
        moment: Moment,
    ) -> DecideOutcome<'r> {
        let PendingDecision { mut plan, asks, items, context, trace } = asking;
        let Some(sharing) = self.shared() else {
            return DecideOutcome::Answer(self.answer(
                plan,
                context.reason,
                Purpose::Check,
                context.rule_version,
            ));
        };
        plan.fallbacks.clear();
        for (position, (ask, item)) in asks.iter().zip(&items).enumerate() {
            let outcome = outcomes.get(position).copied().unwrap_or(AskOutcome::Unverified);
            self.apply(sharing, &mut plan, *item, ask, outcome, moment);
        }
        if plan.is_denied() {
            plan.only_peek();
        }
        if self.decide_on(&sharing.table, &mut plan, moment).is_err() {
            for (ask, item) in asks.iter().zip(&items) {
                // What was reserved is released when this goes on, and what is charged already isn't asked for.
                if plan.items[*item].charge != Charge::Never {
                    plan.items[*item].accuracy = ask.accuracy;
                }
            }
            return journal::traced(trace, || self.ask_first(sharing, plan, context, moment));
        }
        if !plan.is_denied() {
            sharing.charge_fallbacks(&plan.fallbacks, moment);
        }
        let AskContext { reason, rule_version, request, watched } = context;
        journal::traced(trace, || self.record(&plan, None, (rule_version, request), moment));
        self.shadows.record_waited(&watched, &plan.answers);
        // What is reported never asks.
        DecideOutcome::Answer(self.answer(plan, reason, Purpose::Check, rule_version))
    }

    fn apply(
        &self,
        sharing: &Sharing,
        plan: &mut Plan<'_>,
        index: usize,
        ask: &AskItem,
        outcome: AskOutcome,
        moment: Moment,
    ) {
        // It was asked about: what is needed now waits for the next request.
        plan.items[index].accuracy = Accuracy::Async;
        match outcome {
            AskOutcome::Granted if sharing.spends_lapsed(ask, moment) => {
                plan.items[index].charge = Charge::Never;
            }
            // It is this node's to spend, and others here may be faster: then it has to be asked for again.
            AskOutcome::Granted if sharing.table.state(ask.key).is_some() => {
                plan.items[index].accuracy = ask.accuracy;
            }
            AskOutcome::Held { until } if moment.now >= until => {
                self.unverified(sharing, plan, (index, ask), moment);
            }
            AskOutcome::Granted | AskOutcome::Held { .. } => {}
            // One of several that were asked about together: another one was in the way.
            AskOutcome::Refused { retry_after: Some(Nanos::ZERO), .. } => {}
            // The answer came after the window's end: the next window is asked for.
            AskOutcome::Refused { window: Some(window), .. } if ask.has_ended(window, moment.now) => {
                plan.items[index].accuracy = ask.accuracy;
            }
            AskOutcome::Refused { retry_after, .. } => {
                plan.deny(index, retry_after.or_else(|| ask.until_cell_end(moment.now)), moment);
            }
            AskOutcome::Unverified => self.unverified(sharing, plan, (index, ask), moment),
        }
    }

    /// The region couldn't be asked: the limit's class decides. Who only looks is told what this node knows.
    fn unverified(
        &self,
        sharing: &Sharing,
        plan: &mut Plan<'_>,
        (index, ask): (usize, &AskItem),
        moment: Moment,
    ) {
        plan.set_unverified(Reason::StoreUnavailable);
        if ask.cost == Cost::PEEK {
            return;
        }
        let denied = match plan.targets[index].class {
            Class::Paid => None,
            Class::Abuse => Some(RETRY_WHEN_UNVERIFIED),
            Class::Free => {
                let fallback = sharing.fallback(ask, moment);
                plan.fallbacks.push(fallback);
                sharing.peek_fallback(&fallback, moment)
            }
        };
        if denied.is_some() {
            plan.deny(index, denied, moment);
        }
    }
}
