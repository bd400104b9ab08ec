//! What a Redis server answers, as RESP2 says it on the wire.
//!
//! Parses from bytes alone; sockets are in `client.rs`.

use std::io;

/// Deeper than any reply that we know; a bound, since garbage is parsed too.
const DEPTH_MAX: usize = 8;

/// A RESP2 value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RespValue {
    Simple(String),
    Error(String),
    Integer(i64),
    /// `None` for nothing, also where the wire has an array that is nothing.
    Bulk(Option<Vec<u8>>),
    Array(Vec<RespValue>),
}

impl RespValue {
    pub fn is_error(&self) -> bool {
        matches!(self, RespValue::Error(_))
    }

    /// The text of everything that has one.
    pub fn text(&self) -> Option<String> {
        match self {
            RespValue::Simple(text) | RespValue::Error(text) => Some(text.clone()),
            RespValue::Bulk(Some(bytes)) => Some(String::from_utf8_lossy(bytes).into_owned()),
            RespValue::Integer(_) | RespValue::Bulk(None) | RespValue::Array(_) => None,
        }
    }

    pub fn integer(&self) -> Option<i64> {
        if let RespValue::Integer(number) = self { Some(*number) } else { None }
    }

    /// The elements of an array; none of anything else.
    pub fn items(&self) -> &[RespValue] {
        if let RespValue::Array(items) = self { items } else { &[] }
    }

    /// The first reply in `bytes` and its length; `None` while it isn't complete.
    pub(crate) fn parse(bytes: &[u8]) -> io::Result<Option<(RespValue, usize)>> {
        let mut input = Input { bytes, at: 0 };
        Ok(input.reply(DEPTH_MAX)?.map(|reply| (reply, input.at)))
    }
}

/// A command as clients send it.
pub(crate) fn encode<A: AsRef<[u8]>>(arguments: &[A]) -> Vec<u8> {
    let mut request = format!("*{}\r\n", arguments.len()).into_bytes();
    for argument in arguments.iter().map(AsRef::as_ref) {
        request.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
        request.extend_from_slice(argument);
        request.extend_from_slice(b"\r\n");
    }
    request
}

struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Input<'a> {
    fn reply(&mut self, depth: usize) -> io::Result<Option<RespValue>> {
        let Some(line) = self.line() else { return Ok(None) };
        let (Some(kind), rest) = (line.chars().next(), line.get(1..).unwrap_or_default()) else {
            return Err(malformed(&line));
        };
        let number = || rest.parse::<i64>().map_err(|_| malformed(&line));
        match kind {
            '+' => Ok(Some(RespValue::Simple(rest.to_owned()))),
            '-' => Ok(Some(RespValue::Error(rest.to_owned()))),
            ':' => Ok(Some(RespValue::Integer(number()?))),
            '$' | '*' if number()? == -1 => Ok(Some(RespValue::Bulk(None))),
            '$' => Ok(self.bulk(usize::try_from(number()?).map_err(|_| malformed(&line))?)),
            '*' if depth > 0 => self.array(usize::try_from(number()?).map_err(|_| malformed(&line))?, depth),
            _ => Err(malformed(&line)),
        }
    }

    fn line(&mut self) -> Option<String> {
        let rest = &self.bytes[self.at..];
        let length = rest.windows(2).position(|pair| pair == b"\r\n")?;
        self.at += length + 2;
        Some(String::from_utf8_lossy(&rest[..length]).into_owned())
    }

    fn bulk(&mut self, length: usize) -> Option<RespValue> {
        let end = self.at.checked_add(length)?;
        let bytes: &'a [u8] = self.bytes.get(self.at..end)?;
        self.bytes.get(end..end.checked_add(2)?)?;
        self.at = end + 2;
        Some(RespValue::Bulk(Some(bytes.to_vec())))
    }

    fn array(&mut self, length: usize, depth: usize) -> io::Result<Option<RespValue>> {
        let mut items = Vec::new();
        for _ in 0..length {
            let Some(item) = self.reply(depth - 1)? else { return Ok(None) };
            items.push(item);
        }
        Ok(Some(RespValue::Array(items)))
    }
}

fn malformed(line: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not RESP: {line:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_read_from_the_wire() {
        let wire = b"*5\r\n+OK\r\n-ERR no\r\n:-7\r\n$3\r\na\r\n\r\n$-1\r\nrest";
        let expected = RespValue::Array(vec![
            RespValue::Simple("OK".into()),
            RespValue::Error("ERR no".into()),
            RespValue::Integer(-7),
            RespValue::Bulk(Some(b"a\r\n".to_vec())),
            RespValue::Bulk(None),
        ]);
        assert_eq!(RespValue::parse(wire).unwrap(), Some((expected, wire.len() - 4)));
    }

    #[test]
    fn a_reply_is_waited_for_until_it_is_complete() {
        let wire = b"*2\r\n$2\r\nab\r\n:1\r\n";
        for length in 0..wire.len() {
            assert_eq!(RespValue::parse(&wire[..length]).unwrap(), None, "{length}");
        }
        assert!(RespValue::parse(wire).unwrap().is_some());
    }

    #[test]
    fn garbage_is_an_error() {
        assert!(RespValue::parse(b"?\r\n").is_err());
        assert!(RespValue::parse(b"\r\n").is_err());
        assert!(RespValue::parse(b"$-2\r\n").is_err());
        assert!(RespValue::parse("*1\r\n".repeat(DEPTH_MAX + 2).as_bytes()).is_err());
    }

    #[test]
    fn commands_are_written_with_their_lengths() {
        assert_eq!(encode(&["GET", "a b"]), b"*2\r\n$3\r\nGET\r\n$3\r\na b\r\n");
    }
}
