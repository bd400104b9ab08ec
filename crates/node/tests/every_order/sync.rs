//! Two nodes and their region's origin: publishing, asking, drawing ahead, and a cell that ends meanwhile.
//!
//! A call is out until its answer comes or the node gives it up; what was sent may be executed after that, or twice. A
//! node may crash and come back as another one, or drop its entry of the key and go on. Nobody gives anything back:
//! what a node held that is gone stays spent.

use crate::search::Protocol;
use crate::{breaks, holds};
use smallvec::{SmallVec, smallvec};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use tidegate_core::counts::{CellReply, Counts};
use tidegate_core::exchange::{CountReply, CountSync, GrantRequest, KeyReply, KeySync, LeaseRequest};
use tidegate_core::origin_cell::NodeId;
use tidegate_core::state::State as _;
use tidegate_core::{
    Accuracy, Class, Cost, Item, KeyId, Limit, Nanos, Period, Sequence, SharedState, Spec, StepId,
};
use tidegate_origin::{Exchange, Grant, OriginStore};

const PERIOD: Nanos = Nanos::from_secs(60);
/// Within the first cell; so is everything until it ends.
const START: Nanos = Nanos::from_secs(60 * 1_000_000 + 1);
const FRESH_FOR: Nanos = Nanos::from_secs(5);
const LIVE_NODES: u32 = 2;

/// How often each thing may happen, all nodes together.
#[derive(Clone, Debug)]
struct Scope {
    limit: u64,
    accuracy: Accuracy,
    requests: u8,
    draws: u8,
    repeats: u8,
    crashes: u8,
    evictions: u8,
    cells: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Flaw {
    None,
    /// A request whose ask came to nothing is admitted, where its rule says that nobody is.
    AdmitsUnverified,
}

#[derive(Clone, Debug)]
struct Call {
    number: u8,
    sent: KeySync,
    sent_at: Nanos,
    /// A request waits for it.
    is_waited_for: bool,
}

#[derive(Clone, Debug)]
struct Node {
    id: u64,
    state: SharedState,
    call: Option<Call>,
}

/// On its way to the origin, or executed there and kept to be executed again.
#[derive(Clone, Debug)]
struct Message {
    node: usize,
    id: u64,
    number: u8,
    sync: KeySync,
    sent_at: Nanos,
}

#[derive(Clone, Debug)]
struct Answer {
    node: usize,
    number: u8,
    reply: KeyReply,
}

/// What really happened, by node and cell.
#[derive(Clone, Debug, Default)]
struct Truth {
    admitted: BTreeMap<(u64, u64), u64>,
    granted: BTreeMap<(u64, u64), u64>,
    components: BTreeMap<(u64, u64), u64>,
    /// Nodes that dropped their entry.
    dropped: BTreeSet<u64>,
}

#[derive(Clone, Debug)]
struct Sync {
    scope: Scope,
    flaw: Flaw,
    now: Nanos,
    nodes: [Node; 2],
    origin: OriginStore,
    messages: Vec<Message>,
    answers: Vec<Answer>,
    truth: Truth,
    last_id: u64,
    last_call: u8,
}

#[derive(Clone, Debug)]
enum Step {
    Request {
        node: usize,
    },
    Draw {
        node: usize,
    },
    /// The origin executes a message, and answers.
    Execute {
        message: usize,
    },
    /// The same, and the message will come once more.
    ExecuteAndRepeat {
        message: usize,
    },
    Deliver {
        answer: usize,
    },
    GiveUp {
        node: usize,
    },
    Crash {
        node: usize,
    },
    Evict {
        node: usize,
    },
    CellEnds,
}

/// A node's state of a key that it has no entry of.
fn begun(remembers_all: bool) -> SharedState {
    SharedState::begun(StepId::default(), remembers_all)
}

fn key() -> KeyId {
    KeyId::from_hash(7)
}

impl Sync {
    fn new(scope: Scope, flaw: Flaw) -> Self {
        let node = |id| Node { id, state: begun(true), call: None };
        Sync {
            scope,
            flaw,
            now: START,
            nodes: [node(1), node(2)],
            origin: OriginStore::default(),
            messages: Vec::new(),
            answers: Vec::new(),
            truth: Truth::default(),
            last_id: 2,
            last_call: 0,
        }
    }

