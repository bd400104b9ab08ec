//! The floor of the Redis protocol here: reads and parses as a node does, on a thread per core as a node has, and
//! answers every command with the same five numbers. What a decision costs is the difference.
//!
//! `resp_stub PORT` listens on loopback until it is killed; without a port there is nothing to measure.

/// The node's own parser; of its buffers only what that knows of them.
#[path = "../src/resp"]
#[allow(dead_code, reason = "its tests come with it")]
mod resp {
    pub(crate) mod inline;
    pub(crate) mod parse;
}
mod buffers {
    pub(crate) const INPUT_BYTES_MAX: usize = 128 << 10;
}

use resp::inline;
use resp::parse::{self, Next, Words};
use std::io;
use std::thread;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;

const REPLY: &[u8] = b"*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n";

fn main() -> io::Result<()> {
    let Some(port) = std::env::args().nth(1).and_then(|port| port.parse::<u16>().ok()) else {
        println!("resp_stub PORT");
        return Ok(());
    };
    let listener = std::net::TcpListener::bind(("127.0.0.1", port))?;
    listener.set_nonblocking(true)?;
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let threads = (0..cores).map(|_| {
        let listener = listener.try_clone()?;
        Ok(thread::spawn(move || run(listener)))
    });
    for thread in threads.collect::<io::Result<Vec<_>>>()? {
        thread.join().map_err(|_| io::Error::other("a thread panicked"))??;
    }
    Ok(())
}

fn run(listener: std::net::TcpListener) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::from_std(listener)?;
        loop {
            let (stream, _) = listener.accept().await?;
            // A client that leaves is no error.
            tokio::spawn(async move { drop(answer(stream).await) });
        }
    })
}

async fn answer(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut input, mut output) = (vec![0; 16 << 10], Vec::new());
    let mut filled = 0;
    loop {
        match stream.read(&mut input[filled..]).await? {
            0 => return Ok(()),
            count => filled += count,
        }
        let mut at = 0;
        let mut words = Words::new();
        while let Ok(next) = parse::next(&input[at..filled], &mut words) {
            match next {
                Next::Command { length } => at += length,
                Next::Inline { line, length } => at += length.max(inline::split(line).map_or(0, |_| length)),
                Next::Nothing { length } => {
                    at += length;
                    continue;
                }
                Next::Incomplete => break,
            }
            std::hint::black_box(words.get());
            output.extend_from_slice(REPLY);
        }
        input.copy_within(at..filled, 0);
        filled -= at;
        stream.write_all(&output).await?;
        output.clear();
    }
}
