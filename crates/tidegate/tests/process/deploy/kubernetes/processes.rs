//! Processes that run by the manifests' own arguments and variables: their probes succeed, two control planes may
//! start at once, and rules go all the way from a push to a sidecar.

use super::{list, manifests, mounted, ours, text, variables, workloads, write_secrets};
use crate::support::{Directory, Node, Process, SOON, parse, poll, request, request_with, run, start};
use serde_json::Value;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use tidegate_testkit::MariaDb;

/// The container of the workload with this name.
fn container(name: &str) -> Value {
    let documents = manifests();
    let workload = workloads(&documents).into_iter().find(|workload| workload["metadata"]["name"] == name);
    ours(workload.unwrap()).clone()
}

/// Each probe as the kubelet would make it: from outside, without a token.
fn assert_probed(container: &Value, address: &str) {
    for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
        let path = text(&container[probe]["httpGet"]["path"]);
        poll(probe, SOON * 4, || {
            let answer = request_with(address, &format!("GET {path}"), "", "");
            answer.starts_with("HTTP/1.1 200 ").then_some(())
        });
    }
}

#[test]
fn a_sidecar_runs_by_its_manifest_and_serves_the_api_by_its_socket_and_token() {
    let (container, directory) = (container("api"), Directory::new());
    write_secrets(&directory, "");
    let given = variables(&container, &directory);
    let environment: Vec<(&str, &str)> = given.iter().map(|(name, value)| (&**name, &**value)).collect();
    assert_eq!(list(&container["args"]), ["serve"]);
    // The manifest's address, on a port that is free.
    let node = Node::start_with(&directory, &["--listen-admin", "0.0.0.0:0"], &environment);
    assert_probed(&container, &node.admin);
    let token = std::fs::read_to_string(directory.path("secret/caller-token")).unwrap();
    let ask = |headers: &str| {
        let mut stream = UnixStream::connect(directory.path("socket/tidegate.sock")).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        let (body, length) = (crate::support::CHECK, crate::support::CHECK.len());
        let head = format!(
            "POST /v1/check HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}Content-Length: {length}\r\n\r\n"
        );
        stream.write_all((head + body).as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        parse(&answer)
    };
    let (status, answer) = ask(&format!("Authorization: Bearer {}\r\n", token.trim()));
    assert_eq!((status, &answer["allowed"]), (200, &true.into()), "{answer}");
    assert_eq!(ask("").0, 401);
    assert_eq!(request(&node.admin, "GET", "/metrics", "").0, 401, "what Prometheus asks for needs a token");
}

/// A process of `tidegate control` by a container, in a directory of its own that has the secrets.
struct Control {
    _process: Process,
    directory: Directory,
}

impl Control {
    fn start(container: &Value, store: &str, tokens: Option<&Control>, upstream: Option<&str>) -> Self {
        let directory = Directory::new();
        match tokens {
            None => write_secrets(&directory, store),
            Some(other) => {
                let secret = mounted(&directory, "secret");
                for entry in std::fs::read_dir(other.directory.path("secret")).unwrap().map(Result::unwrap) {
                    std::fs::copy(entry.path(), secret.join(entry.file_name())).unwrap();
                }
            }
        }
        let mut given = variables(container, &directory);
        for (name, value) in &mut given {
            match (name.as_str(), upstream) {
                ("TIDEGATE_CONTROL_LISTEN", _) => *value = "0.0.0.0:0".to_owned(),
                ("TIDEGATE_CONTROL_UPSTREAM", Some(upstream)) => *value = upstream.to_owned(),
                _ => {}
            }
        }
        let environment: Vec<(&str, &str)> = given.iter().map(|(name, value)| (&**name, &**value)).collect();
        let arguments: Vec<&str> = list(&container["args"]).iter().map(text).collect();
        Control { _process: start(&directory, &arguments, &environment), directory }
    }

    fn address(&self) -> String {
        poll("a banner", SOON * 4, || {
            let banner = self.directory.read("stdout");
            let line = banner.lines().find_map(|line| line.trim().strip_prefix("control http://"));
            line.map(|address| address.replace("0.0.0.0", "127.0.0.1"))
        })
    }
}

#[test]
fn two_control_planes_start_at_once_and_rules_reach_a_sidecar_through_a_broker() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let database = runtime.block_on(MariaDb::shared());
    database.create_database("deployed");
    let store = format!("{}\n", database.url("deployed"));
    let (plane, broker) = (container("tidegate-control"), container("tidegate-broker"));
    let first = Control::start(&plane, &store, None, None);
    let second = Control::start(&plane, &store, Some(&first), None);
    for control in [&first, &second] {
        assert_probed(&plane, &control.address());
    }
    let upstream = format!("http://{}", second.address());
    let relay = Control::start(&broker, &store, Some(&first), Some(&upstream));
    let health = |control: &Control| {
        run(&Directory::new(), &["health", "--url", &format!("http://{}", control.address())], &[]).code
    };
    assert_eq!(health(&relay), Some(1), "before the first push a broker isn't ready");

    let directory = Directory::new();
    directory.write("rules.yaml", crate::support::rules_of(3));
    let operator = first.directory.path("secret/operator-token").display().to_string();
    let arguments =
        ["rules", "push", "rules.yaml", "--yes", "--control", &format!("http://{}", first.address())]
            .map(str::to_owned);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let pushed = run(&directory, &arguments, &[("TIDEGATE_TOKEN_FILE", &operator)]);
    assert_eq!(pushed.code, Some(0), "{}{}", pushed.stdout, pushed.stderr);
    assert_probed(&broker, &relay.address());

    // The sidecar, after the page's `kubectl set env`.
    let (container, place) = (container("api"), Directory::new());
    write_secrets(&place, "");
    let followers = first.directory.path("secret/follower-token").display().to_string();
    let mut given = variables(&container, &place);
    given.retain(|(name, _)| name != "TIDEGATE_RULES_FILE");
    given.push(("TIDEGATE_RULES_CONTROL".to_owned(), format!("http://{}", relay.address())));
    given.push(("TIDEGATE_TOKEN_FILE".to_owned(), followers));
    let environment: Vec<(&str, &str)> = given.iter().map(|(name, value)| (&**name, &**value)).collect();
    let node = Node::start_with(&place, &["--listen-admin", "0.0.0.0:0"], &environment);
    poll("the pushed rules in the sidecar", SOON * 4, || {
        (request(&node.admin, "GET", "/readyz", "").1["rule_version"] == 1).then_some(())
    });
}
