//! The Redis protocol, by the clients that people have: redis-cli, redis-benchmark, redis-py, and raw bytes.

use crate::support::{Directory, Node, SOON, connect};
use rustix::process::Signal;
use std::io::{Read, Write};
use std::process::Command;
use tidegate_client::RedisClient;
use tidegate_testkit::wheel;

/// Runs a client to its end; what it printed.
fn client(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("{program} (package redis-tools): {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (printed, complained) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{program} {arguments:?}: {printed}{complained}");
    printed + &complained
}

fn port(node: &Node) -> &str {
    node.resp.rsplit(':').next().unwrap()
}

fn redis_cli(node: &Node, words: &[&str]) -> String {
    client("redis-cli", &[&["-p", port(node)], words].concat())
}

#[test]
fn the_line_to_try_is_limited_after_sixteen_times() {
    let node = Node::start(&Directory::new(), &[]);
    let line = node.banner.lines().find(|line| line.contains("redis-cli")).unwrap();
    assert_eq!(line.trim(), format!("redis-cli -p {} CL.THROTTLE user123 15 30 60", port(&node)));
    let words: Vec<&str> = line.split_whitespace().skip(1).collect();
    let replies: Vec<String> = (0..17).map(|_| client("redis-cli", &words)).collect();
    assert_eq!(replies[0], "0\n16\n15\n-1\n2\n");
    assert!(replies[..16].iter().all(|reply| reply.starts_with("0\n16\n")), "{replies:?}");
    assert!(replies[16].starts_with("1\n16\n0\n"), "{replies:?}");
}

#[test]
fn redis_cli_speaks_both_protocols_and_hears_errors_as_redis_words_them() {
    let node = Node::start(&Directory::new(), &[]);
    assert_eq!(redis_cli(&node, &["PING"]), "PONG\n");
    assert_eq!(redis_cli(&node, &["-3", "PING"]), "PONG\n");
    assert!(redis_cli(&node, &["-3", "HELLO"]).contains("proto 3"));
    assert_eq!(redis_cli(&node, &["-a", "secret", "--no-auth-warning", "CLIENT", "GETNAME"]), "\n");
    assert!(redis_cli(&node, &["INFO"]).contains("tidegate_version:"));
    let unknown = redis_cli(&node, &["GET", "a"]);
    assert!(unknown.starts_with("ERR unknown command 'GET', with args beginning with: 'a'"), "{unknown}");
    let wrong = redis_cli(&node, &["CL.THROTTLE", "k", "1", "x", "1"]);
    assert!(wrong.starts_with("ERR value is not an integer or out of range"), "{wrong}");
}

#[test]
fn the_unix_socket_answers_the_same_keys() {
    let directory = Directory::new();
    let path = directory.path("s");
    let node = Node::start(&directory, &["--listen-unix", path.to_str().unwrap()]);
    let socket = format!("{}.resp", path.display());
    assert_eq!(redis_cli(&node, &["CL.THROTTLE", "k", "15", "30", "60"]), "0\n16\n15\n-1\n2\n");
    let over_unix = client("redis-cli", &["-s", &socket, "CL.THROTTLE", "k", "15", "30", "60"]);
    assert!(over_unix.starts_with("0\n16\n14\n-1\n"), "{over_unix}");
}

#[test]
fn redis_benchmark_runs_without_a_warning() {
    let node = Node::start(&Directory::new(), &[]);
    let common = ["-p", port(&node), "-c", "20", "-n", "19200", "-q", "-r", "1000"];
    let throttle = ["CL.THROTTLE", "k:__rand_int__", "15", "30", "60"];
    for pipelined in ["1", "16", "64"] {
        let printed = client("redis-benchmark", &[&common[..], &["-P", pipelined], &throttle].concat());
        assert!(printed.contains("requests per second"), "{printed}");
        for complaint in ["WARNING", "ERR", "Error", "Could not"] {
            assert!(!printed.contains(complaint), "{printed}");
        }
    }
    let decided = |name: &str| node.state()["stats"][name].as_u64().unwrap();
    assert_eq!(decided("requests_admitted") + decided("requests_denied"), 3 * 19_200);
}

