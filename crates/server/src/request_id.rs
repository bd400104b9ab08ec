//! The id that a request is found again by: the caller's own, or one made here.
//!
//! Costs no system call and shares nothing between threads. Not a secret: ids only have to differ.

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};

pub(crate) const HEADER: HeaderName = HeaderName::from_static("x-request-id");
const LENGTH_MAX: usize = 128;

/// One that was made becomes a header's value only in the end: that allocates.
#[derive(Clone, Debug)]
pub(crate) enum RequestId {
    Given(HeaderValue),
    Made([u8; 16]),
}

thread_local! {
    /// Starts anywhere, differently in each thread of each process.
    static NEXT: Cell<u64> = Cell::new(RandomState::new().hash_one("request id"));
}

impl RequestId {
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        match headers.get(HEADER).filter(|given| is_valid(given.as_bytes())) {
            Some(given) => RequestId::Given(given.clone()),
            None => RequestId::made(),
        }
    }

    pub(crate) fn of_bytes(given: Option<&[u8]>) -> Self {
        let given = given.filter(|given| is_valid(given)).map(HeaderValue::from_bytes);
        given.and_then(Result::ok).map_or_else(RequestId::made, RequestId::Given)
    }

    pub(crate) fn made() -> Self {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let seed = NEXT.replace(NEXT.get().wrapping_add(0x9e37_79b9_7f4a_7c15));
        let mut rest = mixed(seed);
        let mut text = [0; 16];
        for place in &mut text {
            *place = HEX[usize::try_from(rest & 15).unwrap_or(0)];
            rest >>= 4;
        }
        RequestId::Made(text)
    }

    pub(crate) fn as_str(&self) -> &str {
        let text = match self {
            RequestId::Given(value) => value.as_bytes(),
            RequestId::Made(text) => text,
        };
        std::str::from_utf8(text).unwrap_or("unknown")
    }

    pub(crate) fn into_header(self) -> HeaderValue {
        match self {
            RequestId::Given(value) => value,
            RequestId::Made(text) => {
                HeaderValue::from_bytes(&text).unwrap_or(HeaderValue::from_static("unknown"))
            }
        }
    }
}

fn is_valid(id: &[u8]) -> bool {
    (1..=LENGTH_MAX).contains(&id.len()) && id.iter().all(u8::is_ascii_graphic)
}

/// SplitMix64's last step: a bijection, so ids of one thread never repeat.
const fn mixed(mut seed: u64) -> u64 {
    seed = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    seed = (seed ^ (seed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    seed ^ (seed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_ids_differ_and_have_16_characters() {
        let ids: std::collections::HashSet<String> =
            (0..1000).map(|_| RequestId::made().as_str().to_owned()).collect();
        assert_eq!(ids.len(), 1000);
        assert!(ids.iter().all(|id| id.len() == 16));
    }

    #[test]
    fn a_callers_id_is_kept_only_when_it_is_short_and_visible() {
        let id_for = |given: &'static str| {
            let headers = HeaderMap::from_iter([(HEADER, HeaderValue::from_static(given))]);
            RequestId::of(&headers).as_str().to_owned()
        };
        assert_eq!(id_for("abc-123"), "abc-123");
        assert_ne!(id_for("with space"), "with space");
        assert_ne!(id_for(""), "");
    }
}
