//! Requests that make no sense: 4xx with code, message and fix, and nothing is written.

use crate::scene::Server;
use crate::support::{request, request_with};
use crate::{RULES, ready};

#[test]
fn whatever_is_sent_is_answered_with_what_is_wrong_and_changes_nothing() {
    let server = ready(Server::control());
    server.push(RULES);
    let cases = [
        ("GET", "/v1/rulez", "", 404, "unknown_path"),
        ("GET", "/v1/rules/0", "", 404, "not_found"),
        ("GET", "/v1/rules/99", "", 404, "not_found"),
        ("GET", "/v1/rules/18446744073709551615", "", 404, "not_found"),
        ("GET", "/v1/rules?namespase=x", "", 400, "unknown_field"),
        ("GET", "/v1/rules/history?limit=x", "", 400, "not_an_integer"),
        ("GET", "/v1/rules/export?after=zz", "", 400, "invalid_text"),
        ("GET", "/v1/overrides", "", 400, "missing_field"),
        ("DELETE", "/v1/rules", "", 405, "wrong_method"),
        ("POST", "/v1/rules", "", 400, "invalid_json"),
        ("POST", "/v1/rules", "[]", 400, "wrong_type"),
        ("POST", "/v1/rules", "{}", 400, "wrong_type"),
        ("POST", "/v1/rules", r#"{"files":[]}"#, 400, "too_many"),
        ("POST", "/v1/rules", r#"{"files":[{"name":"a"}]}"#, 400, "missing_field"),
        ("POST", "/v1/rules", r#"{"files":[{"name":"a","text":""}]}"#, 400, "invalid_rules"),
        ("POST", "/v1/rules", r#"{"files":[{"name":"a","text":"{"}]}"#, 400, "invalid_rules"),
        (
            "POST",
            "/v1/rules",
            r#"{"files":[{"name":"a","text":"namespace: x"}],"replace":"some"}"#,
            400,
            "unknown_value",
        ),
        (
            "POST",
            "/v1/rules",
            r#"{"files":[{"name":"a","text":"namespace: x"}],"dry":true}"#,
            400,
            "unknown_field",
        ),
        (
            "POST",
            "/v1/rules",
            r#"{"files":[{"name":"a","text":"namespace: x"}],"reason":"a\nb"}"#,
            400,
            "invalid_text",
        ),
        ("POST", "/v1/rules/rollback", "{}", 400, "wrong_type"),
        ("POST", "/v1/rules/rollback", r#"{"version":-1}"#, 400, "wrong_type"),
        ("POST", "/v1/rules/mode", r#"{"mode":"on"}"#, 400, "out_of_range"),
        ("PUT", "/v1/overrides", r#"{"namespace":"api"}"#, 400, "wrong_type"),
        (
            "PUT",
            "/v1/overrides",
            r#"{"namespace":"api","override":{"rule":"per-user","user":"a","limit":-1}}"#,
            400,
            "invalid_rules",
        ),
        ("POST", "/v1/rules/import", "{}", 400, "invalid_json"),
        ("POST", "/v1/rules/import", "\u{0}", 400, "invalid_json"),
        ("POST", "/v1/rules/restore", r#"{"version":1}"#, 400, "invalid_json"),
    ];
    for (method, path, body, status, code) in cases {
        let (answered, answer) = request(&server.address, method, path, body);
        assert_eq!(
            (answered, answer["error"]["code"].as_str()),
            (status, Some(code)),
            "{method} {path} {body}: {answer}"
        );
        for field in ["message", "fix"] {
            assert!(answer["error"][field].as_str().is_some_and(|text| !text.is_empty()), "{path}: {answer}");
        }
    }
    let long = request_with(&server.address, "POST /v1/rules", "", &"x".repeat((16 << 20) + 1));
    assert!(long.starts_with("HTTP/1.1 413"), "{}", &long[..60]);
    let page = request_with(&server.address, "GET /v1/rules", "Origin: http://evil.example\r\n", "");
    assert!(page.starts_with("HTTP/1.1 403") && page.contains("cross_site"), "{page}");
    assert_eq!(server.get("/v1/rules")["version"], 1);
}
