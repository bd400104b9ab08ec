//! Who reconciles: the lease of a job in the world store, and the fence around what its leader writes.
//!
//! Two processes ask to lead, look, and write what they found, each message as late as it likes, twice if it likes;
//! either may stand still for as long as it takes. Who leads by its own clock is alone in that, and what is written
//! is written by whoever leads, from what was last written.

use crate::search::Protocol;
use crate::{breaks, holds};
use std::collections::BTreeMap;
use tidegate_core::Nanos;
use tidegate_world::{RECONCILER, SliceGrants, Term, WorldStore};

const START: Nanos = Nanos::from_secs(1000);
const LEASE: Nanos = Nanos::from_secs(4);
const TICK: Nanos = Nanos::from_secs(2);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Flaw {
    None,
    /// What is written carries whichever term is in force.
    Unfenced,
    /// A leader counts its lease from when it heard of it.
    CountsFromTheAnswer,
}

#[derive(Clone, Copy, Debug)]
struct Process {
    leads: Option<(Term, Nanos)>,
    /// The revision that it looked at.
    looked: Option<u64>,
}

#[derive(Clone, Debug)]
enum Message {
    Lead { process: usize, sent_at: Nanos },
    Led { process: usize, sent_at: Nanos, term: Option<Term> },
    Grant { process: usize, term: Term, revision: u64 },
}

#[derive(Clone, Debug)]
struct Leader {
    flaw: Flaw,
    now: Nanos,
    ticks: u8,
    leads: u8,
    grants: u8,
    repeats: u8,
    crashes: u8,
    store: WorldStore,
    processes: [Process; 2],
    messages: Vec<Message>,
    /// Who has had which term.
    terms: BTreeMap<u64, usize>,
    /// The process and the term of the last that was written, and how many were.
    written: Option<(usize, u64)>,
    revision: u64,
    problem: Option<String>,
}

#[derive(Clone, Debug)]
enum Step {
    AskToLead { process: usize },
    Look { process: usize },
    Write { process: usize },
    Arrive { message: usize },
    ArriveAndRepeat { message: usize },
    Crash { process: usize },
    TimePasses,
}

impl Leader {
    fn new(flaw: Flaw) -> Self {
        Leader {
            flaw,
            now: START,
            ticks: 4,
            leads: 3,
            grants: 1,
            repeats: 0,
            crashes: 1,
            store: WorldStore::default(),
            processes: [Process { leads: None, looked: None }; 2],
            messages: Vec::new(),
            terms: BTreeMap::new(),
            written: None,
            revision: 0,
            problem: None,
        }
    }

    fn arrive(&mut self, message: &Message) {
        match *message {
            Message::Lead { process, sent_at } => {
                let term = self.store.lead(RECONCILER, process as u64 + 1, LEASE, self.now);
                if let Some(Term(term)) = term
                    && *self.terms.entry(term).or_insert(process) != process
                {
                    self.problem = Some(format!("term {term} has two leaders"));
                }
                self.messages.push(Message::Led { process, sent_at, term });
            }
            Message::Led { process, sent_at, term } => {
                let since = if self.flaw == Flaw::CountsFromTheAnswer { self.now } else { sent_at };
                self.processes[process].leads = term.map(|term| (term, since.plus(LEASE)));
            }
            Message::Grant { process, term, revision } => self.grant(process, term, revision),
        }
    }

    fn grant(&mut self, process: usize, term: Term, revision: u64) {
        let newest = self.terms.last_key_value().map_or(0, |(term, _)| *term);
        let term = if self.flaw == Flaw::Unfenced { Term(newest) } else { term };
        if self.store.grant(term, &SliceGrants { revision, ..SliceGrants::default() }).is_err() {
            return;
        }
        if self.terms.get(&newest) != Some(&process) {
            self.problem = Some(format!("process {process} wrote, and somebody else leads"));
        }
        if revision != self.revision {
            self.problem = Some(format!("{revision} was looked at, and {} written over", self.revision));
        }
        self.revision += 1;
        self.written = Some((process, term.0));
    }
}

impl Protocol for Leader {
    type Step = Step;

    fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for (process, Process { leads, looked }) in self.processes.iter().enumerate() {
            let may = [
                (self.leads > 0, Step::AskToLead { process }),
                (leads.is_some() && *looked != Some(self.revision), Step::Look { process }),
                (leads.is_some() && looked.is_some() && self.grants > 0, Step::Write { process }),
                (self.crashes > 0 && leads.is_some(), Step::Crash { process }),
            ];
            steps.extend(may.into_iter().filter(|(may, _)| *may).map(|(_, step)| step));
        }
        for message in 0..self.messages.len() {
            steps.push(Step::Arrive { message });
            if self.repeats > 0 {
                steps.push(Step::ArriveAndRepeat { message });
            }
        }
        if self.ticks > 0 {
            steps.push(Step::TimePasses);
        }
        steps
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::AskToLead { process } => {
                self.leads -= 1;
                self.messages.push(Message::Lead { process, sent_at: self.now });
            }
            Step::Look { process } => {
                self.processes[process].looked = Some(self.store.survey(self.now).revision);
            }
            Step::Write { process } => {
                self.grants -= 1;
                let Process { leads: Some((term, _)), looked: Some(revision) } = self.processes[process]
                else {
                    unreachable!("who doesn't lead, or hasn't looked, has nothing to write");
                };
                self.messages.push(Message::Grant { process, term, revision });
            }
            Step::Arrive { message } => {
                let message = self.messages.remove(message);
                self.arrive(&message);
            }
            Step::ArriveAndRepeat { message } => {
                self.repeats -= 1;
                let message = self.messages[message].clone();
                self.arrive(&message);
            }
            Step::Crash { process } => {
                self.crashes -= 1;
                self.processes[process] = Process { leads: None, looked: None };
            }
            Step::TimePasses => {
                self.ticks -= 1;
                self.now = self.now.plus(TICK);
            }
        }
    }

    fn check(&self) -> Result<(), String> {
        if let Some(problem) = &self.problem {
            return Err(problem.clone());
        }
        let leading = |process: &&Process| process.leads.is_some_and(|(_, until)| self.now < until);
        if self.processes.iter().filter(leading).count() > 1 {
            return Err("two lead at once, each by its own clock".to_owned());
        }
        Ok(())
    }
}

#[test]
fn one_leads_and_only_who_leads_writes() {
    holds("leader", Leader::new(Flaw::None), 200_000);
}

#[test]
fn a_write_that_isnt_fenced_is_found() {
    let why = breaks("unfenced", Leader::new(Flaw::Unfenced));
    assert!(why.contains("somebody else leads"), "{why}");
}

#[test]
fn a_lease_that_is_counted_from_its_answer_is_found() {
    let why = breaks("counted from the answer", Leader::new(Flaw::CountsFromTheAnswer));
    assert!(why.contains("two lead at once"), "{why}");
}
