//! One decision, as it is remembered: what was decided, by which rule, on which counts, and how.
//!
//! Small and of a fixed size, so that the hot path can put one down without allocating. Texts (names of rules,
//! addresses of shards) are referred to by hashes that are the same in every segment and on every node.

use tidegate_core::{KeyId, Nanos, TierCounts};

/// The bits of a key that don't depend on where it is kept: 96 of them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct KeyHash {
    pub(crate) high: u64,
    pub(crate) low: u32,
}

impl KeyHash {
    pub const fn of(key: KeyId) -> Self {
        let [.., a, b, c, d, _, _, _, _] = key.get().to_be_bytes();
        KeyHash { high: high_half(key), low: u32::from_be_bytes([a, b, c, d]) }
    }

    /// The first 16 of its digits, by which a caller may be asked for.
    pub fn short_text(&self) -> String {
        format!("{:016x}", self.high)
    }

    /// 24 hexadecimal digits.
    pub fn text(&self) -> String {
        format!("{:016x}{:08x}", self.high, self.low)
    }
}

/// Names a rule with its algorithm, or what the limits that requests of a namespace give themselves have in common.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct RuleId(pub(crate) u64);

impl RuleId {
    /// Of denials of which nobody knows the rule any more.
    pub const UNKNOWN: RuleId = RuleId(0);

    /// By the key that stands in for callers without room: each rule has one, and no caller has it.
    pub fn of_overflow(key: KeyId) -> Self {
        RuleId(high_half(key))
    }
}

const fn high_half(key: KeyId) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = key.get().to_be_bytes();
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

/// By which a request is found again; 0: it has none. Ids that were made by a node are kept whole, others hashed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RequestTag(pub u64);

impl RequestTag {
    pub fn of(id: &str) -> Self {
        let made = (id.len() == 16 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')))
            .then(|| u64::from_str_radix(id, 16).ok());
        RequestTag(made.flatten().unwrap_or_else(|| text_hash(id)))
    }
}

/// The trace that a request belongs to, and the span within it that called: W3C's ids.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Trace {
    pub high: u64,
    pub low: u64,
    pub span: u64,
}

impl Trace {
    /// Most requests have none.
    pub const NONE: Trace = Trace { high: 0, low: 0, span: 0 };

    /// 32 hexadecimal digits.
    pub fn id_text(&self) -> String {
        format!("{:016x}{:016x}", self.high, self.low)
    }

    /// 16 hexadecimal digits.
    pub fn span_text(&self) -> String {
        format!("{:016x}", self.span)
    }
}

/// Names a shard by its address; 0: none was asked.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct ShardTag(pub(crate) u32);

impl ShardTag {
    pub const NONE: ShardTag = ShardTag(0);

    pub fn of(address: &str) -> Self {
        let [a, b, c, d, ..] = text_hash(address).to_le_bytes();
        ShardTag(u32::from_le_bytes([a, b, c, d]).max(1))
    }
}

/// FNV-1a. Not against adversaries: whoever finds two ids with one hash finds two records by one id.
fn text_hash(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// The outcome of a recorded decision.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordOutcome {
    Admitted,
    Denied,
    /// By a shadow rule, which only says so.
    WouldDeny,
}

/// How a recorded decision was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordPath {
    Local,
    Cold,
    Stale,
    Strict,
    Credit,
    Exact,
    Lease,
    Quota,
    Unverified,
    /// The request lacked an attribute that the rule requires.
    Missing,
}

impl RecordOutcome {
    pub(crate) const ALL: [RecordOutcome; 3] =
        [RecordOutcome::Admitted, RecordOutcome::Denied, RecordOutcome::WouldDeny];

    pub fn name(self) -> &'static str {
        match self {
            RecordOutcome::Admitted => "admitted",
            RecordOutcome::Denied => "denied",
            RecordOutcome::WouldDeny => "would_deny",
        }
    }
}

impl RecordPath {
    pub(crate) const ALL: [RecordPath; 10] = [
        RecordPath::Local,
        RecordPath::Cold,
        RecordPath::Stale,
        RecordPath::Strict,
        RecordPath::Credit,
        RecordPath::Exact,
        RecordPath::Lease,
        RecordPath::Quota,
        RecordPath::Unverified,
        RecordPath::Missing,
    ];

    pub fn name(self) -> &'static str {
        match self {
            RecordPath::Local => "local",
            RecordPath::Cold => "cold",
            RecordPath::Stale => "stale",
            RecordPath::Strict => "strict",
            RecordPath::Credit => "credit",
            RecordPath::Exact => "exact",
            RecordPath::Lease => "lease",
            RecordPath::Quota => "quota",
            RecordPath::Unverified => "unverified",
            RecordPath::Missing => "missing",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    pub at: Nanos,
    pub key: KeyHash,
    pub rule: RuleId,
    pub rule_version: u64,
    pub outcome: RecordOutcome,
    pub path: RecordPath,
    pub shard: ShardTag,
    pub request: RequestTag,
    pub trace: Trace,
    pub cost: u64,
    pub limit: u64,
    pub counts: TierCounts,
    /// How long the caller would have had to wait; `None` when it passed, or when no wait helps. In whole
    /// milliseconds once it is written.
    pub retry_after: Option<Nanos>,
    /// Further ones like it that were folded into it, and when the last of them came.
    pub more: u32,
    pub last: Nanos,
}

/// Denials of a rule that are known by their number only: there were more keys at a time than are told apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RuleCount {
    pub rule: RuleId,
    pub first: Nanos,
    pub last: Nanos,
    pub count: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_the_same_wherever_it_is_kept() {
        let key = KeyId::from_hash(0x0123_4567_89ab_cdef_0011_2233_4455_6677);
        assert_eq!(KeyHash::of(key), KeyHash { high: 0x0123_4567_89ab_cdef, low: 0x0011_2233 });
        assert_eq!(KeyHash::of(key.placed(9)), KeyHash::of(key));
    }

    #[test]
    fn made_request_ids_are_kept_whole() {
        assert_eq!(RequestTag::of("00000000000000ff"), RequestTag(255));
        assert_ne!(RequestTag::of("00000000000000FF"), RequestTag(255));
        assert_ne!(RequestTag::of("a"), RequestTag::of("b"));
    }
}
