//! What is written is read again, and what nobody wrote is refused with its line.

use super::*;
use tidegate_server::NewToken;

fn token(tenant: &str) -> StoredToken {
    let new = NewToken::generate().unwrap();
    StoredToken {
        id: new.id,
        name: "a \"name\" with é and \\".to_owned(),
        tenant: tenant.to_owned(),
        permissions: Permissions::default().with(Permission::Check).with(Permission::Admin),
        created: "2026-11-16T07:55:00Z".to_owned(),
        hash: new.hash(),
    }
}

fn directory(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("tidegate-tokens-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

fn changed(path: &Path, how: impl FnOnce(&mut Vec<StoredToken>)) {
    let change_all = |tokens: &mut Vec<StoredToken>| {
        how(tokens);
        Ok::<_, FileError>(())
    };
    change(path, change_all).unwrap();
}

#[test]
fn what_is_written_is_read() {
    let tokens = vec![token("acme"), token("a tenant, quoted: \"x\"")];
    let read = parse(&render(&tokens)).map_err(|wrong| wrong.message).unwrap();
    assert_eq!(read, tokens);
    assert!(parse("").is_ok_and(|none| none.is_empty()));
}

#[test]
fn what_is_wrong_is_told_with_its_line() {
    let good = render(&[token("acme")]);
    // The first token begins in line 4.
    let cases = [
        (good.replace("tenant = \"acme\"", "tenant = \"\""), 7, "tenant"),
        (good.replace("tenant = \"acme\"", "tenant = \"a\\nb\""), 7, "tenant"),
        (good.replace("\"check\"", "\"chekc\""), 8, "isn't a permission"),
        (good.replace("sha256 = \"", "sha256 = \"x"), 10, "64 of 0-9"),
        (good.replace("id = \"", "id = \"!"), 5, "12 letters"),
        (good.replace("created = ", "craeted = "), 9, "craeted"),
        (good.replace("tenant = \"acme\"", "tenant = acme"), 7, ""),
        (format!("{good}{}", &good[good.find("\n[[token]]").unwrap()..]), 13, "comes twice"),
    ];
    for (text, line, message) in cases {
        let path = directory("wrong").join("tokens.toml");
        fs::write(&path, &text).unwrap();
        match read(&path).unwrap_err() {
            FileError::Bad { line: at, message: said, .. } => {
                assert_eq!(at, line, "{said}\n{text}");
                assert!(said.contains(message), "{said}");
            }
            other => panic!("{other}"),
        }
    }
}

#[test]
fn changes_at_once_lose_nothing_and_the_file_stays_its_owners() {
    let path = directory("at-once").join("tokens.toml");
    std::thread::scope(|scope| {
        for number in 0..8 {
            let path = &path;
            scope.spawn(move || {
                let add = |tokens: &mut Vec<StoredToken>| {
                    tokens.push(token(&format!("tenant-{number}")));
                    Ok::<_, FileError>(())
                };
                (0..5).for_each(|_| change(path, add).unwrap());
            });
        }
    });
    assert_eq!(read(&path).unwrap().len(), 40);
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    changed(&path, Vec::clear);
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o640, "a group that could read it still can");
    assert!(read(&path).unwrap().is_empty());
}

#[test]
fn a_link_is_followed_not_replaced() {
    let directory = directory("link");
    let (file, link) = (directory.join("real.toml"), directory.join("tokens.toml"));
    fs::write(&file, "").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    changed(&link, |tokens| tokens.push(token("acme")));
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(read(&file).unwrap().len(), 1);
}

#[test]
fn a_failed_change_changes_nothing() {
    let path = directory("failed").join("tokens.toml");
    changed(&path, |tokens| tokens.push(token("acme")));
    let before = fs::read(&path).unwrap();
    let refuse = |tokens: &mut Vec<StoredToken>| {
        tokens.clear();
        Err::<(), _>(FileError::Locked { path: PathBuf::new() })
    };
    assert!(change(&path, refuse).is_err());
    assert_eq!(fs::read(&path).unwrap(), before);
}
