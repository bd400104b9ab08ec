//! What the keys in Redis are called, and which slot of a cluster they live in.
//!
//! Everything of one key carries the same hash tag, so that one script may touch it all. A changed name is a
//! forgotten count: never rename without moving.

use tidegate_core::{KeyId, Sequence};

/// The slots of a Redis Cluster.
const SLOTS: u16 = 16_384;
const NODES_TAG: &str = "nodes";

/// The slot of everything that belongs to `key`.
pub(crate) fn slot_of(key: KeyId) -> u16 {
    slot_of_tag(&tag(key))
}

pub(super) fn slot_of_nodes() -> u16 {
    slot_of_tag(NODES_TAG)
}

pub(super) fn window_cell(key: KeyId, epoch: u16, sequence: Sequence) -> Vec<u8> {
    format!("{}{epoch}:{}", stem(key), sequence.0).into_bytes()
}

pub(super) fn gcra_state(key: KeyId, epoch: u16) -> Vec<u8> {
    format!("{}{epoch}:g", stem(key)).into_bytes()
}

pub(super) fn epoch(key: KeyId) -> Vec<u8> {
    format!("{}e", stem(key)).into_bytes()
}

pub(super) fn live_nodes() -> Vec<u8> {
    format!("tidegate:{{{NODES_TAG}}}:alive").into_bytes()
}

pub(super) fn fingerprint() -> Vec<u8> {
    format!("tidegate:{{{NODES_TAG}}}:secret").into_bytes()
}

pub(super) fn resets() -> Vec<u8> {
    format!("tidegate:{{{NODES_TAG}}}:resets").into_bytes()
}

/// Keys that share a place share these 32 bits.
fn tag(key: KeyId) -> String {
    format!("{:08x}", key.get() & u128::from(u32::MAX))
}

fn stem(key: KeyId) -> String {
    format!("tidegate:{{{}}}:{:032x}:", tag(key), key.get())
}

fn slot_of_tag(tag: &str) -> u16 {
    checksum(tag.as_bytes()) % SLOTS
}

/// CRC-16/XMODEM, as Redis Cluster prescribes. Bit by bit: a tag is a few bytes.
fn checksum(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |sum, byte| {
        (0..8).fold(sum ^ (u16::from(*byte) << 8), |sum: u16, _| {
            if sum & 0x8000 == 0 { sum << 1 } else { (sum << 1) ^ 0x1021 }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis_cluster() {
        // The check value of the specification, and what CLUSTER KEYSLOT says.
        assert_eq!(checksum(b"123456789"), 0x31c3);
        assert_eq!(slot_of_tag("foo"), 12_182);
        assert_eq!(slot_of_tag("00000000"), slot_of(KeyId::from_hash(5 << 32)));
    }

    #[test]
    fn everything_of_a_key_shares_its_tag() {
        let key = KeyId::from_hash(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
        let names = [window_cell(key, 3, Sequence(77)), gcra_state(key, 3), epoch(key)];
        let shown = names.map(|name| String::from_utf8(name).unwrap());
        assert_eq!(shown[0], "tidegate:{89abcdef}:0123456789abcdef0123456789abcdef:3:77");
        assert_eq!(shown[1], "tidegate:{89abcdef}:0123456789abcdef0123456789abcdef:3:g");
        assert_eq!(shown[2], "tidegate:{89abcdef}:0123456789abcdef0123456789abcdef:e");
    }
}
