//! One connection to a server: calls leave in the order in which they came, many in one write, and each is told
//! its answers, or that its time is over, or that the connection is.
//!
//! Made for many small calls. One timer serves them all and is set anew only when it has run: a timer for each
//! would cost more than the call. The driver does all the work, on whatever thread polls it; it never connects
//! again by itself.

use super::wire::{Answers, Commands, Value};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep};

/// What may wait to be sent: a server that takes nothing any more is soon given up.
const UNSENT_BYTES_MAX: usize = 16 << 20;
/// Calls that gave up count too, until they are answered.
const CALLS_MAX: usize = 64 << 10;
const READ_BYTES: usize = 16 << 10;
/// Other tasks of the thread get their turn after so many reads.
const READS_IN_A_ROW: usize = 8;

/// A server's byte stream, whatever carries it.
pub(super) trait Bytes: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Bytes for S {}

/// Why a call has no answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum CallFailure {
    TimeIsOver,
    /// The connection was closed, or is too far behind.
    Lost(String),
    /// What the server sent is no answer.
    Nonsense(String),
}

/// The callers' end of a connection.
#[derive(Clone, Debug)]
pub(super) struct Connection(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    received_bytes: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    unsent: Vec<u8>,
    calls: VecDeque<Call>,
    /// No call's time is over before this.
    earliest: Option<Instant>,
    driver: Option<Waker>,
    /// Why there will be no answers any more.
    end: Option<CallFailure>,
}

#[derive(Debug)]
struct Call {
    answers: Vec<Value>,
    expected: usize,
    deadline: Instant,
    /// Gone when its time is over: its answers are read and dropped.
    caller: Option<oneshot::Sender<Result<Vec<Value>, CallFailure>>>,
}

/// Carries the bytes; the connection lives as long as it is polled.
pub(super) struct Driver {
    stream: Box<dyn Bytes>,
    shared: Arc<Shared>,
    sending: Vec<u8>,
    sent: usize,
    buffer: Box<[u8]>,
    answers: Answers,
    timer: Option<Pin<Box<Sleep>>>,
}

pub(super) fn connection(stream: Box<dyn Bytes>) -> (Connection, Driver) {
    let shared = Arc::new(Shared::default());
    let driver = Driver {
        stream,
        shared: shared.clone(),
        sending: Vec::new(),
        sent: 0,
        buffer: vec![0; READ_BYTES].into(),
        answers: Answers::default(),
        timer: None,
    };
    (Connection(shared), driver)
}

impl Connection {
    /// The answers, one for each command; a server's error is an answer too.
    pub(super) async fn send(
        &self,
        commands: &Commands,
        deadline: Instant,
    ) -> Result<Vec<Value>, CallFailure> {
        if commands.len() == 0 {
            return Ok(Vec::new());
        }
        let answered = self.0.state.lock().push(commands, deadline)?;
        answered.await.unwrap_or_else(|_| Err(CallFailure::Lost("the connection was lost".to_owned())))
    }

    pub(super) fn received_bytes(&self) -> u64 {
        self.0.received_bytes.load(Ordering::Relaxed)
    }
}

impl State {
    fn push(
        &mut self,
        commands: &Commands,
        deadline: Instant,
    ) -> Result<oneshot::Receiver<Result<Vec<Value>, CallFailure>>, CallFailure> {
        if let Some(end) = &self.end {
            return Err(end.clone());
        }
        let is_full = self.unsent.len() > UNSENT_BYTES_MAX || self.calls.len() >= CALLS_MAX;
        if is_full {
            return Err(CallFailure::Lost("the server is too far behind".to_owned()));
        }
        let (caller, answered) = oneshot::channel();
        let expected = commands.len();
        self.unsent.extend_from_slice(commands.bytes());
        self.calls.push_back(Call {
            answers: Vec::with_capacity(expected),
            expected,
            deadline,
            caller: Some(caller),
        });
        self.earliest = Some(self.earliest.map_or(deadline, |earliest| earliest.min(deadline)));
        if let Some(driver) = self.driver.take() {
            driver.wake();
        }
        Ok(answered)
    }

