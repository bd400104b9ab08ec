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
    assert!(differs.stdout.contains("+ per-user: at most 100 over a sliding 1 minute"), "{}", differs.stdout);
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
    assert_eq!(text, format!("# version 1\n{}", RULES.split("overrides:").next().unwrap()), "comments too");
    directory.write("rules.yaml", RULES.replace("100 per 1m", "50 per 1m").replace("mallory", "eve"));
    let pushed = done(&directory, &server, &["rules", "push", "rules.yaml", "--yes"]);
    assert!(pushed.contains("at most 50 over a sliding 1 minute, for each user: counts stay"), "{pushed}");
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
