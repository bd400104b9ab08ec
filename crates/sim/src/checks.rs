//! What every step must satisfy, whatever went wrong before it: the invariants of docs/design.md.
//!
//! Compares what nodes and the store believe with what really happened. A check returns what is violated, and
//! never changes anything but the books that it keeps.

use crate::Fault;
use crate::ledger::{Admission, KeyLedger};
use crate::node::{KeyView, SimulatedNode};
use crate::oracle::{How, Oracle, Unit};
use crate::origin::{SimulatedOrigin, taken};
use crate::scenario::{Audit, KeyPlan, Scenario, Template};
use crate::trace::AnswerPath;
use crate::truth::{ComponentView, KeyTruth};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};
use tidegate_core::counts::Counts;
use tidegate_core::exchange::{CountReply, CountSync, KeyReply, KeySync};
use tidegate_core::origin_cell::NodeId;
use tidegate_core::{KeyId, Nanos, Sequence};
use tidegate_node::GivenPolicy;
use tidegate_node::region::OutgoingExchange;
use tidegate_origin::{Exchange, ExchangeReply};

mod bounds;

pub(crate) use bounds::Bounds;

type Checked = Result<(), String>;
/// What a node knew of a request's keys before it was decided, in the order of `Auditor::uses`.
pub(crate) type Views = SmallVec<[KeyView; 5]>;

#[derive(Debug)]
pub(crate) struct Auditor {
    pub(crate) ledgers: Vec<KeyLedger>,
    truths: Vec<KeyTruth>,
    plans: Vec<KeyPlan>,
    ids: Vec<KeyId>,
    by_id: BTreeMap<KeyId, usize>,
    /// For each template, its keys and what it costs of each.
    uses: Vec<Uses>,
    bounds: Bounds,
    oracle: Oracle,
    has_resets: bool,
    is_off: bool,
}

/// The keys of a request, and what it costs of each.
type Uses = SmallVec<[(usize, u64); 5]>;

