//! The identity of a limit's key: 128 bits, keyed with the fleet's secret, equal on all nodes.
//!
//! Every part is hashed with its length before it, padded to whole blocks, so two different lists of parts
//! never have the same encoding: (`a:b`, `c`) and (`a`, `b:c`) don't meet. Bytes are hashed as they are: no
//! case folding, no collation. A limit's *number* is never part of it: a changed number keeps the counts.

use crate::calendar::CalendarUnit;
use crate::sip::SipState;
use crate::time::{Nanos, Period};
use std::fmt;

/// The key of the identity hash. Without it nobody can craft two callers that share a counter.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FleetSecret([u8; 16]);

impl FleetSecret {
    /// What earlier releases used without a secret of their own. Anybody can read it, and craft keys with it: only for
    /// fleets whose counts were made with it, and for tests.
    pub const BUILT_IN: FleetSecret = FleetSecret(*b"tidegate-no-key!");

    pub const fn new(key: [u8; 16]) -> Self {
        FleetSecret(key)
    }

    /// The key itself, for whoever stores it. Never for a log, an answer or a message.
    pub const fn reveal(&self) -> [u8; 16] {
        self.0
    }

    /// Any number of bytes, hashed down to the key's length.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let mut state = SipState::new(&Self::BUILT_IN.0);
        absorb(&mut state, bytes);
        FleetSecret(state.finish().to_le_bytes())
    }

    /// Tells two secrets apart without giving either away.
    pub fn fingerprint(&self) -> u64 {
        let mut state = SipState::new(&self.0);
        absorb(&mut state, b"fingerprint");
        u64::try_from(state.finish() >> 64).unwrap_or(0)
    }
}

impl fmt::Debug for FleetSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FleetSecret(…)")
    }
}

/// The fleet's secret as one store holds it, and the fingerprint of the key that its counts were made with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StoredSecret {
    pub secret: Option<FleetSecret>,
    /// Fingerprint of the secret that those who share the store use; `None` when nobody has for long.
    pub marker: Option<u64>,
}

impl StoredSecret {
    /// A secret as stores and files hold it: the version of the form, and 32 hexadecimal digits. Never for a log.
    pub fn text_of(secret: &FleetSecret) -> String {
        format!("1:{:032x}", u128::from_be_bytes(secret.reveal()))
    }

    /// What [`StoredSecret::text_of`] wrote; `None` for anything else.
    pub fn read(text: &str) -> Option<FleetSecret> {
        let digits = text.strip_prefix("1:").filter(|digits| digits.len() == 32)?;
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let number = digits.bytes().all(is_digit).then(|| u128::from_str_radix(digits, 16).ok())??;
        Some(FleetSecret::new(number.to_be_bytes()))
    }

    /// Whether the store may be given this secret: it has none, and nobody uses another.
    pub fn accepts(&self, secret: &FleetSecret) -> bool {
        self.secret.is_none() && self.marker.is_none_or(|marker| marker == secret.fingerprint())
    }
}

/// Names one key's counts, in the table and in every store.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(u128);

/// The low bits: the table, which needs evenly spread keys, goes by the high ones.
const PLACE_MASK: u128 = 0xffff_ffff;
/// The bits between place and table: whose key it is.
const TENANT_SHIFT: u32 = 32;

/// Names a tenant within its keys, so that a table can tell how many of its entries each tenant has. Equal on
/// all nodes; of a thousand tenants, two have the same one with a probability of one in ten thousand.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TenantTag(u32);

impl TenantTag {
    pub fn new(secret: &FleetSecret, tenant: &str) -> Self {
        let mut state = SipState::new(&secret.0);
        absorb(&mut state, tenant.as_bytes());
        TenantTag::of_state(&state)
    }

    /// Of a state that has absorbed the tenant and nothing else.
    #[inline]
    fn of_state(state: &SipState) -> Self {
        TenantTag(state.glimpse())
    }
}

impl KeyId {
    /// Above every key: marks an empty slot of the table.
    pub(crate) const NONE: KeyId = KeyId(u128::MAX);

    pub const fn get(self) -> u128 {
        self.0
    }

    /// The top 64 bits, which place a key in the table.
    #[inline]
    pub(crate) const fn high(self) -> u64 {
        (self.0 >> 64) as u64
    }

    /// Keys of one place are kept together in a store, so that one call can decide about them all.
    pub const fn place(self) -> u32 {
        (self.0 & PLACE_MASK) as u32
    }

    /// Whose key it is.
    pub const fn tenant(self) -> TenantTag {
        TenantTag((self.0 >> TENANT_SHIFT & PLACE_MASK) as u32)
    }

