//! Each fault as a client sees it, and as the server behind does.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;
use tidegate_testkit::{FaultProxy, ProxyCounts, ProxyFault, RespClient, until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, timeout};

const SHORTLY: Duration = Duration::from_millis(50);
const SOON: Duration = Duration::from_secs(10);

/// Sends back what it gets.
async fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut reads, mut writes) = stream.split();
                let _ = tokio::io::copy(&mut reads, &mut writes).await;
            });
        }
    });
    address
}

async fn connect(proxy: &FaultProxy) -> TcpStream {
    TcpStream::connect(proxy.address()).await.unwrap()
}

async fn exchange(stream: &mut TcpStream, text: &[u8]) -> std::io::Result<Vec<u8>> {
    stream.write_all(text).await?;
    let mut answer = vec![0; text.len()];
    timeout(SOON, stream.read_exact(&mut answer)).await.unwrap()?;
    Ok(answer)
}

/// Sends and receives at the same time: more than buffers on the way hold.
async fn exchange_large(stream: &mut TcpStream, bytes: u32) {
    let sent: Vec<u8> = (0..bytes).map(|number| number.to_le_bytes()[0]).collect();
    let mut received = vec![0; sent.len()];
    let (mut reads, mut writes) = stream.split();
    let both = async { tokio::try_join!(writes.write_all(&sent), reads.read_exact(&mut received)) };
    timeout(SOON, both).await.unwrap().unwrap();
    assert!(received == sent);
}

/// Nothing comes, and not the end either.
async fn is_silent(stream: &mut TcpStream) -> bool {
    timeout(SHORTLY, stream.read_u8()).await.is_err()
}

async fn lost(proxy: &FaultProxy, bytes: u64) {
    let look = || async { (proxy.counts().lost_bytes == bytes).then_some(()) };
    until("the loss of what was sent", SOON, look).await;
}

async fn is_closed(stream: &mut TcpStream) -> bool {
    timeout(SOON, stream.read_u8()).await.unwrap().is_err()
}

/// Already of the connecting, when the reset comes fast.
async fn failure_of_new(proxy: &FaultProxy) -> ErrorKind {
    let attempt = async { TcpStream::connect(proxy.address()).await?.read_u8().await };
    timeout(SOON, attempt).await.unwrap().unwrap_err().kind()
}

#[tokio::test]
async fn without_a_fault_bytes_pass_and_are_counted() {
    let proxy = FaultProxy::start(echo().await).await;
    let mut stream = connect(&proxy).await;
    exchange_large(&mut stream, 1_000_000).await;
    let expected = ProxyCounts {
        connections: 1,
        to_upstream_bytes: 1_000_000,
        to_client_bytes: 1_000_000,
        lost_bytes: 0,
    };
    assert_eq!(proxy.counts(), expected);
    // The end passes too: the echo ends when the client has, and the client hears of that.
    stream.shutdown().await.unwrap();
    assert!(is_closed(&mut stream).await);
}

#[tokio::test]
async fn latency_delays_each_direction_and_keeps_the_throughput() {
    let proxy = FaultProxy::start(echo().await).await;
    let mut stream = connect(&proxy).await;
    let latency = Duration::from_millis(40);
    proxy.set(ProxyFault::Latency(latency));
    let start = Instant::now();
    assert_eq!(exchange(&mut stream, b"one").await.unwrap(), b"one");
    assert!(start.elapsed() >= 2 * latency);
    // Were it each chunk that is delayed, this would take minutes.
    let start = Instant::now();
    exchange_large(&mut stream, 4_000_000).await;
    assert!(start.elapsed() >= 2 * latency);
    // Lifted at once, also for what is on its way.
    proxy.set(ProxyFault::Latency(Duration::from_secs(60)));
    stream.write_all(b"late").await.unwrap();
    assert!(is_silent(&mut stream).await);
    proxy.set(ProxyFault::None);
    let mut answer = [0; 4];
    timeout(SOON, stream.read_exact(&mut answer)).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_black_hole_takes_everything_and_gives_nothing() {
    let proxy = FaultProxy::start(echo().await).await;
    let (mut used, mut idle) = (connect(&proxy).await, connect(&proxy).await);
    exchange(&mut used, b"before").await.unwrap();
    exchange(&mut idle, b"before").await.unwrap();
    let before = proxy.counts();
    proxy.set(ProxyFault::Blackhole);
    let (mut new, mut new_idle) = (connect(&proxy).await, connect(&proxy).await);
    used.write_all(b"lost").await.unwrap();
    new.write_all(b"lost").await.unwrap();
    lost(&proxy, 8).await;
    assert!(is_silent(&mut used).await && is_silent(&mut new).await);
    assert_eq!(ProxyCounts { connections: 4, lost_bytes: 8, ..before }, proxy.counts());
    proxy.set(ProxyFault::None);
    assert!(is_closed(&mut used).await && is_closed(&mut new).await);
    assert_eq!(exchange(&mut idle, b"after").await.unwrap(), b"after");
    assert_eq!(exchange(&mut new_idle, b"after").await.unwrap(), b"after");
}

#[tokio::test]
async fn a_black_hole_hides_the_end_of_the_server() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = FaultProxy::start(listener.local_addr().unwrap()).await;
    let mut client = connect(&proxy).await;
    let (server, _) = listener.accept().await.unwrap();
    proxy.set(ProxyFault::Blackhole);
    drop(server);
    assert!(is_silent(&mut client).await);
    proxy.set(ProxyFault::None);
    assert!(is_closed(&mut client).await);
}

