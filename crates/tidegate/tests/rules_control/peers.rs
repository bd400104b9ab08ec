//! Peers that aren't what they should be: a server that sends nonsense, and clients that do.

use crate::scene::{Follower, REACHED_WITHIN, Server};
use crate::support::{poll, rules_of};
use h2::{client, server};
use http::{Request, Response};
use std::net::SocketAddr;
use std::time::Duration;
use tidegate_control::stream::{
    FOLLOW_PATH, FollowerMessage, FollowerRole, Hello, PROTOCOL, Protocol, ServerMessage, SnapshotId,
    Welcome, framed,
};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn message(down: &ServerMessage) -> bytes::Bytes {
    framed(|out| down.encode(out)).into()
}

/// A server of another release whose changes and snapshots are nonsense. It goes on for as long as the process.
fn nonsense_server() -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    std::thread::spawn(move || {
        runtime().block_on(async move {
            let listener = TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(talk_nonsense(stream));
            }
        });
    });
    address
}

async fn talk_nonsense(stream: TcpStream) {
    let Ok(mut connection) = server::handshake(stream).await else { return };
    while let Some(Ok((_request, mut respond))) = connection.accept().await {
        tokio::spawn(async move {
            let head = Response::builder().header("content-type", "application/grpc").body(()).unwrap();
            let mut stream = respond.send_response(head, false).unwrap();
            let protocol = Protocol { newest: PROTOCOL.newest + 1, oldest: PROTOCOL.newest };
            let (node, software) = ("nonsense".into(), "99.0.0".into());
            let id = SnapshotId { version: 9, digest: 7 };
            let said = [
                ServerMessage::Welcome(Welcome { protocol, node, software }),
                ServerMessage::Change { version: 2, delta: bytes::Bytes::from_static(b"nonsense") },
                ServerMessage::Snapshot { id, length: 200, offset: 0 },
                ServerMessage::Chunk { offset: 0, bytes: vec![7; 200].into() },
            ];
            for down in &said {
                stream.send_data(message(down), false).unwrap();
            }
            loop {
                let heartbeat = message(&ServerMessage::Heartbeat { head: 9, stale_ms: 0 });
                if stream.send_data(heartbeat, false).is_err() {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        });
    }
}

#[test]
fn nonsense_from_another_release_is_refused_and_the_rules_in_force_stay() {
    let control = Server::control();
    let node = Follower::start(&[&control], &[]);
    node.wait_version(control.push(&rules_of(3)));
    let Follower { node: old, directory } = node;
    drop(old);
    let node = Follower::start_in(directory, &format!("http://{}", nonsense_server()), &[]);
    let stream = poll("a refusal", REACHED_WITHIN, || {
        let stream = node.node.state()["rules_stream"].clone();
        (stream["rule_changes_refused"].as_u64() >= Some(2)).then_some(stream)
    });
    assert_eq!((&stream["version"], &stream["is_other_release"]), (&1.into(), &true.into()), "{stream}");
    assert_eq!(
        (&stream["server_version"], &stream["is_connected"]),
        (&"99.0.0".into(), &true.into()),
        "{stream}"
    );
    assert!(stream["refused_because"].as_str().is_some_and(|reason| !reason.is_empty()), "{stream}");
    assert_eq!(node.allowed(5, "somebody"), 3);
    // Nothing of it is there after a restart.
    let Follower { node: old, directory } = node;
    drop(old);
    let node = Follower::start_in(directory, &control.url(), &[]);
    assert_eq!(node.allowed(5, "somebody else"), 3);
    node.wait_version(control.push(&rules_of(4)));
    assert_eq!(node.allowed(5, "a third"), 4);
}

/// What a call with these messages ends with: gRPC's code and message.
fn call(server: &Server, path: &str, messages: &[Vec<u8>]) -> (String, String) {
    let address = server.address.clone();
    runtime().block_on(async move {
        let stream = TcpStream::connect(&address).await.unwrap();
        let (sender, connection) = client::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        let request = Request::post(format!("http://{address}{path}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(())
            .unwrap();
        let mut sender = sender.ready().await.unwrap();
        let (response, mut stream) = sender.send_request(request, false).unwrap();
        for message in messages {
            stream.send_data(message.clone().into(), false).unwrap();
        }
        let (head, mut body) = response.await.unwrap().into_parts();
        let mut headers = head.headers;
        if !headers.contains_key("grpc-status") {
            while let Some(Ok(data)) = body.data().await {
                body.flow_control().release_capacity(data.len()).unwrap();
            }
            headers = body.trailers().await.unwrap().unwrap_or_default();
        }
        let text = |name: &str| {
            headers
                .get(name)
                .map_or(String::new(), |value| String::from_utf8_lossy(value.as_bytes()).into_owned())
        };
        (text("grpc-status"), text("grpc-message"))
    })
}

#[test]
fn who_doesnt_speak_the_protocol_is_told_so() {
    let control = Server::control();
    let up = |up: &FollowerMessage| framed(|out| up.encode(out));
    let hello = |newest, oldest| {
        FollowerMessage::Hello(Hello {
            protocol: Protocol { newest, oldest },
            node: "far-away".into(),
            region: "eu".into(),
            software: "99.0.0".into(),
            role: FollowerRole::Node,
            rule_version: 0,
            partial: None,
        })
    };
    let resume = up(&FollowerMessage::Resume { rule_version: 1, wants_snapshot: false });
    let (code, message) = call(&control, FOLLOW_PATH, &[resume]);
    assert_eq!((code.as_str(), message.contains("hello")), ("3", true), "{message}");
    let (code, message) = call(&control, FOLLOW_PATH, &[up(&hello(99, 98))]);
    assert_eq!(code, "9", "{message}");
    assert!(message.contains("98 to 99") && message.contains("99.0.0"), "{message}");
    let (code, message) = call(&control, FOLLOW_PATH, &[vec![0, 0, 0, 0, 3, 0x0f, 0xff, 0xff]]);
    assert_eq!(code, "3", "{message}");
    let (code, message) = call(&control, "/tidegate.control.v1.Rules/Nothing", &[]);
    assert_eq!((code.as_str(), message.contains("Follow")), ("12", true), "{message}");
    assert_eq!(control.get("/v1/state")["followers"], 0, "and it goes on");
}

/// Says that it has version 1, and takes nothing of what comes.
async fn slow_follower(address: &str, number: usize) -> (h2::RecvStream, h2::SendStream<bytes::Bytes>) {
    let stream = TcpStream::connect(address).await.unwrap();
    let (sender, connection) = client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let request = Request::post(format!("http://{address}{FOLLOW_PATH}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())
        .unwrap();
    let (response, mut up) = sender.ready().await.unwrap().send_request(request, false).unwrap();
    let hello = FollowerMessage::Hello(Hello {
        protocol: PROTOCOL,
        node: format!("slow-{number}").into(),
        region: "eu".into(),
        software: "99.0.0".into(),
        role: FollowerRole::Node,
        rule_version: 1,
        partial: None,
    });
    up.send_data(framed(|out| hello.encode(out)).into(), false).unwrap();
    (response.await.unwrap().into_body(), up)
}

/// The versions that come until this one does, in the order in which they come.
async fn versions_until(body: &mut h2::RecvStream, last: u64) -> Vec<u64> {
    let (mut bytes, mut versions) = (Vec::new(), Vec::new());
    while versions.last() != Some(&last) {
        let data = body.data().await.unwrap().unwrap();
        body.flow_control().release_capacity(data.len()).unwrap();
        bytes.extend_from_slice(&data);
        while let Some(length) = bytes.get(1..5).map(|head| u32::from_be_bytes(head.try_into().unwrap())) {
            let end = 5 + usize::try_from(length).unwrap();
            if bytes.len() < end {
                break;
            }
            let message: Vec<u8> = bytes.drain(..end).collect();
            if let ServerMessage::Change { version, .. } =
                ServerMessage::decode(&message[5..].to_vec().into()).unwrap()
            {
                versions.push(version);
            }
        }
    }
    versions
}

fn resident_mib(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/statm")).unwrap();
    status.split(' ').nth(1).unwrap().parse::<u64>().unwrap() / 256
}

/// What one copy of the changes takes is kept once, whoever is slow, and those who take what comes get it at once.
#[test]
fn followers_that_take_nothing_cost_nothing_and_hold_up_nobody() {
    const SLOW: usize = 16;
    const PUSHES: u64 = 30;
    let control = Server::control();
    let node = Follower::start(&[&control], &[]);
    node.wait_version(control.push(&rules_of(3)));
    let runtime = runtime();
    let mut slow: Vec<_> =
        (0..SLOW).map(|number| runtime.block_on(slow_follower(&control.address, number))).collect();
    let process = control.process.0.id();
    let before = resident_mib(process);
    // Half a mebibyte each: 15 MiB in all, and 240 if each had its own.
    let comment = format!("# {}\n", "x".repeat(1 << 19));
    for push in 1..=PUSHES {
        control.push(&format!("{comment}{}", rules_of(3 + u32::try_from(push).unwrap())));
    }
    node.wait_version(1 + PUSHES);
    assert_eq!(node.allowed(40, "somebody"), 33);
    let grown = resident_mib(process).saturating_sub(before);
    assert!(grown < 160, "{grown} MiB more");
    let (body, _up) = &mut slow[0];
    let versions = runtime.block_on(async {
        tokio::time::timeout(REACHED_WITHIN, versions_until(body, 1 + PUSHES)).await.unwrap()
    });
    assert_eq!(versions, (2..=1 + PUSHES).collect::<Vec<_>>());
}