const REDIS_PY: &str = "
import redis, sys
for protocol in (2, 3):
    r = redis.Redis(port=int(sys.argv[1]), protocol=protocol, client_name='web-1', password='secret')
    assert r.ping() is True
    key = f'py-{protocol}'
    assert r.execute_command('CL.THROTTLE', key, 15, 30, 60) == [0, 16, 15, -1, 2]
    with r.pipeline(transaction=False) as pipe:
        for _ in range(20):
            pipe.execute_command('CL.THROTTLE', key, 15, 30, 60)
        limited = [reply[0] for reply in pipe.execute()]
    assert limited == [0] * 15 + [1] * 5, limited
    assert r.client_getname() in ('web-1', b'web-1')
    assert r.client_id() > 0
    assert r.info()['tidegate_region'] == 'local'
    try:
        r.get('a')
        raise SystemExit('GET was answered')
    except redis.ResponseError as error:
        assert str(error).startswith('unknown command'), error
    r.close()
print('fine')
";

#[test]
fn redis_py_works_with_only_the_port_changed() {
    let package = wheel("redis-py", "redis==5.2.1", &[]).unwrap();
    let node = Node::start(&Directory::new(), &[]);
    let mut command = Command::new("python3");
    command.args(["-c", REDIS_PY, port(&node)]).env("PYTHONPATH", package);
    let output = command.output().expect("python3");
    let complained = String::from_utf8_lossy(&output.stderr);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "fine\n", "{complained}");
}

#[test]
fn the_rust_client_of_the_redis_protocol_works_over_tcp_and_over_the_unix_socket() {
    let directory = Directory::new();
    let path = directory.path("node.sock");
    let node = Node::start(&directory, &["--listen-unix", &path.display().to_string()]);
    let clients = [RedisClient::tcp(&*node.resp), RedisClient::unix(directory.path("node.sock.resp"))];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for (client, key) in clients.map(|client| client.deadline(SOON)).iter().zip(["tcp", "unix"]) {
        let ask = || runtime.block_on(client.throttle(key, 15, (30, 60), 1)).unwrap();
        let answers: Vec<_> = (0..17).map(|_| ask()).collect();
        assert!(answers.iter().all(|answer| !answer.is_failure), "{answers:?}");
        assert_eq!((answers[0].limit, answers[0].remaining), (16, 15));
        assert!(answers[..16].iter().all(|answer| answer.allowed), "{answers:?}");
        assert!(!answers[16].allowed && answers[16].retry_after.is_some(), "{answers:?}");
    }
    drop(node);
    for client in clients_of_nobody(&directory) {
        assert!(runtime.block_on(client.throttle("k", 15, (30, 60), 1)).unwrap().is_failure);
    }
}

fn clients_of_nobody(directory: &Directory) -> [RedisClient; 2] {
    [RedisClient::tcp("127.0.0.1:1"), RedisClient::unix(directory.path("node.sock.resp"))]
}

#[test]
fn a_pipeline_sent_before_the_signal_is_answered_and_the_counts_are_kept() {
    let directory = Directory::new();
    let mut node = Node::start(&directory, &[]);
    let mut stream = connect(&node.resp);
    let commands = "CL.THROTTLE k 99 1 3600\r\n".repeat(40);
    stream.write_all(commands.as_bytes()).unwrap();
    let mut first = [0; 4];
    stream.read_exact(&mut first).unwrap();
    node.process.signal(Signal::TERM);
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert_eq!(rest.matches(":0\r\n:100\r\n").count(), 40, "{rest}");
    assert_eq!(node.process.exit_code(SOON), Some(0));
    let again = Node::start(&directory, &[]);
    assert!(redis_cli(&again, &["CL.THROTTLE", "k", "99", "1", "3600"]).starts_with("0\n100\n59\n"));
}
