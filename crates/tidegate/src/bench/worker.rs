//! One thread of the load: its connections, and a plain loop over what is ready.
//!
//! Closed loop: an answer is followed by the next request. Open loop: requests are due at fixed times, whether
//! or not answers come, and their latency counts from when they were due: a target that stalls can't hide it by
//! keeping the generator waiting.

use super::connection::{Connection, Ended, Read};
use super::keys::Keys;
use super::plan::{Load, Plan};
use super::tally::Tally;
use super::time::{Stopwatch, nanos};
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use std::collections::VecDeque;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const READ_BYTES: usize = 64 << 10;
const EVENTS_MAX: usize = 512;
/// How often timeouts and lost connections are looked at.
const POLL_EVERY_NS: u64 = 50_000_000;
/// A target that is gone isn't hammered.
const RECONNECT_AFTER: u64 = 100_000_000;

/// What a run's threads and the one that watches them share.
#[derive(Debug, Default)]
pub(crate) struct Live {
    pub(crate) stop: AtomicBool,
    pub(crate) answered: AtomicU64,
    pub(crate) errors: AtomicU64,
}

/// A thread's part of a plan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) index: usize,
    pub(crate) connections: usize,
    /// Requests a second, of an open loop.
    pub(crate) rate: f64,
}

pub(crate) struct Worker<'p> {
    plan: &'p Plan,
    live: Arc<Live>,
    clock: Stopwatch,
    epoll: OwnedFd,
    slots: Vec<Slot>,
    keys: Keys,
    tally: Tally,
    /// Connections that may take another request, of an open loop: as often as they may.
    free: VecDeque<usize>,
    schedule: Schedule,
    /// Requests that begin from here on count.
    counts_from: u64,
    ends_at: u64,
    polled_at: u64,
    reported: (u64, u64),
}

#[derive(Debug)]
struct Slot {
    connection: Option<Connection>,
    retry_at: u64,
    waits_to_write: bool,
    /// Since when it owes an answer and nothing came.
    silent_since: u64,
}

/// When the requests of an open loop are due.
#[derive(Clone, Copy, Debug)]
struct Schedule {
    begins_at: u64,
    per_second: f64,
    sent: u64,
}

impl Schedule {
    fn due_at(&self) -> u64 {
        let offset = std::time::Duration::try_from_secs_f64(self.sent as f64 / self.per_second);
        self.begins_at.saturating_add(offset.map_or(u64::MAX, nanos))
    }
}

impl<'p> Worker<'p> {
    /// Connects.
    pub(crate) fn start(plan: &'p Plan, part: Part, live: Arc<Live>, clock: Stopwatch) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        // The kernel may wake a sleeper 50 µs late otherwise, which would count as latency.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let number = |count: usize| u64::try_from(count).unwrap_or(0);
        let seed = 0x1234_5678_9abc_def1_u64.wrapping_mul(1 + number(part.index)).wrapping_add(plan.seed);
        let mut worker = Worker {
            plan,
            live,
            clock,
            epoll,
            slots: Vec::with_capacity(part.connections),
            keys: if plan.in_turn {
                Keys::in_turn(plan.keys, number(part.index), number(plan.threads))
            } else {
                Keys::new(plan.keys, plan.zipf, seed)
            },
            tally: Tally::default(),
            free: VecDeque::new(),
            schedule: Schedule { begins_at: 0, per_second: part.rate, sent: 0 },
            counts_from: 0,
            ends_at: u64::MAX,
            polled_at: 0,
            reported: (0, 0),
        };
        for index in 0..part.connections {
            worker.slots.push(Slot { connection: None, retry_at: 0, waits_to_write: false, silent_since: 0 });
            worker.open(index)?;
        }
        Ok(worker)
    }

    fn open(&mut self, index: usize) -> io::Result<()> {
        let connection = Connection::open(&self.plan.target)?;
        epoll::add(&self.epoll, &connection.socket, data(index), EventFlags::IN)?;
        self.slots[index].connection = Some(connection);
        self.slots[index].waits_to_write = false;
        if self.plan.load == Load::Open {
            self.free.extend(std::iter::repeat_n(index, self.plan.pipeline));
        }
        Ok(())
    }

