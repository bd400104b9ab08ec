//! An incident by script: a limit is lowered, then a shard dies, then it is back, then the clock is set. Callers are
//! denied all the while, and `tidegate why` names the cause of each denial, from the node and from its files.

use crate::fleet::{Member, PATIENT, faketime, wait_for};
use crate::support::{Directory, Node, SOON, parse, poll, request_with, run};
use rustix::process::Signal;
use serde_json::Value;
use std::time::Duration;
use tidegate_testkit::{Redis, RedisCluster};

/// So many denials are explained.
const CHOSEN_MIN: usize = 50;
const CLOCK: &str = "clock";
/// By which the clock is set: an hour and a half.
const STEP_S: u64 = 5400;
/// Of a dead primary, on a busy machine.
const BACK_WITHIN: Duration = Duration::from_secs(20);

fn rules(per_user: u64) -> String {
    format!(
        "namespace: api
normalize: {{ ip: text }}
rules:
  - {{ name: per-user, key: [user], limit: {per_user} per 365d }}
  - {{ name: per-ip, key: [ip], limit: 3 per 365d }}
  - {{ name: logins, key: [login], limit: 100 per 365d, class: abuse }}
"
    )
}

/// A denial whose cause the script knows.
struct Chosen {
    request: String,
    rule: &'static str,
    version: u64,
    cause: &'static str,
}

struct Incident {
    member: Member,
    cluster: RedisCluster,
    chosen: Vec<Chosen>,
}

