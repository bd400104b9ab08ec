//! A connection as a run of requests and answers: read, answer everything whole by one write, until the client
//! closes it, is too slow, or the listener shuts down.
//!
//! What the bytes mean is the [`Session`]'s. It must never answer out of order, buffer without a bound, or keep
//! memory for a client that is idle.

use crate::App;
use crate::buffers::Buffers;
use crate::counters::COUNTERS;
use crate::progress::{Patience, Progress};
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use tidegate_node::VersionedRules;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::sync::watch;

/// As much is taken of what a client still sends that wasn't understood.
const LINGER_BYTES_MAX: usize = 1 << 20;

/// What one protocol makes of a connection's bytes.
pub(crate) trait Session {
    const PATIENCE: Patience;

    /// A request that the table alone couldn't decide, with all that is known of it.
    type Pending<'a>;

    /// Answers what is whole in `input`, in order and without waiting, by one version of the rules.
    fn answer<'a>(
        &mut self,
        app: &App,
        rules: &'a VersionedRules,
        input: &'a [u8],
        output: &mut Vec<u8>,
    ) -> PassResult<Self::Pending<'a>>;

    /// Asks the region about a request and answers it. Returns how long the request is in the input.
    ///
    /// Boxed: it is large, and idle connections are many.
    fn finish<'a>(
        &'a mut self,
        app: &'a App,
        pending: Self::Pending<'a>,
        output: &'a mut Vec<u8>,
    ) -> Finishing<'a>;

    /// The listener shuts down: no answer but the next is waited for.
    fn stop(&mut self);
}

pub(crate) type Finishing<'a> = Pin<Box<dyn Future<Output = usize> + Send + 'a>>;

/// How far a pass over the input came, and what to do before the next.
#[derive(Debug)]
pub(crate) struct PassResult<P> {
    pub(crate) consumed: usize,
    pub(crate) then: PassEnd<P>,
}

#[derive(Debug)]
pub(crate) enum PassEnd<P> {
    /// The next request has to ask its region.
    Finish(P),
    Then(NextStep),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NextStep {
    /// Everything that was whole is answered.
    Read,
    /// There may be more, when what is answered so far was written.
    Write,
    /// Nothing more is answered, and the client may still be sending.
    Close,
    /// Nothing more is answered, as the client was told or asked for itself.
    End,
    /// What follows is for another session.
    HandOver,
}

/// How a connection ended here.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum PipelineEnd {
    Closed,
    /// With these bytes read and not answered.
    HandedOver(Vec<u8>),
}

/// Serves a connection until its client closes it, is too slow, or `shutdown` becomes true: what was read by
/// then is answered, and a request that has begun is waited for.
pub(crate) async fn serve<S, P>(
    stream: &mut S,
    session: &mut P,
    app: &App,
    shutdown: watch::Receiver<bool>,
) -> PipelineEnd
where
    S: AsyncRead + AsyncWrite + Unpin,
    P: Session,
{
    let progress = Progress::default();
    let mut connection = Connection { stream, app, session, progress: &progress, buffers: None };
    let ended = tokio::select! {
        biased;
        ended = connection.run(shutdown) => ended.unwrap_or_else(|error| {
            tracing::debug!(%error, "a connection ended with an error");
            PipelineEnd::Closed
        }),
        () = progress.until_too_slow(P::PATIENCE) => {
            COUNTERS.connections_too_slow.add_one();
            PipelineEnd::Closed
        }
    };
    if let Some(buffers) = connection.buffers.take() {
        buffers.give_back();
    }
    ended
}

pub(crate) struct Connection<'c, S, P> {
    pub(crate) stream: &'c mut S,
    pub(crate) app: &'c App,
    pub(crate) session: &'c mut P,
    pub(crate) progress: &'c Progress,
    /// `None` while nothing was read that isn't answered.
    pub(crate) buffers: Option<Buffers>,
}

impl<S: AsyncRead + AsyncWrite + Unpin, P: Session> Connection<'_, S, P> {
    async fn run(&mut self, shutdown: watch::Receiver<bool>) -> io::Result<PipelineEnd> {
        let mut waiting = shutdown.clone();
        let mut stop = pin!(async move {
            // A sender that is gone stops too.
            let _ = waiting.wait_for(|stop| *stop).await;
        });
        let mut is_stopping = false;
        loop {
            let may_end = is_stopping && !self.has_begun_a_request();
            let read = tokio::select! {
                biased;
                read = self.read() => read?,
                () = &mut stop, if !is_stopping => {
                    is_stopping = true;
                    self.session.stop();
                    continue;
                }
                // After a turn of the event loop: what the client had sent by then was read.
                () = tokio::task::yield_now(), if may_end => break,
            };
            if read == 0 {
                break;
            }
            self.progress.read();
            match self.answer().await? {
                NextStep::Close => return self.close().await,
                NextStep::End => break,
                NextStep::HandOver => return Ok(PipelineEnd::HandedOver(self.unread())),
                NextStep::Read | NextStep::Write => {}
            }
            // Told by an atomic; a client that never pauses would keep the future above from being polled.
            if !is_stopping && shutdown.has_changed().unwrap_or(true) {
                is_stopping = true;
                self.session.stop();
            }
            if is_stopping && !self.has_begun_a_request() {
                break;
            }
        }
        self.stream.shutdown().await?;
        Ok(PipelineEnd::Closed)
    }

    pub(crate) fn has_begun_a_request(&self) -> bool {
        self.buffers.as_ref().is_some_and(|buffers| buffers.unread() > 0)
    }

    fn unread(&mut self) -> Vec<u8> {
        self.buffers.as_mut().map(|buffers| buffers.both().0.to_vec()).unwrap_or_default()
    }

    /// Answers everything whole that was read, and writes it.
    pub(crate) async fn answer(&mut self) -> io::Result<NextStep> {
        let mut has_answered = false;
        loop {
            let (consumed, then) = {
                let Some(buffers) = &mut self.buffers else { return Ok(NextStep::Read) };
                let rules = self.app.engine.rules();
                let (input, output) = buffers.both();
                let PassResult { consumed, then } = self.session.answer(self.app, &rules, input, output);
                match then {
                    PassEnd::Then(then) => (consumed, Some(then)),
                    // The requests after it wait.
                    PassEnd::Finish(pending) => {
                        let length = self.session.finish(self.app, pending, output).await;
                        (consumed + length, None)
                    }
                }
            };
            if let Some(buffers) = &mut self.buffers {
                buffers.consume(consumed);
            }
            has_answered |= consumed > 0;
            let Some(then) = then else { continue };
            match then {
                NextStep::Write => self.write().await?,
                NextStep::Read | NextStep::Close | NextStep::End | NextStep::HandOver => {
                    self.write().await?;
                    if has_answered {
                        self.progress.wrote();
                    }
                    if self.has_begun_a_request() {
                        self.progress.read();
                    }
                    return Ok(then);
                }
            }
        }
    }

    pub(crate) async fn read(&mut self) -> io::Result<usize> {
        poll_fn(|cx| self.poll_read(cx)).await
    }

    /// Buffers are there only while there is something in them.
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut buffers = self.buffers.take().unwrap_or_else(Buffers::lend);
        let mut room = ReadBuf::new(buffers.room());
        let polled = Pin::new(&mut *self.stream).poll_read(cx, &mut room);
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
    async fn close(&mut self) -> io::Result<PipelineEnd> {
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
        Ok(PipelineEnd::Closed)
    }
}