    /// Runs to the end of the plan, or until it is stopped.
    pub(crate) fn run(mut self) -> Tally {
        let begins_at = self.clock.nanos();
        self.schedule.begins_at = begins_at;
        self.counts_from = begins_at + nanos(self.plan.warm_up);
        self.ends_at = self.counts_from + nanos(self.plan.duration);
        if self.plan.load == Load::Closed {
            (0..self.slots.len()).for_each(|index| self.refill(index, begins_at));
        }
        let mut buffer = vec![0; READ_BYTES];
        let mut events = Vec::with_capacity(EVENTS_MAX);
        loop {
            let now = self.clock.nanos();
            let stopped = self.live.stop.load(Ordering::Relaxed);
            if stopped {
                self.ends_at = self.ends_at.min(now);
            }
            if now >= self.ends_at
                && (stopped || self.is_quiet() || now >= self.ends_at + nanos(self.plan.timeout))
            {
                return self.finish(now);
            }
            if self.plan.load == Load::Open {
                self.send_due(now);
            }
            self.wait(&mut events);
            for event in events.drain(..) {
                self.handle(event, &mut buffer);
            }
            self.poll();
        }
    }

    fn is_quiet(&self) -> bool {
        self.slots.iter().all(|slot| slot.connection.as_ref().is_none_or(|open| open.in_flight.open() == 0))
    }

    fn finish(mut self, now: u64) -> Tally {
        // What wasn't answered took at least as long as it has waited.
        let open = self.slots.iter_mut().filter_map(|slot| slot.connection.as_mut());
        for start in open.flat_map(|connection| connection.in_flight.take_all()) {
            if self.plan.load == Load::Open && start >= self.counts_from && start < self.ends_at {
                self.tally.latencies.record(now - start);
                self.tally.errors.timeouts += 1;
            }
        }
        while self.plan.load == Load::Open && self.schedule.due_at() < self.ends_at.min(now) {
            let due_at = self.schedule.due_at();
            self.schedule.sent += 1;
            if due_at >= self.counts_from {
                self.tally.latencies.record(now - due_at);
                self.tally.unsent += 1;
            }
        }
        self.tally
    }

