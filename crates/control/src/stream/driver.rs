//! Carries the follower: connections, timers, and the calls to what keeps the rules.
//!
//! Decides nothing. What keeps the rules may take long (a snapshot of millions): this belongs on a thread where
//! nobody waits for it. Nothing here ends but by being dropped.

use super::endpoint::Endpoints;
use super::feed::Feed;
use super::follower::{Action, Follower, Identity};
use super::link::Link;
use super::message::{FollowerMessage, NODES_MAX, Payload, PayloadKind, Question, QuestionId, ServerMessage};
use super::questions::{NodeAnswer, QUESTIONS_MAX};
use super::rule_store::RuleStore;
use super::status::Status;
use super::steady::Steady;
use bytes::Bytes;
use http::HeaderValue;
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tidegate_core::Nanos;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

/// How often a broker tells who follows it, and reports go up.
const REPORT_EVERY: Duration = Duration::from_secs(1);
/// Reports that wait to go up; what comes beyond is dropped, the oldest first.
const REPORTS_MAX: usize = 64;

/// How soon what found no room on the stream is tried again.
const ROOM_AGAIN_AFTER: Duration = Duration::from_millis(5);

/// Who answers questions that come down: this node, or all who follow this broker. Within the time that is given.
pub type QuestionHandler =
    Arc<dyn Fn(Question) -> Pin<Box<dyn Future<Output = Vec<NodeAnswer>> + Send>> + Send + Sync>;

/// Whom to follow, as whom.
#[derive(Clone)]
pub struct FollowOptions {
    pub identity: Identity,
    pub servers: Endpoints,
    pub token: Option<String>,
    /// Chance: which server is the first, and how long waits are.
    pub seed: u64,
    /// Whose followers are told of upward, and who is told what comes down: a broker's.
    pub feed: Option<Arc<Feed>>,
    /// `None`: questions stay unanswered.
    pub answering: Option<QuestionHandler>,
}

/// A token is a secret.
impl fmt::Debug for FollowOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FollowOptions")
            .field("identity", &self.identity)
            .field("servers", &self.servers)
            .finish_non_exhaustive()
    }
}

/// How following goes, for whoever wants to know, and what is to go up.
#[derive(Debug)]
pub struct FollowView {
    servers: Endpoints,
    clock: Steady,
    status: Mutex<Status>,
    notices: Mutex<BTreeMap<PayloadKind, Bytes>>,
    reports: Mutex<VecDeque<Payload>>,
}

impl FollowView {
    /// `version`: what is in force before anybody was asked.
    pub fn new(servers: Endpoints, version: u64) -> Arc<Self> {
        let clock = Steady::begin();
        let status = Mutex::new(Status { version, ..Status::default() });
        Arc::new(FollowView { servers, clock, status, notices: Mutex::default(), reports: Mutex::default() })
    }

    pub fn servers(&self) -> &Endpoints {
        &self.servers
    }

    /// How it stands, and for how long the rules haven't been confirmed.
    pub fn status(&self) -> (Status, Nanos) {
        let status = self.status.lock().clone();
        let stale_for = status.stale_for(self.clock.now());
        (status, stale_for)
    }

    /// The newest that came down of a kind.
    pub fn notice(&self, kind: PayloadKind) -> Option<Bytes> {
        self.notices.lock().get(&kind).cloned()
    }

    /// Goes up within a second, if somebody is there. The newest ones are kept until then.
    pub fn report(&self, report: Payload) {
        let mut reports = self.reports.lock();
        if reports.len() == REPORTS_MAX {
            reports.pop_front();
        }
        reports.push_back(report);
    }
}

type Connecting = Pin<Box<dyn Future<Output = Result<Link, String>> + Send>>;

/// What the connection is.
enum Wire {
    None,
    Connecting(Connecting),
    Open(Link),
}

/// What came of waiting.
enum Event {
    Connected(Result<Link, String>),
    Messages(Result<Vec<Bytes>, String>),
    Time,
    Tell,
    Answered(QuestionId, Vec<NodeAnswer>),
    Room,
}

/// Questions that are being answered here, and parts of answers that wait for room on the stream.
#[derive(Default)]
struct Replies {
    asked: JoinSet<(QuestionId, Vec<NodeAnswer>)>,
    waiting: VecDeque<FollowerMessage>,
}

impl Replies {
    fn begin(&mut self, question: Question, options: &FollowOptions) {
        let Some(answering) = options.answering.as_ref().filter(|_| self.asked.len() < QUESTIONS_MAX) else {
            return;
        };
        let (id, answer) = (question.id, answering(question));
        self.asked.spawn(async move { (id, answer.await) });
    }

    /// Waits for the next answer; for ever where none is awaited.
    async fn next(&mut self) -> Event {
        loop {
            match self.asked.join_next().await {
                Some(Ok((id, answers))) => return Event::Answered(id, answers),
                // It panicked; who asked will see that nothing came.
                Some(Err(_)) => {}
                None => return std::future::pending().await,
            }
        }
    }

    /// Sends what there is room for.
    fn send(&mut self, wire: &mut Wire) {
        let Wire::Open(link) = wire else { return self.waiting.clear() };
        while self.waiting.front().is_some_and(|up| link.send(up)) {
            self.waiting.pop_front();
        }
    }
}

