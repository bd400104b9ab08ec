//! A newcomer's first hour, step by step: what the README and the guides tell people to do, then forty mistakes that a
//! person makes. Each step names the words that lead on; none may be missing.
//!
//! The whole transcript is written to `first_hour.txt` in the tests' directory, to be read with fresh eyes.

use crate::support::{Directory, Node, rules_of};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// What is typed, with `$HTTP`, `$ADMIN`, `$RESP` and `$SECURE` for the addresses of two running nodes, and `$FREE` for a
/// port that nobody uses; its exit code; and what must be said.
struct Step {
    typed: &'static str,
    code: i32,
    said: &'static [&'static str],
}

const fn step(typed: &'static str, code: i32, said: &'static [&'static str]) -> Step {
    Step { typed, code, said }
}

const RULE: &str = "namespace: api\nrules:\n  - { name: a, key: [user], limit: 10 per 1m }\n";

/// As the pages say, and everything is as they say.
const PAGES: &[Step] = &[
    step("tidegate --version", 0, &["tidegate 0."]),
    step("tidegate --help", 0, &["serve    Run a node", "`tidegate serve --help` lists the settings"]),
    step("tidegate health --url http://$ADMIN", 0, &["ready: ", "\"rule_version\":1"]),
    step("curl -s http://$HTTP/", 0, &["/v1/limit", "/openapi.json"]),
    step(
        r#"curl -s http://$HTTP/v1/limit -d '{"namespace":"demo","identifier":"me","rate_per_s":0.1,"burst":5}'"#,
        0,
        &["\"allowed\":true", "\"remaining\":4"],
    ),
    step(
        "cat rules.yaml; tidegate rules check",
        0,
        &["about 3 over a sliding 365 days, for each user", "valid"],
    ),
    step(
        "tidegate check api user=ann --url http://$HTTP",
        0,
        &["allowed", "per-user ann: allowed, 2 of 3 left"],
    ),
    step(
        "for i in 1 2; do tidegate check api user=ann --url http://$HTTP > /dev/null; done; \
         tidegate check api user=ann --url http://$HTTP",
        1,
        &["denied", "per-user ann: denied, 0 of 3 left, retry in"],
    ),
    step(
        "sleep 0.3; tidegate why ann --admin http://$ADMIN",
        0,
        &["rule per-user of api", "3 of its limit of 3 was in use"],
    ),
    step("tidegate why 'per-user ann' --admin http://$ADMIN", 0, &["rule per-user of api"]),
    step(
        "tidegate check api user=bob --url http://$HTTP --json",
        0,
        &["{\"allowed\":true", "\"path\":\"local\""],
    ),
    step("tidegate check api user=bob --cost 0 --url http://$HTTP", 0, &["2 of 3 left"]),
    step("redis-cli -p ${RESP#*:} CL.THROTTLE user123 15 30 60", 0, &["0\n16\n15\n-1\n2"]),
    step(
        "curl -s -o /dev/null -w '%{http_code}\\n' -H 'X-Tidegate-User: ann' \"http://$HTTP/auth?namespace=api&attributes=user\"",
        0,
        &["429"],
    ),
    step("curl -s http://$HTTP/openapi.json | head -3", 0, &["\"openapi\": \"3.1.0\""]),
    step("curl -s http://$ADMIN/metrics | grep -m1 ^tidegate_decisions", 0, &["tidegate_decisions"]),
    step("tidegate reset api user=ann --url http://$HTTP", 0, &["1 key"]),
    step("tidegate serve --port-base $FREE --print-config | head -5", 0, &["port_base", "flag --port-base"]),
    step("tidegate plan --requests 200", 0, &["200 requests/s over 1 region", "a month"]),
    step(
        r#"curl -s http://$HTTP/json -d '{"domain":"api","descriptors":[{"entries":[{"key":"user","value":"eve"}]}]}'"#,
        0,
        &["\"OK\""],
    ),
];

/// Forty of a person's mistakes, and the words that lead to the right place.
const MISTAKES: &[Step] = &[
    // Starting a node.
    step("tidegate sevre", 2, &["'sevre'", "'serve'"]),
    step("tidegate serve --listen-htpp 127.0.0.1:8080", 2, &["--listen-htpp", "--listen-http"]),
    step("tidegate --listen-http $HTTP", 1, &["another process has it", "free now: --port-base "]),
    step("tidegate --listen-http 8080", 2, &["isn't an address", "such as 127.0.0.1:8080"]),
    step("tidegate --listen-http 0.0.0.0:8080", 2, &["there are no tokens", "`tidegate token new`"]),
    step(
        "printf '[listn]\\nhttp = \"127.0.0.1:1\"\\n' > t.toml; tidegate --config t.toml",
        2,
        &["t.toml:1", "did you mean `[listen]`?"],
    ),
    step(
        "printf '[origin]\\ntimeout = 5\\n' > t.toml; tidegate --config t.toml",
        2,
        &["t.toml:2", "did you mean `origin.timeout_ms`?"],
    ),
    step(
        "printf 'listen:\\n  http: x\\n' > t.toml; tidegate --config t.toml",
        2,
        &["t.toml:1", "isn't TOML", "key = value"],
    ),
    step("TIDEGATE_ORIGN_URL=redis://h tidegate", 2, &["did you mean `TIDEGATE_ORIGIN_URL`?"]),
    step(
        "tidegate --origin-url http://127.0.0.1:6379",
        2,
        &["the scheme is none that Tidegate knows", "use redis,"],
    ),
    step("tidegate --origin-url 127.0.0.1:6379", 2, &["the scheme is missing", "redis://127.0.0.1:6379"]),
    step(
        "tidegate --origin-timeout-ms 5ms",
        2,
        &["origin.timeout_ms = \"5ms\"", "a whole number from 1 to 1000"],
    ),
    step(
        "tidegate --world-url sqlite:w.db",
        2,
        &["is needed with world.url", "give each region a name of its own"],
    ),
    step("tidegate --rules-file missing.yaml --port-base $FREE", 1, &["missing.yaml", "check the path"]),
    step(
        "tidegate --auth-tokens missing.toml --port-base $FREE",
        1,
        &["there is no missing.toml", "`tidegate token new "],
    ),
    step(
        "timeout 2 tidegate --origin-url redis://127.0.0.1:1 --port-base $FREE",
        124,
        &["Connection refused", "trying again in the background"],
    ),
    // Asking one.
    step(
        "tidegate check api user=42 --url http://127.0.0.1:1",
        2,
        &["can't connect", "is a node running there?", "--url"],
    ),
    step(
        "tidegate check api user=42 --url http://$ADMIN",
        2,
        &["listen.admin", "ask the node's other listener, listen.http"],
    ),
    step(
        "tidegate check api user=42 --url https://$HTTP",
        2,
        &["if it has none, write http://", "--ca PATH"],
    ),
    step("tidegate check api user 42 --url http://$HTTP", 2, &["\"user\" isn't an attribute", "user=42"]),
    step("tidegate check user=42 --url http://$HTTP", 2, &["the namespace comes first", "`api user=42`"]),
    step(
        "tidegate check apo user=42 --url http://$HTTP",
        0,
        &["unknown namespace", "Is it spelt as in the rules file?"],
    ),
    step("tidegate check api usr=42 --url http://$HTTP", 0, &["no rule matches", "needs other attributes"]),
    step(
        "tidegate check api user=42 --url http://$SECURE",
        2,
        &["the request has no token", "`tidegate token new` makes one"],
    ),
    step(
        "tidegate check api user=42 --url http://$SECURE --token wrong",
        2,
        &["the token is not known", "mistyped, or was revoked"],
    ),
    step("tidegate top --admin http://$HTTP", 1, &["ask the node's other listener, listen.admin"]),
    step("tidegate rules get --control http://$HTTP", 2, &["isn't a control plane", "--control", "7070"]),
    step("curl -s http://$HTTP/v1/chek -d '{}'", 0, &["did you mean `/v1/check`?"]),
    step("curl -s http://$HTTP/v1/check", 0, &["doesn't take GET", "use POST with a JSON body"]),
    step("curl -s http://$HTTP/v1/check -d user=42", 0, &["not valid JSON", "a JSON object should be here"]),
    step(
        r#"curl -s http://$HTTP/v1/check -d '{"namespace":"api","atributes":{}}'"#,
        0,
        &["did you mean `attributes`?"],
    ),
    step(
        r#"curl -s http://$HTTP/v1/limit -d '{"namespace":"d","identifier":"me","limit":5}'"#,
        0,
        &["`duration_ms` is missing", "give `limit` and `duration_ms`, or `rate_per_s`"],
    ),
    // Writing rules.
    step("rules 's/limit: 10 per 1m/limit: 10/'", 1, &["rules.yaml:3:", "10 has no period", "`10 per 1m`"]),
    step("rules 's/key: /keys: /'", 1, &["rules.yaml:3:", "did you mean `key`?"]),
    step("rules 's/namespace/namspace/'", 1, &["rules.yaml:1:1", "did you mean `namespace`?"]),
    step(
        "rules 's/limit: .* }/limit: 10 per 1m, class: premium }/'",
        1,
        &["\"premium\"", "paid, free, abuse"],
    ),
    step(
        "printf 'namespace: api\\nrules:\\n- name: a\\nkey: [user]\\nlimit: 5 per 1m\\n' > rules.yaml; tidegate rules check",
        1,
        &["have 2 errors", "rules.yaml:4:1", "rules.yaml:5:1", "indent it"],
    ),
    step(
        "printf 'namespace: api\\nrules:\\n  - name: a\\n\\tkey: [user]\\n' > rules.yaml; tidegate rules check",
        1,
        &["rules.yaml:4:1:", "found a tab", "indent with spaces, not tabs"],
    ),
    step(
        "rules 's/limit: 10 per 1m/limit: 5\\/hour/'",
        1,
        &["could mean two things", "`5 per 1h` for any 60 minutes", "`5 per hour`"],
    ),
    step(
        "rules '$aoverrides: [{ rule: a, usr: x, limit: 5 }]'",
        1,
        &["rules.yaml:4:", "did you mean `user`?"],
    ),
];

/// Writes the rules with a mistake made by `sed`, and checks them.
const RULES_FUNCTION: &str =
    r#"rules() { sed "$1" good.yaml > rules.yaml; cat rules.yaml; tidegate rules check; }"#;

#[test]
fn every_step_of_a_newcomers_first_hour_leads_on() {
    assert_eq!((PAGES.len(), MISTAKES.len()), (20, 40));
    let (directory, secure, person) = (Directory::new(), Directory::new(), Directory::new());
    directory.write("rules.yaml", rules_of(3));
    person.write("rules.yaml", rules_of(3));
    person.write("good.yaml", RULE);
    secure.write("tokens", "");
    let node = Node::start(&directory, &[]);
    let guarded_node = Node::start(&secure, &["--auth-tokens", "tokens"]);
    let binary = Path::new(env!("CARGO_BIN_EXE_tidegate")).parent().unwrap();
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap());
    let free = tidegate_testkit::free_port().min(65_000).to_string();
    let (mut transcript, mut problems) = (String::new(), Vec::new());
    for step in PAGES.iter().chain(MISTAKES) {
        let mut command = Command::new("bash");
        command.args(["-c", &format!("exec 2>&1\n{RULES_FUNCTION}\n{}", step.typed)]);
        command.current_dir(person.root()).env("PATH", &path).env("FREE", &free);
        command.env("HTTP", &node.http).env("ADMIN", &node.admin).env("RESP", &node.resp);
        command.env("SECURE", &guarded_node.http);
        let output = command.output().expect("bash");
        let (printed, code) = (String::from_utf8_lossy(&output.stdout), output.status.code());
        writeln!(transcript, "$ {}\n{}\n[{}]\n", step.typed, printed.trim_end(), code.unwrap_or(-1)).unwrap();
        let missing: Vec<&str> = step.said.iter().copied().filter(|part| !printed.contains(part)).collect();
        if code != Some(step.code) || !missing.is_empty() {
            problems.push(format!("$ {}\nends with {code:?}, lacks {missing:?}:\n{printed}", step.typed));
        }
    }
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("first_hour.txt");
    std::fs::write(&file, transcript).unwrap();
    println!("{}", file.display());
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
}