    fn wait(&self, events: &mut Vec<Event>) {
        let mut until = self.polled_at + POLL_EVERY_NS;
        if self.plan.load == Load::Open && !self.free.is_empty() {
            until = until.min(self.schedule.due_at());
        }
        let wait = until.saturating_sub(self.clock.nanos());
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::try_from(wait.min(POLL_EVERY_NS)).unwrap_or(0) };
        // Interrupted by a signal: the loop looks around and comes back.
        let _ = epoll::wait(&self.epoll, rustix::buffer::spare_capacity(events), Some(&timeout));
    }

    fn handle(&mut self, event: Event, buffer: &mut [u8]) {
        let (flags, index) = (event.flags, usize::try_from(event.data.u64()).unwrap_or(usize::MAX));
        if flags.contains(EventFlags::OUT) {
            self.flush(index);
        }
        if !flags.intersects(EventFlags::IN | EventFlags::ERR | EventFlags::HUP) {
            return;
        }
        let slot = &mut self.slots[index];
        let Some(connection) = &mut slot.connection else { return };
        let came = match connection.read(buffer) {
            Ok(Read::Nothing) => return,
            Ok(Read::Bytes(count)) => &buffer[..count],
            Err(Ended) => return self.lose(index),
        };
        let now = self.clock.nanos();
        slot.silent_since = now;
        let (counts_from, ends_at, tally) = (self.counts_from, self.ends_at, &mut self.tally);
        let (mut answers, mut errors) = (0, 0);
        let understood = connection.understand(came, |start, outcome| {
            answers += 1;
            errors += u64::from(outcome == super::answer::Outcome::Refused);
            if start >= counts_from && start < ends_at {
                tally.record(outcome, now.saturating_sub(start));
            }
        });
        self.reported = (self.reported.0 + answers, self.reported.1 + errors);
        if understood.is_err() || connection.is_over() {
            return self.lose(index);
        }
        match self.plan.load {
            Load::Closed => self.refill(index, now),
            Load::Open => {
                self.free.extend(std::iter::repeat_n(index, usize::try_from(answers).unwrap_or(0)));
                self.flush(index);
            }
        }
    }

    /// As many requests as the connection may have, in one write.
    fn refill(&mut self, index: usize, now: u64) {
        let slot = &mut self.slots[index];
        if now < self.ends_at
            && let Some(connection) = &mut slot.connection
        {
            slot.silent_since = now;
            while connection.in_flight.open() < self.plan.pipeline
                && connection.push(&self.plan.request, self.keys.next(), now)
            {}
        }
        self.flush(index);
    }

    /// The requests that are due, each on the connection that has been free for longest.
    fn send_due(&mut self, now: u64) {
        let mut written: Vec<usize> = Vec::new();
        loop {
            let due_at = self.schedule.due_at();
            if due_at > now || due_at >= self.ends_at {
                break;
            }
            let Some(index) = self.free.pop_front() else { break };
            let slot = &mut self.slots[index];
            let Some(connection) = &mut slot.connection else { continue };
            if connection.in_flight.open() == 0 {
                slot.silent_since = now;
            }
            if !connection.push(&self.plan.request, self.keys.next(), due_at) {
                self.free.push_back(index);
                break;
            }
            self.schedule.sent += 1;
            if written.last() != Some(&index) {
                written.push(index);
            }
        }
        written.into_iter().for_each(|index| self.flush(index));
    }

    /// Writes what can be written, and asks to be told when there is room for the rest.
    fn flush(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        let Some(connection) = &mut slot.connection else { return };
        let waits = match connection.flush() {
            Ok(is_all) => !is_all,
            Err(Ended) => return self.lose(index),
        };
        if waits != slot.waits_to_write {
            slot.waits_to_write = waits;
            let wanted = if waits { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN };
            if epoll::modify(&self.epoll, &connection.socket, data(index), wanted).is_err() {
                self.lose(index);
            }
        }
    }

    /// The connection is gone, and what was on its way with it.
    #[cold]
    fn lose(&mut self, index: usize) {
        let lost = self.drop_connection(index);
        self.tally.errors.lost += lost;
        self.reported.1 += lost;
    }

    /// How many requests went with it.
    fn drop_connection(&mut self, index: usize) -> u64 {
        let Some(mut connection) = self.slots[index].connection.take() else { return 0 };
        self.free.retain(|free| *free != index);
        self.slots[index].retry_at = self.clock.nanos() + RECONNECT_AFTER;
        let (from, to) = (self.counts_from, self.ends_at);
        let counted = connection.in_flight.take_all().filter(|start| (from..to).contains(start)).count();
        u64::try_from(counted).unwrap_or(u64::MAX)
    }

    /// Now and then: who takes too long, who may connect again, and what to show.
    fn poll(&mut self) {
        let now = self.clock.nanos();
        if now < self.polled_at + POLL_EVERY_NS {
            return;
        }
        self.polled_at = now;
        let (answered, errors) = std::mem::take(&mut self.reported);
        self.live.answered.fetch_add(answered, Ordering::Relaxed);
        self.live.errors.fetch_add(errors, Ordering::Relaxed);
        let timeout = nanos(self.plan.timeout);
        for index in 0..self.slots.len() {
            let slot = &self.slots[index];
            match &slot.connection {
                Some(connection) => {
                    let owes = connection.in_flight.open() > 0;
                    if owes && now.saturating_sub(slot.silent_since) > timeout {
                        let late = self.drop_connection(index);
                        self.tally.errors.timeouts += late;
                        self.reported.1 += late;
                    }
                }
                None if slot.retry_at <= now && now < self.ends_at => self.reopen(index, now),
                None => {}
            }
        }
    }

    #[cold]
    fn reopen(&mut self, index: usize, now: u64) {
        match self.open(index) {
            Ok(()) if self.plan.load == Load::Closed => self.refill(index, now),
            Ok(()) => {}
            Err(_) => {
                self.tally.errors.connects += 1;
                self.reported.1 += 1;
                self.slots[index].retry_at = now + RECONNECT_AFTER;
            }
        }
    }
}

fn data(index: usize) -> EventData {
    EventData::new_u64(u64::try_from(index).unwrap_or(u64::MAX))
}
