//! A token as text, `tg_<id>_<secret>`, and what is kept of it: the id, and a hash of the secret.
//!
//! The secret is 32 random bytes: nobody guesses those, however fast the hash, so it takes no slow one. Must
//! never show a secret but to whoever made it.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand;
use std::fmt;

const PREFIX: &[u8] = b"tg_";
const ID_CHARS: usize = 12;
const SECRET_BYTES: usize = 32;
const HASH_BYTES: usize = 32;
/// What is longer isn't looked at.
pub(crate) const TOKEN_BYTES_MAX: usize = 256;

/// The part of a token that is no secret, by which it is found and revoked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenId([u8; ID_CHARS]);

impl TokenId {
    /// Twelve of a-z, A-Z and 0-9; `None` for anything else.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let id: [u8; ID_CHARS] = text.try_into().ok()?;
        id.iter().all(u8::is_ascii_alphanumeric).then_some(TokenId(id))
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{}", char::from(*byte)))
    }
}

impl fmt::Debug for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// SHA-256 of a token's secret.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TokenHash([u8; HASH_BYTES]);

impl TokenHash {
    fn of(secret: &[u8]) -> Self {
        let mut hash = [0; HASH_BYTES];
        hash.copy_from_slice(digest(&SHA256, secret).as_ref());
        TokenHash(hash)
    }

    /// 64 of 0-9 and a-f.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        if digits.len() != 2 * HASH_BYTES {
            return None;
        }
        let mut hash = [0; HASH_BYTES];
        for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(TokenHash(hash))
    }

    /// In a time that tells nothing.
    pub(crate) fn is_of(&self, secret: &[u8]) -> bool {
        is_equal(&self.0, &TokenHash::of(secret).0)
    }
}

impl fmt::Display for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

/// A token that was made just now: the only time that its secret is known.
pub struct NewToken {
    pub id: TokenId,
    secret: String,
}

impl NewToken {
    /// `None` when the system gives no random bytes.
    pub fn generate() -> Option<Self> {
        let (mut id, mut secret) = ([0; ID_CHARS / 2], [0; SECRET_BYTES]);
        rand::fill(&mut id).ok()?;
        rand::fill(&mut secret).ok()?;
        Some(NewToken { id: TokenId::parse(hex(&id).as_bytes())?, secret: hex(&secret) })
    }

    pub fn hash(&self) -> TokenHash {
        TokenHash::of(self.secret.as_bytes())
    }

    /// The whole token, to be shown once.
    pub fn reveal(&self) -> String {
        format!("tg_{}_{}", self.id, self.secret)
    }
}

impl fmt::Debug for NewToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NewToken({})", self.id)
    }
}

/// The id and the secret of what a caller presents; `None` when it isn't a token.
pub(crate) fn split(presented: &[u8]) -> Option<(TokenId, &[u8])> {
    if presented.len() > TOKEN_BYTES_MAX {
        return None;
    }
    let (id, rest) = presented.strip_prefix(PREFIX)?.split_at_checked(ID_CHARS)?;
    Some((TokenId::parse(id)?, rest.strip_prefix(b"_")?))
}

/// In a time that depends on the lengths only.
pub(crate) fn is_equal(one: &[u8], other: &[u8]) -> bool {
    verify_slices_are_equal(one, other).is_ok()
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits =
        bytes.iter().flat_map(|byte| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    digits.map(char::from).collect()
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_token_is_its_hashs_and_no_other_is() {
        let (token, other) = (NewToken::generate().unwrap(), NewToken::generate().unwrap());
        let text = token.reveal();
        assert_eq!(text.len(), 3 + 12 + 1 + 64, "{}", token.id);
        let (id, secret) = split(text.as_bytes()).unwrap();
        assert_eq!(id, token.id);
        assert!(token.hash().is_of(secret) && !other.hash().is_of(secret));
        assert!(!token.hash().is_of(&secret[1..]) && !token.hash().is_of(b""));
        assert_eq!(TokenHash::parse(&token.hash().to_string()), Some(token.hash()));
        assert!(!format!("{token:?}").contains(&text[16..]), "a secret is shown");
    }

    #[test]
    fn what_isnt_a_token_is_none() {
        let long = format!("tg_0123456789ab_{}", "x".repeat(TOKEN_BYTES_MAX));
        for text in [
            "",
            "tg_",
            "tg_0123456789ab",
            "tg_0123456789a_b",
            "tg_0123456789a__b",
            "TG_0123456789ab_x",
            &long,
        ] {
            assert!(split(text.as_bytes()).is_none(), "{text}");
        }
        let upper = TokenHash::of(b"").to_string().to_uppercase();
        for text in ["", "00", &upper, &"é".repeat(32)] {
            assert!(TokenHash::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn the_hash_is_sha_256() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(TokenHash::of(b"abc").to_string(), abc);
    }
}
