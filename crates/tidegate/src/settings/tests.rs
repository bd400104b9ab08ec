//! Settings without a process: what each layer gives, and what each parser refuses.

use super::*;

fn environment(pairs: &[(&str, &str)]) -> Sources {
    let environment = pairs.iter().map(|(name, value)| (name.into(), value.into())).collect();
    Sources { environment, ..Sources::default() }
}

fn errors(pairs: &[(&str, &str)]) -> String {
    Settings::load(environment(pairs)).expect_err("these settings are bad").to_string()
}

#[test]
fn a_flag_beats_the_environment() {
    let mut sources = environment(&[("TIDEGATE_REGION", "from-environment")]);
    sources.flags[0] = Some("from-flag".into());
    assert_eq!(Settings::load(sources).unwrap().region, "from-flag");
}

#[test]
fn all_errors_are_told_at_once() {
    let text = errors(&[("TIDEGATE_REGION", "A B"), ("TIDEGATE_LOG_FORMAT", "xml"), ("TIDEGATE_NODDE", "x")]);
    assert_eq!(text.lines().count(), 3, "{text}");
    assert!(text.contains("did you mean `TIDEGATE_NODE`?"), "{text}");
}

#[test]
fn what_kubernetes_adds_for_a_service_of_our_name_is_left_alone() {
    let pairs = [
        ("TIDEGATE_SERVICE_HOST", "10.0.0.1"),
        ("TIDEGATE_SERVICE_PORT", "8080"),
        ("TIDEGATE_SERVICE_PORT_HTTP", "8080"),
        ("TIDEGATE_PORT", "tcp://10.0.0.1:8080"),
        ("TIDEGATE_PORT_8080_TCP", "tcp://10.0.0.1:8080"),
        ("TIDEGATE_PORT_8080_TCP_ADDR", "10.0.0.1"),
        ("TIDEGATE_ADMIN_PORT_9090_TCP_PROTO", "tcp"),
    ];
    assert!(Settings::load(environment(&pairs)).is_ok());
    assert!(errors(&[("TIDEGATE_PORT", "8080")]).contains("no such setting"));
}

#[test]
fn only_loopback_is_listened_on_without_tokens() {
    for address in ["127.0.0.1:0", "127.9.9.9:80", "[::1]:8080", "localhost:8080", "[::ffff:127.0.0.1]:1"] {
        assert!(Settings::load(environment(&[("TIDEGATE_LISTEN_HTTP", address)])).is_ok(), "{address}");
    }
    for address in ["0.0.0.0:80", "[::]:80", "10.0.0.1:80", "[::ffff:10.0.0.1]:80"] {
        for key in ["HTTP", "GRPC", "RESP", "ADMIN"] {
            let listen = (&*format!("TIDEGATE_LISTEN_{key}"), address);
            let text = errors(&[listen]);
            let key = format!("listen.{}", key.to_lowercase());
            assert!(
                text.contains("auth.tokens") && text.contains(&key) && text.contains("loopback"),
                "{text}"
            );
            assert!(Settings::load(environment(&[listen, ("TIDEGATE_AUTH_TOKENS", "tokens.toml")])).is_ok());
        }
    }
}

#[test]
fn half_of_tls_is_refused() {
    let [certificate, key, authority] = [
        ("TIDEGATE_TLS_CERTIFICATE", "c.pem"),
        ("TIDEGATE_TLS_KEY", "/"),
        ("TIDEGATE_TLS_CLIENT_CA", "a.pem"),
    ];
    assert!(errors(&[certificate]).contains("is set without tls.key"));
    assert!(errors(&[key]).contains("is set without tls.certificate"));
    assert!(errors(&[authority]).contains("tls.client_ca = \"a.pem\""));
    assert!(Settings::load(environment(&[certificate, key, authority])).is_ok());
}

#[test]
fn a_misspelt_log_level_is_refused() {
    for good in ["info", "off", "warn,tidegate_node=debug", "tidegate_server::http=trace"] {
        assert!(parse::log_level(good).is_ok(), "{good}");
    }
    for bad in ["", "infoo", "warn,,info", "tidegate=", "=info", "info,tidegate=loud"] {
        assert!(parse::log_level(bad).is_err(), "{bad}");
    }
}

#[test]
fn the_key_cap_is_a_quarter_of_memory_within_its_range() {
    let keys = |bytes, pairs: &[(&str, &str)]| {
        let mut settings = Settings::load(environment(pairs)).unwrap();
        settings.keys_max = KeysMax::QuarterOf(MemoryLimit { bytes });
        settings.keys_max()
    };
    let shared = [("TIDEGATE_ORIGIN_URL", "redis://h")];
    assert_eq!(keys(320_000_000, &[]), 1_000_000);
    assert_eq!(keys(320_000_000, &shared), 500_000, "what is shared takes twice the room");
    let world = [("TIDEGATE_WORLD_URL", "sqlite:w.db"), ("TIDEGATE_REGION", "a")];
    assert_eq!(keys(320_000_000, &world), 200_000, "and what other regions hear of more");
    assert_eq!(keys(0, &[]), 1_000);
    assert_eq!(keys(u64::MAX, &shared), 2_000_000_000);
}

