//! One token on four protocols: accepted, limited to what it may do, refused soon after it was revoked.

use super::*;
use crate::support::poll;
use std::time::Duration;

/// What a revocation takes: two looks at the file, and some patience for a busy machine.
const REVOKED_WITHIN: Duration = Duration::from_secs(3);

#[test]
fn a_token_works_on_every_protocol_until_it_is_revoked() {
    let directory = Directory::new();
    let token = make(&directory, "acme", "check");
    let other = make(&directory, "acme", "check");
    let node = start(&directory, &[]);
    for header in ["", "Authorization: Basic YTpi\r\n", &bearer(WRONG), &bearer(&token[..79])] {
        let (status, said) = http(&node.http, "POST /v1/check", header, CHECK);
        assert!(status == 401 && said.contains("www-authenticate: Bearer"), "{said}");
        assert!(said.contains("\"code\":\"unauthorized\"") && said.contains("tidegate token"), "{said}");
    }
    let (status, said) = check(&node, &token);
    assert!(status == 200 && said.contains("acme-only"), "{said}");

    let own = format!("X-Tidegate-Token: {token}\r\nX-Tidegate-User: 7\r\n");
    assert_eq!(http(&node.http, "GET /auth?namespace=api&attributes=user", &own, "").0, 204);
    let theirs = format!("{}X-Tidegate-User: 7\r\n", bearer(&token));
    let (status, said) = http(&node.http, "GET /auth?namespace=api&attributes=user", &theirs, "");
    assert!(status == 401 && !said.contains(&token[16..]), "Authorization there is the original caller's");
    let twice = format!("{own}X-Tidegate-Token: {token}\r\n");
    assert_eq!(http(&node.http, "GET /auth?namespace=api&attributes=user", &twice, "").0, 401);

    let json = r#"{"domain":"api","descriptors":[{"entries":[{"key":"user","value":"8"}]}]}"#;
    assert_eq!(http(&node.http, "POST /json", "", json).0, 401);
    assert_eq!(http(&node.http, "POST /json", &bearer(&token), json).0, 200);

    let authorization = format!("Bearer {token}");
    assert_eq!(grpc(&node, ("x-other", "x")).code, Some(16));
    assert_eq!(grpc(&node, ("authorization", "Bearer nonsense")).code, Some(16));
    assert_eq!(grpc(&node, ("authorization", &authorization)).code, Some(0));
    assert_eq!(grpc(&node, ("x-tidegate-token", &token)).code, Some(0));

    let mut resp = Resp::connect(&node);
    assert_eq!(resp.throttle("k"), Err(NO_AUTH.to_owned()));
    assert_eq!(resp.line("PING"), NO_AUTH);
    assert!(resp.line("HELLO 3").starts_with("-NOAUTH HELLO must be called"));
    assert_eq!(resp.line(&format!("AUTH {WRONG}")), WRONG_PASS);
    assert_eq!(resp.line(&format!("AUTH somebody {token}")), "+OK");
    assert_eq!(resp.throttle("k").unwrap()[0], 0);
    assert_eq!(resp.line(&format!("AUTH {WRONG}")), WRONG_PASS);
    assert_eq!(resp.line("PING"), "+PONG", "a wrong token changes nothing");
    let mut by_hello = Resp::connect(&node);
    assert_eq!(by_hello.line(&format!("HELLO 3 AUTH default {WRONG}")), WRONG_PASS);
    assert_eq!(by_hello.line(&format!("HELLO 3 AUTH default {token}")), "%7");

    revoke(&directory, &token);
    poll("a refusal", REVOKED_WITHIN, || (check(&node, &token).0 == 401).then_some(()));
    assert_eq!(grpc(&node, ("authorization", &authorization)).code, Some(16));
    assert_eq!(http(&node.http, "GET /auth?namespace=api&attributes=user", &own, "").0, 401);
    assert_eq!(resp.throttle("k"), Err(NO_AUTH.to_owned()), "a connection that was open before, too");
    assert_eq!(check(&node, &other).0, 200, "another token of the tenant stays");
    let new = make(&directory, "acme", "check");
    poll("the new token", REVOKED_WITHIN, || (check(&node, &new).0 == 200).then_some(()));
}

#[test]
fn a_token_may_do_what_its_permissions_say() {
    let directory = Directory::new();
    let [check_only, read, admin] =
        ["check", "read", "admin"].map(|permissions| make(&directory, "default", permissions));
    let node = start(&directory, &[]);
    for (token, may_check, may_read, may_reset) in
        [(&check_only, 200, 403, 403), (&read, 403, 200, 403), (&admin, 403, 200, 200)]
    {
        let header = bearer(token);
        assert_eq!(check(&node, token).0, may_check);
        assert_eq!(http(&node.http, "POST /v1/report", &header, CHECK).0, may_check);
        assert_eq!(http(&node.http, "POST /v1/reset", &header, CHECK).0, may_reset);
        for path in ["/v1/state", "/v1/rules", "/v1/history", "/metrics"] {
            assert_eq!(http(&node.admin, &format!("GET {path}"), &header, "").0, may_read, "{path}");
        }
    }
    let (status, said) = http(&node.http, "POST /v1/reset", &bearer(&read), CHECK);
    assert!(status == 403 && said.contains("lacks the permission `admin`"), "{said}");
    assert_eq!(grpc(&node, ("authorization", &format!("Bearer {read}"))).code, Some(7));
    let mut resp = Resp::connect(&node);
    assert_eq!(resp.line(&format!("AUTH {read}")), "+OK");
    assert!(resp.throttle("k").unwrap_err().starts_with("-NOPERM"), "a token that may only read");
    for address in [&node.http, &node.admin] {
        for path in ["GET /healthz", "GET /readyz"] {
            assert_eq!(http(address, path, "", "").0, 200, "whoever watches over nodes needs no token");
        }
    }
    assert_eq!(http(&node.admin, "GET /v1/state", "", "").0, 401);
    assert_eq!(http(&node.admin, "GET /", "", "").0, 200, "the page has no data in it");
}

#[test]
fn the_command_asks_with_a_token() {
    let directory = Directory::new();
    let token = make(&directory, "acme", "check,admin");
    let node = start(&directory, &[]);
    directory.write("the-token", format!("{token}\n"));
    let ask = |flags: &[&str], environment: &[(&str, &str)]| {
        let elsewhere = Directory::new();
        std::fs::write(elsewhere.path("the-token"), directory.read("the-token")).unwrap();
        let url = node.url();
        run(
            &elsewhere,
            &[&["check", "api", "user=1", "--cost", "0", "--url", &url], flags].concat(),
            environment,
        )
    };
    for (flags, environment) in [
        (&["--token", &*token][..], &[][..]),
        (&[], &[("TIDEGATE_TOKEN", &*token)]),
        (&[], &[("TIDEGATE_TOKEN_FILE", "the-token")]),
    ] {
        let asked = ask(flags, environment);
        assert_eq!(asked.code, Some(0), "{}", asked.stderr);
    }
    let refused = ask(&[], &[]);
    assert!(refused.code == Some(2) && refused.stderr.contains("no token"), "{}", refused.stderr);
    let wrong = ask(&["--token", "correct horse\r\nX: y"], &[]);
    assert!(wrong.code == Some(2) && !wrong.stderr.contains("horse"), "{}", wrong.stderr);
    let url = node.url();
    let reset = run(&Directory::new(), &["reset", "api", "user=1", "--url", &url, "--token", &token], &[]);
    assert_eq!(reset.code, Some(0), "{}", reset.stderr);
}
