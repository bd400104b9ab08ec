//! A connection over a pipe as narrow as the test wants it.

use super::*;
use crate::pipeline::{Connection, NextStep};
use crate::progress::Progress;
use std::future::poll_fn;
use std::task::Poll;
use tidegate_core::origin_cell::NodeId;
use tidegate_core::{FleetSecret, Nanos};
use tidegate_node::clock::Clock;
use tidegate_node::region::RegionOptions;
use tidegate_node::{Engine, EngineOptions};
use tidegate_rules::RuleSet;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

const PIPE_BYTES: usize = 1024;

fn app() -> Arc<App> {
    let secret = FleetSecret::BUILT_IN;
    let rules = RuleSet::parse(&[], &secret).unwrap();
    let (clock, _) = Clock::manual(Nanos::from_secs(1_800_000_000));
    let engine = Engine::new(EngineOptions { secret, keys_max: 1000 }, rules);
    Arc::new(App::new(Arc::new(engine), Arc::new(clock)))
}

/// Every request must ask, and there is nobody who answers.
fn asking_app() -> Arc<App> {
    let secret = FleetSecret::BUILT_IN;
    let rules = RuleSet::parse(&[], &secret).unwrap();
    let (clock, _) = Clock::manual(Nanos::from_secs(1_800_000_000));
    let region = RegionOptions { node: NodeId(1), fresh_for: Nanos::from_secs(5), seed: 1 };
    let engine = Engine::sharing(EngineOptions { secret, keys_max: 1000 }, region, rules);
    Arc::new(App::new(Arc::new(engine), Arc::new(clock)))
}

fn connect() -> (DuplexStream, watch::Sender<bool>) {
    connect_to(app())
}

fn connect_to(app: Arc<App>) -> (DuplexStream, watch::Sender<bool>) {
    let (client, server) = tokio::io::duplex(PIPE_BYTES);
    let (stop, stopped) = watch::channel(false);
    tokio::spawn(serve(server, app, stopped, crate::budget::Registration::default()));
    (client, stop)
}

#[tokio::test(start_paused = true)]
async fn a_client_whose_every_answer_was_asked_for_is_not_too_slow() {
    let (mut client, _stop) = connect_to(asking_app());
    let patience = <Session as pipeline::Session>::PATIENCE;
    let mut answer = [0; 256];
    for request in 0..3 * patience.looks_while_owing {
        client.write_all(b"CL.THROTTLE k 9999 1 1\r\n").await.unwrap();
        let read = client.read(&mut answer).await.unwrap();
        assert!(answer[..read].starts_with(b"*5\r\n:0\r\n"), "request {request}");
        tokio::time::sleep(patience.look_every).await;
    }
}

/// How much a client can send that takes no replies.
#[tokio::test(start_paused = true)]
async fn a_client_that_takes_no_replies_is_not_read_from_and_then_closed() {
    let (mut client, _stop) = connect();
    let mut sent = 0;
    // A short command with a long reply.
    let commands = b"INFO\r\n".repeat(100);
    while let Ok(written) = client.write(&commands).await {
        sent += written;
    }
    // What was read ahead when the replies' bound was reached, and what fits in the pipe.
    let most = crate::buffers::INPUT_BYTES_MAX + PIPE_BYTES;
    assert!((PIPE_BYTES..=most).contains(&sent), "{sent} bytes were taken");
}

#[tokio::test]
async fn replies_larger_than_the_pipe_arrive_whole() {
    let (mut client, _stop) = connect();
    let (mut reading, mut writing) = tokio::io::split(&mut client);
    let sending = async {
        writing.write_all(&b"ECHO 0123456789\r\nCL.THROTTLE k 9999 1 1\r\n".repeat(1000)).await.unwrap();
        writing.write_all(b"QUIT\r\n").await.unwrap();
    };
    let mut answer = String::new();
    let (_, read) = tokio::join!(sending, reading.read_to_string(&mut answer));
    read.unwrap();
    assert_eq!(answer.matches("$10\r\n0123456789\r\n*5\r\n:0\r\n:10000\r\n").count(), 1000);
    assert!(answer.ends_with(":0\r\n:10000\r\n:9000\r\n:-1\r\n:1000\r\n+OK\r\n"));
}

#[tokio::test]
async fn a_connection_holds_buffers_only_while_something_is_in_them() {
    let (mut client, mut server) = tokio::io::duplex(PIPE_BYTES);
    let (app, progress) = (app(), Progress::default());
    let mut session = Session::new(&app, crate::budget::Registration::default());
    let mut connection = Connection {
        stream: &mut server,
        app: &app,
        session: &mut session,
        progress: &progress,
        buffers: None,
    };
    client.write_all(b"PING\r\nPI").await.unwrap();
    assert_eq!(connection.read().await.unwrap(), 8);
    assert_eq!(connection.answer().await.unwrap(), NextStep::Read);
    assert!(connection.has_begun_a_request());
    client.write_all(b"NG\r\n").await.unwrap();
    assert_eq!(connection.read().await.unwrap(), 4);
    connection.answer().await.unwrap();
    let idle = poll_fn(|cx| Poll::Ready(connection.poll_read(cx).is_pending())).await;
    assert!(idle && connection.buffers.is_none());
}
