//! How long a connection may be idle, over real sockets. With tokio's time paused, ten minutes are over as soon as
//! nobody has anything else to do.

use std::sync::Arc;
use std::time::Duration;
use tidegate_core::{FleetSecret, Nanos};
use tidegate_node::clock::Clock;
use tidegate_node::{Engine, EngineOptions};
use tidegate_rules::RuleSet;
use tidegate_server::{App, Surface, Tokens, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::Instant;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00";
const PING: u8 = 6;
const ACK: u8 = 1;
const LIMIT: &[u8] = b"POST /v1/limit HTTP/1.1\r\nHost: x\r\nContent-Length: 71\r\n\r\n\
    {\"namespace\":\"n\",\"identifier\":\"me\",\"limit\":5000000,\"duration_ms\":60000}";
const PAGE: &[u8] = b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n";

/// A client of a node that serves only this.
async fn client(surface: Surface, tokens: Tokens) -> (TcpStream, watch::Sender<bool>) {
    let secret = FleetSecret::BUILT_IN;
    let engine = Engine::new(EngineOptions { secret, keys_max: 1000 }, RuleSet::empty());
    let (clock, _) = Clock::manual(Nanos::from_secs(1_800_000_000));
    let app = App { tokens: Arc::new(tokens), ..App::new(Arc::new(engine), Arc::new(clock)) };
    let app = Arc::new(app);
    let (stop, stopped) = watch::channel(false);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve(listener.into(), surface, app, stopped, Duration::from_secs(5)));
    (TcpStream::connect(address).await.unwrap(), stop)
}

/// Seconds until the server closes, when the client says this first, and then only answers pings, if that.
async fn seconds_until_closed(surface: Surface, first: &[u8], answers_pings: bool) -> u64 {
    seconds_with(Tokens::not_required(), surface, first, answers_pings).await
}

/// The same of a node with these tokens.
async fn seconds_with(tokens: Tokens, surface: Surface, first: &[u8], answers_pings: bool) -> u64 {
    let (mut stream, _stop) = client(surface, tokens).await;
    stream.write_all(first).await.unwrap();
    let begun = Instant::now();
    let (mut received, mut buffer) = (Vec::new(), [0; 4096]);
    // A reset is an end, too.
    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
        received.extend_from_slice(&buffer[..count]);
        while answers_pings && received.len() >= 9 {
            let end = 9 + usize::from(received[1]) * 256 + usize::from(received[2]);
            if received.len() < end {
                break;
            }
            let mut frame: Vec<u8> = received.drain(..end).collect();
            if frame[3] == PING && frame[4] & ACK == 0 {
                frame[4] = ACK;
                let _ = stream.write_all(&frame).await;
            }
        }
    }
    begun.elapsed().as_secs()
}

#[tokio::test(start_paused = true)]
async fn an_idle_client_of_http_has_eighty_seconds_and_half_a_request_ten() {
    for (first, wanted) in [
        (&b""[..], 80..=84),
        (LIMIT, 80..=84),
        // What hyper serves.
        (PAGE, 80..=84),
        (&LIMIT[..40], 10..=14),
        (&PAGE[..10], 10..=14),
    ] {
        let seconds = seconds_until_closed(Surface::Api, first, false).await;
        assert!(wanted.contains(&seconds), "{:?}: {seconds} s", String::from_utf8_lossy(first));
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_of_grpc_has_ten_seconds_to_begin_and_ten_minutes_while_it_answers_pings() {
    for surface in [Surface::Grpc, Surface::ApiAndGrpc] {
        for (first, answers_pings, wanted) in [
            (&b""[..], true, 10..=11),
            (&PREFACE[..10], true, 10..=20),
            // One ping after twenty seconds, and none after forty.
            (PREFACE, false, 40..=41),
            (PREFACE, true, 600..=621),
        ] {
            let seconds = seconds_until_closed(surface, first, answers_pings).await;
            let said = String::from_utf8_lossy(first);
            assert!(wanted.contains(&seconds), "{surface:?} {said:?} {answers_pings}: {seconds} s");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn where_tokens_are_required_a_client_has_ten_seconds_to_present_one() {
    let watch = watched_health();
    for (surface, first) in [
        (Surface::Api, &b""[..]),
        (Surface::Api, LIMIT),
        (Surface::Api, PAGE),
        (Surface::Admin, PAGE),
        (Surface::Resp, b""),
        (Surface::Resp, b"PING\r\n"),
        (Surface::Grpc, PREFACE),
        (Surface::Grpc, &watch),
        (Surface::ApiAndGrpc, &watch),
    ] {
        let seconds = seconds_with(Tokens::required(Vec::new()), surface, first, true).await;
        let said = String::from_utf8_lossy(first);
        assert!((10..=12).contains(&seconds), "{surface:?} {said:?}: {seconds} s");
    }
}

/// A connection that watches the node's health: a stream that never ends by itself.
fn watched_health() -> Vec<u8> {
    let text = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    let frame = |kind: u8, flags: u8, payload: &[u8]| {
        [&[0, 0, u8::try_from(payload.len()).unwrap(), kind, flags, 0, 0, 0, 1], payload].concat()
    };
    let mut block = vec![0x83, 0x86];
    for (name, value) in [(4, "/grpc.health.v1.Health/Watch"), (1, "node"), (31, "application/grpc")] {
        block.push(0x40 | name);
        block.extend(text(value));
    }
    [PREFACE, &frame(1, 4, &block), &frame(0, 1, &[0; 5])].concat()
}
