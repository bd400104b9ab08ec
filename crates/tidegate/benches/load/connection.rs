//! One keep-alive connection to a node: requests out, answers in, as many at once as its user likes.

use crate::samples::Verdict;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

/// Where a node can be reached.
pub(crate) trait Dial {
    /// A connection that never blocks.
    fn dial(&self) -> io::Result<OwnedFd>;
}

impl Dial for SocketAddr {
    fn dial(&self) -> io::Result<OwnedFd> {
        let stream = TcpStream::connect(self)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(stream.into())
    }
}

/// A Unix socket.
impl Dial for PathBuf {
    fn dial(&self) -> io::Result<OwnedFd> {
        let stream = UnixStream::connect(self)?;
        stream.set_nonblocking(true)?;
        Ok(stream.into())
    }
}

/// What an answer says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Answer {
    pub(crate) verdict: Verdict,
    pub(crate) unverified: bool,
    /// Of the first limit.
    pub(crate) remaining: u64,
}

impl Answer {
    pub(crate) const NONE: Answer = Answer { verdict: Verdict::Error, unverified: false, remaining: 0 };
}

/// Never blocks. Answers come in the order of the requests.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: OwnedFd,
    pub(crate) node: usize,
    outgoing: Vec<u8>,
    incoming: Vec<u8>,
    /// The requests without an answer yet, as their sender numbers them.
    pub(crate) waiting: VecDeque<usize>,
    pub(crate) is_closed: bool,
    /// Its user has taken note of that.
    pub(crate) is_buried: bool,
}

impl Connection {
    pub(crate) fn open(address: &impl Dial, node: usize) -> io::Result<Self> {
        let stream = address.dial()?;
        let (outgoing, incoming, waiting) = (Vec::new(), Vec::new(), VecDeque::new());
        Ok(Connection { stream, node, outgoing, incoming, waiting, is_closed: false, is_buried: false })
    }

    /// Leaves with the next flush.
    pub(crate) fn push(&mut self, number: usize, request: &[u8]) {
        self.outgoing.extend_from_slice(request);
        self.waiting.push_back(number);
    }

    /// Writes as much as the kernel takes; the rest goes when there is room again.
    pub(crate) fn flush(&mut self) {
        let mut written = 0;
        while written < self.outgoing.len() && !self.is_closed {
            match rustix::io::write(&self.stream, &self.outgoing[written..]) {
                Ok(0) => self.is_closed = true,
                Ok(bytes) => written += bytes,
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(_) => self.is_closed = true,
            }
        }
        self.outgoing.drain(..written);
    }

    /// Reads what has come, by way of `room`, and says whose answers it holds.
    pub(crate) fn receive(&mut self, room: &mut [u8], mut answered: impl FnMut(usize, Answer)) {
        while !self.is_closed {
            match rustix::io::read(&self.stream, &mut *room) {
                Ok(0) => self.is_closed = true,
                Ok(bytes) => {
                    self.incoming.extend_from_slice(&room[..bytes]);
                    if bytes < room.len() {
                        break;
                    }
                }
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(_) => self.is_closed = true,
            }
        }
        let mut taken = 0;
        while let Some((answer, length)) = parse(&self.incoming[taken..]) {
            taken += length;
            let Some(number) = self.waiting.pop_front() else {
                self.is_closed = true;
                break;
            };
            answered(number, answer);
        }
        self.incoming.drain(..taken);
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// The first answer in `bytes` and its length; `None` while it isn't complete.
fn parse(bytes: &[u8]) -> Option<(Answer, usize)> {
    let head = find(bytes, b"\r\n\r\n")?;
    let length = find(&bytes[..head], b"content-length: ").map_or(0, |at| number(&bytes[at + 16..head]));
    let body = bytes.get(head + 4..head + 4 + length)?;
    let verdict = match (bytes.get(9..12), body.get(11..15)) {
        (Some(b"200"), Some(b"true")) => Verdict::Admitted,
        (Some(b"200"), Some(b"fals")) => Verdict::Denied,
        _ => Verdict::Error,
    };
    let unverified = find(body, b"\"path\":\"unverified\"").is_some();
    let remaining = find(body, b"\"remaining\":").map_or(0, |at| number(&body[at + 12..]));
    let remaining = u64::try_from(remaining).unwrap_or(u64::MAX);
    Some((Answer { verdict, unverified, remaining }, head + 4 + length))
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

fn number(bytes: &[u8]) -> usize {
    let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |number, digit| number * 10 + usize::from(digit - b'0'))
}
