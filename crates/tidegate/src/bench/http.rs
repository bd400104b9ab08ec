//! Answers of HTTP/1.1: where one ends, and what it says.

use super::answer::{ANSWER_BYTES_MAX, Broken, Outcome};

/// The longest head that is looked at.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// The answer that `input` begins with and its length; `None` when it isn't whole.
pub(crate) fn next(input: &[u8]) -> Result<Option<(usize, Outcome)>, Broken> {
    let Some(head_length) = head_length(input) else {
        return if input.len() > HEAD_BYTES_MAX { Err(Broken) } else { Ok(None) };
    };
    let (head, rest) = input.split_at(head_length);
    let status = status(head)?;
    let Some((body, length)) = body(head, rest, status)? else { return Ok(None) };
    Ok(Some((head_length + length, outcome(status, body))))
}

fn head_length(input: &[u8]) -> Option<usize> {
    input.windows(4).position(|window| window == b"\r\n\r\n").map(|position| position + 4)
}

fn status(head: &[u8]) -> Result<u16, Broken> {
    match *head {
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', _, b' ', a, b, c, ..]
            if [a, b, c].iter().all(u8::is_ascii_digit) =>
        {
            Ok([a, b, c].iter().fold(0, |number, digit| number * 10 + u16::from(digit - b'0')))
        }
        _ => Err(Broken),
    }
}

/// The body as it came, and how many bytes it takes.
fn body<'i>(head: &[u8], rest: &'i [u8], status: u16) -> Result<Option<(&'i [u8], usize)>, Broken> {
    if matches!(status, 100..200 | 204 | 304) {
        return Ok(Some((&[], 0)));
    }
    if let Some(length) = header(head, b"content-length") {
        let text = std::str::from_utf8(length).map_err(|_| Broken)?;
        let length = text.trim().parse().map_err(|_| Broken)?;
        return if length > ANSWER_BYTES_MAX {
            Err(Broken)
        } else {
            Ok(rest.get(..length).map(|body| (body, length)))
        };
    }
    match header(head, b"transfer-encoding") {
        Some(value) if value.trim_ascii().eq_ignore_ascii_case(b"chunked") => chunks(rest),
        // It ends with the connection, and so does a run on it.
        _ => Err(Broken),
    }
}

fn header<'h>(head: &'h [u8], name: &[u8]) -> Option<&'h [u8]> {
    head.split(|byte| *byte == b'\n').skip(1).find_map(|line| {
        let (found, value) = line.split_at_checked(name.len())?;
        let value = value.strip_prefix(b":")?;
        found.eq_ignore_ascii_case(name).then_some(value)
    })
}

/// The first chunk stands for the body.
fn chunks(rest: &[u8]) -> Result<Option<(&[u8], usize)>, Broken> {
    let (mut at, mut first) = (0, None);
    loop {
        let Some(line) = rest[at..].windows(2).position(|window| window == b"\r\n") else {
            return if rest.len() - at > 1024 { Err(Broken) } else { Ok(None) };
        };
        let size = std::str::from_utf8(&rest[at..at + line]).map_err(|_| Broken)?;
        let size = size.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16).map_err(|_| Broken)?;
        let start = at + line + 2;
        if size > ANSWER_BYTES_MAX {
            return Err(Broken);
        }
        let Some(chunk) = rest.get(start..start + size) else { return Ok(None) };
        first = first.or(Some(chunk));
        at = start + size + 2;
        match rest.get(start + size..at) {
            None => return Ok(None),
            Some(b"\r\n") => {}
            Some(_) => return Err(Broken),
        }
        if size == 0 {
            return Ok(Some((first.unwrap_or_default(), at)));
        }
    }
}

fn outcome(status: u16, body: &[u8]) -> Outcome {
    match status {
        200..300 if is_denial(body) => Outcome::Denied,
        200..300 => Outcome::Allowed,
        429 => Outcome::Denied,
        _ => Outcome::Refused,
    }
}

/// As a node, throttlecrab and Unkey's API say it; near the beginning, so that a long body isn't searched.
fn is_denial(body: &[u8]) -> bool {
    const SAID: [&[u8]; 2] = [b"\"allowed\":false", b"\"success\":false"];
    if body.starts_with(b"{\"allowed\":true") {
        return false;
    }
    let looked_at = &body[..body.len().min(256)];
    SAID.iter().any(|said| looked_at.windows(said.len()).any(|window| window == *said))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(text: &str) -> Result<Option<(usize, Outcome)>, Broken> {
        for length in 0..text.len() {
            assert!(matches!(next(&text.as_bytes()[..length]), Ok(None)), "{length} of {text:?}");
        }
        let followed = format!("{text}HTTP/1.1 2");
        next(followed.as_bytes())
            .inspect(|found| assert_eq!(found.map(|(length, _)| length), Some(text.len())))
    }

    #[test]
    fn answers_end_where_they_say_and_are_understood() {
        let cases = [
            ("HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\n{\"allowed\":true}", Outcome::Allowed),
            ("HTTP/1.1 200 OK\r\nx: 1\r\ncontent-length:17\r\n\r\n{\"allowed\":false}", Outcome::Denied),
            ("HTTP/1.1 204 No Content\r\n\r\n", Outcome::Allowed),
            ("HTTP/1.1 429 Too Many Requests\r\ncontent-length: 0\r\n\r\n", Outcome::Denied),
            ("HTTP/1.1 503 x\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", Outcome::Refused),
        ];
        for (text, wanted) in cases {
            assert_eq!(
                whole(text).map(|found| found.map(|(_, outcome)| outcome)),
                Ok(Some(wanted)),
                "{text}"
            );
        }
    }

    #[test]
    fn what_isnt_http_is_broken() {
        for text in [
            "SSH-2.0-OpenSSH\r\n\r\n",
            "HTTP/1.1 2x0 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\nuntil the end",
            "HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        ] {
            assert_eq!(next(text.as_bytes()), Err(Broken), "{text}");
        }
    }
}
