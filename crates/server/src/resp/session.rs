//! From what was read to what is written: every whole command of a read, decided at one moment.
//!
//! Throttle commands are queued and fetched ahead, each one's shard when it is read and its entry when the queue
//! is settled, so that a run of them waits for two cache misses instead of for two each. Replies keep the order of commands: whatever else comes, the queue is settled first.
//! Nothing here waits. What has to is handed back.

use super::client::{Client, Outcome};
use super::login::Login;
use super::throttle::{self, LastLimit, Throttle, is_throttle};
use super::{inline, parse, reply};
use crate::App;
use crate::budget::Registration;
use crate::buffers;
use crate::counters::COUNTERS;
use crate::latency::time;
use crate::pipeline::{NextStep, PassEnd, PassResult};
use parse::{ParseResult, ProtocolError, Words};
use smallvec::SmallVec;
use tidegate_core::{Item, Moment};
use tidegate_node::Tally;
use tidegate_node::top::Sample;

/// Enough that memory's latency hides behind the parsing; few enough that the first is still in the cache.
const QUEUE_MAX: usize = 32;

/// Before `AUTH`: the longest command, the most that is answered before it is written, and the words of a command.
/// The same bounds as those of Redis, but for 16 KiB in a word there.
const UNAUTHENTICATED_BYTES_MAX: usize = buffers::STEP_BYTES;
const UNAUTHENTICATED_WORDS_MAX: usize = 10;

/// What a connection remembers.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) login: Login,
    client: Client,
}

struct QueuedCommand {
    item: Item,
    /// Where its command begins.
    start: usize,
}

/// One pass.
struct Pass<'p> {
    app: &'p App,
    session: &'p mut Session,
    input: &'p [u8],
    out: &'p mut Vec<u8>,
    moment: Moment,
    queue: SmallVec<[QueuedCommand; QUEUE_MAX]>,
    last: LastLimit,
    tally: Tally,
    /// Up to here commands are answered or queued.
    at: usize,
}

/// Why a pass ends before its input does.
enum Stop {
    /// The command that begins at `start` has to be asked about.
    Ask {
        start: usize,
    },
    Close,
}

impl Session {
    pub(crate) fn new(app: &App, registration: Registration) -> Self {
        Session { login: Login::new(app, registration), client: Client::new() }
    }

    /// Answers the whole commands of `input`, all at one moment.
    pub(crate) fn answer<'a>(
        &mut self,
        app: &App,
        input: &'a [u8],
        out: &mut Vec<u8>,
    ) -> PassResult<&'a [u8]> {
        self.login.renew(app);
        let mut pass = Pass {
            app,
            session: self,
            input,
            out,
            moment: app.clock.now(),
            queue: SmallVec::new(),
            last: LastLimit::default(),
            tally: Tally::default(),
            at: 0,
        };
        let walked = pass.walk();
        let walked = walked.and_then(|then| pass.complete().map(|()| then));
        pass.count();
        match walked {
            Ok(then) => PassResult { consumed: pass.at, then: PassEnd::Then(then) },
            Err(Stop::Ask { start }) => {
                PassResult { consumed: start, then: PassEnd::Finish(&input[start..]) }
            }
            Err(Stop::Close) => PassResult { consumed: input.len(), then: PassEnd::Then(NextStep::Close) },
        }
    }
}

