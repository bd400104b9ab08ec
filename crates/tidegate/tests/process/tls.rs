//! TLS as operators meet it: certificates in files, replaced while the node runs; clients that people have.

use crate::support::{Directory, Node, SOON, poll, run};
use std::process::{Command, Output};
use tidegate_testkit::{Authority, Issued};

const FLAGS: [&str; 4] = ["--tls-certificate", "server.pem", "--tls-key", "server.key"];

fn write(directory: &Directory, issued: &Issued) {
    directory.write("server.key", &issued.key);
    directory.write("server.pem", &issued.certificate);
}

fn curl(directory: &Directory, node: &Node, authority: &str, more: &[&str]) -> Output {
    let body = r#"{"namespace":"demo","identifier":"me","limit":5,"duration_ms":60000}"#;
    let url = format!("https://{}/v1/limit", node.http);
    let arguments = ["-sS", "-m", "5", "--cacert", authority, "-d", body, &url];
    let output = Command::new("curl").args(arguments).args(more).current_dir(directory.path("")).output();
    output.expect("curl")
}

fn is_served(output: &Output) -> bool {
    String::from_utf8_lossy(&output.stdout).contains("\"limits\"")
}

#[test]
fn curl_and_redis_cli_are_served_and_certificates_are_replaced_while_the_node_runs() {
    let directory = Directory::new();
    let (old, new) = (Authority::new(), Authority::new());
    directory.write("old-ca.pem", old.pem());
    directory.write("new-ca.pem", new.pem());
    write(&directory, &old.server());
    let node = Node::start(&directory, &FLAGS);
    assert!(node.banner.contains("https://127.0.0.1"), "{}", node.banner);
    assert!(is_served(&curl(&directory, &node, "old-ca.pem", &[])));
    assert!(!is_served(&curl(&directory, &node, "new-ca.pem", &[])), "another authority's node");
    let port = node.resp.rsplit(':').next().unwrap();
    let words = ["-p", port, "--tls", "--cacert", "old-ca.pem", "CL.THROTTLE", "k", "15", "30", "60"];
    let throttled = Command::new("redis-cli").args(words).current_dir(directory.path("")).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&throttled.stdout), "0\n16\n15\n-1\n2\n");

    let url = format!("https://{}", node.http);
    let asked = run(&Directory::new(), &["check", "api", "--url", &url], &[]);
    assert!(asked.code == Some(2) && asked.stderr.contains("--ca PATH"), "{}", asked.stderr);
    for (ca, code) in [("old-ca.pem", 0), ("new-ca.pem", 2)] {
        let ca = directory.path(ca);
        let asked =
            run(&Directory::new(), &["check", "api", "--url", &url, "--ca", ca.to_str().unwrap()], &[]);
        assert_eq!(asked.code, Some(code), "{}", asked.stderr);
    }

    let plain =
        Command::new("curl").args(["-sS", "-m", "5", &format!("http://{}/healthz", node.http)]).output();
    assert!(!plain.unwrap().status.success(), "plain HTTP isn't answered");

    directory.write("server.pem", "-----BEGIN CERTIFICATE-----\nnonsense\n");
    poll("the trouble told", SOON, || directory.read("stderr").contains("can't be reloaded").then_some(()));
    assert!(is_served(&curl(&directory, &node, "old-ca.pem", &[])), "the old one stays");
    write(&directory, &new.server());
    poll("the new certificate", SOON, || {
        is_served(&curl(&directory, &node, "new-ca.pem", &[])).then_some(())
    });
}

#[test]
fn who_has_no_certificate_of_the_clients_authority_is_refused() {
    let directory = Directory::new();
    let (authority, clients, strangers) = (Authority::new(), Authority::new(), Authority::new());
    directory.write("ca.pem", authority.pem());
    directory.write("clients-ca.pem", clients.pem());
    write(&directory, &authority.server());
    for (name, issued) in [("client", clients.client()), ("stranger", strangers.client())] {
        directory.write(&format!("{name}.pem"), &issued.certificate);
        directory.write(&format!("{name}.key"), &issued.key);
    }
    let node = Node::start(&directory, &[&FLAGS[..], &["--tls-client-ca", "clients-ca.pem"]].concat());
    let ask = |flags: &[&str]| is_served(&curl(&directory, &node, "ca.pem", flags));
    assert!(ask(&["--cert", "client.pem", "--key", "client.key"]));
    assert!(!ask(&["--cert", "stranger.pem", "--key", "stranger.key"]));
    assert!(!ask(&[]));
}

#[test]
fn bad_certificates_keep_a_node_from_starting() {
    let directory = Directory::new();
    let missing = run(&directory, &[&["serve"], &FLAGS[..]].concat(), &[]);
    assert_eq!(missing.code, Some(2), "a key that isn't there may be the key itself: {}", missing.stderr);
    write(&directory, &Authority::new().server());
    directory.write("server.key", &Authority::new().server().key);
    let wrong = run(&directory, &[&["serve"], &FLAGS[..]].concat(), &[]);
    assert_eq!(wrong.code, Some(1));
    assert!(wrong.stderr.contains("must belong together"), "{}", wrong.stderr);
    let half = run(&directory, &["serve", "--tls-certificate", "server.pem"], &[]);
    assert!(half.code == Some(2) && half.stderr.contains("is set without tls.key"), "{}", half.stderr);
}
