//! Sends a plan's requests when they are due, over many connections, and notes what came of each.
//!
//! An open loop: a request that finds no free connection waits for one, and its latency counts from when it
//! was meant to be sent. One thread, which sleeps between events.

use crate::connection::{Answer, Connection, Dial};
use crate::plan::{Plan, Shot};
use crate::samples::{Sample, Samples};
use crate::time::Stopwatch;
use rustix::event::{Timespec, epoll};
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// When everything was sent and nothing was heard for so long, nothing will be.
const PATIENCE: Duration = Duration::from_secs(3);
const EVENTS_MAX: usize = 256;
const READ_BYTES: usize = 16 << 10;

/// How requests are spread over connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Width {
    pub(crate) connections_per_node: usize,
    /// So many requests wait on one connection at most.
    pub(crate) depth: usize,
}

impl Width {
    /// No request waits behind another one's answer.
    pub(crate) const APART: Width = Width { connections_per_node: 48, depth: 1 };
    /// Many requests leave in one write: what costs the generator least.
    pub(crate) const PIPELINED: Width = Width { connections_per_node: 8, depth: 64 };
}

#[derive(Debug)]
pub(crate) struct Generator {
    epoll: OwnedFd,
    connections: Vec<Connection>,
    lanes: Vec<NodeConnection>,
    depth: usize,
    /// What is read goes through it.
    room: Vec<u8>,
}

/// The way to one node.
#[derive(Clone, Default, Debug)]
struct NodeConnection {
    /// Connections that can take another request.
    open: VecDeque<usize>,
    /// Requests that are due and found no connection.
    backlog: VecDeque<usize>,
    /// How many of its connections still work.
    alive: usize,
}

impl Generator {
    pub(crate) fn connect(addresses: &[impl Dial], width: Width) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let (connections, lanes, room) = (Vec::new(), Vec::new(), vec![0; READ_BYTES]);
        let mut generator = Generator { epoll, connections, lanes, depth: width.depth, room };
        for (node, address) in addresses.iter().enumerate() {
            let mut lane = NodeConnection { alive: width.connections_per_node, ..NodeConnection::default() };
            for _ in 0..width.connections_per_node {
                let index = generator.connections.len();
                let connection = Connection::open(address, node)?;
                let data = epoll::EventData::new_u64(u64::try_from(index).unwrap_or(u64::MAX));
                let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
                epoll::add(&generator.epoll, &connection, data, flags)?;
                lane.open.push_back(index);
                generator.connections.push(connection);
            }
            generator.lanes.push(lane);
        }
        Ok(generator)
    }

    /// Sends the plan, with the stopwatch's start as its beginning.
    pub(crate) fn run(&mut self, plan: &Plan, stopwatch: Stopwatch) -> io::Result<Samples> {
        let mut run = Run::new(plan, stopwatch);
        let mut next = 0;
        while run.open > 0 && stopwatch.elapsed() < run.over_at() {
            let now = stopwatch.elapsed();
            let due = plan.shots[next..].partition_point(|shot| shot.at <= now);
            self.send(next..next + due, &mut run);
            next += due;
            let until = plan.shots.get(next).map_or(run.over_at(), |shot| shot.at);
            self.wait(until.saturating_sub(stopwatch.elapsed()), &mut run)?;
        }
        self.close_unanswered(&mut run);
        Ok(run.samples())
    }

    fn send(&mut self, due: std::ops::Range<usize>, run: &mut Run<'_>) {
        if due.is_empty() {
            return;
        }
        for number in due {
            self.lanes[run.plan.shots[number].node].backlog.push_back(number);
        }
        for node in 0..self.lanes.len() {
            self.serve_backlog(node, run);
        }
    }

    /// Gives a node's waiting requests to its connections, and sends them.
    fn serve_backlog(&mut self, node: usize, run: &mut Run<'_>) {
        let lane = &mut self.lanes[node];
        while !lane.backlog.is_empty()
            && let Some(index) = lane.open.pop_front()
        {
            let connection = &mut self.connections[index];
            let room = self.depth.saturating_sub(connection.waiting.len()).min(lane.backlog.len());
            for number in lane.backlog.drain(..room) {
                connection.push(number, &run.plan.requests[run.plan.shots[number].request]);
            }
            connection.flush();
            if connection.is_closed {
                lane.bury(index, connection, run);
            } else if connection.waiting.len() < self.depth {
                lane.open.push_back(index);
            }
        }
        if lane.alive == 0 {
            lane.backlog.drain(..).for_each(|number| run.answered(number, Answer::NONE));
        }
    }

    fn wait(&mut self, length: Duration, run: &mut Run<'_>) -> io::Result<()> {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let timeout = Timespec::try_from(length).ok();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), timeout.as_ref()) {
            Err(rustix::io::Errno::INTR) => return Ok(()),
            waited => waited?,
        };
        for event in &events {
            let data = event.data;
            self.serve(usize::try_from(data.u64()).unwrap_or(usize::MAX), run);
        }
        Ok(())
    }

    /// Something happened on a connection.
    fn serve(&mut self, index: usize, run: &mut Run<'_>) {
        let connection = &mut self.connections[index];
        let (node, was_full) = (connection.node, connection.waiting.len() >= self.depth);
        connection.flush();
        connection.receive(&mut self.room, |number, answer| run.answered(number, answer));
        if connection.is_closed {
            self.lanes[node].bury(index, connection, run);
        } else if was_full && connection.waiting.len() < self.depth {
            self.lanes[node].open.push_back(index);
        }
        self.serve_backlog(node, run);
    }

    /// Answers that come after a run are nobody's.
    fn close_unanswered(&mut self, run: &mut Run<'_>) {
        for (index, connection) in self.connections.iter_mut().enumerate() {
            if !connection.waiting.is_empty() {
                self.lanes[connection.node].bury(index, connection, run);
            }
        }
        self.lanes.iter_mut().for_each(|lane| lane.backlog.clear());
    }
}

