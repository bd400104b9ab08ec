//! A secret is never printed: not by `--print-config`, not in an error, not in the most detailed log.

use crate::support::{Directory, Node, SOON, request, run};
use rustix::process::Signal;

const SECRET: &str = "correct-horse-battery-staple";
const URL: &str = "redis://user:correct-horse-battery-staple@h:port";

#[test]
fn no_error_quotes_a_secret() {
    let in_file = |line: &str| Some(line.replace("SECRET", SECRET));
    type Case<'a> = (Option<String>, &'a [&'a str], &'a [(&'a str, &'a str)]);
    let cases: [Case<'_>; 8] = [
        (None, &["--origin-url", URL], &[]),
        (None, &[], &[("TIDEGATE_ORIGIN_URL", URL)]),
        (None, &[], &[("TIDEGATE_ORIGIN_URL_FILE", "url")]),
        (None, &[], &[("TIDEGATE_ORIGIN_ULR", URL)]),
        (in_file("origin.url = \"redis://:SECRET@\"\n"), &[], &[]),
        (in_file("origin.url = [\"redis://SECRET@h\"]\n"), &[], &[]),
        (in_file("origin.ulr = \"redis://SECRET@h\"\n"), &[], &[]),
        (in_file("origin.url = \"redis://SECRET@h\n"), &[], &[]),
    ];
    for (file, flags, environment) in cases {
        let directory = Directory::new();
        directory.write("url", URL);
        directory.write("tidegate.toml", file.clone().unwrap_or_default());
        let started = run(&directory, &[&["serve", "--print-config"], flags].concat(), environment);
        assert_eq!(started.code, Some(2), "{file:?} {flags:?} {environment:?}");
        let told = started.stdout + &started.stderr;
        assert!(!told.contains(SECRET), "{told}");
        assert!(
            told.contains("origin") || told.contains("ORIGIN") || told.contains("tidegate.toml:1"),
            "{told}"
        );
    }
}

#[test]
fn a_secret_in_place_of_its_path_isnt_quoted() {
    const KEY: &str = "3f9a8c7b6d5e4f3a2b1c0d9e8f7a6b5c";
    type Case<'a> = (&'a str, &'a [&'a str], &'a [(&'a str, &'a str)]);
    let cases: [Case<'_>; 5] = [
        ("", &[], &[("TIDEGATE_ORIGIN_URL_FILE", "redis://u:3f9a8c7b6d5e4f3a2b1c0d9e8f7a6b5c@h")]),
        ("", &[], &[("TIDEGATE_CLUSTER_SECRET_FILE", KEY)]),
        ("", &[], &[("TIDEGATE_CLUSTER_SECRET_FILE_FILE", KEY)]),
        ("", &["--cluster-secret-file", KEY], &[]),
        ("cluster.secret_file = \"3f9a8c7b6d5e4f3a2b1c0d9e8f7a6b5c\"\n", &[], &[]),
    ];
    for (file, flags, environment) in cases {
        let directory = Directory::new();
        directory.write("tidegate.toml", file);
        let started = run(&directory, &[&["serve", "--print-config"], flags].concat(), environment);
        assert_eq!(started.code, Some(2), "{file:?} {flags:?} {environment:?}");
        let told = started.stdout + &started.stderr;
        assert!(!told.contains(&KEY[..8]) && told.contains("(hidden)"), "{told}");
        assert!(told.contains("that takes the path of a file, not the secret itself"), "{told}");
    }
}

#[test]
fn a_secret_that_was_set_is_shown_as_set() {
    let directory = Directory::new();
    directory.write("key", SECRET);
    let flags = ["--print-config", "--origin-url", "memory:", "--cluster-secret-file", "key"];
    let printed = run(&directory, &flags, &[]);
    assert_eq!(printed.code, Some(0), "{}", printed.stderr);
    assert!(printed.stdout.contains("(set)") && !printed.stdout.contains(SECRET), "{}", printed.stdout);
}

#[test]
fn a_password_in_an_address_is_shown_as_set() {
    let directory = Directory::new();
    let url = format!("redis+sentinel://u:{SECRET}@h:1/m?sentinel_password={SECRET}");
    directory.write("tidegate.toml", format!("origin.url = \"{url}\"\n"));
    let printed = run(&directory, &["--print-config"], &[]);
    assert_eq!(printed.code, Some(0), "{}", printed.stderr);
    assert!(printed.stdout.contains("(set)") && !printed.stdout.contains(SECRET), "{}", printed.stdout);
}

#[test]
fn a_node_never_tells_its_key() {
    let directory = Directory::new();
    directory.write("key", SECRET);
    let mut node = Node::start(&directory, &["--cluster-secret-file", "key", "--log-level", "trace"]);
    let body = r#"{"namespace":"demo","identifier":"me","limit":5,"duration_ms":60000}"#;
    let (_, answer) = request(&node.http, "POST", "/v1/limit", body);
    let state = node.state();
    node.process.signal(Signal::TERM);
    assert_eq!(node.process.exit_code(SOON), Some(0));
    let told = format!("{}{answer}{state}{}", node.banner, directory.read("stderr"));
    assert!(told.contains("stopping") && !told.contains(SECRET), "{told}");
}
