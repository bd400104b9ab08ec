//! One connection of the load: what is on its way, what was read of the next answer, what couldn't be written.
//!
//! Knows no load and no clock: whoever drives it says when a request began.

use super::answer::{ANSWER_BYTES_MAX, Broken, Outcome};
use super::http2::{Call, Http2};
use super::in_flight::InFlight;
use super::request::Request;
use super::target::{Protocol, Socket, Target};
use super::{http, resp};
use std::io::{self, ErrorKind};

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) socket: Socket,
    protocol: Protocol,
    http2: Option<Http2>,
    pub(crate) in_flight: InFlight,
    /// The beginning of an answer; nearly always empty.
    unread: Vec<u8>,
    unsent: Vec<u8>,
}

/// What reading found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Read {
    Nothing,
    Bytes(usize),
}

/// The connection is of no more use.
#[derive(Debug)]
pub(crate) struct Ended;

impl From<Broken> for Ended {
    fn from(_: Broken) -> Self {
        Ended
    }
}

impl Connection {
    pub(crate) fn open(target: &Target) -> io::Result<Self> {
        let socket = target.connect()?;
        let mut unsent = Vec::new();
        let http2 = (target.protocol == Protocol::Grpc).then(|| Http2::start(&mut unsent));
        let (protocol, in_flight, unread) = (target.protocol, InFlight::default(), Vec::new());
        Ok(Connection { socket, protocol, http2, in_flight, unread, unsent })
    }

    /// Adds a request to what the next flush writes; `false` when the target takes none at the moment.
    #[inline]
    pub(crate) fn push(&mut self, request: &Request, key: u64, start: u64) -> bool {
        match request {
            Request::Ordered(template) => template.write(key, &mut self.unsent),
            Request::Call(call) => {
                if !self.push_call(call, key) {
                    return false;
                }
            }
        }
        self.in_flight.push(start);
        true
    }

    fn push_call(&mut self, call: &Call, key: u64) -> bool {
        match &mut self.http2 {
            Some(http2) if http2.may_send(call) => {
                http2.send(call, key, &mut self.unsent);
                true
            }
            _ => false,
        }
    }

    /// Writes what the socket takes; true when that is all.
    pub(crate) fn flush(&mut self) -> Result<bool, Ended> {
        if self.unsent.is_empty() {
            return Ok(true);
        }
        loop {
            match self.socket.write(&self.unsent) {
                Ok(written) if written == self.unsent.len() => {
                    self.unsent.clear();
                    return Ok(true);
                }
                Ok(0) => return Err(Ended),
                Ok(written) => drop(self.unsent.drain(..written)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(Ended),
            }
        }
    }

    /// Reads once.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> Result<Read, Ended> {
        match self.socket.read(buffer) {
            Ok(0) => Err(Ended),
            Ok(count) => Ok(Read::Bytes(count)),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                Ok(Read::Nothing)
            }
            Err(_) => Err(Ended),
        }
    }

    /// Tells of every whole answer in what came: when its request began, and what it says.
    #[inline]
    pub(crate) fn understand(
        &mut self,
        came: &[u8],
        mut tell: impl FnMut(u64, Outcome),
    ) -> Result<(), Ended> {
        if self.unread.is_empty() {
            let consumed = self.answers(came, &mut tell)?;
            self.unread.extend_from_slice(&came[consumed..]);
            return Ok(());
        }
        let mut whole = std::mem::take(&mut self.unread);
        whole.extend_from_slice(came);
        let consumed = self.answers(&whole, &mut tell)?;
        whole.drain(..consumed);
        self.unread = whole;
        if self.unread.len() > 2 * ANSWER_BYTES_MAX { Err(Ended) } else { Ok(()) }
    }

    /// How many bytes were whole answers.
    fn answers(&mut self, input: &[u8], tell: &mut impl FnMut(u64, Outcome)) -> Result<usize, Ended> {
        let mut at = 0;
        loop {
            let found = match &mut self.http2 {
                Some(http2) => {
                    http2.next(&input[at..], &mut self.unsent)?.map(|frame| (frame.length, frame.ended))
                }
                None => {
                    let next = if self.protocol == Protocol::Resp { resp::next } else { http::next };
                    let number = self.in_flight.first();
                    next(&input[at..])?.map(|(length, outcome)| (length, Some((number, outcome))))
                }
            };
            let Some((length, ended)) = found else { return Ok(at) };
            at += length;
            if let Some((number, outcome)) = ended {
                // An answer that nobody asked for: whose the next ones are can't be known.
                tell(self.in_flight.finish(number).ok_or(Ended)?, outcome);
            }
        }
    }

    /// The target wants no more on this one, and owes nothing.
    pub(crate) fn is_over(&self) -> bool {
        self.http2.as_ref().is_some_and(Http2::is_over)
    }
}