#[tokio::test]
async fn requests_vanish_on_their_way_to_the_server() {
    let proxy = FaultProxy::start(echo().await).await;
    let mut stream = connect(&proxy).await;
    proxy.set(ProxyFault::DropToUpstream);
    stream.write_all(b"lost").await.unwrap();
    lost(&proxy, 4).await;
    assert!(is_silent(&mut stream).await);
    assert_eq!(proxy.counts().to_upstream_bytes, 0);
    proxy.set(ProxyFault::None);
    assert!(is_closed(&mut stream).await);
}

#[tokio::test]
async fn answers_vanish_though_requests_took_effect() {
    let redis = tidegate_testkit::Redis::start().await;
    let proxy = FaultProxy::start(redis.address()).await;
    let mut client = RespClient::connect(proxy.address()).await.unwrap();
    proxy.set(ProxyFault::DropToClient);
    assert!(timeout(SHORTLY, client.command(&["INCR", "key"])).await.is_err());
    // `:1\r\n`
    lost(&proxy, 4).await;
    assert_eq!(redis.demand(&["GET", "key"]).await.text().unwrap(), "1");
    assert_eq!(proxy.counts().to_client_bytes, 0);
    proxy.set(ProxyFault::None);
    assert!(client.command(&["PING"]).await.is_err());
}

#[tokio::test]
async fn connections_are_reset() {
    let proxy = FaultProxy::start(echo().await).await;
    let mut existing = connect(&proxy).await;
    exchange(&mut existing, b"before").await.unwrap();
    proxy.set(ProxyFault::Reset);
    assert_eq!(existing.read_u8().await.unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!(failure_of_new(&proxy).await, ErrorKind::ConnectionReset);
    proxy.set(ProxyFault::None);
    assert!(exchange(&mut connect(&proxy).await, b"after").await.is_ok());
    // However short it was.
    let mut existing = connect(&proxy).await;
    exchange(&mut existing, b"before").await.unwrap();
    proxy.set(ProxyFault::Reset);
    proxy.set(ProxyFault::None);
    assert_eq!(existing.read_u8().await.unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn connections_are_refused_until_the_fault_is_lifted() {
    let proxy = FaultProxy::start(echo().await).await;
    let mut existing = connect(&proxy).await;
    exchange(&mut existing, b"before").await.unwrap();
    proxy.set(ProxyFault::Refuse);
    assert_eq!(failure_of_new(&proxy).await, ErrorKind::ConnectionRefused);
    assert!(is_closed(&mut existing).await);
    proxy.set(ProxyFault::None);
    assert_eq!(exchange(&mut connect(&proxy).await, b"after").await.unwrap(), b"after");
}

#[tokio::test]
async fn bandwidth_is_limited() {
    let proxy = FaultProxy::start(echo().await).await;
    proxy.set(ProxyFault::Bandwidth { bytes_per_second: 100_000 });
    let start = Instant::now();
    exchange_large(&mut connect(&proxy).await, 20_000).await;
    // 20 kB take 200 ms; a portion is free at the start.
    assert!(start.elapsed() > Duration::from_millis(150), "{:?}", start.elapsed());
}

#[tokio::test]
async fn answers_are_replaced_by_the_seeds_garbage() {
    let upstream = echo().await;
    let mut answers = Vec::new();
    for _ in 0..2 {
        let proxy = FaultProxy::start(upstream).await;
        proxy.set(ProxyFault::Garbage { seed: 7 });
        let mut stream = connect(&proxy).await;
        answers.push(exchange(&mut stream, b"ten bytes.").await.unwrap());
        assert_eq!(proxy.counts().to_upstream_bytes, 10);
        proxy.set(ProxyFault::None);
        assert!(is_closed(&mut stream).await);
    }
    assert_ne!(answers[0], b"ten bytes.");
    assert_eq!(answers[0], answers[1]);
}

#[tokio::test]
async fn without_an_upstream_connections_are_reset() {
    let proxy = FaultProxy::start(SocketAddr::from(([127, 0, 0, 1], tidegate_testkit::free_port()))).await;
    assert_eq!(failure_of_new(&proxy).await, ErrorKind::ConnectionReset);
}
