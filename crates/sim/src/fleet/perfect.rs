//! The limiter that nobody can build: one engine that sees every request of all regions at once.

use super::plan::{Plan, instant};
use super::traffic::first_keys;
use crate::node::RULES;
use crate::scenario::{Arrival, KeyPlan, LimitChange, SECRET, TENANT, Template};
use smallvec::SmallVec;
use tidegate_core::Moment;
use tidegate_node::{Engine, EngineOptions, GivenLimit, Purpose, Request, Subject};
use tidegate_rules::RuleSet;

pub(crate) struct Perfect<'p> {
    engine: Engine,
    keys: &'p [KeyPlan],
    templates: &'p [Template],
    changes: Vec<LimitChange>,
}

impl<'p> Perfect<'p> {
    pub(crate) fn new(keys: &'p [KeyPlan], templates: &'p [Template], changes: Vec<LimitChange>) -> Self {
        let options = EngineOptions { secret: SECRET, keys_max: 2 * keys.len().max(1024) };
        Perfect { engine: Engine::new(options, RuleSet::empty()), keys, templates, changes }
    }

    pub(crate) fn admits(&mut self, arrival: &Arrival) -> bool {
        let changes = &self.changes;
        let given: SmallVec<[GivenLimit<'_>; 5]> = self.templates[arrival.template]
            .limits
            .iter()
            .map(|limit| {
                let mut given = self.keys[limit.key].given(limit.cost);
                let holds = |change: &&LimitChange| {
                    change.keys.contains(&limit.key) && change.heard_at.iter().all(|at| *at <= arrival.at)
                };
                if let Some(change) = changes.iter().rev().find(holds) {
                    given.policy = change.policy;
                }
                given
            })
            .collect();
        let request = Request { tenant: TENANT, purpose: Purpose::Check, subject: Subject::Limits(&given) };
        let decided = self.engine.decide(&RULES, &request, Moment::at(arrival.at)).ok();
        decided.and_then(|decided| decided.answer()).is_some_and(|answer| answer.allowed)
    }
}

/// Changes as somebody hears of them who hears of them at once.
pub(crate) fn changes_at_once(plan: &Plan) -> Vec<LimitChange> {
    let groups = first_keys(plan);
    let change = |change: &toml::Spanned<super::plan::PlannedChange>| {
        let change = change.get_ref();
        let (_, first, count) = groups.iter().find(|group| group.0 == change.keys)?;
        let policy = change.policy()?;
        Some(LimitChange { keys: *first..first + count, policy, heard_at: vec![instant(change.at_s)] })
    };
    plan.change.iter().filter_map(change).collect()
}
