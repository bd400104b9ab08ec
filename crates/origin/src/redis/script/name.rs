//! What the keys in Redis are called, and which slot of a cluster they live in.
//!
//! Everything of one key carries the same hash tag, so that one script may touch it all. A changed name is a
//! forgotten count: never rename without moving.

use crate::redis::wire::{Arguments, decimal, hexadecimal};
use std::sync::OnceLock;
use tidegate_core::{KeyId, Sequence};

/// The slots of a Redis Cluster.
const SLOTS: u16 = 16_384;
const NODES_TAG: &str = "nodes";
/// What a key's names begin with: its tag, and all of it.
const STEM: &[u8; 53] = b"tidegate:{--tag---}:--------------key---------------:";
const TAG_AT: usize = 10;
const TAG_DIGITS: usize = 8;
const KEY_AT: usize = 20;
const KEY_DIGITS: usize = 32;

/// The slot of everything that belongs to `key`.
pub(crate) fn slot_of(key: KeyId) -> u16 {
    let mut digits = [0; TAG_DIGITS];
    hexadecimal(&mut digits, u128::from(tag(key)));
    slot_of_tag(&digits)
}

/// A hash tag whose keys lie in `slot`: the smallest number whose digits do.
pub(crate) fn tag_of_slot(slot: u16) -> &'static str {
    static TAGS: OnceLock<Vec<String>> = OnceLock::new();
    let tags = TAGS.get_or_init(|| {
        let mut tags = vec![String::new(); usize::from(SLOTS)];
        let mut missing = tags.len();
        for number in 0_u32.. {
            let tag = number.to_string();
            let found = &mut tags[usize::from(slot_of_tag(tag.as_bytes()))];
            if found.is_empty() {
                *found = tag;
                missing -= 1;
            }
            if missing == 0 {
                break;
            }
        }
        tags
    });
    tags.get(usize::from(slot)).map_or(NODES_TAG, String::as_str)
}

/// What the record of a shard, and the list of the nodes that it knows, are called. `slot` is one that the shard owns.
pub(super) fn record_names(slot: u16) -> [String; 2] {
    ["record", "members"].map(|what| format!("tidegate:{{{}}}:{what}", tag_of_slot(slot)))
}

pub(super) fn slot_of_nodes() -> u16 {
    slot_of_tag(NODES_TAG.as_bytes())
}

/// The names of everything that one key has, given as a key's arguments. Written digit by digit: every ask has some.
pub(super) struct Names {
    stem: [u8; STEM.len()],
}

impl Names {
    pub(super) fn of(key: KeyId) -> Self {
        let mut stem = *STEM;
        hexadecimal(&mut stem[TAG_AT..TAG_AT + TAG_DIGITS], u128::from(tag(key)));
        hexadecimal(&mut stem[KEY_AT..KEY_AT + KEY_DIGITS], key.get());
        Names { stem }
    }

    pub(super) fn window_cell(&self, keys: &mut Arguments, epoch: u16, sequence: Sequence) {
        self.of_epoch(keys, epoch, decimal(&mut [0; 20], sequence.0));
    }

    pub(super) fn gcra_state(&self, keys: &mut Arguments, epoch: u16) {
        self.of_epoch(keys, epoch, b"g");
    }

    fn of_epoch(&self, keys: &mut Arguments, epoch: u16, what: &[u8]) {
        keys.joined(&[&self.stem, decimal(&mut [0; 20], u64::from(epoch)), b":", what]);
    }

    pub(super) fn epoch(&self, keys: &mut Arguments) {
        keys.joined(&[&self.stem, b"e"]);
    }

    /// The last order that the key was reset by.
    pub(super) fn order(&self, keys: &mut Arguments) {
        keys.joined(&[&self.stem, b"o"]);
    }
}

pub(super) const LIVE_NODES: &str = "tidegate:{nodes}:alive";
pub(super) const FINGERPRINT: &str = "tidegate:{nodes}:secret";
/// Not the marker above, which earlier releases know: that one names a secret, this is it.
pub(super) const STORED_SECRET: &str = "tidegate:{nodes}:fleet-secret";
/// What earlier releases read of resets.
pub(super) const RESETS: &str = "tidegate:{nodes}:resets";
pub(super) const RESET_LOG: &str = "tidegate:{nodes}:reset-log";
pub(super) const RESET_HEAD: &str = "tidegate:{nodes}:reset-head";
pub(super) const FORMAT: &str = "tidegate:{nodes}:format";
pub(super) const PROVEN: &str = "tidegate:{nodes}:proven";
pub(super) const QUOTA_REPORTS: &str = "tidegate:{nodes}:quota-reports";
pub(super) const QUOTA_NEWS: &str = "tidegate:{nodes}:quota-news";
pub(super) const HOT_REPORTS: &str = "tidegate:{nodes}:hot-reports";
pub(super) const HOT_NEWS: &str = "tidegate:{nodes}:hot-news";
pub(super) const APPLIED_VERSIONS: &str = "tidegate:{nodes}:heard";
pub(super) const WORLD: &str = "tidegate:{nodes}:world";
pub(super) const WORKER: &str = "tidegate:{nodes}:worker";
pub(super) const ORIGIN: &str = "tidegate:{nodes}:origin";
pub(super) const PUBLISH_QUEUE: &str = "tidegate:{nodes}:mail";
pub(super) const PUBLISH_REQUESTS: &str = "tidegate:{nodes}:letters";

/// Keys that share a place share these 32 bits.
fn tag(key: KeyId) -> u32 {
    u32::try_from(key.get() & u128::from(u32::MAX)).unwrap_or(u32::MAX)
}

fn slot_of_tag(tag: &[u8]) -> u16 {
    checksum(tag) % SLOTS
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
        assert_eq!(slot_of_tag(b"foo"), 12_182);
        assert_eq!(slot_of_tag(b"00000000"), slot_of(KeyId::from_hash(5 << 32)));
    }

    #[test]
    fn every_slot_has_a_tag_that_lies_in_it() {
        assert!((0..SLOTS).all(|slot| slot_of_tag(tag_of_slot(slot).as_bytes()) == slot));
    }

    #[test]
    fn everything_of_a_key_shares_its_tag() {
        let key = KeyId::from_hash(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
        let (names, mut keys) = (Names::of(key), Arguments::default());
        names.window_cell(&mut keys, 3, Sequence(77));
        names.gcra_state(&mut keys, 3);
        names.epoch(&mut keys);
        let shown = keys.texts();
        assert_eq!(shown[0], "tidegate:{89abcdef}:0123456789abcdef0123456789abcdef:3:77");
        assert_eq!(shown[1], "tidegate:{89abcdef}:0123456789abcdef0123456789abcdef:3:g");
        assert_eq!(shown[2], "tidegate:{89abcdef}:0123456789abcdef0123456789abcdef:e");
    }
}
