//! A table of wrong settings: each ends the program soon, with a complaint that names key, value and remedy.

use crate::support::{Directory, run};

struct Case {
    file: Option<&'static str>,
    environment: &'static [(&'static str, &'static str)],
    flags: &'static [&'static str],
    /// Key, value, place and remedy.
    said: &'static [&'static str],
}

const fn file(text: &'static str, said: &'static [&'static str]) -> Case {
    Case { file: Some(text), environment: &[], flags: &[], said }
}

const fn environment(pairs: &'static [(&'static str, &'static str)], said: &'static [&'static str]) -> Case {
    Case { file: None, environment: pairs, flags: &[], said }
}

const fn flags(words: &'static [&'static str], said: &'static [&'static str]) -> Case {
    Case { file: None, environment: &[], flags: words, said }
}

const CASES: &[Case] = &[
    flags(&["--rules-envoy-windows", "rolling"], &["rules.envoy_windows = \"rolling\"", "fixed or sliding"]),
    flags(&["--listen-max-connections", "7"], &["listen.max_connections = \"7\"", "from 8 to 1000000"]),
    // Keys and places.
    file("regoin = \"eu\"\n", &["\"regoin\"", "tidegate.toml:1", "did you mean `region`?"]),
    file(
        "[listen]\nhttpp = \"127.0.0.1:1\"\n",
        &["\"listen.httpp\"", "tidegate.toml:2", "did you mean `listen.http`?"],
    ),
    file("\n\nlisten = \"127.0.0.1:1\"\n", &["\"listen\"", "tidegate.toml:3", "did you mean `listen.http`?"]),
    file("[moon]\nurl = \"sqlite:x\"\n", &["\"moon\"", "tidegate.toml:1", "--help` lists the settings"]),
    file("[world]\nurl = \"sqlite:x\"\n", &["region = \"local\"", "1 to 48 characters"]),
    file("region = \"a\"\nregion = \"b\"\n", &["tidegate.toml:2:1", "duplicate key"]),
    file("region = eu\n", &["tidegate.toml:1:10", "isn't TOML", "text in quotes"]),
    file("region = \"eu\"\n[listen\n", &["tidegate.toml:2:", "isn't TOML"]),
    file("region = [\"eu\"]\n", &["region (tidegate.toml:1)", "type array", "write one value"]),
    file("[log]\nformat = true\n", &["log.format (tidegate.toml:2)", "type boolean", "write one value"]),
    file("[region]\nname = \"eu\"\n", &["region (tidegate.toml:1)", "type table", "write one value"]),
    flags(&["--config", "missing.toml"], &["missing.toml", "can't read settings", "check the path"]),
    environment(
        &[("TIDEGATE_REGOIN", "eu")],
        &["TIDEGATE_REGOIN", "no such setting", "did you mean `TIDEGATE_REGION`?"],
    ),
    environment(
        &[("TIDEGATE_MOON_INTERVAL_MS", "5")],
        &["TIDEGATE_MOON_INTERVAL_MS", "no such setting", "remove it"],
    ),
    environment(
        &[("TIDEGATE_NODE", "a"), ("TIDEGATE_NODE_FILE", "the-node")],
        &["node is set both directly and by a file", "TIDEGATE_NODE_FILE", "unset one"],
    ),
    environment(
        &[("TIDEGATE_NODE_FILE", "missing")],
        &["node = \"missing\"", "TIDEGATE_NODE_FILE", "check the path"],
    ),
    environment(&[("TIDEGATE_NODE_FILE", "large")], &["node = \"large\"", "more than 64 KiB"]),
    environment(&[("TIDEGATE_NODE_FILE", "binary")], &["node = \"binary\"", "UTF-8"]),
    environment(
        &[("TIDEGATE_REGION_FILE", "bad-region")],
        &["region = \"EU\"", "file \"bad-region\"", "use 1 to 64 of"],
    ),
    // Names.
    flags(
        &["--region", "EU West"],
        &["region = \"EU West\"", "flag --region", "use 1 to 64 of a-z, 0-9 and -"],
    ),
    flags(&["--region="], &["region = \"\"", "use 1 to 64 of"]),
    flags(
        &["--node", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"],
        &["node = \"aaaa", "(71 bytes)", "use 1 to 64 of"],
    ),
    environment(&[("TIDEGATE_NODE", "a\u{1b}[2Jb")], &[r#"node = "a\u{1b}[2Jb""#, "use 1 to 64 of"]),
    // Addresses.
    flags(&["--listen-http", "8080"], &["listen.http = \"8080\"", "such as 127.0.0.1:8080"]),
    flags(
        &["--listen-http", "127.0.0.1:65536"],
        &["listen.http = \"127.0.0.1:65536\"", "port from 0 to 65535"],
    ),
    flags(&["--listen-http", "127.0.0.1:-1"], &["listen.http = \"127.0.0.1:-1\"", "port from 0 to 65535"]),
    flags(
        &["--listen-admin", "example.org:80"],
        &["listen.admin = \"example.org:80\"", "an IP address and a port"],
    ),
    flags(
        &["--listen-http", "0.0.0.0:8080"],
        &["listen.http = \"0.0.0.0:8080\"", "auth.tokens", "listen on 127.0.0.1"],
    ),
    file(
        "[listen]\nadmin = \"[::]:9090\"\n",
        &["listen.admin = \"[::]:9090\"", "tidegate.toml:2", "auth.tokens"],
    ),
    flags(
        &["--listen-admin", "127.0.0.1:8080"],
        &["listen.admin = \"127.0.0.1:8080\"", "listen.http has the same", "different ports"],
    ),
    // Numbers.
    flags(
        &["--memory-max-keys", "-1"],
        &["memory.max_keys = \"-1\"", "whole number from 1000 to 2000000000"],
    ),
    flags(&["--memory-max-keys", "many"], &["memory.max_keys = \"many\"", "whole number from 1000"]),
    flags(&["--memory-max-keys", "999"], &["memory.max_keys = \"999\"", "too small", "from 1000"]),
    flags(
        &["--memory-max-keys", "2000000001"],
        &["memory.max_keys = \"2000000001\"", "too large", "to 2000000000"],
    ),
    file("memory.max_keys = 1.5\n", &["memory.max_keys = \"1.5\"", "tidegate.toml:1", "whole number"]),
    file(
        "memory.max_keys = 99999999999999999999999\n",
        &["memory.max_keys = \"99999999999999999999999\"", "too large"],
    ),
    environment(
        &[("TIDEGATE_SHUTDOWN_DRAIN_MS", "5s")],
        &["shutdown.drain_ms = \"5s\"", "TIDEGATE_SHUTDOWN_DRAIN_MS", "whole number"],
    ),
    flags(
        &["--shutdown-drain-ms", "3600001"],
        &["shutdown.drain_ms = \"3600001\"", "too large", "to 3600000"],
    ),
    // Files, stores, logs.
    flags(
        &["--cluster-secret-file", "missing"],
        &["cluster.secret_file = (hidden)", "flag --cluster-secret-file", "can't read", "check the path"],
    ),
    flags(
        &["--cluster-secret-file", "short"],
        &["cluster.secret_file = \"short\"", "has 6 bytes", "at least 16"],
    ),
    flags(&["--cluster-secret-file", "large"], &["cluster.secret_file = \"large\"", "more than 64 KiB"]),
    flags(&["--cluster-secret-file", "."], &["cluster.secret_file = \".\"", "can't read", "check the path"]),
    environment(
        &[("TIDEGATE_RULES_FILE", "")],
        &["rules.file = \"\"", "TIDEGATE_RULES_FILE", "name a file or a directory"],
    ),
    flags(
        &["--origin-url", "nowhere"],
        &["origin.url = (hidden)", "flag --origin-url", "the scheme is missing", "begin with redis://"],
    ),
    flags(
        &["--origin-url", "redis:/127.0.0.1"],
        &["origin.url = (hidden)", "no `//` after `redis:`", "write redis://127.0.0.1"],
    ),
    flags(&["--origin-url", "redis:6379"], &["has no scheme", "write redis://redis:6379"]),
    flags(
        &["--listen-http", "off", "--listen-grpc", "off", "--listen-resp", "off"],
        &["leaves callers no listener"],
    ),
    flags(&["--port-base", "65533"], &["port_base = \"65533\"", "isn't a port", "from 1 to 65532"]),
    flags(&["--log-identifiers", "clear"], &["log.identifiers = \"clear\"", "`hashed`, or `plain`"]),
    flags(&["--origin-url="], &["origin.url = (hidden)", "the scheme is missing", "begin with redis://"]),
    flags(
        &["--origin-url", "http://h:6379"],
        &["origin.url = (hidden)", "the scheme is none that Tidegate knows", "use redis, redis+cluster"],
    ),
    environment(
        &[("TIDEGATE_ORIGIN_URL", "redis://h:many")],
        &[
            "origin.url",
            "TIDEGATE_ORIGIN_URL",
            "the port isn't a number from 1 to 65535",
            "redis.example:6379",
        ],
    ),
    file(
        "[origin]\nurl = \"redis://\"\n",
        &["origin.url", "tidegate.toml:2", "the host is missing", "redis.example:6379"],
    ),
    flags(
        &["--origin-url", "redis://h:1,h:2"],
        &[
            "origin.url",
            "the host of a standalone server is a list",
            "use redis+cluster:// or redis+sentinel://",
        ],
    ),
    flags(
        &["--origin-url", "redis+sentinel://h:26379"],
        &["origin.url", "the master's name is missing", "write it after the hosts"],
    ),
    flags(
        &["--origin-url", "redis+cluster://h:1/3"],
        &["origin.url", "the database of a cluster is always 0", "leave it out"],
    ),
    flags(
        &["--origin-url", "redis://h/first"],
        &["origin.url", "the database isn't a number", "redis.example:6379/2"],
    ),
    flags(
        &["--origin-url", "redis+unix://relative.sock"],
        &["origin.url", "the path of the socket", "write its absolute path"],
    ),
    flags(
        &["--origin-url", "rediss://h?insecure=true"],
        &["origin.url", "never trusts a server that it can't verify", "ca=/path.pem"],
    ),
    flags(
        &["--origin-url", "redis://h?ca=/authority.pem"],
        &["origin.url", "has ca, which is for TLS", "begin with rediss"],
    ),
    flags(
        &["--origin-url", "redis://user:pass/word@h"],
        &["origin.url = (hidden)", "the user or password has a bare /", "write / as %2F"],
    ),
    flags(
        &["--origin-url", "memory:here"],
        &["origin.url", "takes nothing after `memory:`", "write memory:"],
    ),
    flags(
        &["--origin-timeout-ms", "0"],
        &["origin.timeout_ms = \"0\"", "too small", "whole number from 1 to 1000"],
    ),
    flags(
        &["--origin-fresh-ms", "60001"],
        &["origin.fresh_ms = \"60001\"", "too large", "whole number from 100 to 60000"],
    ),
    flags(&["--log-format", "xml"], &["log.format = \"xml\"", "write text or json"]),
    flags(&["--log-level", "loud"], &["log.level = \"loud\"", "write off, error, warn"]),
];

#[test]
fn each_ends_the_program_with_key_value_and_remedy() {
    for case in CASES {
        let directory = Directory::new();
        directory.write("the-node", "b");
        directory.write("bad-region", "EU\n");
        directory.write("short", "secret");
        directory.write("large", vec![b'x'; 70_000]);
        directory.write("binary", b"\xff\xfe");
        if let Some(text) = case.file {
            directory.write("tidegate.toml", text);
        }
        let started = run(&directory, &[&["serve"], case.flags].concat(), case.environment);
        assert_eq!(started.code, Some(2), "{:?}: {}", case.said, started.stderr);
        assert!(started.stdout.is_empty(), "{}", started.stdout);
        for part in case.said {
            assert!(started.stderr.contains(part), "no {part:?} in {}", started.stderr);
        }
    }
}

#[test]
fn all_of_them_are_told_at_once() {
    let directory = Directory::new();
    directory.write("tidegate.toml", "regoin = \"eu\"\n");
    let environment = [("TIDEGATE_LOG_FORMAT", "xml")];
    let started = run(&directory, &["--listen-http", "nowhere", "--print-config"], &environment);
    assert_eq!(started.code, Some(2));
    for part in ["regoin", "log.format", "listen.http"] {
        assert!(started.stderr.contains(part), "no {part:?} in {}", started.stderr);
    }
}
