//! A region whose store loses its data and whose key is reset, with a third node that joins last.
//!
//! Two nodes and their store share one key of a fixed window. Requests, publishes, replies, timeouts, crashes, a reset,
//! a pause, a data loss and the third node's start come in every order. The real states and the real store take the
//! steps; `recovery/ledger.rs` records what really happened, and `recovery/judge.rs` compares the two.
//! `recovery/known_failures.rs` lists what the protocol still gets wrong, and has the tests: start reading there.

mod judge;
mod known_failures;
mod ledger;
mod step;

use known_failures::Combination;
use ledger::Ledger;
use smallvec::{SmallVec, smallvec};
use tidegate_core::exchange::{CountReply, CountSync, GrantRequest, KeyReply, KeySync};
use tidegate_core::origin_cell::NodeId;
use tidegate_core::state::{PublishUrgency, State as _};
use tidegate_core::{
    Accuracy, Class, Cost, Item, KeyId, Limit, Nanos, Period, Sequence, SharedState, Spec, StepId,
};
use tidegate_origin::{Exchange, Expiry, Grant, OriginStore};

const PERIOD: Nanos = Nanos::from_secs(60);
/// Within the first cell. No step leaves it.
const START: Nanos = Nanos::from_secs(60 * 1_000_000 + 1);
const FRESH_FOR: Nanos = Nanos::from_secs(5);
/// Longer than a reset is announced with heartbeats, which is 20 s.
const PAUSE: Nanos = Nanos::from_secs(21);
const NODES: usize = 3;
/// The node that joins last.
const LAST: usize = 2;
/// The control plane's number of the one reset.
const RESET_ORDER: u64 = 1;

/// How often each event may happen, all nodes together.
#[derive(Clone, Copy, Debug)]
struct Scope {
    limit: u64,
    accuracy: Accuracy,
    class: Class,
    requests: u8,
    timeouts: u8,
    crashes: u8,
    data_losses: u8,
    resets: u8,
    pauses: u8,
    joins: u8,
}

#[derive(Clone, Debug)]
struct Call {
    number: u8,
    sent: KeySync,
    sent_at: Nanos,
    /// A request waits for it.
    is_ask: bool,
}

#[derive(Clone, Debug)]
struct Node {
    /// Of this incarnation; 0 before it has started.
    id: u64,
    state: SharedState,
    call: Option<Call>,
    calls: u8,
}

impl Node {
    fn started(id: u64) -> Self {
        Node { id, state: cold(), call: None, calls: 0 }
    }

    fn is_up(&self) -> bool {
        self.id > 0
    }

    /// The node has an entry of the key.
    fn has_entry(&self) -> bool {
        self.state != cold()
    }
}

/// On its way to the store.
#[derive(Clone, Debug)]
struct Message {
    node: usize,
    id: u64,
    number: u8,
    sync: KeySync,
}

#[derive(Clone, Debug)]
struct Answer {
    node: usize,
    reply: KeyReply,
}

/// The region in one state.
#[derive(Clone, Debug)]
struct Region {
    scope: Scope,
    /// Orders of events that the search doesn't take.
    left_out: Vec<Combination>,
    now: Nanos,
    nodes: [Node; NODES],
    store: OriginStore,
    messages: Vec<Message>,
    answers: Vec<Answer>,
    /// The epoch of the last reset, while heartbeats still announce it.
    announced: Option<u16>,
    ledger: Ledger,
    last_id: u64,
    /// What a step did wrong.
    wrong: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Admitted,
    Denied,
    MustAsk,
}

/// The state of a key on a node that has no entry of it.
fn cold() -> SharedState {
    SharedState::begun(StepId::default(), true)
}

fn key() -> KeyId {
    KeyId::from_hash(7)
}

fn period() -> Period {
    Period::new(PERIOD).unwrap()
}

/// The one cell of the search.
fn sequence() -> Sequence {
    period().cell_at(START).sequence
}

/// Returns the region's total and the node's component of a reply.
fn counted(reply: &KeyReply) -> (u64, u64) {
    let CountReply::Window { current, .. } = reply.counts else { unreachable!("the key has a window") };
    (current.total, current.component)
}

impl Region {
    fn new(scope: Scope, left_out: Vec<Combination>) -> Self {
        let absent = Node { id: 0, ..Node::started(0) };
        Region {
            scope,
            left_out,
            now: START,
            nodes: [Node::started(1), Node::started(2), absent],
            store: OriginStore::default(),
            messages: Vec::new(),
            answers: Vec::new(),
            announced: None,
            ledger: Ledger::default(),
            last_id: 2,
            wrong: None,
        }
    }

