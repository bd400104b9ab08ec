//! Two tenants on one node: neither reads, changes or infers what is the other's, and neither crowds the other out.

use super::*;

const LIMIT: &str = r#"{"namespace":"shared","identifier":"me","limit":3,"duration_ms":31536000000}"#;

#[test]
fn the_same_names_are_other_counters_for_another_tenant() {
    let directory = Directory::new();
    let [acme, rival] = ["acme", "rival"].map(|tenant| make(&directory, tenant, "check,admin"));
    let node = start(&directory, &[]);
    let remaining = |token: &str, path: &str, body: &str| {
        let (_, said) = http(&node.http, &format!("POST {path}"), &bearer(token), body);
        let (_, body) = said.split_once("\r\n\r\n").unwrap();
        let answer: serde_json::Value = serde_json::from_str(body).unwrap();
        answer["limits"][0]["remaining"].as_u64().unwrap_or_else(|| panic!("{said}"))
    };
    for (path, body) in [("/v1/limit", LIMIT), ("/v1/check", CHECK)] {
        assert_eq!([2, 1, 0].map(|_| remaining(&acme, path, body)), [2, 1, 0], "{path}");
        assert_eq!(remaining(&rival, path, body), 2, "{path}");
    }
    let code = |token: &str| grpc(&node, ("x-tidegate-token", token)).body[5..7].to_vec();
    assert_eq!((code(&acme), code(&rival)), (vec![8, 2], vec![8, 1]), "over the limit, and OK");
    let throttled = |token: &str| {
        let mut resp = Resp::connect(&node);
        assert_eq!(resp.line(&format!("AUTH {token}")), "+OK");
        [(); 4].map(|()| resp.throttle("k").unwrap()[0])
    };
    assert_eq!((throttled(&acme), throttled(&rival)), ([0, 0, 0, 1], [0, 0, 0, 1]));
    assert_eq!(http(&node.http, "POST /v1/reset", &bearer(&rival), LIMIT).0, 200);
    assert_eq!(
        remaining(&acme, "/v1/limit", LIMIT),
        0,
        "another tenant's reset starts nothing of ours afresh"
    );
    assert_eq!(remaining(&rival, "/v1/limit", LIMIT), 2);
}

#[test]
fn an_idempotency_key_is_its_tenants() {
    let directory = Directory::new();
    let [acme, rival] = ["acme", "rival"].map(|tenant| make(&directory, tenant, "check"));
    let node = start(&directory, &[]);
    let ask = |token: &str, body: &str| {
        http(&node.http, "POST /v1/limit", &format!("{}Idempotency-Key: k\r\n", bearer(token)), body)
    };
    let (_, first) = ask(&acme, LIMIT);
    let (status, other) = ask(&rival, &LIMIT.replace("\"me\"", "\"somebody\""));
    assert!(status == 200 && !other.contains("idempotency-replayed"), "{other}");
    let (_, again) = ask(&acme, LIMIT);
    assert!(again.contains("idempotency-replayed: true") && first.contains("\"remaining\":2"), "{again}");
}

#[test]
fn pages_show_a_tenant_its_own_and_operators_everything() {
    let directory = Directory::new();
    let [acme, operator] = ["acme", "default"].map(|tenant| make(&directory, tenant, "check,read"));
    let node = start(&directory, &[]);
    assert_eq!(check(&node, &operator).0, 200);
    let page = |token: &str, path: &str| http(&node.admin, &format!("GET {path}"), &bearer(token), "");
    let (status, rules) = page(&acme, "/v1/rules");
    assert!(status == 200 && rules.contains("acme-only"), "{rules}");
    assert!(!rules.contains("rival") && !rules.contains("default-only"), "{rules}");
    let (status, state) = page(&acme, "/v1/state");
    assert!(status == 200 && state.contains("\"rules\":1") && !state.contains("stats"), "{state}");
    assert_eq!(page(&acme, "/metrics").0, 403);
    let (_, rules) = page(&operator, "/v1/rules");
    assert!(["acme-only", "rival-only", "default-only"].iter().all(|rule| rules.contains(rule)), "{rules}");
    assert!(page(&operator, "/v1/state").1.contains("\"requests_admitted\":1"));
    assert_eq!(page(&operator, "/metrics").0, 200);
    let info = |token: &str| {
        let mut resp = Resp::connect(&node);
        assert_eq!(resp.line(&format!("AUTH {token}")), "+OK");
        let length: usize = resp.line("INFO")[1..].parse().unwrap();
        let mut text = vec![0; length];
        resp.0.read_exact(&mut text).unwrap();
        String::from_utf8(text).unwrap()
    };
    assert!(info(&operator).contains("requests_admitted") && !info(&acme).contains("requests_admitted"));
}

#[test]
fn a_tenant_asks_why_about_its_own_and_hears_of_no_server() {
    let directory = Directory::new();
    let [acme, rival] = ["acme", "rival"].map(|tenant| make(&directory, tenant, "check,read"));
    let operator = make(&directory, "default", "check,read");
    let caller = make(&directory, "acme", "check");
    let node = start(&directory, &["--node", "secret-node"]);
    for _ in 0..4 {
        assert_eq!(http(&node.http, "POST /v1/limit", &bearer(&acme), LIMIT).0, 200);
    }
    let why =
        |token: &str, query: &str| http(&node.admin, &format!("GET /v1/why?{query}"), &bearer(token), "");
    let (status, own) = why(&acme, "identifier=me");
    assert!(status == 200 && own.contains("\"cause\":\"limit_used\""), "{own}");
    assert!(!own.contains("secret-node"), "{own}");
    for query in ["identifier=me", "tenant=acme", "namespace=shared"] {
        let (status, others) = why(&rival, query);
        assert!(status == 200 && others.contains("\"decisions\":[]"), "{query}: {others}");
    }
    let (_, all) = why(&operator, "tenant=acme");
    assert!(all.contains("secret-node") && all.contains("\"tenant\":\"acme\""), "{all}");
    assert_eq!(why(&caller, "identifier=me").0, 403, "it takes the permission to read");
}

/// As many as fit, ten times over, from one tenant; then the other one's, within its half.
#[test]
fn a_flood_of_one_tenant_leaves_the_other_its_share() {
    const KEYS_MAX: usize = 1000;
    let directory = Directory::new();
    let [flooder, victim] = ["flooder", "victim"].map(|tenant| make(&directory, tenant, "check"));
    let node = start(&directory, &["--memory-max-keys", "1000"]);
    let mut flood = Resp::connect(&node);
    assert_eq!(flood.line(&format!("AUTH {flooder}")), "+OK");
    let mut resp = Resp::connect(&node);
    assert_eq!(resp.line(&format!("AUTH {victim}")), "+OK");
    let mut flood = |from: usize, count: usize| {
        for number in from..from + count {
            assert_eq!(flood.throttle(&format!("flood-{number}")).unwrap()[0], 0, "of class paid: admitted");
        }
    };
    flood(0, 10 * KEYS_MAX);
    // A node that is alone keeps half of its table free for two tenants: a quarter for each.
    let sure = KEYS_MAX / 4 * 8 / 10;
    for round in 0..4 {
        for number in 0..sure {
            let [limited, limit, remaining, ..] = resp.throttle(&format!("k{number}")).unwrap();
            let wanted = if round < 3 { (0, 3, 2 - round) } else { (1, 3, 0) };
            assert_eq!((limited, limit, remaining), wanted, "key {number} in round {round}");
        }
        let from = 10 * KEYS_MAX + usize::try_from(round).unwrap() * KEYS_MAX;
        flood(from, KEYS_MAX);
    }
}