    fn item(&self) -> Item {
        let limit = Limit::new(self.scope.limit).unwrap();
        let spec = Spec::Fixed { limit, period: Period::new(PERIOD).unwrap() };
        Item { accuracy: self.scope.accuracy, class: Class::Abuse, ..Item::new(key(), spec, Cost::ONE) }
    }

    fn sequence(&self) -> Sequence {
        Period::new(PERIOD).unwrap().cell_at(self.now).sequence
    }

    /// Decides as the engine does: on a copy, which counts unless the region has to be asked first.
    fn request(&mut self, node: usize, accuracy: Accuracy) -> Decided {
        let item = Item { accuracy, ..self.item() };
        let mut after = self.nodes[node].state;
        let (decision, reason) = after.decide(&item, LIVE_NODES, self.now);
        if decision.is_admitted() && reason.is_some() {
            return Decided::MustAsk;
        }
        self.nodes[node].state = after;
        if !decision.is_admitted() {
            return Decided::Denied;
        }
        let cell = (self.nodes[node].id, self.sequence().0);
        *self.truth.admitted.entry(cell).or_default() += 1;
        Decided::Admitted
    }

    fn send(&mut self, node: usize, counts: CountSync, request: GrantRequest, is_waited_for: bool) {
        self.last_call += 1;
        let (number, sent_at) = (self.last_call, self.now);
        let sync = KeySync { key: key(), epoch: 0, counts, request, ended_holds: SmallVec::new() };
        let Node { id, call, .. } = &mut self.nodes[node];
        *call = Some(Call { number, sent: sync.clone(), sent_at, is_waited_for });
        self.messages.push(Message { node, id: *id, number, sync, sent_at });
    }

    fn execute(&mut self, message: &Message) {
        let mut sync = message.sync.clone();
        let CountSync::Window(window) = &mut sync.counts else { unreachable!("it is a window's") };
        let cell = (message.id, window.sequence.0);
        let exchange = Exchange {
            node: NodeId(message.id),
            now: message.sent_at,
            syncs: vec![sync.clone()],
            grant: Grant::Each,
            reads_record: false,
        };
        let reply = self.origin.exchange(&exchange, self.now).replies.remove(0).expect("it is executed");
        let CountReply::Window { current, previous, .. } = reply.counts else { unreachable!() };
        let granted = sync.request.asks.iter().zip(&reply.granted).filter(|(_, granted)| **granted);
        let granted = granted.map(|(cost, _)| cost).sum::<u64>() + reply.drawn;
        *self.truth.granted.entry(cell).or_default() += granted;
        self.stored(cell, current);
        if let Some(previous) = previous {
            self.stored((cell.0, cell.1 - 1), previous);
        }
        // What nobody waits for any more never arrives.
        let is_wanted =
            self.nodes[message.node].call.as_ref().is_some_and(|call| call.number == message.number);
        if is_wanted {
            self.answers.push(Answer { node: message.node, number: message.number, reply });
        }
    }

    fn stored(&mut self, cell: (u64, u64), reply: CellReply) {
        let component = self.truth.components.entry(cell).or_default();
        *component = reply.component.max(*component);
    }

    fn deliver(&mut self, answer: &Answer) {
        let node = answer.node;
        let call = self.nodes[node].call.take().expect("answers go with their calls");
        assert_eq!(call.number, answer.number, "answers go with their calls");
        self.answers.retain(|other| other.number != answer.number);
        let fresh_until = self.now.plus(FRESH_FOR);
        let merged = self.nodes[node].state.merge(&call.sent, &answer.reply, call.sent_at, Some(fresh_until));
        merged.expect("an origin's word is plausible");
        if call.is_waited_for && answer.reply.granted.first() == Some(&true) {
            // If another one spent it, or its cell is over, this class is denied.
            self.request(node, self.scope.accuracy);
        }
    }

