//! `normalize`: values in one form before conditions, keys and overrides see them.

mod reading;

use reading::{ask, limited, parse, rules};

const RULES: &str = r#"
namespace: api
normalize: { path: path, user: lower, route: [path, lower] }
rules:
  - { name: search, key: [user, path], when: { path: "/search*" }, limit: 2 per 1m }
  - { name: route, key: [route], when: { route: ["/Admin", "/Users/*"] }, limit: 3 per 1m }
overrides:
  - { rule: search, user: "ANN", limit: 9 }
  - { rule: search, user: "Big-*", limit: 8 }
"#;

#[test]
fn spellings_of_a_path_meet_one_condition_and_one_counter() {
    let set = rules(RULES);
    let key = |path: &str| limited(&set, &[("user", "bob"), ("path", path)]).0;
    for spelling in ["/search?q=1", "//search", "/%73earch", "/./search", "/x/../search?a=/b", "/search#top"]
    {
        assert_eq!(key(spelling), key("/search"), "{spelling}");
    }
    assert_ne!(key("/search/deep"), key("/search"));
    assert!(ask(&set, &[("user", "bob"), ("path", "/Search")]).is_empty(), "case stays");
}

#[test]
fn conditions_and_overrides_are_brought_into_the_same_form() {
    let set = rules(RULES);
    assert_eq!(ask(&set, &[("user", "Ann"), ("path", "/search")]), ["search 9"]);
    assert_eq!(ask(&set, &[("user", "BIG-corp"), ("path", "/search")]), ["search 8"]);
    assert_eq!(ask(&set, &[("route", "/ADMIN?x")]), ["route 3"]);
    assert_eq!(ask(&set, &[("route", "//users/7")]), ["route 3"]);
}

#[test]
fn a_namespace_says_it_once_or_always_alike_and_others_are_left_alone() {
    let set = rules(
        "namespace: other\nrules: [{ name: r, key: [path], limit: 1 per 1m }]\n---\n\
         namespace: api\nrules: [{ name: r, key: [path], limit: 1 per 1m }]\n---\n\
         namespace: api\nnormalize: { path: path }",
    );
    assert_eq!(limited(&set, &[("path", "/a?1")]).0, limited(&set, &[("path", "/a?2")]).0);
    let other = |path| reading::said(&set, "other", &[("path", path)], reading::at(reading::NOW));
    assert_eq!(other("/a?1"), ["r 1"]);
    let errors =
        parse("namespace: api\nnormalize: { a: path }\n---\nnamespace: api\nnormalize: { a: lower }\n");
    assert!(errors.unwrap_err().to_string().contains("differs from what"));
}

#[test]
fn what_is_wrong_with_it_is_said() {
    for (text, expected) in [
        ("[path]", "expected attributes"),
        ("{ path: pth }", "did you mean `path`?"),
        ("{ path: [path, address] }", "can't be together"),
        ("{ path: [] }", "an empty list"),
        ("{ 'a b': path }", "isn't an attribute's name"),
    ] {
        let errors =
            parse(format!("namespace: api\nnormalize: {text}\nrules: []\n")).unwrap_err().to_string();
        assert!(errors.contains(expected), "{text}: {errors}");
    }
}

#[test]
fn descriptions_name_it() {
    let described = rules(RULES).describe(tidegate_core::Nanos::ZERO).to_string();
    assert!(described.contains("path normalized as path, route normalized as [path, lower]"), "{described}");
}
