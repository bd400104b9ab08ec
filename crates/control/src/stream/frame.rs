//! gRPC's messages in a stream of bytes: a flag, a length, the bytes.

use bytes::{Buf, Bytes, BytesMut};

const PREFIX_LENGTH: usize = 5;

/// Puts the prefix before a message that `fill` writes.
pub fn framed(fill: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    out.extend_from_slice(&[0; PREFIX_LENGTH]);
    fill(&mut out);
    let length = u32::try_from(out.len() - PREFIX_LENGTH).unwrap_or(u32::MAX);
    out[1..PREFIX_LENGTH].copy_from_slice(&length.to_be_bytes());
    out
}

/// Why bytes aren't messages of ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameError {
    Compressed,
    TooLong { bytes: usize },
}

/// Takes the first message off `bytes` once it is whole.
pub fn take_first(bytes: &mut BytesMut, bytes_max: usize) -> Result<Option<Bytes>, FrameError> {
    let Some((prefix, rest)) = bytes.split_at_checked(PREFIX_LENGTH) else { return Ok(None) };
    let length = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]);
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    if prefix[0] != 0 {
        return Err(FrameError::Compressed);
    }
    if length > bytes_max {
        return Err(FrameError::TooLong { bytes: length });
    }
    if rest.len() < length {
        return Ok(None);
    }
    bytes.advance(PREFIX_LENGTH);
    Ok(Some(bytes.split_to(length).freeze()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back_from_their_frames_in_whatever_pieces() {
        let all =
            [framed(|out| out.extend_from_slice(b"one")), framed(|_| {}), framed(|out| out.push(7))].concat();
        for cut in 0..=all.len() {
            let (mut bytes, mut taken) = (BytesMut::new(), Vec::new());
            for piece in [&all[..cut], &all[cut..]] {
                bytes.extend_from_slice(piece);
                while let Some(message) = take_first(&mut bytes, 10).unwrap() {
                    taken.push(message);
                }
            }
            assert_eq!(taken, [&b"one"[..], b"", &[7]]);
        }
    }

    #[test]
    fn what_is_compressed_or_too_long_is_refused_before_it_is_held() {
        let mut long = BytesMut::from(&[0, 0, 0, 0, 11][..]);
        assert_eq!(take_first(&mut long, 10), Err(FrameError::TooLong { bytes: 11 }));
        let mut compressed = BytesMut::from(&[1, 0, 0, 0, 0][..]);
        assert_eq!(take_first(&mut compressed, 10), Err(FrameError::Compressed));
    }
}
