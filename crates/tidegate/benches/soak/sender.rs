//! The load: requests at an even pace, each about a subject and to a node that are drawn from the seed, over
//! connections that are made again when they end.
//!
//! An open loop, and a caller as a good one is: one that isn't answered within its deadline, or loses its connection,
//! asks the region's other node, once. A node that can't be reached isn't asked for a moment, as a load balancer
//! would have it.

use crate::books::Books;
use crate::connection::Connection;
use crate::plan::Random;
use crate::samples::Verdict;
use crate::scene::{NODES, sibling};
use crate::subject::{FAMILIES, LEDGER_PER_SECOND, LEDGERS, Subject, ledgers_of};
use crate::time::Stopwatch;
use rustix::event::{Timespec, epoll};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A caller's deadline: far beyond what any answer takes, and short enough to ask another node in time.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);
const OUT_OF_USE_FOR: Duration = Duration::from_millis(250);
/// To one node at a time; below what a stopped node's kernel takes.
const CONNECTIONS_MAX: usize = 96;
const EVENTS_MAX: usize = 128;
const READ_BYTES: usize = 16 << 10;

/// A request on its way.
#[derive(Clone, Copy, Debug)]
struct Shot {
    subject: usize,
    /// Its place in the books.
    index: usize,
    node: usize,
    connection: usize,
    give_up_at: Duration,
    is_second: bool,
}

#[derive(Default, Debug)]
struct TargetConnections {
    idle: Vec<usize>,
    connections: usize,
    out_of_use_until: Duration,
}

#[derive(Debug)]
pub(crate) struct Sender<'a> {
    subjects: &'a [Subject],
    books: &'a Books,
    addresses: Vec<SocketAddr>,
    stopwatch: Stopwatch,
    random: Random,
    epoll: OwnedFd,
    connections: HashMap<usize, Connection>,
    next_connection: usize,
    targets: Vec<TargetConnections>,
    shots: HashMap<usize, Shot>,
    /// By when they were sent.
    order: VecDeque<usize>,
    next_shot: usize,
    room: Vec<u8>,
}

impl<'a> Sender<'a> {
    pub(crate) fn new(
        subjects: &'a [Subject],
        books: &'a Books,
        addresses: Vec<SocketAddr>,
        stopwatch: Stopwatch,
        seed: u64,
    ) -> io::Result<Self> {
        Ok(Sender {
            subjects,
            books,
            addresses,
            stopwatch,
            random: Random(seed),
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            connections: HashMap::new(),
            next_connection: 0,
            targets: (0..NODES).map(|_| TargetConnections::default()).collect(),
            shots: HashMap::new(),
            order: VecDeque::new(),
            next_shot: 0,
            room: vec![0; READ_BYTES],
        })
    }

    /// Sends until told to stop, and then waits for the last answers.
    pub(crate) fn run(mut self, is_over: &AtomicBool) -> io::Result<()> {
        let lots = lots();
        let every = Duration::from_secs_f64(1.0 / f64::from(u32::try_from(lots.len()).unwrap_or(1)));
        let mut due = self.stopwatch.elapsed();
        while !is_over.load(Ordering::Relaxed) || !self.shots.is_empty() {
            let now = self.stopwatch.elapsed();
            while due <= now && !is_over.load(Ordering::Relaxed) {
                self.send_one(&lots, due);
                due += every;
            }
            self.wait(due.saturating_sub(self.stopwatch.elapsed()).min(Duration::from_millis(20)))?;
            self.give_up();
        }
        Ok(())
    }

    /// One request of a caller, if there is one due.
    fn send_one(&mut self, lots: &[Lot], at: Duration) {
        let node = self.random.below(NODES);
        let subject = match lots[self.random.below(lots.len())] {
            Lot::Caller(subject) => subject,
            Lot::Ledger(number) => match self.books.cycle_of_ledgers() {
                Some(cycle) => ledgers_of(cycle).start + number,
                None => return,
            },
        };
        self.books.tally.requests.fetch_add(1, Ordering::Relaxed);
        let node = if self.is_in_use(node, at) { node } else { sibling(node) };
        if !self.send(subject, node, at, false) {
            self.failed(subject, node, false);
        }
    }

    fn is_in_use(&self, node: usize, at: Duration) -> bool {
        self.targets[node].out_of_use_until <= at
    }

