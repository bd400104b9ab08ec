//! Reading files and directories, as people and Kubernetes lay them out.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use tidegate_rules::{ReadError, read_sources};

/// A directory of the test's own, removed at its end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("tidegate-rules-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn texts(path: &Path) -> Vec<String> {
    let sources = read_sources(path).unwrap();
    sources.into_iter().map(|source| String::from_utf8(source.text).unwrap()).collect()
}

#[test]
fn a_directorys_yaml_files_are_read_in_the_order_of_their_names() {
    let scratch = Scratch::new();
    for name in ["b.yaml", "a.yml", "c.yaml", ".hidden.yaml", "notes.txt", "sub/d.yaml", "yaml"] {
        scratch.write(name, name);
    }
    fs::create_dir(scratch.0.join("directory.yaml")).unwrap();
    assert_eq!(texts(&scratch.0), ["a.yml", "b.yaml", "c.yaml"]);
    assert_eq!(
        texts(&scratch.0.join("notes.txt")),
        ["notes.txt"],
        "a file that is named is read whatever its name"
    );
}

#[test]
fn a_config_map_is_read_through_its_links_before_and_after_a_swap() {
    let scratch = Scratch::new();
    scratch.write("..2026_01/rules.yaml", "old");
    scratch.write("..2026_02/rules.yaml", "new");
    symlink("..2026_01", scratch.0.join("..data")).unwrap();
    symlink("..data/rules.yaml", scratch.0.join("rules.yaml")).unwrap();
    assert_eq!(texts(&scratch.0), ["old"]);
    assert_eq!(texts(&scratch.0.join("rules.yaml")), ["old"]);
    symlink("..2026_02", scratch.0.join("..data_tmp")).unwrap();
    fs::rename(scratch.0.join("..data_tmp"), scratch.0.join("..data")).unwrap();
    assert_eq!(texts(&scratch.0), ["new"]);
    assert_eq!(texts(&scratch.0.join("rules.yaml")), ["new"]);
}

#[test]
fn what_cant_be_read_says_so_with_its_path_and_a_remedy() {
    let scratch = Scratch::new();
    let missing = read_sources(&scratch.0.join("nowhere.yaml")).unwrap_err();
    assert!(missing.to_string().contains("nowhere.yaml") && missing.to_string().contains("check the path"));
    let empty = read_sources(&scratch.0).unwrap_err();
    assert!(matches!(empty, ReadError::NoFiles { .. }) && empty.to_string().contains("namespace: default"));
    symlink("gone", scratch.0.join("dangling.yaml")).unwrap();
    assert!(matches!(read_sources(&scratch.0), Err(ReadError::Unreadable { .. })));
}

#[test]
fn a_file_beyond_the_bound_is_refused() {
    let large = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("large-{}.yaml", std::process::id()));
    let file = std::fs::File::create(&large).unwrap();
    file.set_len(tidegate_rules::SOURCES_BYTES_MAX as u64 + 1).unwrap();
    let refused = read_sources(&large);
    std::fs::remove_file(&large).unwrap();
    assert!(matches!(refused, Err(ReadError::TooLarge { .. })));
    assert!(matches!(read_sources(Path::new("/dev/zero")), Err(ReadError::NotAFile { .. })));
}

#[test]
fn a_pipe_is_refused_instead_of_waited_for() {
    let pipe = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("pipe-{}", std::process::id()));
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let refused = read_sources(&pipe).unwrap_err();
    std::fs::remove_file(&pipe).unwrap();
    assert!(matches!(refused, ReadError::NotAFile { .. }), "{refused}");
}
