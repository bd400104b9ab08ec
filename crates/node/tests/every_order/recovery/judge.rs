//! The three judgments: conservation, itemised overshoot, and denials that are right by the newest epoch.

use super::{Node, Region, counted, key, sequence};
use smallvec::smallvec;
use tidegate_core::Nanos;
use tidegate_core::counts::Counts;
use tidegate_core::exchange::{CellSync, CountSync, GrantRequest, KeyReply, KeySync, WindowSync};

/// Nobody else has this id.
const COLD_ID: u64 = 99;

impl Region {
    /// Records a denial as wrong when there is room by the newest epoch.
    pub(super) fn judge_denial(&mut self, what: &str) {
        let spent = self.ledger.spent();
        let limit = self.scope.limit;
        if spent < limit {
            self.wrong = Some(format!("denial: {what}, with {spent} of {limit} spent"));
        }
    }

    /// Whether a node's counts are those since the last reset.
    fn is_current(&self, node: &Node) -> bool {
        node.is_up() && node.state.epoch() >= self.ledger.epoch
    }

    fn current_nodes(&self) -> impl Iterator<Item = (u64, Counts)> {
        let current = self.nodes.iter().filter(|node| self.is_current(node));
        current.filter_map(|node| node.state.cells().map(|(_, counts, _)| (node.id, counts)))
    }

    /// Accounts as lost what neither the store nor a living node knows any more.
    pub(super) fn account_lost(&mut self) {
        let nodes = || self.current_nodes();
        let unsynced: u64 = nodes()
            .map(|(id, counts)| counts.component().saturating_sub(counted(&self.probe(id, 0)).1))
            .sum();
        let components: u64 = nodes().map(|(_, counts)| counts.component()).sum();
        let largest_view = nodes().map(|(_, counts)| counts.regional()).max().unwrap_or(0);
        let stored = counted(&self.probe(COLD_ID, 0)).0;
        let known = largest_view.max(components).max(stored + unsynced);
        self.ledger.lost = self.ledger.lost.max(self.ledger.spent().saturating_sub(known));
    }

    /// Asks a copy of the store for some units, as a node that has no entry of the key does: it is answered in the newest
    /// epoch.
    fn probe(&self, id: u64, units: u64) -> KeyReply {
        let mut copy = self.clone();
        let cell =
            CellSync { component: 0, acked: 0, claim: 0, expires: self.now.plus(Nanos::from_secs(120)) };
        let limit = self.scope.limit;
        let counts = CountSync::Window(WindowSync {
            limit,
            regions: 1,
            sequence: sequence(),
            current: cell,
            previous: None,
            fading: None,
        });
        let asks = smallvec![1; usize::try_from(units).unwrap_or(0)];
        let request = GrantRequest { asks, ..GrantRequest::default() };
        let sync = KeySync { key: key(), epoch: 0, counts, request, ended_holds: smallvec![] };
        copy.exchange(id, &sync)
    }

    /// Once everything has drained, the store knows at least what every living node knows, and a cold node is granted
    /// what a perfect limiter would have left, and what is accounted as lost.
    fn judge_conservation(&self) -> Result<(), String> {
        if !self.is_drained() {
            return Ok(());
        }
        let total = counted(&self.probe(COLD_ID, 0)).0;
        for node in self.nodes.iter().filter(|node| self.is_current(node)) {
            let known = node.state.cells().map_or(0, |(_, counts, _)| counts.regional());
            if known > total {
                return Err(format!(
                    "conservation: node {} knows of {known}, and the store of {total}",
                    node.id
                ));
            }
        }
        let granted =
            self.probe(COLD_ID, self.scope.limit).granted.iter().filter(|granted| **granted).count();
        let granted = u64::try_from(granted).unwrap_or(u64::MAX);
        let spent = self.ledger.spent();
        let left = self.scope.limit.saturating_sub(spent);
        let with_lost = self.scope.limit.saturating_sub(spent.saturating_sub(self.ledger.lost));
        if granted < left || granted > with_lost {
            return Err(format!(
                "conservation: a cold node is granted {granted}, with {spent} of {} spent, of these {} lost",
                self.scope.limit, self.ledger.lost
            ));
        }
        Ok(())
    }

    /// Every unit beyond the limit is in an account.
    fn judge_overshoot(&self) -> Result<(), String> {
        let admitted = self.ledger.admitted_in_all();
        let beyond = admitted.saturating_sub(self.scope.limit);
        let (unverified, lost, credit) = (self.ledger.unverified, self.ledger.lost, self.ledger.credit);
        if beyond > unverified + lost + credit {
            return Err(format!(
                "overshoot: {admitted} of {} admitted; {unverified} unverified, {lost} lost, {credit} on credit",
                self.scope.limit
            ));
        }
        Ok(())
    }

    pub(super) fn judge(&self) -> Result<(), String> {
        self.wrong.clone().map_or(Ok(()), Err)?;
        self.judge_overshoot()?;
        self.judge_conservation()
    }
}