    fn leaves_out(&self, combination: Combination) -> bool {
        self.left_out.contains(&combination)
    }

    fn item(&self) -> Item {
        let limit = Limit::new(self.scope.limit).unwrap();
        let spec = Spec::Fixed { limit, period: period() };
        let Scope { accuracy, class, .. } = self.scope;
        Item { accuracy, class, ..Item::new(key(), spec, Cost::ONE) }
    }

    fn live_nodes(&self) -> u32 {
        self.nodes.iter().map(|node| u32::from(node.is_up())).sum()
    }

    /// A reset that the node hasn't applied is still announced to it.
    fn is_behind(&self, node: &Node) -> bool {
        node.has_entry() && self.announced.is_some_and(|epoch| node.state.epoch() < epoch)
    }

    /// Which reset a node's admission comes after. One of a node that is still to receive the reset counts as made
    /// before it.
    fn generation_at(&self, node: &Node) -> u8 {
        let generation = self.ledger.generation;
        if self.is_behind(node) { generation - 1 } else { generation }
    }

    /// Decides as the engine does: on a copy, which replaces the state unless the region has to be asked first.
    fn decide(&mut self, node: usize, accuracy: Accuracy) -> Verdict {
        let item = Item { accuracy, ..self.item() };
        let mut after = self.nodes[node].state;
        let is_prepaid = after.prepaid(&item.spec, self.now) > 0;
        let (decision, reason) = after.decide(&item, self.live_nodes(), self.now);
        if decision.is_admitted() && reason.is_some() {
            return Verdict::MustAsk;
        }
        self.nodes[node].state = after;
        let generation = self.generation_at(&self.nodes[node]);
        if decision.is_admitted() {
            self.ledger.admitted(self.nodes[node].id, generation);
            self.ledger.credit += u64::from(accuracy == Accuracy::Bounded && !is_prepaid);
            Verdict::Admitted
        } else {
            if generation == self.ledger.generation {
                self.judge_denial(&format!("node {} denied by its own counts", self.nodes[node].id));
            }
            Verdict::Denied
        }
    }

    /// A request arrives, or continues after its grant arrived.
    fn request(&mut self, node: usize) {
        if self.decide(node, self.scope.accuracy) == Verdict::MustAsk {
            let counts = self.nodes[node].state.asking(&self.item().spec, 1, self.now);
            self.send(node, counts, GrantRequest { asks: smallvec![1], ..GrantRequest::default() });
        }
    }

    /// A request is decided by its class, because nobody answered for it.
    fn decide_unverified(&mut self, node: usize) -> Verdict {
        match self.scope.class {
            Class::Abuse => Verdict::Denied,
            Class::Paid | Class::Free => self.decide(node, Accuracy::Async),
        }
    }

    fn send(&mut self, node: usize, counts: CountSync, request: GrantRequest) {
        let sent_at = self.now;
        let is_ask = !request.asks.is_empty();
        let Node { id, state, call, calls } = &mut self.nodes[node];
        *calls += 1;
        let sync =
            KeySync { key: key(), epoch: state.epoch(), counts, request, ended_holds: SmallVec::new() };
        *call = Some(Call { number: *calls, sent: sync.clone(), sent_at, is_ask });
        self.messages.push(Message { node, id: *id, number: *calls, sync });
        // One order for all ways that lead to the same messages.
        self.messages.sort_by_key(|message| (message.id, message.number));
    }

    /// When a cell expires isn't told apart by how long its message was on its way: no step leaves the cell.
    fn exchange(&mut self, id: u64, sync: &KeySync) -> KeyReply {
        let syncs = vec![sync.clone()];
        let exchange =
            Exchange { node: NodeId(id), now: self.now, syncs, grant: Grant::Each, reads_record: false };
        self.store.exchange(&exchange, self.now).replies.remove(0).expect("the store executes it")
    }

    fn execute(&mut self, message: &Message) {
        let Message { node, id, number, ref sync, .. } = *message;
        let reply = self.exchange(id, sync);
        self.ledger.stored(id, counted(&reply).1);
        let is_refused = reply.granted.first() == Some(&false) && reply.epoch == sync.epoch;
        if is_refused {
            self.judge_denial(&format!("the store refused node {id}"));
        }
        let Node { id: current_id, ref call, .. } = self.nodes[node];
        // A reply that nobody waits for any more is dropped.
        if current_id == id && call.as_ref().is_some_and(|call| call.number == number) {
            self.answers.push(Answer { node, reply });
            self.answers.sort_by_key(|answer| answer.node);
        }
    }

