//! Carries what followers and feeds say to each other, as `tidegate_control`'s driver and the server do: decides nothing.

use super::disk::{Keeping, file_of};
use super::link::{End, Link, LinkId, SENT_AGAIN_AFTER, WINDOW_BYTES};
use super::process::Process;
use super::{ProcessId, StreamFault, StreamFlaw, Streams};
use bytes::{Bytes, BytesMut};
use tidegate_control::stream::{
    Action, Follower, FollowerMessage, MESSAGE_BYTES_MAX, PastReset, RuleStore, ServerMessage, take_first,
};
use tidegate_core::Nanos;

/// How often a control plane looks at its log.
const POLL_EVERY: Nanos = Nanos::from_millis(100);
/// How often files are looked after, and brokers tell who follows them.
const TEND_EVERY: Nanos = Nanos::from_secs(1);
/// A new file is written within this.
const WRITE_TIMEOUT: Nanos = Nanos::from_millis(300);
/// Files are written anew in one look of so many, without need.
const COMPACTS_ONE_IN: u64 = 20;
/// What a server takes from a feed at once.
const ROOM_BYTES: usize = 64 << 10;
/// No control plane takes a push: whoever pushes tries again after this.
const PUSHED_AGAIN_AFTER: Nanos = Nanos::from_millis(100);
/// What nobody has to wait for takes at least this long.
const AT_ONCE: Nanos = Nanos::new(1_000);

/// Of a process, with the number of its life; of a link, until both ends know that it is over.
#[derive(Debug)]
pub(super) enum Event {
    Push {
        change: usize,
    },
    Look {
        process: usize,
        life: u64,
    },
    Tick {
        process: usize,
        life: u64,
    },
    Tend {
        process: usize,
        life: u64,
    },
    Written {
        process: usize,
        life: u64,
        version: u64,
    },
    Refused {
        process: usize,
        life: u64,
    },
    Connected {
        link: LinkId,
    },
    Fill {
        link: LinkId,
    },
    /// The next message of a link gets to an end.
    Arrives {
        link: LinkId,
        at: End,
    },
    /// An end hears that the link is over.
    Ends {
        link: LinkId,
        at: End,
    },
    Fault(StreamFault),
}

impl Streams {
    pub(super) fn happen(&mut self, event: Event) {
        if let Some(until) = self.holds_up(&event) {
            self.queue.push(until, event);
            return;
        }
        match event {
            Event::Push { change } => self.push(change),
            Event::Look { process, life } if self.processes[process].is_life(life) => self.poll(process),
            Event::Tick { process, life } if self.processes[process].is_life(life) => self.tick(process),
            Event::Tend { process, life } if self.processes[process].is_life(life) => self.tend(process),
            Event::Written { process, life, version } if self.processes[process].is_life(life) => {
                self.written(process, version);
            }
            Event::Refused { process, life } if self.processes[process].is_life(life) => {
                self.follow(process, |follower, _, now| {
                    follower.lost("refused", now);
                    Vec::new()
                });
            }
            Event::Connected { link } => self.connected(link),
            Event::Fill { link } => self.fill(link),
            Event::Arrives { link, at } => self.arrives(link, at),
            Event::Ends { link, at } => self.ends(link, at),
            Event::Fault(fault) => self.fault(fault),
            // Of a life that is over.
            Event::Look { .. }
            | Event::Tick { .. }
            | Event::Tend { .. }
            | Event::Written { .. }
            | Event::Refused { .. } => {}
        }
    }

    /// Until when what happens has to wait: for a process that stands still, or a network that loses everything.
    fn holds_up(&self, event: &Event) -> Option<Nanos> {
        let (process, crosses) = match event {
            Event::Push { .. } | Event::Fault(_) => return None,
            Event::Look { process, .. }
            | Event::Tick { process, .. }
            | Event::Tend { process, .. }
            | Event::Written { process, .. }
            | Event::Refused { process, .. } => (*process, None),
            Event::Connected { link } => (self.links.get(link)?.follower, Some(link)),
            Event::Fill { link } => (self.links.get(link)?.server, None),
            Event::Arrives { link, at } | Event::Ends { link, at } => {
                (self.links.get(link)?.process_at(*at), Some(link))
            }
        };
        let is_cut = |link: &LinkId| {
            let Link { follower, server, .. } = &self.links[link];
            self.processes[*follower].is_cut || self.processes[*server].is_cut
        };
        if crosses.is_some_and(is_cut) {
            return Some(self.now.plus(SENT_AGAIN_AFTER));
        }
        let paused_until = self.processes[process].paused_until;
        (paused_until > self.now).then_some(paused_until)
    }