#[test]
fn a_secret_is_neither_printed_nor_quoted() {
    let text = errors(&[("TIDEGATE_ORIGIN_URL", "redis://:hunter2@h:port")]);
    assert!(text.contains("the port isn't a number") && !text.contains("hunter2"), "{text}");
    for url in ["memory:", "redis://:hunter2@h:1"] {
        let printed = print(&Settings::load(environment(&[("TIDEGATE_ORIGIN_URL", url)])).unwrap());
        assert!(printed.contains("(set)") && !printed.contains("hunter2"), "{printed}");
    }
}

#[test]
fn a_region_among_others_needs_a_name() {
    let url = ("TIDEGATE_WORLD_URL", "sqlite:world.db");
    let text = errors(&[url]);
    assert!(text.contains("region") && text.contains("needed with world.url"), "{text}");
    let long = "x".repeat(49);
    assert!(errors(&[url, ("TIDEGATE_REGION", &long)]).contains("too long"));
    assert!(Settings::load(environment(&[url, ("TIDEGATE_REGION", &long[1..])])).is_ok());
    assert!(Settings::load(environment(&[("TIDEGATE_REGION", &long)])).is_ok(), "nobody else must know it");
    let secret = errors(&[("TIDEGATE_WORLD_URL", "mysql://u:hunter2@h:port/d"), ("TIDEGATE_REGION", "a")]);
    assert!(!secret.contains("hunter2"), "{secret}");
    let region = ("TIDEGATE_REGION", "a");
    let printed = Settings::load(environment(&[("TIDEGATE_WORLD_URL", "mysql://u:hunter2@h/d"), region]));
    let printed = print(&printed.unwrap());
    assert!(printed.contains("world.url") && !printed.contains("hunter2"), "{printed}");
    for (key, value) in [("POLICY", "best"), ("FLOOR", "0"), ("FLOOR", "1.01"), ("INTERVAL_MS", "10")] {
        let text = errors(&[(&*format!("TIDEGATE_WORLD_{key}"), value)]);
        assert!(text.contains(&format!("world.{}", key.to_lowercase())), "{text}");
    }
}

#[test]
fn every_key_has_its_own_spellings() {
    let mut spellings: Vec<String> = TABLE.iter().map(|setting| key::environment(setting.key)).collect();
    spellings.extend(TABLE.iter().map(|setting| key::environment(setting.key) + "_FILE"));
    spellings.sort();
    let total = spellings.len();
    spellings.dedup();
    assert_eq!(spellings.len(), total, "two settings share an environment variable");
}

#[test]
fn where_a_node_is_asked_needs_no_other_setting_to_be_right() {
    let asked = |pairs: &[(&str, &str)]| Settings::listen_http(environment(pairs));
    assert_eq!(asked(&[]).unwrap().to_string(), "127.0.0.1:8080");
    let pairs = [("TIDEGATE_LISTEN_HTTP", "127.0.0.1:9090"), ("TIDEGATE_CLUSTER_SECRET_FILE", "/unreadable")];
    assert_eq!(asked(&pairs).unwrap().to_string(), "127.0.0.1:9090");
    assert!(asked(&[("TIDEGATE_LISTEN_HTTP", "nowhere")]).unwrap_err().to_string().contains("listen.http"));
}

#[test]
fn the_defaults_that_help_tells_are_those_in_force() {
    let defaults = Settings::defaults();
    for setting in TABLE.iter().filter(|setting| !setting.default.contains(' ')) {
        let mut given = Settings::defaults();
        (setting.read)(setting.default, &mut given).unwrap();
        assert_eq!((setting.show)(&given), (setting.show)(&defaults), "{}", setting.key);
        assert_eq!((setting.show)(&defaults), setting.default, "{}", setting.key);
    }
}

/// Files of words that settings are made of, in any order: each is read, or refused with something to say.
#[test]
fn any_file_is_read_or_refused() {
    let words = [
        "=",
        " = ",
        "[",
        "]",
        "[[",
        ".",
        "\n",
        "\"",
        "'",
        "\"\"\"",
        "\\u00e9",
        "#",
        ",",
        "{",
        "}",
        "true",
        "0x10",
        "1_000",
        "-1",
        "1e400",
        "2026-11-16T07:00:00Z",
        "é",
        "\u{0}",
        "127.0.0.1:0",
        "redis://:p@h:1",
        "none",
        "ip=X",
        "18446744073709551616",
        "sliding",
        "warn,a=debug",
        "/nowhere",
        "\t",
        "listen",
    ];
    // Any number will do, and this one makes the test the same each time.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % below
    };
    let (mut read, mut refused) = (0, 0);
    for _ in 0..10_000 {
        let mut text = String::new();
        for _ in 0..next(12) {
            match next(3) {
                0 => text += TABLE[next(TABLE.len())].key,
                1 => text = text + TABLE[next(TABLE.len())].key + " = \"" + words[next(words.len())] + "\"\n",
                _ => text += words[next(words.len())],
            }
        }
        let (mut given, mut errors) = (nothing_given(), Vec::new());
        file::read_from(Path::new("tidegate.toml"), &text, &mut given, &mut errors);
        Settings::validated(Role::Node, given, &mut errors);
        if errors.is_empty() {
            read += 1;
        } else {
            refused += 1;
            assert!(!SettingErrors(errors).to_string().is_empty(), "{text}");
        }
    }
    assert!(read > 500 && refused > 500, "{read} read, {refused} refused");
}