    fn give_up(&mut self, node: usize) {
        let Some(call) = self.nodes[node].call.take() else { return };
        self.answers.retain(|answer| answer.number != call.number);
        if self.flaw == Flaw::AdmitsUnverified && call.is_waited_for {
            self.request(node, Accuracy::Async);
        }
    }

    fn replace(&mut self, node: usize) {
        self.nodes[node].call = None;
        self.answers.retain(|answer| answer.node != node);
        self.last_id += 1;
        self.nodes[node] = Node { id: self.last_id, state: begun(true), call: None };
    }

    /// What was admitted in a cell, and granted and not spent: that counts as spent.
    fn spent(&self, sequence: u64) -> u64 {
        let Truth { admitted, components, .. } = &self.truth;
        let in_cell =
            |counts: &BTreeMap<(u64, u64), u64>, id| counts.get(&(id, sequence)).copied().unwrap_or(0);
        (1..=self.last_id).map(|id| in_cell(admitted, id).max(in_cell(components, id))).sum()
    }

    fn check_view(&self, node: &Node) -> Result<(), String> {
        let Some((sequence, current, previous)) = node.state.cells() else { return Ok(()) };
        let check = |sequence: u64, counts: Counts| {
            let (known, spent) = (counts.effective(), self.spent(sequence));
            if known > spent {
                return Err(format!(
                    "INV-3: node {} thinks that {known} are spent, and {spent} are",
                    node.id
                ));
            }
            // Only who dropped its entry takes a grant that it never heard of for an admission that it forgot.
            let admitted = self.truth.admitted.get(&(node.id, sequence)).copied().unwrap_or(0);
            if counts.own > admitted && !self.truth.dropped.contains(&node.id) {
                return Err(format!(
                    "node {} counts {} of its own, and admitted {admitted}",
                    node.id, counts.own
                ));
            }
            let synced = counts.own.min(counts.stored);
            let total = self.origin.total(key(), 0, Sequence(sequence)).unwrap_or(0);
            if synced > total {
                return Err(format!("node {} thinks that {synced} are known; {total} are", node.id));
            }
            Ok(())
        };
        check(sequence.0, current)?;
        sequence.0.checked_sub(1).map_or(Ok(()), |before| check(before, previous))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Decided {
    Admitted,
    Denied,
    MustAsk,
}

impl Protocol for Sync {
    type Step = Step;

    fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        let Scope { requests, draws, repeats, crashes, evictions, cells, .. } = self.scope;
        for (node, Node { state, call, .. }) in self.nodes.iter().enumerate() {
            let is_free = call.is_none();
            let may = [
                (requests > 0 && is_free, Step::Request { node }),
                (draws > 0 && is_free, Step::Draw { node }),
                (!is_free, Step::GiveUp { node }),
                (crashes > 0 && *state != begun(true), Step::Crash { node }),
                (evictions > 0 && *state != begun(true) && state.is_evictable(), Step::Evict { node }),
            ];
            steps.extend(may.into_iter().filter(|(may, _)| *may).map(|(_, step)| step));
        }
        steps.extend((0..self.messages.len()).map(|message| Step::Execute { message }));
        if repeats > 0 {
            steps.extend((0..self.messages.len()).map(|message| Step::ExecuteAndRepeat { message }));
        }
        steps.extend((0..self.answers.len()).map(|answer| Step::Deliver { answer }));
        if cells > 0 {
            steps.push(Step::CellEnds);
        }
        steps
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Request { node } => {
                self.scope.requests -= 1;
                if self.request(node, self.scope.accuracy) == Decided::MustAsk {
                    let counts = self.nodes[node].state.asking(&self.item().spec, 1, self.now);
                    self.send(
                        node,
                        counts,
                        GrantRequest { asks: smallvec![1], ..GrantRequest::default() },
                        true,
                    );
                }
            }
            Step::Draw { node } => {
                self.scope.draws -= 1;
                let counts = self.nodes[node].state.asking(&self.item().spec, 1, self.now);
                let lease = Some(LeaseRequest { most: 2, parts: NonZeroU32::MIN });
                self.send(node, counts, GrantRequest { lease, ..GrantRequest::default() }, false);
            }
            Step::Execute { message } => {
                let message = self.messages.remove(message);
                self.execute(&message);
            }
            Step::ExecuteAndRepeat { message } => {
                self.scope.repeats -= 1;
                let message = self.messages[message].clone();
                self.execute(&message);
            }
            Step::Deliver { answer } => {
                let answer = self.answers.remove(answer);
                self.deliver(&answer);
            }
            Step::GiveUp { node } => self.give_up(node),
            Step::Crash { node } => {
                self.scope.crashes -= 1;
                self.replace(node);
            }
            Step::Evict { node } => {
                self.scope.evictions -= 1;
                self.nodes[node].state = begun(false);
                self.truth.dropped.insert(self.nodes[node].id);
            }
            Step::CellEnds => {
                self.scope.cells -= 1;
                self.now = self.now.plus(PERIOD);
            }
        }
    }