    /// The same key, kept where `place` is. The tenant and 64 more bits tell it from every other key of that
    /// place.
    #[must_use]
    pub const fn placed(self, place: u32) -> KeyId {
        KeyId::from_hash(self.0 & !PLACE_MASK | place as u128)
    }

    /// The one hash in 2^128 that means "no key" becomes its neighbour.
    pub const fn from_hash(hash: u128) -> Self {
        KeyId(if hash == u128::MAX { u128::MAX - 1 } else { hash })
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.get())
    }
}

/// What of an algorithm belongs to the identity: changing it starts the counts afresh.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape<'a> {
    Sliding(Period),
    Fixed(Period),
    Calendar { unit: CalendarUnit, time_zone: &'a str },
    Gcra,
}

/// The hash of everything that a rule's callers have in common. Made once per rule; a key costs only the
/// hash of the caller's own part.
#[derive(Clone, Copy, Debug)]
pub struct KeyPrefix(SipState);

impl KeyPrefix {
    /// `rule` is empty for a limit that was given in the request.
    pub fn new(secret: &FleetSecret, tenant: &str, namespace: &str, rule: &str, shape: Shape<'_>) -> Self {
        let mut state = SipState::new(&secret.0);
        absorb(&mut state, tenant.as_bytes());
        let TenantTag(tag) = TenantTag::of_state(&state);
        state.set_mark(tag);
        for part in [namespace, rule] {
            absorb(&mut state, part.as_bytes());
        }
        let (tag, length, zone) = match shape {
            Shape::Sliding(period) => (1, period.length(), ""),
            Shape::Fixed(period) => (2, period.length(), ""),
            Shape::Calendar { unit, time_zone } => (3 + unit as u64, Nanos::ZERO, time_zone),
            Shape::Gcra => (0, Nanos::ZERO, ""),
        };
        state.block(tag);
        state.block(length.get());
        absorb(&mut state, zone.as_bytes());
        KeyPrefix(state)
    }

    /// The key of a caller named by one part.
    #[inline]
    pub fn key(&self, identifier: &str) -> KeyId {
        let mut state = self.0;
        absorb(&mut state, identifier.as_bytes());
        KeyId::from_hash(state.finish_marked())
    }

    /// The key of a caller named by several parts, in order.
    pub fn key_of_parts<'a>(&self, parts: impl IntoIterator<Item = &'a str>) -> KeyId {
        let mut state = self.0;
        for part in parts {
            absorb(&mut state, part.as_bytes());
        }
        KeyId::from_hash(state.finish_marked())
    }

    /// All 128 bits of a caller's hash, with no bits that say whose it is: for look-ups in tables of callers, never
    /// for counts.
    #[inline]
    pub fn hash_of_parts<'a>(&self, parts: impl IntoIterator<Item = &'a str>) -> u128 {
        let mut state = self.0;
        for part in parts {
            absorb(&mut state, part.as_bytes());
        }
        state.finish()
    }
}

/// Length, then the bytes in whole blocks, the last one padded with zeros.
#[inline(always)]
fn absorb(state: &mut SipState, bytes: &[u8]) {
    state.block(bytes.len() as u64);
    let mut blocks = bytes.chunks_exact(8);
    for block in &mut blocks {
        let mut word = [0; 8];
        word.copy_from_slice(block);
        state.block(u64::from_le_bytes(word));
    }
    let rest = blocks.remainder();
    if !rest.is_empty() {
        state.block(padded(bytes, rest));
    }
}