    pub(super) fn start(&mut self, process: usize) {
        if self.processes[process].run.is_some() {
            return;
        }
        let (seed, now) = (self.random.next_u64(), self.now);
        let state = &mut self.processes[process];
        state.start(seed, now);
        state.paused_until = now;
        let life = state.lives;
        self.queue.push(now.plus(AT_ONCE), Event::Tend { process, life });
        match state.who {
            ProcessId::Plane(_) => self.queue.push(now.plus(AT_ONCE), Event::Look { process, life }),
            ProcessId::Broker(_) | ProcessId::Node(_) => {
                self.queue.push(now.plus(AT_ONCE), Event::Tick { process, life });
            }
        }
    }

    /// The first control plane that can takes it.
    fn push(&mut self, change: usize) {
        let takes = |state: &Process| {
            let has_begun = state.run.as_ref().is_some_and(|life| life.has_begun);
            has_begun
                && state.reaches_log
                && state.paused_until <= self.now
                && matches!(state.who, ProcessId::Plane(_))
        };
        // Changes are made one after the other.
        let is_next = self.log.pushed_at.len() == change;
        match self.processes.iter().position(takes).filter(|_| is_next) {
            Some(plane) => {
                self.log.push(self.now);
                self.poll_log(plane);
            }
            None => self.queue.push(self.now.plus(PUSHED_AGAIN_AFTER), Event::Push { change }),
        }
    }

    fn poll(&mut self, process: usize) {
        let life = self.processes[process].lives;
        self.queue.push(self.now.plus(POLL_EVERY), Event::Look { process, life });
        self.poll_log(process);
    }

    fn poll_log(&mut self, process: usize) {
        let now = self.processes[process].clock(self.now);
        let state = &mut self.processes[process];
        let Some(life) = state.run.as_mut() else { return };
        let Some(feed) = &life.feed else { return };
        if state.reaches_log {
            if !std::mem::replace(&mut life.has_begun, true) {
                // As a publisher does: what was reset is in the store, and a file that was lost is built anew from it.
                for (reset, pushed_at) in self.log.resets() {
                    feed.receive_reset(PastReset { age: self.now.minus(pushed_at), ..reset }, now);
                }
                let file = state.disk.file.get_or_insert_with(|| file_of(self.log.head()));
                feed.offer(file.clone());
            }
            let changes = self.log.after(feed.head());
            let taken = feed.take(changes, now);
            assert!(taken.refused.is_none(), "rules: {:?} can't publish its log: {taken:?}", state.who);
            state.disk.changes =
                self.log.after(state.disk.file.as_ref().map_or(0, |file| file.version())).to_vec();
            feed.confirm(now, Nanos::ZERO);
        } else if self.scenario.flaw == Some(StreamFlaw::ConfirmsUnheard) {
            feed.confirm(now, Nanos::ZERO);
        }
        self.check(process);
        self.fill_all(process);
    }

    /// A follower does something by its own clock; what it wants is done, and who follows it in turn hears of it.
    fn follow(
        &mut self,
        process: usize,
        act: impl FnOnce(&mut Follower, &mut dyn RuleStore, Nanos) -> Vec<Action>,
    ) {
        let now = self.processes[process].clock(self.now);
        let state = &mut self.processes[process];
        let had = state.disk.version();
        let Some(life) = state.run.as_mut() else { return };
        let Some(follower) = life.follower.as_mut() else { return };
        let feed = life.feed.as_deref();
        let mut actions = act(follower, &mut Keeping { disk: &mut state.disk, feed, now }, now);
        actions.extend(follower.tick(now));
        let ticks_at = life.began_at.plus(follower.wakes_at()).max(self.now.plus(AT_ONCE));
        if std::mem::replace(&mut life.ticks_at, ticks_at) != ticks_at {
            self.queue.push(ticks_at, Event::Tick { process, life: life.number });
        }
        let has = state.disk.version();
        self.check(process);
        if has != had {
            self.record((process, has));
            self.received(process, had, has);
        }
        for action in actions {
            self.perform(process, action);
        }
        self.fill_all(process);
    }

    fn received(&mut self, process: usize, had: u64, has: u64) {
        let name = self.processes[process].name();
        assert!(has > had, "rules: {name} went back from version {had} to {has}");
        let ProcessId::Node(node) = self.processes[process].who else { return };
        for version in had + 1..=has {
            let change =
                version.checked_sub(super::FIRST_VERSION + 1).and_then(|change| usize::try_from(change).ok());
            let Some(heard_at) = change.and_then(|change| self.heard_at.get_mut(change)) else { continue };
            heard_at[node] = heard_at[node].min(self.now);
        }
    }

