//! What a connection holds on the heap while nobody asks anything on it: ten thousand of them may cost 20 KiB each.
//!
//! Counts bytes, so that it says the same on any machine. Resident memory is less than that where a buffer's later
//! pages were never written to: h2 has three such buffers for each connection.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tidegate_core::{FleetSecret, Nanos};
use tidegate_node::clock::Clock;
use tidegate_node::{Engine, EngineOptions};
use tidegate_rules::{RuleSet, Source};
use tidegate_server::{App, Surface, serve};
use tokio::net::TcpListener;
use tokio::sync::watch;

struct Counting;

const PAGE_BYTES: usize = 4096;
/// Blocks that are held, by their size; the last one those of that size or more. Of the thread that answers.
static HELD: [AtomicI64; 32 << 10] = [const { AtomicI64::new(0) }; 32 << 10];

thread_local! {
    static IS_COUNTED: Cell<bool> = const { Cell::new(false) };
}

fn count(layout: Layout, blocks: i64) {
    if IS_COUNTED.get() {
        HELD[layout.size().min(HELD.len() - 1)].fetch_add(blocks, Ordering::Relaxed);
    }
}

#[allow(unsafe_code)]
// SAFETY: hands everything to the system's allocator; the flag is a thread-local cell without a destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout, 1);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(layout, -1);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const RULES: &str = "namespace: bench\nrules:\n  - { name: key, key: [key], limit: 1_000_000 per 1m }\n";

fn app() -> Arc<App> {
    let secret = FleetSecret::BUILT_IN;
    let source = Source { name: "rules.yaml".to_owned(), text: RULES.as_bytes().to_vec() };
    let rules = RuleSet::parse(&[source], &secret).expect("the test's rules are valid");
    let (clock, _) = Clock::manual(Nanos::from_secs(1_800_000_000));
    let engine = Engine::new(EngineOptions { secret, keys_max: 100_000 }, rules);
    Arc::new(App::new(Arc::new(engine), Arc::new(clock)))
}

fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).unwrap();
    [&[0, 0, length, kind, flags, 0, 0, 0, stream], payload].concat()
}

/// A text after its length, which is how both HPACK and protobuf write it.
fn text(text: &str) -> Vec<u8> {
    [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat()
}

/// What a client of gRPC begins with, and what it says once it was answered.
fn greeting() -> [Vec<u8>; 2] {
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    [[preface, frame(4, 0, 0, &[0, 2, 0, 0, 0, 0])].concat(), frame(4, 1, 0, &[])]
}

/// `ShouldRateLimit` on a connection's first stream; its headers are to be remembered, as real clients ask.
fn call() -> Vec<u8> {
    let mut block = vec![0x83, 0x86];
    let path = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
    for (name, value) in [(4, path), (1, "localhost:8081"), (31, "application/grpc")] {
        block.push(0x40 | name);
        block.extend(text(value));
    }
    block.extend([&[0x40][..], &text("te"), &text("trailers")].concat());
    let entry = [&[0x0a][..], &text("key"), &[0x12], &text("me")].concat();
    let descriptor = [&[0x0a, u8::try_from(entry.len()).unwrap()], &entry[..]].concat();
    let message =
        [&[0x0a][..], &text("bench"), &[0x12, u8::try_from(descriptor.len()).unwrap()], &descriptor].concat();
    let framed = [&[0, 0, 0, 0, u8::try_from(message.len()).unwrap()], &message[..]].concat();
    [frame(1, 4, 1, &block), frame(0, 1, 1, &framed)].concat()
}

/// Sends something, and reads until the answer has this in it.
fn exchange(stream: &mut TcpStream, bytes: &[u8], until: &[u8]) {
    stream.write_all(bytes).unwrap();
    let (mut answer, mut buffer) = (Vec::new(), [0; 4096]);
    while !answer.windows(until.len()).any(|window| window == until) {
        let read = stream.read(&mut buffer).unwrap();
        assert!(read > 0, "the server hung up: {answer:?}");
        answer.extend_from_slice(&buffer[..read]);
    }
}

fn connected(address: SocketAddr, surface: Surface, asks: bool) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    match surface {
        Surface::Grpc => {
            let [first, second] = greeting();
            // The server's word that it has read our settings.
            exchange(&mut stream, &first, &frame(4, 1, 0, &[]));
            stream.write_all(&second).unwrap();
            // A ping is answered when all before it was read.
            exchange(&mut stream, &frame(6, 0, 0, b"are you?"), &frame(6, 1, 0, b"are you?"));
            if asks {
                // Trailers: the last that an answer has.
                exchange(&mut stream, &call(), &[1, 5, 0, 0, 0, 1]);
            }
        }
        Surface::Resp => exchange(&mut stream, b"PING\r\n", b"+PONG\r\n"),
        _ => {
            let body = r#"{"namespace":"n","identifier":"me","limit":5000000,"duration_ms":60000}"#;
            let head =
                format!("POST /v1/limit HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", body.len());
            exchange(&mut stream, (head + body).as_bytes(), b"}\n");
        }
    }
    stream
}

