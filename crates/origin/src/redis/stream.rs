//! A server's byte stream, watched: how much has come, and whether too much came that nobody could read.
//!
//! The client library neither says when a connection fell silent nor bounds what one answer may hold; both are
//! seen here. It changes no byte, and never lets an answer grow without end.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What may come without one readable answer among it. 4,096 calls in flight answer with far less.
const UNREADABLE_BYTES_MAX: u64 = 64 << 20;

pub(super) trait Bytes: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Bytes for S {}

/// What has come over one connection.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    received_bytes: AtomicU64,
    received_bytes_at_answer: AtomicU64,
}

impl Traffic {
    pub(super) fn received_bytes(&self) -> u64 {
        self.received_bytes.load(Ordering::Relaxed)
    }

    /// An answer could be read.
    pub(super) fn answered(&self) {
        self.received_bytes_at_answer.store(self.received_bytes(), Ordering::Relaxed);
    }

    fn received(&self, bytes: usize) -> io::Result<()> {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let total = self.received_bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        let unreadable = total.saturating_sub(self.received_bytes_at_answer.load(Ordering::Relaxed));
        if unreadable <= UNREADABLE_BYTES_MAX {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::InvalidData, "the server sends without end and answers nothing"))
    }
}

pub(super) struct Watched {
    stream: Box<dyn Bytes>,
    traffic: Arc<Traffic>,
}

impl Watched {
    pub(super) fn new(stream: Box<dyn Bytes>, traffic: Arc<Traffic>) -> Self {
        Watched { stream, traffic }
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        Poll::Ready(self.traffic.received(buffer.filled().len().saturating_sub(before)))
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_without_answers_ends() {
        let traffic = Traffic::default();
        let chunk = usize::try_from(UNREADABLE_BYTES_MAX / 2).unwrap();
        assert!(traffic.received(chunk).is_ok());
        traffic.answered();
        assert!(traffic.received(chunk).is_ok());
        assert!(traffic.received(chunk).is_ok());
        assert!(traffic.received(1).is_err());
        assert_eq!(traffic.received_bytes(), UNREADABLE_BYTES_MAX / 2 * 3 + 1);
    }
}
