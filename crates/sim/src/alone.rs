//! The perfect limiter: one engine that sees every request, and tells nobody.

use crate::node::RULES;
use crate::scenario::{Arrival, KeyPlan, SECRET, TENANT};
use tidegate_core::Moment;
use tidegate_node::{Engine, EngineOptions, Purpose, Request, Subject};
use tidegate_rules::RuleSet;

/// How many of some requests of cost 1 about one key a lone engine admits.
pub fn admitted_alone(key: &KeyPlan, arrivals: &[Arrival]) -> u64 {
    let engine = Engine::new(EngineOptions { secret: SECRET, keys_max: 1024 }, RuleSet::empty());
    let limits = [key.given(1)];
    let request = Request { tenant: TENANT, purpose: Purpose::Check, subject: Subject::Limits(&limits) };
    let is_admitted = |arrival: &&Arrival| {
        let decided = engine.decide(&RULES, &request, Moment::at(arrival.at)).ok();
        decided.and_then(|decided| decided.answer()).is_some_and(|answer| answer.allowed)
    };
    u64::try_from(arrivals.iter().filter(is_admitted).count()).unwrap_or(u64::MAX)
}