/// The last, incomplete block of some bytes. Read with those before it where there are any: a copy of a length that
/// varies costs more than the rest of the block.
#[inline(always)]
fn padded(bytes: &[u8], rest: &[u8]) -> u64 {
    match bytes.last_chunk::<8>() {
        Some(last) => u64::from_le_bytes(*last) >> (64 - 8 * rest.len()),
        None => rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(tenant: &str, namespace: &str, rule: &str) -> KeyPrefix {
        KeyPrefix::new(&FleetSecret::BUILT_IN, tenant, namespace, rule, Shape::Gcra)
    }

    #[test]
    fn parts_never_run_into_each_other() {
        let keys = [
            prefix("t", "a:b", "").key("c"),
            prefix("t", "a", "").key("b:c"),
            prefix("t", "a", "b:").key("c"),
            prefix("t", "a:b", "c").key(""),
            prefix("t", "", "a:b").key("c"),
            prefix("t", "a:b", "").key_of_parts(["c", ""]),
            prefix("t", "a:b", "").key_of_parts(["", "c"]),
            prefix("t", "a:b", "").key("c\0"),
        ];
        for (i, key) in keys.iter().enumerate() {
            assert!(keys[i + 1..].iter().all(|other| other != key), "key {i} meets another");
        }
    }

    #[test]
    fn the_last_block_is_padded_with_zeros_whatever_its_length() {
        let bytes: Vec<u8> = (1..=40).collect();
        for length in 0..bytes.len() {
            let rest = bytes[..length].chunks_exact(8).remainder();
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            if !rest.is_empty() {
                assert_eq!(padded(&bytes[..length], rest), u64::from_le_bytes(word), "{length} bytes");
            }
        }
    }

    #[test]
    fn a_key_says_whose_it_is_wherever_it_is_placed() {
        let secret = FleetSecret::BUILT_IN;
        for tenant in ["", "default", "acme", "a tenant with a long name"] {
            let key = prefix(tenant, "n", "r").key("x");
            assert_eq!(key.tenant(), TenantTag::new(&secret, tenant));
            assert_eq!(key.placed(7).tenant(), key.tenant());
        }
        for name in ["", "tenant-", "a-long-name-of-many-blocks-"] {
            let tags = (0..100_000).map(|number| TenantTag::new(&secret, &format!("{name}{number}")));
            let count = tags.collect::<std::collections::BTreeSet<_>>().len();
            assert!(count >= 99_990, "of 100,000 only {count} differ");
        }
        assert_ne!(TenantTag::new(&FleetSecret::from_bytes(b"x"), "acme"), TenantTag::new(&secret, "acme"));
    }

    #[test]
    fn a_hash_for_look_ups_has_a_keys_bits_and_depends_on_every_part() {
        let p = prefix("t", "n", "r");
        let hash = p.hash_of_parts(["x", "y"]);
        let of_the_key = !(PLACE_MASK << TENANT_SHIFT);
        assert_eq!(hash & of_the_key, p.key_of_parts(["x", "y"]).get() & of_the_key);
        let others = [&["x"][..], &["y", "x"], &["xy"], &["x", "y", ""]];
        assert!(others.iter().all(|parts| p.hash_of_parts(parts.iter().copied()) != hash));
    }

    /// Stores and snapshots hold counts by these numbers: another one would start them all afresh.
    #[test]
    fn a_key_is_the_same_number_in_every_release() {
        let key = prefix("acme", "api", "per-user").key("user-17");
        assert_eq!(key.get(), 0xd075_33f5_faa2_3d99_46ef_c87b_0f14_fd6c);
        assert_eq!((key.tenant().0, key.place()), (0x46ef_c87b, 0x0f14_fd6c));
        assert_ne!(KeyId::from_hash(u128::MAX), KeyId::NONE);
    }

    #[test]
    fn names_that_a_database_collates_stay_apart() {
        let p = prefix("t", "n", "r");
        let keys = ["Alice", "alice", "álice", "alice ", "a\u{301}lice"].map(|name| p.key(name));
        for (i, key) in keys.iter().enumerate() {
            assert!(keys[i + 1..].iter().all(|other| other != key));
        }
    }

    #[test]
    fn shape_and_secret_change_the_key_and_one_part_equals_a_list_of_one() {
        let minute = Period::new(Nanos::from_secs(60)).unwrap();
        let hour = Period::new(Nanos::from_secs(3600)).unwrap();
        let paris = Shape::Calendar { unit: CalendarUnit::Day, time_zone: "Europe/Paris" };
        let utc = Shape::Calendar { unit: CalendarUnit::Day, time_zone: "UTC" };
        let week = Shape::Calendar { unit: CalendarUnit::Week, time_zone: "UTC" };
        let shapes = [
            Shape::Gcra,
            Shape::Sliding(minute),
            Shape::Sliding(hour),
            Shape::Fixed(minute),
            paris,
            utc,
            week,
        ];
        let keys = shapes.map(|shape| KeyPrefix::new(&FleetSecret::BUILT_IN, "t", "n", "r", shape).key("x"));
        for (i, key) in keys.iter().enumerate() {
            assert!(keys[i + 1..].iter().all(|other| other != key));
        }
        let other = FleetSecret::from_bytes(b"another fleet");
        assert_ne!(KeyPrefix::new(&other, "t", "n", "r", Shape::Gcra).key("x"), keys[0]);
        assert_ne!(other.fingerprint(), FleetSecret::BUILT_IN.fingerprint());
        let placed = keys[0].placed(7);
        assert_eq!((placed.place(), placed.placed(keys[0].place())), (7, keys[0]));
        assert_eq!(prefix("t", "n", "r").key_of_parts(["x"]), prefix("t", "n", "r").key("x"));
    }
}
