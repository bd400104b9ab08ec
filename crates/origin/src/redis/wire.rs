//! The protocol between this node and a server: commands out, answers in.
//!
//! Pure conversion, made for many small calls: a command is written once, into the bytes that leave, and an
//! answer is looked at when all of it is there. Nothing that a server sends may panic here, or grow without end.

mod answers;

#[cfg(test)]
pub(crate) use answers::ANSWER_BYTES_MAX;
pub(crate) use answers::Answers;

use std::fmt::{self, Write as _};

/// What is around a text of a common length: its kind, its length, and two ends of lines.
const FRAME_BYTES: usize = 10;

/// Commands that leave together.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct Commands {
    bytes: Vec<u8>,
    count: usize,
}

/// Arguments of a command, in the form in which they leave.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct Arguments {
    bytes: Vec<u8>,
    count: usize,
    scratch: String,
}

/// What a server answers to one command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Value {
    Nil,
    Int(i64),
    BulkString(Vec<u8>),
    SimpleString(String),
    Array(Vec<Value>),
    ServerError(ServerError),
}

/// An error as the server worded it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ServerError(String);

impl ServerError {
    pub(crate) fn new(line: String) -> Self {
        ServerError(line)
    }

    /// The first word, such as `MOVED`.
    pub(crate) fn code(&self) -> &str {
        self.0.split(' ').next().unwrap_or("")
    }

    /// What comes after it.
    pub(crate) fn details(&self) -> &str {
        self.0.split_once(' ').map_or("", |(_, details)| details)
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl Commands {
    pub(crate) fn add(&mut self, words: &[&str]) {
        self.add_with(words, &[]);
    }

    /// Some words, then arguments that were written before.
    pub(crate) fn add_with(&mut self, words: &[&str], more: &[&Arguments]) {
        let count = words.len() + more.iter().map(|arguments| arguments.count).sum::<usize>();
        let words_bytes: usize = words.iter().map(|word| word.len() + FRAME_BYTES).sum();
        let more_bytes: usize = more.iter().map(|arguments| arguments.bytes.len()).sum();
        self.bytes.reserve(FRAME_BYTES + words_bytes + more_bytes);
        self.bytes.push(b'*');
        number(&mut self.bytes, count as u64);
        self.bytes.extend_from_slice(b"\r\n");
        words.iter().for_each(|word| bulk(&mut self.bytes, word.as_bytes()));
        more.iter().for_each(|arguments| self.bytes.extend_from_slice(&arguments.bytes));
        self.count += 1;
    }

    /// How many answers will come.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Arguments {
    /// With room for so many bytes: what grows by and by is copied as often.
    pub(crate) fn with_room(bytes: usize) -> Self {
        Arguments { bytes: Vec::with_capacity(bytes), ..Arguments::default() }
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.count += 1;
        bulk(&mut self.bytes, text.as_bytes());
    }

    pub(crate) fn number(&mut self, value: u64) {
        let mut digits = [0; 20];
        let digits = decimal(&mut digits, value);
        self.count += 1;
        bulk(&mut self.bytes, digits);
    }

    /// One text of several parts.
    pub(crate) fn joined(&mut self, parts: &[&[u8]]) {
        self.count += 1;
        self.bytes.push(b'$');
        number(&mut self.bytes, parts.iter().map(|part| part.len()).sum::<usize>() as u64);
        self.bytes.extend_from_slice(b"\r\n");
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
        self.bytes.extend_from_slice(b"\r\n");
    }

    pub(crate) fn write(&mut self, text: fmt::Arguments<'_>) {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        // Writing to a string never fails.
        let _ = scratch.write_fmt(text);
        self.text(&scratch);
        self.scratch = scratch;
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    #[cfg(test)]
    pub(crate) fn texts(&self) -> Vec<String> {
        let mut framed = format!("*{}\r\n", self.count).into_bytes();
        framed.extend_from_slice(&self.bytes);
        let mut answers = Answers::default();
        answers.push(&framed);
        let Ok(Some(Value::Array(values))) = answers.next() else { panic!("no arguments: {framed:?}") };
        let text = |value| match value {
            Value::BulkString(text) => String::from_utf8(text).unwrap(),
            other => panic!("{other:?}"),
        };
        values.into_iter().map(text).collect()
    }
}

fn bulk(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'$');
    number(out, text.len() as u64);
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

fn number(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(decimal(&mut [0; 20], value));
}

pub(crate) fn decimal(digits: &mut [u8; 20], mut value: u64) -> &[u8] {
    let mut start = digits.len();
    loop {
        start -= 1;
        // A digit fits.
        digits[start] = b'0' + u8::try_from(value % 10).unwrap_or(0);
        value /= 10;
        if value == 0 {
            return &digits[start..];
        }
    }
}

/// Fills `digits` with the last ones of a number, in hexadecimal.
pub(crate) fn hexadecimal(digits: &mut [u8], mut value: u128) {
    for digit in digits.iter_mut().rev() {
        // A digit fits.
        *digit = b"0123456789abcdef"[usize::try_from(value & 15).unwrap_or(0)];
        value >>= 4;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_arrays_of_bulk_strings() {
        let mut arguments = Arguments::default();
        arguments.number(0);
        arguments.number(u64::MAX);
        arguments.write(format_args!("{:02x}", 5));
        arguments.text("");
        let mut digits = [0; 3];
        hexadecimal(&mut digits, 0xf_0c5);
        arguments.joined(&[b"a:", &digits, b""]);
        let mut commands = Commands::default();
        commands.add(&["PING"]);
        commands.add_with(&["EVALSHA", "h"], &[&arguments]);
        let text = std::str::from_utf8(commands.bytes()).unwrap();
        assert_eq!(
            text,
            "*1\r\n$4\r\nPING\r\n*7\r\n$7\r\nEVALSHA\r\n$1\r\nh\r\n\
             $1\r\n0\r\n$20\r\n18446744073709551615\r\n$2\r\n05\r\n$0\r\n\r\n$5\r\na:0c5\r\n"
        );
        assert_eq!(commands.len(), 2);
        assert_eq!(arguments.texts(), ["0", "18446744073709551615", "05", "", "a:0c5"]);
    }

    #[test]
    fn an_error_has_a_code_and_details() {
        let moved = ServerError::new("MOVED 7 h:1".to_owned());
        assert_eq!((moved.code(), moved.details()), ("MOVED", "7 h:1"));
        let bare = ServerError::new("LOADING".to_owned());
        assert_eq!((bare.code(), bare.details()), ("LOADING", ""));
    }
}
