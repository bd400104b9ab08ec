//! The end of a node, seen by its gRPC clients: they are told, and what is in flight is answered.

use crate::envoy::client::{SHOULD_RATE_LIMIT, framed};
use crate::envoy::proto::{Ask, Response};
use crate::support::{Directory, Node, SOON, poll, rules_of};
use h2::client::Builder;
use http::Request;
use rustix::process::Signal;
use std::io::Cursor;
use std::net::TcpStream;
use std::time::Duration;

fn started() -> (Directory, Node) {
    let directory = Directory::new();
    directory.write("rules.yaml", rules_of(1000));
    let node = Node::start(&directory, &["--shutdown-drain-ms", "60000"]);
    (directory, node)
}

#[tokio::test]
async fn idle_connections_dont_hold_up_the_end() {
    let (_directory, mut node) = started();
    let _silent = TcpStream::connect(&node.grpc).unwrap();
    let stream = tokio::net::TcpStream::connect(&node.grpc).await.unwrap();
    let (_sender, connection) = Builder::new().handshake::<_, Cursor<Vec<u8>>>(stream).await.unwrap();
    tokio::spawn(connection);
    node.process.signal(Signal::TERM);
    let exit_code = move || node.process.exit_code(Duration::from_secs(2));
    assert_eq!(tokio::task::spawn_blocking(exit_code).await.unwrap(), Some(0));
}

#[tokio::test]
async fn a_call_in_flight_is_answered_and_the_connection_then_ends() {
    let (_directory, mut node) = started();
    let stream = tokio::net::TcpStream::connect(&node.grpc).await.unwrap();
    let (mut sender, connection) = Builder::new().handshake::<_, Cursor<Vec<u8>>>(stream).await.unwrap();
    let connection = tokio::spawn(connection);
    let call = |path: &str| {
        Request::post(format!("http://node{path}"))
            .header("content-type", "application/grpc")
            .body(())
            .unwrap()
    };
    let (watched, mut watch) = sender.send_request(call("/grpc.health.v1.Health/Watch"), false).unwrap();
    watch.send_data(Cursor::new(framed(&[])), true).unwrap();
    let mut watched = watched.await.unwrap().into_body();
    assert_eq!(watched.data().await.unwrap().unwrap(), framed(&[8, 1]), "it serves");
    let (response, mut body) = sender.send_request(call(SHOULD_RATE_LIMIT), false).unwrap();
    let message = framed(&Ask::of("api", &[&[("user", "1")]]).encoded());
    body.send_data(Cursor::new(message[..9].to_vec()), false).unwrap();
    tokio::task::yield_now().await;

    node.process.signal(Signal::TERM);
    let told = tokio::time::timeout(SOON, watched.data()).await.expect("who watches is told");
    assert_eq!(told.unwrap().unwrap(), framed(&[8, 2]), "it serves no longer");
    poll("an end of accepting", SOON, || TcpStream::connect(&node.grpc).is_err().then_some(()));
    body.send_data(Cursor::new(message[9..].to_vec()), true).unwrap();
    let mut incoming = tokio::time::timeout(SOON, response).await.expect("an answer").unwrap().into_body();
    let reply = incoming.data().await.unwrap().unwrap();
    assert_eq!(Response::decoded(&reply[5..]).statuses[0].remaining, 999);
    let trailers = incoming.trailers().await.unwrap().unwrap();
    assert_eq!(trailers["grpc-status"], "0");
    let ended = tokio::time::timeout(SOON, connection).await.expect("the connection ends");
    ended.unwrap().expect("without an error");
    assert_eq!(node.process.exit_code(SOON), Some(0));
}
