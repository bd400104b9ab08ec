//! What must hold once nothing goes wrong any more: nodes know each other, the store counts everything, a node that
//! joins now gets what a perfect limiter would give it, and a denial is right.

use crate::scenario::{Arrival, LimitUse, Template};
use crate::simulation::{RequestResult, Simulation};
use crate::trace::AnswerPath;
use tidegate_core::{Accuracy, Nanos};

/// A node's clock may drift by 500 millionths, and is slewed by as many.
const CLOCKS_RUN_APART: u64 = 1_000;
/// Nodes of a region know of each other, and of their store, so long after the last fault.
const HEALS_WITHIN: Nanos = Nanos::from_secs(15);
/// A node that joins is known so soon.
const JOINS_WITHIN: Nanos = Nanos::from_secs(2);
const ANSWERED_WITHIN: Nanos = Nanos::from_millis(100);
/// A caller who is told to wait for longer isn't waited for.
const WAITS_AT_MOST: Nanos = Nanos::from_secs(120);
/// A node gets ever smaller parts of what is left.
const LEASES_WAITED_FOR: u32 = 3;
/// No wait for a lease is longer: one unit of the slowest bucket refills meanwhile.
const LEASE_WAITS: Nanos = Nanos::from_secs(1);
/// So many requests spend what is left of a limit.
const STEPS: u64 = 12;

type Checked = Result<(), String>;

pub(super) fn run(simulation: &mut Simulation, ends: Nanos) -> Checked {
    // Who stands still goes on by itself, at its time.
    let ends = ends.max(simulation.last_pause_ends());
    simulation.run_until(ends);
    simulation.calm(ends);
    simulation.run_until(ends.plus(HEALS_WITHIN));
    if simulation.is_anothers() {
        return Ok(());
    }
    nodes_know_each_other(simulation)?;
    simulation.is_conserved()?;
    simulation.is_not_stranded()?;
    simulation.answers = Some(Vec::new());
    let cold = simulation.add_node();
    simulation.run_until(simulation.now().plus(JOINS_WITHIN));
    for key in 0..simulation.keys().len() {
        for node in simulation.serving_nodes().into_iter().filter(|node| *node != cold) {
            is_spent_rightly(simulation, key, node)?;
        }
        spend_what_is_left(simulation, key, cold)?;
        for node in simulation.serving_nodes() {
            is_denied_rightly(simulation, key, node)?;
        }
    }
    Ok(())
}

fn nodes_know_each_other(simulation: &Simulation) -> Checked {
    let nodes = simulation.serving_nodes();
    for node in &nodes {
        let known = simulation.live_nodes(*node);
        if usize::try_from(known) != Ok(nodes.len()) {
            return Err(format!("liveness: node {node} knows of {known} nodes of {}", nodes.len()));
        }
    }
    Ok(())
}

/// A node that denies by itself does so because nothing is left.
fn is_spent_rightly(simulation: &mut Simulation, key: usize, node: usize) -> Checked {
    let left = simulation.left(key).saturating_sub(simulation.withheld(key));
    let is_judged = simulation.is_judged(key) && simulation.keys()[key].accuracy != Accuracy::Fast;
    if !is_judged || left <= simulation.rounding(key) || !simulation.denies_alone(node, key) {
        return Ok(());
    }
    let template = simulation.add_template(Template::of(key, 1));
    if ask(simulation, node, template)?.allowed || simulation.keys()[key].is_hot {
        return Ok(());
    }
    let epochs = simulation.epochs(node, key);
    Err(format!("a denial that is wrong: node {node} denies key {key}, of which {left} are left{epochs}"))
}

/// A node that knows nothing spends what a perfect limiter has left, and is denied then. That it gets no more is what
/// the oracle of overshoot sees to.
fn spend_what_is_left(simulation: &mut Simulation, key: usize, cold: usize) -> Checked {
    let left = simulation.left(key);
    let cost = (left / STEPS).max(1);
    let template = simulation.add_template(Template::of(key, cost));
    let mut admitted = 0;
    for _ in 0..=2 * STEPS {
        let answer = ask_patiently(simulation, cold, template)?;
        if !answer.allowed {
            break;
        }
        admitted += cost;
    }
    let unspent = left.saturating_sub(admitted);
    // What is denied is charged too: a hot key is denied early, and each of those tries has used up its cost.
    let is_charged_anyway = simulation.keys()[key].charges_always;
    let unspent = if is_charged_anyway { unspent.min(simulation.left(key)) } else { unspent };
    let missing =
        unspent.saturating_sub(cost).saturating_sub(simulation.withheld(key) + simulation.rounding(key));
    if missing > 0 && simulation.is_judged(key) {
        return Err(format!("a cold node got {admitted} of the {left} that were left of key {key}"));
    }
    Ok(())
}