impl Auditor {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        if scenario.audit == Audit::CountsOnly {
            return Auditor {
                ledgers: Vec::new(),
                truths: Vec::new(),
                plans: Vec::new(),
                ids: Vec::new(),
                by_id: BTreeMap::new(),
                uses: Vec::new(),
                bounds: Bounds::of(scenario),
                oracle: Oracle::new(
                    &Scenario { keys: Vec::new(), ..scenario.clone() },
                    &Bounds::of(scenario),
                ),
                has_resets: has_resets(scenario),
                is_off: true,
            };
        }
        let ids: Vec<KeyId> = scenario.keys.iter().map(KeyPlan::id).collect();
        let bounds = Bounds::of(scenario);
        Auditor {
            ledgers: scenario.keys.iter().map(KeyLedger::new).collect(),
            truths: scenario.keys.iter().map(KeyTruth::new).collect(),
            plans: scenario.keys.clone(),
            by_id: ids.iter().enumerate().map(|(key, id)| (*id, key)).collect(),
            ids,
            uses: scenario.templates.iter().map(uses_of).collect(),
            oracle: Oracle::new(scenario, &bounds),
            bounds,
            has_resets: has_resets(scenario),
            is_off: false,
        }
    }

    /// Whether every call is answered before its request gives up, and nothing goes wrong.
    pub(crate) fn is_calm(&self) -> bool {
        self.bounds.is_calm
    }

    pub(crate) fn is_off(&self) -> bool {
        self.is_off
    }

    /// What was really spent of a cell, where granted is spent.
    pub(crate) fn spent(&self, key: KeyId, sequence: Sequence) -> u64 {
        self.by_id.get(&key).map_or(0, |key| self.truths[*key].total((0, sequence)))
    }

    pub(crate) fn views(&self, node: &SimulatedNode, template: usize) -> Views {
        if self.is_off {
            return Views::new();
        }
        self.uses[template].iter().map(|(key, _)| node.view(self.ids[*key])).collect()
    }

    /// A request passed, or had passed already.
    pub(crate) fn admitted(
        &mut self,
        node: &SimulatedNode,
        (index, template, is_report): (usize, usize, bool),
        path: AnswerPath,
        before: &Views,
        (origin, [now, store_now]): (&SimulatedOrigin, [Nanos; 2]),
    ) -> Checked {
        if self.is_off {
            return Ok(());
        }
        let how = match path {
            _ if is_report => How::Reported,
            AnswerPath::Local => How::Local,
            AnswerPath::Asked => How::Asked,
            AnswerPath::Unverified => How::Unverified,
        };
        let node_now = node.moment(now).now;
        for position in 0..self.uses[template].len() {
            let (key, cost) = self.uses[template][position];
            if cost == 0 {
                continue;
            }
            let after = node.view(self.ids[key]);
            let prepaid = cost.saturating_sub(grown(&before[position], &after).unwrap_or(cost));
            let cell = after.cells().next().map(|(sequence, _)| sequence);
            self.truths[key].admit(node.id, (cost, prepaid), (after.epoch, cell), node_now);
            let admission = Admission { at: now, node: index, cost, path };
            let shown = self.ledgers[key].admit(admission, node.id, node_now);
            self.bounds.check(key, &self.plans[key], shown.1)?;
            let on_credit = match cell {
                Some(sequence) => {
                    let before = component_before(&before[position], &after, sequence);
                    component_in(&after, sequence).saturating_sub(before)
                }
                None => cost - prepaid,
            };
            let unit = Unit {
                node: node.id,
                cost,
                on_credit,
                how,
                is_untold: node.sharing().table.state(self.ids[key]).is_none(),
                epoch: after.epoch,
                is_behind: origin.epoch(self.ids[key]) > after.epoch,
                sequence: cell,
                follows_store: node.follows_store(now, store_now),
                has_unpublished: has_unpublished(&before[position]),
                now: store_now,
                store_is_whole: origin.is_whole(self.ids[key]),
            };
            self.oracle.admitted(key, &unit)?;
            self.believed_of(node, key, &after)?;
        }
        Ok(())
    }

    pub(crate) fn denied(&mut self, node: &SimulatedNode, template: usize, before: &Views) -> Checked {
        if self.is_off {
            return Ok(());
        }
        for (key, _) in &self.uses[template] {
            self.ledgers[*key].denied += 1;
        }
        self.nothing_changed(node, template, before)
    }

    /// INV-4: nothing that anybody else will hear of was consumed.
    pub(crate) fn nothing_changed(&self, node: &SimulatedNode, template: usize, before: &Views) -> Checked {
        if self.is_off {
            return Ok(());
        }
        for ((key, _), before) in self.uses[template].iter().zip(before) {
            let after = node.view(self.ids[*key]);
            let is_evicted = after.counts.is_none() && !self.bounds.is_roomy;
            // A state follows a clock's step when it is next looked at.
            if self.bounds.clocks_are_steady && !is_evicted && !self.is_unchanged(before, &after) {
                return Err(format!("INV-4: a request that didn't pass left {after:?} of {before:?}"));
            }
        }
        Ok(())
    }

    fn is_unchanged(&self, before: &KeyView, after: &KeyView) -> bool {
        match (&before.counts, &after.counts) {
            (Some(CountSync::Gcra { sync: before, .. }), Some(CountSync::Gcra { sync: after, .. })) => {
                // A debt may be forgiven by looking at it; it never grows, unless another rate, or another part of one,
                // holds: then the same debt takes longer to come back.
                let is_another_rate = after.rate != before.rate || self.bounds.has_world;
                (after.cumulative, after.acked) == (before.cumulative, before.acked)
                    && (after.busy.tat <= before.busy.tat || is_another_rate)
            }
            _ => before == after,
        }
    }

    /// A node heard from the origin about some keys of which it believed `before`. INV-3 holds still.
    pub(crate) fn check_views(&mut self, node: &SimulatedNode, keys: &[KeyId], before: &Views) -> Checked {
        for (id, before) in keys.iter().zip(before) {
            let Some(key) = self.by_id.get(id).copied() else { continue };
            let after = node.view(*id);
            self.remembered(node, key, before, &after)?;
            self.believed_of(node, key, &after)?;
        }
        Ok(())
    }

    /// A node that had forgotten what it published takes it for its own again; also what it was granted and
    /// never heard of. That is as good as spent.
    fn remembered(&mut self, node: &SimulatedNode, key: usize, before: &KeyView, after: &KeyView) -> Checked {
        for (sequence, counts) in after.cells() {
            let known_before = before.cells().filter(|_| before.epoch == after.epoch);
            let own_before =
                known_before.into_iter().find(|(number, _)| *number == sequence).map_or(0, |cell| cell.1.own);
            if counts.own == own_before {
                continue;
            }
            if counts.own < own_before {
                // What waited for the answer is asked for at once, of a state that is carried over the clock's step
                // then: that holds what it counted beside its component.
                let has_stepped = !self.bounds.clocks_are_steady;
                let shrank =
                    format!("INV-1: {:?} has {} of key {key}, after {own_before}", node.id, counts.own);
                if has_stepped { continue } else { return Err(shrank) }
            }
            let asks = |call: &&OutgoingExchange| {
                let mut syncs = call.exchange.syncs.iter();
                syncs.any(|sync| sync.key == self.ids[key] && !sync.request.asks.is_empty())
            };
            // What a store granted that may have lost data is forfeited: the node counts it as its own.
            let state = node.sharing().table.state(self.ids[key]);
            let may_forfeit = state.is_some_and(|state| state.is_unconfirmed());
            // An entry that was dropped while calls were in flight can't know better.
            if self.bounds.is_roomy && !may_forfeit && node.calls.values().any(|call| asks(&&call.outgoing)) {
                return Err(format!(
                    "INV-2: {:?} asks twice about key {key}, of which it knows nothing",
                    node.id
                ));
            }
            let Some(truth) = self.truths[key].cell_mut((after.epoch, sequence)) else { continue };
            let (more, granted) = (counts.own - own_before, truth.granted(node.id));
            if self.bounds.is_roomy && self.bounds.clocks_are_steady && more > granted {
                let who = node.id;
                return Err(format!(
                    "INV-2: {who:?} counts {more} of key {key} again, and was granted {granted}"
                ));
            }
            truth.remember(node.id, counts.own);
        }
        Ok(())
    }

    fn believed_of(&self, node: &SimulatedNode, key: usize, view: &KeyView) -> Checked {
        let truth = &self.truths[key];
        // A bucket that was reset has an entry without any cell, which shows as cell 0 and the one before: what a clock step
        // moves in it are instants.
        let is_cell = |(sequence, _): &(Sequence, Counts)| (1..u64::MAX).contains(&sequence.0);
        for (sequence, counts) in view.cells().filter(is_cell) {
            // What was carried over a clock's step is held beside the region's counts.
            // Of the other regions the world's books know.
            let is_own = self.bounds.clocks_are_steady && !self.bounds.has_world;
            let carried = if is_own { 0 } else { counts.world };
            let (believed, total) = (counts.effective() - carried, truth.total((view.epoch, sequence)));
            if believed > total {
                let who = node.id;
                return Err(format!(
                    "INV-3: {who:?} believes in {believed} in {sequence:?} of key {key}, and {total} is true"
                ));
            }
        }
        let tat = truth.tat(view.epoch);
        match &view.counts {
            Some(CountSync::Gcra { sync, .. }) if self.bounds.buckets_are_exact && sync.busy.tat > tat => {
                let (who, believed) = (node.id, sync.busy.tat);
                Err(format!("INV-3: {who:?} believes in {believed:?} for key {key}, and {tat:?} is true"))
            }
            _ => Ok(()),
        }
    }

    /// INV-2: a node publishes no more than it admitted or was granted.
    pub(crate) fn may_be_sent(&self, exchange: &Exchange) -> Checked {
        for sync in &exchange.syncs {
            let (Some(key), CountSync::Window(window)) = (self.by_id.get(&sync.key), &sync.counts) else {
                continue;
            };
            let spent = self.truths[*key].of(exchange.node, (sync.epoch, window.sequence));
            if window.current.component > spent {
                let (who, sent) = (exchange.node, window.current.component);
                return Err(format!("INV-2: {who:?} publishes {sent} of key {key}, and spent {spent}"));
            }
        }
        Ok(())
    }

    /// Takes what the store granted into the books; then nothing in the store may exceed them.
    pub(crate) fn executed(
        &mut self,
        exchange: &Exchange,
        exchanged: &ExchangeReply,
        nodes: &[SimulatedNode],
        now: Nanos,
    ) -> Checked {
        for (sync, reply) in exchange.syncs.iter().zip(&exchanged.replies) {
            let Some(key) = self.by_id.get(&sync.key).copied() else { continue };
            match reply {
                Ok(reply) => {
                    self.oracle.synced(key, exchange.node, sync, reply);
                    self.replied(key, exchange.node, sync, reply, now)?;
                    if reply.drawn > 0 || reply.granted.contains(&true) {
                        self.oracle.granted(key, exchange.node, reply.epoch, nodes);
                    }
                }
                Err(error) => return Err(format!("the store can't read key {key}: {error}")),
            }
        }
        Ok(())
    }

    fn replied(&mut self, key: usize, node: NodeId, sync: &KeySync, reply: &KeyReply, now: Nanos) -> Checked {
        let truth = &mut self.truths[key];
        match (&sync.counts, &reply.counts) {
            (CountSync::Window(sent), CountReply::Window { current, previous, .. }) => {
                let before = Sequence(sent.sequence.0.wrapping_sub(1));
                let cells = [Some((sent.sequence, *current)), previous.map(|previous| (before, previous))];
                for (sequence, cell) in cells.into_iter().flatten() {
                    let Some(truth) = truth.cell_mut((reply.epoch, sequence)) else { continue };
                    let taken = if sequence == sent.sequence { taken(sync, reply) } else { 0 };
                    truth.store(node, cell.component, taken);
                    if !self.bounds.is_roomy {
                        truth.grant_anew(taken);
                    }
                    if cell.total > truth.total() {
                        let (stored, total) = (cell.total, truth.total());
                        return Err(format!(
                            "INV-4: the store has {stored} in {sequence:?} of key {key}, and {total} is true"
                        ));
                    }
                }
            }
            (CountSync::Gcra { .. }, CountReply::Gcra { busy, .. }) => {
                truth.spend(reply.epoch, taken(sync, reply), now);
                let tat = truth.tat(reply.epoch);
                if self.bounds.buckets_are_exact && busy.tat > tat {
                    let stored = busy.tat;
                    return Err(format!("INV-4: the store has {stored:?} of key {key}, and {tat:?} is true"));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// A key was reset in the store.
    pub(crate) fn was_reset(&mut self, key: usize, reset: (u16, Option<u64>), is_whole: bool, now: Nanos) {
        if !self.is_off {
            self.oracle.was_reset(key, reset, is_whole, now);
        }
    }

    pub(crate) fn reset_is_sent(&mut self, key: KeyId, epoch: u16) {
        self.oracle.reset_is_sent(key, epoch);
    }

    /// Whether nodes need to ask which keys were reset.
    pub(crate) fn has_resets(&self) -> bool {
        self.has_resets
    }

    pub(crate) fn add_template(&mut self, template: &Template) {
        self.uses.push(uses_of(template));
    }

    pub(crate) fn oracle(&self) -> &Oracle {
        &self.oracle
    }

    pub(crate) fn oracle_mut(&mut self) -> &mut Oracle {
        &mut self.oracle
    }

    pub(crate) fn record_lost_resets(
        &mut self,
        nodes: &[SimulatedNode],
        origin: &SimulatedOrigin,
        now: Nanos,
    ) {
        if self.has_resets && !self.is_off {
            self.oracle.record_lost_resets(nodes, origin, now);
        }
    }

    /// A node died: what only it knew is lost.
    pub(crate) fn node_died(&mut self, nodes: &[SimulatedNode], origin: &SimulatedOrigin, now: Nanos) {
        self.oracle.record_loss(nodes, origin, &BTreeSet::new(), now);
    }

    /// Once all is calm: the store counts everything that isn't lost.
    pub(crate) fn is_conserved(
        &self,
        nodes: &[SimulatedNode],
        origin: &SimulatedOrigin,
        now: Nanos,
    ) -> Checked {
        self.oracle.is_conserved(nodes, origin, now)
    }

    /// The store lost what it had not told yet.
    pub(crate) fn store_lost_data(
        &mut self,
        nodes: &[SimulatedNode],
        origin: &SimulatedOrigin,
        standing_still: &BTreeSet<NodeId>,
        now: Nanos,
    ) {
        self.oracle.record_loss(nodes, origin, standing_still, now);
        let node_of = |id| nodes.iter().find(|node| node.id == id && node.is_up);
        for (truth, key) in self.truths.iter_mut().zip(&self.ids) {
            truth.lapse(|id, cell| {
                if !self.bounds.clocks_are_steady {
                    return ComponentView::ANYTHING;
                }
                // Who is dead or has left a cell behind is granted nothing in it, and may have sent something.
                node_of(id).and_then(|node| node.known(*key, cell)).unwrap_or(ComponentView::ALL)
            });
        }
    }
}

/// Whether a scenario resets keys.
fn has_resets(scenario: &Scenario) -> bool {
    let mut faults = scenario.faults.iter();
    faults.any(|(_, fault)| matches!(fault, Fault::Reset { .. } | Fault::ResetIsOrdered { .. }))
}

fn uses_of(template: &Template) -> Uses {
    let mut costs = BTreeMap::<usize, u64>::new();
    for limit in &template.limits {
        *costs.entry(limit.key).or_default() += limit.cost;
    }
    costs.into_iter().collect()
}

/// Whether a node has units of a bucket to publish. One that was never answered doesn't say how many.
fn has_unpublished(view: &KeyView) -> bool {
    match &view.counts {
        Some(CountSync::Gcra { sync, .. }) => sync.cumulative > sync.acked || sync.busy.tat == Nanos::ZERO,
        _ => false,
    }
}

/// What a node publishes of a cell as its own.
fn component_in(view: &KeyView, sequence: Sequence) -> u64 {
    view.cells().find(|(number, _)| *number == sequence).map_or(0, |(_, counts)| counts.component())
}

fn component_before(before: &KeyView, after: &KeyView, sequence: Sequence) -> u64 {
    if before.epoch == after.epoch { component_in(before, sequence) } else { 0 }
}

/// By how much a node's component grew; `None` when it doesn't know its component.
fn grown(before: &KeyView, after: &KeyView) -> Option<u64> {
    let (Some(CountSync::Gcra { sync: before, .. }), Some(CountSync::Gcra { sync: after, .. })) =
        (before.counts, after.counts)
    else {
        return None;
    };
    (after.cumulative > 0).then(|| after.cumulative.saturating_sub(before.cumulative))
}

impl KeyPlan {
    /// What may be drawn ahead of the refill by one call.
    pub(crate) fn drawn_ahead(&self) -> u64 {
        let refill = |units: u64, period: Nanos| {
            u64::try_from(u128::from(units) * 10_000_000 / u128::from(period.get().max(1))).unwrap_or(0)
        };
        match self.policy {
            GivenPolicy::Sliding { limit, period } => refill(limit.get(), period.length()),
            GivenPolicy::Fixed { .. } => 0,
            GivenPolicy::Gcra { rate, .. } => {
                refill(rate.interval_denominator(), Nanos::new(rate.interval_numerator_ns()))
            }
        }
    }
}
