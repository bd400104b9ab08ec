//! What a region shows to whoever knows all regions: its admissions, grants and denials, its counts, and what
//! operators do to it.

use super::working::{Admitted, CellView, Denied, WorkerGrant, WorldNote};
use super::{RequestResult, Simulation};
use crate::fault::Fault;
use crate::node::SimulatedNode;
use crate::oracle::How;
use crate::scenario::KeyPlan;
use crate::trace::AnswerPath;
use tidegate_core::counts::CellReply;
use tidegate_core::exchange::CountSync;
use tidegate_core::{CellId, KeyId, Nanos, Sequence};
use tidegate_origin::{Exchange, ExchangeReply};

impl Simulation {
    fn is_recorded(&self) -> bool {
        self.scenario.world.is_some() && !self.auditor.is_off()
    }

    /// Notes what was answered, for each limit of the request that other regions share by counts.
    /// `over` says which of its limits denied it.
    pub(super) fn record_answer(&mut self, answered: RequestResult, over: &[bool]) {
        if !self.is_recorded() {
            return;
        }
        let template = self.scenario.templates[answered.template].clone();
        let now = self.nodes[answered.node].moment(self.now).now;
        for (index, limit) in template.limits.iter().enumerate().filter(|(_, limit)| limit.cost > 0) {
            let plan = &self.scenario.keys[limit.key];
            let Some(sequence) = plan.sequence_at(now).filter(|_| !plan.is_quota()) else { continue };
            let (key, cost) = (limit.key, limit.cost);
            let is_after_the_fact = self.is_after_the_fact(answered);
            let note = if answered.allowed || is_after_the_fact {
                let how = how(answered.path, is_after_the_fact);
                let (sequence, views) = self.views_of(answered.node, plan, sequence);
                WorldNote::Admitted(Admitted { key, cost, how, sequence, now, views })
            } else if over.get(index) == Some(&false) {
                // Another limit of the request denied it.
                continue;
            } else {
                let RequestResult { path, retry_after, .. } = answered;
                WorldNote::Denied(Denied { key, cost, path, sequence, now, retry_after })
            };
            self.notes.push(note);
        }
    }

    /// What a node knows of the cell that it last charged, and of the one before.
    fn views_of(&self, node: usize, plan: &KeyPlan, sequence: Sequence) -> (Sequence, [CellView; 2]) {
        let view = self.nodes[node].view(plan.id());
        let mut cells = view.cells().map(|(sequence, counts)| {
            (sequence, CellView { regional: counts.regional(), world: counts.world })
        });
        let Some((sequence, current)) = cells.next() else { return (sequence, Default::default()) };
        (sequence, [current, cells.next().map_or(CellView::default(), |(_, view)| view)])
    }

    /// Notes which keys the store granted something of.
    pub(super) fn record_grants(&mut self, exchange: &Exchange, exchanged: &ExchangeReply) {
        if !self.is_recorded() {
            return;
        }
        let now = self.origin_now();
        for (sync, reply) in exchange.syncs.iter().zip(exchanged.replies.iter().flatten()) {
            let CountSync::Window(window) = &sync.counts else { continue };
            if reply.drawn == 0 && !reply.granted.contains(&true) {
                continue;
            }
            let first = sync.request.asks.first().copied().unwrap_or(0);
            let (key, sequence, regions) = (sync.key, window.sequence, window.regions);
            self.notes.push(WorldNote::Granted(WorkerGrant { key, sequence, regions, first, now }));
        }
    }

    /// Whether a node's clock is set in this run.
    pub(crate) fn sets_clocks(&self) -> bool {
        self.sets_clocks
    }

    /// A cell as the region's store has it.
    pub(crate) fn cell_at_store(&self, cell: &CellId) -> CellReply {
        self.origin.cell(cell)
    }

    /// The most that any living node knows of the region's count of a cell. Nobody notices that a single key was deleted
    /// before somebody who knows of it syncs it.
    pub(crate) fn known_by_nodes(&self, cell: &CellId) -> u64 {
        let key = self.index_of(cell.key).unwrap_or(usize::MAX);
        let is_aware = |node: &&SimulatedNode| !self.auditor.oracle().is_unaware(key, node.id);
        let living = self.nodes.iter().filter(|node| node.is_up).filter(is_aware);
        let views = living.map(|node| node.view(cell.key)).filter(|view| view.epoch == cell.epoch);
        let counts = views.flat_map(|view| view.cells().collect::<Vec<_>>());
        let regional = counts.filter(|(sequence, _)| *sequence == cell.sequence);
        regional.map(|(_, counts)| counts.regional()).max().unwrap_or(0)
    }

    /// The most that any living node knows of what the other regions counted in a cell.
    pub(crate) fn known_of_others(&self, cell: &CellId) -> u64 {
        let views = self.nodes.iter().filter(|node| node.is_up).map(|node| node.view(cell.key));
        let counts = views.flat_map(|view| view.cells().collect::<Vec<_>>());
        let world = counts.filter(|(sequence, _)| *sequence == cell.sequence);
        world.map(|(_, counts)| counts.world).max().unwrap_or(0)
    }

    /// The index of a key.
    pub(crate) fn index_of(&self, key: KeyId) -> Option<usize> {
        self.scenario.keys.iter().position(|plan| plan.id() == key)
    }

    pub(crate) fn is_inhabited(&self) -> bool {
        self.nodes.iter().any(|node| node.is_up)
    }

    /// All nodes leave for good.
    pub(crate) fn abandon(&mut self, now: Nanos) {
        for node in 0..self.nodes.len() {
            self.inject(now, Fault::Leave { node });
        }
    }

    /// All nodes that are up start again, in a region of another name.
    pub(crate) fn rename(&mut self, name: String, now: Nanos) {
        let Some(place) = &mut self.scenario.world else { return };
        place.region = name;
        let up: Vec<usize> = (0..self.nodes.len()).filter(|node| self.nodes[*node].is_up).collect();
        for node in up {
            self.inject(now, Fault::Crash { node });
            self.inject(now, Fault::Start { node });
        }
    }
}

fn how(path: AnswerPath, is_report: bool) -> How {
    match path {
        _ if is_report => How::Reported,
        AnswerPath::Local => How::Local,
        AnswerPath::Asked => How::Asked,
        AnswerPath::Unverified => How::Unverified,
    }
}