    fn check(&self) -> Result<(), String> {
        let Truth { admitted, granted, components, .. } = &self.truth;
        let mut by_cell = BTreeMap::<u64, u64>::new();
        for ((_, sequence), count) in admitted {
            *by_cell.entry(*sequence).or_default() += count;
        }
        for (sequence, count) in by_cell {
            if self.scope.accuracy == Accuracy::Exact && count > self.scope.limit {
                return Err(format!("{count} were admitted of {} in cell {sequence}", self.scope.limit));
            }
        }
        for (cell, component) in components {
            let cause = |counts: &BTreeMap<(u64, u64), u64>| counts.get(cell).copied().unwrap_or(0);
            let (admitted, granted) = (cause(admitted), cause(granted));
            if *component > admitted + granted {
                return Err(format!(
                    "node {} has a component of {component}, of {admitted} admitted and {granted} granted",
                    cell.0
                ));
            }
        }
        self.nodes.iter().try_for_each(|node| self.check_view(node))
    }
}

const NOTHING: Scope = Scope {
    limit: 2,
    accuracy: Accuracy::Exact,
    requests: 0,
    draws: 0,
    repeats: 0,
    crashes: 0,
    evictions: 0,
    cells: 0,
};

/// Two of these together are twice as many as the limit admits.
const ASKING: Scope = Scope { requests: 4, repeats: 1, evictions: 1, ..NOTHING };
const DYING: Scope = Scope { requests: 3, repeats: 1, crashes: 1, ..NOTHING };
const ENDING: Scope = Scope { requests: 3, repeats: 1, cells: 1, ..NOTHING };
const LEASING: Scope = Scope { limit: 3, requests: 2, draws: 2, crashes: 1, ..NOTHING };

#[test]
fn asks_admit_no_more_than_the_limit_whatever_is_late_lost_or_repeated() {
    holds("asking", Sync::new(ASKING, Flaw::None), 40_000);
}

#[test]
fn a_node_that_dies_takes_nothing_back() {
    holds("dying", Sync::new(DYING, Flaw::None), 7_000);
}

#[test]
fn a_cell_that_ends_keeps_its_counts_and_its_limit() {
    holds("ending", Sync::new(ENDING, Flaw::None), 20_000);
}

#[test]
fn what_is_drawn_ahead_is_spent_once_or_never() {
    holds("leasing", Sync::new(LEASING, Flaw::None), 40_000);
}

#[test]
fn an_unverified_admission_is_found() {
    breaks("admits unverified", Sync::new(ASKING, Flaw::AdmitsUnverified));
}
