//! Asks the members of a cluster which of them owns which slots.
//!
//! Any member can answer, but one that was cut off tells of the past: whoever sees a working cluster and the
//! newest epoch is believed first. Members are asked over the shards' own connections, and over new ones where
//! these don't answer. One member that hangs never keeps the others from being asked.

mod answer;

use super::address::Address;
use super::deadline::Deadline;
use super::dial::Purpose;
use super::link::Link;
use super::servers::Servers;
use super::wire::Commands;
use answer::Answer;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// How long a connected member may take to answer before the next is asked.
const REPLY_TIMEOUT: Duration = Duration::from_millis(250);
/// Connected members to ask before others are connected to.
const CONNECTED_MAX: usize = 3;
/// Members to connect to at the same time.
const DIALLED_MAX: usize = 16;

/// What fuzzing calls: any answers of a member.
#[cfg(feature = "fuzz")]
pub(super) fn fuzz(answers: &[super::wire::Value]) {
    let _ = answer::read(answers, &Address::tcp("10.0.0.1", 7000));
}

/// Whom to ask.
pub(super) struct Members {
    /// From the url: always worth a try.
    seeds: Vec<Address>,
    /// Heard of in the last answer, replicas included.
    known_members: Vec<Address>,
    /// The newest epoch that a believed answer had.
    epoch: u64,
    /// Whose turn it is, so that not always the same one is asked.
    turn: usize,
}

impl Members {
    pub(super) fn new(seeds: Vec<Address>) -> Self {
        Members { seeds, known_members: Vec::new(), epoch: 0, turn: 0 }
    }

    /// Takes over the best answer that there is.
    pub(super) async fn poll(&mut self, servers: &Arc<Servers>) -> Result<(), String> {
        self.turn = self.turn.wrapping_add(1);
        let mut heard = PollResult::default();
        self.ask_connected(servers, &mut heard).await;
        if !self.is_stable(&heard) {
            self.ask_others(servers, &mut heard).await;
        }
        let Some(answer) = heard.best else { return Err(heard.problems.join("; ")) };
        self.epoch = answer.epoch;
        servers.adopt_layout(&answer.layout);
        self.known_members = answer.members;
        Ok(())
    }

    /// No other member could know better.
    fn is_stable(&self, polled: &PollResult) -> bool {
        polled.best.as_ref().is_some_and(|best| best.is_working && best.epoch >= self.epoch)
    }

    async fn ask_connected(&self, servers: &Servers, heard: &mut PollResult) {
        let shards = servers.map().shards().to_vec();
        let connected = shards.iter().filter_map(|shard| Some((shard.link_now()?, &shard.address)));
        let connected: Vec<_> = connected.collect();
        let turn = self.turn.checked_rem(connected.len()).unwrap_or(0);
        for (link, address) in connected[turn..].iter().chain(&connected[..turn]).take(CONNECTED_MAX) {
            heard.take(address, ask(link, address, REPLY_TIMEOUT).await);
            if self.is_stable(heard) {
                return;
            }
        }
    }

    async fn ask_others(&self, servers: &Arc<Servers>, heard: &mut PollResult) {
        let mut asked = JoinSet::new();
        for address in self.others() {
            let servers = servers.clone();
            asked.spawn(async move {
                let answer = connect_and_ask(&servers, &address).await;
                (address, answer)
            });
        }
        while let Some(joined) = asked.join_next().await {
            if let Ok((address, answer)) = joined {
                heard.take(&address, answer);
            }
            if self.is_stable(heard) {
                return;
            }
        }
    }

    /// The seeds, and of the others as many as there is room for, different ones each time.
    fn others(&self) -> Vec<Address> {
        let turn = self.turn.checked_rem(self.known_members.len()).unwrap_or(0);
        let mut others: Vec<Address> = Vec::new();
        for address in self.seeds.iter().chain(&self.known_members[turn..]).chain(&self.known_members[..turn])
        {
            if others.len() < DIALLED_MAX && !others.contains(address) {
                others.push(address.clone());
            }
        }
        others
    }
}

/// The best answer of a poll of the cluster's members, and the problems of the others.
#[derive(Default)]
struct PollResult {
    best: Option<Answer>,
    problems: Vec<String>,
}

impl PollResult {
    fn take(&mut self, address: &Address, answer: Result<Answer, String>) {
        match answer {
            Ok(answer) if self.best.as_ref().is_none_or(|best| answer.is_better_than(best)) => {
                self.best = Some(answer);
            }
            Ok(_) => {}
            Err(problem) => self.problems.push(format!("{address}: {problem}")),
        }
    }
}

async fn connect_and_ask(servers: &Servers, address: &Address) -> Result<Answer, String> {
    let connected = servers.dialer.connect(address, Purpose::Question).await?;
    let link = Link::new(&connected);
    tokio::select! {
        answer = ask(&link, address, servers.dialer.options.connect_timeout()) => answer,
        () = connected.driver => Err("it closed the connection".to_owned()),
    }
}

async fn ask(link: &Link, address: &Address, within: Duration) -> Result<Answer, String> {
    let mut commands = Commands::default();
    commands.add(&["CLUSTER", "INFO"]);
    commands.add(&["CLUSTER", "SLOTS"]);
    let answers = link.send(&commands, Deadline::after(within)).await;
    answer::read(&answers.map_err(|error| error.to_string())?, address)
}
