//! The description of everything that a control plane answers over HTTP, as OpenAPI 3.1:
//! `crates/server/control-openapi.json`, written by hand and served as it is, by brokers too.
//!
//! Must never differ from the routes: a test compares them, and an end-to-end test has schemathesis send what the
//! document allows and what it doesn't. A new endpoint needs an entry in both.

pub(super) const DOCUMENT: &str = include_str!("../../control-openapi.json");

#[cfg(test)]
mod tests {
    use super::DOCUMENT;
    use crate::control::answer::{PATHS, endpoint};
    use hyper::Method;
    use serde_json::Value;
    use std::collections::BTreeSet;

    /// The one path that has a number in it.
    const VERSION: &str = "/v1/rules/{version}";

    fn document() -> Value {
        serde_json::from_str(DOCUMENT).unwrap()
    }

    #[test]
    fn the_document_has_every_route_and_no_other() {
        let document = document();
        let described: BTreeSet<&str> =
            document["paths"].as_object().unwrap().keys().map(String::as_str).collect();
        let routed: BTreeSet<&str> = PATHS.into_iter().chain([VERSION]).collect();
        assert_eq!(described, routed);
    }

    #[test]
    fn each_path_takes_the_methods_that_the_document_says() {
        for (path, described) in document()["paths"].as_object().unwrap() {
            let path = path.replace("{version}", "7");
            for method in [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
                let is_described = described.get(method.as_str().to_lowercase()).is_some();
                assert_eq!(is_described, endpoint(&method, &path).is_ok(), "{method} {path}");
            }
        }
    }

    #[test]
    fn the_document_is_of_this_version() {
        assert_eq!(document()["info"]["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(document()["openapi"], "3.1.0");
    }
}
