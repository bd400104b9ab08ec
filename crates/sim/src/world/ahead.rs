//! Regions that are simulated at the same time, each in a thread of its own.
//!
//! What a region says takes a while to the world store and another while back, so for that long no region can hear
//! of another: each goes that far ahead by itself, and then the store's turn comes with everything that was said to
//! it. What happens is the same as one after the other, whichever thread is faster. Only where nobody compares the
//! regions with each other at every step, and nothing goes wrong that hits several at once.

use super::{StoreMessage, WorldSimulation};
use crate::scenario::Arrival;
use crate::simulation::{Simulation, StoreCall};
use tidegate_core::Nanos;

/// For less it isn't worth to start threads.
const AHEAD_MIN: Nanos = Nanos::from_millis(1);

impl WorldSimulation {
    /// How far regions may go by themselves; `None` where they have to go step by step.
    pub fn may_go_ahead(&self) -> Option<Nanos> {
        let is_alone = self.regions.len() < 2 || self.is_audited || self.has_faults;
        let least = self.networks.iter().map(|network| network.options.latency.least).min()?;
        (!is_alone && least >= AHEAD_MIN).then_some(least)
    }

    /// Where the regions are that are there from the beginning.
    pub fn begins_at(&self) -> Nanos {
        self.regions.iter().map(Simulation::now).min().unwrap_or_default()
    }

    /// Lets everything happen before `until`, which is no further away than [`WorldSimulation::may_go_ahead`] says,
    /// with the requests that come to each region until then. Meanwhile does what `beside` does.
    pub fn go_ahead(&mut self, arrivals: &[Vec<Arrival>], until: Nanos, beside: impl FnOnce()) {
        std::thread::scope(|scope| {
            for (region, arrivals) in self.regions.iter_mut().zip(arrivals) {
                scope.spawn(move || region.go_ahead(arrivals, until));
            }
            beside();
        });
        let mut said: Vec<(usize, StoreCall)> = Vec::new();
        for (index, region) in self.regions.iter_mut().enumerate() {
            region.notes.clear();
            region.take_sliced();
            said.extend(std::mem::take(&mut region.outbox).into_iter().map(|call| (index, call)));
        }
        // Those of one instant in the order of their regions.
        said.sort_by_key(|(_, call)| call.at);
        for (region, call) in said {
            self.store_events_until(call.at);
            self.now = call.at;
            self.send(&StoreMessage { region, call });
        }
        self.store_events_until(Nanos::new(until.get() - 1));
        self.now = until;
    }

    fn store_events_until(&mut self, until: Nanos) {
        while let Some(at) = self.queue.next_at().filter(|at| *at <= until) {
            self.now = at;
            self.next_event();
        }
    }
}

impl Simulation {
    /// Everything before `until`, with the requests that come until then.
    fn go_ahead(&mut self, arrivals: &[Arrival], until: Nanos) {
        for arrival in arrivals {
            self.run_until(Nanos::new(arrival.at.get() - 1));
            self.arrives_now(*arrival);
        }
        self.run_until(Nanos::new(until.get() - 1));
    }
}
