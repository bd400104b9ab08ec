//! Answers out of a stream of bytes, however it was cut.
//!
//! An answer is first measured, each byte once, and read when its last one is there. What is too long, too deep
//! or no answer at all ends the connection: whoever speaks like that isn't a server of ours.

use super::{ServerError, Value};

/// What one answer may hold. The longest that we ask for is the layout of a cluster.
pub(crate) const ANSWER_BYTES_MAX: usize = 16 << 20;
const LINE_BYTES_MAX: usize = 64 << 10;
const ITEMS_MAX: usize = 1 << 20;
const DEPTH_MAX: usize = 16;

#[derive(Debug, Default)]
pub(crate) struct Answers {
    bytes: Vec<u8>,
    /// Where the first answer begins that wasn't taken.
    start: usize,
    /// How far it was measured.
    measured: usize,
    /// How many values it still lacks, 0 before its first byte was looked at.
    lacking: usize,
}

impl Answers {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if self.start == self.bytes.len() {
            self.bytes.clear();
            (self.start, self.measured) = (0, 0);
        } else if self.start > self.bytes.len() / 2 {
            self.bytes.drain(..self.start);
            self.measured -= self.start;
            self.start = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// The next answer, if all of it has come; what is wrong with it, if that can be told already.
    pub(crate) fn next(&mut self) -> Result<Option<Value>, String> {
        if self.lacking == 0 {
            self.lacking = 1;
        }
        while self.lacking > 0 {
            if self.measured - self.start > ANSWER_BYTES_MAX {
                return Err("an answer without end".to_owned());
            }
            if !self.measure()? {
                return Ok(None);
            }
        }
        let mut reader = Reader { bytes: &self.bytes[self.start..self.measured], at: 0 };
        let value = reader.value(0)?;
        self.start = self.measured;
        Ok(Some(value))
    }

    /// One value further, without the items of an array. Says whether it was there.
    fn measure(&mut self) -> Result<bool, String> {
        let Some((line, after)) = line_at(&self.bytes, self.measured)? else { return Ok(false) };
        let (kind, rest) = line.split_first().ok_or("an empty line")?;
        match kind {
            b'+' | b'-' | b':' => {}
            b'$' => {
                if let Some(length) = length(rest, ANSWER_BYTES_MAX)? {
                    let end = after + length + 2;
                    if self.bytes.len() < end {
                        return Ok(false);
                    }
                    self.measured = end;
                    self.lacking -= 1;
                    return Ok(true);
                }
            }
            b'*' => self.lacking += length(rest, ITEMS_MAX)?.unwrap_or(0),
            _ => return Err(nonsense(line)),
        }
        if self.lacking > ITEMS_MAX {
            return Err("an answer of too many items".to_owned());
        }
        self.measured = after;
        self.lacking -= 1;
        Ok(true)
    }
}

/// A line without its end, and where the next begins.
fn line_at(bytes: &[u8], start: usize) -> Result<Option<(&[u8], usize)>, String> {
    let rest = &bytes[start..];
    match rest.iter().take(LINE_BYTES_MAX).position(|byte| *byte == b'\n') {
        Some(end) if end > 0 && rest[end - 1] == b'\r' => Ok(Some((&rest[..end - 1], start + end + 1))),
        Some(end) => Err(nonsense(&rest[..end])),
        None if rest.len() >= LINE_BYTES_MAX => Err("a line without end".to_owned()),
        None => Ok(None),
    }
}

/// −1 stands for nothing.
fn length(digits: &[u8], max: usize) -> Result<Option<usize>, String> {
    match integer(digits)? {
        -1 => Ok(None),
        length => match usize::try_from(length) {
            Ok(length) if length <= max => Ok(Some(length)),
            _ => Err(format!("a length of {length}")),
        },
    }
}

fn integer(text: &[u8]) -> Result<i64, String> {
    let (is_negative, digits) = text.strip_prefix(b"-").map_or((false, text), |digits| (true, digits));
    // Downwards: there is one more number below 0 than above it.
    let below = digits.iter().try_fold(0_i64, |number, byte| {
        let digit = byte.wrapping_sub(b'0');
        (digit <= 9).then(|| number.checked_mul(10)?.checked_sub(i64::from(digit))).flatten()
    });
    let number = below.filter(|_| !digits.is_empty());
    let number = number.and_then(|below| if is_negative { Some(below) } else { below.checked_neg() });
    number.ok_or_else(|| nonsense(text))
}

fn nonsense(bytes: &[u8]) -> String {
    let shown: String = String::from_utf8_lossy(bytes).chars().take(80).collect();
    format!("no answer of a Redis server: {shown:?}")
}

/// Reads what was measured.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn value(&mut self, depth: usize) -> Result<Value, String> {
        let (line, after) = line_at(self.bytes, self.at)?.ok_or("an answer that ends too early")?;
        let (kind, rest) = line.split_first().ok_or("an empty line")?;
        self.at = after;
        let text = || String::from_utf8_lossy(rest).into_owned();
        Ok(match kind {
            b':' => Value::Int(integer(rest)?),
            b'$' => match length(rest, ANSWER_BYTES_MAX)? {
                None => Value::Nil,
                Some(length) => {
                    let text = self.bytes.get(after..after + length).ok_or("a text that ends too early")?;
                    self.at = after + length + 2;
                    Value::BulkString(text.to_vec())
                }
            },
            b'*' if depth >= DEPTH_MAX => return Err("an answer that is nested too deeply".to_owned()),
            b'*' => match length(rest, ITEMS_MAX)? {
                None => Value::Nil,
                Some(count) => {
                    // Every item takes some bytes: a count alone reserves nothing.
                    let mut items = Vec::with_capacity(count.min(self.bytes.len() - after));
                    for _ in 0..count {
                        items.push(self.value(depth + 1)?);
                    }
                    Value::Array(items)
                }
            },
            b'-' => Value::ServerError(ServerError::new(text())),
            _ => Value::SimpleString(text()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &[u8] =
        b"*3\r\n:-7\r\n$2\r\nhi\r\n*2\r\n$-1\r\n+OK\r\n-MOVED 1 h:2\r\n$0\r\n\r\n*0\r\n*-1\r\n:9\r\n";

    fn sample() -> Vec<Value> {
        let ok = || Value::SimpleString("OK".to_owned());
        vec![
            Value::Array(vec![
                Value::Int(-7),
                Value::BulkString(b"hi".to_vec()),
                Value::Array(vec![Value::Nil, ok()]),
            ]),
            Value::ServerError(ServerError::new("MOVED 1 h:2".to_owned())),
            Value::BulkString(Vec::new()),
            Value::Array(Vec::new()),
            Value::Nil,
            Value::Int(9),
        ]
    }

    fn read(chunks: impl Iterator<Item = Vec<u8>>) -> Result<Vec<Value>, String> {
        let (mut answers, mut read) = (Answers::default(), Vec::new());
        for chunk in chunks {
            answers.push(&chunk);
            while let Some(value) = answers.next()? {
                read.push(value);
            }
        }
        Ok(read)
    }

    #[test]
    fn answers_are_the_same_however_they_are_cut() {
        for size in 1..=SAMPLE.len() {
            assert_eq!(read(SAMPLE.chunks(size).map(<[u8]>::to_vec)).unwrap(), sample(), "{size}");
        }
    }

    #[test]
    fn what_is_no_answer_is_said_at_once() {
        let deep = b"*1\r\n".repeat(DEPTH_MAX + 1);
        let deep = [&deep[..], b":1\r\n"].concat();
        let long = [b"+", &vec![b'x'; LINE_BYTES_MAX][..]].concat();
        let wrong: [&[u8]; 12] = [
            b"HTTP/1.1 400 Bad Request\r\n",
            b"\r\n",
            b"x\n",
            b":\r\n",
            b":1x\r\n",
            b":9223372036854775808\r\n",
            b"$-2\r\n",
            b"$99999999999\r\n",
            b"*-5\r\n",
            b"*2000000\r\n",
            &deep,
            &long,
        ];
        for bytes in wrong {
            assert!(read([bytes.to_vec()].into_iter()).is_err(), "{:?}", String::from_utf8_lossy(bytes));
        }
        let crowds = b"*1000000\r\n".repeat(2);
        assert!(read([crowds].into_iter()).is_err());
    }

    #[test]
    fn an_integer_is_all_digits_and_within_64_bits() {
        for number in [0, 1, -1, 42, i64::MAX, i64::MIN] {
            assert_eq!(integer(number.to_string().as_bytes()), Ok(number));
        }
        for text in ["", "-", "+1", "1 ", "--1", "0x1", "9223372036854775808", "-9223372036854775809"] {
            assert!(integer(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn noise_never_panics() {
        let alphabet = b"*$:+-0123456789\r\n\r\n\r\nx";
        let mut state = 1_u64;
        for _ in 0..20_000 {
            let noise: Vec<u8> = (0..24)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    alphabet[usize::try_from(state >> 33).unwrap() % alphabet.len()]
                })
                .collect();
            let _ = read(noise.chunks(5).map(<[u8]>::to_vec));
        }
    }
}
