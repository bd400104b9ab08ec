//! The state of a key on a node that shares its counts: 96 bytes.
//!
//! Both cells with their four counts each, and what the node needs to know about its own view to tell whether
//! an admission must ask. The counts decide exactly as a lone node's do.

use crate::ask::View;
use crate::counts::Counts;
use crate::decision::{Decision, Settle};
use crate::gcra;
use crate::gcra_sync::Busy;
use crate::limit::{Cost, Spec};
use crate::packed::{
    denominator_word, gcra_tag, is_gcra, rate_of, step_of, tag_with_step, tat_at_rate, tat_of,
    window_expires, window_tag,
};
use crate::state::{State, decide_window, landing_cell, used_before_step, window_expiry, window_tag_after};
use crate::time::{ClockStep, Nanos, Sequence, StepId};
use crate::window::{Counted, add_count};

/// Deadlines are kept in these ticks: 32 bits of them last 49 days, then wrap.
const DEADLINE_TICK: u64 = Nanos::PER_MILLI;

/// GCRA reuses the fields of the previous cell: `own` is the tat's whole nanoseconds, `stored` its ticks,
/// `others` the interval's denominator and whether it is overdrawn, `world` where the busy period began. In the current cell, `own` and
/// `stored` are the cumulative costs, `others` the oldest admission that isn't confirmed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedState {
    current: Counts,
    previous: Counts,
    sequence: Sequence,
    tag: u64,
    fresh_until: Deadline,
    strict_until: Deadline,
    owners: u32,
    /// The origin has answered for the current cell, for the previous one.
    owns_current: bool,
    owns_previous: bool,
}

/// An instant in milliseconds modulo 2^32, for deadlines of at most some minutes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Deadline(u32);

impl Deadline {
    fn at(instant: Nanos) -> Self {
        let [a, b, c, d, ..] = (instant.get() / DEADLINE_TICK).to_le_bytes();
        Deadline(u32::from_le_bytes([a, b, c, d]))
    }

    /// The instant that it stands for: the nearest one to `now` that fits.
    fn instant(self, now: Nanos) -> Nanos {
        let ahead = self.0.wrapping_sub(Deadline::at(now).0);
        let now_floor = Nanos::new(now.get() / DEADLINE_TICK * DEADLINE_TICK);
        if ahead < 1 << 31 { now_floor.plus(Nanos::from_millis(u64::from(ahead))) } else { Nanos::ZERO }
    }
}

impl SharedState {
    /// What the node knows about its view of this key in the cell `sequence`: what is left of an earlier
    /// cell's prepaid lapsed with it. GCRA has one cell, 0.
    pub fn view(&self, sequence: Sequence, headroom: u64, live_nodes: u32, now: Nanos) -> View {
        let state = self.rolled_to(sequence);
        View {
            is_owner: state.owns_current || state.owns_previous,
            fresh_until: state.fresh_until.instant(now),
            strict_until: state.strict_until.instant(now),
            owners: state.owners,
            live_nodes,
            prepaid: state.current.prepaid(),
            spent: state.current.unsynced(),
            headroom,
        }
    }

    /// A reply was merged: the view is fresh for a while.
    pub fn set_fresh(&mut self, owners: u32, until: Nanos) {
        self.owns_current = true;
        self.owners = owners;
        self.fresh_until = Deadline::at(until);
    }

    /// A denial: from here until then, `fast` asks too.
    pub fn set_strict(&mut self, until: Nanos) {
        self.strict_until = Deadline::at(until);
    }

    /// The counts of the cell `sequence`, if the state still has them.
    pub fn cell_mut(&mut self, sequence: Sequence) -> Option<&mut Counts> {
        if sequence == self.sequence {
            Some(&mut self.current)
        } else if sequence.0.checked_add(1) == Some(self.sequence.0) {
            Some(&mut self.previous)
        } else {
            None
        }
    }

    /// GCRA's pair, to publish or to adopt.
    pub fn busy(&self) -> Busy {
        let tat = tat_of(self.previous.own, self.previous.stored, self.previous.others);
        Busy { tat: tat.whole_ceil(), since: Nanos::new(self.previous.world) }
    }

