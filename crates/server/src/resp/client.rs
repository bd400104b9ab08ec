//! Everything but throttling: what clients say to get to know a server, answered as Redis does.
//!
//! Whatever a client library sends when it connects must not end in an error that it gives up on. What would
//! need data that a rate limiter hasn't is an unknown command.

mod hello;
mod info;
mod names;

use super::login::{Login, NO_AUTH, WRONG_PASS};
use super::number::integer;
use super::reply::{self, Version};
use crate::App;
use crate::counters::COUNTERS;
use std::sync::atomic::{AtomicI64, Ordering};

/// The Redis whose protocol this is: clients choose by it what they send.
const REDIS_VERSION: &str = "7.0.0";
/// An unknown command is quoted up to here, and so are its arguments together, as Redis does.
const QUOTED_BYTES_MAX: usize = 128;

/// What a connection has told about itself.
#[derive(Debug)]
pub(crate) struct Client {
    id: i64,
    name: Option<Box<str>>,
    version: Version,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    Answered,
    Close,
}

impl Client {
    pub(crate) fn new() -> Self {
        static LAST_ID: AtomicI64 = AtomicI64::new(0);
        Client { id: LAST_ID.fetch_add(1, Ordering::Relaxed) + 1, name: None, version: Version::default() }
    }

    /// Answers a command that isn't about a limit.
    pub(crate) fn run(
        &mut self,
        app: &App,
        login: &mut Login,
        words: &[&[u8]],
        out: &mut Vec<u8>,
    ) -> Outcome {
        let Some((name, arguments)) = words.split_first() else { return Outcome::Answered };
        let mut upper = [0; 8];
        let name_in_capitals = capitals(name, &mut upper);
        match (name_in_capitals, arguments) {
            (b"AUTH", [token] | [_, token]) if login.log_in(app, token) => reply::simple(out, "OK"),
            (b"AUTH", [_] | [_, _]) => refuse(out, WRONG_PASS),
            (b"HELLO", _) => self.hello(app, login, arguments, out),
            (b"RESET", []) => {
                login.log_out(app);
                self.reset(out);
            }
            (b"QUIT", _) => {
                reply::simple(out, "OK");
                return Outcome::Close;
            }
            // A browser that was led here speaks HTTP. Redis hangs up on it, and so do we.
            (b"POST" | b"HOST:", _) => return Outcome::Close,
            _ if !login.is_known() => refuse(out, NO_AUTH),
            (b"PING", []) => reply::simple(out, "PONG"),
            (b"PING" | b"ECHO", [message]) => reply::bulk(out, message),
            (b"CLIENT", [subcommand, rest @ ..]) => self.client(subcommand, rest, out),
            (b"COMMAND", _) => self.command(arguments, out),
            (b"CONFIG", [subcommand, rest @ ..]) => self.config(subcommand, rest, out),
            (b"INFO", _) => info::write(app, login, out),
            (b"SELECT", [index]) => select(index, out),
            (b"PING" | b"ECHO" | b"AUTH" | b"CLIENT" | b"CONFIG" | b"SELECT" | b"RESET", _) => {
                wrong_count(out, name);
            }
            _ => unknown(out, name, arguments),
        }
        Outcome::Answered
    }

    fn reset(&mut self, out: &mut Vec<u8>) {
        (self.name, self.version) = (None, Version::default());
        reply::simple(out, "RESET");
    }

    /// Clients ask for it to complete what people type; they can do without.
    fn command(&self, arguments: &[&[u8]], out: &mut Vec<u8>) {
        const COMMANDS: i64 = 14;
        match arguments.first() {
            Some(word) if word.eq_ignore_ascii_case(b"COUNT") => reply::integer(out, COMMANDS),
            Some(word) if word.eq_ignore_ascii_case(b"DOCS") => reply::map(out, self.version, 0),
            _ => reply::array(out, 0),
        }
    }

    /// What redis-benchmark asks before it begins; there is nothing to set.
    fn config(&self, subcommand: &[u8], names: &[&[u8]], out: &mut Vec<u8>) {
        const SETTINGS: [(&str, &str); 2] = [("save", ""), ("appendonly", "no")];
        if !subcommand.eq_ignore_ascii_case(b"GET") {
            return unknown_subcommand(out, "CONFIG", subcommand);
        }
        let is_asked_for = |setting: &&(&str, &str)| {
            names.iter().any(|name| *name == b"*" || name.eq_ignore_ascii_case(setting.0.as_bytes()))
        };
        reply::map(out, self.version, SETTINGS.iter().filter(is_asked_for).count());
        for (name, value) in SETTINGS.iter().filter(is_asked_for) {
            reply::bulk(out, name.as_bytes());
            reply::bulk(out, value.as_bytes());
        }
    }
}

/// A word in capitals, if it is short enough to be one of ours.
fn capitals<'b>(word: &[u8], buffer: &'b mut [u8; 8]) -> &'b [u8] {
    let Some(capitals) = buffer.get_mut(..word.len()) else { return b"" };
    capitals.copy_from_slice(word);
    capitals.make_ascii_uppercase();
    capitals
}

fn select(index: &[u8], out: &mut Vec<u8>) {
    match integer(index) {
        Some(0) => reply::simple(out, "OK"),
        Some(_) => refuse(out, b"ERR DB index is out of range"),
        None => refuse(out, b"ERR value is not an integer or out of range"),
    }
}

#[cold]
fn refuse(out: &mut Vec<u8>, text: &[u8]) {
    COUNTERS.resp_commands_refused.add_one();
    reply::error(out, text);
}

#[cold]
fn wrong_count(out: &mut Vec<u8>, name: &[u8]) {
    let name = name.to_ascii_lowercase();
    refuse(out, &[b"ERR wrong number of arguments for '", &*name, b"' command"].concat());
}

#[cold]
fn unknown(out: &mut Vec<u8>, name: &[u8], arguments: &[&[u8]]) {
    let mut quoted = Vec::new();
    for argument in arguments {
        if quoted.len() >= QUOTED_BYTES_MAX {
            break;
        }
        let length = argument.len().min(QUOTED_BYTES_MAX - quoted.len());
        quoted.extend_from_slice(&[b"'", &argument[..length], b"' "].concat());
    }
    let name = &name[..name.len().min(QUOTED_BYTES_MAX)];
    refuse(out, &[b"ERR unknown command '", name, b"', with args beginning with: ", &*quoted].concat());
}

#[cold]
fn unknown_subcommand(out: &mut Vec<u8>, command: &str, subcommand: &[u8]) {
    let subcommand = &subcommand[..subcommand.len().min(QUOTED_BYTES_MAX)];
    let command = command.as_bytes();
    refuse(out, &[b"ERR unknown subcommand '", subcommand, b"'. Try ", command, b" HELP."].concat());
}
