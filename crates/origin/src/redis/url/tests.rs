//! Urls as operators write them, right and wrong. None of the wrong ones may give a password away.

use super::*;

fn tcp(host: &str, port: u16) -> Address {
    Address::tcp(host, port)
}

fn read(text: &str) -> RedisUrl {
    RedisUrl::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn login(text: &str) -> (Option<String>, Option<String>) {
    let Credentials { user, password } = read(text).credentials;
    (user, password.map(|password| password.reveal().to_owned()))
}

#[test]
fn standalone_urls_are_read() {
    let table = [
        ("redis://127.0.0.1", tcp("127.0.0.1", 6379), 0),
        ("redis://redis.example:7000", tcp("redis.example", 7000), 0),
        ("redis://my_redis-1:7000/", tcp("my_redis-1", 7000), 0),
        ("redis://h:7000/5", tcp("h", 7000), 5),
        ("REDIS://h", tcp("h", 6379), 0),
        ("  redis://h\n", tcp("h", 6379), 0),
        ("valkey://h", tcp("h", 6379), 0),
        ("redis://[::1]", tcp("::1", 6379), 0),
        ("redis://[fe80::1]:7000/1", tcp("fe80::1", 7000), 1),
        ("redis+unix:///run/redis.sock", Address::Unix("/run/redis.sock".into()), 0),
        ("unix:///run/my%20redis.sock?db=3", Address::Unix("/run/my redis.sock".into()), 3),
    ];
    for (text, address, database) in table {
        let url = read(text);
        assert_eq!(url.topology, Topology::Standalone(address), "{text}");
        assert_eq!(url.database, database, "{text}");
        assert_eq!(url.tls, None, "{text}");
    }
}

#[test]
fn credentials_are_decoded() {
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(login("redis://h"), (None, None));
    assert_eq!(login("redis://ann@h"), (some("ann"), None));
    assert_eq!(login("redis://ann:secret@h"), (some("ann"), some("secret")));
    assert_eq!(login("redis://:secret@h"), (None, some("secret")));
    assert_eq!(login("redis://ann:@h"), (some("ann"), None));
    assert_eq!(login("redis://a%40b:%2f%3F%23%3a%25%C3%A9@h"), (some("a@b"), some("/?#:%é")));
    assert_eq!(login("redis://ann:se:cret@h"), (some("ann"), some("se:cret")));
    assert_eq!(login("redis://ann:se@cret@h"), (some("ann"), some("se@cret")));
    assert_eq!(login("redis+unix://ann:secret@/run/redis.sock"), (some("ann"), some("secret")));
    assert_eq!(login("redis+cluster://ann:secret@a,b"), (some("ann"), some("secret")));
}

#[test]
fn clusters_and_sentinels_are_lists() {
    let url = read("redis+cluster://a:1,[::1]:2,c");
    assert_eq!(url.topology, Topology::Cluster(vec![tcp("a", 1), tcp("::1", 2), tcp("c", 6379)]));

    let url =
        read("redis+sentinel://ann:secret@a,b:5/my%2Fmaster/2?sentinel_user=eve&sentinel_password=s%26w");
    let Topology::Sentinel { sentinels, master, credentials } = url.topology else { panic!("not sentinels") };
    assert_eq!(sentinels, [tcp("a", 26379), tcp("b", 5)]);
    assert_eq!(master, "my/master");
    assert_eq!(credentials.user.as_deref(), Some("eve"));
    assert_eq!(credentials.password.as_ref().map(Secret::reveal), Some("s&w"));
    assert_eq!(url.credentials.password.as_ref().map(Secret::reveal), Some("secret"));
    assert_eq!(url.database, 2);
}

#[test]
fn tls_is_asked_for_by_the_scheme() {
    for scheme in ["rediss", "rediss+cluster", "valkeys"] {
        assert_eq!(read(&format!("{scheme}://h")).tls, Some(Tls { authorities: None }), "{scheme}");
    }
    let tls = read("rediss+sentinel://h/m?ca=/etc/my%20ca.pem").tls.unwrap();
    assert_eq!(tls.authorities, Some("/etc/my ca.pem".into()));
}

#[test]
fn wrong_urls_are_refused_with_part_and_remedy() {
    let table = [
        ("", "scheme is missing"),
        ("127.0.0.1:6379", "scheme is missing"),
        ("http://h", "scheme is none that Tidegate knows"),
        ("redis+tls://h", "scheme is none"),
        ("redis://", "host is missing"),
        ("redis://:7000", "host is missing"),
        ("redis://ann:secret@", "host is missing"),
        ("redis://h:", "port isn't a number"),
        ("redis://h:0", "port isn't a number"),
        ("redis://h:70000", "port isn't a number"),
        ("redis://h:x", "port isn't a number"),
        ("redis://[::1]x", "port isn't a number"),
        ("redis://::1", "write it in brackets"),
        ("redis://[::1", "write it in brackets"),
        ("redis://[h]", "write it in brackets"),
        ("redis://ho st", "has a character that no host has"),
        ("redis://höst", "has a character that no host has"),
        ("redis://a,b", "use redis+cluster:// or redis+sentinel://"),
        ("redis://h/x", "database isn't a number"),
        ("redis://h/-1", "database isn't a number"),
        ("redis://h/1/2", "database isn't a number"),
        ("redis+cluster://a/1", "database of a cluster is always 0"),
        ("redis+cluster://a,,b", "host is missing"),
        ("redis+cluster://", "host is missing"),
        ("redis+sentinel://a", "master's name is missing"),
        ("redis+sentinel://a/", "master's name is missing"),
        ("redis+sentinel://a/m/x", "database isn't a number"),
        ("redis+unix://run/redis.sock", "as in redis+unix:///run/redis.sock"),
        ("redis+unix:///", "as in redis+unix:///run/redis.sock"),
        ("unix:///run/redis.sock?db=x", "database isn't a number"),
        ("redis://%zz:x@h", "% as %25"),
        ("redis://a:100%@h", "% as %25"),
        ("redis://%ff@h", "% as %25"),
        ("redis://h?ca=/x.pem", "begin with rediss"),
        ("rediss://h?ca=", "value that is empty"),
        ("rediss://h?insecure", "name the certificate authority"),
        ("rediss://h?insecure=true", "name the certificate authority"),
        ("rediss://h?sentinel_user=x", "means nothing here; use ca"),
        ("redis://h?x=y", "this kind of url has none"),
        ("redis://h#x", "# as %23"),
    ];
    for (text, expected) in table {
        let error = RedisUrl::parse(text).expect_err(text).to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn no_error_and_no_output_shows_a_password() {
    let wrong = [
        "redis://ann:hunter2",
        "redis://ann:hunter2@",
        "redis://ann:hunter2/x@h",
        "redis://ann:hunter2?x@h",
        "redis://ann:x#hunter2@h",
        "redis://ann:x/hunter2@h",
        "redis://ann:x?hunter2=@h",
        "redis://ann:hunter2@h:port",
        "redis://ann:hunter2@h/x",
        "redis://ann:hunter2%@h",
        "redis://hunter2:x:x",
        "http://ann:hunter2@h",
        "ann:hunter2@h",
        "redis+sentinel://h/m?sentinel_password=hunter2&x",
        "redis+sentinel://h/m?sentinel_password=hunter2@x",
        "redis+sentinel://h/m?hunter2",
    ];
    for text in wrong {
        let error = RedisUrl::parse(text).expect_err(text);
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{text}: {error}");
    }
    for right in ["redis://ann:hunter2@h", "redis+sentinel://h/m?sentinel_password=hunter2"] {
        let url = read(right);
        assert!(!format!("{url} {url:?} {url:#?}").contains("hunter2"), "{url:?}");
        assert!(url.to_string().contains("***"), "{url}");
    }
}

#[test]
fn a_url_without_a_password_is_printed_as_it_can_be_read() {
    let table = [
        "redis://127.0.0.1:6379",
        "redis://ann%40x@h:1/5",
        "rediss://[::1]:6379?ca=/etc/my%20ca.pem",
        "redis+cluster://a:1,b:2",
        "rediss+cluster://a:1",
        "redis+sentinel://a:1,b:2/m%26m/3?sentinel_user=eve",
        "redis+unix:///run/redis.sock?db=3",
    ];
    for text in table {
        assert_eq!(read(text).to_string(), text);
        assert_eq!(read(&read(text).to_string()), read(text));
    }
    assert_eq!(read("redis://ann:secret@h").to_string(), "redis://ann:***@h:6379");
    assert_ne!(read("redis://ann:secret@h"), read("redis://ann:other@h"));
}

#[test]
fn no_text_makes_the_parser_panic() {
    let pieces = [
        "redis",
        "rediss+sentinel",
        "unix",
        "://",
        ":",
        "@",
        "/",
        "?",
        "#",
        "%",
        "%4",
        "é",
        "[",
        "]",
        ",",
        "=",
        "&",
        "ca",
        "a",
    ];
    let mut state = 1_u64;
    for _ in 0..100_000 {
        let mut text = String::new();
        for _ in 0..8 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            text.push_str(pieces[usize::try_from(state >> 33).unwrap() % pieces.len()]);
        }
        let _ = RedisUrl::parse(&text);
    }
}
