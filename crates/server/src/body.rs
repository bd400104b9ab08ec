//! Reading a request's body: at most 1 MiB, without a copy when it came in one piece.

use crate::refusal::{Code, Refusal};
use http_body_util::BodyExt;
use hyper::body::{Body, Bytes, Incoming};

pub(crate) const BYTES_MAX: usize = 1 << 20;

pub(crate) async fn read(body: Incoming) -> Result<Bytes, Refusal> {
    read_up_to(body, BYTES_MAX).await.map_err(|refusal| {
        let fix = "send at most 1 MiB; split `limits` over several requests".to_owned();
        if refusal.code == Code::BodyTooLarge { Refusal { fix, ..refusal } } else { refusal }
    })
}

/// The same, of at most so many bytes.
pub(crate) async fn read_up_to(mut body: Incoming, bytes_max: usize) -> Result<Bytes, Refusal> {
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if announced > bytes_max {
        return Err(too_large(bytes_max));
    }
    let Some(first) = next_piece(&mut body).await? else { return Ok(Bytes::new()) };
    if body.is_end_stream() && first.len() <= bytes_max {
        return Ok(first);
    }
    let mut whole = Vec::with_capacity(announced.max(2 * first.len()).min(bytes_max));
    let mut piece = Some(first);
    while let Some(bytes) = piece {
        if whole.len() + bytes.len() > bytes_max {
            return Err(too_large(bytes_max));
        }
        whole.extend_from_slice(&bytes);
        piece = next_piece(&mut body).await?;
    }
    Ok(Bytes::from(whole))
}

async fn next_piece(body: &mut Incoming) -> Result<Option<Bytes>, Refusal> {
    loop {
        match body.frame().await {
            None => return Ok(None),
            Some(Ok(frame)) => {
                // Trailers mean nothing here.
                if let Ok(bytes) = frame.into_data() {
                    return Ok(Some(bytes));
                }
            }
            Some(Err(error)) => return Err(incomplete(&error)),
        }
    }
}

#[cold]
fn too_large(bytes_max: usize) -> Refusal {
    let message = format!("the body is larger than {} MiB", bytes_max >> 20);
    Refusal::new(Code::BodyTooLarge, message, "split it over several requests")
}

#[cold]
fn incomplete(error: &hyper::Error) -> Refusal {
    let message = format!("the body could not be read: {error}");
    Refusal::new(Code::BodyIncomplete, message, "send as many bytes as Content-Length says, or valid chunks")
}
