//! The files of `deploy/`: checked by the programs that read them where those can be had, and otherwise by what they
//! say of Tidegate. A setting that isn't one, a path that nobody mounts, a grace period that is too short fail here.
//!
//! No cluster, no Docker daemon and no systemd as process 1 are needed; so what they do with these files isn't seen.

mod docker;
mod kubernetes;
mod systemd;

use crate::support::{Directory, Finished, run};
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").canonicalize().unwrap()
}

fn read(name: &str) -> String {
    let path = folder().join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

type Variables = Vec<(String, String)>;

/// `--print-config` with these variables and no others.
fn settings(directory: &Directory, arguments: &[&str], variables: &Variables) -> Finished {
    let environment: Vec<(&str, &str)> = variables.iter().map(|(name, value)| (&**name, &**value)).collect();
    run(directory, &[&["serve", "--print-config"], arguments].concat(), &environment)
}

/// All of them are settings, and one that is misspelt is found.
fn assert_accepted(directory: &Directory, arguments: &[&str], variables: &Variables) {
    assert!(!variables.is_empty());
    let shown = settings(directory, arguments, variables);
    assert_eq!(shown.code, Some(0), "{variables:?}: {}", shown.stderr);
    for at in 0..variables.len() {
        let mut misspelt = variables.clone();
        misspelt[at].0 += "X";
        let refused = settings(directory, arguments, &misspelt);
        assert_eq!(refused.code, Some(2), "{misspelt:?}: {}", refused.stdout);
        assert!(refused.stderr.contains(&misspelt[at].0), "{}", refused.stderr);
    }
}
