//! The socket under hyper: tells [`Progress`] what happens, gives hyper's own refusals a body, and closes so
//! that a refused client gets to read why.
//!
//! Never changes a byte of an answer that is ours: those are never empty, and hyper's refusals always are.

use crate::progress::Progress;
use crate::refusal::{Code, Refusal};
use crate::socket::Socket;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, ReadBuf};

/// As much is taken of what a refused client still sends.
const LINGER_BYTES_MAX: usize = 16 << 20;

#[derive(Debug)]
pub(crate) struct Transport {
    stream: TokioIo<Socket>,
    progress: Arc<Progress>,
    refusal: Option<RewrittenRefusal>,
    lingered_bytes: usize,
}

/// A refusal of hyper's, with the body that it lacks.
#[derive(Debug)]
struct RewrittenRefusal {
    bytes: Vec<u8>,
    written: usize,
    /// How long hyper believes it to be.
    original_length: usize,
}

impl Transport {
    pub(crate) fn new(stream: Socket, progress: Arc<Progress>) -> Self {
        Transport { stream: TokioIo::new(stream), progress, refusal: None, lingered_bytes: 0 }
    }

    /// Writes what stands for hyper's refusal, then reports the length that hyper waits for.
    fn poll_write_refusal(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        while let Some(refusal) = &mut self.refusal {
            let rest = &refusal.bytes[refusal.written..];
            if rest.is_empty() {
                let length = refusal.original_length;
                self.refusal = None;
                self.progress.linger();
                return Poll::Ready(Ok(length));
            }
            let written = ready!(Pin::new(&mut self.stream).poll_write(cx, rest))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            refusal.written += written;
        }
        Poll::Ready(Ok(0))
    }

    fn starts_refusal(&mut self, head: &[u8]) -> bool {
        if self.refusal.is_none() && head.starts_with(b"HTTP/1.1 4") {
            self.refusal = rewritten(head);
        }
        self.refusal.is_some()
    }

    /// Takes and drops what the client still sends, so that the kernel doesn't answer it with a reset that
    /// would overtake the answer.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut dropped = [0; 16 << 10];
        while self.lingered_bytes < LINGER_BYTES_MAX {
            let mut buffer = ReadBuf::new(&mut dropped);
            match ready!(Pin::new(self.stream.inner_mut()).poll_read(cx, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => self.lingered_bytes += buffer.filled().len(),
                _ => break,
            }
        }
        Poll::Ready(())
    }
}

#[cold]
fn rewritten(head: &[u8]) -> Option<RewrittenRefusal> {
    let is_empty_answer = head.ends_with(b"\r\n\r\n") && contains(head, b"content-length: 0\r\n");
    let refusal = match head.get(9..12)? {
        _ if !is_empty_answer => return None,
        b"400" => Refusal::new(
            Code::MalformedHttp,
            "the request is not valid HTTP/1.1: its first line or a header is malformed",
            "send `POST /v1/check HTTP/1.1`, then headers, an empty line and the body",
        ),
        b"414" => Refusal::new(Code::UriTooLong, "the path is too long", "send parameters in the body"),
        b"431" => Refusal::new(
            Code::HeaderTooLarge,
            "the request has more than 64 headers, or more than 16 KiB of them, or a longer first line",
            "send fewer or shorter headers, and parameters in the body; cookies are not needed here",
        ),
        _ => return None,
    };
    let body = refusal.to_json();
    let status = refusal.code.status();
    let mut bytes = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    )
    .into_bytes();
    bytes.extend_from_slice(&body);
    Some(RewrittenRefusal { bytes, written: 0, original_length: head.len() })
}

fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

impl Read for Transport {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let read = ready!(Pin::new(&mut self.stream).poll_read(cx, buffer));
        self.progress.read();
        Poll::Ready(read)
    }
}

impl Write for Transport {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.starts_refusal(bytes) {
            return self.poll_write_refusal(cx);
        }
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, bytes));
        self.progress.wrote();
        Poll::Ready(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let [only] = pieces
            && self.starts_refusal(only)
        {
            return self.poll_write_refusal(cx);
        }
        let written = ready!(Pin::new(&mut self.stream).poll_write_vectored(cx, pieces));
        self.progress.wrote();
        Poll::Ready(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_shutdown(cx))?;
        if self.progress.lingers() {
            self.progress.read();
            ready!(self.poll_linger(cx));
        }
        Poll::Ready(Ok(()))
    }
}