    fn answered(&mut self, answer: Value) -> Result<(), CallFailure> {
        let Some(call) = self.calls.front_mut() else {
            return Err(CallFailure::Nonsense("an answer that nobody asked for".to_owned()));
        };
        call.answers.push(answer);
        if call.answers.len() == call.expected
            && let Some(Call { caller: Some(caller), answers, .. }) = self.calls.pop_front()
        {
            // Who gave up doesn't listen.
            let _ = caller.send(Ok(answers));
        }
        Ok(())
    }

    /// Tells the calls whose time is over.
    fn expire(&mut self, now: Instant) {
        self.earliest = None;
        for call in &mut self.calls {
            if call.deadline <= now {
                if let Some(caller) = call.caller.take() {
                    let _ = caller.send(Err(CallFailure::TimeIsOver));
                }
            } else if call.caller.is_some() {
                let earliest = self.earliest.unwrap_or(call.deadline);
                self.earliest = Some(earliest.min(call.deadline));
            }
        }
    }

    fn end(&mut self, trouble: &CallFailure) {
        self.end.get_or_insert_with(|| trouble.clone());
        for caller in self.calls.drain(..).filter_map(|call| call.caller) {
            let _ = caller.send(Err(trouble.clone()));
        }
        self.unsent = Vec::new();
    }
}

impl Driver {
    fn drive(&mut self, context: &mut Context<'_>) -> Poll<CallFailure> {
        self.take_unsent(context);
        match self.write(context) {
            Ok(()) => {}
            Err(error) => return Poll::Ready(lost(&error)),
        }
        if let Err(trouble) = self.read(context) {
            return Poll::Ready(trouble);
        }
        self.enforce_deadlines(context);
        Poll::Pending
    }

    fn take_unsent(&mut self, context: &Context<'_>) {
        let mut state = self.shared.state.lock();
        if state.driver.as_ref().is_none_or(|driver| !driver.will_wake(context.waker())) {
            state.driver = Some(context.waker().clone());
        }
        if self.sent == self.sending.len() {
            self.sending.clear();
            self.sent = 0;
            std::mem::swap(&mut self.sending, &mut state.unsent);
        }
    }

    fn write(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        while self.sent < self.sending.len() {
            match Pin::new(&mut self.stream).poll_write(context, &self.sending[self.sent..]) {
                Poll::Pending => return Ok(()),
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(written) => self.sent += written?,
            }
            if self.sent == self.sending.len() {
                self.take_unsent(context);
            }
        }
        match Pin::new(&mut self.stream).poll_flush(context) {
            Poll::Ready(flushed) => flushed,
            Poll::Pending => Ok(()),
        }
    }

    fn read(&mut self, context: &mut Context<'_>) -> Result<(), CallFailure> {
        for _ in 0..READS_IN_A_ROW {
            let mut buffer = ReadBuf::new(&mut self.buffer);
            match Pin::new(&mut self.stream).poll_read(context, &mut buffer) {
                Poll::Pending => return Ok(()),
                Poll::Ready(Err(error)) => return Err(lost(&error)),
                Poll::Ready(Ok(())) => {}
            }
            let received = buffer.filled();
            if received.is_empty() {
                return Err(CallFailure::Lost("the server closed the connection".to_owned()));
            }
            let count = u64::try_from(received.len()).unwrap_or(u64::MAX);
            self.shared.received_bytes.fetch_add(count, Ordering::Relaxed);
            self.answers.push(received);
            let mut state = self.shared.state.lock();
            while let Some(answer) = self.answers.next().map_err(CallFailure::Nonsense)? {
                state.answered(answer)?;
            }
        }
        context.waker().wake_by_ref();
        Ok(())
    }

    fn enforce_deadlines(&mut self, context: &mut Context<'_>) {
        loop {
            let Some(earliest) = self.shared.state.lock().earliest else { return };
            let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(earliest)));
            if timer.deadline() > earliest || timer.is_elapsed() {
                timer.as_mut().reset(earliest);
            }
            if timer.as_mut().poll(context).is_pending() {
                return;
            }
            self.shared.state.lock().expire(Instant::now());
        }
    }
}

fn lost(error: &io::Error) -> CallFailure {
    CallFailure::Lost(error.to_string())
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.drive(context).map(|trouble| self.shared.state.lock().end(&trouble))
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.shared.state.lock().end(&CallFailure::Lost("the connection was lost".to_owned()));
    }
}