/// Follows until the future is dropped.
pub async fn follow(options: FollowOptions, rule_store: &mut dyn RuleStore, view: &FollowView) {
    let clock = view.clock;
    let servers = options.servers.as_slice().len();
    let mut follower = Follower::new(options.identity.clone(), servers, options.seed, clock.now());
    follower.begins_with(rule_store);
    let authorization = authorization(&options);
    let mut wire = Wire::None;
    let mut replies = Replies::default();
    let mut tell = tokio::time::interval(REPORT_EVERY);
    tell.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let actions = follower.tick(clock.now());
        perform(actions, &mut wire, &options, authorization.as_ref());
        *view.status.lock() = follower.status().clone();
        let has_waiting = !replies.waiting.is_empty();
        let event = tokio::select! {
            biased;
            event = progress(&mut wire) => event,
            event = replies.next() => event,
            _ = tell.tick() => Event::Tell,
            () = tokio::time::sleep(ROOM_AGAIN_AFTER), if has_waiting => Event::Room,
            () = tokio::time::sleep_until(clock.instant(follower.wakes_at())) => Event::Time,
        };
        let actions = match event {
            Event::Time | Event::Room => Vec::new(),
            Event::Answered(id, answers) => {
                let parts = answers.iter().flat_map(|answer| answer.parts(id)).map(FollowerMessage::Answer);
                replies.waiting.extend(parts);
                Vec::new()
            }
            Event::Tell => {
                rule_store.tend();
                report_upstream(&options, view)
            }
            Event::Connected(Ok(link)) => {
                wire = Wire::Open(link);
                follower.connected(rule_store, clock.now())
            }
            Event::Connected(Err(problem)) | Event::Messages(Err(problem)) => {
                wire = Wire::None;
                follower.lost(&problem, clock.now());
                Vec::new()
            }
            Event::Messages(Ok(messages)) => {
                take(&messages, &mut follower, rule_store, &options, view, &mut replies)
            }
        };
        perform(actions, &mut wire, &options, authorization.as_ref());
        replies.send(&mut wire);
    }
}

/// Waits for what the connection brings; for ever where there is none.
async fn progress(wire: &mut Wire) -> Event {
    match wire {
        Wire::None => std::future::pending().await,
        Wire::Connecting(connecting) => Event::Connected(connecting.await),
        Wire::Open(link) => Event::Messages(link.next().await),
    }
}

fn perform(
    actions: Vec<Action>,
    wire: &mut Wire,
    options: &FollowOptions,
    authorization: Option<&HeaderValue>,
) {
    for action in actions {
        match (action, &mut *wire) {
            (Action::Disconnect, wire) => *wire = Wire::None,
            (Action::Send(up), Wire::Open(link)) => {
                link.send(&up);
            }
            (Action::Send(_), Wire::None | Wire::Connecting(_)) => {}
            (Action::Connect(server), wire) => {
                let Some(endpoint) = options.servers.as_slice().get(server).cloned() else { continue };
                let authorization = authorization.cloned();
                *wire =
                    Wire::Connecting(Box::pin(
                        async move { Link::open(&endpoint, authorization.as_ref()).await },
                    ));
            }
        }
    }
}

/// Takes messages, and puts in force what they bring.
fn take(
    messages: &[Bytes],
    follower: &mut Follower,
    rule_store: &mut dyn RuleStore,
    options: &FollowOptions,
    view: &FollowView,
    replies: &mut Replies,
) -> Vec<Action> {
    let mut actions = Vec::new();
    for message in messages {
        let now = view.clock.now();
        match ServerMessage::decode(message) {
            Ok(ServerMessage::Notice(notice)) => {
                view.notices.lock().insert(notice.kind, notice.payload.clone());
                if let Some(feed) = &options.feed {
                    feed.notice(notice.clone());
                }
                actions.extend(follower.receive(ServerMessage::Notice(notice), rule_store, now));
            }
            Ok(ServerMessage::Question(question)) => {
                replies.begin(question.clone(), options);
                actions.extend(follower.receive(ServerMessage::Question(question), rule_store, now));
            }
            Ok(down) => {
                let is_loading = matches!(down, ServerMessage::Chunk { .. });
                actions.extend(follower.receive(down, rule_store, now));
                if is_loading {
                    // Millions of rules take a while, and it is shown how far they are.
                    *view.status.lock() = follower.status().clone();
                }
            }
            Err(malformed) => {
                follower.lost(malformed.0, now);
                return vec![Action::Disconnect];
            }
        }
    }
    actions.extend(follower.apply_pending(rule_store, view.clock.now()));
    actions
}

/// Returns the messages that a follower sends to its server from time to time.
fn report_upstream(options: &FollowOptions, view: &FollowView) -> Vec<Action> {
    let mut actions: Vec<Action> =
        view.reports.lock().drain(..).map(|report| Action::Send(FollowerMessage::Report(report))).collect();
    if let Some(feed) = &options.feed {
        let nodes = feed.nodes(feed.clock().now());
        actions.extend(
            nodes.chunks(NODES_MAX).map(|nodes| Action::Send(FollowerMessage::Nodes(nodes.to_vec()))),
        );
        let reports = feed.take_reports(REPORTS_MAX);
        actions.extend(reports.into_iter().map(|(_, report)| Action::Send(FollowerMessage::Report(report))));
    }
    actions
}

fn authorization(options: &FollowOptions) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(&format!("Bearer {}", options.token.as_ref()?)).ok()?;
    value.set_sensitive(true);
    Some(value)
}
