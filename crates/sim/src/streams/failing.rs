//! What goes wrong on the way of rules, as it happens.

use super::carrying::Event;
use super::disk::Disk;
use super::link::End;
use super::{ProcessId, StreamFault, Streams};

impl Streams {
    pub(super) fn fault(&mut self, fault: StreamFault) {
        if let Some(kind) = fault.kind() {
            self.fired.count(kind);
        }
        self.record(fault);
        match fault {
            StreamFault::Crash { who } => self.crash(self.place(who)),
            StreamFault::Start { who, forgets } => {
                let process = self.place(who);
                if forgets && self.processes[process].run.is_none() {
                    self.processes[process].disk = Disk::default();
                }
                self.start(process);
            }
            StreamFault::Pause { who, length } => {
                let (process, until) = (self.place(who), self.now.plus(length));
                self.processes[process].paused_until = self.processes[process].paused_until.max(until);
            }
            StreamFault::Cut { who } => {
                let process = self.place(who);
                self.processes[process].is_cut = true;
            }
            StreamFault::Mend { who } => {
                let process = self.place(who);
                self.processes[process].is_cut = false;
            }
            StreamFault::Break { who } => {
                let process = self.place(who);
                if let Some(link) = self.processes[process].link() {
                    for at in [End::Follower, End::Server] {
                        self.queue.push(self.now, Event::Ends { link, at });
                    }
                }
            }
            StreamFault::LogAway { plane } => self.processes[plane].reaches_log = false,
            StreamFault::LogBack { plane } => self.processes[plane].reaches_log = true,
        }
    }

    fn place(&self, who: ProcessId) -> usize {
        let found = self.processes.iter().position(|process| process.who == who);
        found.expect("a scenario's faults are of its processes")
    }

    /// Its connections end with it.
    fn crash(&mut self, process: usize) {
        self.leave(process);
        let links = self.links.iter().filter(|(_, state)| state.server == process && state.is_open_at[1]);
        for link in links.map(|(link, _)| *link).collect::<Vec<_>>() {
            self.close(link, End::Server);
        }
        self.processes[process].run = None;
    }
}
