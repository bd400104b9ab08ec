//! Real proxies before a real node, with the configurations of `examples/`.

use crate::support::{Directory, Node, Process, SOON, poll, rules_of};
use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};

/// A service that answers everything with 200, on a thread that ends with the test.
fn upstream() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut stream = stream;
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            let _ =
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nhello\n");
        }
    });
    address
}

fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

/// The example, with the addresses of this test.
fn example(name: &str, proxy: &str, node: &str, upstream: &str) -> String {
    let path = format!("{}/../../examples/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let [listens, asks, passes] = ["127.0.0.1:8000", "127.0.0.1:8080", "127.0.0.1:9000"];
    for address in [listens, asks, passes] {
        assert!(text.contains(address), "{name} names {address}");
    }
    text.replace(listens, proxy).replace(asks, node).replace(passes, upstream)
}

fn spawn(directory: &Directory, program: &str, arguments: &[&str]) -> Process {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(directory.path("")).stdin(Stdio::null());
    command.env("HOME", directory.path("")).stdout(File::create(directory.path("proxy-stdout")).unwrap());
    command.stderr(File::create(directory.path("proxy-stderr")).unwrap());
    Process(
        command.spawn().unwrap_or_else(|error| panic!("{program}: {error}; `cargo xtask test` installs it")),
    )
}

/// The head of a proxied answer, in lower case.
fn get(proxy: &str, user: &str) -> Option<String> {
    let mut stream = TcpStream::connect(proxy).ok()?;
    stream.set_read_timeout(Some(SOON)).unwrap();
    // What a caller says about itself by Tidegate's own header must not count.
    let request = format!(
        "GET /things HTTP/1.1\r\nHost: {proxy}\r\nX-User: {user}\r\nX-Tidegate-User: somebody-else\r\n\
         Connection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    text.split_once("\r\n\r\n").map(|(head, _)| head.to_lowercase())
}

fn status(head: &str) -> &str {
    &head[9..12]
}

/// Two pass and the third doesn't, for each caller.
fn limits_two(proxy: &str) -> String {
    poll("the proxy's first answer", SOON, || get(proxy, "first"));
    let heads = [(); 3].map(|()| get(proxy, "caller").unwrap());
    assert_eq!(heads.each_ref().map(|head| status(head)), ["200", "200", "429"], "{heads:?}");
    assert_eq!(status(&get(proxy, "another").unwrap()), "200");
    let [_, _, denied] = heads;
    assert!(denied.contains("\r\nretry-after: "), "{denied}");
    assert!(denied.contains("\r\nx-ratelimit-limit: 2"), "{denied}");
    denied
}

#[test]
fn nginx_limits_through_a_node_and_passes_without_one() {
    let directory = Directory::new();
    directory.write("rules.yaml", rules_of(2));
    let (node, proxy) = (Node::start(&directory, &[]), free_address());
    let config = example("nginx.conf", &proxy, &node.http, &upstream());
    // Where nginx writes by default, only root may.
    let places = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let places: String = places.iter().map(|place| format!("{place}_temp_path {place};\n")).collect();
    let config = config.replace("http {", &format!("http {{\n{places}access_log off;\n"));
    directory.write("nginx.conf", format!("daemon off;\nmaster_process off;\npid nginx.pid;\n{config}"));
    let prefix = directory.path("").display().to_string();
    let config = directory.path("nginx.conf").display().to_string();
    let _nginx = spawn(&directory, "nginx", &["-p", &prefix, "-c", &config, "-e", "stderr"]);
    limits_two(&proxy);
    drop(node);
    assert_eq!(status(&get(&proxy, "caller").unwrap()), "200", "Tidegate is away");
}

#[test]
fn caddy_limits_through_a_node() {
    let directory = Directory::new();
    directory.write("rules.yaml", rules_of(2));
    let (node, proxy) = (Node::start(&directory, &[]), free_address());
    directory.write("Caddyfile", example("Caddyfile", &proxy, &node.http, &upstream()));
    let config = directory.path("Caddyfile").display().to_string();
    let _caddy = spawn(&directory, "caddy", &["run", "--adapter", "caddyfile", "--config", &config]);
    let denied = limits_two(&proxy);
    assert!(denied.contains("\r\nratelimit-policy: \"per-user\";q=2;w=31536000"), "{denied}");
}
