//! Commands out of bytes: arrays of bulk strings, and lines as people type them.
//!
//! Copies nothing and keeps nothing: what is incomplete is parsed again from its start when more has come. It
//! must never believe a length before it is within bounds.

use super::inline;

/// More words than any command here takes; clients that send them mean another server.
pub(crate) const WORDS_MAX: usize = 64;
/// Far more than any word needs; Redis allows 512 MiB.
pub(crate) const BULK_BYTES_MAX: usize = 64 << 10;
/// As Redis has it.
pub(crate) const INLINE_BYTES_MAX: usize = 64 << 10;
/// A length's line; its number has at most seven digits.
const LENGTH_LINE_BYTES_MAX: usize = 32;
/// Nothing that is counted or measured here is larger.
const LENGTH_MAX: usize = 1 << 20;

/// What is at the beginning of some bytes, and how many of them it takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ParseResult<'a> {
    /// Its words are in [`Words`].
    Command {
        length: usize,
    },
    /// Its words are yet to be split.
    Inline {
        line: &'a [u8],
        length: usize,
    },
    /// An empty array or an empty line: nothing to do, nothing to answer.
    Nothing {
        length: usize,
    },
    Incomplete,
}

/// What can't be understood. Where the next command begins is unknown, so the connection ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum ProtocolError {
    #[error("invalid multibulk length")]
    WordCount,
    #[error("unauthenticated multibulk length")]
    UnauthenticatedWordCount,
    #[error("too big mbulk count string")]
    WordCountLine,
    #[error("expected '$', got '{}'", char::from(*.0))]
    ExpectedBulk(u8),
    #[error("invalid bulk length")]
    BulkLength,
    #[error("too big bulk count string")]
    BulkLengthLine,
    #[error("expected CRLF after a bulk string")]
    BulkEnd,
    #[error("too big inline request")]
    InlineLength,
    #[error("unbalanced quotes in request")]
    Quotes,
    #[error("a command has at most {} bytes", crate::buffers::INPUT_BYTES_MAX)]
    CommandLength,
    #[error("before AUTH a command has at most {} bytes", crate::buffers::STEP_BYTES)]
    UnauthenticatedCommandLength,
}

/// The words of one command. Reused from command to command: only the first `count` are of the latest.
#[derive(Debug)]
pub(crate) struct Words<'a> {
    words: [&'a [u8]; WORDS_MAX],
    count: usize,
}

impl<'a> Words<'a> {
    pub(crate) const fn new() -> Self {
        Words { words: [&[]; WORDS_MAX], count: 0 }
    }

    #[inline]
    pub(crate) fn get(&self) -> &[&'a [u8]] {
        &self.words[..self.count]
    }
}

/// What `input` begins with.
#[inline]
pub(crate) fn next<'a>(input: &'a [u8], words: &mut Words<'a>) -> Result<ParseResult<'a>, ProtocolError> {
    match input.first() {
        None => Ok(ParseResult::Incomplete),
        Some(b'*') => array(input, words),
        Some(_) => inline::line(input),
    }
}

#[inline]
fn array<'a>(input: &'a [u8], words: &mut Words<'a>) -> Result<ParseResult<'a>, ProtocolError> {
    let mut rest = &input[1..];
    let count = match length(&mut rest) {
        Length::Is(count) if count <= WORDS_MAX => count,
        Length::Negative => 0,
        Length::Is(_) | Length::Invalid => return Err(ProtocolError::WordCount),
        Length::Endless => return Err(ProtocolError::WordCountLine),
        Length::Incomplete => return Ok(ParseResult::Incomplete),
    };
    words.count = count;
    for word in &mut words.words[..count] {
        match bulk(&mut rest)? {
            Some(bytes) => *word = bytes,
            None => return Ok(ParseResult::Incomplete),
        }
    }
    let length = input.len() - rest.len();
    Ok(if count == 0 { ParseResult::Nothing { length } } else { ParseResult::Command { length } })
}

/// Takes a bulk string off the front; `None` while it isn't complete.
#[inline]
fn bulk<'a>(rest: &mut &'a [u8]) -> Result<Option<&'a [u8]>, ProtocolError> {
    match rest.first() {
        None => return Ok(None),
        Some(b'$') => *rest = &rest[1..],
        Some(other) => return Err(ProtocolError::ExpectedBulk(*other)),
    }
    let length = match length(rest) {
        Length::Is(length) if length <= BULK_BYTES_MAX => length,
        Length::Is(_) | Length::Negative | Length::Invalid => return Err(ProtocolError::BulkLength),
        Length::Endless => return Err(ProtocolError::BulkLengthLine),
        Length::Incomplete => return Ok(None),
    };
    let Some((bytes, after)) = rest.split_at_checked(length) else { return Ok(None) };
    match after {
        [b'\r', b'\n', after @ ..] => *rest = after,
        [] | [b'\r'] => return Ok(None),
        _ => return Err(ProtocolError::BulkEnd),
    }
    Ok(Some(bytes))
}

enum Length {
    Is(usize),
    Negative,
    Invalid,
    /// It goes on and on.
    Endless,
    Incomplete,
}

/// Takes a number and the end of its line off the front. Nearly all have one digit or two.
#[inline(always)]
fn length(rest: &mut &[u8]) -> Length {
    let digit = |byte: &u8| usize::from(byte.wrapping_sub(b'0'));
    match *rest {
        [ones @ b'0'..=b'9', b'\r', b'\n', after @ ..] => {
            *rest = after;
            Length::Is(digit(ones))
        }
        [tens @ b'0'..=b'9', ones @ b'0'..=b'9', b'\r', b'\n', after @ ..] => {
            *rest = after;
            Length::Is(10 * digit(tens) + digit(ones))
        }
        _ => any_length(rest),
    }
}

fn any_length(rest: &mut &[u8]) -> Length {
    let mut value = 0;
    for (index, byte) in rest.iter().enumerate() {
        let digit = byte.wrapping_sub(b'0');
        if digit <= 9 {
            value = value * 10 + usize::from(digit);
            if value > LENGTH_MAX {
                return Length::Invalid;
            }
            continue;
        }
        return match (byte, rest.get(index + 1)) {
            (b'\r', _) if index == 0 => Length::Invalid,
            (b'\r', Some(b'\n')) => {
                *rest = &rest[index + 2..];
                Length::Is(value)
            }
            (b'\r', None) => Length::Incomplete,
            (b'-', _) if index == 0 => negative(rest),
            _ => Length::Invalid,
        };
    }
    if rest.len() > LENGTH_LINE_BYTES_MAX { Length::Endless } else { Length::Incomplete }
}

/// How much below nothing doesn't matter.
#[cold]
fn negative(rest: &mut &[u8]) -> Length {
    let mut digits = &rest[1..];
    match length(&mut digits) {
        Length::Is(_) => {
            *rest = digits;
            Length::Negative
        }
        Length::Negative => Length::Invalid,
        other => other,
    }
}

#[cfg(test)]
mod tests;
