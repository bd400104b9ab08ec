//! Exports, imports, backups and restores.

use crate::scene::Server;
use crate::support::Directory;
use crate::{RULES, done, ready, tidegate};
use std::fmt::Write as _;

/// In one order, and each with its fields in one order.
fn lines_without_heading(text: &str) -> Vec<String> {
    let same = |line| serde_json::from_str::<serde_json::Value>(line).expect("JSON").to_string();
    let mut lines: Vec<String> = text.lines().skip(1).map(same).collect();
    lines.sort_unstable();
    lines
}

#[test]
fn a_backup_restored_into_an_empty_store_is_the_same_down_to_the_history() {
    let (server, directory) = (ready(Server::control()), Directory::new());
    directory.write("rules.yaml", RULES);
    done(&directory, &server, &["rules", "push", "rules.yaml", "--yes", "--reason", "the first"]);
    for user in ["bob", "ann"] {
        let user = format!("user={user}");
        done(
            &directory,
            &server,
            &["rules", "override", "set", "api", "per-user", &user, "--limit", "7", "--yes"],
        );
    }
    done(&directory, &server, &["rules", "mode", "shadow", "--yes"]);
    done(&directory, &server, &["rules", "reset", "api", "per-user", "user=bob", "--yes"]);
    done(&directory, &server, &["rules", "backup", "all.jsonl"]);
    assert_eq!(directory.read("all.jsonl").lines().count(), 1 + 5);
    let other = ready(Server::control());
    assert!(done(&directory, &other, &["rules", "restore", "all.jsonl", "--yes"]).contains("at version 5"));
    for command in
        [&["rules", "export"][..], &["rules", "history"], &["rules", "history", "1"], &["rules", "get"]]
    {
        assert_eq!(done(&directory, &other, command), done(&directory, &server, command), "{command:?}");
    }
    done(&directory, &other, &["rules", "mode", "enforce", "--yes"]);
    let twice = tidegate(&directory, &other, &["rules", "restore", "all.jsonl", "--yes"]);
    assert!(twice.code == Some(1) && twice.stderr.contains("empty store"), "{}", twice.stderr);
}

#[test]
fn tens_of_thousands_of_overrides_are_imported_and_exported_as_they_were() {
    const COUNT: usize = 25_000;
    let (server, directory) = (ready(Server::control()), Directory::new());
    let mut text = String::from("{\"tidegate_rules\":1,\"version\":0}\n");
    let rules = RULES.split("overrides:").next().unwrap();
    let document =
        serde_json::json!({ "document": { "tenant": "default", "namespace": "api", "text": rules } });
    writeln!(text, "{{\"fleet_mode\":\"enforce\"}}\n{document}").unwrap();
    for number in 0..COUNT {
        let key = format!("user-{number:015}");
        writeln!(text, r#"{{"override":{{"tenant":"default","namespace":"api","rule":"per-user","key":["{key}"],"limit":{number}}}}}"#)
            .unwrap();
    }
    directory.write("rules.jsonl", &text);
    let imported = done(&directory, &server, &["rules", "import", "rules.jsonl", "--yes"]);
    assert!(imported.contains("at version 3"), "10,000 lines a version: {imported}");
    done(&directory, &server, &["rules", "export", "exported.jsonl"]);
    let exported = directory.read("exported.jsonl");
    assert_eq!(exported.lines().next(), Some(r#"{"tidegate_rules":1,"version":3}"#));
    assert!(lines_without_heading(&exported) == lines_without_heading(&text), "the same lines");
    assert!(
        done(&directory, &server, &["rules", "import", "exported.jsonl", "--yes"]).contains("at version 3")
    );
    let bad = text.replacen("\"limit\":7}", "\"limt\":7}", 1);
    directory.write("bad.jsonl", bad);
    let refused = tidegate(&directory, &server, &["rules", "import", "bad.jsonl", "--yes"]);
    assert!(
        refused.code == Some(1) && refused.stderr.contains("line 11: unknown field `limt`"),
        "{}",
        refused.stderr
    );
}
