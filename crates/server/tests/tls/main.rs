//! Real handshakes with real certificates, on every surface that callers meet.

mod client;
mod node;

use client::{TlsClient, Versions};
use node::{Files, Node};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tidegate_server::{Certificates, Surface, TlsFiles};
use tidegate_testkit::Authority;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const WITHIN: Duration = Duration::from_secs(10);

#[tokio::test]
async fn both_versions_work_on_every_surface() {
    let authority = Authority::new();
    let files = Files::new("versions", &authority, None);
    for versions in [Versions::Tls12, Versions::Tls13] {
        let client = TlsClient::trusting(&authority).of(versions);
        let node = Node::start(&files, Surface::Api).await;
        assert!(client.posts_a_limit(node.address).await.unwrap().starts_with("HTTP/1.1 200"));
        let node = Node::start(&files, Surface::Admin).await;
        assert!(client.gets(node.address, "/healthz").await.unwrap().ends_with("ok\n"));
        let node = Node::start(&files, Surface::Resp).await;
        assert_eq!(client.exchange(node.address, b"PING\r\nQUIT\r\n").await.unwrap(), "+PONG\r\n+OK\r\n");
        let node = Node::start(&files, Surface::Grpc).await;
        assert_eq!(client.health(node.address).await, "0");
    }
}

#[tokio::test]
async fn only_certificates_of_the_right_authority_get_in() {
    let [authority, clients, strangers] = [(); 3].map(|()| Authority::new());
    let files = Files::new("clients", &authority, Some(&clients));
    let node = Node::start(&files, Surface::Api).await;
    let client = TlsClient::trusting(&authority);
    let right = client.presenting(&clients.client());
    assert!(right.posts_a_limit(node.address).await.unwrap().starts_with("HTTP/1.1 200"));
    for versions in [Versions::Tls12, Versions::Tls13] {
        let wrong = [
            client.presenting(&strangers.client()),
            client.presenting(&clients.server()),
            client.without_one(),
        ];
        for wrong in wrong {
            let answer = wrong.of(versions).posts_a_limit(node.address).await;
            assert!(answer.is_err() || answer.as_ref().is_ok_and(String::is_empty), "{answer:?}");
        }
    }
    assert!(right.posts_a_limit(node.address).await.unwrap().starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn what_isnt_tls_ends_and_others_are_served() {
    let authority = Authority::new();
    let files = Files::new("plain", &authority, None);
    let node = Node::start(&files, Surface::Api).await;
    for bytes in
        [&b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"[..], b"PING\r\n\r\n\r\n\r\n", &[22, 3, 1, 255, 255, 0]]
    {
        let mut stream = TcpStream::connect(node.address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        // The last one is the beginning of a handshake that would be too long.
        let _ = stream.shutdown().await;
        let mut answer = Vec::new();
        let read = tokio::time::timeout(WITHIN, stream.read_to_end(&mut answer)).await.expect("an end");
        assert!(read.is_ok() && !answer.starts_with(b"HTTP"), "{answer:?}");
    }
    let client = TlsClient::trusting(&authority);
    assert!(client.posts_a_limit(node.address).await.unwrap().starts_with("HTTP/1.1 200"));
}

#[tokio::test(start_paused = true)]
async fn who_never_shakes_hands_is_hung_up_on() {
    let authority = Authority::new();
    let files = Files::new("silent", &authority, None);
    let node = Node::start(&files, Surface::Resp).await;
    let mut stream = TcpStream::connect(node.address).await.unwrap();
    let mut answer = Vec::new();
    // The clock runs ahead while everybody waits.
    assert_eq!(stream.read_to_end(&mut answer).await.unwrap(), 0);
}

#[tokio::test]
async fn certificates_are_replaced_under_load_and_nobody_notices() {
    let authority = Authority::new();
    let files = Files::new("reload", &authority, None);
    let node = Node::start(&files, Surface::Api).await;
    let (done, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let (client, address) = (TlsClient::trusting(&authority), node.address);
            let (done, asked) = (done.clone(), asked.clone());
            tokio::spawn(async move {
                while !done.load(Ordering::Relaxed) {
                    assert!(client.posts_a_limit(address).await.unwrap().starts_with("HTTP/1.1 200"));
                    asked.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let client = TlsClient::trusting(&authority);
    let mut open = client.connect(node.address).await.unwrap();
    let mut seen = client.certificate(node.address).await;
    for round in 1..=5 {
        while asked.load(Ordering::Relaxed) < round * 20 {
            tokio::task::yield_now().await;
        }
        files.write_server(&authority.server());
        node.tls.replace(Certificates::read(&files.tls).unwrap());
        let now = client.certificate(node.address).await;
        assert_ne!(now, seen, "new connections get the new one");
        seen = now;
    }
    done.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await.unwrap();
    }
    open.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut text = String::new();
    let _ = open.read_to_string(&mut text).await;
    assert!(text.ends_with("ok\n"), "an open connection keeps what it has: {text}");
}

#[test]
fn files_that_dont_fit_are_refused_by_name() {
    let (authority, other) = (Authority::new(), Authority::new());
    let files = Files::new("bad", &authority, Some(&other));
    let refused = |change: &dyn Fn(&mut TlsFiles)| {
        let mut changed = files.tls.clone();
        change(&mut changed);
        Certificates::read(&changed).unwrap_err().to_string()
    };
    assert!(Certificates::read(&files.tls).is_ok());
    let (junk, empty, key) = (
        files.write("junk", "junk"),
        files.write("empty", ""),
        files.write("other.key", &authority.server().key),
    );
    let large = files.write("large", &"x".repeat((1 << 20) + 1));
    let cases: [(&str, &str); 8] = [
        (&refused(&|files| files.certificate = "/missing.pem".into()), "can't read /missing.pem"),
        (&refused(&|files| files.certificate = junk.clone()), "junk has no certificate"),
        (&refused(&|files| files.certificate = empty.clone()), "empty has no certificate"),
        (&refused(&|files| files.certificate = large.clone()), "larger than 1 MiB"),
        (&refused(&|files| files.key = junk.clone()), "junk has no private key"),
        (&refused(&|files| files.key = files.certificate.clone()), "has no private key"),
        (&refused(&|files| files.key = key.clone()), "must belong together"),
        (&refused(&|files| files.client_ca = Some(junk.clone())), "junk has no certificate"),
    ];
    for (said, wanted) in cases {
        assert!(said.contains(wanted), "no {wanted:?} in {said}");
        assert!(!said.contains("PRIVATE KEY"), "{said}");
    }
}
