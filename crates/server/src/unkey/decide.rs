//! `limit` and `multiLimit`: the engine's inline limits, with the numbers of the override that applies.

use super::envelope::{self, UnkeyEnvelope};
use super::fleet;
use super::overrides::Override;
use super::requests::{Check, Checks, many_checks, one_check};
use crate::App;
use crate::answer::retry_after;
use crate::decide::{Reply, ask_engine, name_request};
use crate::refusal::Refusal;
use smallvec::SmallVec;
use tidegate_core::{Accuracy, Class, Decision, Limit, Nanos, Period, Verdict};
use tidegate_node::{GivenLimit, GivenPolicy, LimitOutcome, Purpose, Request, Subject, VersionedRules};

pub(super) async fn limit(app: &App, tenant: &str, body: &[u8], request_id: &str) -> Result<Reply, Refusal> {
    name_request(app, request_id);
    decide(app, tenant, &one_check(body)?, |told| envelope::limit(request_id, told)).await
}

/// All or none: when one of them is denied, nothing is charged, and the others say that they would have passed.
pub(super) async fn multi_limit(
    app: &App,
    tenant: &str,
    body: &[u8],
    request_id: &str,
) -> Result<Reply, Refusal> {
    name_request(app, request_id);
    decide(app, tenant, &many_checks(body)?, |told| envelope::multi_limit(request_id, told)).await
}

async fn decide(
    app: &App,
    tenant: &str,
    checks: &Checks<'_>,
    write: impl FnOnce(&[UnkeyEnvelope<'_>]) -> Vec<u8>,
) -> Result<Reply, Refusal> {
    let rules = app.engine.rules();
    let applied: SmallVec<[Option<Override>; 1]> =
        checks.iter().map(|check| applied(app, &rules, tenant, check)).collect();
    let limits: SmallVec<[GivenLimit<'_>; 1]> =
        checks.iter().zip(&applied).map(|(check, applied)| given(check, applied.as_ref())).collect();
    let request = Request { tenant, purpose: Purpose::Check, subject: Subject::Limits(&limits) };
    let answer = ask_engine(app, &rules, &request).await?;
    // Read after the decision: a wait that begins later than it ends no earlier.
    let now = app.clock.now().now;
    let decided = answer.limits.iter().zip(checks).zip(&applied);
    let told: SmallVec<[UnkeyEnvelope<'_>; 1]> = decided
        .filter_map(|((limit, check), applied)| match limit.outcome {
            LimitOutcome::Decided(decision) => Some(envelope(check, applied.as_ref(), &decision, now)),
            // Only rules say so.
            LimitOutcome::Unlimited | LimitOutcome::Missing { .. } => None,
        })
        .collect();
    Ok(Reply { body: write(&told), retry_after: retry_after(&answer) })
}

/// The fleet's override for a check, else the one that this node keeps by itself.
fn applied(app: &App, rules: &VersionedRules, tenant: &str, check: &Check<'_>) -> Option<Override> {
    let fleets = || fleet::applied(rules, tenant, &check.named, check.period, app.clock.now().now);
    if let Some(applied) = fleet::is_stored_there(app).then(fleets).flatten() {
        return Some(applied);
    }
    let overrides = app.overrides.in_force();
    overrides.namespace(tenant, &check.named.namespace)?.applied_to(&check.named.identifier).cloned()
}

/// As the engine takes it. An override with the same duration goes on with the counts that are there.
fn given<'a>(check: &'a Check<'_>, applied: Option<&Override>) -> GivenLimit<'a> {
    let (limit, period) = numbers(check, applied);
    GivenLimit {
        namespace: &check.named.namespace,
        identifier: &check.named.identifier,
        policy: GivenPolicy::Sliding { limit, period },
        cost: check.cost,
        class: Class::default(),
        accuracy: Accuracy::default(),
        scope: None,
    }
}

fn numbers(check: &Check<'_>, applied: Option<&Override>) -> (Limit, Period) {
    applied.map_or((check.limit, check.period), Override::numbers)
}

fn envelope<'a>(
    check: &'a Check<'_>,
    applied: Option<&'a Override>,
    decision: &Decision,
    now: Nanos,
) -> UnkeyEnvelope<'a> {
    let (_, period) = numbers(check, applied);
    UnkeyEnvelope {
        named: &check.named,
        limit: decision.limit,
        remaining: decision.remaining,
        reset_ms: reset(decision, period, now).as_millis_ceil(),
        is_passed: decision.is_admitted(),
        override_id: applied.map(Override::id),
    }
}

/// When a denied request would pass, exactly: Unkey's client keeps a denial until then and asks nobody. For the
/// others, and where no wait helps, the end of the window, as Unkey says.
fn reset(decision: &Decision, period: Period, now: Nanos) -> Nanos {
    match decision.verdict {
        Verdict::Deny { retry_after: Some(wait) } => now.plus(wait),
        Verdict::Admit | Verdict::Deny { retry_after: None } => period.cell_at(now).end,
    }
}
