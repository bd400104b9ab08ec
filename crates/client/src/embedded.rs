//! The whole limiter in this process: the same rules and the same decisions as a node's, without a socket.

use crate::answer::{CheckResponse, LimitStatus, ResponseSource};
use crate::client::ClientError;
use crate::layer::{CheckRequest, Limiter};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use tidegate_core::{Cost, Decision, FleetSecret, Nanos, Role, Verdict};
use tidegate_node::clock::Clock;
use tidegate_node::driver::run_upkeep;
use tidegate_node::{Engine, EngineOptions, LimitOutcome, LimitSource, Purpose, Request, Subject};
use tidegate_rules::{Attributes, RuleSet, Source as RulesSource, identifier_text};
use tokio::sync::oneshot;

/// About 80 bytes each.
const KEYS_MAX: usize = 1_000_000;
const TENANT: &str = "default";

/// The rules are bad, or there is no thread for the upkeep.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct RulesError(String);

/// Decides in this process, for this process alone. A thread keeps clock and counters in order until it is
/// dropped.
#[derive(Debug)]
pub struct Embedded {
    engine: Arc<Engine>,
    clock: Arc<Clock>,
    /// Ends the thread when it is dropped.
    _upkeep: oneshot::Sender<()>,
}

impl Embedded {
    /// Rules as in a rules file.
    pub fn from_yaml(rules: &str) -> Result<Self, RulesError> {
        let secret = random_secret();
        let source = RulesSource { name: "rules".to_owned(), text: rules.as_bytes().to_vec() };
        let rules = RuleSet::parse(&[source], &secret).map_err(|errors| RulesError(errors.to_string()))?;
        let engine = Arc::new(Engine::new(EngineOptions { secret, keys_max: KEYS_MAX }, rules));
        let clock = Arc::new(Clock::system());
        let upkeep = spawn_upkeep(engine.clone(), clock.clone())
            .map_err(|error| RulesError(format!("can't start a thread: {error}")))?;
        Ok(Embedded { engine, clock, _upkeep: upkeep })
    }

    /// Whether a request with these attributes passes the rules of a namespace. Charged if so; cost 0 only
    /// looks. Never waits.
    pub fn check(
        &self,
        namespace: &str,
        attributes: &[(&str, &str)],
        cost: u64,
    ) -> Result<CheckResponse, ClientError> {
        let refused = |message: String| ClientError { status: 400, message };
        let cost = Cost::new(cost).map_err(|error| refused(error.to_string()))?;
        let attributes = Attributes(attributes);
        let subject = Subject::Rules { namespace, attributes, cost };
        let request = Request { tenant: TENANT, purpose: Purpose::Check, subject };
        let rules = self.engine.rules();
        let now = self.clock.now();
        let decided =
            self.engine.decide(&rules, &request, now).map_err(|error| refused(error.to_string()))?;
        // Alone in this process, it has nobody to ask.
        let Some(answer) = decided.answer() else { return Ok(CheckResponse::of_failure(true)) };
        let limits = answer.limits.iter().map(|limit| {
            let (name, identifier) = match limit.source {
                LimitSource::Rule(rule) => (rule.name.to_string(), identifier_text(rule, attributes)),
                LimitSource::Given { .. } => Default::default(),
            };
            let shadow = limit.role == Role::Shadow;
            let told = LimitStatus { name, identifier, allowed: limit.is_allowed(), shadow, ..UNLIMITED };
            match limit.outcome {
                LimitOutcome::Decided(decision) => with_numbers(told, &decision),
                LimitOutcome::Unlimited | LimitOutcome::Missing { .. } => told,
            }
        });
        Ok(CheckResponse {
            allowed: answer.allowed,
            limits: limits.collect(),
            source: ResponseSource::Limiter,
        })
    }
}

const UNLIMITED: LimitStatus = LimitStatus {
    name: String::new(),
    identifier: String::new(),
    limit: None,
    remaining: None,
    reset_ms: None,
    retry_after_ms: None,
    allowed: true,
    shadow: false,
};

fn with_numbers(told: LimitStatus, decision: &Decision) -> LimitStatus {
    let retry_after_ms = match decision.verdict {
        Verdict::Admit => Some(0),
        Verdict::Deny { retry_after } => retry_after.map(Nanos::as_millis_ceil),
    };
    LimitStatus {
        limit: Some(decision.limit),
        remaining: Some(decision.remaining),
        reset_ms: Some(decision.reset.as_millis_ceil()),
        retry_after_ms,
        ..told
    }
}

impl Limiter for Embedded {
    async fn ask(&self, limit: &CheckRequest) -> Result<CheckResponse, ClientError> {
        let attributes: Vec<(&str, &str)> =
            limit.attributes.iter().map(|(name, value)| (*name, value.as_str())).collect();
        self.check(&limit.namespace, &attributes, limit.cost)
    }
}

/// Makes a key for the hashes of this process. The standard library seeds its own hash tables from the system in the
/// same way, against the same attack: identifiers that were computed to share a place in the table.
fn random_secret() -> FleetSecret {
    let half = || RandomState::new().build_hasher().finish().to_le_bytes();
    let mut key = [0; 16];
    key[..8].copy_from_slice(&half());
    key[8..].copy_from_slice(&half());
    FleetSecret::new(key)
}

fn spawn_upkeep(engine: Arc<Engine>, clock: Arc<Clock>) -> std::io::Result<oneshot::Sender<()>> {
    let (stop, stopped) = oneshot::channel::<()>();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let upkeep = move || {
        runtime.block_on(async {
            tokio::select! {
                () = run_upkeep(engine, clock) => {}
                _ = stopped => {}
            }
        });
    };
    std::thread::Builder::new().name("tidegate".to_owned()).spawn(upkeep)?;
    Ok(stop)
}
