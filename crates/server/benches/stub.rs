//! The floor of a protocol here: reads and parses, on a thread per core as a node has, and answers every request
//! with the same. What a decision costs is the difference; no server can be faster by more than this.
//!
//! `stub resp|http PORT` listens on loopback until it is killed; without a port there is nothing to measure. Commands
//! of the Redis protocol are parsed by the node's own parser; of HTTP, only where a request ends is looked for.

/// The node's own parser; of its buffers only what that knows of them.
#[path = "../src/resp"]
#[allow(dead_code, reason = "its tests come with it")]
mod resp {
    pub(crate) mod inline;
    pub(crate) mod parse;
}
mod buffers {
    pub(crate) const INPUT_BYTES_MAX: usize = 128 << 10;
    pub(crate) const STEP_BYTES: usize = 16 << 10;
}

use resp::inline;
use resp::parse::{self, ParseResult, Words};
use std::io;
use std::thread;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;

const NUMBERS: &[u8] = b"*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n";
/// As long as a node's.
const DECISION: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 240\r\n\
    x-request-id: 0123456789abcdef0123456789abcdef\r\ndate: Sat, 15 Nov 2026 00:00:00 GMT\r\n\r\n\
    {\"allowed\":true,\"limits\":[{\"name\":\"\",\"identifier\":\"000000000001\",\"limit\":1000000,\"remaining\":999999,\
    \"reset_ms\":1763230020000,\"retry_after_ms\":0,\"allowed\":true,\"shadow\":false}],\"rule_version\":1,\
    \"request_id\":\"0123456789abcdef\",\"path\":\"local\"}";

/// How long the first request is, and what is answered; `None` when more of it must come.
type Parse = fn(&[u8]) -> Option<(usize, &'static [u8])>;

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let given = match arguments.as_slice() {
        [protocol, port] if protocol == "resp" => Some((command as Parse, port.parse::<u16>())),
        [protocol, port] if protocol == "http" => Some((request as Parse, port.parse::<u16>())),
        _ => None,
    };
    let Some((parse, Ok(port))) = given else {
        println!("stub resp|http PORT");
        return Ok(());
    };
    let listener = std::net::TcpListener::bind(("127.0.0.1", port))?;
    listener.set_nonblocking(true)?;
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let threads = (0..cores).map(|_| {
        let listener = listener.try_clone()?;
        Ok(thread::spawn(move || run(listener, parse)))
    });
    for thread in threads.collect::<io::Result<Vec<_>>>()? {
        thread.join().map_err(|_| io::Error::other("a thread panicked"))??;
    }
    Ok(())
}

fn run(listener: std::net::TcpListener, parse: Parse) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::from_std(listener)?;
        loop {
            let (stream, _) = listener.accept().await?;
            // A client that leaves is no error.
            tokio::spawn(async move { drop(answer(stream, parse).await) });
        }
    })
}

async fn answer(mut stream: TcpStream, parse: Parse) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut input, mut output) = (vec![0; 16 << 10], Vec::new());
    let mut filled = 0;
    loop {
        match stream.read(&mut input[filled..]).await? {
            0 => return Ok(()),
            count => filled += count,
        }
        let mut at = 0;
        while let Some((length, reply)) = parse(&input[at..filled]) {
            at += length;
            output.extend_from_slice(reply);
        }
        input.copy_within(at..filled, 0);
        filled -= at;
        stream.write_all(&output).await?;
        output.clear();
    }
}

fn command(input: &[u8]) -> Option<(usize, &'static [u8])> {
    let mut words = Words::new();
    match parse::next(input, &mut words).ok()? {
        ParseResult::Command { length } => {
            std::hint::black_box(words.get());
            Some((length, NUMBERS))
        }
        ParseResult::Inline { line, length } => {
            std::hint::black_box(inline::split(line).is_ok());
            Some((length, NUMBERS))
        }
        ParseResult::Nothing { length } => Some((length, b"")),
        ParseResult::Incomplete => None,
    }
}

fn request(input: &[u8]) -> Option<(usize, &'static [u8])> {
    const LENGTH: &[u8] = b"Content-Length: ";
    let head = input.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let length = input[..head].windows(LENGTH.len()).position(|name| name == LENGTH);
    let digits = length.map_or(&b""[..], |at| &input[at + LENGTH.len()..head]);
    let body = digits.iter().take_while(|byte| byte.is_ascii_digit());
    let body = body.fold(0, |length, digit| 10 * length + usize::from(digit - b'0'));
    (input.len() >= head + body).then_some((head + body, DECISION))
}
