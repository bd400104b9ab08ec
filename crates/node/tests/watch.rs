//! The watch over the rules files: what it notices, what it reads, what it says only once.

use std::path::PathBuf;
use tidegate_core::FleetSecret;
use tidegate_node::driver::RulesWatch;
use tidegate_rules::read_sources;

const SECRET: FleetSecret = FleetSecret::BUILT_IN;

fn folder(name: &str) -> PathBuf {
    let path =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("watch-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    path
}

fn rules(limit: u32) -> String {
    format!("namespace: api\nrules:\n  - {{ name: r, key: [user], limit: {limit} per 1m }}\n")
}

#[test]
fn a_change_is_noticed_once_and_a_bad_set_is_reported_once() {
    let file = folder("file").join("rules.yaml");
    std::fs::write(&file, rules(1)).unwrap();
    let mut watch = RulesWatch::new(file.clone(), &read_sources(&file).unwrap());
    let mut look = || (watch.poll(&SECRET), watch.poll(&SECRET));
    assert!(matches!(look(), (None, None)));
    // The same length, and within the same tick of the file system's clock.
    std::fs::write(&file, rules(2)).unwrap();
    assert!(matches!(look(), (None, Some(Ok(_)))), "read once it stood still for a look");
    std::fs::write(&file, rules(3)).unwrap();
    assert!(matches!(look(), (None, Some(Ok(_)))));
    assert!(matches!(look(), (None, None)));
    std::fs::write(&file, "namespace: api\nrules: 5\n").unwrap();
    assert!(matches!(look(), (None, Some(Err(_)))));
    assert!(matches!(look(), (None, None)));
    std::fs::write(&file, "").unwrap();
    assert!(matches!(look(), (None, Some(Err(_)))), "an empty file would lift every limit");
    std::fs::remove_file(&file).unwrap();
    assert!(matches!(look(), (Some(Err(_)), None)));
    std::fs::write(&file, rules(3)).unwrap();
    assert!(matches!(look(), (None, Some(Ok(_)))), "back again");
}

#[test]
fn a_swapped_link_is_followed() {
    let folder = folder("link");
    let (old, new, link) = (folder.join("old.yaml"), folder.join("new.yaml"), folder.join("rules.yaml"));
    std::fs::write(&old, rules(1)).unwrap();
    std::fs::write(&new, rules(2)).unwrap();
    let _ = std::fs::remove_file(&link);
    std::os::unix::fs::symlink(&old, &link).unwrap();
    let mut watch = RulesWatch::new(link.clone(), &read_sources(&link).unwrap());
    assert!((0..3).all(|_| watch.poll(&SECRET).is_none()));
    std::fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(&new, &link).unwrap();
    assert!(watch.poll(&SECRET).is_none());
    assert!(watch.poll(&SECRET).is_some_and(|read| read.is_ok()));
}
