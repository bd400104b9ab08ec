//! The dashboard and the alert rules: valid, and about metrics that there are.

use crate::scrape::promtool;
use crate::support::Directory;
use crate::table::{Row, is_known, mentioned, rows};
use crate::{read, repository};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

const ALERTS: &str = "deploy/prometheus/alerts.yaml";
const ALERT_TESTS: &str = "deploy/prometheus/alerts_test.yaml";
const DASHBOARD: &str = "deploy/grafana/tidegate.json";
/// Grafana's model of its dashboards, of version 10.1: generated from its schema by those who make it.
const MODEL: &str = "grafana-foundation-sdk==1769699998!10.1.0";

fn accepts(arguments: &[&str]) {
    let output = promtool(arguments, "");
    let said =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(output.status.success(), "promtool {}: {said}", arguments.join(" "));
}

/// Labels are no metrics, and what the alert rules record is theirs.
fn assert_known(rows: &BTreeMap<String, Row>, text: &str) {
    let names = mentioned(text);
    assert!(!names.is_empty());
    let unknown: Vec<&String> = names.iter().filter(|name| !is_known(rows, name)).collect();
    assert!(unknown.is_empty(), "not in docs/metrics.md: {unknown:?}");
}

#[test]
fn promtool_accepts_the_alert_rules_and_they_do_what_their_tests_say() {
    accepts(&["check", "rules", &repository(ALERTS)]);
    accepts(&["test", "rules", &repository(ALERT_TESTS)]);
    assert_known(&rows(), &read(ALERTS));
}

#[test]
fn every_alert_has_a_page_and_every_page_an_alert() {
    let alerts = read(ALERTS);
    let of = |label: &str| -> Vec<String> {
        let lines =
            alerts.lines().filter_map(|line| line.trim().trim_start_matches("- ").strip_prefix(label));
        lines.map(|rest| rest.trim().to_owned()).collect()
    };
    let (names, pages) = (of("alert:"), of("page:"));
    assert_eq!(names.len(), pages.len(), "every alert has one");
    for (name, page) in names.iter().zip(&pages) {
        assert!(read(page).contains(&format!("`{name}`")), "{page} doesn't name {name}");
    }
    let there: BTreeSet<String> = std::fs::read_dir(repository("docs/alerts"))
        .unwrap()
        .map(|entry| format!("docs/alerts/{}", entry.unwrap().file_name().into_string().unwrap()))
        .collect();
    assert_eq!(pages.into_iter().collect::<BTreeSet<_>>(), there);
}

/// Everything that a dashboard may ask for is a rule to promtool.
#[test]
fn the_dashboards_expressions_are_valid_and_about_metrics_that_there_are() {
    let dashboard: Value = serde_json::from_str(&read(DASHBOARD)).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    let expressions: Vec<&str> = targets.map(|target| target["expr"].as_str().unwrap()).collect();
    assert!(expressions.len() >= 30);
    let rows = rows();
    let mut rules = String::from("groups:\n  - name: dashboard\n    rules:\n");
    for (number, expression) in expressions.iter().enumerate() {
        assert_known(&rows, expression);
        let expression = expression.replace("$__rate_interval", "5m");
        let expression = serde_json::to_string(&expression).unwrap();
        rules.push_str(&format!("      - {{ record: \"panel:{number}\", expr: {expression} }}\n"));
    }
    let directory = Directory::new();
    directory.write("rules.yaml", rules);
    accepts(&["check", "rules", directory.path("rules.yaml").to_str().unwrap()]);
}

/// Where a file's dashboard isn't what Grafana's own schema says.
fn strange_to_grafana(path: &str) -> String {
    let packages = tidegate_testkit::wheel("grafana-foundation-sdk", MODEL, &[]).unwrap();
    let script = repository("crates/tidegate/tests/metrics/grafana.py");
    let output = Command::new("python3").args([&script, path]).env("PYTHONPATH", packages).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn the_dashboard_is_of_grafanas_own_schema() {
    assert_eq!(strange_to_grafana(&repository(DASHBOARD)), "");
    let directory = Directory::new();
    for (right, wrong) in [("\"fieldConfig\"", "\"fieldConfigs\""), ("\"legendFormat\"", "\"legend\"")] {
        directory.write("wrong.json", read(DASHBOARD).replace(right, wrong));
        let said = strange_to_grafana(directory.path("wrong.json").to_str().unwrap());
        assert!(said.contains(&wrong.replace('"', "")), "{wrong}: {said}");
    }
}

#[test]
fn the_dashboards_panels_stand_side_by_side() {
    let dashboard: Value = serde_json::from_str(&read(DASHBOARD)).unwrap();
    let mut taken = BTreeSet::new();
    let mut ids = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        let at = |field: &str| panel["gridPos"][field].as_u64().unwrap();
        assert!(at("x") + at("w") <= 24, "{panel}");
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "two panels with one id: {panel}");
        assert!(!panel["title"].as_str().unwrap().is_empty());
        for x in at("x")..at("x") + at("w") {
            for y in at("y")..at("y") + at("h") {
                assert!(taken.insert((x, y)), "over another one: {panel}");
            }
        }
    }
}
