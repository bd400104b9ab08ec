//! The token file when it is missing, wrong, or turns bad while a node runs.

use super::*;
use crate::support::poll;

#[test]
fn a_missing_or_bad_file_keeps_a_node_from_starting() {
    let directory = Directory::new();
    let missing = run(&directory, &["serve", "--auth-tokens", FILE], &[]);
    assert_eq!(missing.code, Some(1));
    assert!(missing.stderr.contains("there is no tokens.toml"), "{}", missing.stderr);
    assert!(missing.stderr.contains("tidegate token new --tenant"), "{}", missing.stderr);
    make(&directory, "acme", "check");
    directory.write(FILE, directory.read(FILE).replace("\"check\"", "\"chekc\""));
    let bad = run(&directory, &["serve", "--auth-tokens", FILE], &[]);
    assert_eq!(bad.code, Some(1));
    assert!(bad.stderr.contains("tokens.toml:8: isn't a permission; write check"), "{}", bad.stderr);
}

#[test]
fn a_file_that_turns_bad_or_vanishes_changes_nothing() {
    let directory = Directory::new();
    let token = make(&directory, "acme", "check");
    let node = start(&directory, &[]);
    let good = directory.read(FILE);
    let told = |what: &str| {
        poll(what, SOON, || directory.read("stderr").contains(what).then_some(()));
        assert_eq!(check(&node, &token).0, 200, "{what}");
    };
    directory.write(FILE, good.replace("sha256", "sha265"));
    told("tokens.toml:10");
    std::fs::remove_file(directory.path(FILE)).unwrap();
    told("put it back");
    directory.write(FILE, "");
    poll("nobody's token", SOON, || (check(&node, &token).0 == 401).then_some(()));
    directory.write(FILE, good);
    poll("the token", SOON, || (check(&node, &token).0 == 200).then_some(()));
}

#[test]
fn commands_that_cant_be_done_say_why() {
    let directory = Directory::new();
    type Case<'a> = (&'a [&'a str], &'a str);
    let cases: [Case<'_>; 6] = [
        (&["new", "--tenant", "a"], "no token file is set"),
        (&["list", "--auth-tokens", "missing.toml"], "there is no missing.toml"),
        (&["new", "--tenant", "", "--auth-tokens", FILE], "isn't the name of a tenant"),
        (&["new", "--tenant", "a", "--permissions", "chek", "--auth-tokens", FILE], "isn't a permission"),
        (&["revoke", "0123456789ab", "--auth-tokens", FILE], "there is no token"),
        (&["new", "--tenant", "a", "--auth-tokens", "no/such/directory/t.toml"], "can't write"),
    ];
    for (words, said) in cases {
        let done = run(&directory, &[&["token"], words].concat(), &[]);
        assert_eq!(done.code, Some(2), "{words:?}: {}", done.stderr);
        assert!(done.stderr.contains(said), "{words:?}: {}", done.stderr);
    }
    let by_variable = [("TIDEGATE_AUTH_TOKENS", FILE)];
    assert_eq!(run(&directory, &["token", "new", "--tenant", "a"], &by_variable).code, Some(0));
    directory.write("tidegate.toml", "auth.tokens = \"tokens.toml\"\n");
    let listed = run(&directory, &["token", "list"], &[]);
    assert!(listed.stdout.lines().count() == 2 && listed.stdout.contains(" a"), "{}", listed.stdout);
}