impl Pass<'_> {
    fn walk(&mut self) -> Result<NextStep, Stop> {
        let (input, mut words) = (self.input, Words::new());
        let output_max = match self.session.login.is_known() {
            true => buffers::OUTPUT_BYTES_SOFT_MAX,
            false => UNAUTHENTICATED_BYTES_MAX,
        };
        while self.out.len() < output_max {
            let length = match parse::next(&input[self.at..], &mut words) {
                Ok(ParseResult::Command { length }) => {
                    self.command(words.get())?;
                    length
                }
                Ok(ParseResult::Inline { line, length }) => {
                    self.inline(line)?;
                    length
                }
                Ok(ParseResult::Nothing { length }) => length,
                Ok(ParseResult::Incomplete) => match self.too_long(input.len() - self.at) {
                    Some(problem) => return Err(self.refuse(problem)?),
                    None => return Ok(NextStep::Read),
                },
                Err(problem) => return Err(self.refuse(problem)?),
            };
            self.at += length;
        }
        Ok(NextStep::Write)
    }

    /// Whether a command that isn't whole yet is longer than any may be, and what to answer.
    fn too_long(&self, bytes: usize) -> Option<ProtocolError> {
        match self.session.login.is_known() {
            true => (bytes >= buffers::INPUT_BYTES_MAX).then_some(ProtocolError::CommandLength),
            false => {
                (bytes >= UNAUTHENTICATED_BYTES_MAX).then_some(ProtocolError::UnauthenticatedCommandLength)
            }
        }
    }

    #[inline]
    fn command(&mut self, words: &[&[u8]]) -> Result<(), Stop> {
        let Some((name, _)) = words.split_first() else { return Ok(()) };
        if !is_throttle(name) {
            self.complete()?;
            if words.len() > UNAUTHENTICATED_WORDS_MAX && !self.session.login.is_known() {
                return Err(self.refuse(ProtocolError::UnauthenticatedWordCount)?);
            }
            let Session { login, client } = &mut *self.session;
            return match client.run(self.app, login, words, self.out) {
                Outcome::Answered => Ok(()),
                Outcome::Close => Err(Stop::Close),
            };
        }
        let Some(keys) = self.session.login.keys() else {
            self.complete()?;
            self.session.login.refuse(self.out, name);
            return Ok(());
        };
        match Throttle::read(words, &mut self.last) {
            Ok(throttle) => {
                let item = throttle.item(keys);
                self.app.engine.prefetch_shard(item.key);
                self.queue.push(QueuedCommand { item, start: self.at });
                if self.queue.len() < QUEUE_MAX { Ok(()) } else { self.complete() }
            }
            Err(wrong) => {
                self.complete()?;
                COUNTERS.resp_commands_refused.add_one();
                reply::error(self.out, format!("ERR {wrong}").as_bytes());
                Ok(())
            }
        }
    }

    #[cold]
    fn inline(&mut self, line: &[u8]) -> Result<(), Stop> {
        match inline::split(line) {
            Ok(words) => {
                let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
                self.command(&words)
            }
            Err(problem) => Err(self.refuse(problem)?),
        }
    }

    /// Decides and answers what is queued, in order.
    fn complete(&mut self) -> Result<(), Stop> {
        for queued in &self.queue {
            self.app.engine.prefetch(queued.item.key);
        }
        for queued in &self.queue {
            let Some(decision) = self.app.engine.decide_single(&queued.item, self.moment) else {
                return Err(Stop::Ask { start: queued.start });
            };
            self.tally.add(&decision);
            if !decision.is_admitted() {
                self.session.login.record_denial(self.app, &queued.item, &decision, self.moment);
            }
            throttle::answer(self.out, &decision, self.moment.now);
            if let Some(sample) = self.app.engine.sampled(&decision, self.moment) {
                self.record(queued, sample);
            }
        }
        self.queue.clear();
        Ok(())
    }

    /// Records a command in the sample of the most frequent ones. Its key's name is read once more for that.
    #[cold]
    fn record(&self, queued: &QueuedCommand, sample: Sample) {
        let mut words = Words::new();
        // Who types a command as a line doesn't come often.
        let Ok(ParseResult::Command { .. }) = parse::next(&self.input[queued.start..], &mut words) else {
            return;
        };
        if let Ok(throttle) = Throttle::read(words.get(), &mut LastLimit::default()) {
            let tenant = self.session.login.tenant();
            let limit = (&throttle.given(), &queued.item);
            self.app.engine.sample_single(tenant, limit, sample, self.moment);
        }
    }

    /// Says what can't be understood, as the last thing that is said.
    #[cold]
    fn refuse(&mut self, problem: ProtocolError) -> Result<Stop, Stop> {
        self.complete()?;
        COUNTERS.resp_commands_refused.add_one();
        reply::error(self.out, format!("ERR Protocol error: {problem}").as_bytes());
        Ok(Stop::Close)
    }

    fn count(&mut self) {
        let Tally { admitted, denied, .. } = self.tally;
        if admitted + denied == 0 {
            return;
        }
        self.app.engine.count(self.tally);
        time(self.app, self.moment);
        if let Some(region) = &self.app.sharing {
            region.publish_urgent();
        }
    }
}

/// A throttle command that waits for its ask.
#[derive(Debug)]
pub(crate) struct ThrottleRequest {
    words: Vec<Vec<u8>>,
    pub(crate) length: usize,
}

impl ThrottleRequest {
    /// The command that `input` begins with; `None` when there is none.
    pub(crate) fn read(input: &[u8]) -> Option<Self> {
        let mut words = Words::new();
        match parse::next(input, &mut words) {
            Ok(ParseResult::Command { length }) => Some(ThrottleRequest {
                words: words.get().iter().map(|word| word.to_vec()).collect(),
                length,
            }),
            Ok(ParseResult::Inline { line, length }) => {
                Some(ThrottleRequest { words: inline::split(line).ok()?, length })
            }
            _ => None,
        }
    }

    /// The words once more; a throttle reads them.
    pub(crate) fn words(&self) -> SmallVec<[&[u8]; 6]> {
        self.words.iter().map(Vec::as_slice).collect()
    }
}
