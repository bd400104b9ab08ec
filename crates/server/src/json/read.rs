//! Reading JSON, one value at a time, borrowing from the body.
//!
//! Values that nobody asked for are never looked into, so depth costs nothing. Takes any bytes.

use crate::json::text;
use crate::refusal::{Code, Refusal, excerpt};
use std::borrow::Cow;

pub(crate) struct Reader<'b> {
    body: &'b str,
    at: usize,
}

/// What a value is, by its first byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Null,
    Boolean,
    Number,
    Text,
    List,
    Object,
    End,
    /// Nothing that JSON knows, such as `NaN`.
    Other,
}

impl Kind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Kind::Null => "null",
            Kind::Boolean => "a boolean",
            Kind::Number => "a number",
            Kind::Text => "a string",
            Kind::List => "a list",
            Kind::Object => "an object",
            Kind::End => "the end of the body",
            Kind::Other => "something that isn't JSON",
        }
    }
}

/// Where the reader is in an object or a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ReaderPosition {
    First,
    Later,
}

impl<'b> Reader<'b> {
    pub(crate) fn new(body: &'b [u8]) -> Result<Self, Refusal> {
        if body.iter().all(u8::is_ascii_whitespace) {
            return Err(Refusal::new(
                Code::EmptyBody,
                "the body is empty",
                "send one JSON object as the body; with curl, by -d",
            ));
        }
        let body = std::str::from_utf8(body).map_err(|error| {
            let message = format!("the body is not valid UTF-8 at byte {}", error.valid_up_to());
            Refusal::new(Code::InvalidUtf8, message, "encode the body as UTF-8")
        })?;
        Ok(Reader { body, at: 0 })
    }

    /// What comes next.
    #[inline]
    pub(crate) fn peek(&mut self) -> Kind {
        self.skip_space();
        match self.byte() {
            Some(b'"') => Kind::Text,
            Some(b'0'..=b'9' | b'-') => Kind::Number,
            Some(b'{') => Kind::Object,
            Some(b'[') => Kind::List,
            Some(b't' | b'f') => Kind::Boolean,
            Some(b'n') => Kind::Null,
            Some(_) => Kind::Other,
            None => Kind::End,
        }
    }

    /// Enters an object or a list that [`Reader::peek`] has seen.
    #[inline]
    pub(crate) fn enter(&mut self) -> ReaderPosition {
        self.at += 1;
        ReaderPosition::First
    }

    /// The next name of an object, or `None` at its end.
    pub(crate) fn member(&mut self, place: &mut ReaderPosition) -> Result<Option<Cow<'b, str>>, Refusal> {
        if !self.goes_on(place, b'}')? {
            return Ok(None);
        }
        if self.peek() != Kind::Text {
            return Err(self.invalid("a field's name in double quotes should be here"));
        }
        let name = self.string()?;
        self.skip_space();
        if self.byte() != Some(b':') {
            return Err(self.invalid("a `:` should be here"));
        }
        self.at += 1;
        Ok(Some(name))
    }

    /// Whether a list has another element.
    pub(crate) fn element(&mut self, place: &mut ReaderPosition) -> Result<bool, Refusal> {
        self.goes_on(place, b']')
    }

    fn goes_on(&mut self, place: &mut ReaderPosition, close: u8) -> Result<bool, Refusal> {
        self.skip_space();
        let byte = self.byte();
        if byte == Some(close) {
            self.at += 1;
            return Ok(false);
        }
        match (std::mem::replace(place, ReaderPosition::Later), byte) {
            (ReaderPosition::First, _) => Ok(true),
            (ReaderPosition::Later, Some(b',')) => {
                self.at += 1;
                Ok(true)
            }
            (ReaderPosition::Later, _) => {
                Err(self.invalid(&format!("a `,` or a `{}` should be here", char::from(close))))
            }
        }
    }

    /// A string that [`Reader::peek`] has seen.
    #[inline]
    pub(crate) fn string(&mut self) -> Result<Cow<'b, str>, Refusal> {
        match text::take(&self.body[self.at + 1..]) {
            Ok((string, taken)) => {
                self.at += 1 + taken;
                Ok(string)
            }
            Err((problem, after)) => {
                self.at += 1 + after;
                Err(self.invalid(problem))
            }
        }
    }

    /// The letters, digits and signs that come next: a number, `true`, `null`, or what stands in their place.
    #[inline]
    pub(crate) fn word(&mut self) -> &'b str {
        let rest = &self.body[self.at..];
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.' | b'_');
        let word = &rest[..rest.bytes().take_while(is_part).count()];
        self.at += word.len();
        word
    }

    /// Nothing may follow the body's one value.
    pub(crate) fn finish(mut self) -> Result<(), Refusal> {
        match self.peek() {
            Kind::End => Ok(()),
            _ => Err(self.invalid("the body should end here")),
        }
    }

    pub(crate) fn invalid(&self, problem: &str) -> Refusal {
        let before = &self.body[..self.at.min(self.body.len())];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
        let next: String = self.body[before.len()..].chars().take(12).collect();
        let found = if next.is_empty() { "the end".to_owned() } else { format!("`{}`", excerpt(&next)) };
        let message =
            format!("the body is not valid JSON at line {line}, column {column}: {problem}, not {found}");
        Refusal::new(Code::InvalidJson, message, "correct it there; `jq .` shows the same place")
    }

    #[inline]
    fn byte(&self) -> Option<u8> {
        self.body.as_bytes().get(self.at).copied()
    }

    #[inline]
    fn skip_space(&mut self) {
        while matches!(self.byte(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }
}