    fn counted(&self) -> Counted {
        Counted {
            current: self.current.effective(),
            previous: self.previous.effective(),
            sequence: self.sequence,
        }
    }

    fn rolled_to(mut self, sequence: Sequence) -> Self {
        let distance = sequence.0.saturating_sub(self.sequence.0);
        if distance > 0 {
            self.previous = if distance == 1 { self.current } else { Counts::default() };
            self.current = Counts::default();
            self.sequence = sequence;
            // Whoever owned the cell before this one is not cold in the next; whoever didn't, is.
            self.owns_previous = self.owns_current && distance == 1;
            self.owns_current = false;
        }
        self
    }

    fn decide_gcra(mut self, spec: &Spec, cost: Cost, settle: Settle, now: Nanos) -> (Decision, Self) {
        let Spec::Gcra { rate, burst } = *spec else { unreachable!("GCRA's spec was asked for") };
        let tat = tat_of(self.previous.own, self.previous.stored, self.previous.others);
        let was_idle = tat.whole < now;
        let tat = tat_at_rate(tat, rate_of(self.previous.others, self.tag), rate, now);
        let (decision, tat) = gcra::decide(tat, rate, burst, cost, settle, now);
        if settle.charges(decision.is_admitted()) && cost > Cost::PEEK {
            if self.current.unsynced() == 0 {
                self.current.others = now.get();
            }
            if was_idle {
                self.previous.world = now.get();
            }
            self.current.admit(cost.get());
        }
        (self.previous.own, self.previous.stored) = (tat.whole.get(), tat.ticks);
        self.previous.others = denominator_word(tat, rate);
        self.tag = tag_with_step(gcra_tag(rate), step_of(self.tag));
        (decision, self)
    }
}

impl State for SharedState {
    const MAY_BE_EVICTED: bool = true;

    fn decide(self, spec: &Spec, cost: Cost, settle: Settle, now: Nanos) -> (Decision, Self) {
        if matches!(spec, Spec::Gcra { .. }) {
            return self.decide_gcra(spec, cost, settle, now);
        }
        let (decision, counted) = decide_window(self.counted(), self.tag, spec, cost, settle, now);
        if !settle.charges(decision.is_admitted()) || cost == Cost::PEEK {
            return (decision, self);
        }
        let mut after = self.rolled_to(counted.sequence);
        after.current.admit(cost.get());
        after.tag = window_tag_after(self.tag, spec, self.sequence, counted.sequence);
        (decision, after)
    }

    fn step(&self) -> StepId {
        step_of(self.tag)
    }

    fn with_step(mut self, step: StepId) -> Self {
        self.tag = tag_with_step(self.tag, step);
        self
    }

    /// What a step carries isn't an admission of the cell where it lands: it is held as if others had spent
    /// it, and never published (INV-2). The own component stays where the cell does. The view is stale.
    fn carried(mut self, spec: &Spec, step: ClockStep) -> Self {
        (self.fresh_until, self.strict_until) = (Deadline::default(), Deadline::default());
        if matches!(spec, Spec::Gcra { .. }) {
            for instant in [&mut self.previous.own, &mut self.previous.world, &mut self.current.others] {
                *instant = instant.saturating_add_signed(step.delta_ns);
            }
            return self;
        }
        let used = used_before_step(self.counted(), self.expires(), spec, step.left_at());
        let known = add_count(self.current.component(), self.current.world);
        match landing_cell(spec, step) {
            Some(sequence) if used > 0 && used >= known && sequence == self.sequence => {
                self.current.others = used - known;
                self.previous = Counts::default();
                self
            }
            Some(sequence) if used > 0 => {
                let tag = window_tag(window_expiry(spec, sequence, Nanos::ZERO));
                let current = Counts { others: used, ..Counts::default() };
                SharedState { current, sequence, tag, ..SharedState::default() }
            }
            _ => SharedState::default(),
        }
    }

    fn expires(&self) -> Nanos {
        if is_gcra(self.tag) { self.busy().tat } else { window_expires(self.tag) }
    }