/// A denial is right by the newest reset and limit, and who waits as long as it says is admitted.
fn is_denied_rightly(simulation: &mut Simulation, key: usize, node: usize) -> Checked {
    let template = simulation.add_template(Template::of(key, 1));
    // Before the request: what refills while it is answered doesn't count.
    let left_before = simulation.left(key).saturating_sub(simulation.withheld(key));
    let is_overshot = simulation.is_overshot(key);
    let is_judged = simulation.is_judged(key) && (!is_overshot || simulation.judges_overshot());
    let answer = ask(simulation, node, template)?;
    // A first try that wasn't verified may have spent what was left.
    let left = left_before.min(simulation.left(key).saturating_sub(simulation.withheld(key)));
    let is_fast = simulation.keys()[key].accuracy == Accuracy::Fast;
    if answer.allowed || is_fast || !is_judged {
        return Ok(());
    }
    if left > simulation.rounding(key) && !simulation.keys()[key].is_hot {
        let epochs = simulation.epochs(node, key);
        return Err(format!(
            "a denial that is wrong: node {node} denies key {key}, of which {left} are left{epochs}"
        ));
    }
    let too_long =
        simulation.longest_wait(key).zip(answer.retry_after).filter(|(longest, wait)| wait > longest);
    if let Some((longest, wait)) = too_long {
        return Err(format!(
            "a denial that is wrong: node {node} tells a caller of key {key} to wait for {} ms, and an empty bucket takes {} ms",
            wait.as_millis_ceil(),
            longest.as_millis_ceil()
        ));
    }
    if simulation.keys()[key].charges_always {
        // What is denied is charged too: who comes back makes its own wait longer.
        return Ok(());
    }
    // A node doesn't know by how much others went beyond a limit. Who comes back makes it ask, and is told the rest.
    let waits = if is_overshot { 2 } else { 1 };
    is_admitted_after_waiting(simulation, node, template, answer, waits)
}

/// Who waits as long as it is told, at most so many times, is admitted.
fn is_admitted_after_waiting(
    simulation: &mut Simulation,
    node: usize,
    template: usize,
    denied: RequestResult,
    waits: u32,
) -> Checked {
    let Some(wait) = denied.retry_after.filter(|wait| *wait <= WAITS_AT_MOST) else { return Ok(()) };
    // Callers are told whole milliseconds. Their clocks and the node's don't run alike.
    let waited = Nanos::new(wait.get() + wait.get() / CLOCKS_RUN_APART);
    simulation.run_until(denied.at.plus(Nanos::from_millis(waited.as_millis_ceil())));
    let again = ask_patiently(simulation, node, template)?;
    if again.allowed {
        return Ok(());
    }
    if waits > 1 {
        return is_admitted_after_waiting(simulation, node, template, again, waits - 1);
    }
    let (key, wait_ms) = (simulation.key_of(template), wait.as_millis_ceil());
    Err(format!(
        "a denial that is wrong: node {node} told a caller of key {key} to wait for {wait_ms} ms, and denies it then"
    ))
}

/// The same for a key that is hot: it is denied up to 100 ms early, while its node waits for the next lease.
fn ask_patiently(simulation: &mut Simulation, node: usize, template: usize) -> Result<RequestResult, String> {
    let mut answer = ask(simulation, node, template)?;
    let is_hot = simulation.keys()[simulation.key_of(template)].is_hot;
    for _ in 0..LEASES_WAITED_FOR {
        let wait = answer.retry_after.filter(|wait| *wait <= LEASE_WAITS);
        let Some(wait) = wait.filter(|_| is_hot && !answer.allowed) else { break };
        simulation.run_until(answer.at.plus(wait).max(simulation.now()));
        answer = ask(simulation, node, template)?;
    }
    Ok(answer)
}

/// One request, and its answer. A node that finds out by asking that its store has lost the key isn't verified that once.
fn ask(simulation: &mut Simulation, node: usize, template: usize) -> Result<RequestResult, String> {
    match ask_once(simulation, node, template) {
        Err(_) => ask_once(simulation, node, template),
        answer => answer,
    }
}

fn ask_once(simulation: &mut Simulation, node: usize, template: usize) -> Result<RequestResult, String> {
    let refused_before = simulation.refused_keys();
    simulation.inject_request(Arrival { at: simulation.now(), node, template });
    simulation.run_until(simulation.now().plus(ANSWERED_WITHIN));
    let answers = simulation.answers.replace(Vec::new()).unwrap_or_default();
    let Some(answer) = answers.first().copied() else {
        return Err(format!("liveness: node {node} answers nothing"));
    };
    // A table that has room for two keys only may be full: who finds it so is decided by its class.
    let is_refused = simulation.refused_keys() > refused_before;
    if answer.path == AnswerPath::Unverified && !is_refused {
        let key = simulation.key_of(template);
        let health = simulation.health_of(node, key);
        return Err(format!(
            "liveness: node {node} can't ask about key {key} ({health}), and nothing is wrong any more"
        ));
    }
    Ok(answer)
}

impl Template {
    fn of(key: usize, cost: u64) -> Self {
        Template { limits: smallvec::smallvec![LimitUse { key, cost }], is_report: false }
    }
}
