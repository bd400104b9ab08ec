//! What the documents tell people to do, done: samples of answers, of rules and of settings.
//!
//! Pages that are recipes are run as a whole: `documents/pages.rs` is the list of them.

mod page;
mod pages;

use crate::support::{Directory, Node, run};
use std::process::Command;
use tidegate_testkit::Authority;

fn document(name: &str) -> String {
    let path = format!("{}/../../{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The fenced blocks of one language.
fn blocks<'t>(text: &'t str, language: &str) -> Vec<&'t str> {
    let fence = format!("```{language}\n");
    text.split(&fence).skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

/// The sample answer has exactly the fields of a real one.
#[test]
fn the_readmes_answer_looks_like_a_real_one() {
    let readme = document("README.md");
    let sample: serde_json::Value = serde_json::from_str(blocks(&readme, "json")[0]).expect("JSON");
    let node = Node::start(&Directory::new(), &[]);
    let body =
        readme.split("/v1/limit -d '").nth(1).and_then(|rest| rest.split('\'').next()).expect("a body");
    let (_, real) = crate::support::request(&node.http, "POST", "/v1/limit", body);
    let fields = |value: &serde_json::Value| -> Vec<String> {
        value.as_object().expect("an object").keys().cloned().collect()
    };
    assert_eq!(fields(&sample), fields(&real));
    assert_eq!(fields(&sample["limits"][0]), fields(&real["limits"][0]));
}

/// Whoever reads it to its end should not need more than a few minutes.
#[test]
fn the_readme_stays_below_120_lines() {
    let lines = document("README.md").lines().count();
    assert!(lines < 120, "README.md has {lines} lines: move something to a page of docs");
}

#[test]
fn the_redis_clis_line_is_answered_as_its_page_says() {
    let page = document("docs/resp.md");
    let [line] = blocks(&page, "sh")[..] else { panic!("one line to try") };
    let node = Node::start(&Directory::new(), &[]);
    let (_, port) = node.resp.rsplit_once(':').expect("a port");
    let line = line.replace("6380", port);
    let output = Command::new("bash").args(["-c", &line]).output().expect("bash and redis-cli");
    assert_eq!(String::from_utf8_lossy(&output.stdout), blocks(&page, "text")[0], "{line}");
}

/// Its commands in order, as a person would type them.
#[test]
fn the_page_on_tokens_does_what_it_says() {
    let page = document("docs/auth.md");
    let [make, ask, serve] = blocks(&page, "sh")[..] else { panic!("three blocks to try") };
    let make = make.strip_suffix("tidegate serve\n").expect("the last line starts the node");
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_tidegate")).parent().unwrap();
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap());
    let directory = Directory::new();
    let bash = |script: &str| {
        let mut command = Command::new("bash");
        command.args(["-ec", script]).env("PATH", &path).current_dir(directory.path(""));
        let output = command.output().expect("bash and curl");
        assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let printed = bash(&format!("{make}echo $TOKEN"));
    let token = printed.lines().last().unwrap();
    assert!(printed.contains(&token[3..15]) && token.starts_with("tg_"), "{printed}");
    let node = Node::start(&directory, &["--auth-tokens", "tokens.toml"]);
    let ask = ask.replace("http://127.0.0.1:8080", &node.url());
    assert!(bash(&format!("TOKEN={token}\n{ask}")).contains("\"allowed\":true"));
    assert!(bash(&ask).contains("unauthorized"));
    let (server, clients) = (Authority::new().server(), Authority::new());
    for (name, text) in [
        ("server.pem", server.certificate.as_str()),
        ("server.key", &server.key),
        ("clients.pem", clients.pem()),
    ] {
        directory.write(name, text);
    }
    let shown = bash(&format!("{} --print-config", serve.trim_end()));
    assert!(
        shown.lines().any(|line| line.starts_with("tls.client_ca") && line.contains("clients.pem")),
        "{shown}"
    );
}

#[test]
fn unkeys_line_is_answered_as_its_page_says() {
    let page = document("docs/unkey.md");
    let [line] = blocks(&page, "sh")[..] else { panic!("one line to try") };
    let sample: serde_json::Value = serde_json::from_str(blocks(&page, "json")[0]).expect("JSON");
    let node = Node::start(&Directory::new(), &[]);
    let line = line.replace("http://127.0.0.1:8080", &node.url());
    let output = Command::new("bash").args(["-c", &line]).output().expect("bash and curl");
    let mut real: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    for place in ["/meta/requestId", "/data/reset"] {
        *real.pointer_mut(place).expect(place) = sample.pointer(place).expect(place).clone();
    }
    assert_eq!(real, sample);
}

#[test]
fn every_sample_of_the_rules_reference_is_valid() {
    let reference = document("docs/rules.md");
    let samples = blocks(&reference, "yaml");
    assert!(samples.len() >= 3);
    for sample in samples {
        let directory = Directory::new();
        directory.write("rules.yaml", sample);
        let finished = run(&directory, &["rules", "check"], &[]);
        assert_eq!(finished.code, Some(0), "{sample}\n{}{}", finished.stdout, finished.stderr);
    }
}

#[test]
fn the_envoy_sample_is_valid_and_becomes_the_rules_that_the_document_shows() {
    let text = document("docs/envoy-files.md");
    let samples = blocks(&text, "yaml");
    assert_eq!(samples.len(), 2);
    let directory = Directory::new();
    directory.write("theirs.yaml", samples[0]);
    directory.write("ours.yaml", samples[1]);
    let checked = run(&directory, &["rules", "check", "theirs.yaml"], &[]);
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
    let imported = run(&directory, &["rules", "import-envoy", "theirs.yaml"], &[]);
    assert_eq!((imported.stdout.as_str(), imported.stderr.as_str()), (samples[1], ""));
    assert_eq!(run(&directory, &["rules", "check", "ours.yaml"], &[]).code, Some(0));
}

#[test]
fn the_page_on_telemetry_shows_a_real_line_and_valid_settings() {
    let page = document("docs/telemetry.md");
    let directory = Directory::new();
    directory.write("rules.yaml", crate::support::rules_of(3));
    directory.write("tidegate.toml", blocks(&page, "toml")[0]);
    let printed = run(&directory, &["serve", "--print-config"], &[]);
    assert!(printed.stdout.contains("http://127.0.0.1:4318"), "{}{}", printed.stdout, printed.stderr);
    std::fs::remove_file(directory.path("tidegate.toml")).unwrap();
    let serve = blocks(&page, "sh")[0].trim().strip_prefix("tidegate serve ").expect("how to start it");
    let node = Node::start(&directory, &serve.split(' ').collect::<Vec<_>>());
    let trace = "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n";
    for _ in 0..4 {
        crate::support::request_with(&node.http, "POST /v1/check", trace, crate::support::CHECK);
    }
    let denied = crate::support::poll("a line", crate::support::SOON, || {
        let text = std::fs::read_to_string(directory.path("decisions.json")).unwrap_or_default();
        text.lines().find(|line| line.contains("\"denied\"") && line.ends_with('}')).map(str::to_owned)
    });
    let fields = |text: &str| -> Vec<String> {
        let value: serde_json::Value = serde_json::from_str(text).expect("JSON");
        value.as_object().expect("an object").keys().cloned().collect()
    };
    assert_eq!(fields(blocks(&page, "json")[0]), fields(&denied));
}

/// Its commands in order, and what they print.
#[test]
fn the_page_on_denials_does_what_it_says() {
    let page = document("docs/why.md");
    // What asks a broker is tried where there is one: `tests/rules_control/why.rs`.
    let [of_node, _, of_files] = blocks(&page, "sh")[..] else { panic!("three commands to try") };
    let directory = Directory::new();
    directory.write("rules.yaml", crate::support::rules_of(3));
    let node = Node::start(&directory, &["--node", "9f31c2a47be05d68"]);
    assert_eq!(node.allowed(6, r#"{"namespace":"api","attributes":{"user":"alice"}}"#), 3);
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_tidegate")).parent().unwrap();
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap());
    let said = |line: &str| {
        let mut command = Command::new("bash");
        command.args(["-ec", line]).env("PATH", &path).current_dir(directory.path(""));
        command.env("TIDEGATE_LISTEN_ADMIN", &node.admin);
        let output = command.output().expect("bash");
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    // But for times, their units and ids, word by word.
    let without_digits = |text: &str| {
        let is_name = |word: &str| {
            word.contains(|c: char| c.is_ascii_digit()) || ["ms", "s", "min", "h", "d"].contains(&word)
        };
        text.split_whitespace().filter(|word| !is_name(word)).collect::<Vec<_>>().join(" ")
    };
    let sample = without_digits(blocks(&page, "text")[0]);
    assert_eq!(without_digits(&said(of_node)), sample);
    assert_eq!(without_digits(&said(of_files)), sample);
}
