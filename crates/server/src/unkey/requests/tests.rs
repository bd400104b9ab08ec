//! What is read, what is refused, and which field the refusal names.

use super::*;
use proptest::prelude::*;

const FULL: &str = r#"{"namespace":"api","identifier":"u","limit":10,"duration":60000,"cost":5}"#;

fn check(body: &str) -> Check<'_> {
    let mut checks = one_check(body.as_bytes()).unwrap();
    checks.pop().unwrap()
}

fn refused<T: std::fmt::Debug>(outcome: Result<T, Refusal>) -> (Code, String) {
    let refusal = outcome.unwrap_err();
    assert!(!refusal.message.is_empty() && !refusal.fix.is_empty());
    (refusal.code, refusal.field.unwrap_or_default())
}

#[test]
fn a_limit_is_read_with_a_cost_of_one_unless_it_says_otherwise() {
    let read = check(FULL);
    assert_eq!((&*read.named.namespace, &*read.named.identifier), ("api", "u"));
    assert_eq!((read.limit.get(), read.cost.get()), (10, 5));
    assert_eq!(read.period.length(), Nanos::from_secs(60));
    assert_eq!(check(&FULL.replace(",\"cost\":5", "")).cost, Cost::ONE);
    assert_eq!(check(&FULL.replace("\"cost\":5", "\"cost\":0")).cost, Cost::PEEK);
}

#[test]
fn the_bounds_are_unkeys() {
    let with =
        |from: &str, to: &str| one_check(FULL.replace(from, to).as_bytes()).map(|_| ()).map_err(|r| r.code);
    for (from, fits, beyond) in [
        (":60000", ":1000", ":999"),
        (":60000", ":2592000000", ":2592000001"),
        (":10,", ":1,", ":0,"),
        (":10,", ":9223372036854775807,", ":9223372036854775808,"),
        (":5}", ":0}", ":-1}"),
        (":5}", ":9223372036854775807}", ":9223372036854775808}"),
    ] {
        assert_eq!(with(from, fits), Ok(()), "{fits}");
        assert_eq!(with(from, beyond), Err(Code::OutOfRange), "{beyond}");
    }
    for name in ["\"api\"", "\"u\""] {
        assert_eq!(with(name, &format!("\"{}\"", "😀".repeat(512))), Ok(()));
        assert_eq!(with(name, &format!("\"{}\"", "x".repeat(513))), Err(Code::InvalidText));
        assert_eq!(with(name, "\"\""), Err(Code::InvalidText));
    }
}

#[test]
fn numbers_that_javascript_can_not_count_to_are_the_largest_that_it_can() {
    let large = (1_u64 << 62).to_string();
    let read = check(
        r#"{"namespace":"n","identifier":"i","limit":4611686018427387904,"duration":1000,"cost":4611686018427387904}"#,
    );
    assert_eq!((read.limit.get(), read.cost), (NUMBER_MAX, Cost::MAX), "{large}");
}

#[test]
fn what_is_wrong_is_named() {
    for (body, code, field) in [
        ("", Code::EmptyBody, ""),
        ("}", Code::InvalidJson, ""),
        ("[]", Code::WrongType, ""),
        (r#"{"identifier":"u","limit":10,"duration":60000}"#, Code::MissingField, "namespace"),
        (r#"{"namespace":"n","limit":10,"duration":60000}"#, Code::MissingField, "identifier"),
        (r#"{"namespace":"n","identifier":"u","duration":60000}"#, Code::MissingField, "limit"),
        (r#"{"namespace":"n","identifier":"u","limit":10}"#, Code::MissingField, "duration"),
        (r#"{"namespace":"n","async":true}"#, Code::UnknownField, "async"),
        (r#"{"namespace":"n","namespace":"n"}"#, Code::DuplicateField, "namespace"),
        (r#"{"namespace":5}"#, Code::WrongType, "namespace"),
        (r#"{"limit":"10"}"#, Code::WrongType, "limit"),
        (r#"{"limit":1.5}"#, Code::NotAnInteger, "limit"),
    ] {
        assert_eq!(refused(one_check(body.as_bytes())), (code, field.to_owned()), "{body}");
    }
}

#[test]
fn many_limits_are_one_to_a_hundred_and_each_is_named_by_its_place() {
    let many = |count: usize| format!("[{}]", vec![FULL; count].join(","));
    assert_eq!(many_checks(many(100).as_bytes()).unwrap().len(), 100);
    assert_eq!(refused(many_checks(many(101).as_bytes())), (Code::TooMany, String::new()));
    assert_eq!(refused(many_checks(b"[]")), (Code::TooMany, String::new()));
    assert_eq!(refused(many_checks(FULL.as_bytes())), (Code::WrongType, String::new()));
    let second = format!("[{FULL},{}]", FULL.replace(":10,", ":0,"));
    assert_eq!(refused(many_checks(second.as_bytes())), (Code::OutOfRange, "[1].limit".to_owned()));
}

#[test]
fn overrides_are_read_within_their_own_bounds() {
    let setting = |body: &str| {
        OverrideSetting::read(body.as_bytes()).map(|setting| setting.limit.get()).map_err(|r| r.code)
    };
    let body = r#"{"namespace":"n","identifier":"vip_*","limit":0,"duration":31622400000}"#;
    assert_eq!(setting(body), Ok(0));
    assert_eq!(setting(&body.replace("00000}", "00001}")), Err(Code::OutOfRange));
    assert_eq!(
        refused(LimitTarget::read(br#"{"namespace":"n"}"#)),
        (Code::MissingField, "identifier".to_owned())
    );
    let listing = OverrideListing::read(br#"{"namespace":"n"}"#).unwrap();
    assert_eq!((listing.count_max, listing.cursor.is_none()), (10, true));
    let listing = OverrideListing::read(br#"{"namespace":"n","limit":100,"cursor":"c"}"#).unwrap();
    assert_eq!((listing.count_max, listing.cursor.as_deref()), (100, Some("c")));
    assert_eq!(
        refused(OverrideListing::read(br#"{"namespace":"n","limit":101}"#)),
        (Code::OutOfRange, "limit".to_owned())
    );
}

proptest! {
    #[test]
    fn any_text_is_a_request_or_a_refusal(
        text in r#"(\{|\}|\[|\]|"namespace"|"identifier"|"limit"|"duration"|"cost"|"cursor"|:|,|1|60000|null|"x"| ){0,40}"#
    ) {
        let body = text.as_bytes();
        let _ = (one_check(body), many_checks(body), LimitTarget::read(body), OverrideSetting::read(body), OverrideListing::read(body));
    }
}
