//! Tokens without a network.

use super::*;
use crate::token::NewToken;
use hyper::header::HeaderValue;

fn record(token: &NewToken, tenant: &str, permissions: Permissions) -> TokenRecord {
    TokenRecord { id: token.id, hash: token.hash(), tenant: tenant.to_owned(), permissions }
}

fn check_only() -> Permissions {
    Permissions::default().with(Permission::Check)
}

#[test]
fn a_token_is_its_tenants_until_it_is_revoked() {
    let token = NewToken::generate().unwrap();
    let text = token.reveal();
    let tokens = Tokens::required(vec![record(&token, "acme", check_only())]);
    let last = LastCaller::default();
    for _ in 0..2 {
        let caller = last.caller(&tokens, Some(text.as_bytes())).unwrap();
        assert_eq!(caller.tenant(), "acme");
        assert!(caller.require(Permission::Check).is_ok() && !caller.is_operator());
        assert_eq!(caller.require(Permission::Admin).unwrap_err().code, Code::Forbidden);
    }
    tokens.replace(Vec::new());
    let refused = last.caller(&tokens, Some(text.as_bytes())).unwrap_err();
    assert_eq!(refused.code, Code::Unauthorized);
}

#[test]
fn a_wrong_secret_is_refused_after_a_right_one_on_the_same_connection() {
    let token = NewToken::generate().unwrap();
    let tokens = Tokens::required(vec![record(&token, "acme", check_only())]);
    let last = LastCaller::default();
    let text = token.reveal();
    last.caller(&tokens, Some(text.as_bytes())).unwrap();
    let mut wrong = text.clone().into_bytes();
    if let Some(digit) = wrong.last_mut() {
        *digit = if *digit == b'0' { b'1' } else { b'0' };
    }
    for presented in [&wrong[..], b"", &text.as_bytes()[..79], format!("{text}0").as_bytes()] {
        assert!(last.caller(&tokens, Some(presented)).is_err());
    }
    assert!(last.caller(&tokens, None).is_err());
    assert!(last.caller(&tokens, Some(text.as_bytes())).is_ok());
}

#[test]
fn without_a_token_file_everybody_is_default_and_a_token_is_ignored() {
    let (tokens, last) = (Tokens::not_required(), LastCaller::default());
    for presented in [None, Some(&b"anything"[..])] {
        let caller = last.caller(&tokens, presented).unwrap();
        assert!(caller.is_operator() && Permission::ALL.into_iter().all(|permission| caller.may(permission)));
    }
    tokens.replace(Vec::new());
    assert!(last.caller(&tokens, None).is_ok());
}

#[test]
fn admin_includes_reading_and_not_checking() {
    let admin = Permissions::default().with(Permission::Admin);
    assert!(admin.allow(Permission::Read) && !admin.allow(Permission::Check));
    assert!(!check_only().allow(Permission::Read));
}

#[test]
fn a_token_is_found_where_it_may_be() {
    let mut headers = HeaderMap::new();
    assert_eq!(presented(&headers), None);
    headers.insert(AUTHORIZATION, HeaderValue::from_static("Basic dXNlcg=="));
    assert_eq!(presented(&headers), None);
    headers.insert(AUTHORIZATION, HeaderValue::from_static("bearer  tg_x "));
    assert_eq!(presented(&headers), Some(&b"tg_x"[..]));
    assert_eq!(own_header(&headers), None);
    let mut twice = headers.clone();
    twice.append(AUTHORIZATION, HeaderValue::from_static("Bearer tg_z"));
    assert_eq!(presented(&twice), None);
    headers.insert(TOKEN_HEADER, HeaderValue::from_static("tg_y"));
    assert_eq!((presented(&headers), own_header(&headers)), (Some(&b"tg_y"[..]), Some(&b"tg_y"[..])));
    headers.append(TOKEN_HEADER, HeaderValue::from_static("tg_z"));
    assert_eq!(presented(&headers), Some(&b""[..]), "a second one makes both unbelievable");
}
