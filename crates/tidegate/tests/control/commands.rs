//! `tidegate rules push` and its like.

use crate::scene::Server;
use crate::support::{Directory, SOON, poll, start};
use crate::{RULES, done, ready, tidegate};

#[test]
fn rules_are_pushed_shown_compared_changed_and_taken_back() {
    let (server, directory) = (ready(Server::control()), Directory::new());
    directory.write("rules.yaml", RULES);
    let differs = tidegate(&directory, &server, &["rules", "diff", "rules.yaml"]);
    assert_eq!(differs.code, Some(1), "{}", differs.stderr);
    assert!(differs.stdout.contains("+ per-user: about 100 over a sliding 1 minute"), "{}", differs.stdout);
    assert!(!differs.stdout.contains('\u{1b}'), "no colours but on a terminal");
    let asked = tidegate(&directory, &server, &["rules", "push", "rules.yaml"]);
    assert!(asked.code == Some(2) && asked.stderr.contains("--yes"), "{}", asked.stderr);
    let pushed =
        done(&directory, &server, &["rules", "push", "rules.yaml", "--yes", "--reason", "the first"]);
    assert!(pushed.ends_with("3 changes: the rules are at version 1\n"), "{pushed}");
    assert_eq!(
        done(&directory, &server, &["rules", "diff", "rules.yaml"]),
        "nothing would change: the rules are at version 1\n"
    );
    let text = done(&directory, &server, &["rules", "get"]);
    let rules = RULES.split("overrides:").next().unwrap();
    let overrides = "overrides:\n  - { rule: per-user, user: \"acme-*\", limit: 1000 }\n  \
                     - { rule: per-user, user: \"mallory\", limit: 0 }\n";
    assert_eq!(text, format!("# version 1\n---\n{rules}{overrides}"), "comments too");
    directory.write("rules.yaml", RULES.replace("100 per 1m", "50 per 1m").replace("mallory", "eve"));
    let pushed = done(&directory, &server, &["rules", "push", "rules.yaml", "--yes", "--prune-overrides"]);
    assert!(pushed.contains("  - 1 override is removed:\n"), "{pushed}");
    assert!(pushed.contains("about 50 over a sliding 1 minute, for each user: counts stay"), "{pushed}");
    assert!(
        pushed.contains("- per-user user=mallory: blocked")
            && pushed.contains("+ per-user user=eve: blocked")
    );
    assert!(
        pushed.contains("  -   - { name: per-user, key: [user], limit: 100 per 1m }\n"),
        "line by line: {pushed}"
    );
    let set = ["rules", "override", "set", "api", "per-user", "user=bob", "--limit", "7", "--yes"];
    assert!(done(&directory, &server, &set).contains("+ per-user user=bob: limit 7"));
    let listed = done(&directory, &server, &["rules", "get", "api", "--overrides"]);
    assert!(listed.lines().count() == 3 && listed.contains(r#""key":["bob"],"limit":7"#), "{listed}");
    done(&directory, &server, &["rules", "override", "remove", "api", "per-user", "user=bob", "--yes"]);
    done(&directory, &server, &["rules", "mode", "shadow", "--yes"]);
    assert!(done(&directory, &server, &["rules", "get"]).contains("fleet_mode: shadow\n"));
    let back = done(&directory, &server, &["rules", "rollback", "1", "--yes", "--reason", "oops"]);
    assert!(back.contains("fleet mode: shadow → enforce") && back.ends_with("at version 6\n"), "{back}");
    assert!(done(&directory, &server, &["rules", "get"]).contains("limit: 100 per 1m"));
    let history = done(&directory, &server, &["rules", "history", "--limit", "3"]);
    let lines: Vec<&str> = history.lines().collect();
    assert!(lines.len() == 3 && lines[0].starts_with("6  20") && lines[0].ends_with("oops"), "{history}");
    assert!(lines[0].contains("alice"), "{history}");
    let one = done(&directory, &server, &["rules", "history", "2"]);
    assert!(one.contains("+   - { name: per-user, key: [user], limit: 50 per 1m }"), "{one}");
    assert!(one.contains("  - override default/api/per-user [mallory]: blocked\n"), "{one}");
    assert!(one.contains("  + override default/api/per-user [eve]: blocked\n"), "{one}");
    assert!(!one.contains("removed"), "{one}");
}

/// `tidegate rules get | tidegate rules push -`, without a terminal and without `--yes`.
fn pushed_back(directory: &Directory, server: &Server) -> String {
    let script = "\"$0\" rules get | \"$0\" rules push -";
    let mut command = std::process::Command::new("/bin/sh");
    command.current_dir(directory.path("")).env_clear().env("USER", "alice");
    command.args(["-c", script, env!("CARGO_BIN_EXE_tidegate")]);
    let output = command.env("TIDEGATE_CONTROL_LISTEN", &server.address).output().expect("a shell");
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stdout}{stderr}");
    stdout.into_owned()
}

#[test]
fn what_is_got_and_pushed_back_changes_nothing_and_a_push_removes_no_override() {
    let (server, directory) = (ready(Server::control()), Directory::new());
    assert!(pushed_back_is_refused_without_rules(&directory, &server));
    directory.write("rules.yaml", RULES);
    done(&directory, &server, &["rules", "push", "rules.yaml", "--yes"]);
    let rates =
        "namespace: llm # of models\r\nrules:\r\n  - { name: tokens, key: [org, ip/64], rate: 3/7ms }\r\n";
    directory.write("rates.yaml", rates);
    done(&directory, &server, &["rules", "push", "rates.yaml", "--yes"]);
    for entry in [
        ["api", "per-user", "user=it's \"quoted\": {yes}", "--limit", "500"],
        ["llm", "tokens", "org=*-bot", "--rate", "1000/s"],
        ["llm", "tokens", "ip=2001:db8::7", "--limit", "0"],
    ] {
        done(&directory, &server, &[&["rules", "override", "set"], &entry[..], &["--yes"]].concat());
    }
    done(&directory, &server, &["rules", "mode", "shadow", "--yes"]);
    let listed = |namespace| done(&directory, &server, &["rules", "get", namespace, "--overrides"]);
    let before = (listed("api"), listed("llm"));
    assert_eq!(before.0.lines().count() + before.1.lines().count(), 5, "{before:?}");
    let said = pushed_back(&directory, &server);
    assert_eq!(said, "nothing to change: the rules are at version 6\n");
    let bare = RULES.split("overrides:").next().unwrap().replace("100 per 1m", "70 per 1m");
    directory.write("rules.yaml", bare);
    let pushed = done(&directory, &server, &["rules", "push", "rules.yaml", "--yes"]);
    assert!(pushed.ends_with("1 change: the rules are at version 7\n"), "{pushed}");
    assert_eq!((listed("api"), listed("llm")), before);
}

/// There is nothing to push yet.
fn pushed_back_is_refused_without_rules(directory: &Directory, server: &Server) -> bool {
    let got = done(directory, server, &["rules", "get"]);
    directory.write("none.yaml", &got);
    tidegate(directory, server, &["rules", "push", "none.yaml"]).code == Some(1)
}

#[test]
fn who_watches_sees_changes_as_they_come() {
    let (server, directory, watcher) = (ready(Server::control()), Directory::new(), Directory::new());
    directory.write("rules.yaml", RULES);
    let mut watching = start(&watcher, &["rules", "watch", "--control", &server.url()], &[]);
    poll("the beginning", SOON, || watcher.read("stdout").contains("at version 0").then_some(()));
    done(&directory, &server, &["rules", "push", "rules.yaml", "--yes", "--reason", "watched"]);
    let seen = poll("the push", SOON, || {
        Some(watcher.read("stdout")).filter(|text| text.contains("limit: 100 per 1m"))
    });
    assert!(seen.contains("alice") && seen.contains("watched") && seen.contains("mallory"), "{seen}");
    watching.signal(rustix::process::Signal::TERM);
    watching.exit_code(SOON);
}

#[test]
fn what_is_wrong_is_said_with_its_remedy() {
    let (server, directory) = (ready(Server::control()), Directory::new());
    directory.write("rules.yaml", RULES.replace("limit: 100", "limt: 100"));
    let bad = tidegate(&directory, &server, &["rules", "push", "rules.yaml", "--yes"]);
    assert!(bad.code == Some(1) && bad.stderr.contains("did you mean `limit`?"), "{}", bad.stderr);
    assert!(bad.stderr.contains("rules.yaml:4:"), "{}", bad.stderr);
    directory.write("rules.yaml", RULES);
    done(&directory, &server, &["rules", "push", "rules.yaml", "--yes"]);
    let cases: [(&[&str], i32, &str); 7] = [
        (&["rules", "push", "none.yaml", "--yes"], 2, "check the path"),
        (
            &["rules", "override", "set", "api", "per-usr", "user=bob", "--limit", "7", "--yes"],
            1,
            "did you mean `per-user`?",
        ),
        (
            &["rules", "override", "set", "api", "per-user", "usr=bob", "--limit", "7", "--yes"],
            1,
            "did you mean `user`?",
        ),
        (
            &["rules", "override", "set", "apj", "per-user", "user=bob", "--limit", "7", "--yes"],
            1,
            "no namespace apj",
        ),
        (&["rules", "override", "set", "api", "per-user", "bob", "--limit", "7", "--yes"], 2, "name=value"),
        (&["rules", "rollback", "99", "--yes"], 1, "no version 99"),
        (&["rules", "mode", "of", "--yes"], 1, "enforce, shadow or off"),
    ];
    for (arguments, code, words) in cases {
        let said = tidegate(&directory, &server, arguments);
        assert!(
            said.code == Some(code) && said.stderr.contains(words),
            "{arguments:?}: {:?} {}",
            said.code,
            said.stderr
        );
    }
    let nobody = tidegate(&directory, &server, &["rules", "get", "--control", "http://127.0.0.1:9"]);
    assert!(nobody.code == Some(2) && nobody.stderr.contains("tidegate control"), "{}", nobody.stderr);
    assert!(done(&directory, &server, &["rules", "history"]).starts_with("1  "), "nothing of it was written");
}
