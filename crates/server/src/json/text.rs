//! A JSON string, borrowed when it has no escapes.
//!
//! Never yields half a surrogate pair or a raw control character: they are refused.

use std::borrow::Cow;

/// What is wrong, and how many bytes after the opening quote.
type Problem = (&'static str, usize);

const UNENDED: &str = "the string should end with a double quote";

/// Takes the string that `rest` starts with, its opening quote already gone; also how many bytes it took.
#[inline]
pub(crate) fn take(rest: &str) -> Result<(Cow<'_, str>, usize), Problem> {
    let end = plain_length(rest);
    match rest.as_bytes().get(end) {
        Some(b'"') => Ok((Cow::Borrowed(&rest[..end]), end + 1)),
        Some(b'\\') => take_escaped(rest, end).map(|(text, taken)| (Cow::Owned(text), taken)),
        Some(_) => Err(("a control character should be escaped, as \\u0000 is", end)),
        None => Err((UNENDED, end)),
    }
}

/// How many bytes come before a quote, an escape or a control character.
#[inline]
fn plain_length(text: &str) -> usize {
    let is_plain = |byte: &u8| *byte != b'"' && *byte != b'\\' && *byte >= 0x20;
    text.bytes().take_while(is_plain).count()
}

#[cold]
fn take_escaped(rest: &str, first_escape: usize) -> Result<(String, usize), Problem> {
    let mut text = String::with_capacity(first_escape + 32);
    let mut at = 0;
    loop {
        let plain = plain_length(&rest[at..]);
        text.push_str(&rest[at..at + plain]);
        at += plain;
        match rest.as_bytes().get(at) {
            Some(b'"') => return Ok((text, at + 1)),
            Some(b'\\') => {
                let (character, taken) =
                    unescape(&rest.as_bytes()[at + 1..]).map_err(|problem| (problem, at))?;
                text.push(character);
                at += 1 + taken;
            }
            Some(_) => return Err(("a control character should be escaped, as \\u0000 is", at)),
            None => return Err((UNENDED, at)),
        }
    }
}

/// The character that an escape stands for, its backslash already gone; also how many bytes it took.
fn unescape(rest: &[u8]) -> Result<(char, usize), &'static str> {
    let character = match rest.first() {
        Some(quoted @ (b'"' | b'\\' | b'/')) => char::from(*quoted),
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'u') => return unescape_unicode(&rest[1..]).map(|(character, taken)| (character, taken + 1)),
        _ => return Err("one of \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\u should be here"),
    };
    Ok((character, 1))
}

fn unescape_unicode(rest: &[u8]) -> Result<(char, usize), &'static str> {
    const NOT_HEX: &str = "four hexadecimal digits should follow \\u";
    const HALF: &str = "the other half of a surrogate pair is missing, it should be whole";
    let first = hex4(rest).ok_or(NOT_HEX)?;
    if let Some(character) = char::from_u32(first) {
        return Ok((character, 4));
    }
    let second = rest.get(4..6).filter(|next| next == b"\\u").and_then(|_| hex4(&rest[6..])).ok_or(HALF)?;
    if !(0xd800..0xdc00).contains(&first) || !(0xdc00..0xe000).contains(&second) {
        return Err(HALF);
    }
    let code = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
    char::from_u32(code).map(|character| (character, 10)).ok_or(HALF)
}

fn hex4(rest: &[u8]) -> Option<u32> {
    rest.get(..4)?.iter().try_fold(0, |code, byte| Some(code * 16 + char::from(*byte).to_digit(16)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Pieces that make escapes, halves of pairs and plain text likely.
        #[test]
        fn strings_are_accepted_and_read_as_another_parser_does(
            pieces in proptest::collection::vec(
                prop_oneof![
                    "[a-z\"\\\\/ é😀\u{0}-\u{20}]{0,4}",
                    "\\\\[\"\\\\/bfnrtux]",
                    "\\\\u[0-9a-fA-F]{0,4}",
                    "\\\\ud[89a-f][0-9a-f]{2}",
                ],
                0..8,
            )
        ) {
            let quoted = format!("\"{}\"", pieces.concat());
            let ours = take(&quoted[1..]).ok().filter(|(_, taken)| 1 + taken == quoted.len());
            let theirs = serde_json::from_str::<String>(&quoted).ok();
            prop_assert_eq!(ours.map(|(text, _)| text.into_owned()), theirs);
        }
    }
}
