//! Commands as people type them: one line, words between spaces, quotes as in Redis.
//!
//! For telnet and for scripts that test whether somebody is there; nobody is in a hurry here.

use super::parse::{INLINE_BYTES_MAX, ParseResult, ProtocolError, WORDS_MAX};

/// The line that `input` begins with.
#[cold]
pub(crate) fn line(input: &[u8]) -> Result<ParseResult<'_>, ProtocolError> {
    let Some(end) = input.iter().position(|byte| *byte == b'\n') else {
        let is_endless = input.len() > INLINE_BYTES_MAX;
        return if is_endless { Err(ProtocolError::InlineLength) } else { Ok(ParseResult::Incomplete) };
    };
    if end > INLINE_BYTES_MAX {
        return Err(ProtocolError::InlineLength);
    }
    let line = input[..end].trim_ascii();
    let length = end + 1;
    Ok(if line.is_empty() { ParseResult::Nothing { length } } else { ParseResult::Inline { line, length } })
}

/// The words of a line, without their quotes.
pub(crate) fn split(line: &[u8]) -> Result<Vec<Vec<u8>>, ProtocolError> {
    let mut rest = UnreadBytes(line);
    let mut words = Vec::new();
    while rest.skip_spaces() {
        if words.len() == WORDS_MAX {
            return Err(ProtocolError::WordCount);
        }
        words.push(rest.word()?);
    }
    Ok(words)
}

struct UnreadBytes<'a>(&'a [u8]);

impl UnreadBytes<'_> {
    /// Whether anything comes after them.
    fn skip_spaces(&mut self) -> bool {
        self.0 = self.0.trim_ascii_start();
        !self.0.is_empty()
    }

    fn take(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn word(&mut self) -> Result<Vec<u8>, ProtocolError> {
        let mut word = Vec::new();
        while let Some(byte) = self.take() {
            match byte {
                b'"' | b'\'' => return self.quoted(byte, word),
                _ if byte.is_ascii_whitespace() => break,
                _ => word.push(byte),
            }
        }
        Ok(word)
    }

    /// Up to the closing quote, after which a word must end.
    fn quoted(&mut self, quote: u8, mut word: Vec<u8>) -> Result<Vec<u8>, ProtocolError> {
        loop {
            match self.take().ok_or(ProtocolError::Quotes)? {
                b'\\' if quote == b'"' => word.push(self.escaped()?),
                b'\\' if self.0.first() == Some(&b'\'') => word.extend(self.take()),
                byte if byte == quote => break,
                byte => word.push(byte),
            }
        }
        let ends = self.0.first().is_none_or(u8::is_ascii_whitespace);
        if ends { Ok(word) } else { Err(ProtocolError::Quotes) }
    }

    fn escaped(&mut self) -> Result<u8, ProtocolError> {
        if let [b'x', high, low, rest @ ..] = self.0
            && let (Some(high), Some(low)) = (hex(*high), hex(*low))
        {
            self.0 = rest;
            return Ok(high << 4 | low);
        }
        Ok(match self.take().ok_or(ProtocolError::Quotes)? {
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'b' => 8,
            b'a' => 7,
            other => other,
        })
    }
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Result<Vec<String>, ProtocolError> {
        let text = |word: Vec<u8>| String::from_utf8_lossy(&word).into_owned();
        split(line.as_bytes()).map(|words| words.into_iter().map(text).collect())
    }

    #[test]
    fn a_line_is_split_as_redis_splits_it() {
        for (line, expected) in [
            ("PING", &["PING"][..]),
            ("  ECHO   hello  ", &["ECHO", "hello"]),
            ("a\tb", &["a", "b"]),
            (r#"ECHO "hello world""#, &["ECHO", "hello world"]),
            (r"ECHO 'it\'s \n'", &["ECHO", "it's \\n"]),
            (r#"ECHO "\x41\n\"\q""#, &["ECHO", "A\n\"q"]),
            (r#"ECHO """#, &["ECHO", ""]),
            (r#"pre"fix""#, &["prefix"]),
            (r#""\xzz""#, &["xzz"]),
        ] {
            assert_eq!(words(line).unwrap(), expected, "{line}");
        }
    }

    #[test]
    fn quotes_must_close_at_the_end_of_a_word() {
        for line in [r#"ECHO "a"#, r#"ECHO "a"b"#, "ECHO 'a", r#"ECHO "a\"#, "ECHO 'a'b"] {
            assert_eq!(words(line), Err(ProtocolError::Quotes), "{line}");
        }
        assert_eq!(words(&"a ".repeat(WORDS_MAX + 1)), Err(ProtocolError::WordCount));
    }
}
