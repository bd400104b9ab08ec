//! What a node answers to Prometheus, at one time.

use crate::support::request_with;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::{Command, Output, Stdio};

pub(crate) struct Scrape(String);

impl Scrape {
    pub(crate) fn of(address: &str) -> Self {
        let answer = request_with(address, "GET /metrics", "", "");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        Scrape(body.to_owned())
    }

    /// Every family's name with its meaning and its kind.
    pub(crate) fn families(&self) -> BTreeMap<String, (String, String)> {
        let mut families = BTreeMap::new();
        for line in self.0.lines() {
            let Some(rest) = line.strip_prefix("# ") else { continue };
            let (what, rest) = rest.split_once(' ').unwrap();
            let (name, text) = rest.split_once(' ').unwrap_or((rest, ""));
            let family: &mut (String, String) = families.entry(name.to_owned()).or_default();
            match what {
                "HELP" => family.0 = text.to_owned(),
                "TYPE" => family.1 = text.to_owned(),
                other => panic!("{other} in {line}"),
            }
        }
        families
    }

    /// Every series, without its value.
    pub(crate) fn series(&self) -> BTreeSet<&str> {
        let lines = self.0.lines().filter(|line| !line.starts_with('#'));
        let series = |line: &'_ str| line.rsplit_once(' ').map_or(0, |(series, _)| series.len());
        lines.map(|line| &line[..series(line)]).collect()
    }

    /// The sum of a family's series whose labels contain all of these.
    pub(crate) fn sum(&self, name: &str, labels: &[&str]) -> f64 {
        let of_name = |line: &&str| {
            let series = line.strip_prefix(name);
            series.is_some_and(|rest| rest.starts_with(['{', ' ']))
                && labels.iter().all(|label| line.contains(label))
        };
        let values = self.0.lines().filter(of_name).map(|line| line.rsplit_once(' ').unwrap().1);
        values.map(|value| value.parse::<f64>().unwrap()).sum()
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.series().iter().any(|series| series.split('{').next() == Some(name))
    }

    /// Names, units and meanings as Prometheus wants them.
    pub(crate) fn check(&self) {
        let output = promtool(&["check", "metrics"], &self.0);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.is_empty(), "{said}\n{}", self.0);
    }
}

pub(crate) fn promtool(arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new("promtool");
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = command.spawn().expect("promtool, of Debian's package prometheus");
    process.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    process.wait_with_output().unwrap()
}
