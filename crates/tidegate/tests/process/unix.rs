//! A node on a Unix socket.

use crate::support::{Directory, Node, SOON, parse, run};
use rustix::process::Signal;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

const LIMIT: &str = r#"{"namespace":"n","identifier":"i","limit":1,"duration_ms":31536000000}"#;

fn is_allowed(path: &Path) -> bool {
    let mut stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    let length = LIMIT.len();
    let head = format!(
        "POST /v1/limit HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all((head + LIMIT).as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (status, answer) = parse(&text);
    assert_eq!(status, 200, "{text}");
    answer["allowed"] == true
}

#[test]
fn it_limits_there_as_on_tcp_and_leaves_no_file_behind() {
    let directory = Directory::new();
    let path = directory.path("tidegate.sock");
    let mut node = Node::start(&directory, &["--listen-unix", "tidegate.sock"]);
    assert!(node.banner.contains("unix   tidegate.sock"), "{}", node.banner);
    assert!(is_allowed(&path));
    assert!(!is_allowed(&path));
    let (_, answer) = crate::support::request(&node.http, "POST", "/v1/limit", LIMIT);
    assert_eq!(answer["allowed"], false, "one node, one count");
    node.process.signal(Signal::TERM);
    assert_eq!(node.process.exit_code(SOON), Some(0));
    assert!(!path.exists() && !directory.path("tidegate.sock.resp").exists());
}

#[test]
fn a_socket_that_a_killed_node_left_is_taken_over_and_a_living_ones_is_not() {
    let directory = Directory::new();
    let path = directory.path("tidegate.sock");
    let mut killed = Node::start(&directory, &["--listen-unix", "tidegate.sock"]);
    killed.process.signal(Signal::KILL);
    killed.process.exit_code(SOON);
    assert!(path.exists());
    let node = Node::start(&directory, &["--listen-unix", "tidegate.sock"]);
    assert!(is_allowed(&path));
    let addresses = ["--listen-http", "--listen-grpc", "--listen-resp", "--listen-admin"];
    let mut arguments = vec!["serve", "--listen-unix", "tidegate.sock"];
    arguments.extend(addresses.iter().flat_map(|flag| [*flag, "127.0.0.1:0"]));
    let second = run(&directory, &arguments, &[]);
    assert_eq!(second.code, Some(1));
    assert!(second.stderr.contains("listen.unix: can't listen on tidegate.sock"), "{}", second.stderr);
    assert!(second.stderr.contains("choose another path"), "{}", second.stderr);
    assert!(!is_allowed(&path), "the first node still answers");
    drop(node);
}

#[test]
fn what_is_no_socket_is_never_removed() {
    let directory = Directory::new();
    directory.write("precious", "data");
    let started = run(
        &directory,
        &[
            "serve",
            "--listen-unix",
            "precious",
            "--listen-http",
            "127.0.0.1:0",
            "--listen-grpc",
            "127.0.0.1:0",
            "--listen-resp",
            "127.0.0.1:0",
            "--listen-admin",
            "127.0.0.1:0",
        ],
        &[],
    );
    assert_eq!(started.code, Some(1), "{}", started.stderr);
    assert_eq!(directory.read("precious"), "data");
}