    fn is_evictable(&self) -> bool {
        self.current.unsynced() == 0 && (is_gcra(self.tag) || self.previous.unsynced() == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::CellReply;
    use crate::limit::{Burst, Limit, Rate};
    use crate::local::LocalState;
    use crate::time::Period;

    fn sliding(limit: u64) -> Spec {
        let period = Period::new(Nanos::from_secs(10)).unwrap();
        Spec::Sliding { limit: Limit::new(limit).unwrap(), period }
    }

    #[test]
    fn it_is_96_bytes_and_a_lone_nodes_32() {
        assert_eq!((size_of::<SharedState>(), size_of::<LocalState>()), (96, 32));
    }

    #[test]
    fn alone_it_decides_as_a_lone_node_does() {
        let gcra =
            Spec::Gcra { rate: Rate::new(7, Nanos::from_secs(3)).unwrap(), burst: Burst::new(4).unwrap() };
        for spec in [sliding(5), gcra] {
            let (mut shared, mut local) = (SharedState::default(), LocalState::default());
            for tick in 0..500_u64 {
                let now = Nanos::from_secs(1000).plus(Nanos::from_millis(tick * 313));
                let cost = Cost::new(tick % 4).unwrap();
                let (theirs, after) = local.decide(&spec, cost, Settle::IfAdmitted, now);
                local = after;
                let (ours, after) = shared.decide(&spec, cost, Settle::IfAdmitted, now);
                shared = after;
                assert_eq!(ours, theirs, "tick {tick}");
                assert_eq!(shared.expires(), local.expires());
            }
        }
    }

    #[test]
    fn others_and_the_world_count_and_unsynced_admissions_keep_it() {
        let now = Nanos::from_secs(1000);
        let (_, mut state) = SharedState::default().decide(&sliding(10), Cost::ONE, Settle::IfAdmitted, now);
        assert!(!state.is_evictable());
        let reply = CellReply { component: 1, total: 6, world: 3 };
        state.cell_mut(Sequence(100)).unwrap().merge(reply).unwrap();
        state.set_fresh(3, now.plus(Nanos::from_secs(5)));
        assert!(state.is_evictable());
        let (decision, state) = state.decide(&sliding(10), Cost::ONE, Settle::IfAdmitted, now);
        assert_eq!((decision.is_admitted(), decision.remaining), (true, 0));
        let view = state.view(Sequence(100), 0, 4, now);
        assert_eq!((view.is_owner, view.owners, view.spent), (true, 3, 1));
        assert_eq!(view.fresh_until, now.plus(Nanos::from_secs(5)));
        let (decision, _) = state.decide(&sliding(10), Cost::ONE, Settle::IfAdmitted, now);
        assert!(!decision.is_admitted());
        let is_owner = |cell| state.view(Sequence(cell), 0, 4, now).is_owner;
        assert!(is_owner(101) && !is_owner(102), "cold after a whole cell without an answer");
    }

    #[test]
    fn a_clock_step_neither_keeps_a_view_fresh_nor_publishes_what_it_carried() {
        let now = Nanos::from_secs(1_000_000);
        let (_, mut state) = SharedState::default().decide(&sliding(10), Cost::ONE, Settle::IfAdmitted, now);
        state.set_fresh(1, now.plus(Nanos::from_secs(5)));
        let step = ClockStep { delta_ns: -3_600_000_000_000, lands_at: now.shifted(-3_600_000_000_000) };
        let carried = state.carried(&sliding(10), step);
        let view = carried.view(carried.sequence, 0, 4, step.lands_at);
        assert!(!view.is_owner && view.fresh_until <= step.lands_at);
        assert_eq!((carried.current.own, carried.current.others), (0, 1));
        // Within its cell it keeps its own component, so that a reply counts it once.
        let step = ClockStep { delta_ns: 300_000_000, lands_at: now.shifted(300_000_000) };
        let mut carried = state.carried(&sliding(10), step);
        let reply = CellReply { component: 1, total: 1, world: 0 };
        carried.cell_mut(carried.sequence).unwrap().merge(reply).unwrap();
        assert_eq!((carried.current.effective(), carried.current.prepaid()), (1, 0));
    }
}