    fn tick(&mut self, process: usize) {
        let is_due = self.processes[process]
            .run
            .as_ref()
            .is_some_and(|life| life.ticks_at <= self.now || life.ticks_at == Nanos::MAX);
        if is_due {
            self.follow(process, |_, _, _| Vec::new());
        }
    }

    fn perform(&mut self, process: usize, action: Action) {
        match action {
            Action::Connect(server) => self.connect(process, server),
            Action::Disconnect => self.leave(process),
            Action::Send(up) => {
                if let Some(link) = self.processes[process].link() {
                    self.send_up(link, up);
                }
            }
        }
    }

    fn connect(&mut self, process: usize, server: usize) {
        self.leave(process);
        let state = &self.processes[process];
        let server = state.servers[server % state.servers.len()];
        let there_and_back = self.latency(process).plus(self.latency(process));
        self.record((process, server));
        let is_up = self.processes[server].run.is_some();
        if !is_up {
            let life = self.processes[process].lives;
            // Who is cut off hears nothing of a refusal either; it gives up by itself.
            if !self.processes[process].is_cut {
                self.queue.push(self.now.plus(there_and_back), Event::Refused { process, life });
            }
            return;
        }
        self.links_made += 1;
        let link = LinkId(self.links_made);
        self.links.insert(link, Link::new(process, server));
        if let Some(life) = &mut self.processes[process].run {
            life.link = Some(link);
        }
        self.queue.push(self.now.plus(there_and_back), Event::Connected { link });
    }

    /// The follower's end is closed; the server hears of it.
    pub(super) fn leave(&mut self, process: usize) {
        let Some(link) = self.processes[process].run.as_mut().and_then(|life| life.link.take()) else {
            return;
        };
        self.close(link, End::Follower);
    }

    /// One end is gone, and the other hears of it later.
    pub(super) fn close(&mut self, link: LinkId, end: End) {
        let Some(state) = self.links.get_mut(&link) else { return };
        let (mine, other) = match end {
            End::Follower => (0, End::Server),
            End::Server => (1, End::Follower),
        };
        state.is_open_at[mine] = false;
        if end == End::Server {
            state.subscriber = None;
        }
        if state.is_open_at == [false; 2] {
            self.links.remove(&link);
            return;
        }
        let follower = state.follower;
        let at = self.now.plus(self.latency(follower));
        self.queue.push(at, Event::Ends { link, at: other });
    }

    fn ends(&mut self, link: LinkId, at: End) {
        let Some(state) = self.links.get(&link) else { return };
        let follower = state.follower;
        match at {
            End::Server => self.close(link, End::Server),
            End::Follower => {
                let is_its = self.processes[follower].link() == Some(link);
                if is_its && let Some(life) = &mut self.processes[follower].run {
                    life.link = None;
                }
                self.close(link, End::Follower);
                if is_its {
                    self.follow(follower, |follower, _, now| {
                        follower.lost("the connection ended", now);
                        Vec::new()
                    });
                }
            }
        }
    }

    fn connected(&mut self, link: LinkId) {
        let Some(state) = self.links.get(&link).filter(|state| state.is_open()) else { return };
        self.follow(state.follower, |follower, rule_store, now| follower.connected(rule_store, now));
    }

    fn latency(&mut self, follower: usize) -> Nanos {
        let away = self.processes[follower].away;
        away.plus(Nanos::new(self.random.below(away.get() / 5 + 1)))
    }

    fn send_up(&mut self, link: LinkId, up: FollowerMessage) {
        let Some(follower) = self.links.get(&link).map(|state| state.follower) else { return };
        let at = self.now.plus(self.latency(follower));
        if let Some(state) = self.links.get_mut(&link) {
            let at = state.up.send(up, at);
            self.queue.push(at, Event::Arrives { link, at: End::Server });
        }
    }

    fn arrives(&mut self, link: LinkId, at: End) {
        match at {
            End::Server => self.arrives_up(link),
            End::Follower => self.arrives_down(link),
        }
    }

    fn arrives_up(&mut self, link: LinkId) {
        let Some(state) = self.links.get_mut(&link).filter(|state| state.is_open_at[1]) else { return };
        let Some(up) = state.up.take() else { return };
        let server = &self.processes[state.server];
        let (now, Some(feed)) = (server.clock(self.now), server.feed()) else { return };
        match (up, &mut state.subscriber) {
            (FollowerMessage::Hello(hello), None) => state.subscriber = Some(feed.subscribe(&hello, now)),
            (up, Some(subscriber)) => subscriber.receive(up, now),
            (_, None) => panic!("rules: a follower says something before its hello"),
        }
        self.fill(link);
    }