impl NodeConnection {
    /// A connection is over: nobody answers what waits on it.
    fn bury(&mut self, index: usize, connection: &mut Connection, run: &mut Run<'_>) {
        connection.is_closed = true;
        if !connection.is_buried {
            connection.is_buried = true;
            connection.waiting.drain(..).for_each(|number| run.answered(number, Answer::NONE));
            self.open.retain(|open| *open != index);
            self.alive -= 1;
        }
    }
}

/// A plan under way.
struct Run<'a> {
    plan: &'a Plan,
    stopwatch: Stopwatch,
    answers: Vec<Option<(Duration, Answer)>>,
    /// Requests without an answer.
    open: usize,
    /// When the last request is due, or when the latest answer came.
    active_at: Duration,
}

impl<'a> Run<'a> {
    fn new(plan: &'a Plan, stopwatch: Stopwatch) -> Self {
        let (open, last) = (plan.shots.len(), plan.shots.last());
        Run {
            plan,
            stopwatch,
            answers: vec![None; open],
            open,
            active_at: last.map_or(Duration::ZERO, |shot| shot.at),
        }
    }

    fn over_at(&self) -> Duration {
        self.active_at + PATIENCE
    }

    fn answered(&mut self, number: usize, answer: Answer) {
        if self.answers[number].is_none() {
            let now = self.stopwatch.elapsed();
            self.answers[number] = Some((now, answer));
            self.active_at = self.active_at.max(now);
            self.open -= 1;
        }
    }

    fn samples(self) -> Samples {
        let given_up_at = self.stopwatch.elapsed();
        let sample = |(shot, answer): (&Shot, &Option<(Duration, Answer)>)| {
            let (answered_at, answer) = answer.unwrap_or((given_up_at, Answer::NONE));
            Sample {
                kind: shot.kind,
                at: shot.at,
                latency: answered_at.saturating_sub(shot.at),
                verdict: answer.verdict,
                unverified: answer.unverified,
                remaining: answer.remaining,
            }
        };
        Samples(self.plan.shots.iter().zip(&self.answers).map(sample).collect())
    }
}