/// What each of some connections holds: in blocks smaller than a page, and how many larger ones of which size.
#[derive(Debug)]
#[allow(dead_code, reason = "the sizes are shown when there are too many")]
struct Each {
    small_bytes: i64,
    small: Vec<(usize, i64)>,
    large: Vec<(usize, i64)>,
}

fn held() -> Vec<i64> {
    HELD.iter().map(|count| count.load(Ordering::Relaxed)).collect()
}

const CONNECTIONS: i64 = 100;

fn measure(address: SocketAddr, surface: Surface, asks: bool) -> Each {
    let connect = || (0..CONNECTIONS).map(|_| connected(address, surface, asks)).collect::<Vec<_>>();
    // What is made once, or for some connections, isn't counted.
    let first = connect();
    let before = held();
    let second = connect();
    let grown = held().into_iter().zip(before).map(|(after, before)| after - before).enumerate();
    let each: Vec<(usize, i64)> = grown.filter(|(_, blocks)| *blocks >= CONNECTIONS / 2).collect();
    drop((first, second));
    let (small, large): (Vec<_>, Vec<_>) = each.into_iter().partition(|(size, _)| *size < PAGE_BYTES);
    let per = |blocks: &[(usize, i64)]| blocks.iter().map(|(size, n)| (*size, n / CONNECTIONS)).collect();
    let bytes = |(size, blocks): &(usize, i64)| i64::try_from(*size).unwrap() * blocks;
    let small_bytes = small.iter().map(bytes).sum::<i64>() / CONNECTIONS;
    Each { small_bytes, small: per(&small), large: per(&large) }
}

/// Of connections that were made and, over gRPC, may have asked once.
fn each(surface: Surface, asks: bool) -> Each {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (stop, stopped) = watch::channel(false);
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    let app = app();
    let measuring = std::thread::spawn(move || {
        let each = measure(address, surface, asks);
        stop.send_replace(true);
        each
    });
    IS_COUNTED.set(true);
    runtime.block_on(serve(listener.into(), surface, app, stopped, Duration::from_secs(5)));
    IS_COUNTED.set(false);
    measuring.join().unwrap()
}

/// One test: others on the side would be counted too.
#[test]
fn an_idle_connection_holds_little() {
    for surface in [Surface::Api, Surface::Resp] {
        let each = each(surface, true);
        println!("{surface:?}: {each:?}");
        assert!(each.large.is_empty() && each.small_bytes <= 2 << 10, "{surface:?}: {each:?}");
    }
    for (asks, small_bytes_max) in [(false, 3_584), (true, 8_192)] {
        let each = each(Surface::Grpc, asks);
        println!("gRPC, asks: {asks}: {each:?}");
        assert!(each.small_bytes <= small_bytes_max, "gRPC, asks: {asks}: {each:?}");
        // What h2 makes for each: to write from, to read into, and to unpack headers in.
        let large: Vec<(usize, i64)> = vec![(4096, 1), (8192, 1), (16384, 1)];
        assert_eq!(each.large, large, "gRPC, asks: {asks}");
    }
}
