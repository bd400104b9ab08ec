//! Messages in a stream: a flag, a length, the bytes.
//!
//! A message is at most 1 MiB, and a connection's streams together hold at most two of incomplete ones. What needs no
//! token gets far less: anybody may send that.

use crate::body::BYTES_MAX;
use crate::grpc::status::{Failure, GrpcCode};
use h2::RecvStream;
use hyper::body::Bytes;
use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

const PREFIX_LENGTH: usize = 5;
/// Of all streams of a connection whose calls need a token.
const HELD_BYTES_MAX: usize = 2 << 20;
/// Of all its streams that need none.
const HELD_WITHOUT_TOKEN_BYTES_MAX: usize = 64 << 10;
/// From a call's headers to its message's end.
pub(super) const MESSAGE_MAX: Duration = Duration::from_secs(10);

/// Puts the prefix before a message that `fill` writes.
pub(super) fn framed(fill: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    out.extend_from_slice(&[0; PREFIX_LENGTH]);
    fill(&mut out);
    let length = u32::try_from(out.len() - PREFIX_LENGTH).unwrap_or(u32::MAX);
    out[1..PREFIX_LENGTH].copy_from_slice(&length.to_be_bytes());
    out
}

/// The length of the message that `bytes` begin with; `None` when that isn't known yet.
fn announced(bytes: &[u8]) -> Result<Option<usize>, Failure> {
    let Some((prefix, _)) = bytes.split_at_checked(PREFIX_LENGTH) else { return Ok(None) };
    let length = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]);
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    if prefix[0] != 0 {
        return Err(compressed());
    }
    if length > BYTES_MAX { Err(too_large(BYTES_MAX, HELD_BYTES_MAX)) } else { Ok(Some(length)) }
}

/// The one message of a whole body.
pub(super) fn only(body: &[u8]) -> Result<&[u8], Failure> {
    match announced(body)? {
        Some(length) if body.len() == PREFIX_LENGTH + length => Ok(&body[PREFIX_LENGTH..]),
        _ => Err(not_one()),
    }
}

/// Takes the first message off `bytes` once it is whole.
pub(super) fn take_first(bytes: &mut Vec<u8>) -> Result<Option<Vec<u8>>, Failure> {
    match announced(bytes)? {
        Some(length) if bytes.len() >= PREFIX_LENGTH + length => {
            let rest = bytes.split_off(PREFIX_LENGTH + length);
            let mut message = std::mem::replace(bytes, rest);
            message.drain(..PREFIX_LENGTH);
            Ok(Some(message))
        }
        _ => Ok(None),
    }
}

/// What has come of a body so far.
pub(super) enum BodyProgress {
    Whole(Bytes),
    /// There is more to come, or it came in pieces.
    Part(Bytes),
}

/// Takes what has already come, without waiting.
#[inline]
pub(super) fn arrived(body: &mut RecvStream) -> BodyProgress {
    let cx = &mut Context::from_waker(Waker::noop());
    match body.poll_data(cx) {
        Poll::Ready(Some(Ok(bytes))) if body.is_end_stream() => BodyProgress::Whole(bytes),
        Poll::Ready(Some(Ok(bytes))) => match body.poll_data(cx) {
            Poll::Ready(None) => BodyProgress::Whole(bytes),
            // Some clients end a stream with an empty frame.
            Poll::Ready(Some(Ok(rest))) if rest.is_empty() && body.is_end_stream() => {
                BodyProgress::Whole(bytes)
            }
            Poll::Ready(Some(Ok(rest))) => BodyProgress::Part([bytes, rest].concat().into()),
            Poll::Ready(Some(Err(_))) | Poll::Pending => BodyProgress::Part(bytes),
        },
        Poll::Ready(None) => BodyProgress::Whole(Bytes::new()),
        Poll::Ready(Some(Err(_))) | Poll::Pending => BodyProgress::Part(Bytes::new()),
    }
}

/// Bytes of incomplete messages, of several streams of a connection.
#[derive(Debug)]
pub(super) struct BufferedBytes {
    bytes: AtomicUsize,
    bytes_max: usize,
}

impl BufferedBytes {
    /// Of calls that need a token.
    pub(super) fn of_callers() -> Self {
        BufferedBytes { bytes: AtomicUsize::new(0), bytes_max: HELD_BYTES_MAX }
    }

    /// Of calls that need none.
    pub(super) fn of_anybody() -> Self {
        BufferedBytes { bytes: AtomicUsize::new(0), bytes_max: HELD_WITHOUT_TOKEN_BYTES_MAX }
    }
}

/// A body as it comes. What it holds is given back when it is dropped.
pub(super) struct IncomingBody<'h> {
    body: RecvStream,
    held: &'h BufferedBytes,
    bytes: Vec<u8>,
    counted: usize,
    message_bytes_max: usize,
}

