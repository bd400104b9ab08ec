//! Replies of the Redis protocol: where one ends, and what it says.

use super::answer::{ANSWER_BYTES_MAX, Broken, Outcome};

/// The longest line of a number or a length.
const LINE_BYTES_MAX: usize = 1 << 10;
/// Arrays within arrays.
const DEPTH_MAX: u32 = 4;
const ITEMS_MAX: i64 = 1 << 16;

/// The reply that `input` begins with and its length; `None` when it isn't whole.
pub(crate) fn next(input: &[u8]) -> Result<Option<(usize, Outcome)>, Broken> {
    let Some(length) = length(input, DEPTH_MAX)? else { return Ok(None) };
    Ok(Some((length, outcome(&input[..length]))))
}

fn outcome(reply: &[u8]) -> Outcome {
    match reply {
        [b'-' | b'!', ..] => Outcome::Refused,
        // `CL.THROTTLE`: limited or not comes first.
        [b'*', b'5', b'\r', b'\n', b':', b'1', b'\r', ..] => Outcome::Denied,
        _ => Outcome::Allowed,
    }
}

fn length(input: &[u8], depth: u32) -> Result<Option<usize>, Broken> {
    let Some(kind) = input.first() else { return Ok(None) };
    let Some(line) = input.iter().take(LINE_BYTES_MAX).position(|byte| *byte == b'\n') else {
        return if input.len() >= LINE_BYTES_MAX { Err(Broken) } else { Ok(None) };
    };
    let head = line + 1;
    match kind {
        b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(' => Ok(Some(head)),
        b'$' | b'=' | b'!' => match usize::try_from(number(&input[1..head])?) {
            Err(_) => Ok(Some(head)),
            Ok(bytes) if bytes > ANSWER_BYTES_MAX => Err(Broken),
            Ok(bytes) => Ok((input.len() >= head + bytes + 2).then_some(head + bytes + 2)),
        },
        b'*' | b'~' | b'>' => items(input, head, number(&input[1..head])?, depth),
        b'%' => items(input, head, number(&input[1..head])? * 2, depth),
        _ => Err(Broken),
    }
}

fn items(input: &[u8], head: usize, count: i64, depth: u32) -> Result<Option<usize>, Broken> {
    if depth == 0 || count > ITEMS_MAX {
        return Err(Broken);
    }
    let mut at = head;
    for _ in 0..count {
        match length(&input[at..], depth - 1)? {
            Some(length) => at += length,
            None => return Ok(None),
        }
    }
    Ok(Some(at))
}

/// A line's number; small ones only.
#[inline]
fn number(line: &[u8]) -> Result<i64, Broken> {
    if let [digit @ b'0'..=b'9', b'\r', b'\n'] = *line {
        return Ok(i64::from(digit - b'0'));
    }
    let text = std::str::from_utf8(line).map_err(|_| Broken)?;
    let number: i32 = text.trim_end().parse().map_err(|_| Broken)?;
    Ok(i64::from(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_end_where_they_say_and_are_understood() {
        let cases = [
            ("+PONG\r\n", Outcome::Allowed),
            (":12\r\n", Outcome::Allowed),
            ("$-1\r\n", Outcome::Allowed),
            ("$3\r\na\r\n\r\n", Outcome::Allowed),
            ("-ERR unknown\r\n", Outcome::Refused),
            ("*5\r\n:0\r\n:100\r\n:99\r\n:-1\r\n:1\r\n", Outcome::Allowed),
            ("*5\r\n:1\r\n:100\r\n:0\r\n:12\r\n:60\r\n", Outcome::Denied),
            ("%1\r\n+a\r\n*1\r\n:1\r\n", Outcome::Allowed),
        ];
        for (text, wanted) in cases {
            for length in 0..text.len() {
                assert_eq!(next(&text.as_bytes()[..length]), Ok(None), "{length} of {text:?}");
            }
            let followed = format!("{text}*5");
            assert_eq!(next(followed.as_bytes()), Ok(Some((text.len(), wanted))), "{text}");
        }
    }

    #[test]
    fn what_isnt_a_reply_is_broken() {
        for text in ["HTTP/1.1 400\r\n", "$99999999\r\n", "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n", "$x\r\n"] {
            assert_eq!(next(text.as_bytes()), Err(Broken), "{text}");
        }
    }
}