    fn deliver(&mut self, answer: &Answer) {
        let node = answer.node;
        let reply = &answer.reply;
        let Call { sent, sent_at, is_ask, .. } =
            self.nodes[node].call.take().expect("a reply belongs to a call");
        self.merge(node, &sent, reply, sent_at);
        if !is_ask {
            return;
        }
        if reply.granted.first() == Some(&true) {
            self.request(node);
        } else if reply.epoch > sent.epoch && self.decide_unverified(node) == Verdict::Denied {
            self.judge_denial(&format!("node {} denied, though the store answered", self.nodes[node].id));
        }
    }

    fn merge(&mut self, node: usize, sent: &KeySync, reply: &KeyReply, sent_at: Nanos) {
        let fresh_until = self.now.plus(FRESH_FOR);
        let merged = self.nodes[node].state.merge(sent, reply, sent_at, Some(fresh_until));
        merged.expect("a store's reply is plausible");
    }

    /// The node's call timed out: its request is decided unverified.
    fn time_out(&mut self, node: usize) {
        let Some(call) = self.nodes[node].call.take() else { return };
        self.answers.retain(|answer| answer.node != node);
        if call.is_ask && self.decide_unverified(node) == Verdict::Admitted {
            self.ledger.unverified += 1;
        }
    }

    fn publish(&mut self, node: usize) {
        if let Some(counts) = self.nodes[node].state.publishing() {
            self.send(node, counts, GrantRequest::default());
        }
    }

    /// The node ends, and another one starts in its place.
    fn crash(&mut self, node: usize) {
        self.answers.retain(|answer| answer.node != node);
        self.last_id += 1;
        self.nodes[node] = Node::started(self.last_id);
        self.account_lost();
    }

    /// The store loses everything. Unless idle keys are searched, every node publishes what it knows at once, as it
    /// would for a key that is busy.
    fn lose_data(&mut self) {
        self.store.clear();
        self.announced = None;
        self.account_lost();
        if !self.leaves_out(Combination::IdleDataLoss) {
            return;
        }
        for node in 0..NODES {
            let Node { id, state, .. } = &self.nodes[node];
            let Some(counts) = state.publishing().filter(|_| *id > 0) else { continue };
            let (id, epoch) = (*id, state.epoch());
            let sync = KeySync {
                key: key(),
                epoch,
                counts,
                request: GrantRequest::default(),
                ended_holds: SmallVec::new(),
            };
            let reply = self.exchange(id, &sync);
            self.merge(node, &sync, &reply, self.now);
        }
    }

    fn reset_expiry(&self) -> Expiry {
        Expiry { at: START.plus(PERIOD), now: self.now }
    }

    /// A node carries the reset out. Others learn of it from heartbeats, or from replies.
    fn reset(&mut self, node: usize) {
        let known = self.nodes[node].state.epoch();
        let epoch = self.store.reset_once(key(), known, self.reset_expiry(), RESET_ORDER, self.now);
        self.announced = Some(epoch);
        self.ledger.reset(epoch);
        self.apply_reset(node);
    }

    /// A node without an entry of the key doesn't record the reset.
    fn apply_reset(&mut self, node: usize) {
        let Some(epoch) = self.announced else { return };
        let Node { state, .. } = &mut self.nodes[node];
        if *state != cold() && epoch > state.epoch() {
            *state = state.at_epoch(epoch);
        }
    }

    /// The third node starts. The control plane sends it the resets of the last day, as it does to every node.
    fn join(&mut self) {
        self.last_id += 1;
        self.nodes[LAST] = Node::started(self.last_id);
        if self.ledger.generation > 0 {
            let epoch = self.store.reset_once(key(), 0, self.reset_expiry(), RESET_ORDER, self.now);
            self.announced = self.announced.max(Some(epoch).filter(|epoch| *epoch > 0));
        }
    }

    /// So long that heartbeats no longer announce the reset.
    fn pause(&mut self) {
        self.now = self.now.plus(PAUSE);
        self.announced = None;
    }

    /// Nothing is on its way, and nobody has anything left to publish.
    fn is_drained(&self) -> bool {
        let is_idle = |node: &Node| {
            node.call.is_none() && node.state.publish() == PublishUrgency::Nothing && !self.is_behind(node)
        };
        self.messages.is_empty() && self.answers.is_empty() && self.nodes.iter().all(is_idle)
    }
}