impl<'h> IncomingBody<'h> {
    pub(super) fn new(body: RecvStream, held: &'h BufferedBytes, message_bytes_max: usize) -> Self {
        IncomingBody { body, held, bytes: Vec::new(), counted: 0, message_bytes_max }
    }

    /// Appends what came; refuses what is too much.
    pub(super) fn push(&mut self, piece: &[u8]) -> Result<(), Failure> {
        self.counted += piece.len();
        let held = self.held.bytes.fetch_add(piece.len(), Ordering::Relaxed) + piece.len();
        let length = self.bytes.len() + piece.len();
        if held > self.held.bytes_max || length > PREFIX_LENGTH + self.message_bytes_max {
            return Err(too_large(self.message_bytes_max, self.held.bytes_max));
        }
        self.bytes.extend_from_slice(piece);
        // Without capacity the client would wait for ever; a stream that has ended needs none.
        let _ = self.body.flow_control().release_capacity(piece.len());
        announced(&self.bytes).map(|_| ())
    }

    /// Takes the first message once it is whole, and gives back what it held.
    pub(super) fn take(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        let message = take_first(&mut self.bytes)?;
        let freed = self.counted - self.bytes.len().min(self.counted);
        self.held.bytes.fetch_sub(freed, Ordering::Relaxed);
        self.counted -= freed;
        Ok(message)
    }

    /// Waits for more; false at the end. A stream that was cut off is at its end.
    pub(super) async fn more(&mut self) -> Result<bool, Failure> {
        match poll_fn(|cx| self.body.poll_data(cx)).await {
            Some(Ok(piece)) => self.push(&piece).map(|()| true),
            Some(Err(_)) | None => Ok(false),
        }
    }
}

impl Drop for IncomingBody<'_> {
    fn drop(&mut self) {
        self.held.bytes.fetch_sub(self.counted, Ordering::Relaxed);
    }
}

/// Waits for the rest of a body of one message.
pub(super) async fn whole(
    body: RecvStream,
    first: &[u8],
    held: &BufferedBytes,
    message_bytes_max: usize,
) -> Result<Vec<u8>, Failure> {
    let mut incoming = IncomingBody::new(body, held, message_bytes_max);
    incoming.push(first)?;
    let read = async {
        while incoming.more().await? {}
        Ok(())
    };
    match tokio::time::timeout(MESSAGE_MAX, read).await {
        Ok(read) => read.map(|()| std::mem::take(&mut incoming.bytes)),
        Err(_) => Err(Failure::new(GrpcCode::DeadlineExceeded, "the message took more than 10 s to come")),
    }
}

#[cold]
fn compressed() -> Failure {
    let message = "compressed messages are not supported; send them as they are (grpc-encoding: identity)";
    Failure::new(GrpcCode::Unimplemented, message)
}

#[cold]
fn too_large(message_bytes_max: usize, held_bytes_max: usize) -> Failure {
    let (each, all) = (message_bytes_max >> 10, held_bytes_max >> 10);
    let message = format!(
        "such a message has at most {each} KiB, and incomplete ones of a connection {all} KiB together"
    );
    Failure::new(GrpcCode::ResourceExhausted, message)
}

#[cold]
fn not_one() -> Failure {
    let message = "the body must be one message: a zero byte, its length in four bytes, and its bytes";
    Failure::new(GrpcCode::InvalidArgument, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_message_comes_back_from_its_frame(
            message in prop::collection::vec(any::<u8>(), 0..300),
            next in prop::collection::vec(any::<u8>(), 0..4),
        ) {
            let framed = framed(|out| out.extend_from_slice(&message));
            prop_assert_eq!(only(&framed), Ok(&message[..]));
            let mut bytes = [framed, next.clone()].concat();
            prop_assert_eq!(take_first(&mut bytes), Ok(Some(message)));
            prop_assert_eq!(&bytes, &next);
        }

        #[test]
        fn any_bytes_are_a_message_or_a_failure(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = only(&bytes);
            let _ = take_first(&mut bytes.clone());
        }
    }

    #[test]
    fn what_isnt_one_plain_message_is_refused() {
        let code = |bytes: &[u8]| only(bytes).map(<[u8]>::len).map_err(|failure| failure.code);
        assert_eq!(code(&[]), Err(GrpcCode::InvalidArgument));
        assert_eq!(code(&[0, 0, 0, 0, 2, 1]), Err(GrpcCode::InvalidArgument));
        assert_eq!(code(&[0, 0, 0, 0, 0, 1]), Err(GrpcCode::InvalidArgument));
        assert_eq!(code(&[1, 0, 0, 0, 0]), Err(GrpcCode::Unimplemented));
        assert_eq!(code(&[0, 0, 16, 0, 1]), Err(GrpcCode::ResourceExhausted));
    }
}
