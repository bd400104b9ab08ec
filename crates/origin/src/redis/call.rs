//! Carries calls of a script to the servers that own their slots, all calls to one server in one write.
//!
//! An answer is final but for four: `NOSCRIPT` (the call is sent again with the script's text), `MOVED` and
//! `ASK` (followed once, to a server that did not see the call before), and `TRYAGAIN` (a slot is on the move: sent
//! again some milliseconds later, as if for the first time). Whatever happens, a call is over at
//! its deadline, and nothing that may have been executed is ever sent twice.

use super::address::Address;
use super::deadline::Deadline;
use super::join::join_all;
use super::script::ScriptCall;
use super::servers::Servers;
use super::shard::Shard;
use super::thread_connections::link_here;
use super::wire::{Commands, ServerError, Value};
use crate::OriginError;
use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// A slot of some hundred keys moves within milliseconds.
const SLOT_MOVE_RETRY_DELAY: Duration = Duration::from_millis(5);

/// A script, and the hash that servers know it by.
#[derive(Debug)]
pub(super) struct Script {
    text: &'static str,
    hash: String,
}

impl Script {
    pub(super) fn new(text: &'static str) -> Self {
        let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes());
        let hash = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        Script { text, hash }
    }

    fn add_to(&self, commands: &mut Commands, form: Form, call: &ScriptCall) {
        let (name, script) = match form {
            Form::Hash => ("EVALSHA", self.hash.as_str()),
            Form::Text => ("EVAL", self.text),
        };
        if call.is_reading {
            return commands.add_with(&["GET"], &[&call.keys]);
        }
        let keys = call.keys.len().to_string();
        commands.add_with(&[name, script, &keys], &[&call.keys, &call.args]);
    }
}

/// Servers are told a script's hash first; who doesn't know it gets the text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    Hash,
    Text,
}

/// How a call came to a shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// By our own map.
    Own,
    /// Another server said that the slot is there now.
    Moved,
    /// Another server said that this key may be there, while its slot is being moved.
    Ask,
}

#[derive(Debug)]
struct Attempt {
    call: usize,
    shard: Arc<Shard>,
    form: Form,
    way: Way,
}

impl Attempt {
    fn first(call: usize, shard: &Arc<Shard>) -> Self {
        Attempt { call, shard: shard.clone(), form: Form::Hash, way: Way::Own }
    }
}

/// Nearly always one.
type Attempts = SmallVec<[Attempt; 1]>;

type Answer = Result<Value, OriginError>;

/// Each call's answer, in order.
pub(super) async fn run(
    servers: &Arc<Servers>,
    script: &Script,
    calls: &[ScriptCall],
    deadline: Deadline,
) -> Vec<Answer> {
    let mut answers: Vec<Answer> = Vec::with_capacity(calls.len());
    let mut attempts = Attempts::new();
    {
        let map = servers.map();
        for (index, call) in calls.iter().enumerate() {
            answers.push(Err(OriginError::Unreachable { cause: String::new() }));
            match map.owner(call.slot) {
                Some(shard) => attempts.push(Attempt::first(index, shard)),
                None => answers[index] = Err(OriginError::Unreachable { cause: servers.ignorance() }),
            }
        }
    }
    // Which server said of a call that its slot is on the move.
    let mut moving: SmallVec<[Option<String>; 1]> = smallvec![None; calls.len()];
    // At most four rounds between two pauses: hash, text, and both again where it was redirected to.
    while !attempts.is_empty() {
        let mut later = Vec::new();
        let groups = by_shard(attempts);
        attempts = Attempts::new();
        let received: SmallVec<[Vec<Answer>; 1]> = match &groups[..] {
            // The usual case needs no list of futures.
            [only] => smallvec![send(servers, script, calls, only, deadline).await],
            several => {
                let sent = several.iter().map(|group| send(servers, script, calls, group, deadline));
                join_all(sent.collect()).await.into()
            }
        };
        for (group, received) in groups.iter().zip(received) {
            for (attempt, answer) in group.iter().zip(received) {
                match next(servers, attempt, answer) {
                    // Asked for the last time when nothing more could come of it: that is what was heard.
                    Step::Final(Err(OriginError::Timeout { .. })) if moving[attempt.call].is_some() => {
                        let server = moving[attempt.call].take().unwrap_or_default();
                        answers[attempt.call] = Err(OriginError::Moving { server });
                    }
                    Step::Final(answer) => answers[attempt.call] = answer,
                    Step::Again(attempt) => attempts.push(attempt),
                    Step::Later => {
                        moving[attempt.call] = Some(attempt.shard.address.to_string());
                        later.push(attempt.call);
                    }
                }
            }
        }
        if !later.is_empty() {
            let has_time = Instant::now() + SLOT_MOVE_RETRY_DELAY < deadline.at();
            if has_time {
                sleep(SLOT_MOVE_RETRY_DELAY).await;
            }
            for index in later {
                match servers.map().owner(calls[index].slot) {
                    Some(shard) if has_time => attempts.push(Attempt::first(index, shard)),
                    Some(shard) => {
                        let server = shard.address.to_string();
                        answers[index] = Err(OriginError::Moving { server });
                    }
                    None => answers[index] = Err(OriginError::Unreachable { cause: servers.ignorance() }),
                }
            }
        }
    }
    answers
}

