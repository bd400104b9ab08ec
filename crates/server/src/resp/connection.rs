//! One connection: read, answer, write, until its client closes it, is too slow, or the listener shuts down.

use super::buffers::Buffers;
use super::login::Login;
use super::reply;
use super::session::{Answered, Asked, Session, Then};
use super::throttle::{self, LastLimit, Throttle};
use crate::App;
use crate::counters::COUNTERS;
use crate::decide;
use crate::progress::{Patience, Progress};
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tidegate_node::{Purpose, Request, Said, Subject};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::sync::watch;

/// Half a minute for a command that has begun and for replies to be taken. Redis clients keep idle connections
/// in pools for long, so they get ten minutes.
const PATIENCE: Patience =
    Patience { look_every: Duration::from_secs(10), looks_while_owing: 3, looks_while_idle: 60 };
/// As much is taken of what a client still sends that wasn't understood.
const LINGER_BYTES_MAX: usize = 1 << 20;

/// Serves a connection until its client closes it, is too slow, or `shutdown` becomes true: what was read by
/// then is answered, and a command that has begun is waited for.
pub(crate) async fn serve<S>(stream: S, app: Arc<App>, shutdown: watch::Receiver<bool>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let progress = Progress::default();
    let session = Session::new(&app);
    let mut connection = Connection { stream, app: &app, session, progress: &progress, buffers: None };
    tokio::select! {
        biased;
        ended = connection.run(shutdown) => {
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection ended with an error");
            }
        }
        () = progress.until_too_slow(PATIENCE) => COUNTERS.connections_too_slow.add_one(),
    }
    if let Some(buffers) = connection.buffers.take() {
        buffers.give_back();
    }
}

struct Connection<'c, S> {
    stream: S,
    app: &'c App,
    session: Session,
    progress: &'c Progress,
    /// `None` while nothing was read that isn't answered.
    buffers: Option<Buffers>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<'_, S> {
    async fn run(&mut self, shutdown: watch::Receiver<bool>) -> io::Result<()> {
        let mut waiting = shutdown.clone();
        let mut stop = pin!(async move {
            // A sender that is gone stops too.
            let _ = waiting.wait_for(|stop| *stop).await;
        });
        let mut is_stopping = false;
        loop {
            let may_end = is_stopping && !self.has_begun_a_command();
            let read = tokio::select! {
                biased;
                read = self.read() => read?,
                () = &mut stop, if !is_stopping => {
                    is_stopping = true;
                    continue;
                }
                // After a turn of the event loop: what the client had sent by then was read.
                () = tokio::task::yield_now(), if may_end => break,
            };
            if read == 0 {
                break;
            }
            self.progress.read();
            if self.answer().await? == Then::Close {
                return self.close().await;
            }
            // Told by an atomic; a client that never pauses would keep the future above from being polled.
            is_stopping = is_stopping || shutdown.has_changed().unwrap_or(true);
            if is_stopping && !self.has_begun_a_command() {
                break;
            }
        }
        self.stream.shutdown().await
    }

    fn has_begun_a_command(&self) -> bool {
        self.buffers.as_ref().is_some_and(|buffers| buffers.unread() > 0)
    }

    /// Answers everything whole that was read, and writes it.
    async fn answer(&mut self) -> io::Result<Then> {
        let mut has_answered = false;
        loop {
            let Some(buffers) = &mut self.buffers else { return Ok(Then::Read) };
            let (input, output) = buffers.both();
            let Answered { consumed, then } = self.session.answer(self.app, input, output);
            buffers.consume(consumed);
            has_answered |= consumed > 0;
            match then {
                Then::Ask => self.ask().await,
                Then::Write => self.write().await?,
                Then::Read | Then::Close => {
                    self.write().await?;
                    if has_answered {
                        self.progress.wrote();
                    }
                    if self.has_begun_a_command() {
                        self.progress.read();
                    }
                    return Ok(then);
                }
            }
        }
    }

    /// Answers the next command, which the table alone can't decide; those after it wait.
    #[cold]
    async fn ask(&mut self) {
        let Some(buffers) = &mut self.buffers else { return };
        let asked = Asked::read(buffers.both().0);
        let asked = asked.unwrap_or_else(|| unreachable!("the pass that asks has read it"));
        buffers.consume(asked.length);
        let words = asked.words();
        match Throttle::read(&words, &mut LastLimit::default()) {
            Ok(throttle) => {
                decide_slowly(self.app, &self.session.login, &throttle, &mut buffers.output).await;
            }
            Err(wrong) => reply::error(&mut buffers.output, format!("ERR {wrong}").as_bytes()),
        }
    }

    async fn read(&mut self) -> io::Result<usize> {
        poll_fn(|cx| self.poll_read(cx)).await
    }

    /// Buffers are there only while there is something in them.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut buffers = self.buffers.take().unwrap_or_else(Buffers::lend);
        let mut room = ReadBuf::new(buffers.room());
        let polled = Pin::new(&mut self.stream).poll_read(cx, &mut room);
        let read = room.filled().len();
        buffers.filled(read);
        if buffers.is_empty() {
            buffers.give_back();
        } else {
            self.buffers = Some(buffers);
        }
        polled.map_ok(|()| read)
    }

    async fn write(&mut self) -> io::Result<()> {
        let Some(buffers) = &mut self.buffers else { return Ok(()) };
        if !buffers.output.is_empty() {
            self.stream.write_all(&buffers.output).await?;
            buffers.output.clear();
        }
        Ok(())
    }

    /// Closes so that the client gets to read why: the kernel would answer what it still sends with a reset that
    /// overtakes the reply.
    #[cold]
    async fn close(&mut self) -> io::Result<()> {
        self.stream.shutdown().await?;
        self.progress.read();
        let mut dropped = Buffers::lend();
        let mut lingered_bytes = 0;
        while lingered_bytes < LINGER_BYTES_MAX {
            match self.stream.read(dropped.room()).await? {
                0 => break,
                read => lingered_bytes += read,
            }
        }
        dropped.give_back();
        Ok(())
    }
}

async fn decide_slowly(app: &App, login: &Login, throttle: &Throttle<'_>, output: &mut Vec<u8>) {
    let limits = [throttle.given()];
    let subject = Subject::Limits(&limits);
    let request = Request { tenant: login.tenant(), purpose: Purpose::Check, subject };
    let rules = app.engine.rules();
    let answer = decide::ask_engine(app, &rules, &request).await;
    let said = answer.map(|answer| answer.limits.first().map(|limit| limit.said));
    match said {
        Ok(Some(Said::Decided(decision))) => throttle::answer(output, &decision, app.clock.now().now),
        // A limit that a request gives is decided, whatever else there is to say about it.
        Ok(_) => reply::error(output, b"ERR the limit wasn't decided; try again"),
        Err(error) => reply::error(output, format!("ERR {error}").as_bytes()),
    }
}

#[cfg(test)]
mod tests;