    /// Everything that has come, together: as it does to who stood still.
    fn arrives_down(&mut self, link: LinkId) {
        let Some(state) = self.links.get_mut(&link).filter(|state| state.is_open_at[0]) else { return };
        let frames = state.down.take_until(self.now);
        if frames.is_empty() {
            return;
        }
        state.bytes_on_the_way -= frames.iter().map(Bytes::len).sum::<usize>();
        let follower = state.follower;
        self.follow(follower, |follower, rule_store, now| {
            let mut actions: Vec<Action> =
                frames.iter().flat_map(|frame| follower.receive(unframed(frame), rule_store, now)).collect();
            actions.extend(follower.apply_pending(rule_store, now));
            actions
        });
        self.fill(link);
    }

    /// Something may have changed at a server.
    fn fill_all(&mut self, server: usize) {
        if self.processes[server].feed().is_none() {
            return;
        }
        let links: Vec<LinkId> =
            self.links.iter().filter(|(_, state)| state.server == server).map(|(link, _)| *link).collect();
        for link in links {
            self.fill(link);
        }
    }

    /// Sends what is due and the follower has room for.
    fn fill(&mut self, link: LinkId) {
        let Some(state) = self.links.get_mut(&link) else { return };
        let now = self.processes[state.server].clock(self.now);
        let began_at = self.processes[state.server].run.as_ref().map_or(Nanos::ZERO, |life| life.began_at);
        let Some(subscriber) = state.subscriber.as_mut().filter(|_| state.bytes_on_the_way < WINDOW_BYTES)
        else {
            return;
        };
        let mut frames = Vec::new();
        if subscriber.wakes_at(now) <= now || !subscriber.gathers(now) {
            subscriber.fill(now, ROOM_BYTES, &mut frames);
        }
        let wakes_at = subscriber.wakes_at(now);
        assert!(
            wakes_at > now || !frames.is_empty(),
            "rules: a feed has something for {} at once, and doesn't send it",
            subscriber.node()
        );
        let (fills_at, follower) = (began_at.plus(wakes_at).max(self.now.plus(AT_ONCE)), state.follower);
        if std::mem::replace(&mut state.fills_at, fills_at) != fills_at {
            self.queue.push(fills_at, Event::Fill { link });
        }
        self.send_down(link, follower, frames);
    }

    fn send_down(&mut self, link: LinkId, follower: usize, frames: Vec<Bytes>) {
        if frames.is_empty() {
            return;
        }
        let at = self.now.plus(self.latency(follower));
        let Some(state) = self.links.get_mut(&link) else { return };
        for frame in frames {
            state.bytes_on_the_way += frame.len();
            let at = state.down.send(frame, at);
            self.queue.push(at, Event::Arrives { link, at: End::Follower });
        }
    }

    /// What drivers and publishers do once in a second.
    fn tend(&mut self, process: usize) {
        let life = self.processes[process].lives;
        self.queue.push(self.now.plus(TEND_EVERY), Event::Tend { process, life });
        let now = self.processes[process].clock(self.now);
        let Some(feed) = self.processes[process].feed().cloned() else { return };
        let wants_file = feed.takes_snapshot_request() || self.random.one_in(COMPACTS_ONE_IN);
        let state = &mut self.processes[process];
        let version = state.disk.version();
        let link = state.link();
        if let Some(life) = state.run.as_mut()
            && wants_file
            && version > 0
            && !std::mem::replace(&mut life.is_compacting, true)
        {
            let after = self.random.nanos_between(AT_ONCE, WRITE_TIMEOUT);
            self.queue.push(self.now.plus(after), Event::Written { process, life: life.number, version });
        }
        if let (ProcessId::Broker(_), Some(link)) = (self.processes[process].who, link)
            && self.links.get(&link).is_some_and(|link| link.subscriber.is_some())
        {
            self.send_up(link, FollowerMessage::Nodes(feed.nodes(now)));
        }
    }

    fn written(&mut self, process: usize, version: u64) {
        let state = &mut self.processes[process];
        let Some(life) = state.run.as_mut() else { return };
        life.is_compacting = false;
        // A file that came meanwhile may be newer.
        if state.disk.file.as_ref().is_some_and(|file| file.version() < version) {
            let file = file_of(version);
            state.disk.use_file(file.clone());
            if let Some(feed) = &life.feed {
                feed.offer(file);
            }
        }
        self.fill_all(process);
    }
}

fn unframed(frame: &Bytes) -> ServerMessage {
    let mut bytes = BytesMut::from(&frame[..]);
    let message = take_first(&mut bytes, MESSAGE_BYTES_MAX).ok().flatten().expect("a whole message");
    assert!(bytes.is_empty(), "rules: a message has something behind it");
    ServerMessage::decode(&message).expect("a message that was encoded here")
}