    /// False when the node can't be reached.
    fn send(&mut self, subject: usize, node: usize, at: Duration, is_second: bool) -> bool {
        let now = self.stopwatch.elapsed();
        let Some(connection) = self.connection(node) else {
            self.targets[node].out_of_use_until = now + OUT_OF_USE_FOR;
            return false;
        };
        let number = self.next_shot;
        self.next_shot += 1;
        let index = self.books.sent(subject, node, at);
        let give_up_at = now + ANSWER_WITHIN;
        self.shots.insert(number, Shot { subject, index, node, connection, give_up_at, is_second });
        self.order.push_back(number);
        let is_closed = self.connections.get_mut(&connection).is_none_or(|open| {
            open.push(number, &self.subjects[subject].request);
            open.flush();
            open.is_closed
        });
        if is_closed {
            self.bury(connection);
        }
        true
    }

    /// One that is idle, or a new one.
    fn connection(&mut self, node: usize) -> Option<usize> {
        let lane = &mut self.targets[node];
        if let Some(idle) = lane.idle.pop() {
            return Some(idle);
        }
        if lane.connections >= CONNECTIONS_MAX {
            return None;
        }
        let connection = Connection::open(&self.addresses[node], node).ok()?;
        let index = self.next_connection;
        let data = epoll::EventData::new_u64(u64::try_from(index).unwrap_or(u64::MAX));
        let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
        epoll::add(&self.epoll, &connection, data, flags).ok()?;
        self.next_connection += 1;
        lane.connections += 1;
        self.connections.insert(index, connection);
        Some(index)
    }

    fn wait(&mut self, length: Duration) -> io::Result<()> {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let timeout = Timespec::try_from(length).ok();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), timeout.as_ref()) {
            Err(rustix::io::Errno::INTR) => return Ok(()),
            waited => waited?,
        };
        for event in &events {
            let data = event.data;
            self.serve(usize::try_from(data.u64()).unwrap_or(usize::MAX));
        }
        Ok(())
    }

    /// Something happened on a connection.
    fn serve(&mut self, index: usize) {
        let Some(connection) = self.connections.get_mut(&index) else { return };
        let was_busy = !connection.waiting.is_empty();
        connection.flush();
        let mut answers = Vec::new();
        connection.receive(&mut self.room, |number, answer| answers.push((number, answer)));
        let (is_closed, is_idle) = (connection.is_closed, connection.waiting.is_empty());
        let now = self.stopwatch.elapsed();
        for (number, answer) in answers {
            let Some(shot) = self.shots.remove(&number) else { continue };
            self.books.answered(shot.subject, shot.index, now, (answer.verdict, answer.unverified));
            if answer.verdict == Verdict::Error {
                self.books.tally.errors.fetch_add(1, Ordering::Relaxed);
            }
        }
        if is_closed {
            self.bury(index);
        } else if was_busy && is_idle {
            let node = self.connections[&index].node;
            self.targets[node].idle.push(index);
        }
    }

    /// A connection is over: what waits on it is asked elsewhere.
    fn bury(&mut self, index: usize) {
        let Some(connection) = self.connections.remove(&index) else { return };
        let lane = &mut self.targets[connection.node];
        lane.connections -= 1;
        lane.idle.retain(|idle| *idle != index);
        for number in &connection.waiting {
            self.lost(*number);
        }
    }

    fn give_up(&mut self) {
        let now = self.stopwatch.elapsed();
        while let Some(number) = self.order.front().copied() {
            match self.shots.get(&number) {
                Some(shot) if shot.give_up_at > now => return,
                Some(shot) => {
                    let (node, connection) = (shot.node, shot.connection);
                    self.targets[node].out_of_use_until = now + OUT_OF_USE_FOR;
                    // An answer that comes later is nobody's.
                    self.bury(connection);
                }
                None => {}
            }
            self.order.pop_front();
        }
    }

    /// Nobody will answer it.
    fn lost(&mut self, number: usize) {
        let Some(shot) = self.shots.remove(&number) else { return };
        let now = self.stopwatch.elapsed();
        self.books.answered(shot.subject, shot.index, now, (Verdict::Error, false));
        self.failed(shot.subject, shot.node, shot.is_second);
    }

    fn failed(&mut self, subject: usize, node: usize, was_second: bool) {
        let now = self.stopwatch.elapsed();
        if was_second || !self.send(subject, sibling(node), now, true) {
            self.books.tally.errors.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Whom a request is about.
#[derive(Clone, Copy, Debug)]
enum Lot {
    Caller(usize),
    Ledger(usize),
}

/// As many of each as it gets requests a second.
fn lots() -> Vec<Lot> {
    let per_caller = FAMILIES.iter().flat_map(|(_, callers, rate)| (0..*callers).map(|_| *rate));
    let of_callers =
        per_caller.enumerate().flat_map(|(subject, rate)| std::iter::repeat_n(Lot::Caller(subject), rate));
    let of_ledgers =
        (0..LEDGERS).flat_map(|number| std::iter::repeat_n(Lot::Ledger(number), LEDGER_PER_SECOND));
    of_callers.chain(of_ledgers).collect()
}
