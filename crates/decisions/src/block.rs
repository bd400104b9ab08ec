//! A block: some entries with a head of their own, so that whoever finds one damaged can go on with the next.
//!
//! | bytes | |
//! |---|---|
//! | 4 | a mark |
//! | 4 | length of what follows the head |
//! | 8, 8 | the first and the last instant in it |
//! | 4 | CRC-32 of what follows the head |
//! | 4 | CRC-32 of the head before it |
//!
//! The head has a checksum of its own: its length can be believed even where the rest can't, and bytes that only look
//! like a head cost a look at 32 of them.

use tidegate_core::Nanos;

const MARK: [u8; 4] = *b"\xd4TGB";
pub(crate) const HEAD_BYTES: usize = 32;
/// Blocks are closed at this size, and none that is larger is read.
pub(crate) const PAYLOAD_TARGET: usize = 60 << 10;
pub(crate) const PAYLOAD_MAX: usize = 256 << 10;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Head {
    pub(crate) length: usize,
    pub(crate) first: Nanos,
    pub(crate) last: Nanos,
    checksum: u32,
}

impl Head {
    pub(crate) fn of(payload: &[u8], first: Nanos, last: Nanos) -> Self {
        Head { length: payload.len(), first, last, checksum: crc32fast::hash(payload) }
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let begun = out.len();
        out.extend_from_slice(&MARK);
        out.extend_from_slice(&u32::try_from(self.length).unwrap_or(u32::MAX).to_le_bytes());
        out.extend_from_slice(&self.first.get().to_le_bytes());
        out.extend_from_slice(&self.last.get().to_le_bytes());
        out.extend_from_slice(&self.checksum.to_le_bytes());
        let checksum = crc32fast::hash(&out[begun..]);
        out.extend_from_slice(&checksum.to_le_bytes());
    }

    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let head = bytes.get(..HEAD_BYTES)?;
        let half = |at: usize| head.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
        let word = |at: usize| head.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
        if !head.starts_with(&MARK) || half(28)? != crc32fast::hash(&head[..28]) {
            return None;
        }
        let length = usize::try_from(half(4)?).ok().filter(|length| *length <= PAYLOAD_MAX)?;
        let (first, last) = (Nanos::new(word(8)?), Nanos::new(word(16)?));
        Some(Head { length, first, last, checksum: half(24)? })
    }

    /// What follows the head, if it is what was written.
    pub(crate) fn checked<'b>(&self, payload: &'b [u8]) -> Option<&'b [u8]> {
        let payload = payload.get(..self.length)?;
        (crc32fast::hash(payload) == self.checksum).then_some(payload)
    }
}

/// The offset of a block in its segment, and the times that it covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BlockPosition {
    pub(crate) offset: u32,
    pub(crate) first: Nanos,
    pub(crate) last: Nanos,
}

/// Every block with a good head in a file without an index, one after the other.
pub(crate) fn scan(bytes: &[u8], begin: usize) -> Vec<BlockPosition> {
    let mut places = Vec::new();
    let mut at = begin;
    while at + HEAD_BYTES <= bytes.len() {
        let head = Head::read(&bytes[at..]).filter(|head| at + HEAD_BYTES + head.length <= bytes.len());
        let (Some(head), Ok(offset)) = (head, u32::try_from(at)) else {
            // On to what may be the next head.
            at += 1;
            at += bytes[at..].iter().position(|byte| *byte == MARK[0]).unwrap_or(bytes.len() - at);
            continue;
        };
        places.push(BlockPosition { offset, first: head.first, last: head.last });
        at += HEAD_BYTES + head.length;
    }
    places
}
