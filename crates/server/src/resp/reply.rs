//! Replies, as RESP2 and RESP3 write them, into a buffer that the caller owns.
//!
//! A reply is always whole, and an error always one line, whatever it quotes.

/// Which protocol a client has asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Version {
    #[default]
    Resp2,
    Resp3,
}

impl Version {
    pub(crate) const fn number(self) -> i64 {
        match self {
            Version::Resp2 => 2,
            Version::Resp3 => 3,
        }
    }
}

/// 2^63 has 19 digits; one more for the sign.
const INTEGER_BYTES_MAX: usize = 20;
/// `*5`, and five times a colon, an integer and the end of the line.
const FIVE_BYTES_MAX: usize = 4 + 5 * (INTEGER_BYTES_MAX + 3);

/// One line; what it says is ours.
pub(crate) fn simple(out: &mut Vec<u8>, text: &str) {
    line(out, b'+', text.as_bytes());
}

/// An error begins with a word in capitals, as `ERR`. What it quotes may hold anything.
#[cold]
pub(crate) fn error(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'-');
    out.extend(text.iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }));
    out.extend_from_slice(b"\r\n");
}

pub(crate) fn integer(out: &mut Vec<u8>, value: i64) {
    header(out, b':', value);
}

pub(crate) fn bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    count(out, b'$', bytes.len());
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

pub(crate) fn null(out: &mut Vec<u8>, version: Version) {
    out.extend_from_slice(match version {
        Version::Resp2 => b"$-1\r\n",
        Version::Resp3 => b"_\r\n",
    });
}

/// The beginning of an array; its items follow.
pub(crate) fn array(out: &mut Vec<u8>, items: usize) {
    count(out, b'*', items);
}

/// The beginning of a map; a key and a value follow for each pair. RESP2 has arrays instead.
pub(crate) fn map(out: &mut Vec<u8>, version: Version, pairs: usize) {
    match version {
        Version::Resp2 => count(out, b'*', 2 * pairs),
        Version::Resp3 => count(out, b'%', pairs),
    }
}

/// An array of five integers: what a limiter answers. Put together on the stack and copied once.
#[inline]
pub(crate) fn five(out: &mut Vec<u8>, values: [i64; 5]) {
    let mut text = [0; FIVE_BYTES_MAX];
    text[..4].copy_from_slice(b"*5\r\n");
    let mut end = 4;
    for value in values {
        text[end] = b':';
        end += 1;
        end += write_integer(&mut text[end..], value);
        text[end..end + 2].copy_from_slice(b"\r\n");
        end += 2;
    }
    out.extend_from_slice(&text[..end]);
}

/// Writes a number to the front of `text`; says how many bytes it took. Nearly all have one digit or two, or
/// are -1.
#[inline]
fn write_integer(text: &mut [u8], value: i64) -> usize {
    match (text, u8::try_from(value)) {
        ([ones, ..], Ok(value @ 0..10)) => {
            *ones = b'0' + value;
            1
        }
        ([tens, ones, ..], Ok(value @ 10..100)) => {
            (*tens, *ones) = (b'0' + value / 10, b'0' + value % 10);
            2
        }
        ([sign, one, ..], Err(_)) if value == -1 => {
            (*sign, *one) = (b'-', b'1');
            2
        }
        (text, _) => write_any_integer(text, value),
    }
}

fn write_any_integer(text: &mut [u8], value: i64) -> usize {
    let mut magnitude = value.unsigned_abs();
    let mut digits = [0; INTEGER_BYTES_MAX];
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = digit(magnitude % 10);
        magnitude /= 10;
        if magnitude == 0 {
            break;
        }
    }
    if value < 0 {
        start -= 1;
        digits[start] = b'-';
    }
    let length = digits.len() - start;
    text[..length].copy_from_slice(&digits[start..]);
    length
}

fn digit(below_ten: u64) -> u8 {
    b'0' + u8::try_from(below_ten).unwrap_or(0)
}

fn count(out: &mut Vec<u8>, kind: u8, count: usize) {
    header(out, kind, i64::try_from(count).unwrap_or(i64::MAX));
}

fn header(out: &mut Vec<u8>, kind: u8, value: i64) {
    let mut text = [0; INTEGER_BYTES_MAX];
    let length = write_integer(&mut text, value);
    line(out, kind, &text[..length]);
}

fn line(out: &mut Vec<u8>, kind: u8, text: &[u8]) {
    out.push(kind);
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn replies_are_written_as_each_protocol_has_them() {
        assert_eq!(written(|out| simple(out, "OK")), "+OK\r\n");
        assert_eq!(written(|out| error(out, b"ERR a\r\nb")), "-ERR a  b\r\n");
        assert_eq!(written(|out| bulk(out, b"a\r\n")), "$3\r\na\r\n\r\n");
        assert_eq!(written(|out| null(out, Version::Resp2)), "$-1\r\n");
        assert_eq!(written(|out| null(out, Version::Resp3)), "_\r\n");
        assert_eq!(written(|out| map(out, Version::Resp2, 7)), "*14\r\n");
        assert_eq!(written(|out| map(out, Version::Resp3, 7)), "%7\r\n");
        assert_eq!(written(|out| array(out, 0)), "*0\r\n");
    }

    proptest! {
        #[test]
        fn integers_are_written_as_the_standard_library_does(values in any::<[i64; 5]>(), small in -99_i64..99) {
            let mut values = values;
            values[2] = small;
            let expected: String = values.iter().map(|value| format!(":{value}\r\n")).collect();
            prop_assert_eq!(written(|out| five(out, values)), format!("*5\r\n{expected}"));
            prop_assert_eq!(written(|out| integer(out, values[0])), format!(":{}\r\n", values[0]));
        }

        #[test]
        fn an_error_is_one_line(text in any::<Vec<u8>>()) {
            let mut out = Vec::new();
            error(&mut out, &text);
            prop_assert_eq!(out.iter().filter(|byte| **byte == b'\n').count(), 1);
        }
    }
}