fn by_shard(attempts: Attempts) -> SmallVec<[Attempts; 1]> {
    let mut groups = SmallVec::<[Attempts; 1]>::new();
    for attempt in attempts {
        let same = groups.iter_mut().find(|group| group.iter().any(|one| one.shard.id == attempt.shard.id));
        match same {
            Some(group) => group.push(attempt),
            None => groups.push(smallvec![attempt]),
        }
    }
    groups
}

/// Sends attempts at one shard; an answer for each.
async fn send(
    servers: &Arc<Servers>,
    script: &Script,
    calls: &[ScriptCall],
    attempts: &[Attempt],
    deadline: Deadline,
) -> Vec<Answer> {
    let received = async {
        let Some(Attempt { shard, .. }) = attempts.first() else { return Ok(Vec::new()) };
        let _passage = shard.enter(attempts.len(), servers.dialer.options.calls_in_flight_max)?;
        let link = link_here(servers, shard, shard.link(deadline).await?);
        link.send(&commands(script, calls, attempts), deadline).await
    };
    let mut received = match received.await {
        Ok(received) => received.into_iter(),
        Err(error) => return attempts.iter().map(|_| Err(error.clone())).collect(),
    };
    let answers = attempts.iter().map(|attempt| {
        if attempt.way == Way::Ask {
            // The answer to ASKING, which says nothing.
            received.next();
        }
        received.next().ok_or_else(|| OriginError::Nonsense { what: "an answer is missing".to_owned() })
    });
    answers.collect()
}

fn commands(script: &Script, calls: &[ScriptCall], attempts: &[Attempt]) -> Commands {
    let mut commands = Commands::default();
    for attempt in attempts {
        if attempt.way == Way::Ask {
            commands.add(&["ASKING"]);
        }
        script.add_to(&mut commands, attempt.form, &calls[attempt.call]);
    }
    commands
}

enum Step {
    Final(Answer),
    Again(Attempt),
    /// Once the slot has moved on.
    Later,
}

fn next(servers: &Arc<Servers>, attempt: &Attempt, answer: Answer) -> Step {
    let error = match answer {
        Ok(Value::ServerError(error)) => error,
        other => return Step::Final(other),
    };
    match error.code() {
        "NOSCRIPT" if attempt.form == Form::Hash => {
            return Step::Again(Attempt { form: Form::Text, shard: attempt.shard.clone(), ..*attempt });
        }
        "MOVED" | "ASK" => {
            if let Some(redirected) = redirect(servers, attempt, &error) {
                return Step::Again(redirected);
            }
        }
        "TRYAGAIN" => return Step::Later,
        "READONLY" => {
            // No longer a primary. A name may lead to another server by now.
            servers.refresh_soon();
            if let Some(link) = attempt.shard.link_now() {
                link.condemn();
            }
        }
        "CLUSTERDOWN" | "MASTERDOWN" => servers.refresh_soon(),
        _ => {}
    }
    Step::Final(Err(refusal(servers, attempt, &error)))
}

fn redirect(servers: &Arc<Servers>, attempt: &Attempt, error: &ServerError) -> Option<Attempt> {
    let is_moved = error.code() == "MOVED";
    if is_moved {
        servers.refresh_soon();
    }
    if attempt.way != Way::Own || !servers.map().has_slots() {
        return None;
    }
    let (slot, address) = error.details().split_once(' ')?;
    let slot: u16 = slot.parse().ok()?;
    let address = Address::from_redirection(address, &attempt.shard.address)?;
    let shard = servers.redirected(&address, is_moved.then_some(slot))?;
    let way = if is_moved { Way::Moved } else { Way::Ask };
    Some(Attempt { call: attempt.call, shard, form: Form::Hash, way })
}

fn refusal(servers: &Servers, attempt: &Attempt, error: &ServerError) -> OriginError {
    let is_redirection = matches!(error.code(), "MOVED" | "ASK");
    let hint = if is_redirection && !servers.map().has_slots() {
        "; it belongs to a cluster: begin the url with redis+cluster://"
    } else {
        ""
    };
    OriginError::Refused { message: format!("{}: {error}{hint}", attempt.shard.address) }
}
