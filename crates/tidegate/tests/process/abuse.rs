//! Clients that want the node to suffer: slow ones, many, and those that never read. Others notice nothing.

use crate::envoy::abuse::{PING, SETTINGS, begun, frame};
use crate::support::{Directory, Node, SOON, connect, parse, poll, request};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, setrlimit};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const BODY: &str = r#"{"namespace":"demo","identifier":"me","limit":5000000,"duration_ms":60000}"#;
const SLOW_CONNECTIONS: usize = 2000;
/// Ten seconds for a request's head, looked at every two, on a machine with other things to do.
const HEAD_MAX: Duration = Duration::from_secs(30);
/// What a client that takes nothing may cost: kernel buffers aren't the process's.
const MEMORY_KB_MAX: u64 = 16 << 10;

fn started(arguments: &[&str]) -> (Directory, Node) {
    let directory = Directory::new();
    let node = Node::start(&directory, arguments);
    (directory, node)
}

fn id(node: &Node) -> Pid {
    Pid::from_raw(node.process.0.id().try_into().unwrap()).unwrap()
}

/// A number of `/proc/<id>/status`, in kB where it is memory.
fn status(node: &Node, name: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/status", node.process.0.id())).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap()
}

/// Of the whole process, in ticks of 10 ms.
fn processor_ticks(node: &Node) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/stat", node.process.0.id())).unwrap();
    let fields: Vec<&str> = text.rsplit(") ").next().unwrap().split(' ').collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