/// A library that stands between a process and the wall clock: the file says by how many seconds it is set.
fn settable_clock(directory: &Directory) -> [(&'static str, String); 5] {
    directory.write(CLOCK, "+0");
    [
        ("LD_PRELOAD", faketime()),
        ("FAKETIME_TIMESTAMP_FILE", directory.path(CLOCK).display().to_string()),
        ("FAKETIME_NO_CACHE", "1".into()),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1".into()),
        ("TIDEGATE_LOG_LEVEL", "info,tidegate_node=debug".into()),
    ]
}

impl Incident {
    fn begin() -> Self {
        let cluster = wait_for(RedisCluster::start());
        let directory = Directory::new();
        directory.write("rules.yaml", rules(10));
        let environment = settable_clock(&directory);
        let environment: Vec<(&str, &str)> =
            environment.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let url = cluster.urls();
        let arguments = [&["--origin-url", &url, "--node", "n1"], &PATIENT[..]].concat();
        let node = Node::start_with(&directory, &arguments, &environment);
        let member = Member { node, directory };
        member.wait_joined();
        Incident { member, cluster, chosen: Vec::new() }
    }

    fn ask(&self, attribute: &str, value: &str, request: &str) -> Value {
        let body = format!(r#"{{"namespace":"api","attributes":{{"{attribute}":"{value}"}}}}"#);
        let header = format!("X-Request-Id: {request}\r\n");
        parse(&request_with(&self.member.node.http, "POST /v1/check", &header, &body)).1
    }

    /// Callers of a kind, numbered, each of whom so many requests pass.
    fn admit(&self, attribute: &str, kind: &str, callers: usize, times: usize) {
        for caller in 0..callers {
            for _ in 0..times {
                let said = self.ask(attribute, &format!("{kind}-{caller}"), "passes");
                assert_eq!(said["allowed"], true, "{kind}-{caller}: {said}");
            }
        }
    }

    /// One denial of each of the first callers of a kind.
    fn deny(&mut self, (attribute, kind): (&str, &str), callers: usize, cause: &'static str) {
        let rule = if attribute == "ip" { "per-ip" } else { "per-user" };
        for caller in 0..callers {
            let request = format!("denied-{}", self.chosen.len());
            let said = self.ask(attribute, &format!("{kind}-{caller}"), &request);
            assert_eq!(said["allowed"], false, "{kind}-{caller}, for {cause}: {said}");
            self.choose(request, rule, cause);
        }
    }

    fn choose(&mut self, request: String, rule: &'static str, cause: &'static str) {
        let version = self.member.node.state()["rule_version"].as_u64().unwrap();
        self.chosen.push(Chosen { request, rule, version, cause });
    }

    /// Logins are class `abuse`: those of the dead shard are denied, from the first one on.
    fn deny_logins_of_the_dead_shard(&mut self, count: usize) {
        let mut found = 0;
        for caller in 0.. {
            let request = format!("denied-{}", self.chosen.len());
            let said = self.ask("login", &format!("login-{caller}"), &request);
            if said["allowed"] == false {
                assert_eq!(said["path"], "unverified", "{said}");
                self.choose(request, "logins", "store_away");
                found += 1;
            }
            if found == count {
                return;
            }
        }
    }

    fn happens(&mut self) -> String {
        let dead = self.cluster.primaries()[0].address().to_string();
        self.admit("user", "early", 10, 10);
        self.admit("user", "half", 8, 6);
        self.admit("ip", "ip", 8, 3);
        self.deny(("user", "early"), 10, "limit_used");
        self.deny(("ip", "ip"), 4, "limit_used");

        self.member.directory.write("rules.yaml", rules(4));
        poll("version 2", SOON, || (self.member.node.state()["rule_version"] == 2).then_some(()));
        self.admit("user", "late", 4, 4);
        self.deny(("user", "half"), 8, "rule_changed");
        self.deny(("user", "late"), 4, "rule_changed");
        // They would have been denied by the limit of before, too.
        self.deny(("user", "early"), 4, "limit_used");
        self.deny(("ip", "ip"), 2, "limit_used");

        self.cluster.kill_primary(0);
        self.deny_logins_of_the_dead_shard(10);
        self.deny(("ip", "ip"), 4, "limit_used");
        self.member.wait_breaker(&dead, true, SOON);
        self.deny_logins_of_the_dead_shard(2);

        wait_for(self.cluster.wait_promoted(0));
        poll("a shard less", BACK_WITHIN, || {
            let said = self.ask("login", "login-0", "passes");
            (said["allowed"] == true && self.member.is_open(&dead) != Some(true)).then_some(())
        });
        self.deny(("ip", "ip"), 2, "limit_used");
        self.deny(("user", "half"), 2, "rule_changed");

        // While the store answers, a node goes by its time, whatever is done to the machine's.
        self.cluster.primaries().iter().chain(self.cluster.replicas()).for_each(Redis::kill);
        self.member.directory.write(CLOCK, format!("+{STEP_S}"));
        poll("a step", BACK_WITHIN, || (self.member.node.state()["stats"]["clock_steps"] == 1).then_some(()));
        self.deny(("ip", "ip"), 8, "clock_step");
        self.deny(("user", "early"), 2, "clock_step");
        self.deny(("user", "half"), 2, "rule_changed");
        dead
    }

    /// What `tidegate why` says of a request.
    fn why(&self, chosen: &Chosen, of: &[&str]) -> Value {
        let arguments = [&["why", "--json", "--request-id", &chosen.request], of].concat();
        let finished = run(&Directory::new(), &arguments, &[]);
        let answer: Value = serde_json::from_str(&finished.stdout)
            .unwrap_or_else(|_| panic!("{}{}", finished.stdout, finished.stderr));
        assert_eq!(answer["decisions"].as_array().map(Vec::len), Some(1), "{}: {answer}", chosen.request);
        answer["decisions"][0].clone()
    }
}

/// What the sentence must say that is handed to the caller.
fn words(cause: &str) -> &'static str {
    match cause {
        "rule_changed" => "with rules version 2: 10 per 31536000 s became 4 per 31536000 s.",
        "store_away" => "because their store was unavailable",
        "clock_step" => "The wall clock had been set by",
        _ => "was in use",
    }
}

#[test]
fn why_names_the_cause_of_every_denial_of_an_incident() {
    let mut incident = Incident::begin();
    let dead = incident.happens();
    assert!(incident.chosen.len() >= CHOSEN_MIN, "{}", incident.chosen.len());
    let admin = format!("http://{}", incident.member.node.admin);
    let mut wrong = Vec::new();
    let mut said = Vec::new();
    for chosen in &incident.chosen {
        let decision = incident.why(chosen, &["--admin", &admin]);
        let sentence = decision["sentence"].as_str().unwrap();
        let is_right = decision["cause"] == chosen.cause
            && decision["rule"] == chosen.rule
            && decision["rule_version"] == chosen.version
            && (chosen.cause != "store_away" || decision["shard"] == dead.as_str())
            && sentence.contains(words(chosen.cause));
        if !is_right {
            wrong.push(format!("{}, for {}: {decision}", chosen.request, chosen.cause));
        }
        said.push(decision);
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), incident.chosen.len(), wrong.join("\n"));

    incident.member.node.process.signal(Signal::KILL);
    incident.member.node.process.exit_code(SOON);
    let log = incident.member.directory.path("data/decisions").display().to_string();
    for (chosen, said) in incident.chosen.iter().zip(&said) {
        assert_eq!(incident.why(chosen, &["--log", &log]), *said);
    }
}
