//! What must hold at the end of an episode: rows are what regions counted, a region that joins then gets what a perfect
//! limiter would leave it, and denials are right.

use super::WorldSimulation;
use super::oracle::{cell_of, faded, rounding};
use super::scenario::away;
use crate::chaos::describe;
use crate::network::Network;
use crate::scenario::{Arrival, LimitUse, RegionShare, Scenario, Template};
use crate::simulation::{RequestResult, Simulation};
use crate::trace::AnswerPath;
use tidegate_core::{Accuracy, Nanos};

/// A region that joins knows of the others, and of what they counted, so soon.
const JOINS_WITHIN: Nanos = Nanos::from_secs(8);
const ANSWERED_WITHIN: Nanos = Nanos::from_millis(50);
/// A publish and its import take no longer: for that long a caller is told to wait for the world credit.
const PUBLISHED_WITHIN: Nanos = Nanos::from_millis(500);
/// So many requests spend what is left of a limit.
const STEPS: u64 = 10;
/// How often a caller who is told to wait shortly comes again.
const TRIES: u32 = 6;
const SHORT_WAIT: Nanos = Nanos::from_millis(100);

type Checked = Result<(), String>;

impl WorldSimulation {
    /// A region joins, knowing nothing, and spends what is left of every key.
    pub fn join_cold(&mut self) -> Checked {
        let cold = self.add_region();
        self.run_until(self.now.plus(JOINS_WITHIN));
        for key in 0..self.scenario_keys().len() {
            self.spend_what_is_left(key, cold)?;
        }
        Ok(())
    }

    /// Returns the number of a region that joins now: one node beside a store that is empty.
    fn add_region(&mut self) -> usize {
        let region = self.regions.len();
        let mut scenario = Scenario::calm(self.random.next_u64(), 1, self.scenario_keys().to_vec());
        let policy = super::scenario::HEADROOM;
        scenario.world = Some(RegionShare { region: format!("region-{region}"), policy });
        (scenario.boots_at, scenario.ends_at) = (self.now, self.now);
        self.regions.push(Simulation::new(scenario));
        self.networks.push(Network::new(away(0), 1, self.random.fork()));
        region
    }

    /// That it gets no less is what the oracle of denials sees to, and that it gets no more than the accounts allow what
    /// the oracle of overshoot does. At rest nothing is in flight, so that less is allowed than before.
    fn spend_what_is_left(&mut self, key: usize, cold: usize) -> Checked {
        let plan = self.scenario_keys()[key].clone();
        if self.live_cells(&plan).is_empty() || plan.accuracy == Accuracy::Async {
            return Ok(());
        }
        let Some(sequence) = plan.sequence_at(self.now) else { return Ok(()) };
        let left = plan.size().saturating_sub(self.oracle.used(key, (sequence, self.now), &plan));
        let missing = self.missing(key, cold);
        let cost = (left / STEPS).max(1);
        let limits = smallvec::smallvec![LimitUse { key, cost }];
        let template = self.regions[cold].add_template(Template { limits, is_report: false });
        for _ in 0..2 * STEPS {
            let answer = self.ask_patiently(cold, template, key)?;
            if !answer.allowed || self.live_cells(&plan).is_empty() {
                break;
            }
            let Some(sequence) = plan.sequence_at(self.now) else { break };
            let used = self.oracle.used(key, (sequence, self.now), &plan);
            let allowed = plan.size() + missing + rounding(&plan, self.regions.len());
            if used > allowed {
                return Err(format!(
                    "conservation: a region that joined was given {cost} more of key {key} ({}), of which {used} are \
                     used then; {missing} are in the accounts",
                    describe(&plan)
                ));
            }
        }
        Ok(())
    }

    /// What regions admitted and the world store doesn't have, now that nothing is in flight: what is lost, and what is
    /// unpublished within the credit.
    fn missing(&self, key: usize, cold: usize) -> u64 {
        let plan = &self.scenario_keys()[key];
        let mut missing = 0;
        for sequence in self.live_cells(plan) {
            let cell = cell_of(plan, sequence);
            let of = |region: usize| {
                let row = self.ledger.row(&self.store.store, region, &cell);
                self.oracle.admitted_by(region, key, sequence).saturating_sub(row)
            };
            let units: u64 = (0..self.regions.len()).filter(|region| *region != cold).map(of).sum();
            let is_current = plan.sequence_at(self.now) == Some(sequence);
            missing += if is_current {
                units
            } else {
                faded(plan, units, sequence_after(sequence), self.now).unwrap_or(0)
            };
        }
        missing
    }

    /// One request and its answer; what is denied for a moment only is asked again.
    fn ask_patiently(&mut self, region: usize, template: usize, key: usize) -> Result<RequestResult, String> {
        for _ in 0..TRIES {
            let answer = self.ask(region, template, key)?;
            let waits_shortly = answer.retry_after.is_some_and(|wait| wait <= SHORT_WAIT);
            if answer.allowed || !waits_shortly {
                return Ok(answer);
            }
            self.run_until(self.now.plus(PUBLISHED_WITHIN));
        }
        self.ask(region, template, key)
    }

    fn ask(&mut self, region: usize, template: usize, key: usize) -> Result<RequestResult, String> {
        let at = self.now;
        self.regions[region].answers = Some(Vec::new());
        self.regions[region].inject_request(Arrival { at, node: 0, template });
        self.run_until(at.plus(ANSWERED_WITHIN));
        let answers = self.regions[region].answers.take().unwrap_or_default();
        match answers.first().copied() {
            Some(answer) if answer.path != AnswerPath::Unverified => Ok(answer),
            Some(_) => {
                Err(format!("liveness: region {region} can't ask about key {key}, and nothing is wrong"))
            }
            None => Err(format!("liveness: region {region} answers nothing")),
        }
    }
}

fn sequence_after(sequence: tidegate_core::Sequence) -> tidegate_core::Sequence {
    tidegate_core::Sequence(sequence.0 + 1)
}