fn post(path: &str, body: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// The 99th percentile of requests on one connection, one at a time.
#[expect(clippy::disallowed_methods, reason = "how long another process takes")]
fn p99(node: &Node) -> Duration {
    let mut stream = connect(&node.http);
    stream.set_nodelay(true).unwrap();
    let (request, mut answer) = (post("/v1/limit", BODY), [0; 4096]);
    let mut times: Vec<Duration> = (0..1000)
        .map(|_| {
            let begun = Instant::now();
            stream.write_all(request.as_bytes()).unwrap();
            let count = stream.read(&mut answer).unwrap();
            assert!(answer[..count].starts_with(b"HTTP/1.1 200"));
            begun.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[times.len() * 99 / 100]
}

fn is_closed(stream: &mut TcpStream) -> bool {
    match stream.read(&mut [0; 512]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    }
}

#[test]
fn two_thousand_slow_connections_hurt_nobody_and_are_ended() {
    let files = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: files.maximum, ..files }).unwrap();
    let (_directory, node) = started(&[]);
    let alone = p99(&node);
    let mut slow: Vec<TcpStream> = (0..SLOW_CONNECTIONS)
        .map(|_| {
            let mut stream = connect(&node.http);
            stream.write_all(b"POST /v1/limit HTTP/1.1\r\nX-Dribble: ").unwrap();
            stream.set_nonblocking(true).unwrap();
            stream
        })
        .collect();
    let beside = p99(&node);
    println!("p99 {alone:?} alone, {beside:?} beside {SLOW_CONNECTIONS} slow connections");
    assert!(beside < alone * 10 + Duration::from_millis(20), "{alone:?} alone, {beside:?} beside them");
    poll("the end of the slow ones", HEAD_MAX, || {
        // A byte now and then keeps nobody's patience.
        slow.iter_mut().for_each(|stream| drop(stream.write(b"x")));
        slow.retain_mut(|stream| !is_closed(stream));
        slow.is_empty().then_some(())
    });
    let ended = node.state()["stats"]["connections_too_slow"].as_u64().unwrap();
    assert!(ended >= SLOW_CONNECTIONS as u64, "{ended}");
}

/// What a caller is told for whom there is no room. One that is let in, since another was refused in its place, is
/// told nothing and stays.
fn told(address: &str, held: &mut Vec<TcpStream>) -> String {
    poll("a word of refusal", SOON, || {
        let (mut text, mut stream) = (String::new(), connect(address));
        stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let is_told = stream.read_to_string(&mut text).is_ok_and(|count| count > 0);
        held.push(stream);
        is_told.then_some(text)
    })
}

#[test]
fn callers_beyond_the_bound_are_told_so_and_operators_still_served() {
    let (_directory, node) = started(&["--listen-max-connections", "8"]);
    let mut held: Vec<TcpStream> = (0..8).map(|_| connect(&node.http)).collect();
    // Every listener has its own budget.
    connect(&node.resp).write_all(b"PING\r\n").unwrap();
    held.extend((0..16).map(|number| connect(if number % 2 == 0 { &node.resp } else { &node.grpc })));
    let text = told(&node.http, &mut held);
    let (status, refusal) = parse(&text);
    assert_eq!((status, &refusal["error"]["code"]), (503, &"too_many_connections".into()));
    assert!(text.contains("retry-after: 1\r\n"), "{text}");
    assert_eq!(told(&node.resp, &mut held), "-ERR max number of clients reached\r\n");
    assert_eq!(connect(&node.grpc).read(&mut [0; 9]).unwrap(), 0, "closed without a word");
    assert!(node.state()["stats"]["connections_refused"].as_u64().unwrap() >= 3);
    drop(held);
    poll("room", SOON, || {
        let mut stream = connect(&node.http);
        let _ = stream.write_all(post("/v1/limit", BODY).as_bytes());
        let mut answer = [0; 12];
        (stream.read_exact(&mut answer).is_ok() && &answer == b"HTTP/1.1 200").then_some(())
    });
}

/// The node runs out of descriptors: it waits for one, without spinning, and goes on when there is one.
#[test]
fn without_descriptors_the_node_waits_and_goes_on() {
    let (_directory, node) = started(&[]);
    let mut kept = connect(&node.http);
    kept.write_all(post("/v1/limit", BODY).as_bytes()).unwrap();
    assert!(kept.read(&mut [0; 4096]).unwrap() > 0);
    let open = std::fs::read_dir(format!("/proc/{}/fd", node.process.0.id())).unwrap().count() as u64;
    let few = Rlimit { current: Some(open), ..getrlimit(Resource::Nofile) };
    let before = prlimit(Some(id(&node)), Resource::Nofile, few).unwrap();
    let waiting: Vec<TcpStream> = (0..20).map(|_| connect(&node.http)).collect();
    let ticks = processor_ticks(&node);
    let pause = std::sync::mpsc::channel::<()>().1.recv_timeout(Duration::from_secs(1));
    assert!(pause.is_err());
    let spent = processor_ticks(&node) - ticks;
    assert!(spent < 30, "{spent} ticks of 10 ms in a second of waiting");
    kept.write_all(post("/v1/limit", BODY).as_bytes()).unwrap();
    assert!(kept.read(&mut [0; 4096]).unwrap() > 0, "who is connected is served");
    prlimit(Some(id(&node)), Resource::Nofile, before).unwrap();
    drop(waiting);
    assert_eq!(request(&node.http, "POST", "/v1/limit", BODY).0, 200);
    assert!(node.state()["stats"]["accept_failures"].as_u64().unwrap() > 0);
}

/// Sends the same bytes again and again and reads nothing, until the node takes no more of them, or 64 MiB.
fn pour(stream: &mut TcpStream, bytes: &[u8]) -> usize {
    stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let many = bytes.repeat((64 << 10) / bytes.len() + 1);
    let mut poured = 0;
    while poured < 64 << 20 {
        match stream.write(&many) {
            Ok(count) => poured += count,
            Err(_) => break,
        }
    }
    poured
}

#[test]
fn a_client_that_never_reads_costs_little_memory() {
    let (_directory, node) = started(&[]);
    let throttle = b"CL.THROTTLE key 1000000 1 60\r\n";
    // What the first requests make once isn't counted.
    assert_eq!(request(&node.http, "POST", "/v1/limit", BODY).0, 200);
    for (what, address, bytes) in [
        ("http", &node.http, post("/v1/limit", BODY).as_bytes()),
        ("pages", &node.http, b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n"),
        ("resp", &node.resp, throttle),
        ("info", &node.resp, b"INFO\r\n"),
    ] {
        let before = status(&node, "VmRSS:");
        let mut streams: Vec<TcpStream> = (0..4).map(|_| connect(address)).collect();
        let poured: usize = streams.iter_mut().map(|stream| pour(stream, bytes)).sum();
        let grown = status(&node, "VmRSS:").saturating_sub(before);
        println!("{what}: {poured} bytes sent by 4 connections, {grown} kB grown");
        assert!(grown < MEMORY_KB_MAX, "{what}: {grown} kB for {poured} bytes");
        assert!(poured < 4 * (64 << 20), "{what}: somebody who reads nothing was listened to for ever");
    }
    assert_eq!(request(&node.http, "POST", "/v1/limit", BODY).0, 200);
}

#[test]
fn floods_of_pings_and_settings_are_answered_as_fast_as_they_are_read_or_ended() {
    let (_directory, node) = started(&[]);
    for (what, flood) in [("PING", frame(PING, 0, 0, &[7; 8])), ("SETTINGS", frame(SETTINGS, 0, 0, &[]))] {
        let before = status(&node, "VmRSS:");
        let mut stream = begun(&node);
        let poured = pour(&mut stream, &flood);
        let grown = status(&node, "VmRSS:").saturating_sub(before);
        println!("{what}: {poured} bytes sent, {grown} kB grown");
        assert!(grown < MEMORY_KB_MAX, "{what}: {grown} kB for {poured} bytes");
        assert!(poured < 64 << 20, "{what}: a client that reads no answer was listened to for ever");
        crate::envoy::abuse::assert_serves(&node);
    }
}

/// A limit on open files that leaves room for few connections: callers can't take what operators and probes need.
/// Whether a request is answered with 200. One that finds no room is refused, or its connection reset.
fn is_answered(address: &str) -> bool {
    let mut stream = connect(address);
    let head = format!(
        "POST /v1/limit HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        BODY.len()
    );
    let mut text = String::new();
    let sent = stream.write_all((head + BODY).as_bytes());
    sent.is_ok() && stream.read_to_string(&mut text).is_ok() && text.starts_with("HTTP/1.1 200")
}

#[test]
fn few_descriptors_are_shared_so_that_health_checks_are_answered() {
    let directory = Directory::new();
    let files = getrlimit(Resource::Nofile);
    let node = Node::start_limited(&directory, "ulimit -n 60", &[]);
    let mut held: Vec<TcpStream> = Vec::new();
    for number in 0..80 {
        held.push(connect([&node.http, &node.grpc, &node.resp][number % 3]));
    }
    for _ in 0..20 {
        let answer = crate::support::request_with(&node.admin, "GET /healthz", "", "");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    let log = directory.read("stderr");
    assert!(log.contains("the limit on open files leaves room for fewer connections"), "{log}");
    assert!(log.matches("can't accept connections").count() <= 3, "{log}");
    drop(held);
    poll("room", SOON, || is_answered(&node.http).then_some(()));
    assert_eq!(getrlimit(Resource::Nofile), files, "of the node alone");
}
