//! SipHash-1-3 with 128 bits of output, over whole 8-byte blocks.
//!
//! Identities are encoded in whole blocks (`identity.rs`), which lets the state after a rule's fixed part
//! be kept and continued with the caller's part. Equal to the `siphasher` crate's on the same bytes; a test
//! compares them.

#[derive(Clone, Copy, Debug)]
pub struct SipState {
    v0: u64,
    v1: u64,
    v2: u64,
    v3: u64,
    blocks: u32,
    /// Not part of the hash: what the finished one is to be marked with. Here, so that a state stays 40 bytes.
    mark: u32,
}

impl SipState {
    pub fn new(key: &[u8; 16]) -> Self {
        let key = u128::from_le_bytes(*key);
        let (key0, key1) = split(key);
        SipState {
            v0: key0 ^ 0x736f_6d65_7073_6575,
            v1: key1 ^ 0x646f_7261_6e64_6f6d ^ 0xee,
            v2: key0 ^ 0x6c79_6765_6e65_7261,
            v3: key1 ^ 0x7465_6462_7974_6573,
            blocks: 0,
            mark: 0,
        }
    }

    #[inline(always)]
    pub fn block(&mut self, block: u64) {
        self.v3 ^= block;
        self.round();
        self.v0 ^= block;
        self.blocks = self.blocks.wrapping_add(1);
    }

    #[inline(always)]
    pub fn finish(mut self) -> u128 {
        // SipHash's last block holds the length in bytes modulo 256, and no bytes: ours are whole blocks.
        let length_block = u64::from(self.blocks.wrapping_mul(8)) << 56;
        self.v3 ^= length_block;
        self.round();
        self.v0 ^= length_block;
        self.v2 ^= 0xee;
        self.finalising_rounds();
        let low = self.v0 ^ self.v1 ^ self.v2 ^ self.v3;
        self.v1 ^= 0xdd;
        self.finalising_rounds();
        let high = self.v0 ^ self.v1 ^ self.v2 ^ self.v3;
        u128::from(low) | u128::from(high) << 64
    }

    /// 32 bits that depend on everything so far, though not as well mixed as a finished hash: for telling a few
    /// thousand things apart.
    #[inline(always)]
    pub fn glimpse(&self) -> u32 {
        let mut mixed = *self;
        mixed.round();
        let word = mixed.v0 ^ mixed.v1 ^ mixed.v2 ^ mixed.v3;
        let [.., a, b, c, d] = word.to_le_bytes();
        u32::from_le_bytes([a, b, c, d])
    }

    /// Everything finished from this state on has these bits in the place of bits 32 to 63.
    pub fn set_mark(&mut self, mark: u32) {
        self.mark = mark;
    }

    #[inline(always)]
    pub fn finish_marked(self) -> u128 {
        let (low, high) = split(self.finish());
        u128::from(low & 0xffff_ffff | u64::from(self.mark) << 32) | u128::from(high) << 64
    }

    #[inline(always)]
    fn finalising_rounds(&mut self) {
        self.round();
        self.round();
        self.round();
    }

    #[inline(always)]
    fn round(&mut self) {
        self.v0 = self.v0.wrapping_add(self.v1);
        self.v2 = self.v2.wrapping_add(self.v3);
        self.v1 = self.v1.rotate_left(13) ^ self.v0;
        self.v3 = self.v3.rotate_left(16) ^ self.v2;
        self.v0 = self.v0.rotate_left(32).wrapping_add(self.v3);
        self.v2 = self.v2.wrapping_add(self.v1);
        self.v1 = self.v1.rotate_left(17) ^ self.v2;
        self.v3 = self.v3.rotate_left(21) ^ self.v0;
        self.v2 = self.v2.rotate_left(32);
    }
}

const fn split(wide: u128) -> (u64, u64) {
    let bytes = wide.to_le_bytes();
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = bytes;
    (u64::from_le_bytes([a, b, c, d, e, f, g, h]), u64::from_le_bytes([i, j, k, l, m, n, o, p]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use siphasher::sip128::{Hasher128, SipHasher13};
    use std::hash::Hasher;

    #[test]
    fn equals_siphash_1_3_128_of_the_same_bytes() {
        let key: [u8; 16] = std::array::from_fn(|i| u8::try_from(i * 7 + 3).unwrap());
        for length in 0..80_u64 {
            let mut ours = SipState::new(&key);
            let mut theirs = SipHasher13::new_with_key(&key);
            for block in 0..length {
                let block = block.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                ours.block(block);
                theirs.write(&block.to_le_bytes());
            }
            let hash = theirs.finish128();
            assert_eq!(ours.finish(), u128::from(hash.h1) | u128::from(hash.h2) << 64, "{length} blocks");
        }
    }
}
