//! The units: by systemd's own checks, by the program's table of settings, and by a process that runs by them.

use super::{Variables, assert_accepted, folder, read};
use crate::support::{Directory, Node, Process, SOON, poll, request, run, start};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

const UNITS: [(&str, &str); 2] =
    [("tidegate.service", "tidegate.toml"), ("tidegate-control.service", "control.toml")];
/// Tenths: below 2 of 10 `systemd-analyze security` speaks of an exposure that is OK.
const EXPOSURE_TENTHS_MAX: &str = "15";

/// What is said more than once is a list.
fn values<'u>(unit: &'u str, key: &str) -> Vec<&'u str> {
    unit.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('=')).collect()
}

fn value<'u>(unit: &'u str, key: &str) -> &'u str {
    let [value] = values(unit, key)[..] else { panic!("{key}: once, in\n{unit}") };
    value
}

/// What it gives its process, with the places of a machine moved into a directory.
fn variables(unit: &str, directory: &Directory) -> Variables {
    let moved = |text: &str| {
        let root = directory.root().display();
        text.replace("/var/lib/", &format!("{root}/")).replace("/run/", &format!("{root}/"))
    };
    let pair =
        |line: &str| line.split_once('=').map(|(name, value)| (name.to_owned(), moved(value))).unwrap();
    values(unit, "Environment").into_iter().map(pair).collect()
}

#[test]
fn systemd_takes_the_units_and_finds_them_confined() {
    let directory = Directory::new();
    for (name, _) in UNITS {
        // Verified with a program that is there: whether it is, is part of what is verified.
        let unit = read(&format!("systemd/{name}"))
            .replace("/usr/local/bin/tidegate", env!("CARGO_BIN_EXE_tidegate"));
        directory.write(name, unit);
        let path = directory.path(name).display().to_string();
        for arguments in [
            vec!["verify", "--man=no", &path],
            vec!["security", "--offline=yes", "--no-pager", "--threshold", EXPOSURE_TENTHS_MAX, &path],
        ] {
            let output = Command::new("systemd-analyze").args(&arguments).output();
            let output = output.expect("systemd-analyze (package systemd); `cargo xtask test` installs it");
            let said =
                [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            assert!(output.status.success(), "{arguments:?}: {said:?}");
            // Warnings, such as of a key that this systemd doesn't know, leave the exit code alone.
            assert!(
                arguments[0] == "security" || said.iter().all(String::is_empty),
                "{arguments:?}: {said:?}"
            );
        }
    }
}

#[test]
fn a_misspelt_key_of_a_unit_is_found() {
    let directory = Directory::new();
    let unit =
        read("systemd/tidegate.service").replace("/usr/local/bin/tidegate", env!("CARGO_BIN_EXE_tidegate"));
    directory.write("tidegate.service", unit.replace("MemoryMax=", "MemoryMost="));
    let path = directory.path("tidegate.service");
    let output = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(path).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("MemoryMost"), "{output:?}");
}

#[test]
fn the_units_settings_are_settings() {
    for (name, file) in UNITS {
        let (unit, directory) = (read(&format!("systemd/{name}")), Directory::new());
        directory.write("rules.yaml", crate::support::rules_of(1));
        let rules = directory.path("rules.yaml").display().to_string();
        directory.write(file, read(&format!("systemd/{file}")).replace("/etc/tidegate/rules.yaml", &rules));
        assert_accepted(&directory, &["--config", file], &variables(&unit, &directory));
        assert!(value(&unit, "ExecStart").ends_with(&format!("--config /etc/tidegate/{file}")));
    }
}

/// As the unit would have it: its arguments, its variables, its directories.
#[test]
fn a_node_runs_by_its_unit_and_its_group_may_use_the_socket() {
    let (unit, directory) = (read("systemd/tidegate.service"), Directory::new());
    std::fs::create_dir(directory.path("tidegate")).unwrap();
    let toml =
        read("systemd/tidegate.toml").replace("/etc/tidegate", &directory.root().display().to_string());
    directory.write("tidegate.toml", toml);
    directory.write("rules.yaml", crate::support::rules_of(1));
    let variables = variables(&unit, &directory);
    let environment: Vec<(&str, &str)> = variables.iter().map(|(name, value)| (&**name, &**value)).collect();
    let node = Node::start_with(&directory, &["--config", "tidegate.toml"], &environment);
    assert_eq!(request(&node.admin, "GET", "/readyz", "").0, 200);
    for socket in ["tidegate/tidegate.sock", "tidegate/tidegate.sock.resp"] {
        let mode = std::fs::metadata(directory.path(socket)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o660, "{socket}");
    }
    // The log's own thread makes it.
    poll("data in the state directory", SOON, || directory.path("tidegate/decisions").exists().then_some(()));
}

#[test]
fn a_control_plane_runs_by_its_unit() {
    let (unit, directory) = (read("systemd/tidegate-control.service"), Directory::new());
    std::fs::create_dir(directory.path("tidegate-control")).unwrap();
    directory.write("control.toml", read("systemd/control.toml"));
    let variables = variables(&unit, &directory);
    let environment: Vec<(&str, &str)> = variables.iter().map(|(name, value)| (&**name, &**value)).collect();
    let arguments = ["control", "--config", "control.toml", "--listen", "127.0.0.1:0"];
    let control = start(&directory, &arguments, &environment);
    let ready = || is_ready(&directory);
    poll("a control plane that is ready", SOON * 4, ready);
    assert!(directory.path("tidegate-control/rules.db").exists());
    drop::<Process>(control);
}

fn is_ready(directory: &Directory) -> Option<()> {
    let banner = directory.read("stdout");
    let address = banner.lines().find_map(|line| line.trim().strip_prefix("control http://"))?.to_owned();
    let health = run(&Directory::new(), &["health", "--url", &format!("http://{address}")], &[]);
    (health.code == Some(0)).then_some(())
}

/// A unit that restarts what can't run only hides why.
#[test]
fn wrong_settings_end_with_the_code_that_isnt_restarted() {
    let directory = Directory::new();
    for (name, _) in UNITS {
        let unit = read(&format!("systemd/{name}"));
        let code = value(&unit, "RestartPreventExitStatus").parse::<i32>().unwrap();
        let command = value(&unit, "ExecStart").split_whitespace().nth(1).unwrap();
        let ended = run(&directory, &[command], &[("TIDEGATE_REGION", "NOT A REGION")]);
        assert_eq!(ended.code, Some(code), "{}", ended.stderr);
    }
}

/// What it may take to end: the drain time, two seconds to publish, and a save.
#[test]
fn a_unit_waits_for_the_drain() {
    for (name, _) in UNITS {
        let unit = read(&format!("systemd/{name}"));
        let shown =
            super::settings(&Directory::new(), &[], &vec![("TIDEGATE_REGION".into(), "x".into())]).stdout;
        let row = shown.lines().find(|line| line.starts_with("shutdown.drain_ms")).unwrap();
        let drain_ms: u64 = row.split_whitespace().nth(1).unwrap().parse().unwrap();
        let stop_s: u64 = value(&unit, "TimeoutStopSec").parse().unwrap();
        assert!(stop_s * 1000 >= drain_ms + 10_000, "{name}");
    }
    assert!(folder().join("systemd/tidegate.sysusers.conf").exists());
    let group = value(&read("systemd/tidegate.service"), "Group").to_owned();
    assert!(read("systemd/tidegate.sysusers.conf").contains(&format!("g {group} -")));
}
